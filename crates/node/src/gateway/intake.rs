//! From bytes to the log: frames are found, checked, and handed to where they belong.
//!
//! What is wrong is answered with a typed reject that names the field, counted, and costs the
//! sender its connection when it goes on; nobody else notices.

use weir_delivery::Entitlement;
use weir_probe::{Point, TraceId};
use weir_types::{Nanos, Reason, RequestNo, Role, SessionId};
use weir_wire::delivery::FetchOrders;
use weir_wire::dialogue::{ClientMessage, peek_session_and_request};
use weir_wire::frame::{
    BrokenFrame, CLIENT_FRAME_LEN_MAX, Framing, RawMessage, next_frame, put_frame,
};
use weir_wire::session::{Label, Reject};
use weir_wire::{Command, DecodeError, Destination, Request};

use super::Gateway;
use super::connection::{Connection, ConnectionId, ReadOutcome};
use super::fairness::{FRAMES_MAX, OF_A_STRANGER, Pace, STRANGERS_MAX, Share};
use super::keys::Lock;
use super::sessions::Session;
use crate::handoff::{DeliveryRequest, Fetch, Submission};

/// Malformed messages and refused logons after which a connection is closed.
pub(super) const ERRORS_MAX: u32 = 16;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was dealt with.
    Done,
    /// Where it should go has no room: the connection waits with it.
    NoRoom,
    /// Its session is far beyond its rate: the connection waits with it.
    TooSoon,
}

impl Gateway {
    /// Reads connections with sessions that have input and takes their frames, of each its share;
    /// returns how many frames.
    pub(super) fn read_sessions(&mut self, now: Nanos) -> usize {
        let share = self.fairness.share();
        let mut frames = 0;
        for _ in 0..self.read_list.len() {
            if frames >= FRAMES_MAX {
                break;
            }
            let Some(id) = self.read_list.pop_front() else { break };
            frames += self.read_one(id, share, now);
        }
        frames
    }

