//! From a client to the log: takes messages, checks them, and hands them to their destinations.
//!
//! A faulty message is counted and answered with a typed reject that names the field. Repeated
//! faults cost the sender its connection; no other client is affected.

use weir_door::ConnectionId;
use weir_door::entitlement::entitlement_of;
use weir_door::keys::Lock;
use weir_door::reader_rings::Fetch;
use weir_partition::handoff::Submission;
use weir_probe::{Point, TraceId};
use weir_types::{InstrumentId, Nanos, PartitionId, Reason, Role, SessionId};
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};
use weir_wire::reference::NEW;
use weir_wire::{Command, Destination, Request};

use super::Gateway;
use super::connection::{Connection, ReadOutcome};
use super::fairness::{MESSAGES_MAX, OF_A_STRANGER, Pace, STRANGERS_MAX, Share};
use super::identifiers::{self, Refused, as_sequenced};
use super::plant::{self, Plant};
use super::protocol::{Inbound, InputState, Refusal, Tokens};
use super::refusals::{put_malformed, put_reject};
use super::reserved::named_by;
use super::sessions::{Admission, Session};

/// The outcome of taking a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntakeOutcome {
    /// It was processed.
    Done,
    /// Its destination is full: the connection keeps it and waits.
    NoRoom,
    /// Its session is far beyond its rate: the connection keeps it and waits.
    TooSoon,
}

impl Gateway {
    /// Reads connections with sessions that have input and takes up to a share of messages from
    /// each; returns the number of messages.
    pub(super) fn read_sessions(&mut self, now: Nanos) -> usize {
        let share = self.fairness.share();
        let mut messages = 0;
        for _ in 0..self.read_list.len() {
            if messages >= MESSAGES_MAX {
                break;
            }
            let Some(id) = self.read_list.pop_front() else { break };
            messages += self.read_one(id, share, now);
        }
        messages
    }

    /// Reads connections without a session like [`Gateway::read_sessions`]; returns their number.
    pub(super) fn read_strangers(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < STRANGERS_MAX {
            let Some(id) = self.strangers.pop_front() else { break };
            count += 1;
            self.read_one(id, OF_A_STRANGER, now);
        }
        count
    }

    fn read_one(&mut self, id: ConnectionId, share: Share, now: Nanos) -> usize {
        let Some(mut connection) = self.connections.take(id) else { return 0 };
        connection.in_read_list = false;
        let mut messages = 0;
        let outcome = self.read_connection(&mut connection, share, now, &mut messages);
        connection.settle_input(&mut self.buffers);
        if messages > 0 && !connection.sessions.is_empty() {
            self.fairness.heard(&mut connection.heard_in);
        }
        match outcome {
            ReadOutcome::Gone => self.drop_connection(connection, now),
            ReadOutcome::Open => self.put_back(connection),
        }
        messages
    }

    fn read_connection(
        &mut self,
        connection: &mut Connection,
        share: Share,
        now: Nanos,
        messages: &mut usize,
    ) -> ReadOutcome {
        if connection.closing_by.is_some() || connection.logs_on {
            return ReadOutcome::Open;
        }
        if !connection.has_room(self.config.output_len_max) {
            // A client that does not read its answers cannot send more requests.
            connection.waits_for_room = true;
            return ReadOutcome::Open;
        }
        // Messages left over from an earlier cycle come before new bytes.
        if !connection.input.is_empty() {
            *messages += self.take_messages(connection, share.messages, now);
        }
        let is_busy = connection.must_wait || connection.logs_on;
        if is_busy || !connection.readable || connection.closing_by.is_some() {
            return ReadOutcome::Open;
        }
        if connection.fill(now, &mut self.buffers, share.bytes) == ReadOutcome::Gone {
            return ReadOutcome::Gone;
        }
        connection.ingress = self.recorder.now();
        *messages += self.take_messages(connection, share.messages - *messages, now);
        ReadOutcome::Open
    }

