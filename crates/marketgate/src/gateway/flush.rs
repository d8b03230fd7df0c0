//! A flush thread's agent: the door of its subscribers, the second stage of conflation, and a
//! mirror of the books.
//!
//! Its cycle takes the entries of the ring, reads subscribers, writes the messages that are due and
//! sends them. A subscriber that does not read occupies its own bounded queues. The agent waits for
//! no subscriber, so that none holds up the ring. Subscribing and leaving, whose work grows with
//! the instruments, go on over cycles, a bounded number of steps in each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::Producer;
use weir_door::figures::add;
use weir_door::{
    ConnectionId, Door, DoorLimits, Intake, Listener, ListenerParts, LoggedOn, Protocol,
    SessionMessage, Terms,
};
use weir_feed::Definition;
use weir_feed::line::State;
use weir_io::Rng;
use weir_io::net::{Registry, Stream, Token};
use weir_market::conflate::{EndedSubscription, Fanout, Interest, Poll, PollOutcome};
use weir_partition::event_reader::EventReader;
use weir_runtime::Wake;
use weir_types::{InstrumentId, Nanos, Reason, Role, WallOffset};
use weir_wire::ClientMessage;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, put_frame};
use weir_wire::session::NodeId;

use super::figures::{FlushFigures, FlushTimes, SubscriberReport, number_of};
use super::flush_slot::{ChannelIndex, FlushContent, FlushSlot};
use super::intake::Refusal;
use super::link::{LIMITS, LOCAL_LIMITS, Link, Links, Subscriber};
use super::local::LocalEntrance;
use super::mirror::Mirror;
use super::ring::RingReader;
use super::shm::{RingParts, ShmDoor};
use super::stages::FlushProbe;
use super::standings::{SessionLimits, Standings};
use super::writing::{Address, Drafts, instrument_of, put_channel, put_instrument, put_message};

/// Entries taken from the ring in one cycle.
const HEAR_MAX: u64 = 1_024;
/// Messages to one subscriber in one cycle, so that a subscriber to everything delays no other.
const MESSAGES_MAX: usize = 256;
/// Steps of subscribing and leaving in one cycle: about 100 µs of the thread.
const STEPS_MAX: usize = 256;
/// Wishes without an answer at which no more steps are taken: so many of other sessions may be in
/// front of a session's own.
const UNANSWERED_MAX: u64 = 1_024;
/// The time until wishes without room are tried again, in nanoseconds.
const UNSAID_INTERVAL: u64 = 100_000;

/// The parts of the agent.
pub struct FlushParts {
    /// The thread's number, by which its wishes are answered.
    pub index: u16,
    /// The source of connections.
    pub door: Door,
    /// The source of connections from the door over HTTP.
    pub local: LocalEntrance,
    /// The ring of entries.
    pub hearing: RingReader<FlushSlot>,
    /// The ring of wishes: the instruments that subscribers want.
    pub wishes: Producer<Interest>,
    /// Wakes the thread that takes them.
    pub updater: Wake,
    /// The instruments' numbers are below this.
    pub instruments_max: u32,
    /// The limits on connections.
    pub limits: DoorLimits,
    /// The limits of sessions.
    pub sessions: SessionLimits,
    /// Subscriptions of one subscriber.
    pub subscriptions_max: u32,
    /// The limit of a subscription's queue, in messages.
    pub queue_len_max: u32,
    /// The control log's events from the first retained one: the sessions.
    pub definitions: EventReader,
    /// The node's identity.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// Set when the node stops.
    pub draining: Arc<AtomicBool>,
    /// Figures for other threads.
    pub figures: Arc<FlushFigures>,
    pub(super) times: FlushTimes,
    /// Measures the stages of messages.
    pub probe: FlushProbe,
    /// The ring in shared memory, if it is this thread's.
    pub shm: Option<ShmDoor>,
    /// The feed is a capture or a file, whose times are not the machine's.
    pub is_replayed: bool,
}

