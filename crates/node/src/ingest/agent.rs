//! The ingest agent: the sockets of outside cores, who they are, and what of theirs goes to the
//! store.
//!
//! A connection carries one session of the role `Source`, let in by the same reception as a
//! gateway's. A full ring, or a window's worth of batches in front of the store, stops the reading
//! of the connection that it is of, and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use weir_io::Rng;
use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::session::{Heartbeat, Logout, NodeId};
use weir_wire::{Definition, Event};

use super::figures::IngestFigures;
use super::handoff::{Asked, IngestRequest, StorePort};
use super::link::Link;
use crate::agent::Agent;
use crate::event_reader::{EventReader, ReadEvent};
use crate::gateway::ConnectionId;
use crate::gateway::directory::{KnownSession, Redefined};
use crate::gateway::reception::Reception;
use crate::runner::Poller;

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// The token of connection 0.
const FIRST: usize = 2;
/// Connections accepted in one cycle.
const ACCEPT_MAX: usize = 16;
/// Deadlines are looked at so often.
const CARE_INTERVAL: u64 = 50_000_000;
/// How long a connection that is closed may take to read why.
const CLOSING_TIME: u64 = 1_000_000_000;
/// Silence after which a connection is lost, in tenths of its heartbeat interval.
const SILENCE_TENTHS: u64 = 25;

/// The limits of ingest.
#[derive(Clone, Copy, Debug)]
pub struct IngestLimits {
    /// Connections at the same time.
    pub connections_max: usize,
    /// How long a connection may be without a session.
    pub logon_time_max: Nanos,
}

/// What the agent is made of.
pub struct IngestParts {
    /// Where cores connect.
    pub listener: std::net::TcpListener,
    /// Which session feeds which source.
    pub sources: Vec<(PartitionId, SessionId)>,
    /// The control log's events, from the first retained one: who may log on.
    pub definitions: EventReader,
    /// The store.
    pub port: StorePort,
    /// Who the node is.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits.
    pub limits: IngestLimits,
    /// The node is stopping.
    pub draining: Arc<AtomicBool>,
    /// Figures for others to read.
    pub figures: Arc<IngestFigures>,
}

/// The agent.
pub struct IngestAgent {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    may_accept: bool,
    pub(super) reception: Reception,
    definitions: EventReader,
    record: Vec<u8>,
    pub(super) sources: Vec<(PartitionId, SessionId)>,
    links: BTreeMap<u64, Link>,
    next_link: u64,
    pub(super) by_session: HashMap<SessionId, u64>,
    pub(super) port: StorePort,
    /// Connections whose end the store is still to hear of.
    gone: Vec<u64>,
    has_asked: bool,
    next_care: Nanos,
    limits: IngestLimits,
    draining: Arc<AtomicBool>,
    pub(super) figures: Arc<IngestFigures>,
}

impl IngestAgent {
    /// An agent that knows all sessions that the control log has defined.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn new(parts: IngestParts) -> std::io::Result<IngestAgent> {
        parts.listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(parts.listener);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut agent = IngestAgent {
            poll,
            events: Events::with_capacity(256),
            listener,
            may_accept: true,
            reception: Reception::new(parts.node_id, parts.rng),
            definitions: parts.definitions,
            record: Vec::with_capacity(512),
            sources: parts.sources,
            links: BTreeMap::new(),
            next_link: 0,
            by_session: HashMap::new(),
            port: parts.port,
            gone: Vec::new(),
            has_asked: false,
            next_care: Nanos(0),
            limits: parts.limits,
            draining: parts.draining,
            figures: parts.figures,
        };
        agent.take_definitions(Nanos(0));
        Ok(agent)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Takes in who there is and by which key.
    fn take_definitions(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        while let ReadEvent::Record(_) = self.definitions.next(&mut self.record) {
            taken += 1;
            if let Ok(Event::Defined(_, definition)) = Event::decode(&self.record) {
                self.define(&definition, now);
            }
        }
        taken
    }

    fn define(&mut self, definition: &Definition, now: Nanos) {
        let Some(redefined) = self.reception.directory.define(definition) else { return };
        let Redefined { session_id, known, is_key_replaced } = redefined;
        let Some(id) = self.by_session.get(&session_id).copied() else { return };
        if is_key_replaced {
            self.end(id, Reason::KeyReplaced, now);
        } else if let Some(session) = self.links.get_mut(&id).and_then(|link| link.session.as_mut())
        {
            session.valid_until = known.valid_until;
        }
    }