    /// Takes at most `count_max` of the whole messages in the connection's input, until one has to
    /// wait; returns their number.
    fn take_messages(
        &mut self,
        connection: &mut Connection,
        count_max: usize,
        now: Nanos,
    ) -> usize {
        // The input is moved out, so that messages can borrow it while the output grows.
        let mut input = std::mem::take(&mut connection.input);
        let mut messages = 0;
        let waited = std::mem::take(&mut connection.must_wait);
        while connection.closing_by.is_none() && !connection.logs_on {
            if messages == count_max {
                connection.must_wait = !input.is_empty();
                break;
            }
            match input.next(connection.protocol) {
                InputState::Incomplete => break,
                InputState::Broken(reason) => {
                    self.counters.broken_streams += 1;
                    self.close(connection, reason, now);
                }
                InputState::Message { len, message } => {
                    match self.take_message(connection, message, now) {
                        IntakeOutcome::Done => {}
                        IntakeOutcome::NoRoom => {
                            // A try again is no other message that waits.
                            self.counters.back_pressure += u64::from(!waited || messages > 0);
                            connection.must_wait = true;
                            break;
                        }
                        IntakeOutcome::TooSoon => {
                            self.counters.held_to_rate += u64::from(!waited || messages > 0);
                            connection.must_wait = true;
                            // The waiting message was received, so the connection is not silent.
                            connection.received_at = now;
                            break;
                        }
                    }
                    input.consume(len);
                    messages += 1;
                }
            }
        }
        connection.input = input;
        messages
    }

    #[inline]
    fn take_message(
        &mut self,
        connection: &mut Connection,
        message: Inbound<'_>,
        now: Nanos,
    ) -> IntakeOutcome {
        match message {
            Inbound::Request(Request::DefineInstrument(definition)) => {
                let standing = self.standing_partition(definition.instrument_id);
                let definition = self.assignment.fill(definition, standing);
                let request = Request::DefineInstrument(definition);
                return self.take_request(connection, &request, now);
            }
            Inbound::Request(request) => return self.take_request(connection, &request, now),
            Inbound::Fetch(fetch, tokens) => return self.take_fetch(connection, &fetch, tokens),
            Inbound::CancelFetch(cancel) => return self.take_cancel(connection, cancel),
            Inbound::AddCredit(more) => return self.take_credit(connection, more),
            Inbound::SignedLogon(logon, points, text) => {
                return self.log_on_signed(connection, &logon, points, text, now);
            }
            Inbound::CopyRequest(request) => self.take_copy_request(connection, &request, now),
            Inbound::Heartbeat(session_id) => self.heard_from(session_id, connection.id, now),
            Inbound::Logon(logon, points) => self.log_on(connection, &logon, points, now),
            Inbound::ChallengeRequest(session_id) => self.challenge(connection, session_id, now),
            Inbound::Logout(session_id) => self.log_out(connection, session_id, now),
            Inbound::Misplaced(refusal) => {
                self.put_reject(connection, refusal, Reason::NotServedHere);
            }
            Inbound::Malformed(refusal, reason) => {
                self.refuse_malformed(connection, refusal, reason, now);
            }
        }
        IntakeOutcome::Done
    }

