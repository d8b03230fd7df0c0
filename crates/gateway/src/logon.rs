//! Session lifecycle: logon with resume, takeover, logout, and lost connections.

use weir_door::ConnectionId;
use weir_door::directory::{KnownSession, SessionChange};
use weir_door::keys::Lock;
use weir_door::reception::{LogonRequest, refusal};
use weir_door::socket::CLOSING_TIME;
use weir_door::transport::Ending;
use weir_types::{Nanos, Reason, Role, SessionId, Switch};
use weir_wire::session::{Logon, LogonAck, LogonReject, PartitionState, SignedLogon};

use super::Gateway;
use super::connection::Connection;
use super::intake::IntakeOutcome;
use super::linked_logon::ProvenLogon;
use super::opening::open;
use super::plant::{self, Plant};
use super::protocol::{Answer, Inbound, InputState, ResumePoints, SignedText};
use super::refusals::put_refused_logon;
use super::sessions::{Behind, Session};

impl Gateway {
    /// Opens a session by its API key, or refuses with a reason.
    pub(super) fn log_on(
        &mut self,
        connection: &mut Connection,
        logon: &Logon,
        points: ResumePoints<'_>,
        now: Nanos,
    ) {
        let via = connection.origin(now);
        let known = self.reception.prove_by_key(logon, via);
        self.answer_logon(connection, known, LogonRequest::of_logon(logon, points), now);
    }

    /// Sends a challenge to any requester, whether or not the session exists, so as not to reveal
    /// it.
    pub(super) fn challenge(
        &mut self,
        connection: &mut Connection,
        session_id: SessionId,
        now: Nanos,
    ) {
        match self.reception.challenge(session_id, connection.origin(now)) {
            Ok(challenge) => {
                connection.put(&Answer::Challenge(&challenge));
                self.counters.challenges += 1;
                self.flush_list.add(connection);
            }
            Err(reject) => self.refuse_logon(connection, &reject, now),
        }
    }

    /// Opens a session by a signature of its challenge, or refuses with a reason. Waits while the
    /// limit of signature verifications is reached.
    pub(super) fn log_on_signed(
        &mut self,
        connection: &mut Connection,
        logon: &SignedLogon,
        points: ResumePoints<'_>,
        text: SignedText<'_>,
        now: Nanos,
    ) -> IntakeOutcome {
        let via = connection.origin(now);
        let text = |node_id, nonce| text.of_challenge(node_id, nonce);
        let Some(known) = self.reception.prove_by_signed_text(logon, text, via) else {
            return IntakeOutcome::NoRoom;
        };
        self.answer_logon(connection, known, LogonRequest::of_signed(logon, points), now);
        IntakeOutcome::Done
    }

    /// Opens the session of a newly arrived connection, or refuses with a reason. The newcomers'
    /// thread has verified the proof; the connection's input begins with the logon.
    pub(super) fn log_on_arrival(&mut self, connection: &mut Connection, lock: &Lock, now: Nanos) {
        let mut input = std::mem::take(&mut connection.input);
        let InputState::Message { len, message } = input.next(connection.protocol) else {
            unreachable!("it was let in for this message")
        };
        let asked = match message {
            Inbound::Logon(logon, points) => LogonRequest::of_logon(&logon, points),
            Inbound::SignedLogon(logon, points, _) => LogonRequest::of_signed(&logon, points),
            _ => unreachable!("it was let in for a logon"),
        };
        let known = self.reception.accept_proof(asked.session_id, lock);
        self.answer_logon(connection, known, asked, now);
        input.consume(len);
        connection.must_wait = !input.is_empty();
        connection.input = input;
    }

    fn answer_logon(
        &mut self,
        connection: &mut Connection,
        known: Result<KnownSession, LogonReject>,
        asked: LogonRequest<ResumePoints<'_>>,
        now: Nanos,
    ) {
        let session_id = asked.session_id;
        if plant::is(Plant::TakeoverBeforeProof) {
            let elsewhere = self.sessions.get(session_id).and_then(|session| session.connection);
            if let Some(id) = elsewhere.filter(|id| *id != connection.id) {
                self.end_taken_over(session_id, id, now);
                self.sessions.detach(session_id);
            }
        }
        let known = known.and_then(|known| match known.role {
            Role::Trader if self.config.traders_elsewhere => {
                Err(refusal(session_id, Reason::NotServedHere))
            }
            // Other sessions log on at a node's door, which could not see them here.
            role if self.is_linked && role != Role::Trader => {
                Err(refusal(session_id, Reason::NotServedHere))
            }
            _ => Ok(known),
        });
        if self.is_linked {
            let via = connection.origin(now);
            let begun = known
                .and_then(|known| self.begin_logon(connection, ProvenLogon { known, asked }, via));
            if let Err(reject) = begun {
                self.refuse_logon(connection, &reject, now);
            }
            return;
        }
        self.forget_removed(session_id);
        let ports = &self.ports;
        let lineage_of = |id| {
            let port = ports.iter().position(|port| port.ring.partition_id == id)?;
            Some((port, &ports[port].lineage))
        };
        let via = connection.origin(now);
        let sessions = &mut self.sessions;
        let opened = known.and_then(|known| open(sessions, &known, asked, via, &lineage_of));
        match opened {
            Ok(taken_from) => {
                self.submit_choice(session_id);
                if let Some(from) = taken_from {
                    self.end_taken_over(session_id, from, now);
                }
                self.end_logon(connection, session_id, now);
            }
            Err(reject) => self.refuse_logon(connection, &reject, now),
        }
    }

