//! Timeouts: heartbeats, lost sessions, stalled connections.

use weir_door::directory::KnownSession;
use weir_door::socket::SILENCE_TENTHS;
use weir_runtime::cycle_clock::STEP_MIN;
use weir_types::{Nanos, Reason, SessionId, WallOffset};
use weir_wire::session::Heartbeat;

use super::connection::Connection;
use super::fairness::DEADLINES_MAX;
use super::plant::{self, Plant};
use super::protocol::Answer;
use super::{Gateway, Port};

/// How often others see the counters.
pub(super) const STATUS_INTERVAL: u64 = 50_000_000;

impl Gateway {
    /// Handles a limited number of connections whose deadline has passed; returns their number. A
    /// connection has one deadline, the earliest of all that apply. An event that postpones one
    /// leaves the timer in place, which then fires once in vain.
    pub(super) fn run_timers(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < DEADLINES_MAX {
            let Some(slot) = self.timers.next_due(now) else { break };
            count += 1;
            let id = self.connections.in_slot(slot).map(|connection| connection.id);
            let Some(connection) = id.and_then(|id| self.connections.take(id)) else { continue };
            self.run_timer(connection, now);
        }
        if now >= self.status_at {
            self.status_at = Nanos(now.0 + STATUS_INTERVAL);
            self.publish_status();
        }
        count
    }

    /// Notes the distance of the wall clock. After a step, keys expire sooner or later than the
    /// timers of their sessions say.
    pub(super) fn follow_wall_clock(&mut self, wall: WallOffset) {
        let step = self.reception.directory.wall_clock_moved(wall);
        if step.unsigned_abs() < STEP_MIN {
            return;
        }
        for connection in self.connections.iter_mut() {
            for session in connection.sessions.iter().filter_map(|id| self.sessions.get(*id)) {
                if let Some(at) = self.reception.directory.expires_at(session.valid_until) {
                    self.timers.set_no_later_than(connection.id.slot(), at);
                }
            }
        }
    }

    fn run_timer(&mut self, mut connection: Box<Connection>, now: Nanos) {
        if connection.closing_by.is_some_and(|by| now >= by) {
            self.drop_connection(connection, now);
            return;
        }
        connection.tidy_output(now);
        self.check_stall(&mut connection, now);
        self.check_lobby(&mut connection, now);
        for session_id in connection.sessions.clone() {
            self.check_session(&mut connection, session_id, now);
        }
        self.set_timer(&mut connection, now);
        self.connections.put_back(connection.id, connection);
    }

    /// Sets a connection's deadline again, after an event that may bring it forward.
    pub(super) fn set_timer(&mut self, connection: &mut Connection, now: Nanos) {
        if connection.sessions.is_empty() && connection.closing_by.is_none() {
            self.lobby.left_alone(connection.id, now);
        }
        match self.deadline_of(connection).filter(|_| !plant::is(Plant::DeadlineForgotten)) {
            Some(deadline) => self.timers.set(connection.id.slot(), deadline),
            None => self.timers.cancel(connection.id.slot()),
        }
    }

    /// Brings a connection's deadline forward to the first that a write can start.
    pub(super) fn set_output_timer(&mut self, connection: &Connection) {
        let stalled = self.stalls_at(connection);
        if let Some(at) = stalled.into_iter().chain(connection.output_idle_at()).min() {
            self.timers.set_no_later_than(connection.id.slot(), after(at));
        }
    }

    fn stalls_at(&self, connection: &Connection) -> Option<Nanos> {
        let stall_max = self.config.stall_max.0;
        connection.stalled_since.map(|since| Nanos(since.0 + stall_max))
    }

    /// Returns the time at which a connection must be checked next.
    fn deadline_of(&self, connection: &Connection) -> Option<Nanos> {
        if let Some(by) = connection.closing_by {
            return Some(by);
        }
        let of_output = self.stalls_at(connection).into_iter().chain(connection.output_idle_at());
        let of_sessions = connection.sessions.iter().filter_map(|id| {
            let session = self.sessions.get(*id)?;
            let interval = session.heartbeat_interval;
            let heard_at = session.heard_at.max(connection.received_at);
            let silent_at = Nanos(heard_at.0 + interval.0 * SILENCE_TENTHS / 10);
            let speaks_at = Nanos(session.said_at.0 + heartbeat_after(interval, *id).0);
            let first = silent_at.min(speaks_at);
            let ends_at = self.reception.directory.expires_at(session.valid_until);
            let told = session.copy_streams.iter().filter_map(|key| self.copies.told_at(*key));
            let marks = told.map(|told_at| Nanos(told_at.0 + interval.0));
            marks.chain(ends_at).chain([first]).min()
        });
        let in_lobby = self.lobby.deadline_of(connection.id);
        of_output.chain(of_sessions).chain(in_lobby).min().map(after)
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
        if self.lobby.is_overdue(connection.id, now) {
            self.counters.logon_timeouts += 1;
            self.close(connection, Reason::LogonTimeout, now);
        }
    }