    fn take_request(
        &mut self,
        from: &mut Connection,
        request: &Request,
        now: Nanos,
    ) -> IntakeOutcome {
        let session_id = request.session_id();
        let port = self.route(request.destination());
        let by_link = port.ok().and_then(|port| self.refused_by_link(port, request));
        let Some(session) = self.sessions.logged_on(session_id, from.id) else {
            return self.refuse(from, request, Reason::NotLoggedOn);
        };
        session.heard_at = now;
        let by_link = by_link.or_else(|| session.refused_by_link(port.ok()?));
        let routed = port.map(|port| (port, session.admission_of(port, request.request_no())));
        // Before anything that may refuse it: a refusal says that no log has it.
        match routed {
            Ok((port, Admission::UnderWay)) => {
                session.comes_again(port, request.request_no(), from.id);
                return IntakeOutcome::Done;
            }
            // Nothing would let it wait for less.
            Ok((_, Admission::Later)) if by_link.is_none() => return IntakeOutcome::NoRoom,
            _ => {}
        }
        if let Some(reason) = by_link {
            return self.refuse(from, request, reason);
        }
        // One that was received is answered again, whatever its session may send, and not executed.
        let was_received = port.is_ok_and(|port| session.was_received(port, request.request_no()));
        if !was_received && !may_send(session.role, request) {
            return self.refuse(from, request, Reason::NotEntitled);
        }
        let role = session.role;
        // The control partition takes no orders.
        let pace = pace_with(session, request, self.ports.len() as u64 - 1, now);
        if let Err((field, reason)) = self.check_fields(role, request, was_received) {
            self.put_reject(from, Refusal { field, ..Refusal::of(request) }, reason);
            return IntakeOutcome::Done;
        }
        let (port, admission) = match routed {
            Ok(routed) => routed,
            Err(reason) => return self.refuse(from, request, reason),
        };
        if admission == Admission::Refused {
            self.counters.in_flight_refused += 1;
            return self.refuse(from, request, Reason::TooManyInFlight);
        }
        let Some(pace) = pace else { return IntakeOutcome::TooSoon };
        let is_defined = self.reserved.is_defined_before(port, request);
        let sequenced = as_sequenced(&self.reception.directory, request, is_defined);
        let reserves = named_by(&sequenced);
        if self.submit(port, from, Command::Request(sequenced)) == IntakeOutcome::NoRoom {
            let is_refused = self.is_refused_for_room(port, request, now);
            return match is_refused {
                true => self.refuse(from, request, Reason::Overloaded),
                false => IntakeOutcome::NoRoom,
            };
        }
        if !was_received {
            self.reserved.reserve(port, request, reserves);
        }
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.hands_over(port, request.request_no(), from.id);
            session.pace = pace;
        }
        IntakeOutcome::Done
    }

    /// Checks the fields of a request, and its names unless it was received before.
    fn check_fields(
        &self,
        role: Role,
        request: &Request,
        was_received: bool,
    ) -> Result<(), Refused> {
        match field_out_of_range(request) {
            Some(field) => Err((field, Reason::FieldOutOfRange)),
            None if was_received => Ok(()),
            None => self.check_names(role, request),
        }
    }

    /// Checks the identifiers and names of a request.
    fn check_names(&self, role: Role, request: &Request) -> Result<(), Refused> {
        identifiers::check(&self.reception.directory, role, request)?;
        self.listed_where_traded(request)?;
        self.reserved.check(request)
    }

    /// Checks that a new instrument's partition is here: its number is never changed. Where no
    /// partition trades, instruments are only shown.
    fn listed_where_traded(&self, request: &Request) -> Result<(), Refused> {
        let Request::DefineInstrument(d) = request else { return Ok(()) };
        let mut ports = self.ports.iter().map(|port| port.ring.partition_id);
        let is_new = d.fields == 0 || d.fields & NEW != 0;
        let is_here = !d.partition_id.is_none() && ports.any(|id| id == d.partition_id);
        if is_new && self.ports.len() > 1 && !is_here {
            return Err(("partition_id", Reason::WrongPartition));
        }
        Ok(())
    }

    /// Returns the partition in which an instrument stands, if it is one of this node.
    fn standing_partition(&self, instrument_id: InstrumentId) -> Option<PartitionId> {
        let standing = self.reception.directory.partition_of(instrument_id)?;
        self.ports.iter().map(|port| port.ring.partition_id).find(|id| *id == standing)
    }

    /// Returns the index of the port to which a request goes.
    fn route(&self, destination: Destination) -> Result<usize, Reason> {
        let partition_id = match destination {
            Destination::Control => weir_types::PartitionId(0),
            Destination::Partition(partition_id) => partition_id,
            Destination::Instrument(instrument_id) => self
                .reception
                .directory
                .partition_of(instrument_id)
                .ok_or(Reason::UnknownInstrument)?,
        };
        let port = self.ports.iter().position(|port| port.ring.partition_id == partition_id);
        port.ok_or(Reason::WrongPartition)
    }

    /// Returns true when the importer has handed a port's partition all definitions that the
    /// gateway knows: no request may come before one that it names.
    pub(super) fn has_definitions(&self, port: usize) -> bool {
        // The control partition imports nothing.
        let Some(index) = port.checked_sub(1) else { return true };
        let newest = self.ports[0].events.next_record() - 1;
        self.imports.has_handed(index, newest) || plant::is(Plant::DefinitionsUnawaited)
    }

    /// Hands a command to a port's partition, if that has room and all definitions.
    fn submit(&mut self, port: usize, from: &Connection, command: Command) -> IntakeOutcome {
        // A session's earlier loss, and its choice, are sequenced before any request of it.
        self.submit_notices();
        if !self.ports[port].has_room() || !self.has_definitions(port) {
            return IntakeOutcome::NoRoom;
        }
        let trace = if self.recorder.is_enabled() { self.trace_ids.next() } else { TraceId::NONE };
        self.recorder.record_at(trace, Point::Ingress, from.ingress);
        let t0 = self.recorder.record(trace, Point::T0);
        let submission = Submission { trace, ingress: from.ingress, t0, command };
        let port = &mut self.ports[port];
        assert!(port.ring.submissions.push(submission).is_ok(), "a ring with room takes one more");
        port.handed_over = true;
        port.standstill.end();
        self.counters.requests += 1;
        IntakeOutcome::Done
    }

    fn take_fetch(
        &mut self,
        from: &mut Connection,
        fetch: &FetchOrders,
        tokens: Tokens<'_>,
    ) -> IntakeOutcome {
        let Some(session) = self.sessions.logged_on(fetch.session_id, from.id) else {
            self.put_reject(from, Refusal::of_fetch(fetch), Reason::NotLoggedOn);
            return IntakeOutcome::Done;
        };
        let Some(entitlement) = entitlement_of(session.role, session.firm_id) else {
            self.put_reject(from, Refusal::of_fetch(fetch), Reason::NotEntitled);
            return IntakeOutcome::Done;
        };
        let (token, min_token) = (tokens.token.to_vec(), tokens.min_token.to_vec());
        let fetch = Fetch { connection: from.id, fetch: *fetch, token, min_token, entitlement };
        taken_if(self.delivery.fetch(Box::new(fetch)))
    }

    /// Passes a session's cancel of its own fetch to the store; it has no answer.
    fn take_cancel(&mut self, from: &mut Connection, cancel: CancelFetch) -> IntakeOutcome {
        if self.sessions.logged_on(cancel.session_id, from.id).is_none() {
            self.put_reject(from, Refusal::of_cancel(&cancel), Reason::NotLoggedOn);
            return IntakeOutcome::Done;
        }
        taken_if(self.delivery.cancel(from.id, cancel))
    }

    /// Passes a session's credit for its own fetch to the store; it has no answer.
    fn take_credit(&mut self, from: &mut Connection, more: AddCredit) -> IntakeOutcome {
        if self.sessions.logged_on(more.session_id, from.id).is_none() {
            self.put_reject(from, Refusal::of_credit(&more), Reason::NotLoggedOn);
            return IntakeOutcome::Done;
        }
        taken_if(self.delivery.add_credit(from.id, more))
    }

    fn refuse(&mut self, to: &mut Connection, request: &Request, reason: Reason) -> IntakeOutcome {
        self.put_reject(to, Refusal::of(request), reason);
        IntakeOutcome::Done
    }

    fn refuse_malformed(
        &mut self,
        to: &mut Connection,
        refusal: Refusal,
        reason: Reason,
        now: Nanos,
    ) {
        let closes = put_malformed(to, refusal, reason, &mut self.counters);
        self.flush_list.add(to);
        if let Some(reason) = closes {
            self.close(to, reason, now);
        }
    }

    /// Answers with a reject that has no event number.
    pub(super) fn put_reject(&mut self, to: &mut Connection, refusal: Refusal, reason: Reason) {
        put_reject(to, refusal, reason, &mut self.counters);
        self.flush_list.add(to);
    }

    fn heard_from(&mut self, session_id: SessionId, via: ConnectionId, now: Nanos) {
        if let Some(session) = self.sessions.logged_on(session_id, via) {
            session.heard_at = now;
        }
    }
}