/// The agent.
pub type FlushAgent = Listener<Subscribers>;

/// The protocol of subscribers, the second stage of conflation, and the mirror.
pub struct Subscribers {
    index: u16,
    local: LocalEntrance,
    sessions: EventReader,
    hearing: RingReader<FlushSlot>,
    wishes: Producer<Interest>,
    /// Wishes that the ring had no room for.
    unsaid: VecDeque<Interest>,
    updater: Wake,
    pub(super) fanout: Fanout,
    pub(super) standings: Standings,
    /// Subscriptions that ended without a request; kept for its memory.
    ended: Vec<EndedSubscription>,
    mirror: Mirror,
    definitions: Vec<Option<Definition>>,
    channels: Vec<State>,
    by_subscriber: Vec<Option<ConnectionId>>,
    /// Connections that may have messages to get.
    hot: BTreeSet<ConnectionId>,
    /// The times at which connections may have messages to get.
    due: BinaryHeap<Reverse<(Nanos, ConnectionId)>>,
    drafts: Drafts,
    pub(super) queue_len_max: u32,
    pub(super) figures: Arc<FlushFigures>,
    times: FlushTimes,
    probe: FlushProbe,
    shm: Option<ShmDoor>,
    /// The wall clock, by which messages are stamped.
    wall: WallOffset,
    /// The newest time of a replayed feed, which ages count from; none for a live feed.
    replayed: Option<Nanos>,
}

/// Returns an agent that knows all sessions that the control log has defined.
///
/// # Errors
/// When the operating system refuses.
pub fn flush_agent(parts: FlushParts) -> std::io::Result<FlushAgent> {
    let listener = ListenerParts {
        door: parts.door,
        node_id: parts.node_id,
        rng: parts.rng,
        limits: parts.limits,
        draining: parts.draining,
        figures: parts.figures.door.clone(),
    };
    let instrument_id_max = InstrumentId(parts.instruments_max.saturating_sub(1));
    let protocol = Subscribers {
        index: parts.index,
        local: parts.local,
        sessions: parts.definitions,
        hearing: parts.hearing,
        wishes: parts.wishes,
        unsaid: VecDeque::new(),
        updater: parts.updater,
        fanout: Fanout::new(instrument_id_max, parts.subscriptions_max)
            .with_slots_max(parts.sessions.slots_max)
            .with_answers(),
        standings: Standings::new(parts.sessions),
        ended: Vec::new(),
        mirror: Mirror::new(parts.instruments_max),
        definitions: Vec::new(),
        channels: Vec::new(),
        by_subscriber: Vec::new(),
        hot: BTreeSet::new(),
        due: BinaryHeap::new(),
        drafts: Drafts::default(),
        queue_len_max: parts.queue_len_max,
        figures: parts.figures,
        times: parts.times,
        probe: parts.probe,
        shm: parts.shm,
        wall: WallOffset::default(),
        replayed: parts.is_replayed.then_some(Nanos(0)),
    };
    Listener::new(listener, protocol)
}

impl Subscribers {
    /// Takes entries from the ring.
    fn take_entries(&mut self, links: &mut Links, now: Nanos) -> usize {
        let Subscribers { hearing, mirror, fanout, definitions, channels, shm, .. } = self;
        let (times, probe, index) = (&mut self.times, &mut self.probe, self.index);
        let (replayed, wall) = (&mut self.replayed, self.wall.wall_at(now));
        hearing.take(HEAR_MAX, |told| {
            mirror.take(told);
            match &told.what {
                FlushContent::Nothing => {}
                FlushContent::Entry(entry) => {
                    times.handed.record(now.since(told.told_at).0);
                    *replayed = replayed.map(|newest| newest.max(entry.merged.ts_recv));
                    told.trace.iter().for_each(|trace| probe.heard(entry, trace));
                    fanout.apply(now, entry);
                }
                FlushContent::Define(definition) => {
                    note_definition(definitions, definition);
                    links.iter_mut().for_each(|link| link.state.forget(definition.instrument_id));
                    shm.iter_mut().for_each(|shm| shm.forget(definition.instrument_id));
                    fanout.define(definition);
                }
                FlushContent::Channel(_, state) => {
                    note_channel(channels, told, *state);
                    shm.iter_mut().for_each(|shm| shm.put_channel(wall, told.channel, *state));
                    links.tell_sessions(|session_id, output| {
                        put_channel(session_id, wall, told.channel, *state, output);
                    });
                }
                FlushContent::NewSession => fanout.new_session(),
                FlushContent::Wished(thread, count) if *thread == index => {
                    fanout.note_answered(*count);
                }
                FlushContent::Wished(..) => {}
            }
        })
    }

