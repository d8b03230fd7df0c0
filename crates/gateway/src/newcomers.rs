//! Connections that have not logged on, on a thread of their own.
//!
//! A client without a key can connect, send anything and hang up, as often as it likes. That costs
//! this thread its time and the order path none: the gateway gets a connection when its first
//! session has proved its identity, with the bytes that it has sent, its logon first. The gateway
//! decides whether that session is opened, and from where its streams go on; a connection whose
//! logon it refuses, or whose last session has left, stays there.
//!
//! This is not a [`weir_door::Listener`], because a connection leaves it with its unread bytes, in
//! the gateway's form: with many sessions, lent input buffers, the time of its first byte for the
//! probe, and deadlines in a timer wheel. A copy into that form would cost the order path. The two
//! share the parts: entrance, lobby, reception, table, transport, the reasons for broken frames,
//! and the limits of errors, silence and farewell.
//!
//! INVARIANT: a connection belongs to this thread or to the gateway, never to both, and the number
//! of [`ConnectionSlots`] taken is the sum of both.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_door::challenges::OpenChallenges;
use weir_door::keys::Lock;
use weir_door::lobby::{LEAVE_WHEN_SHORT, Lobby};
use weir_door::reception::Reception;
use weir_door::socket::CLOSING_TIME;
use weir_door::transport::{Ending, Transport};
use weir_door::{ConnectionId, Door, Entrance};
use weir_io::descriptors::DescriptorRoom;
use weir_io::net::{Events, Net, Poll, Token, Waker};
use weir_runtime::{Agent, Poller, Wake};
use weir_types::{Nanos, Reason, SessionId, WallOffset};
use weir_wire::Definition;
use weir_wire::reference::DefineSession;
use weir_wire::session::{Logon, LogonReject, SignedLogon};

use super::connection::{Connection, ReadBuffers, ReadOutcome};
use super::connections::{Connections, FlushList, ReadList};
use super::counters::GatewayCounters;
use super::fairness::{OF_A_STRANGER, Share};
use super::lines::{Lines, peer_of};
use super::plant::{self, Plant};
use super::protocol::{Answer, Inbound, InputState, Protocol, Refusal, SignedText};
use super::refusals::{put_malformed, put_refused_logon, put_reject};
use super::timer_wheel::TimerWheel;
use super::timers::{STATUS_INTERVAL, after};
use super::{GatewayConfig, GatewayStatus};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// Connections accepted in one cycle.
const ACCEPTS_MAX: usize = 16;
/// Connections read in one cycle.
const READS_MAX: usize = 16;
/// Deadlines handled in one cycle.
const DEADLINES_MAX: usize = 16;
/// Bytes of unsent answers at which no more messages are taken from a connection.
const OUTPUT_LEN_MAX: usize = 16 * 1024;
/// Connections on their way to the gateway.
const ARRIVALS_MAX: usize = 256;
/// Definitions on their way from the gateway.
const DEFINITIONS_MAX: usize = 1024;
/// The time in nanoseconds between looks if connections may be accepted.
const OPENING_LOOK: u64 = 5_000_000;

/// The number of connections, here and at the gateway.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSlots(Arc<AtomicUsize>);

