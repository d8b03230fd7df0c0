//! A client: one connection to a node and the sessions on it, whose state survives lost
//! connections.
//!
//! [`Client::poll`] is its duty cycle: send, wait, receive, dispatch each message to its session,
//! send heartbeats. It blocks no longer than its timeout, starts no thread and never reconnects on
//! its own: [`Client::reconnect`] is the caller's decision.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::challenge::CHALLENGE_COUNT_MAX;
use weir_wire::delivery::{OrderPage, OrderPageBody, SourceState, SourceStates};
use weir_wire::dialogue::NodeMessage;
use weir_wire::drop_copy::{CopyMark, DropCopyState, ReportCopy};
use weir_wire::group::Group;
use weir_wire::market_dialogue::MarketMessage;
use weir_wire::rows::Rows;
use weir_wire::{DecodeError, Message, Request};

use crate::clock::{Clock, wait};
use crate::connection::{Connection, Limits, Target};
use crate::copied_report::CopiedReport;
use crate::error::{AddressFailure, ClientError};
use crate::session::{Session, SessionConfig, SessionEvent, Submit, Times};
use crate::source_message::SourceMessage;

/// A message from the node.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A session's event.
    Session(SessionId, SessionEvent),
    /// A page's header with the next token, for a follower.
    Page(OrderPage, &'a [u8]),
    /// A page's rows, for a follower.
    Rows(OrderPageBody, Rows<'a>),
    /// The status of a page's sources, for a follower.
    Sources(SourceStates, Group<'a, SourceState>),
    /// The state of a stream of copies.
    CopyState(DropCopyState),
    /// A copy of a report.
    Copy(ReportCopy, CopiedReport),
    /// The high-water mark of a stream of copies.
    CopyMark(CopyMark),
    /// An ingest message, for a source's writer.
    Source(SourceMessage),
    /// A message about subscriptions, for a subscriber or publisher.
    Broker(NodeMessage<'a>),
    /// Market data.
    Market(MarketMessage<'a>),
}

/// A connection and its sessions.
#[derive(Debug)]
pub struct Client {
    target: Target,
    limits: Limits,
    connection: Connection,
    sessions: Vec<Session>,
    /// The index of each session in `sessions`.
    places: HashMap<SessionId, usize>,
    /// The number of challenges requested and not yet answered; a node limits them per connection.
    challenge_count: usize,
    /// Indices of sessions whose challenge request waits for others to be answered.
    to_challenge: VecDeque<usize>,
    clock: Clock,
    last_heard: Nanos,
    /// An error interrupted the dispatch; received messages are still unread.
    is_interrupted: bool,
    /// The time of the next heartbeat check, which runs at an interval and not at every poll.
    next_care: Nanos,
    /// The head of a copy whose report comes next.
    copy_head: Option<ReportCopy>,
}

const CARE_INTERVAL: Nanos = Nanos(50_000_000);

impl Client {
    /// Connects to a node.
    ///
    /// # Errors
    /// [`ClientError::Connect`], [`ClientError::Handshake`].
    pub fn connect(target: impl Into<Target>, limits: Limits) -> Result<Client, ClientError> {
        let mut target = target.into();
        let connection = target.connect(limits)?;
        Ok(Client::over(connection, target, limits))
    }

    /// Returns a client on a connection to the target.
    pub(crate) fn over(connection: Connection, target: Target, limits: Limits) -> Client {
        let clock = Clock::default();
        Client {
            target,
            limits,
            connection,
            sessions: Vec::new(),
            places: HashMap::new(),
            challenge_count: 0,
            to_challenge: VecDeque::new(),
            clock,
            last_heard: clock.now(),
            is_interrupted: false,
            next_care: Nanos(0),
            copy_head: None,
        }
    }

    /// Opens a session and waits until it is open. Events received meanwhile are dropped: for a
    /// session that already has live orders, use [`Client::start_logon`] and
    /// [`Client::wait_until_open`] with a sink. The first session of a client is opened at the
    /// first of the target's addresses that opens it; each has `timeout` for it.
    ///
    /// # Errors
    /// [`ClientError::LogonRejected`], [`ClientError::Timeout`], or those of the connection; of
    /// several addresses [`ClientError::Addresses`].
    pub fn log_on(&mut self, config: SessionConfig, timeout: Duration) -> Result<(), ClientError> {
        self.open_session(Session::new(config), timeout, &mut |_, _| {})
    }

    /// As [`Client::log_on`], with other messages to `sink`.
    pub(crate) fn open_session(
        &mut self,
        session: Session,
        timeout: Duration,
        sink: &mut dyn FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<(), ClientError> {
        let is_first = self.sessions.is_empty();
        self.start_logon(session);
        let mut failed = Vec::new();
        loop {
            let address = self.target.address();
            match self.wait_until_open(timeout, sink) {
                Err(error) if is_first && error.is_passing() => {
                    self.target.pass_over();
                    failed.push(AddressFailure { address, error });
                }
                outcome => return outcome,
            }
            let connection = self.target.connect_after(&mut failed, self.limits)?;
            self.log_on_by(connection);
        }
    }

    /// Queues a session's logon without waiting; the session may have been open before.
    ///
    /// # Panics
    /// When the session is on this client already.
    pub fn start_logon(&mut self, session: Session) {
        let place = self.sessions.len();
        let before = self.places.insert(session.session_id(), place);
        assert!(before.is_none(), "a session is on a client once");
        self.sessions.push(session);
        self.put_logon(place);
    }

    /// Queues a session's logon, or defers it until another challenge may be requested.
    fn put_logon(&mut self, place: usize) {
        let session = &mut self.sessions[place];
        if session.signs() {
            if self.challenge_count == CHALLENGE_COUNT_MAX {
                self.to_challenge.push_back(place);
                return;
            }
            self.challenge_count += 1;
        }
        session.put_logon(self.clock.now(), self.connection.outbox());
    }

    /// Waits until every session is open. Other messages go to `sink`, as in [`Client::poll`].
    ///
    /// # Errors
    /// As [`Client::log_on`].
    pub fn wait_until_open(
        &mut self,
        timeout: Duration,
        sink: &mut dyn FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<(), ClientError> {
        let deadline = Nanos(self.clock.now().0 + crate::clock::nanos(timeout).0);
        while !self.sessions.iter().all(Session::is_open) {
            let left = deadline.since(self.clock.now());
            if left.0 == 0 {
                return Err(ClientError::Timeout { waiting_for: "logon", timeout });
            }
            self.poll(Duration::from_nanos(left.0), &mut *sink)?;
        }
        Ok(())
    }

    /// Makes a new connection, to the first of the target's addresses that answers, and reopens
    /// every session at its state: missed events go to `sink`, requests that the node did not
    /// receive are sent again.
    ///
    /// # Errors
    /// As [`Client::log_on`]; the state is kept, so that it can be called again.
    pub fn reconnect(
        &mut self,
        timeout: Duration,
        sink: &mut dyn FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<(), ClientError> {
        self.sessions.iter_mut().for_each(Session::connection_lost);
        let connection = self.target.connect(self.limits)?;
        self.log_on_by(connection);
        let opened = self.wait_until_open(timeout, sink);
        opened.inspect_err(|error| self.target.pass_over_after(error))
    }

    /// Queues the logon of every session on a new connection.
    fn log_on_by(&mut self, connection: Connection) {
        self.sessions.iter_mut().for_each(Session::connection_lost);
        self.connection = connection;
        self.is_interrupted = false;
        self.last_heard = self.clock.now();
        self.challenge_count = 0;
        self.copy_head = None;
        self.to_challenge.clear();
        (0..self.sessions.len()).for_each(|place| self.put_logon(place));
    }

    /// Sets the address for the next [`Client::reconnect`]: a restarted node may listen elsewhere.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.target.set_address(address);
    }

    /// The client's clock, on which [`Times`] are based.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Shares another client's clock, so that their times are comparable. Call it before the first
    /// logon.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.last_heard = clock.now();
    }

    /// A session's state.
    #[must_use]
    pub fn session(&self, session_id: SessionId) -> Option<&Session> {
        self.places.get(&session_id).map(|place| &self.sessions[*place])
    }

    /// All sessions, in the order of their logons.
    #[must_use]
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Closes the connection and returns the sessions with their state.
    #[must_use]
    pub fn into_sessions(mut self) -> Vec<Session> {
        self.sessions.iter_mut().for_each(Session::connection_lost);
        self.sessions
    }

    /// The outbox, for frames other than the sessions' own, such as a follower's fetches.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        self.connection.outbox()
    }

    /// The connection, for waiting on several clients at once.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Submits a request to a session; [`Client::flush`] or [`Client::poll`] sends it.
    pub fn submit(
        &mut self,
        session_id: SessionId,
        partition_id: PartitionId,
        request: Request,
        times: Times,
    ) -> Submit {
        match self.places.get(&session_id) {
            Some(place) => self.submit_at(*place, partition_id, request, times),
            None => Submit::NotOpen,
        }
    }

    /// As [`Client::submit`], by the session's index in [`Client::sessions`]: for callers that
    /// submit often.
    ///
    /// # Panics
    /// When there is no session at `index`.
    #[inline]
    pub fn submit_at(
        &mut self,
        index: usize,
        partition_id: PartitionId,
        request: Request,
        times: Times,
    ) -> Submit {
        self.sessions[index].submit(partition_id, request, times, self.connection.outbox())
    }

    /// Sends queued bytes until the socket would block.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.connection.flush()
    }

    /// As [`Client::flush`]; if the connection has failed, the messages that came before that are
    /// dispatched first, as by [`Client::poll`]. The node's reason for its end is among them.
    ///
    /// # Errors
    /// As [`Client::poll`]; an error of a message comes before that of the connection.
    pub(crate) fn flush_or_hear(
        &mut self,
        mut sink: impl FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<(), ClientError> {
        let Err(failure) = self.connection.flush() else { return Ok(()) };
        while failure.is_connection_lost() {
            self.dispatch(&mut sink)?;
            let received = self.connection.receive();
            if !received.is_ok_and(|len| len > 0 || self.connection.has_more()) {
                break;
            }
        }
        Err(failure)
    }

    /// Sends queued bytes, waits up to `timeout` for messages, and passes each to `sink` with the
    /// outbox, so that it can be answered at once. Returns the number of messages.
    ///
    /// # Errors
    /// Those of the connection; [`ClientError::Gap`], [`ClientError::LogonRejected`],
    /// [`ClientError::LoggedOut`], [`ClientError::HeartbeatLost`]. The error of a connection that
    /// cannot be written to any more comes behind the messages that were received on it.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut sink: impl FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<usize, ClientError> {
        self.flush_or_hear(&mut sink)?;
        let timeout = if self.sessions.is_empty() {
            timeout
        } else {
            timeout.min(Duration::from_nanos(self.next_care.since(self.clock.now()).0.max(1)))
        };
        if !timeout.is_zero() && !self.is_interrupted {
            wait([&self.connection], timeout)?;
        }
        self.receive(sink)
    }

    /// As [`Client::poll`] without waiting: for callers that wait on several clients at once.
    ///
    /// # Errors
    /// As [`Client::poll`].
    pub fn receive(
        &mut self,
        mut sink: impl FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<usize, ClientError> {
        let received_len = self.connection.receive()?;
        let mut count = 0;
        if received_len > 0 || self.is_interrupted {
            self.is_interrupted = true;
            count = self.dispatch(&mut sink)?;
            self.is_interrupted = false;
        }
        let now = self.clock.now();
        if now >= self.next_care {
            self.next_care = Nanos(now.0 + CARE_INTERVAL.0);
            for session in &mut self.sessions {
                session.on_time(now, self.last_heard, self.connection.outbox())?;
            }
        }
        self.flush_or_hear(sink)?;
        Ok(count)
    }

    fn dispatch(
        &mut self,
        sink: &mut impl FnMut(Incoming<'_>, &mut Vec<u8>),
    ) -> Result<usize, ClientError> {
        self.last_heard = self.clock.now();
        let mut count = 0;
        while let Some((message, out)) = self.connection.next_message()? {
            count += 1;
            if let Some(head) = self.copy_head.take() {
                sink(Incoming::Copy(head, copied(&head, &message)?), out);
                continue;
            }
            let message = match of_no_session(message) {
                Ok(incoming) => {
                    sink(incoming, out);
                    continue;
                }
                Err(message) => message,
            };
            if let NodeMessage::ReportCopy(head) = message {
                self.copy_head = Some(head);
                continue;
            }
            let named = self.places.get(&addressee(&message)).copied();
            match named.or_else(|| refused_unnamed(&self.sessions, &message)) {
                Some(place) => {
                    let session_id = self.sessions[place].session_id();
                    let event = self.sessions[place].on_message(&message, out)?;
                    if matches!(event, SessionEvent::Challenged) {
                        match self.to_challenge.pop_front() {
                            Some(next) => self.sessions[next].put_logon(self.last_heard, out),
                            None => self.challenge_count = self.challenge_count.saturating_sub(1),
                        }
                    }
                    let reason = logged_out(&event);
                    sink(Incoming::Session(session_id, event), out);
                    reason.map_or(Ok(()), |reason| {
                        Err(ClientError::LoggedOut { session_id, reason })
                    })?;
                }
                None => unaddressed(&message)?,
            }
        }
        Ok(count)
    }

    /// Asks the node to close every session, and waits until it has done so or `timeout` has
    /// passed.
    ///
    /// # Errors
    /// Those of the connection, except for its end.
    pub fn log_out(mut self, timeout: Duration) -> Result<(), ClientError> {
        for session in self.sessions.iter_mut().filter(|session| session.is_open()) {
            session.put_logout(self.connection.outbox());
        }
        let deadline = Nanos(self.clock.now().0 + crate::clock::nanos(timeout).0);
        while self.sessions.iter().any(Session::is_open) {
            let left = deadline.since(self.clock.now());
            match self.poll(Duration::from_nanos(left.0), |_, _| {}) {
                Ok(_) if left.0 == 0 => break,
                Ok(_) | Err(ClientError::LoggedOut { .. }) => {}
                Err(ClientError::Closed) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Converts a message that is passed on without dispatch to a session; returns any other one.
#[expect(clippy::result_large_err, reason = "it is handed back, and no failure")]
fn of_no_session(message: NodeMessage<'_>) -> Result<Incoming<'_>, NodeMessage<'_>> {
    Ok(match message {
        NodeMessage::Market(message) => Incoming::Market(message),
        NodeMessage::DropCopyState(state) => Incoming::CopyState(state),
        NodeMessage::CopyMark(mark) => Incoming::CopyMark(mark),
        NodeMessage::OrderPage(page, token) => Incoming::Page(page, token),
        NodeMessage::OrderPageBody(body, rows) => Incoming::Rows(body, rows),
        NodeMessage::SourceStates(states, sources) => Incoming::Sources(states, sources),
        message if is_of_broker(&message) => Incoming::Broker(message),
        message => match SourceMessage::of(&message) {
            Some(of_source) => Incoming::Source(of_source),
            None => return Err(message),
        },
    })
}

/// Returns true if a message is for a subscriber or publisher.
fn is_of_broker(message: &NodeMessage<'_>) -> bool {
    matches!(
        message,
        NodeMessage::SubscriptionDone(_)
            | NodeMessage::SubscriptionState(..)
            | NodeMessage::SubscriptionAttached(..)
            | NodeMessage::SubscribedMessage(..)
            | NodeMessage::SubscriptionEnded(..)
            | NodeMessage::PublishAck(_)
            | NodeMessage::PublishReject(_)
            | NodeMessage::NamedToken(..)
    )
}

/// The session that a message names.
fn addressee(message: &NodeMessage<'_>) -> SessionId {
    match message {
        NodeMessage::ExecutionReport(m) => m.event.session_id,
        NodeMessage::RequestRejected(m) => m.session_id,
        NodeMessage::RequestDone(m) => m.session_id,
        NodeMessage::TradeBusted(m) => m.session_id,
        NodeMessage::Reject(m) => m.session_id,
        NodeMessage::Heartbeat(m) => m.session_id,
        NodeMessage::LogonAck(m, _) => m.session_id,
        NodeMessage::LogonReject(m) => m.session_id,
        NodeMessage::Challenge(m) => m.session_id,
        NodeMessage::Logout(m) => m.session_id,
        NodeMessage::OrderPage(m, _) => m.session_id,
        NodeMessage::OrderPageBody(m, _) => m.session_id,
        NodeMessage::SourceStates(m, _) => m.session_id,
        NodeMessage::DropCopyState(m) => m.session_id,
        NodeMessage::ReportCopy(m) => m.session_id,
        NodeMessage::CopyMark(m) => m.session_id,
        NodeMessage::SourceOpened(m) => m.session_id,
        NodeMessage::SourceAck(m) => m.session_id,
        NodeMessage::SourceGap(m) => m.session_id,
        NodeMessage::SourceReject(m) => m.session_id,
        NodeMessage::SourceReset(m) => m.session_id,
        NodeMessage::FollowState(m) => m.session_id,
        NodeMessage::SnapshotChunk(m, _) => m.session_id,
        NodeMessage::SubscriptionDone(m) => m.session_id,
        NodeMessage::SubscriptionState(m, _) => m.session_id,
        NodeMessage::SubscriptionAttached(m, _) => m.session_id,
        NodeMessage::SubscribedMessage(m, _) => m.session_id,
        NodeMessage::SubscriptionEnded(m, _) => m.session_id,
        NodeMessage::PublishAck(m) => m.session_id,
        NodeMessage::PublishReject(m) => m.session_id,
        NodeMessage::NamedToken(m, _) => m.session_id,
        NodeMessage::Market(m) => m.session_id(),
    }
}

/// Returns the report that follows a copy's head; any other message is an error.
fn copied(head: &ReportCopy, message: &NodeMessage<'_>) -> Result<CopiedReport, DecodeError> {
    let report = CopiedReport::of(message).ok_or(DecodeError::Unexpected(ReportCopy::NAME))?;
    let wrong = |field, index| {
        Err(DecodeError::FieldOutOfRange { message: ReportCopy::NAME, field, index })
    };
    match report.address() {
        (owner, _) if owner != head.owner_session_id => wrong("owner_session_id", 5),
        (_, partition_id) if partition_id != head.partition_id => wrong("partition_id", 7),
        _ => Ok(report),
    }
}

fn logged_out(event: &SessionEvent) -> Option<Reason> {
    match event {
        SessionEvent::LoggedOut(logout) => Some(logout.reason),
        _ => None,
    }
}

/// Returns the session of a refused request that the node could not read: it knows no message of
/// this kind. `None` if a request of another session or of another kind may be the one.
fn refused_unnamed(sessions: &[Session], message: &NodeMessage<'_>) -> Option<usize> {
    let NodeMessage::Reject(reject) = message else { return None };
    let all = sessions.iter().enumerate();
    let mut waiting = all.filter(|(_, session)| session.unanswered_count() > 0);
    let (first, second) = (waiting.next(), waiting.next());
    let (place, session) = first.filter(|_| second.is_none())?;
    (reject.session_id.is_none() && session.is_refused_unnamed(reject)).then_some(place)
}

/// Handles a message without a session of this client: the end of the connection, or nothing.
fn unaddressed(message: &NodeMessage<'_>) -> Result<(), ClientError> {
    match message {
        NodeMessage::Logout(logout) => {
            Err(ClientError::LoggedOut { session_id: logout.session_id, reason: logout.reason })
        }
        NodeMessage::Reject(reject) => Err(ClientError::Refused {
            request: "a message",
            reason: reject.reason,
            subject: reject.field.to_string(),
        }),
        _ => Ok(()),
    }
}
