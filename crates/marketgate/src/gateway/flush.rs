//! A flush thread's agent: its subscribers' sockets, the second stage of conflation, and a mirror
//! of the books.
//!
//! Its cycle: what was told, what subscribers say, who may be told something, what is sent. Who
//! does not read costs its own bounded queues; nothing here waits for anybody, and so the ring is
//! never held up by a subscriber.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll as Sockets, Token};
use rtrb::Producer;
use weir_door::directory::Redefined;
use weir_door::reception::Reception;
use weir_door::transport::Transport;
use weir_door::{ConnectionId, Door, Entrance, Scratch, Socket};
use weir_io::Rng;
use weir_market::Definition;
use weir_market::conflate::{Fanout, Interest, Poll, Polled, SubscriberId};
use weir_market::line::State;
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_runtime::{Agent, Poller, Wake};
use weir_types::{InstrumentId, Nanos, Reason, SessionId};
use weir_wire::Event;
use weir_wire::session::NodeId;

use super::figures::{FlushFigures, FlushTimes, SubscriberReport, number_of};
use super::link::{LIMITS, LOCAL_LIMITS, Link};
use super::local::LocalEntrance;
use super::mirror::Mirror;
use super::ring::RingReader;
use super::shm::{Lent, ShmDoor};
use super::stages::FlushProbe;
use super::told::{ChannelIndex, Told, What};
use super::writing::{Address, Drafts, instrument_of, put_channel, put_instrument, put_message};

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// What asks for snapshots of the ring in shared memory.
const SHM: Token = Token(usize::MAX - 1);
/// The token of connection 0.
const FIRST: usize = 2;
/// Connections accepted in one cycle.
const ACCEPT_MAX: usize = 16;
/// Slots heard in one cycle.
const HEAR_MAX: u64 = 1_024;
/// Messages to one subscriber in one cycle: one who wants all makes nobody wait long.
const MESSAGES_MAX: usize = 256;
/// Deadlines are looked at, and figures shown, so often.
const CARE_INTERVAL: u64 = 50_000_000;
/// Bytes read at once.
const READ_LEN: usize = 16 * 1024;

/// What the agent is made of.
pub struct FlushParts {
    /// Where subscribers connect.
    pub door: Door,
    /// Where the door over HTTP connects for its readers.
    pub local: LocalEntrance,
    /// What is told.
    pub hearing: RingReader<Told>,
    /// Where wishes go.
    pub wishes: Producer<Interest>,
    /// Wakes who takes them.
    pub updater: Wake,
    /// Instruments have numbers below this.
    pub instruments_max: u32,
    /// Connections at the same time.
    pub connections_max: usize,
    /// Subscriptions of one subscriber.
    pub subscriptions_max: u32,
    /// Messages that a subscription may have queued.
    pub queue_len_max: u32,
    /// How long a connection may be without a session.
    pub logon_time_max: Nanos,
    /// The control log's events, from the first retained one: who may log on.
    pub definitions: EventReader,
    /// Who the node is.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The node is stopping.
    pub draining: Arc<AtomicBool>,
    /// Figures for others to read.
    pub figures: Arc<FlushFigures>,
    pub(super) times: FlushTimes,
    /// Times messages.
    pub probe: FlushProbe,
    /// The ring in shared memory, where it is this thread's.
    pub shm: Option<ShmDoor>,
    /// The feed is a capture or a file, whose times are not the machine's.
    pub is_replayed: bool,
}

/// The agent.
pub struct FlushAgent {
    sockets: Sockets,
    events: Events,
    entrance: Entrance,
    local: LocalEntrance,
    pub(super) reception: Reception,
    sessions: EventReader,
    record: Vec<u8>,
    scratch: Scratch,
    hearing: RingReader<Told>,
    wishes: Producer<Interest>,
    /// Wishes that the ring had no room for.
    unsaid: Vec<Interest>,
    updater: Wake,
    pub(super) fanout: Fanout,
    mirror: Mirror,
    definitions: Vec<Option<Definition>>,
    channels: Vec<State>,
    links: HashMap<u64, Link>,
    next_link: u64,
    by_subscriber: Vec<Option<u64>>,
    /// Connections with input or output to look at.
    touched: BTreeSet<u64>,
    /// Connections whose next frame has to wait.
    waiting: BTreeSet<u64>,
    /// Connections that may be told something now.
    hot: BTreeSet<u64>,
    /// When connections may be told something.
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    drafts: Drafts,
    next_care: Nanos,
    connections_max: usize,
    pub(super) queue_len_max: u32,
    logon_time_max: Nanos,
    draining: Arc<AtomicBool>,
    pub(super) figures: Arc<FlushFigures>,
    times: FlushTimes,
    probe: FlushProbe,
    shm: Option<ShmDoor>,
    /// The newest time of a replayed feed, which ages count from; none for a live feed.
    replayed: Option<Nanos>,
}

