//! Sessions come and go: logon with resume, logout, and what a lost connection means.

use weir_types::{Nanos, PartitionId, Reason, Role, SessionId, Switch};
use weir_wire::Command;
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::put_frame;
use weir_wire::group::Group;
use weir_wire::reference::SessionLost;
use weir_wire::session::{Logon, LogonAck, LogonReject, Logout, PartitionState, ResumePoint};

use super::Gateway;
use super::connection::Connection;
use super::intake::ERRORS_MAX;
use super::sessions::{Behind, Session};
use crate::handoff::Submission;

/// The longest heartbeat interval that is granted, in milliseconds.
const HEARTBEAT_MAX_MS: u32 = 60_000;
/// The shortest.
const HEARTBEAT_MIN_MS: u32 = 100;
/// How long a closing connection may take to read its last words.
const CLOSING_TIME: u64 = 1_000_000_000;

impl Gateway {
    /// Opens a session on a connection, or says why not.
    pub(super) fn log_on(
        &mut self,
        connection: &mut Connection,
        logon: &Logon,
        points: Group<'_, ResumePoint>,
        now: Nanos,
    ) {
        match self.try_log_on(connection, logon, points, now) {
            Ok(()) => self.acknowledge_logon(connection, logon.session_id, now),
            Err(reject) => {
                put_frame(&reject, &mut connection.output);
                self.counters.logons_refused += 1;
                connection.error_count += 1;
                if matches!(reject.reason, Reason::UnknownKey | Reason::NotYourSession) {
                    // Neither keys nor sessions are guessed on one connection.
                    self.close(connection, reject.reason, now);
                } else if connection.error_count >= ERRORS_MAX {
                    self.close(connection, Reason::TooManyErrors, now);
                }
            }
        }
        self.flush_list.add(connection);
    }