    /// Ends the logon of a session that is attached to the connection.
    pub(super) fn end_logon(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        connection.sessions.push(id);
        self.acknowledge_logon(connection, id, now);
        self.lines.logged_on(connection, id, now);
        self.set_timer(connection, now);
        self.flush_list.add(connection);
    }

    /// Ends a session on the connection from which it is taken over, whose peer is told so when its
    /// socket takes that. The session does not end, so no loss of it is submitted: the choice of
    /// the new logon holds for its orders.
    pub(super) fn end_taken_over(&mut self, id: SessionId, from: ConnectionId, now: Nanos) {
        if plant::is(Plant::TakeoverKeepsOldConnection) {
            return;
        }
        self.counters.sessions_taken_over += 1;
        self.end_streams(id);
        self.delivery.end_session(from, id);
        let Some(mut old) = self.connections.take(from) else { return };
        self.lines.taken_over(&old, id, now);
        old.sessions.retain(|session| *session != id);
        old.put(&Answer::Logout { session_id: id, reason: Reason::TakenOver });
        self.flush_list.add(&mut old);
        // Without a session it has a newcomer's time limit from now on.
        self.set_timer(&mut old, now);
        self.connections.put_back(from, old);
    }

    /// Drops a session's events that the logs have removed, so that the answer to its logon tells
    /// from where it can resume.
    fn forget_removed(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        for (stream, port) in session.streams.iter_mut().zip(&self.ports) {
            stream.forget_before(port.events.retained_from());
        }
    }

    pub(super) fn refuse_logon(
        &mut self,
        connection: &mut Connection,
        reject: &LogonReject,
        now: Nanos,
    ) {
        let (counters, lines) = (&mut self.counters, &mut self.lines);
        let closes = put_refused_logon(connection, reject, counters, lines, now);
        self.flush_list.add(connection);
        if let Some(reason) = closes {
            self.close(connection, reason, now);
        }
    }

    fn acknowledge_logon(&mut self, connection: &mut Connection, id: SessionId, now: Nanos) {
        self.lobby.logged_on(connection.id);
        self.tell_states(connection, id, now);
        let Some(session) = self.sessions.get_mut(id) else { return };
        for (port, stream) in session.streams.iter_mut().enumerate() {
            self.behind.add(Behind { session_id: id, port }, stream);
        }
    }

    /// Tells a session's client its state in each partition.
    pub(super) fn tell_states(&self, connection: &mut Connection, id: SessionId, now: Nanos) {
        let Some(session) = self.sessions.get(id) else { return };
        let ack = LogonAck {
            server_time: self.reception.directory.wall_at(now),
            session_id: id,
            firm_id: session.firm_id,
            heartbeat_interval_ms: (session.heartbeat_interval.0 / 1_000_000) as u32,
            order_rate_max: session.order_rate_max,
            in_flight_max: session.in_flight_max,
            role: session.role,
        };
        let states = self.partition_states(session);
        connection.put(&Answer::LogonAck(&ack, &states));
    }

    /// Returns the state of a session in each partition, as its logon is told: of one that is away
    /// only that it is there.
    pub(super) fn partition_states(&self, session: &Session) -> Vec<PartitionState> {
        let with_ports = session.streams.iter().zip(&self.ports).enumerate();
        with_ports
            .map(|(index, (stream, port))| match stream.is_away {
                true => PartitionState::away(port.ring.partition_id),
                false => PartitionState {
                    last_request_no: session.last_request_no(index),
                    next_event_no: stream.next_event_no(),
                    oldest_event_no: stream.oldest(),
                    epoch: port.lineage.current(),
                    partition_id: port.ring.partition_id,
                },
            })
            .collect()
    }