    fn collect_ready(&mut self) {
        let Subscribers { fanout, hot, by_subscriber, shm, .. } = self;
        fanout.take_ready(|subscriber| {
            shm.iter_mut().for_each(|shm| shm.note_ready(subscriber));
            let link = by_subscriber.get(subscriber.0 as usize).copied().flatten();
            hot.extend(link);
        });
    }

    /// Takes steps of subscribing and leaving; returns their number.
    fn take_steps(&mut self, links: &mut Links, now: Nanos) -> usize {
        // Each step may add a wish, and these are taken at the pace of the update stage.
        if self.fanout.unanswered_count() >= UNANSWERED_MAX {
            return 0;
        }
        let steps = self.fanout.advance(now, STEPS_MAX);
        add(&self.figures.counters.steps, steps as u64);
        self.ended.extend(self.fanout.take_ended());
        let mut ended = std::mem::take(&mut self.ended);
        ended.drain(..).for_each(|one| self.tell_ended(links, &one));
        self.ended = ended;
        steps
    }

    /// Tells a subscriber that a subscription ended without its request.
    fn tell_ended(&mut self, links: &mut Links, ended: &EndedSubscription) {
        let id = self.by_subscriber.get(ended.subscriber.0 as usize).copied().flatten();
        let Some(link) = id.and_then(|id| links.get_mut(id)) else {
            tracing::warn!(error = %ended.error, "a subscription of the node's own has ended");
            return;
        };
        let handle = link.state.handle_of(ended.subscription);
        link.state.by_handle.remove(&handle);
        let refusal = Refusal::of(&ended.error);
        self.count_refusal(&refusal);
        put_frame(&refusal.answer(link.session_id(), handle), &mut link.socket.output);
        let id = link.id;
        links.touch(id);
    }

    pub(super) fn count_refusal(&self, refusal: &Refusal) {
        let counters = &self.figures.counters;
        add(&counters.refused, u64::from(refusal.reason != Reason::None));
        add(&counters.slots_refused, u64::from(refusal.slots_max > 0));
    }

    /// Hands on the instruments that subscribers began and ceased to want.
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