    fn try_log_on(
        &mut self,
        connection: &mut Connection,
        logon: &Logon,
        points: Group<'_, ResumePoint>,
        now: Nanos,
    ) -> Result<(), LogonReject> {
        let refused = |reason| LogonReject {
            oldest_event_no: weir_types::EventNo::NONE,
            next_event_no: weir_types::EventNo::NONE,
            session_id: logon.session_id,
            partition_id: PartitionId(0),
            reason,
        };
        let known =
            self.directory.authenticate(logon.session_id, &logon.api_key).map_err(refused)?;
        let session = self.sessions.entry(logon.session_id);
        if session.connection.is_some() {
            return Err(refused(Reason::AlreadyLoggedOn));
        }
        // All points are checked before any is applied: a refused logon changes nothing.
        let mut starts = vec![weir_types::EventNo::NONE; session.streams.len()];
        for point in points {
            let Ok(point) = point else { return Err(refused(Reason::FieldOutOfRange)) };
            let port = self.ports.iter().position(|p| p.ring.partition_id == point.partition_id);
            let Some(port) = port else { return Err(refused(Reason::WrongPartition)) };
            if let Err((oldest, next)) = session.streams[port].check_resume(point.next_event_no) {
                return Err(LogonReject {
                    oldest_event_no: oldest,
                    next_event_no: next,
                    partition_id: point.partition_id,
                    ..refused(Reason::ResumeOutOfRange)
                });
            }
            starts[port] = point.next_event_no;
        }
        for (stream, start) in session.streams.iter_mut().zip(starts) {
            assert!(stream.resume(start).is_ok(), "every start was checked");
        }
        let heartbeat_ms = logon.heartbeat_interval_ms.clamp(HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
        session.heartbeat_interval = Nanos(u64::from(heartbeat_ms) * 1_000_000);
        session.cancel_on_disconnect = logon.cancel_on_disconnect;
        session.firm_id = known.firm_id;
        session.role = known.role;
        session.connection = Some(connection.id);
        session.heard_at = now;
        session.said_at = now;
        connection.sessions.push(logon.session_id);
        Ok(())
    }

    fn acknowledge_logon(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        self.lobby.logged_on(connection.id);
        let Some(session) = self.sessions.get(id) else { return };
        let ack = LogonAck {
            server_time: now,
            session_id: id,
            firm_id: session.firm_id,
            heartbeat_interval_ms: (session.heartbeat_interval.0 / 1_000_000) as u32,
            role: session.role,
        };
        let states = self.partition_states(session);
        put_logon_ack(&ack, &states, &mut connection.output);
        for port in 0..self.ports.len() {
            self.behind.add(Behind { session_id: id, port });
        }
    }

    fn partition_states(&self, session: &Session) -> Vec<PartitionState> {
        let with_ports = session.streams.iter().zip(&self.ports);
        with_ports
            .map(|(stream, port)| PartitionState {
                last_request_no: stream.last_request_no(),
                next_event_no: stream.next_event_no(),
                oldest_event_no: stream.oldest(),
                partition_id: port.ring.partition_id,
            })
            .collect()
    }

    /// Closes a session in order, or the whole connection when the session is zero. The orders of
    /// a session that logs out stay, unless it chose cancel-on-disconnect.
    pub(super) fn log_out(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        if id.is_none() {
            self.close(connection, Reason::LogoutRequested, now);
            return;
        }
        if self.sessions.logged_on(id, connection.id).is_none() {
            return;
        }
        connection.sessions.retain(|session| *session != id);
        self.end_session(id);
        put_frame(
            &Logout { session_id: id, reason: Reason::LogoutRequested },
            &mut connection.output,
        );
        self.flush_list.add(connection);
    }

    /// Tells the peer why and closes the connection once that is sent.
    pub(super) fn close(&mut self, connection: &mut Connection, reason: Reason, now: Nanos) {
        if connection.closing_by.is_some() {
            return;
        }
        put_frame(&Logout { session_id: SessionId::NONE, reason }, &mut connection.output);
        connection.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
        for id in std::mem::take(&mut connection.sessions) {
            self.end_session(id);
        }
        self.flush_list.add(connection);
    }

    /// Forgets a connection whose peer is gone.
    pub(super) fn drop_connection(&mut self, mut connection: Box<Connection>, _now: Nanos) {
        for id in std::mem::take(&mut connection.sessions) {
            self.counters.sessions_lost += 1;
            self.end_session(id);
        }
        self.lobby.gone(connection.id);
        if connection.closing_by.is_some() {
            self.counters.connections_cut += 1;
        } else {
            self.counters.connections_gone += 1;
        }
        // A socket that is closed leaves the poll by itself; an error here changes nothing.
        drop(self.poll.registry().deregister(&mut connection.stream));
        self.delivery.connection_is_gone(connection.id);
        self.connections.release(connection.id);
    }

    /// Takes a session off its connection and tells the logs.
    pub(super) fn end_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.connection = None;
        if session.role != Role::Trader || session.cancel_on_disconnect == Switch::Off {
            return;
        }
        let lost =
            SessionLost { session_id: id, cancel_on_disconnect: session.cancel_on_disconnect };
        for (port, state) in self.ports.iter().enumerate() {
            if state.ring.partition_id.0 != 0 {
                self.losses.push_back((port, lost));
            }
        }
    }

    /// Hands lost sessions to the partitions, as far as there is room; the rest waits.
    pub(super) fn submit_losses(&mut self) {
        while let Some((port, lost)) = self.losses.front().copied() {
            let ring = &mut self.ports[port].ring;
            let submission = Submission::internal(Command::SessionLost(lost));
            if ring.submissions.push(submission).is_err() {
                return;
            }
            self.ports[port].handed_over = true;
            self.losses.pop_front();
        }
    }

    /// Tells every session that the node stops.
    pub(super) fn say_goodbye(&mut self, now: Nanos) {
        for id in self.connections.ids() {
            let Some(mut connection) = self.connections.take(id) else { continue };
            // The orders stay: the operator stops the node, the sessions did not go away.
            for session in std::mem::take(&mut connection.sessions) {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.connection = None;
                }
            }
            self.close(&mut connection, Reason::Stopping, now);
            self.connections.put_back(connection);
        }
        self.timers_at = Nanos(now.0 + CLOSING_TIME);
    }
}