impl ConnectionSlots {
    fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is gone.
    pub fn give_back(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection whose first session has proved its identity. Its input begins with that logon.
pub struct Arrival {
    pub(super) connection: Box<Connection>,
    /// The lock that the session opened; if it has another one by now, the proof is void.
    pub(super) lock: Lock,
    /// The connection's open challenges for further sessions.
    pub(super) challenges: OpenChallenges,
}

/// The gateway's side.
pub struct NewcomersPort {
    pub(super) arrivals: Consumer<Arrival>,
    definitions: Producer<DefineSession>,
    pub(super) slots: ConnectionSlots,
    wake: Wake,
}

/// The newcomers' side.
pub struct GatewayPort {
    arrivals: Producer<Arrival>,
    definitions: Consumer<DefineSession>,
    slots: ConnectionSlots,
    wake: Wake,
}

/// Connects the two; each gets the wake of the other.
#[must_use]
pub fn link(gateway: Wake, newcomers: Wake) -> (NewcomersPort, GatewayPort) {
    let (arrivals_in, arrivals_out) = RingBuffer::new(ARRIVALS_MAX);
    let (definitions_in, definitions_out) = RingBuffer::new(DEFINITIONS_MAX);
    let slots = ConnectionSlots::default();
    let port = NewcomersPort {
        arrivals: arrivals_out,
        definitions: definitions_in,
        slots: slots.clone(),
        wake: newcomers,
    };
    let other =
        GatewayPort { arrivals: arrivals_in, definitions: definitions_out, slots, wake: gateway };
    (port, other)
}

impl NewcomersPort {
    /// True if there is room for one more definition.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.definitions.is_full()
    }

    /// Hands over the definition of a session.
    ///
    /// # Panics
    /// Without room.
    pub fn tell(&mut self, definition: DefineSession) {
        assert!(self.definitions.push(definition).is_ok(), "it was asked for room");
        self.wake.wake();
    }
}

/// The parts of the agent.
pub struct NewcomersParts {
    /// The network of the door.
    pub net: Net,
    /// The source of connections.
    pub door: Door,
    /// The protocol of the connections from there.
    pub protocol: Protocol,
    /// The gateway, which takes them over.
    pub gateway: GatewayPort,
    /// The sessions; changes come from the gateway.
    pub reception: Reception,
    /// The gateway's limits, which also hold here.
    pub config: GatewayConfig,
    /// Set when the node stops: no connection is accepted any more.
    pub draining: Arc<AtomicBool>,
    /// Counters for other threads.
    pub status: Arc<Mutex<GatewayStatus>>,
}

/// The agent of connections that have not logged on.
pub struct Newcomers {
    poll: Poll,
    poll_events: Events,
    entrance: Entrance,
    protocol: Protocol,
    connections: Connections,
    buffers: ReadBuffers,
    read_list: ReadList,
    flush_list: FlushList,
    lobby: Lobby,
    reception: Reception,
    gateway: GatewayPort,
    proved: VecDeque<Arrival>,
    timers: TimerWheel,
    counters: GatewayCounters,
    lines: Lines,
    config: GatewayConfig,
    draining: Arc<AtomicBool>,
    status: Arc<Mutex<GatewayStatus>>,
    status_at: Nanos,
    stop_by: Option<Nanos>,
    /// Set once connections may be accepted; `None` when it was.
    may_accept: Option<Arc<AtomicBool>>,
}

/// The outcome of a message.
enum NewcomerOutcome {
    Done,
    /// The limit of verifications is reached.
    NotNow,
    /// It is the logon of a session that has proved its identity.
    Proved(Lock),
}

impl Newcomers {
    /// An agent that listens.
    ///
    /// # Errors
    /// When the operating system refuses a poll or the listener.
    pub fn new(parts: NewcomersParts) -> std::io::Result<Newcomers> {
        let poll = parts.net.poll()?;
        let entrance = parts.door.open(poll.registry(), LISTENER)?;
        Ok(Newcomers {
            poll,
            poll_events: Events::with_capacity(1024),
            entrance,
            protocol: parts.protocol,
            connections: Connections::default(),
            buffers: ReadBuffers::default(),
            read_list: ReadList::default(),
            flush_list: FlushList::default(),
            lobby: Lobby::new(parts.config.lobby, parts.reception.map_order()),
            reception: parts.reception,
            gateway: parts.gateway,
            proved: VecDeque::new(),
            timers: TimerWheel::new(Nanos(0)),
            counters: GatewayCounters::default(),
            lines: Lines::default(),
            config: parts.config,
            draining: parts.draining,
            status: parts.status,
            status_at: Nanos(0),
            stop_by: None,
            may_accept: None,
        })
    }

    /// Takes in changes of sessions; returns their number.
    fn take_definitions(&mut self) -> usize {
        let mut count = 0;
        while let Ok(definition) = self.gateway.definitions.pop() {
            // A session that logged on by a replaced key belongs to the gateway.
            self.reception.directory.define(&Definition::DefineSession(definition));
            count += 1;
        }
        count
    }

    /// Lets connections wait in the system's backlog until a flag is set: until sessions are known.
    #[must_use]
    pub fn waiting_for(self, may_accept: Arc<AtomicBool>) -> Newcomers {
        Newcomers { may_accept: Some(may_accept), ..self }
    }

