//! The broker's agent: sockets of subscribers and publishers, the queues between them, and the
//! partition's events as a producer among others.
//!
//! A connection carries one session, let in by the same reception as a gateway's. Who does not
//! read is not written to and costs its own bounded output; who is refused for want of room comes
//! again. Nothing here waits but for a part that one subscriber reads from the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_broker::{Broker, Change, MessageNo, Name, Quota, Topic};
use weir_door::directory::Redefined;
use weir_door::reception::Reception;
use weir_door::transport::Transport;
use weir_door::{ConnectionId, Door, Entrance, Scratch, Socket};
use weir_io::{Rng, ThreadDisk};
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_runtime::{Agent, Poller};
use weir_types::{Durability, Nanos, PartitionId, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::session::NodeId;
use weir_wire::subscription::SubscriptionDone;
use weir_wire::{Definition, Event};

use super::feed::{Feed, FeedParts};
use super::figures::BrokerFigures;
use super::link::{LIMITS, Link};

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// The token of connection 0.
const FIRST: usize = 2;
/// Connections accepted in one cycle.
const ACCEPT_MAX: usize = 16;
/// Events published in one cycle.
const FEED_MAX: usize = 256;
/// Deadlines are looked at so often.
const CARE_INTERVAL: u64 = 50_000_000;
/// The queues and the events are looked at so often when nobody is heard.
const LOOK_INTERVAL: u64 = 500_000;
/// The same where nobody is attached and nothing is under way.
const IDLE_INTERVAL: u64 = 5_000_000;
/// Bytes read at once.
const READ_LEN: usize = 128 * 1024;

/// The limits of the broker's sockets.
#[derive(Clone, Copy, Debug)]
pub struct BrokerLimits {
    /// Connections at the same time.
    pub connections_max: usize,
    /// How long a connection may be without a session.
    pub logon_time_max: Nanos,
}

/// What the agent is made of.
pub struct BrokerParts {
    /// Where subscribers and publishers connect.
    pub door: Door,
    /// The queues.
    pub broker: Broker<ThreadDisk>,
    /// Their level.
    pub durability: Durability,
    /// The quota of a subscription that is made without one.
    pub quota: Quota,
    /// The partition's events.
    pub feed: FeedParts,
    /// Which session says the executions of which outside source.
    pub sources: Vec<(PartitionId, SessionId)>,
    /// The control log's events, from the first retained one: who may log on.
    pub definitions: EventReader,
    /// Who the node is.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits.
    pub limits: BrokerLimits,
    /// The node is stopping.
    pub draining: Arc<AtomicBool>,
    /// Figures for others to read.
    pub figures: Arc<BrokerFigures>,
}

/// An answer that waits until a change is saved.
pub(super) struct Promised {
    pub(super) change: Change,
    pub(super) connection: u64,
    pub(super) done: SubscriptionDone,
}

/// The agent.
pub struct BrokerAgent {
    poll: Poll,
    events: Events,
    entrance: Entrance,
    pub(super) reception: Reception,
    definitions: EventReader,
    record: Vec<u8>,
    scratch: Scratch,
    pub(super) broker: Broker<ThreadDisk>,
    pub(super) durability: Durability,
    pub(super) default_quota: Quota,
    pub(super) feed: Feed,
    pub(super) sources: Vec<(PartitionId, SessionId)>,
    pub(super) links: HashMap<u64, Link>,
    next_link: u64,
    pub(super) by_session: HashMap<SessionId, u64>,
    /// Connections with input or output to look at.
    pub(super) touched: BTreeSet<u64>,
    /// Connections whose next frame has to wait.
    waiting: BTreeSet<u64>,
    /// Handles that may have messages to get.
    pub(super) hot: BTreeSet<(u64, u32)>,
    pub(super) by_topic: BTreeMap<Topic, Vec<(u64, u32)>>,
    /// Who is attached to what.
    pub(super) holders: BTreeMap<Name, (u64, u32)>,
    /// Connections with messages that are not acknowledged.
    pub(super) publishers: BTreeSet<u64>,
    pub(super) acknowledged: MessageNo,
    pub(super) promised: VecDeque<Promised>,
    has_failed: bool,
    next_care: Nanos,
    limits: BrokerLimits,
    draining: Arc<AtomicBool>,
    pub(super) figures: Arc<BrokerFigures>,
}

impl BrokerAgent {
    /// An agent that knows all sessions that the control log has defined.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn new(parts: BrokerParts) -> std::io::Result<BrokerAgent> {
        let poll = Poll::new()?;
        let entrance = parts.door.open(poll.registry(), LISTENER)?;
        let mut agent = BrokerAgent {
            poll,
            events: Events::with_capacity(1024),
            entrance,
            reception: Reception::new(parts.node_id, parts.rng),
            definitions: parts.definitions,
            record: Vec::with_capacity(512),
            scratch: Scratch::new(READ_LEN),
            acknowledged: parts.broker.acknowledged(),
            broker: parts.broker,
            durability: parts.durability,
            default_quota: parts.quota,
            feed: Feed::new(parts.feed),
            sources: parts.sources,
            links: HashMap::new(),
            next_link: 0,
            by_session: HashMap::new(),
            touched: BTreeSet::new(),
            waiting: BTreeSet::new(),
            hot: BTreeSet::new(),
            by_topic: BTreeMap::new(),
            holders: BTreeMap::new(),
            publishers: BTreeSet::new(),
            promised: VecDeque::new(),
            has_failed: false,
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
        let Some(session) = self.links.get_mut(&id).and_then(|link| link.session.as_mut()) else {
            return;
        };
        // What it is attached to was granted to what it was.
        let is_other = (session.firm_id, session.role) != (known.firm_id, known.role);
        session.valid_until = known.valid_until;
        if is_key_replaced || is_other {
            let reason = if is_other { Reason::NotEntitled } else { Reason::KeyReplaced };
            self.end(id, reason, now);
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
        if self.links.len() >= self.limits.connections_max || self.has_failed {
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
            self.touched.insert(id);
        }
    }

    /// Reads each connection that has something, as far as there is room for what it says.
    fn read(&mut self, now: Nanos) -> usize {
        let mut frames = 0;
        let mut ids = std::mem::take(&mut self.touched);
        ids.append(&mut self.waiting);
        for id in &ids {
            let Some(mut link) = self.links.remove(id) else { continue };
            if !link.socket.is_closing() && link.socket.has_room() {
                link.socket.fill(&mut self.scratch, now);
                frames += self.take_frames(*id, &mut link, now);
            }
            // What is still in the socket is not told of again.
            let socket = &link.socket;
            let has_more = socket.is_readable() || socket.has_input() && !socket.has_room();
            if (link.must_wait || has_more) && socket.is_open() {
                self.waiting.insert(*id);
            }
            self.links.insert(*id, link);
        }
        self.touched.append(&mut ids);
        frames
    }

    /// Sends what is there, and lets go of who has gone.
    fn flush(&mut self, now: Nanos) {
        for id in std::mem::take(&mut self.touched) {
            let Some(link) = self.links.get_mut(&id) else { continue };
            link.socket.flush(now);
            if link.socket.has_ended() {
                self.forget(id, now);
                continue;
            }
            if link.is_choked && link.socket.has_room() {
                link.is_choked = false;
                self.hot.extend(link.held.keys().map(|handle| (id, *handle)));
            }
        }
    }

    fn forget(&mut self, id: u64, now: Nanos) {
        let Some(mut link) = self.links.remove(&id) else { return };
        for (handle, held) in std::mem::take(&mut link.held) {
            self.let_go((id, handle), &held, now);
        }
        link.socket.leave(self.poll.registry());
        self.reception.forget(ConnectionId(id));
        if let Some(session) = link.session {
            self.by_session.remove(&session.session_id);
        }
        self.publishers.remove(&id);
    }

    /// Ends a connection and says why.
    fn end(&mut self, id: u64, reason: Reason, now: Nanos) {
        if let Some(link) = self.links.get_mut(&id) {
            link.close(reason, now);
            add(&self.figures.ended, 1);
            self.touched.insert(id);
        }
    }

    /// Lets the queues work, and says what became of what was promised.
    fn run_queues(&mut self, now: Nanos) -> usize {
        if self.has_failed {
            return 0;
        }
        match self.broker.do_work(now) {
            Ok(worked) => {
                self.tell_ends();
                self.keep_promises();
                self.acknowledge();
                worked
            }
            Err(error) => {
                tracing::error!(%error, "the broker has stopped: subscriptions are not served");
                self.has_failed = true;
                self.figures.has_stopped.store(1, Ordering::Relaxed);
                let ids: Vec<u64> = self.links.keys().copied().collect();
                ids.into_iter().for_each(|id| self.end(id, Reason::BrokerStopped, now));
                1
            }
        }
    }

    fn keep_promises(&mut self) {
        while let Some(promised) = self.promised.front()
            && self.broker.is_saved(promised.change)
        {
            let promised = self.promised.pop_front().expect("it is there a line above");
            if let Some(link) = self.links.get_mut(&promised.connection) {
                put_frame(&promised.done, &mut link.socket.output);
                self.touched.insert(promised.connection);
            }
        }
    }

    /// Publishes the partition's events.
    fn take_events(&mut self, now: Nanos) -> usize {
        if self.has_failed {
            return 0;
        }
        let BrokerAgent { feed, broker, hot, by_topic, .. } = self;
        let fed = feed.work(broker, FEED_MAX, now, |topic| {
            hot.extend(by_topic.get(&topic).into_iter().flatten());
        });
        add(&self.figures.events, fed.messages);
        fed.records
    }

    /// Heartbeats and deadlines.
    fn care(&mut self, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        for (id, link) in &mut self.links {
            if let Some(reason) = due(link, &self.limits, now) {
                link.close(reason, now);
                add(&self.figures.ended, 1);
                self.touched.insert(*id);
                continue;
            }
            let session = link.session.as_ref();
            let has_said = session.is_some_and(|session| {
                link.socket.keep_alive(session.session_id, session.heartbeat_interval, now)
            });
            if has_said || link.socket.give_up(now) {
                self.touched.insert(*id);
            }
        }
        let (links, sessions) = (self.links.len() as u64, self.by_session.len() as u64);
        self.figures.publish(&self.broker, (links, sessions, self.holders.len() as u64));
    }
}

/// Why a connection is to end now, if it is.
fn due(link: &Link, limits: &BrokerLimits, now: Nanos) -> Option<Reason> {
    if link.socket.is_closing() {
        return None;
    }
    let Some(session) = &link.session else {
        return link.socket.is_late(limits.logon_time_max, now).then_some(Reason::LogonTimeout);
    };
    let is_heard = !link.must_wait && link.socket.has_room();
    link.socket.lapse((session.heartbeat_interval, session.valid_until), is_heard, now)
}

pub(super) fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl Agent for BrokerAgent {
    fn name(&self) -> &'static str {
        "broker"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = self.take_definitions(now);
        done += self.accept(now);
        done += self.read(now);
        done += self.take_events(now);
        done += self.serve();
        done += self.run_queues(now);
        self.care(now);
        self.flush(now);
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let is_busy = !self.holders.is_empty()
            || !self.promised.is_empty()
            || !self.publishers.is_empty()
            || !self.waiting.is_empty();
        let interval = if is_busy { LOOK_INTERVAL } else { IDLE_INTERVAL };
        Some(Nanos(now.0 + interval).min(self.next_care))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        for link in self.links.values_mut() {
            if !link.socket.is_closing() {
                link.close(Reason::Stopping, now);
            }
            link.socket.flush(now);
        }
        if !self.has_failed
            && let Err(error) = self.broker.close()
        {
            tracing::error!(%error, "what was not taken is not all on disk");
        }
        // Who does not read it is told by the end of the connection.
        true
    }
}

impl Poller for BrokerAgent {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the broker's poll failed: {error}");
            return;
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                LISTENER => self.entrance.is_ready(),
                Token(token) => {
                    let id = (token - FIRST) as u64;
                    let Some(link) = self.links.get_mut(&id) else { continue };
                    link.socket.note(event);
                    self.touched.insert(id);
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }
}