    fn accept(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while self.may_accept && count < ACCEPT_MAX && !self.draining.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    count += 1;
                    self.welcome(stream, now);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.may_accept = false;
                }
                // Nothing that the next one could not be: it is gone already, or there are no
                // files.
                Err(_) => break,
            }
        }
        count
    }

    fn welcome(&mut self, mut stream: mio::net::TcpStream, now: Nanos) {
        if self.links.len() >= self.limits.connections_max {
            add(&self.figures.connections_refused, 1);
            return;
        }
        let id = self.next_link;
        let token = Token(FIRST + usize::try_from(id).expect("fewer than 2^64 connections"));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let is_ready = stream.set_nodelay(true).is_ok()
            && self.poll.registry().register(&mut stream, token, interest).is_ok();
        if is_ready {
            self.next_link += 1;
            add(&self.figures.accepted, 1);
            self.links.insert(id, Link::new(stream, now));
        }
    }

    /// Passes the store's answers on.
    fn take_answers(&mut self) -> usize {
        let mut count = 0;
        while let Ok(answer) = self.port.answers.pop() {
            count += 1;
            add(&self.figures.refused, u64::from(answer.is_refusal));
            let Some(link) = self.links.get_mut(&answer.connection) else { continue };
            link.under_way -= answer.taken_len;
            link.output.extend_from_slice(&answer.bytes);
        }
        count
    }

    /// Reads each connection that has something, as far as the store has room.
    fn read(&mut self, now: Nanos) -> usize {
        let mut frames = 0;
        let ids: Vec<u64> = self.links.keys().copied().collect();
        for id in ids {
            let mut link = self.links.remove(&id).expect("listed above");
            if link.closing_by.is_none() && (link.readable || link.must_wait || link.has_input()) {
                link.fill(now);
                frames += self.take_frames(id, &mut link, now);
            }
            link.flush(now);
            if link.is_gone || (link.closing_by.is_some() && link.is_sent()) {
                self.forget(id, link);
            } else {
                self.links.insert(id, link);
            }
        }
        frames
    }

    /// Hands something to the store; false when there is no room.
    pub(super) fn ask(&mut self, connection: u64, what: Asked) -> bool {
        let asked = self.port.requests.push(IngestRequest { connection, what }).is_ok();
        self.has_asked |= asked;
        asked
    }

    fn forget(&mut self, id: u64, mut link: Link) {
        // A socket that is not known to the poll any more is closed all the same.
        let _ = self.poll.registry().deregister(&mut link.stream);
        self.reception.forget(ConnectionId(id));
        if let Some(session) = link.session {
            self.by_session.remove(&session.session_id);
        }
        self.gone.push(id);
    }

    /// The store hears of connections that are gone before it hears of their successors.
    fn tell_gone(&mut self) {
        while let Some(id) = self.gone.first().copied() {
            if !self.ask(id, Asked::Gone) {
                return;
            }
            self.gone.remove(0);
        }
    }

    pub(super) fn has_told_gone(&self) -> bool {
        self.gone.is_empty()
    }

    /// Ends a connection and says why.
    fn end(&mut self, id: u64, reason: Reason, now: Nanos) {
        if let Some(link) = self.links.get_mut(&id) {
            close(link, reason, now);
            add(&self.figures.ended, 1);
        }
    }

    /// Heartbeats and deadlines.
    fn care(&mut self, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        let mut ended = 0;
        for link in self.links.values_mut() {
            let due = due(link, &self.limits, now);
            if let Some(reason) = due {
                close(link, reason, now);
                ended += 1;
            } else if let (Some(session), None) = (&link.session, link.closing_by)
                && now.since(link.said_at).0 >= session.heartbeat_interval
            {
                put_frame(&heartbeat(session.session_id, now), &mut link.output);
            }
            link.is_gone |= link.closing_by.is_some_and(|by| now >= by);
        }
        add(&self.figures.ended, ended);
        self.figures.connections.store(self.links.len() as u64, Ordering::Relaxed);
        self.figures.sessions.store(self.by_session.len() as u64, Ordering::Relaxed);
    }
}

/// Why a connection is to end now, if it is.
fn due(link: &Link, limits: &IngestLimits, now: Nanos) -> Option<Reason> {
    if link.closing_by.is_some() {
        return None;
    }
    if link.is_behind() {
        return Some(Reason::SlowConsumer);
    }
    let Some(session) = &link.session else {
        let is_late = now.since(link.accepted_at) >= limits.logon_time_max;
        return is_late.then_some(Reason::LogonTimeout);
    };
    if KnownSession::is_over(session.valid_until, now) {
        return Some(Reason::KeyExpired);
    }
    // Who is not read is not silent.
    let is_silent = !link.must_wait
        && now.since(link.heard_at).0 * 10 > session.heartbeat_interval * SILENCE_TENTHS;
    is_silent.then_some(Reason::HeartbeatLost)
}

/// Says why and reads nothing more.
pub(super) fn close(link: &mut Link, reason: Reason, now: Nanos) {
    let session_id = link.session.map_or(SessionId::NONE, |session| session.session_id);
    put_frame(&Logout { session_id, reason }, &mut link.output);
    link.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
}

fn heartbeat(session_id: SessionId, now: Nanos) -> Heartbeat {
    Heartbeat {
        sending_time: now,
        high_water: weir_types::EventNo::NONE,
        session_id,
        partition_id: PartitionId::NONE,
        load_permille: 0,
    }
}

pub(super) fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl Agent for IngestAgent {
    fn name(&self) -> &'static str {
        "ingest"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = self.take_definitions(now);
        done += self.take_answers();
        self.tell_gone();
        done += self.accept(now);
        done += self.read(now);
        self.care(now);
        if std::mem::take(&mut self.has_asked) {
            self.port.wake.wake();
        }
        done
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.next_care)
    }

    fn stop(&mut self, now: Nanos) -> bool {
        for link in self.links.values_mut() {
            if link.closing_by.is_none() {
                close(link, Reason::Stopping, now);
            }
            link.flush(now);
        }
        // Who does not read it is told by the end of the connection.
        true
    }
}

impl Poller for IngestAgent {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the ingest agent's poll failed: {error}");
            return;
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                LISTENER => self.may_accept = true,
                Token(token) => {
                    let Some(link) = self.links.get_mut(&((token - FIRST) as u64)) else {
                        continue;
                    };
                    link.readable |= event.is_readable() || event.is_read_closed();
                    if event.is_writable() {
                        link.is_writable_again();
                    }
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }
}