    /// Returns true once connections are accepted.
    fn is_open(&mut self) -> bool {
        // SYNC: pairs with the store in `Gateway::tell_complete`.
        let is_open = self.may_accept.as_ref().is_none_or(|may| may.load(Ordering::Acquire));
        if is_open {
            self.may_accept = None;
        }
        is_open
    }

    fn accept(&mut self, now: Nanos) -> usize {
        let mut accepted = 0;
        while accepted < ACCEPTS_MAX
            && self.is_open()
            && let Some((transport, peer)) = self.entrance.accept()
        {
            accepted += 1;
            self.admit(transport, peer, now);
        }
        accepted
    }

    fn admit(&mut self, mut transport: Transport, peer: Option<SocketAddr>, now: Nanos) {
        let address = peer.map(|peer| peer.ip());
        let taken = self.gateway.slots.taken();
        let room = transport.stream().descriptor_room();
        let is_full = taken >= self.config.connections_max;
        match self.lobby.place_for(address, is_full || room != DescriptorRoom::Plenty) {
            Some(_) if plant::is(Plant::NewcomerTurnedAway) => return,
            Some(stranger) => self.evict(stranger, now),
            None if is_full => {
                self.lines.turned_away(&mut self.counters, peer, taken, now);
                return;
            }
            None => {}
        }
        if room != DescriptorRoom::Plenty {
            for _ in 1..LEAVE_WHEN_SHORT {
                let Some(stranger) = self.lobby.place_for(None, true) else { break };
                self.evict(stranger, now);
            }
        }
        if room == DescriptorRoom::None {
            self.lines.turned_away(&mut self.counters, peer, taken, now);
            return;
        }
        let id = self.connections.reserve();
        let (registry, token) = (self.poll.registry(), Token(id.slot()));
        let stream = transport.stream();
        if stream.set_nodelay().and_then(|()| registry.register(stream, token)).is_err() {
            self.connections.release(id);
            return;
        }
        self.counters.accepted += 1;
        self.gateway.slots.take_one();
        let mut connection = Box::new(Connection::new(id, transport, self.protocol, now));
        connection.peer = peer;
        tracing::debug!(peer = peer_of(&connection), "connection accepted");
        self.lobby.enter(id, address, now);
        self.set_timer(&connection);
        self.read_list.add(&mut connection);
        self.connections.put_back(connection.id, connection);
    }

    /// Closes a connection that has not logged on, to make place for another one.
    fn evict(&mut self, id: ConnectionId, now: Nanos) {
        let Some(mut stranger) = self.connections.take(id) else { return };
        self.counters.strangers_evicted += 1;
        self.close(&mut stranger, Reason::TooManyConnections, now);
        self.connections.put_back(id, stranger);
    }

    /// Reads connections that have input; returns their number.
    fn read(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        for _ in 0..self.read_list.len().min(READS_MAX) {
            let Some(id) = self.read_list.pop_front() else { break };
            let Some(mut connection) = self.connections.take(id) else { continue };
            connection.in_read_list = false;
            let read = self.read_connection(&mut connection, OF_A_STRANGER, now);
            connection.settle_input(&mut self.buffers);
            // A connection at its limit does not keep this thread awake.
            count += usize::from(!connection.must_wait);
            match read {
                Ok(None) => {
                    if connection.must_wait || connection.readable {
                        self.want_read(&mut connection);
                    }
                    self.connections.put_back(connection.id, connection);
                }
                Ok(Some(lock)) => self.let_in(connection, lock),
                Err(()) => self.drop_connection(connection),
            }
        }
        count
    }

    /// Takes the next messages of a connection. Returns the lock of its session once that has
    /// proved its identity, and an error if the peer is gone.
    fn read_connection(
        &mut self,
        connection: &mut Connection,
        share: Share,
        now: Nanos,
    ) -> Result<Option<Lock>, ()> {
        if connection.closing_by.is_some() {
            return Ok(None);
        }
        if !connection.has_room(OUTPUT_LEN_MAX) {
            // No requests are taken from a peer that does not read its answers.
            connection.waits_for_room = true;
            return Ok(None);
        }
        // Messages that an earlier turn left over come before new bytes.
        let mut messages = share.messages;
        if !connection.input.is_empty()
            && let Some(lock) = self.take_messages(connection, &mut messages, now)
        {
            return Ok(Some(lock));
        }
        if connection.must_wait || !connection.readable || connection.closing_by.is_some() {
            return Ok(None);
        }
        if connection.fill(now, &mut self.buffers, share.bytes) == ReadOutcome::Gone {
            return Err(());
        }
        Ok(self.take_messages(connection, &mut messages, now))
    }

