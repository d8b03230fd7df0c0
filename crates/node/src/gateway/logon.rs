//! Sessions come and go: logon with resume, logout, and what a lost connection means.

use weir_types::{Nanos, PartitionId, Reason, Role, SessionId, Switch};
use weir_wire::Command;
use weir_wire::challenge::signed_text;
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::{RawMessage, put_frame};
use weir_wire::group::Group;
use weir_wire::reference::SessionLost;
use weir_wire::session::{
    Challenge, Logon, LogonAck, LogonReject, Logout, Nonce, PartitionState, ResumePoint,
    SignedLogon,
};

use super::Gateway;
use super::connection::Connection;
use super::directory::{KnownSession, Proof, Redefined};
use super::intake::{ERRORS_MAX, Taken};
use super::sessions::{Behind, Session};
use super::transport::Ending;
use crate::handoff::Submission;

/// The longest heartbeat interval that is granted, in milliseconds.
const HEARTBEAT_MAX_MS: u32 = 60_000;
/// The shortest.
const HEARTBEAT_MIN_MS: u32 = 100;
/// How long a closing connection may take to read its last words.
const CLOSING_TIME: u64 = 1_000_000_000;
/// A verification takes some 60 µs of the thread that orders wait on: on average one in this time,
/// so that strangers take no more than a fifteenth of it.
const VERIFICATION_INTERVAL: u64 = 1_000_000;
/// Verifications that may come at once.
const VERIFICATION_BURST: u64 = 64;

/// What every kind of logon asks for.
struct Asked<'a> {
    session_id: SessionId,
    heartbeat_interval_ms: u32,
    cancel_on_disconnect: Switch,
    points: Group<'a, ResumePoint>,
}

/// When the next signature may be verified: the generic cell rate algorithm.
#[derive(Debug, Default)]
pub(super) struct VerificationRate {
    arrival: u64,
}

impl VerificationRate {
    /// Takes one verification, if it may be now.
    fn take(&mut self, now: Nanos) -> bool {
        let arrival = self.arrival.max(now.0) + VERIFICATION_INTERVAL;
        if arrival > now.0 + VERIFICATION_BURST * VERIFICATION_INTERVAL {
            return false;
        }
        self.arrival = arrival;
        true
    }
}

fn refusal(session_id: SessionId, reason: Reason) -> LogonReject {
    LogonReject {
        oldest_event_no: weir_types::EventNo::NONE,
        next_event_no: weir_types::EventNo::NONE,
        session_id,
        partition_id: PartitionId(0),
        reason,
    }
}

impl Gateway {
    /// Opens a session by its API key, or says why not.
    pub(super) fn log_on(
        &mut self,
        connection: &mut Connection,
        logon: &Logon,
        points: Group<'_, ResumePoint>,
        now: Nanos,
    ) {
        let proof = Proof::ApiKey(&logon.api_key);
        let known = self.directory.authenticate(logon.session_id, proof, now);
        let asked = Asked {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            points,
        };
        self.answer_logon(connection, known, asked, now);
    }

    /// Gives a challenge to whoever asks: whether there is such a session is not told.
    pub(super) fn challenge(
        &mut self,
        connection: &mut Connection,
        session_id: SessionId,
        now: Nanos,
    ) {
        let mut nonce = Nonce([0; 32]);
        self.rng.fill(&mut nonce.0);
        if self.challenges.open(connection.id, session_id, nonce, now) {
            let challenge = Challenge { nonce, node_id: self.node_id, session_id };
            put_frame(&challenge, &mut connection.output);
            self.counters.challenges += 1;
            self.flush_list.add(connection);
        } else {
            self.refuse_logon(connection, &refusal(session_id, Reason::TooManyChallenges), now);
        }
    }