    /// Closes a session in order, or the whole connection when the session is zero. The session's
    /// orders stay unless it chose cancel-on-disconnect.
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
        connection.put(&Answer::Logout { session_id: id, reason: Reason::LogoutRequested });
        self.set_timer(connection, now);
        self.flush_list.add(connection);
    }

    /// Sends the reason to the peer and closes the connection once that is sent.
    pub(super) fn close(&mut self, connection: &mut Connection, reason: Reason, now: Nanos) {
        if connection.closing_by.is_some() {
            return;
        }
        connection.put(&Answer::Logout { session_id: SessionId::NONE, reason });
        connection.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
        self.lines.closing(&mut self.counters, connection, reason, now);
        for id in std::mem::take(&mut connection.sessions) {
            self.end_session(id);
        }
        self.set_timer(connection, now);
        self.flush_list.add(connection);
    }

    /// Removes a connection whose peer is gone.
    pub(super) fn drop_connection(&mut self, mut connection: Box<Connection>, now: Nanos) {
        for id in std::mem::take(&mut connection.sessions) {
            let why = "the connection is gone";
            self.lines.lost(&mut self.counters, &connection, id, why, now);
            self.end_session(id);
        }
        match connection.ending {
            Some(Ending::Truncated) => self.counters.tls_truncated += 1,
            Some(Ending::Broken) => self.counters.tls_broken += 1,
            Some(Ending::Closed) | None => {}
        }
        if connection.logs_on {
            self.forget_pending(connection.id);
        }
        self.timers.cancel(connection.id.slot());
        self.lobby.gone(connection.id);
        if connection.closing_by.is_some() {
            self.counters.connections_cut += 1;
        } else {
            self.counters.connections_closed_by_peer += 1;
        }
        if let Some(newcomers) = &self.newcomers {
            newcomers.slots.give_back();
        }
        // A closed socket leaves the poll by itself, so the error is irrelevant.
        drop(self.poll.registry().deregister(connection.transport.stream()));
        self.delivery.connection_is_gone(connection.id);
        self.reception.forget(connection.id);
        self.connections.release(connection.id);
    }

    /// Applies a new definition to a logged-on session. A session whose key was replaced is ended
    /// soon, as the holder of the old key may be a thief, and so is one that has lost its rights.
    pub(super) fn redefine(&mut self, redefined: &SessionChange, now: Nanos) {
        self.redefine_pending(redefined, now);
        let Some(session) = self.sessions.get_mut(redefined.session_id) else { return };
        let ending = redefined.reason_to_end(session.firm_id, session.role);
        session.valid_until = redefined.known.valid_until;
        session.in_flight_max = redefined.known.in_flight_max;
        session.order_rate_max = redefined.known.order_rate_max;
        let expires_at = self.reception.directory.expires_at(session.valid_until);
        if let (Some(via), Some(at)) = (session.connection, expires_at) {
            self.timers.set_no_later_than(via.slot(), at);
        }
        if ending.is_some() && session.connection.is_some() {
            session.ending = ending;
            self.lost_sessions.push(redefined.session_id);
        }
    }

    /// Detaches a session from its connection: every end of a session, whatever its reason, reaches
    /// all that serve the session from here. Its reports go by its connection; its copies and its
    /// pages of order state do not, and are told.
    fn detach(&mut self, id: SessionId) {
        self.end_streams(id);
        if let Some(via) = self.sessions.get(id).and_then(|session| session.connection)
            && !plant::is(Plant::EndUntoldToStore)
        {
            self.delivery.end_session(via, id);
        }
        self.sessions.detach(id);
    }

    /// Detaches a session from its connection and submits its loss to the partitions, if it chose
    /// cancel-on-disconnect.
    pub(super) fn end_session(&mut self, id: SessionId) {
        self.detach(id);
        self.submit_loss(id);
    }

    /// Detaches a session that may go on elsewhere: its orders stay.
    pub(super) fn leave_session(&mut self, id: SessionId) {
        self.detach(id);
        self.unbind(id, Switch::Off);
    }

    /// Sends every connection the reason `Stopping`.
    pub(super) fn say_goodbye(&mut self, now: Nanos) {
        for id in self.connections.ids() {
            let Some(mut connection) = self.connections.take(id) else { continue };
            // The orders stay: the operator stops the node, the sessions did not leave. The logs
            // hold their choices, and they must return after the next start.
            for session in std::mem::take(&mut connection.sessions) {
                self.detach(session);
            }
            self.close(&mut connection, Reason::Stopping, now);
            self.connections.put_back(connection.id, connection);
        }
        self.stop_by = Nanos(now.0 + CLOSING_TIME);
    }
}