impl FlushAgent {
    /// An agent that knows all sessions that the control log has defined.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn new(parts: FlushParts) -> std::io::Result<FlushAgent> {
        let sockets = Sockets::new()?;
        let entrance = parts.door.open(sockets.registry(), LISTENER)?;
        let instrument_id_max = InstrumentId(parts.instruments_max.saturating_sub(1));
        let mut agent = FlushAgent {
            sockets,
            events: Events::with_capacity(1024),
            entrance,
            local: parts.local,
            reception: Reception::new(parts.node_id, parts.rng),
            sessions: parts.definitions,
            record: Vec::with_capacity(512),
            scratch: Scratch::new(READ_LEN),
            hearing: parts.hearing,
            wishes: parts.wishes,
            unsaid: Vec::new(),
            updater: parts.updater,
            fanout: Fanout::new(instrument_id_max, parts.subscriptions_max),
            mirror: Mirror::new(parts.instruments_max),
            definitions: Vec::new(),
            channels: Vec::new(),
            links: HashMap::new(),
            next_link: 0,
            by_subscriber: Vec::new(),
            touched: BTreeSet::new(),
            waiting: BTreeSet::new(),
            hot: BTreeSet::new(),
            due: BinaryHeap::new(),
            drafts: Drafts::default(),
            next_care: Nanos(0),
            connections_max: parts.connections_max,
            queue_len_max: parts.queue_len_max,
            logon_time_max: parts.logon_time_max,
            draining: parts.draining,
            figures: parts.figures,
            times: parts.times,
            probe: parts.probe,
            shm: parts.shm,
            replayed: parts.is_replayed.then_some(Nanos(0)),
        };
        if let Some(shm) = &mut agent.shm {
            shm.begin(agent.sockets.registry(), SHM, &mut agent.fanout)?;
        }
        agent.take_definitions(Nanos(0));
        Ok(agent)
    }

    /// Takes in who there is and by which key.
    fn take_definitions(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        while let ReadEvent::Record(_) = self.sessions.next(&mut self.record) {
            taken += 1;
            let Ok(Event::Defined(_, definition)) = Event::decode(&self.record) else { continue };
            let redefined = self.reception.directory.define(&definition);
            if let Some(Redefined { session_id, is_key_replaced: true, .. }) = redefined {
                self.end_all_of(session_id, now);
            }
        }
        taken
    }

    /// Whoever logged on by a key that was replaced logs on anew.
    fn end_all_of(&mut self, session_id: SessionId, now: Nanos) {
        let of = |link: &Link| link.session.is_some_and(|open| open.session_id == session_id);
        for (id, link) in self.links.iter_mut().filter(|(_, link)| of(link)) {
            link.close(Reason::KeyReplaced, now);
            add(&self.figures.ended, 1);
            self.touched.insert(*id);
        }
    }

    fn hear(&mut self, now: Nanos) -> usize {
        let FlushAgent { hearing, mirror, fanout, definitions, channels, links, shm, .. } = self;
        let (times, touched, probe) = (&mut self.times, &mut self.touched, &mut self.probe);
        let replayed = &mut self.replayed;
        let heard = hearing.take(HEAR_MAX, |told| {
            mirror.take(told);
            match &told.what {
                What::Nothing => {}
                What::Entry(entry) => {
                    times.handed.record(now.since(told.told_at).0);
                    *replayed = replayed.map(|newest| newest.max(entry.merged.ts_recv));
                    told.trace.iter().for_each(|trace| probe.heard(entry, trace));
                    fanout.apply(now, entry);
                }
                What::Define(definition) => {
                    note_definition(definitions, definition);
                    links.values_mut().for_each(|link| link.forget(definition.instrument_id));
                    shm.iter_mut().for_each(|shm| shm.forget(definition.instrument_id));
                    fanout.define(now, definition);
                }
                What::Channel(_, state) => {
                    note_channel(channels, told, *state);
                    shm.iter_mut().for_each(|shm| shm.put_channel(now, told.channel, *state));
                    for (id, link) in links.iter_mut() {
                        let Some(session) = link.session else { continue };
                        let to = (session.session_id, now);
                        put_channel(to, (told.channel, *state), &mut link.socket.output);
                        touched.insert(*id);
                    }
                }
                What::NewSession => fanout.new_session(),
            }
        });
        self.collect_ready();
        heard
    }

    fn collect_ready(&mut self) {
        let FlushAgent { fanout, hot, by_subscriber, shm, .. } = self;
        fanout.take_ready(|subscriber| {
            shm.iter_mut().for_each(|shm| shm.note_ready(subscriber));
            let link = by_subscriber.get(subscriber.0 as usize).copied().flatten();
            hot.extend(link);
        });
    }

    /// Hands on what subscribers began and ceased to want.
    fn say_wishes(&mut self) -> usize {
        self.unsaid.extend(self.fanout.take_interest());
        let mut said = 0;
        for interest in &self.unsaid {
            if self.wishes.push(*interest).is_err() {
                break;
            }
            said += 1;
        }
        self.unsaid.drain(..said);
        if said > 0 {
            self.updater.wake();
        }
        said
    }

    pub(super) fn welcome_subscriber(&mut self, id: u64, subscriber: SubscriberId) {
        let index = subscriber.0 as usize;
        if self.by_subscriber.len() <= index {
            self.by_subscriber.resize(index + 1, None);
        }
        self.by_subscriber[index] = Some(id);
    }

    /// A connection may have something to be told, or may have it sooner.
    pub(super) fn look_at(&mut self, id: u64) {
        self.hot.insert(id);
    }

    pub(super) fn put_channels(&self, link: &mut Link, session_id: SessionId, now: Nanos) {
        for (channel, state) in (0..).zip(&self.channels) {
            put_channel((session_id, now), (channel, *state), &mut link.socket.output);
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
        while count < ACCEPT_MAX
            && let Some(stream) = self.local.next()
        {
            count += 1;
            if !self.draining.load(Ordering::Relaxed) {
                self.welcome(Transport::Local(stream), now);
            }
        }
        count
    }

    fn welcome(&mut self, transport: Transport, now: Nanos) {
        if self.links.len() >= self.connections_max {
            add(&self.figures.connections_refused, 1);
            return;
        }
        let id = self.next_link;
        let token = Token(FIRST + usize::try_from(id).expect("fewer than 2^64 connections"));
        let at = (self.sockets.registry(), token);
        let is_web = matches!(transport, Transport::Local(_));
        let limits = if is_web { LOCAL_LIMITS } else { LIMITS };
        if let Ok(socket) = Socket::open(transport, limits, at, now) {
            self.next_link += 1;
            add(&self.figures.accepted, 1);
            self.links.insert(id, Link::new(socket, is_web));
            self.touched.insert(id);
        }
    }

    /// Reads each connection that has something.
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

    /// Tells everybody who may be told something.
    fn tell(&mut self, now: Nanos) -> usize {
        while let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            self.hot.insert(id);
        }
        let mut told = 0;
        for id in std::mem::take(&mut self.hot) {
            told += self.tell_one(id, now);
        }
        told += self.tell_shm(now);
        self.probe.end_of_telling(!self.hot.is_empty());
        told
    }

    fn tell_shm(&mut self, now: Nanos) -> usize {
        let FlushAgent { shm: Some(shm), fanout, mirror, definitions, channels, .. } = self else {
            return 0;
        };
        let (drafts, probe) = (&mut self.drafts, &mut self.probe);
        shm.tell(&mut Lent { now, fanout, mirror, definitions, channels, drafts, probe })
    }

    fn tell_one(&mut self, id: u64, now: Nanos) -> usize {
        let FlushAgent { links, fanout, mirror, definitions, drafts, times, probe, .. } = self;
        let replayed = self.replayed;
        let Some(link) = links.get_mut(&id) else { return 0 };
        let (Some(session), Some(subscriber)) = (link.session, link.subscriber) else { return 0 };
        if !link.socket.is_open() {
            return 0;
        }
        // Who has no room is told when it has, as `flush` says; but whether it is to be let go is
        // seen now, since it may never have room again.
        let room = if link.socket.has_room() { MESSAGES_MAX } else { 0 };
        let mut sent = 0;
        let poll = Poll { subscriber, now, room };
        let polled = fanout.poll(poll, mirror, &mut |message, mirror| {
            let handle = link.handle_of(message.subscription);
            // What came within this cycle is not sent before it came.
            let now = now.max(message.entry.merged.ts_recv);
            let to = Address { session_id: session.session_id, handle, now };
            let instrument = instrument_of(message);
            if link.is_new(instrument)
                && let Some(Some(definition)) = definitions.get(instrument.0 as usize)
            {
                put_instrument(to, definition, &mut link.socket.output);
            }
            put_message(to, message, mirror, drafts, &mut link.socket.output);
            probe.written(id, &message.entry);
            sent += 1;
            if message.entry.merged.change_count > 0 {
                let clock = replayed.unwrap_or(now);
                link.counts.last_age = clock.since(message.entry.merged.ts_recv).0;
                times.age.record(link.counts.last_age);
            }
        });
        link.counts.messages += sent;
        add(&self.figures.messages, sent);
        match polled {
            Polled::Sent { .. } if room == 0 => {}
            Polled::Sent { left, .. } => {
                if left > 0 {
                    self.hot.insert(id);
                } else if let Some(at) = self.fanout.next_due(subscriber) {
                    self.due.push(Reverse((at, id)));
                }
            }
            Polled::Disconnect(_) => {
                link.close(Reason::SlowConsumer, now);
                add(&self.figures.disconnected, 1);
            }
            Polled::Unknown => {}
        }
        self.touched.insert(id);
        usize::try_from(sent).unwrap_or(usize::MAX)
    }

    /// Sends what is there, and lets go of who has gone.
    fn flush(&mut self, now: Nanos) {
        for id in std::mem::take(&mut self.touched) {
            let Some(link) = self.links.get_mut(&id) else { continue };
            let had_room = link.socket.has_room();
            link.socket.flush(now);
            self.probe.flushed(id, link.socket.is_sent());
            if link.socket.has_ended() {
                self.forget(id);
            } else if !had_room && link.socket.has_room() {
                self.hot.insert(id);
            }
        }
    }

    fn forget(&mut self, id: u64) {
        let Some(mut link) = self.links.remove(&id) else { return };
        link.socket.leave(self.sockets.registry());
        self.reception.forget(ConnectionId(id));
        if let Some(subscriber) = link.subscriber {
            self.fanout.remove_subscriber(subscriber);
            self.by_subscriber[subscriber.0 as usize] = None;
        }
    }

    /// Heartbeats, deadlines, figures.
    fn care(&mut self, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        for (id, link) in &mut self.links {
            if let Some(reason) = due(link, self.logon_time_max, now) {
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
        let reports = self.links.values().filter_map(|link| report_of(link, &self.fanout));
        self.figures.show(self.links.len(), reports);
    }
}

fn report_of(link: &Link, fanout: &Fanout) -> Option<SubscriberReport> {
    let standing = fanout.standing(link.subscriber?)?;
    Some(SubscriberReport {
        session_id: number_of(link.session?.session_id),
        is_web: link.is_web,
        subscriptions: link.by_handle.len(),
        messages: link.counts.messages,
        last_age_ns: link.counts.last_age,
        queue_len: standing.queue_len,
        waiting: standing.waiting_count,
        merged: standing.merged_count,
        lost: standing.lost_count,
    })
}

fn note_definition(definitions: &mut Vec<Option<Definition>>, definition: &Definition) {
    let index = definition.instrument_id.0 as usize;
    if definitions.len() <= index {
        definitions.resize(index + 1, None);
    }
    definitions[index] = Some(*definition);
}

fn note_channel(channels: &mut Vec<State>, told: &Told, state: State) {
    let channel: ChannelIndex = told.channel;
    let index = usize::from(channel);
    if channels.len() <= index {
        channels.resize(index + 1, State::Waiting);
    }
    channels[index] = state;
}

/// Why a connection is to end now, if it is.
fn due(link: &Link, logon_time_max: Nanos, now: Nanos) -> Option<Reason> {
    if link.socket.is_closing() {
        return None;
    }
    let Some(session) = &link.session else {
        return link.socket.is_late(logon_time_max, now).then_some(Reason::LogonTimeout);
    };
    let is_heard = !link.must_wait && link.socket.has_room();
    link.socket.lapse((session.heartbeat_interval, session.valid_until), is_heard, now)
}

pub(super) fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl Agent for FlushAgent {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = self.take_definitions(now);
        done += self.hear(now);
        done += self.accept(now);
        done += self.read(now);
        self.collect_ready();
        done += self.say_wishes();
        done += self.tell(now);
        self.care(now);
        self.flush(now);
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if self.hearing.has_more() || !self.hot.is_empty() || !self.waiting.is_empty() {
            return Some(now);
        }
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let shm = self.shm.as_ref().and_then(|shm| shm.next_due(&self.fanout, now));
        [due, shm].into_iter().flatten().chain([self.next_care]).min()
    }

    fn stop(&mut self, now: Nanos) -> bool {
        for link in self.links.values_mut() {
            if !link.socket.is_closing() {
                link.close(Reason::Stopping, now);
            }
            link.socket.flush(now);
        }
        true
    }
}

impl Poller for FlushAgent {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.sockets.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the poll of a flush thread failed: {error}");
            return;
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                LISTENER => self.entrance.is_ready(),
                SHM => self.shm.iter_mut().for_each(ShmDoor::is_readable),
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
        mio::Waker::new(self.sockets.registry(), WAKER)
    }
}