    /// Takes whole messages, as many as are left, until one has to wait or lets the connection in.
    fn take_messages(
        &mut self,
        connection: &mut Connection,
        left: &mut usize,
        now: Nanos,
    ) -> Option<Lock> {
        // The input is lent to the messages while the connection's output grows.
        let mut input = std::mem::take(&mut connection.input);
        let mut has_waited = std::mem::take(&mut connection.must_wait);
        let mut opened = None;
        while connection.closing_by.is_none() {
            if *left == 0 {
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
                        NewcomerOutcome::Done => {
                            has_waited = false;
                            input.consume(len);
                        }
                        NewcomerOutcome::NotNow => {
                            // A message counts once, however often it is tried.
                            self.counters.back_pressure += u64::from(!has_waited);
                            connection.must_wait = true;
                            break;
                        }
                        NewcomerOutcome::Proved(lock) => {
                            opened = Some(lock);
                            break;
                        }
                    }
                    *left -= 1;
                }
            }
        }
        connection.input = input;
        opened
    }

    fn take_message(
        &mut self,
        connection: &mut Connection,
        message: Inbound<'_>,
        now: Nanos,
    ) -> NewcomerOutcome {
        let (refusal, reason) = match message {
            Inbound::Logon(logon, _) => return self.log_on(connection, &logon, now),
            Inbound::SignedLogon(logon, _, text) => {
                return self.log_on_signed(connection, &logon, text, now);
            }
            Inbound::ChallengeRequest(session_id) => {
                return self.challenge(connection, session_id, now);
            }
            Inbound::Logout(session_id) => {
                if session_id.is_none() {
                    self.close(connection, Reason::LogoutRequested, now);
                }
                return NewcomerOutcome::Done;
            }
            // No session is logged on here that a heartbeat could belong to.
            Inbound::Heartbeat(_) => return NewcomerOutcome::Done,
            Inbound::Malformed(refusal, reason) => {
                let closes = put_malformed(connection, refusal, reason, &mut self.counters);
                return self.answered(connection, closes, now);
            }
            Inbound::Misplaced(refusal) => (refusal, Reason::NotServedHere),
            Inbound::Request(request) => (Refusal::of(&request), Reason::NotLoggedOn),
            Inbound::Fetch(fetch, _) => (Refusal::of_fetch(&fetch), Reason::NotLoggedOn),
            Inbound::CancelFetch(cancel) => (Refusal::of_cancel(&cancel), Reason::NotLoggedOn),
            Inbound::AddCredit(more) => (Refusal::of_credit(&more), Reason::NotLoggedOn),
            Inbound::CopyRequest(request) => (Refusal::of_copies(&request), Reason::NotLoggedOn),
        };
        put_reject(connection, refusal, reason, &mut self.counters);
        self.answered(connection, None, now)
    }

    fn log_on(
        &mut self,
        connection: &mut Connection,
        logon: &Logon,
        now: Nanos,
    ) -> NewcomerOutcome {
        let via = connection.origin(now);
        match self.reception.prove_by_key(logon, via) {
            Ok(_) => self.proved_to_be(logon.session_id),
            Err(reject) => self.refuse_logon(connection, &reject, now),
        }
    }

    fn log_on_signed(
        &mut self,
        connection: &mut Connection,
        logon: &SignedLogon,
        text: SignedText<'_>,
        now: Nanos,
    ) -> NewcomerOutcome {
        let via = connection.origin(now);
        let text = |node_id, nonce| text.of_challenge(node_id, nonce);
        match self.reception.prove_by_signed_text(logon, text, via) {
            None => NewcomerOutcome::NotNow,
            Some(Ok(_)) => self.proved_to_be(logon.session_id),
            Some(Err(reject)) => self.refuse_logon(connection, &reject, now),
        }
    }

    fn proved_to_be(&self, session_id: SessionId) -> NewcomerOutcome {
        let lock = self.reception.directory.lock_of(session_id);
        NewcomerOutcome::Proved(*lock.expect("it was opened"))
    }

    fn challenge(
        &mut self,
        connection: &mut Connection,
        id: SessionId,
        now: Nanos,
    ) -> NewcomerOutcome {
        match self.reception.challenge(id, connection.origin(now)) {
            Ok(challenge) => {
                connection.put(&Answer::Challenge(&challenge));
                self.counters.challenges += 1;
                self.answered(connection, None, now)
            }
            Err(reject) => self.refuse_logon(connection, &reject, now),
        }
    }

    fn refuse_logon(
        &mut self,
        connection: &mut Connection,
        reject: &LogonReject,
        now: Nanos,
    ) -> NewcomerOutcome {
        let (counters, lines) = (&mut self.counters, &mut self.lines);
        let closes = put_refused_logon(connection, reject, counters, lines, now);
        self.answered(connection, closes, now)
    }

    /// Sends an answer, and closes the connection where there is a reason to.
    fn answered(
        &mut self,
        connection: &mut Connection,
        closes: Option<Reason>,
        now: Nanos,
    ) -> NewcomerOutcome {
        self.flush_list.add(connection);
        if let Some(reason) = closes {
            self.close(connection, reason, now);
        }
        NewcomerOutcome::Done
    }

    fn close(&mut self, connection: &mut Connection, reason: Reason, now: Nanos) {
        if connection.closing_by.is_some() {
            return;
        }
        connection.put(&Answer::Logout { session_id: SessionId::NONE, reason });
        connection.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
        self.lines.closing(&mut self.counters, connection, reason, now);
        self.set_timer(connection);
        self.flush_list.add(connection);
    }

    /// Queues a connection for the gateway.
    fn let_in(&mut self, mut connection: Box<Connection>, lock: Lock) {
        let challenges = self.reception.take_challenges(connection.id);
        self.forget(&mut connection);
        self.proved.push_back(Arrival { connection, lock, challenges });
    }

    fn drop_connection(&mut self, mut connection: Box<Connection>) {
        match connection.ending {
            Some(Ending::Truncated) => self.counters.tls_truncated += 1,
            Some(Ending::Broken) => self.counters.tls_broken += 1,
            Some(Ending::Closed) | None => {}
        }
        if connection.closing_by.is_some() {
            self.counters.connections_cut += 1;
        } else {
            self.counters.connections_closed_by_peer += 1;
        }
        self.reception.forget(connection.id);
        self.forget(&mut connection);
        self.gateway.slots.give_back();
    }

    /// Removes a connection that has left.
    fn forget(&mut self, connection: &mut Connection) {
        self.timers.cancel(connection.id.slot());
        self.lobby.gone(connection.id);
        // A closed socket leaves the poll by itself; an error here changes nothing.
        drop(self.poll.registry().deregister(connection.transport.stream()));
        self.connections.release(connection.id);
    }

    /// Hands connections to the gateway as far as it has room; returns their number.
    fn hand_over(&mut self) -> usize {
        let mut count = 0;
        while let Some(arrival) = self.proved.pop_front() {
            if let Err(rtrb::PushError::Full(arrival)) = self.gateway.arrivals.push(arrival) {
                self.proved.push_front(arrival);
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.gateway.wake.wake();
        }
        count
    }

    fn want_read(&mut self, connection: &mut Connection) {
        if connection.closing_by.is_none() && !connection.waits_for_room {
            self.read_list.add(connection);
        }
    }

    /// Writes pending output; returns the number of connections.
    fn flush(&mut self, now: Nanos) -> usize {
        let ids = self.flush_list.take();
        let count = ids.len();
        for id in ids {
            let Some(mut connection) = self.connections.take(id) else { continue };
            connection.in_flush_list = false;
            let mut gone = connection.flush(now) == ReadOutcome::Gone;
            gone |= connection.closing_by.is_some()
                && connection.output_len() == 0
                && connection.say_farewell(now);
            if gone {
                self.drop_connection(connection);
                continue;
            }
            if connection.output_len() > 0 && connection.can_write() {
                self.flush_list.add(&mut connection);
            }
            if connection.waits_for_room && connection.has_room(OUTPUT_LEN_MAX) {
                connection.waits_for_room = false;
                self.want_read(&mut connection);
            }
            self.set_timer(&connection);
            self.connections.put_back(connection.id, connection);
        }
        count
    }

    fn set_timer(&mut self, connection: &Connection) {
        match self.deadline_of(connection) {
            Some(deadline) => self.timers.set(connection.id.slot(), deadline),
            None => self.timers.cancel(connection.id.slot()),
        }
    }

    fn deadline_of(&self, connection: &Connection) -> Option<Nanos> {
        if let Some(by) = connection.closing_by {
            return Some(by);
        }
        let stall_max = self.config.stall_max.0;
        let stalls_at = connection.stalled_since.map(|since| Nanos(since.0 + stall_max));
        stalls_at.into_iter().chain(self.lobby.deadline_of(connection.id)).min().map(after)
    }

    /// Handles connections whose deadline has passed, a bounded number; returns their number.
    fn run_timers(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < DEADLINES_MAX {
            let Some(slot) = self.timers.next_due(now) else { break };
            count += 1;
            let id = self.connections.in_slot(slot).map(|connection| connection.id);
            let Some(mut connection) = id.and_then(|id| self.connections.take(id)) else {
                continue;
            };
            if connection.closing_by.is_some_and(|by| now >= by) {
                self.drop_connection(connection);
                continue;
            }
            let stall_max = self.config.stall_max;
            if connection.stalled_since.is_some_and(|since| now.since(since) > stall_max) {
                self.counters.slow_consumers += 1;
                self.close(&mut connection, Reason::SlowConsumer, now);
            } else if self.lobby.is_overdue(connection.id, now) && connection.closing_by.is_none() {
                self.counters.logon_timeouts += 1;
                self.close(&mut connection, Reason::LogonTimeout, now);
            } else {
                self.set_timer(&connection);
            }
            self.connections.put_back(connection.id, connection);
        }
        count
    }

    fn publish_status(&mut self) {
        self.counters.connections = (self.connections.count() + self.proved.len()) as u64;
        let checks = self.reception.directory.checks();
        self.counters.api_keys_checked = checks.api_keys;
        self.counters.signatures_checked = checks.signatures;
        let Some(mut status) = super::free(&self.status) else { return };
        status.newcomers.clone_from(&self.counters);
    }
}