    /// Writes messages to the connections that have some; returns their number.
    fn tell(&mut self, links: &mut Links, now: Nanos) -> usize {
        while let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            self.hot.insert(id);
        }
        let mut told = 0;
        for id in std::mem::take(&mut self.hot) {
            told += self.tell_one(links, id, now);
        }
        told += self.tell_shm(now);
        self.probe.end_of_telling(!self.hot.is_empty());
        told
    }

    fn tell_shm(&mut self, now: Nanos) -> usize {
        let Subscribers { shm: Some(shm), fanout, mirror, definitions, channels, .. } = self else {
            return 0;
        };
        let (drafts, probe) = (&mut self.drafts, &mut self.probe);
        let wall = self.wall.wall_at(now);
        shm.tell(&mut RingParts { now, wall, fanout, mirror, definitions, channels, drafts, probe })
    }

    fn tell_one(&mut self, links: &mut Links, id: ConnectionId, now: Nanos) -> usize {
        let Subscribers { fanout, mirror, definitions, drafts, times, probe, .. } = self;
        let (replayed, wall) = (self.replayed, self.wall.wall_at(now));
        let Some(link) = links.get_mut(id) else { return 0 };
        let (Some(session), Some(subscriber)) = (link.session, link.state.id) else { return 0 };
        if !link.socket.is_open() {
            return 0;
        }
        // A connection without room gets its messages when it has room, see `flushed`; its queues
        // are polled all the same, because a policy may disconnect it now.
        let room = if link.socket.has_room() { MESSAGES_MAX } else { 0 };
        let mut sent = 0;
        let poll = Poll { subscriber, now, room };
        let (state, output) = (&mut link.state, &mut link.socket.output);
        let polled = fanout.poll(poll, mirror, &mut |message, mirror| {
            let handle = state.handle_of(message.subscription);
            // An entry received within this cycle is not sent before its receipt.
            let wall = wall.max(message.entry.merged.ts_recv);
            let to = Address { session_id: session.session_id, handle, sent_at: wall };
            let instrument = instrument_of(message);
            if state.is_new(instrument)
                && let Some(Some(definition)) = definitions.get(instrument.0 as usize)
            {
                put_instrument(to, definition, output);
            }
            put_message(to, message, mirror, drafts, output);
            probe.written(id.0, &message.entry);
            sent += 1;
            if message.entry.merged.change_count > 0 {
                let clock = replayed.unwrap_or(wall);
                state.counts.last_age = clock.since(message.entry.merged.ts_recv).0;
                times.age.record(state.counts.last_age);
            }
        });
        state.counts.messages += sent;
        add(&self.figures.counters.messages, sent);
        match polled {
            PollOutcome::Sent { .. } if room == 0 => {}
            PollOutcome::Sent { left, .. } => {
                if left > 0 {
                    self.hot.insert(id);
                } else if let Some(at) = self.fanout.next_due(subscriber) {
                    self.due.push(Reverse((at, id)));
                }
            }
            PollOutcome::Disconnect(_) => {
                links.end(id, Reason::SlowConsumer, now);
                add(&self.figures.counters.disconnected, 1);
            }
            PollOutcome::Unknown => {}
        }
        links.touch(id);
        usize::try_from(sent).unwrap_or(usize::MAX)
    }
}

impl Protocol for Subscribers {
    type State = Subscriber;

    const TERMS: Terms = Terms {
        name: "flush",
        section: "market_gateway",
        frame_len_max: CLIENT_FRAME_LEN_MAX,
        limits: LIMITS,
        inside_limits: LOCAL_LIMITS,
        read_len: 16 * 1024,
        // Until then the policies of its subscriptions apply to a slow reader.
        full_time_max: Nanos(300_000_000_000),
        is_exclusive: false,
    };

    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool {
        self.sessions.next_of_any_epoch(record).is_some()
    }

    fn session_connections_max(&self) -> u32 {
        self.standings.limits().session_connections_max
    }

    fn may_enter(&self, role: Role) -> bool {
        role.may_read()
    }

    fn serves(message: &ClientMessage<'_>) -> bool {
        matches!(message, ClientMessage::Market(_))
    }

    fn logged_on(&mut self, link: &mut Link, session: LoggedOn, now: Nanos) {
        let account = self.standings.enter(session.session_id, &mut self.fanout);
        let subscriber = self.fanout.add_subscriber_of(account);
        link.state.id = Some(subscriber);
        let index = subscriber.0 as usize;
        if self.by_subscriber.len() <= index {
            self.by_subscriber.resize(index + 1, None);
        }
        self.by_subscriber[index] = Some(link.id);
        for (channel, state) in (0..).zip(&self.channels) {
            let wall = self.wall.wall_at(now);
            put_channel(session.session_id, wall, channel, *state, &mut link.socket.output);
        }
    }

