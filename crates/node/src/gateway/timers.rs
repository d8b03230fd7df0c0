//! What happens because nothing happened: heartbeats, lost sessions, connections that stall.

use weir_types::{Nanos, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::session::{Heartbeat, Logout};

use super::Gateway;
use super::connection::{Connection, ConnectionId};
use super::directory::KnownSession;

/// How often each connection's timers are looked at.
const TIMER_INTERVAL: u64 = 20_000_000;
/// Connections whose timers are looked at in one go: with more of them the interval is shared out,
/// so that no order waits for all of them at once.
const SLOTS_MAX: usize = 256;
/// Heartbeat intervals of silence after which a session counts as lost, times ten.
const SILENCE_TENTHS: u64 = 25;

impl Gateway {
    /// Looks at every connection's timers.
    pub(super) fn run_timers(&mut self, now: Nanos) {
        let slots = self.connections.slot_count();
        let turns = slots.div_ceil(SLOTS_MAX).max(1);
        self.timers_at = Nanos(now.0 + TIMER_INTERVAL / turns as u64);
        let first = std::mem::take(&mut self.timer_slot);
        if first + SLOTS_MAX < slots {
            self.timer_slot = first + SLOTS_MAX;
        }
        let ids = self.connections.ids_from(first, SLOTS_MAX);
        for &id in &ids {
            let Some(mut connection) = self.connections.take(id) else { continue };
            let expired = connection.closing_by.is_some_and(|by| now >= by);
            if expired {
                self.drop_connection(connection, now);
                continue;
            }
            connection.tidy_output(now);
            self.check_stall(&mut connection, now);
            self.check_lobby(&mut connection, now);
            for session_id in connection.sessions.clone() {
                self.check_session(&mut connection, session_id, now);
            }
            self.connections.put_back(connection);
        }
        self.end_lost_sessions(now);
        self.resume_pages(&ids);
        if self.timer_slot == 0 {
            self.publish_status();
        }
    }

    fn check_stall(&mut self, connection: &mut Connection, now: Nanos) {
        let stalled =
            connection.stalled_since.is_some_and(|t| now.since(t) > self.config.stall_max);
        if stalled && connection.closing_by.is_none() {
            self.counters.slow_consumers += 1;
            self.close(connection, Reason::SlowConsumer, now);
        }
    }

    fn check_lobby(&mut self, connection: &mut Connection, now: Nanos) {
        if !connection.sessions.is_empty() || connection.closing_by.is_some() {
            return;
        }
        self.lobby.left_alone(connection.id, now);
        if self.lobby.is_overdue(connection.id, now) {
            self.counters.logon_timeouts += 1;
            self.close(connection, Reason::LogonTimeout, now);
        }
    }

    fn check_session(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        let Some(session) = self.sessions.logged_on(id, connection.id) else { return };
        if KnownSession::is_over(session.valid_until, now) {
            self.counters.keys_ended += 1;
            self.tell_loss(connection, id, "its key has expired", now);
            self.lose(connection, id, Reason::KeyExpired);
            return;
        }
        let interval = session.heartbeat_interval.0;
        if now.since(session.heard_at.max(connection.received_at)).0 * 10
            > interval * SILENCE_TENTHS
        {
            self.tell_loss(connection, id, "no heartbeat", now);
            self.lose(connection, id, Reason::HeartbeatLost);
            return;
        }
        let is_quiet = now.since(session.said_at).0 >= interval;
        if !session.copy_streams.is_empty() {
            self.put_copy_marks(connection, (id, interval), now);
        }
        if is_quiet {
            self.put_heartbeats(connection, id, now);
        }
    }

    fn put_heartbeats(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.said_at = now;
        let load_permille = self.load_permille();
        let Some(session) = self.sessions.get(id) else { return };
        for (stream, port) in session.streams.iter().zip(&self.ports) {
            let heartbeat = Heartbeat {
                sending_time: now,
                high_water: weir_types::EventNo(stream.next_event_no().0 - 1),
                session_id: id,
                partition_id: port.ring.partition_id,
                load_permille,
            };
            put_frame(&heartbeat, &mut connection.output);
        }
        self.flush_list.add(connection);
    }

    /// How full the fullest ring towards a partition is, in thousandths.
    fn load_permille(&self) -> u16 {
        let used = |port: &super::Port| {
            let ring = &port.ring.submissions;
            let capacity = ring.buffer().capacity();
            (capacity - ring.slots()) * 1000 / capacity
        };
        self.ports.iter().map(used).max().map_or(0, |load| load as u16)
    }

    fn lose(&mut self, connection: &mut Connection, id: SessionId, reason: Reason) {
        connection.sessions.retain(|session| *session != id);
        self.end_session(id);
        put_frame(&Logout { session_id: id, reason }, &mut connection.output);
        self.flush_list.add(connection);
    }

    /// Ends sessions that were too slow for longer than their events are kept, and those whose key
    /// was replaced.
    fn end_lost_sessions(&mut self, now: Nanos) {
        for id in std::mem::take(&mut self.lost_sessions) {
            let Some(session) = self.sessions.get_mut(id) else { continue };
            let (ending, connection) = (session.ending.take(), session.connection);
            let Some(reason) = ending else { continue };
            let Some(mut connection) = connection.and_then(|c| self.connections.take(c)) else {
                continue;
            };
            let why = if reason == Reason::KeyReplaced {
                self.counters.keys_ended += 1;
                "its key is not the one that it has now"
            } else {
                self.counters.slow_consumers += 1;
                "too slow for what is kept"
            };
            self.tell_loss(&connection, id, why, now);
            self.lose(&mut connection, id, reason);
            self.connections.put_back(connection);
        }
    }

    /// Lets pages flow again to those of the connections that caught up with theirs.
    fn resume_pages(&mut self, ids: &[ConnectionId]) {
        let half = self.config.output_len_max / 2;
        for &id in ids {
            if let Some(connection) = self.connections.get_mut(id)
                && connection.pages_paused
                && connection.has_room(half)
            {
                connection.pages_paused = false;
                self.delivery.set_writable(id, true);
            }
        }
    }
}