    /// As [`Gateway::read_sessions`], of connections that carry none; returns how many of them.
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
        let mut frames = 0;
        let outcome = self.read_connection(&mut connection, (share, now), &mut frames);
        connection.settle_input(&mut self.buffers);
        if frames > 0 && !connection.sessions.is_empty() {
            self.fairness.heard(&mut connection.heard_in);
        }
        match outcome {
            ReadOutcome::Gone => self.drop_connection(connection, now),
            ReadOutcome::Open => self.put_back(connection),
        }
        frames
    }

    fn read_connection(
        &mut self,
        connection: &mut Connection,
        (share, now): (Share, Nanos),
        frames: &mut usize,
    ) -> ReadOutcome {
        if connection.closing_by.is_some() {
            return ReadOutcome::Open;
        }
        if !connection.has_room(self.config.output_len_max) {
            // Who does not read its answers asks no more questions.
            connection.waits_for_room = true;
            return ReadOutcome::Open;
        }
        // Frames that an earlier turn left over come before new bytes.
        if !connection.input.is_empty() {
            *frames += self.take_frames(connection, share.frames, now);
        }
        if connection.must_wait || !connection.readable || connection.closing_by.is_some() {
            return ReadOutcome::Open;
        }
        if connection.fill(now, &mut self.buffers, share.bytes) == ReadOutcome::Gone {
            return ReadOutcome::Gone;
        }
        connection.ingress = self.recorder.now();
        *frames += self.take_frames(connection, share.frames - *frames, now);
        ReadOutcome::Open
    }

    /// Takes at most `count_max` of the whole frames in the connection's input, until one has to
    /// wait; returns how many.
    fn take_frames(&mut self, connection: &mut Connection, count_max: usize, now: Nanos) -> usize {
        // The input is lent to the frames while the connection's output grows.
        let mut input = std::mem::take(&mut connection.input);
        let mut frames = 0;
        let waited = std::mem::take(&mut connection.must_wait);
        while connection.closing_by.is_none() {
            if frames == count_max {
                connection.must_wait = !input.is_empty();
                break;
            }
            match next_frame(input.bytes(), CLIENT_FRAME_LEN_MAX) {
                Framing::Incomplete => break,
                Framing::Broken(broken) => self.refuse_stream(connection, broken, now),
                Framing::Frame { len, message } => {
                    match self.take_frame(connection, message, now) {
                        Taken::Done => {}
                        Taken::NoRoom => {
                            self.counters.back_pressure += 1;
                            connection.must_wait = true;
                            break;
                        }
                        Taken::TooSoon => {
                            self.counters.held_to_rate += u64::from(!waited || frames > 0);
                            connection.must_wait = true;
                            // What waits here was said: nobody on the connection is silent.
                            connection.received_at = now;
                            break;
                        }
                    }
                    input.consume(len);
                    frames += 1;
                }
            }
        }
        connection.input = input;
        frames
    }

    fn refuse_stream(&mut self, connection: &mut Connection, broken: BrokenFrame, now: Nanos) {
        self.counters.broken_streams += 1;
        let reason = match broken {
            BrokenFrame::Length(len) if len as usize > CLIENT_FRAME_LEN_MAX => Reason::FrameTooLong,
            BrokenFrame::Length(_) | BrokenFrame::Encoding(_) => Reason::MalformedFrame,
        };
        self.close(connection, reason, now);
    }

    fn take_frame(
        &mut self,
        connection: &mut Connection,
        message: Result<RawMessage<'_>, DecodeError>,
        now: Nanos,
    ) -> Taken {
        let raw = match message {
            Ok(raw) => raw,
            Err(error) => {
                self.refuse_malformed(connection, None, error, now);
                return Taken::Done;
            }
        };
        match ClientMessage::decode(&raw) {
            Ok(ClientMessage::Request(request)) => self.take_request(connection, &request, now),
            Ok(ClientMessage::FetchOrders(fetch, token)) => {
                self.take_fetch(connection, &fetch, token)
            }
            Ok(ClientMessage::DropCopyRequest(request)) => {
                self.take_copy_request(connection, &request, now);
                Taken::Done
            }
            Ok(ClientMessage::Heartbeat(heartbeat)) => {
                self.heard_from(heartbeat.session_id, connection.id, now);
                Taken::Done
            }
            Ok(ClientMessage::Logon(logon, points)) => {
                self.log_on(connection, &logon, points, now);
                Taken::Done
            }
            Ok(ClientMessage::ChallengeRequest(request)) => {
                self.challenge(connection, request.session_id, now);
                Taken::Done
            }
            Ok(ClientMessage::SignedLogon(logon, points)) => {
                self.log_on_signed(connection, (&raw, &logon), points, now)
            }
            Ok(ClientMessage::Logout(logout)) => {
                self.log_out(connection, logout.session_id, now);
                Taken::Done
            }
            Ok(ClientMessage::OpenSource(_) | ClientMessage::SourceBatch(..)) => {
                self.refuse_misplaced(connection, &raw);
                Taken::Done
            }
            Err(error) => {
                self.refuse_malformed(connection, Some(&raw), error, now);
                Taken::Done
            }
        }
    }

    fn take_request(&mut self, from: &mut Connection, request: &Request, now: Nanos) -> Taken {
        let session_id = request.session_id();
        let Some(session) = self.sessions.logged_on(session_id, from.id) else {
            self.refuse(from, request, Reason::NotLoggedOn);
            return Taken::Done;
        };
        session.heard_at = now;
        if !may_send(session.role, request) {
            self.refuse(from, request, Reason::NotEntitled);
            return Taken::Done;
        }
        let has_room = session.has_window();
        let pace = pace_with(session, request, self.ports.len() as u64, now);
        if let Some(field) = field_out_of_range(request) {
            let refusal = Refusal { field, ..Refusal::of(request) };
            self.put_reject(from, refusal, Reason::FieldOutOfRange);
            return Taken::Done;
        }
        if !has_room {
            self.counters.in_flight_refused += 1;
            self.refuse(from, request, Reason::TooManyInFlight);
            return Taken::Done;
        }
        let port = match self.route(request.destination()) {
            Ok(port) => port,
            Err(reason) => {
                self.refuse(from, request, reason);
                return Taken::Done;
            }
        };
        let Some(pace) = pace else { return Taken::TooSoon };
        let taken = self.submit(port, from, Command::Request(*request));
        if taken == Taken::Done
            && let Some(session) = self.sessions.get_mut(session_id)
        {
            session.in_flight += 1;
            session.pace = pace;
        }
        taken
    }

    /// Where a request goes.
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

    fn submit(&mut self, port: usize, from: &Connection, command: Command) -> Taken {
        // The loss of a session is sequenced before whatever the session does when it is back.
        self.submit_losses();
        if !self.losses.is_empty() {
            return Taken::NoRoom;
        }
        let ring = &mut self.ports[port].ring;
        if ring.submissions.is_full() {
            return Taken::NoRoom;
        }
        let trace = if self.recorder.is_enabled() { self.trace_ids.next() } else { TraceId::NONE };
        self.recorder.record_at(trace, Point::Ingress, from.ingress);
        let t0 = self.recorder.record(trace, Point::T0);
        let submission = Submission { trace, ingress: from.ingress, t0, command };
        assert!(ring.submissions.push(submission).is_ok(), "a ring with room takes one more");
        self.ports[port].handed_over = true;
        self.counters.requests += 1;
        Taken::Done
    }

    fn take_fetch(&mut self, from: &mut Connection, fetch: &FetchOrders, token: &[u8]) -> Taken {
        let refusal = Refusal {
            session_id: fetch.session_id,
            request_no: RequestNo(fetch.correlation_id),
            template_id: <FetchOrders as weir_wire::Message>::TEMPLATE_ID,
            field: "",
        };
        let Some(session) = self.sessions.logged_on(fetch.session_id, from.id) else {
            self.put_reject(from, refusal, Reason::NotLoggedOn);
            return Taken::Done;
        };
        let entitlement = match session.role {
            Role::Trader | Role::DropCopy => Entitlement::firm(session.firm_id),
            Role::Supervisor | Role::Operator => Entitlement::all(),
            Role::Source => {
                self.put_reject(from, refusal, Reason::NotEntitled);
                return Taken::Done;
            }
        };
        let fetch =
            Fetch { connection: from.id, fetch: *fetch, token: token.to_vec(), entitlement };
        if self.delivery.ask(DeliveryRequest::Fetch(Box::new(fetch))) {
            Taken::Done
        } else {
            Taken::NoRoom
        }
    }

    fn refuse(&mut self, to: &mut Connection, request: &Request, reason: Reason) {
        self.put_reject(to, Refusal::of(request), reason);
    }

    fn refuse_malformed(
        &mut self,
        to: &mut Connection,
        raw: Option<&RawMessage<'_>>,
        error: DecodeError,
        now: Nanos,
    ) {
        let (session_id, request_no) = raw.map(peek_session_and_request).unwrap_or_default();
        let refusal = Refusal {
            session_id,
            request_no,
            template_id: raw.map_or(0, |raw| raw.template_id),
            field: error.field(),
        };
        self.put_reject(to, refusal, error.reason());
        self.counters.malformed += 1;
        to.error_count += 1;
        if to.error_count >= ERRORS_MAX {
            self.close(to, Reason::TooManyErrors, now);
        }
    }

    /// Refuses a message of another listener.
    fn refuse_misplaced(&mut self, to: &mut Connection, raw: &RawMessage<'_>) {
        let (session_id, request_no) = peek_session_and_request(raw);
        let template_id = raw.template_id;
        let refusal = Refusal { session_id, request_no, template_id, field: "" };
        self.put_reject(to, refusal, Reason::NotServedHere);
    }

    /// Answers with a reject that has no event number.
    pub(super) fn put_reject(&mut self, to: &mut Connection, refusal: Refusal, reason: Reason) {
        let reject = Reject {
            request_no: refusal.request_no,
            field: Label::new(refusal.field),
            session_id: refusal.session_id,
            ref_template_id: refusal.template_id,
            reason,
        };
        put_frame(&reject, &mut to.output);
        self.counters.rejects += 1;
        self.counters.rejects_by.add(reason);
        self.flush_list.add(to);
    }

    fn heard_from(&mut self, session_id: SessionId, via: ConnectionId, now: Nanos) {
        if let Some(session) = self.sessions.logged_on(session_id, via) {
            session.heard_at = now;
        }
    }
}