    /// Opens a session by a signature of its challenge, or says why not. It waits while more
    /// signatures came than are to be verified.
    pub(super) fn log_on_signed(
        &mut self,
        connection: &mut Connection,
        (raw, logon): (&RawMessage<'_>, &SignedLogon),
        points: Group<'_, ResumePoint>,
        now: Nanos,
    ) -> Taken {
        if !self.verification_rate.take(now) {
            return Taken::NoRoom;
        }
        let nonce = self.challenges.take(connection.id, logon.session_id, now);
        // Without a challenge the same work is done, and refused whatever comes of it.
        let text = signed_text(self.node_id, nonce.unwrap_or(Nonce([0; 32])), raw);
        let text = text.expect("a signed logon was decoded");
        let (signature, is_challenged) = (&logon.signature, nonce.is_some());
        let proof = Proof::Signature { text: &text, signature, is_challenged };
        let known = self.directory.authenticate(logon.session_id, proof, now);
        let asked = Asked {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            points,
        };
        self.answer_logon(connection, known, asked, now);
        Taken::Done
    }

    fn answer_logon(
        &mut self,
        connection: &mut Connection,
        known: Result<KnownSession, Reason>,
        asked: Asked<'_>,
        now: Nanos,
    ) {
        let session_id = asked.session_id;
        let opened = known
            .map_err(|reason| refusal(session_id, reason))
            .and_then(|known| self.open_session(connection, &known, asked, now));
        match opened {
            Ok(()) => {
                self.acknowledge_logon(connection, session_id, now);
                self.tell_logon(connection, session_id, now);
                self.set_timer(connection, now);
            }
            Err(reject) => self.refuse_logon(connection, &reject, now),
        }
        self.flush_list.add(connection);
    }

    fn refuse_logon(&mut self, connection: &mut Connection, reject: &LogonReject, now: Nanos) {
        put_frame(reject, &mut connection.output);
        self.tell_refused_logon(connection, reject.session_id, reject.reason, now);
        connection.error_count += 1;
        if reject.reason == Reason::UnknownKey {
            // Neither keys nor sessions are guessed on one connection.
            self.close(connection, reject.reason, now);
        } else if connection.error_count >= ERRORS_MAX {
            self.close(connection, Reason::TooManyErrors, now);
        }
        self.flush_list.add(connection);
    }

    fn open_session(
        &mut self,
        connection: &mut Connection,
        known: &KnownSession,
        asked: Asked<'_>,
        now: Nanos,
    ) -> Result<(), LogonReject> {
        let refused = |reason| refusal(asked.session_id, reason);
        let session = self.sessions.entry(asked.session_id);
        if session.connection.is_some() {
            return Err(refused(Reason::AlreadyLoggedOn));
        }
        // All points are checked before any is applied: a refused logon changes nothing.
        let mut starts = vec![weir_types::EventNo::NONE; session.streams.len()];
        for point in asked.points {
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
        let heartbeat_ms = asked.heartbeat_interval_ms.clamp(HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
        session.heartbeat_interval = Nanos(u64::from(heartbeat_ms) * 1_000_000);
        session.cancel_on_disconnect = asked.cancel_on_disconnect;
        session.firm_id = known.firm_id;
        session.role = known.role;
        session.valid_until = known.valid_until;
        session.in_flight_max = known.in_flight_max;
        session.order_rate_max = known.order_rate_max;
        // What was to end is gone; this one is another.
        session.ending = None;
        session.heard_at = now;
        session.said_at = now;
        self.sessions.attach(asked.session_id, connection.id);
        connection.sessions.push(asked.session_id);
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
        self.set_timer(connection, now);
        self.flush_list.add(connection);
    }

    /// Tells the peer why and closes the connection once that is sent.
    pub(super) fn close(&mut self, connection: &mut Connection, reason: Reason, now: Nanos) {
        if connection.closing_by.is_some() {
            return;
        }
        put_frame(&Logout { session_id: SessionId::NONE, reason }, &mut connection.output);
        connection.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
        self.tell_closing(connection, reason, now);
        for id in std::mem::take(&mut connection.sessions) {
            self.end_session(id);
        }
        self.set_timer(connection, now);
        self.flush_list.add(connection);
    }

    /// Forgets a connection whose peer is gone.
    pub(super) fn drop_connection(&mut self, mut connection: Box<Connection>, now: Nanos) {
        for id in std::mem::take(&mut connection.sessions) {
            self.tell_loss(&connection, id, "the connection is gone", now);
            self.end_session(id);
        }
        match connection.ending {
            Some(Ending::Truncated) => self.counters.tls_truncated += 1,
            Some(Ending::Broken) => self.counters.tls_broken += 1,
            Some(Ending::Closed) | None => {}
        }
        self.timers.cancel(connection.id.slot());
        self.lobby.gone(connection.id);
        if connection.closing_by.is_some() {
            self.counters.connections_cut += 1;
        } else {
            self.counters.connections_gone += 1;
        }
        // A socket that is closed leaves the poll by itself; an error here changes nothing.
        drop(self.poll.registry().deregister(connection.transport.socket()));
        self.delivery.connection_is_gone(connection.id);
        self.challenges.forget(connection.id);
        self.connections.release(connection.id);
    }

    /// Takes over what a definition says anew of a session that is logged on. One whose key was
    /// replaced is ended soon: who came in by the old key may be who it was taken from.
    pub(super) fn redefine(&mut self, redefined: &Redefined) {
        let Some(session) = self.sessions.get_mut(redefined.session_id) else { return };
        session.valid_until = redefined.known.valid_until;
        session.in_flight_max = redefined.known.in_flight_max;
        session.order_rate_max = redefined.known.order_rate_max;
        if let (Some(via), Nanos(1..)) = (session.connection, session.valid_until) {
            self.timers.set_no_later_than(via.slot(), session.valid_until);
        }
        if redefined.is_key_replaced && session.connection.is_some() {
            session.ending = Some(Reason::KeyReplaced);
            self.lost_sessions.push(redefined.session_id);
        }
    }

    /// Takes a session off its connection and tells the logs.
    pub(super) fn end_session(&mut self, id: SessionId) {
        self.sessions.detach(id);
        let Some(session) = self.sessions.get(id) else { return };
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
                self.sessions.detach(session);
            }
            self.close(&mut connection, Reason::Stopping, now);
            self.connections.put_back(connection);
        }
        self.stop_by = Nanos(now.0 + CLOSING_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_signatures_is_verified_at_once_and_then_one_a_millisecond() {
        let mut rate = VerificationRate::default();
        let begin = 1_000_000_000;
        let taken =
            |rate: &mut VerificationRate, at| (0..200).take_while(|_| rate.take(Nanos(at))).count();
        assert_eq!(taken(&mut rate, begin), 64);
        assert_eq!(taken(&mut rate, begin + 999_999), 0);
        assert_eq!(taken(&mut rate, begin + 1_000_000), 1);
        assert_eq!(taken(&mut rate, begin + 4_000_000), 3);
        // What was not used is kept up to the burst.
        assert_eq!(taken(&mut rate, begin + 60_000_000_000), 64);
    }
}