/// Returns the outcome of a message whose destination has taken it or has no room.
fn taken_if(is_taken: bool) -> IntakeOutcome {
    if is_taken { IntakeOutcome::Done } else { IntakeOutcome::NoRoom }
}

/// Returns the field of a request that no partition could process.
fn field_out_of_range(request: &Request) -> Option<&'static str> {
    if request.request_no().is_none() {
        return Some("request_no");
    }
    match request {
        Request::DefineSession(d)
            if Lock::new(d.credential_kind, &d.credential) == Lock::Sealed =>
        {
            Some("credential")
        }
        _ => None,
    }
}

/// Returns the session's pace after this request; `None` when the request has to wait. The engines
/// refuse requests beyond a session's rate, each for its own partition. The gateway passes an
/// eighth more than all of them accept, so that the client gets refusals and they cost little.
fn pace_with(session: &Session, request: &Request, partitions: u64, now: Nanos) -> Option<Pace> {
    match request {
        Request::NewOrder(_) | Request::ReplaceOrder(_) => {
            let rate = u64::from(session.order_rate_max) * partitions;
            session.pace.after_one_more(rate + rate.div_ceil(8), now)
        }
        _ => Some(session.pace),
    }
}

/// Returns true when a role may send a request at all; the engine checks the objects that it may
/// touch.
fn may_send(role: Role, request: &Request) -> bool {
    match request {
        Request::NewOrder(_) | Request::ReplaceOrder(_) => role == Role::Trader,
        Request::CancelOrder(_) | Request::MassCancel(_) => role.may_cancel(),
        _ => role == Role::Operator,
    }
}