/// What a reject refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) session_id: SessionId,
    pub(super) request_no: RequestNo,
    pub(super) template_id: u16,
    pub(super) field: &'static str,
}

impl Refusal {
    fn of(request: &Request) -> Refusal {
        Refusal {
            session_id: request.session_id(),
            request_no: request.request_no(),
            template_id: request.template_id(),
            field: "",
        }
    }
}

/// The field of a request that no partition can be asked about.
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

/// The pace of a session with this request; nothing where it is to wait. The engines refuse what is
/// beyond a session's rate, each of the partitions for itself; the gateway lets through one rate
/// more than all of them take, so that refusals are heard and cost little.
fn pace_with(session: &Session, request: &Request, partitions: u64, now: Nanos) -> Option<Pace> {
    match request {
        Request::NewOrder(_) | Request::ReplaceOrder(_) => {
            session.pace.after_one_more(u64::from(session.order_rate_max) * partitions, now)
        }
        _ => Some(session.pace),
    }
}

/// Whether a role may send a request at all; what exactly it may touch is the engine's to say.
fn may_send(role: Role, request: &Request) -> bool {
    match request {
        Request::NewOrder(_) | Request::ReplaceOrder(_) => role == Role::Trader,
        Request::CancelOrder(_) | Request::MassCancel(_) => role.may_cancel(),
        _ => role == Role::Operator,
    }
}