impl Poller for Newcomers {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.poll_events, timeout) {
            assert!(
                error.kind() == std::io::ErrorKind::Interrupted,
                "the newcomers' poll failed: {error}"
            );
            return;
        }
        for event in self.poll_events.iter() {
            match event.token {
                LISTENER => self.entrance.is_ready(),
                WAKER => {}
                Token(slot) => {
                    let Some(connection) = self.connections.in_slot(slot) else { continue };
                    connection.on_ready(event);
                    if connection.closing_by.is_none() && !connection.waits_for_room {
                        self.read_list.add(connection);
                    }
                    if event.is_writable && connection.output_len() > 0 {
                        self.flush_list.add(connection);
                    }
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<Waker> {
        self.poll.waker(WAKER)
    }
}

impl Agent for Newcomers {
    fn name(&self) -> &'static str {
        "newcomers"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        // A session that was just defined can log on.
        let mut done = self.take_definitions();
        done += self.run_timers(now);
        if !self.draining.load(Ordering::Relaxed) {
            done += self.read(now);
            done += self.accept(now);
        }
        done += self.hand_over();
        done += self.flush(now);
        if now >= self.status_at {
            self.status_at = Nanos(now.0 + STATUS_INTERVAL);
            self.publish_status();
        }
        done
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.reception.directory.wall_clock_moved(wall);
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.read_list.is_empty() || !self.proved.is_empty() {
            return Some(Nanos(now.0 + 500_000));
        }
        let look_again = self.status_at.min(self.timers.look_again_at());
        let opens = self.may_accept.as_ref().map(|_| Nanos(now.0 + OPENING_LOOK));
        Some(opens.map_or(look_again, |at| at.min(look_again)))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        if self.stop_by.is_none() {
            self.stop_by = Some(Nanos(now.0 + CLOSING_TIME));
            for id in self.connections.ids() {
                let Some(mut connection) = self.connections.take(id) else { continue };
                self.close(&mut connection, Reason::Stopping, now);
                self.connections.put_back(connection.id, connection);
            }
        }
        self.hand_over();
        self.flush(now);
        let is_done = self.connections.count() == 0 && self.proved.is_empty();
        is_done || self.stop_by.is_some_and(|by| now >= by)
    }
}