    fn check_session(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        let Some(session) = self.sessions.logged_on(id, connection.id) else { return };
        let wall = self.reception.directory.wall_at(now);
        if KnownSession::is_over(session.valid_until, wall) {
            self.counters.keys_ended += 1;
            let why = "its key has expired";
            self.lines.lost(&mut self.counters, connection, id, why, now);
            self.lose(connection, id, Reason::KeyExpired);
            return;
        }
        if !connection.is_heard() && !plant::is(Plant::SilenceWhileWaiting) {
            // Its heartbeats may wait behind a message whose destination is full: its silence
            // counts from the last check before it is read again.
            connection.received_at = now;
        }
        let interval = session.heartbeat_interval.0;
        let until = if plant::is(Plant::SilenceByWallClock) { wall } else { now };
        if until.since(session.heard_at.max(connection.received_at)).0 * 10
            > interval * SILENCE_TENTHS
        {
            self.lines.lost(&mut self.counters, connection, id, "no heartbeat", now);
            self.lose(connection, id, Reason::HeartbeatLost);
            return;
        }
        let until = if plant::is(Plant::HeartbeatsByWallClock) { wall } else { now };
        let speaks =
            until.since(session.said_at) >= heartbeat_after(session.heartbeat_interval, id);
        if !session.copy_streams.is_empty() {
            self.put_copy_marks(connection, id, interval, now);
        }
        if speaks && (connection.is_heard() || !plant::is(Plant::NoHeartbeatsWhileWaiting)) {
            self.put_heartbeats(connection, id, now);
        }
    }

    fn put_heartbeats(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.said_at = now;
        let wall = self.reception.directory.wall_at(now);
        let Some(session) = self.sessions.get(id) else { return };
        for (stream, port) in session.streams.iter().zip(&self.ports) {
            if stream.is_away {
                continue;
            }
            let heartbeat = Heartbeat {
                sending_time: wall,
                high_water: weir_types::EventNo(stream.next_event_no().0.saturating_sub(1)),
                session_id: id,
                partition_id: port.ring.partition_id,
                load_permille: load_permille(port),
            };
            connection.put(&Answer::Heartbeat(&heartbeat));
        }
        self.flush_list.add(connection);
    }

    fn lose(&mut self, connection: &mut Connection, id: SessionId, reason: Reason) {
        connection.sessions.retain(|session| *session != id);
        let session = self.sessions.get_mut(id);
        match session.is_some_and(|session| std::mem::take(&mut session.leaves)) {
            // It goes on at another gateway, or logs on again.
            true => self.leave_session(id),
            false => self.end_session(id),
        }
        connection.put(&Answer::Logout { session_id: id, reason });
        self.flush_list.add(connection);
    }

    /// Ends sessions that were behind for longer than their events are retained, and those whose
    /// key was replaced or that have lost their rights.
    pub(super) fn end_lost_sessions(&mut self, now: Nanos) {
        for id in std::mem::take(&mut self.lost_sessions) {
            let Some(session) = self.sessions.get_mut(id) else { continue };
            let (ending, connection) = (session.ending.take(), session.connection);
            let Some(reason) = ending else { continue };
            let Some(mut connection) = connection.and_then(|c| self.connections.take(c)) else {
                continue;
            };
            let why = match reason {
                Reason::KeyReplaced => "its key is not the one that it has now",
                Reason::NotEntitled => "its firm or role is not the one that it has now",
                Reason::KeyExpired => "its key has expired",
                Reason::TakenOver => "another gateway has it",
                Reason::PartitionAway => "a link began anew",
                Reason::ResumeOutOfRange | Reason::ResumeOtherHistory => "its events are gone",
                _ => "too slow for what is kept",
            };
            match reason {
                Reason::KeyReplaced | Reason::NotEntitled | Reason::KeyExpired => {
                    self.counters.keys_ended += 1;
                }
                Reason::TakenOver => self.counters.sessions_taken_over += 1,
                Reason::PartitionAway
                | Reason::ResumeOutOfRange
                | Reason::ResumeOtherHistory
                | Reason::UnknownSession => {}
                _ => self.counters.slow_consumers += 1,
            }
            self.lines.lost(&mut self.counters, &connection, id, why, now);
            self.lose(&mut connection, id, reason);
            // Without a session it has a newcomer's time limit from now on.
            self.set_timer(&mut connection, now);
            self.connections.put_back(connection.id, connection);
        }
    }

    /// Resumes pages to a connection that has room again.
    pub(super) fn resume_pages(&mut self, connection: &mut Connection) {
        if connection.pages_paused && connection.has_room(self.config.output_len_max / 2) {
            connection.pages_paused = false;
            self.delivery.set_writable(connection.id, true);
        }
    }
}

/// Returns the first time after a deadline: it is missed after its time, not at it.
pub(super) fn after(at: Nanos) -> Nanos {
    Nanos(at.0 + 1)
}

/// Returns the time after the last message to a session until its heartbeat: the interval or up to
/// an eighth less, different per session, so that sessions that logged on together do not stay in
/// step.
fn heartbeat_after(interval: Nanos, id: SessionId) -> Nanos {
    let part = u64::from(id.0.wrapping_mul(0x9e37_79b9) >> 24);
    Nanos(interval.0 - interval.0 / 8 * part / 256)
}

/// Returns the load of a port's partition, in thousandths: the fill level of the ring to it, or the
/// load that it tells by its link.
fn load_permille(port: &Port) -> u16 {
    let ring = &port.ring.submissions;
    let capacity = ring.buffer().capacity();
    let used = (capacity - ring.slots()) * 1_000 / capacity;
    let told = port.link.as_ref().map_or(0, |link| link.load_permille);
    told.max(used as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_of_sessions_that_came_at_once_are_spread_and_never_late() {
        let interval = Nanos(60_000_000_000);
        let mut times: Vec<u64> =
            (1..=1_000).map(|id| heartbeat_after(interval, SessionId(id)).0).collect();
        times.sort_unstable();
        assert!(times[0] >= interval.0 / 8 * 7 && times[999] <= interval.0, "{times:?}");
        // At most a few of a thousand in a thousandth of the interval.
        let most = times.chunk_by(|a, b| b - a < interval.0 / 4_000).map(<[u64]>::len).max();
        assert!(most < Some(16), "{most:?}");
    }
}
