//! The ingest agent: the sockets of outside cores, who they are, and what of theirs goes to the
//! store.
//!
//! A connection carries one session of the role `Source`, let in by the same reception as a
//! gateway's. A full ring, or a window's worth of batches in front of the store, stops the reading
//! of the connection that it is of, and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_door::directory::Redefined;
use weir_door::reception::Reception;
use weir_door::transport::Transport;
use weir_door::{ConnectionId, Door, Entrance, Scratch, Socket};
use weir_io::Rng;
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_runtime::{Agent, Poller};
use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::session::NodeId;
use weir_wire::{Definition, Event};

use super::figures::IngestFigures;
use super::handoff::{Asked, IngestRequest, StorePort};
use super::link::{LIMITS, Link};

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// The token of connection 0.
const FIRST: usize = 2;
/// Connections accepted in one cycle.
const ACCEPT_MAX: usize = 16;
/// Bytes read at once.
const READ_LEN: usize = 64 * 1024;
/// Deadlines are looked at so often.
const CARE_INTERVAL: u64 = 50_000_000;

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
    pub door: Door,
    /// Which session feeds which source.
    pub sources: Vec<(PartitionId, SessionId)>,
    /// Sources of another node that are followed here, for replicas of the replica.
    pub followed: Vec<PartitionId>,
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
    entrance: Entrance,
    pub(super) reception: Reception,
    definitions: EventReader,
    record: Vec<u8>,
    scratch: Scratch,
    pub(super) sources: Vec<(PartitionId, SessionId)>,
    pub(super) followed: Vec<PartitionId>,
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
        let poll = Poll::new()?;
        let entrance = parts.door.open(poll.registry(), LISTENER)?;
        let mut agent = IngestAgent {
            poll,
            events: Events::with_capacity(256),
            entrance,
            reception: Reception::new(parts.node_id, parts.rng),
            definitions: parts.definitions,
            record: Vec::with_capacity(512),
            scratch: Scratch::new(READ_LEN),
            sources: parts.sources,
            followed: parts.followed,
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
        while count < ACCEPT_MAX
            && !self.draining.load(Ordering::Relaxed)
            && let Some((transport, _)) = self.entrance.accept()
        {
            count += 1;
            self.welcome(transport, now);
        }
        count
    }

    fn welcome(&mut self, transport: Transport, now: Nanos) {
        if self.links.len() >= self.limits.connections_max {
            add(&self.figures.connections_refused, 1);
            return;
        }
        let id = self.next_link;
        let token = Token(FIRST + usize::try_from(id).expect("fewer than 2^64 connections"));
        let at = (self.poll.registry(), token);
        if let Ok(socket) = Socket::open(transport, LIMITS, at, now) {
            self.next_link += 1;
            add(&self.figures.accepted, 1);
            self.links.insert(id, Link::new(socket));
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
            link.socket.output.extend_from_slice(&answer.bytes);
        }
        count
    }

    /// Reads each connection that has something, as far as the store has room.
    fn read(&mut self, now: Nanos) -> usize {
        let mut frames = 0;
        let ids: Vec<u64> = self.links.keys().copied().collect();
        for id in ids {
            let mut link = self.links.remove(&id).expect("listed above");
            let socket = &mut link.socket;
            let has_more = socket.is_readable() || link.must_wait || socket.has_input();
            if !socket.is_closing() && has_more {
                socket.fill(&mut self.scratch, now);
                frames += self.take_frames(id, &mut link, now);
            }
            link.socket.flush(now);
            if link.socket.has_ended() {
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
        link.socket.leave(self.poll.registry());
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
            link.close(reason, now);
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
                link.close(reason, now);
                ended += 1;
            } else if let Some(session) = &link.session {
                link.socket.keep_alive(session.session_id, session.heartbeat_interval, now);
            }
            link.socket.give_up(now);
        }
        add(&self.figures.ended, ended);
        self.figures.connections.store(self.links.len() as u64, Ordering::Relaxed);
        self.figures.sessions.store(self.by_session.len() as u64, Ordering::Relaxed);
    }
}

/// Why a connection is to end now, if it is.
fn due(link: &Link, limits: &IngestLimits, now: Nanos) -> Option<Reason> {
    if link.socket.is_closing() {
        return None;
    }
    if !link.socket.has_room() {
        return Some(Reason::SlowConsumer);
    }
    let Some(session) = &link.session else {
        return link.socket.is_late(limits.logon_time_max, now).then_some(Reason::LogonTimeout);
    };
    let until = (session.heartbeat_interval, session.valid_until);
    link.socket.lapse(until, !link.must_wait, now)
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
            if !link.socket.is_closing() {
                link.close(Reason::Stopping, now);
            }
            link.socket.flush(now);
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
                LISTENER => self.entrance.is_ready(),
                Token(token) => {
                    let Some(link) = self.links.get_mut(&((token - FIRST) as u64)) else {
                        continue;
                    };
                    link.socket.note(event);
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }
}