    fn take(&mut self, link: &mut Link, said: SessionMessage<'_>, now: Nanos) -> Intake {
        let ClientMessage::Market(request) = said.message else {
            return Intake::Refused(Reason::NotServedHere, "");
        };
        let id = said.session.session_id;
        if !self.standings.may_request(id, &self.fanout, now) {
            return Intake::Wait;
        }
        let intake = self.take_request(link, request, now);
        if intake == Intake::Done {
            self.standings.note_request(id, now);
            // An interval that got shorter may be over.
            self.hot.insert(link.id);
        }
        intake
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    fn hear(&mut self, links: &mut Links, now: Nanos) -> usize {
        let heard = self.take_entries(links, now);
        self.collect_ready();
        heard
    }

    fn produce(&mut self, links: &mut Links, now: Nanos) -> usize {
        let steps = self.take_steps(links, now);
        self.collect_ready();
        steps + self.say_wishes() + self.tell(links, now)
    }

    fn flushed(&mut self, link: &mut Link, had_room: bool) {
        self.probe.flushed(link.id.0, link.socket.is_sent());
        if !had_room && link.socket.has_room() {
            self.hot.insert(link.id);
        }
    }

    fn gone(&mut self, link: &mut Link, _now: Nanos) {
        if let Some(subscriber) = link.state.id {
            self.fanout.remove_subscriber(subscriber);
            self.by_subscriber[subscriber.0 as usize] = None;
            self.standings.leave(link.session_id());
        }
    }

    fn show(&mut self, links: &Links, now: Nanos) {
        let reports =
            links.iter().filter_map(|link| report_of(link, &self.fanout, &self.standings));
        self.figures.show(reports);
        let slots = &self.figures.counters.slots;
        slots.store(self.fanout.slot_count(), Ordering::Relaxed);
        self.standings.forget_gone(&mut self.fanout, now);
    }

    fn next_deadline(&self, _links: &Links, now: Nanos) -> Option<Nanos> {
        if self.hearing.has_more() || !self.hot.is_empty() {
            return Some(now);
        }
        // An answer is an entry of the ring, which wakes the thread.
        let is_answered = self.fanout.unanswered_count() < UNANSWERED_MAX;
        let steps = self.fanout.next_steps(now).filter(|_| is_answered);
        let unsaid = (!self.unsaid.is_empty()).then_some(Nanos(now.0 + UNSAID_INTERVAL));
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let shm = self.shm.as_ref().and_then(|shm| shm.next_due(&self.fanout, now));
        [due, shm, unsaid, steps].into_iter().flatten().min()
    }

    fn next_inside(&mut self) -> Option<Stream> {
        self.local.next()
    }

    fn begin(&mut self, registry: Registry<'_>, token: Token) -> std::io::Result<()> {
        match &mut self.shm {
            Some(shm) => shm.begin(registry, token, &mut self.fanout),
            None => Ok(()),
        }
    }

    fn own_is_ready(&mut self) {
        self.shm.iter_mut().for_each(ShmDoor::is_readable);
    }
}

fn report_of(link: &Link, fanout: &Fanout, standings: &Standings) -> Option<SubscriberReport> {
    let standing = fanout.standing(link.state.id?)?;
    let session_id = link.session?.session_id;
    let (account, connections) = standings.of(session_id)?;
    let account = fanout.account(account)?;
    Some(SubscriberReport {
        session_id: number_of(session_id),
        connections,
        slots: account.slots,
        slots_max: account.slots_max.unwrap_or(0),
        steps_left: account.backlog,
        is_web: link.is_inside,
        subscriptions: link.state.by_handle.len(),
        messages: link.state.counts.messages,
        last_age_ns: link.state.counts.last_age,
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

fn note_channel(channels: &mut Vec<State>, told: &FlushSlot, state: State) {
    let channel: ChannelIndex = told.channel;
    let index = usize::from(channel);
    if channels.len() <= index {
        channels.resize(index + 1, State::Waiting);
    }
    channels[index] = state;
}
