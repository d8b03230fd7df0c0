//! The broker's agent: the door of subscribers and publishers, the queues between them, and the
//! partitions' events as producers among others.
//!
//! A connection carries one session. A subscriber that does not read gets no further messages and
//! occupies its own bounded output; a publisher that is refused for want of room sends again. The
//! agent waits for nothing but a block that one subscriber reads from disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_broker::{Broker, Change, MessageNo, Name, PublishTimes, Quota, Topic};
use weir_door::figures::add;
use weir_door::{
    ConnectionId, Door, DoorLimits, Intake, Listener, ListenerParts, Protocol, SessionMessage,
    Terms,
};
use weir_io::{Rng, ThreadDisk};
use weir_partition::event_reader::EventReader;
use weir_partition::log_time::LogTime;
use weir_runtime::ServedTime;
use weir_types::{Durability, Nanos, PartitionId, Reason, Role, SessionId, WallOffset};
use weir_wire::ClientMessage;
use weir_wire::frame::put_frame;
use weir_wire::session::NodeId;
use weir_wire::subscription::{SUBSCRIBER_FRAME_LEN_MAX, SubscriptionDone};

use super::bounds::Bounds;
use super::figures::SubscriptionsFigures;
use super::link::{HandleAt, LIMITS, Link, Links, Peer};
use super::producer::{self, EventParts, EventProducer};

/// Events of a partition published in one cycle.
const EVENTS_MAX: usize = 256;
/// The time between two looks at the queues and the events while messages are under way, in
/// nanoseconds.
const LOOK_INTERVAL: u64 = 500_000;
/// The same while no subscriber is attached and nothing is under way.
const IDLE_INTERVAL: u64 = 5_000_000;

/// The parts of the agent.
pub struct SubscriptionsParts {
    /// The source of connections.
    pub door: Door,
    /// The queues.
    pub broker: Broker<ThreadDisk>,
    /// Their durability level.
    pub durability: Durability,
    /// The quota of a subscription that is created without one.
    pub quota: Quota,
    /// The bounds of one participant.
    pub bounds: Bounds,
    /// The newest log time of the partitions.
    pub log_time: Nanos,
    /// The partitions' events.
    pub events: Vec<EventParts>,
    /// The session that publishes the executions of each outside source.
    pub sources: Vec<(PartitionId, SessionId)>,
    /// The control log's events from the first retained one: the sessions.
    pub definitions: EventReader,
    /// The node's identity.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits on connections.
    pub limits: DoorLimits,
    /// Set when the node stops.
    pub draining: Arc<AtomicBool>,
    /// Figures for other threads.
    pub figures: Arc<SubscriptionsFigures>,
}

/// An answer that waits until a change is saved.
pub(super) struct PromisedAnswer {
    pub(super) change: Change,
    pub(super) connection: ConnectionId,
    pub(super) done: SubscriptionDone,
}

/// The agent.
pub type SubscriptionsAgent = Listener<Subscriptions>;

/// The protocol of subscribers and publishers, and the queues.
pub struct Subscriptions {
    definitions: EventReader,
    pub(super) broker: Broker<ThreadDisk>,
    pub(super) durability: Durability,
    pub(super) default_quota: Quota,
    pub(super) bounds: Bounds,
    pub(super) producers: Vec<EventProducer>,
    pub(super) sources: Vec<(PartitionId, SessionId)>,
    /// Handles that may have messages to get.
    pub(super) hot: BTreeSet<HandleAt>,
    /// Handles that had a whole turn; kept for its memory.
    pub(super) again: Vec<HandleAt>,
    pub(super) by_topic: BTreeMap<Topic, Vec<HandleAt>>,
    /// The attached handle of each subscription.
    pub(super) holders: BTreeMap<Name, HandleAt>,
    /// Connections with messages that are not acknowledged.
    pub(super) publishers: BTreeSet<ConnectionId>,
    pub(super) acknowledged: MessageNo,
    pub(super) promised: VecDeque<PromisedAnswer>,
    has_failed: bool,
    /// True once it was told that a spill file finds no descriptor.
    lacks_descriptor: bool,
    /// The time that messages are stamped with: it never goes back.
    log_time: LogTime,
    /// The broker's time, by which messages and subscriptions grow old.
    served: ServedTime,
    /// Both as of the last call.
    pub(super) times: PublishTimes,
    pub(super) figures: Arc<SubscriptionsFigures>,
}

/// Returns an agent that knows all sessions that the control log has defined.
///
/// # Errors
/// When the operating system refuses.
pub fn subscriptions_agent(parts: SubscriptionsParts) -> std::io::Result<SubscriptionsAgent> {
    let listener = ListenerParts {
        door: parts.door,
        node_id: parts.node_id,
        rng: parts.rng,
        limits: parts.limits,
        draining: parts.draining,
        figures: parts.figures.door.clone(),
    };
    let mut broker = parts.broker;
    let mut producers: Vec<_> = parts.events.into_iter().map(EventProducer::new).collect();
    producer::drop_removed(&producers, &mut broker);
    producers.iter_mut().for_each(|producer| producer.tell_gap(&mut broker));
    let protocol = Subscriptions {
        definitions: parts.definitions,
        acknowledged: broker.acknowledged(),
        served: ServedTime::after(broker.now()),
        times: PublishTimes::default(),
        broker,
        durability: parts.durability,
        default_quota: parts.quota,
        bounds: parts.bounds,
        producers,
        sources: parts.sources,
        hot: BTreeSet::new(),
        again: Vec::new(),
        by_topic: BTreeMap::new(),
        holders: BTreeMap::new(),
        publishers: BTreeSet::new(),
        promised: VecDeque::new(),
        has_failed: false,
        lacks_descriptor: false,
        log_time: LogTime::after(parts.log_time),
        figures: parts.figures,
    };
    Listener::new(listener, protocol)
}

impl Subscriptions {
    /// Reads the times of a cycle.
    fn times_at(&mut self, now: Nanos) -> PublishTimes {
        self.times = PublishTimes { now: self.served.at(now), stamp: self.log_time.at(now) };
        self.times
    }

    /// Lets the queues work, and sends the answers that waited for them.
    fn run_queues(&mut self, links: &mut Links, now: Nanos) -> usize {
        if self.has_failed {
            return 0;
        }
        match self.broker.do_work(self.times.now) {
            Ok(worked) => {
                self.tell_descriptors();
                self.tell_ends(links);
                self.keep_promises(links);
                self.acknowledge(links);
                worked
            }
            Err(error) => {
                tracing::error!(%error, "the broker has stopped: subscriptions are not served");
                self.has_failed = true;
                self.producers.iter().for_each(EventProducer::let_go);
                self.figures.counters.stopped.store(1, Ordering::Relaxed);
                links.end_all(Reason::BrokerStopped, now);
                1
            }
        }
    }

    /// Tells at each edge that messages wait in memory for a descriptor.
    fn tell_descriptors(&mut self) {
        let is_lacking = self.broker.lacks_descriptor();
        match (std::mem::replace(&mut self.lacks_descriptor, is_lacking), is_lacking) {
            (false, true) => tracing::error!(
                "no descriptor is left for a spill file: messages wait in memory until this ends"
            ),
            (true, false) => tracing::info!("spill files are begun again"),
            _ => {}
        }
    }

    fn keep_promises(&mut self, links: &mut Links) {
        while let Some(promised) = self.promised.front()
            && self.broker.is_saved(promised.change)
        {
            let promised = self.promised.pop_front().expect("it is there a line above");
            if let Some(link) = links.get_mut(promised.connection) {
                link.state.promised_count -= 1;
                put_frame(&promised.done, &mut link.socket.output);
                links.touch(promised.connection);
            }
        }
    }

    /// Publishes the partitions' events.
    fn take_events(&mut self) -> usize {
        if self.has_failed {
            return 0;
        }
        let Subscriptions { producers, broker, hot, by_topic, times, .. } = self;
        let mut told = |topic| hot.extend(by_topic.get(&topic).into_iter().flatten());
        let mut records = 0;
        for producer in producers {
            let produced = producer.work(broker, EVENTS_MAX, *times, &mut told);
            add(&self.figures.counters.events, produced.messages);
            records += produced.records;
        }
        records
    }
}

impl Protocol for Subscriptions {
    type State = Peer;

    const TERMS: Terms = Terms {
        name: "subscribe",
        section: "subscriptions",
        frame_len_max: SUBSCRIBER_FRAME_LEN_MAX,
        limits: LIMITS,
        inside_limits: LIMITS,
        read_len: 128 * 1024,
        // The queue keeps a slow subscriber's messages; its session is free again after this.
        full_time_max: Nanos(300_000_000_000),
        is_exclusive: true,
    };

    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool {
        self.definitions.next_of_any_epoch(record).is_some()
    }

    fn may_enter(&self, role: Role) -> bool {
        role != Role::Gateway
    }

    fn serves(message: &ClientMessage<'_>) -> bool {
        matches!(
            message,
            ClientMessage::PublishMessage(..)
                | ClientMessage::AckMessages(_)
                | ClientMessage::CreateSubscription(..)
                | ClientMessage::SubscriptionRequest(..)
                | ClientMessage::AttachSubscription(..)
                | ClientMessage::DetachSubscription(_)
                | ClientMessage::NamedToken(..)
        )
    }

    fn take(&mut self, link: &mut Link, said: SessionMessage<'_>, now: Nanos) -> Intake {
        let times = self.times_at(now);
        self.take_message(link, &said, times)
    }

    fn produce(&mut self, links: &mut Links, now: Nanos) -> usize {
        self.times_at(now);
        self.take_events() + self.serve(links) + self.run_queues(links, now)
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.log_time.wall_clock_moved(wall);
    }

    fn flushed(&mut self, link: &mut Link, _had_room: bool) {
        if link.state.is_choked && link.socket.has_room() {
            link.state.is_choked = false;
            self.hot.extend(link.state.held.keys().map(|handle| (link.id, *handle)));
        }
    }

    fn gone(&mut self, link: &mut Link, now: Nanos) {
        let times = self.times_at(now);
        for (handle, held) in std::mem::take(&mut link.state.held) {
            self.let_go((link.id, handle), &held, times.now);
        }
        self.publishers.remove(&link.id);
    }

    fn show(&mut self, _links: &Links, _now: Nanos) {
        self.figures.publish(&self.broker, self.holders.len() as u64);
    }

    fn next_deadline(&self, _links: &Links, now: Nanos) -> Option<Nanos> {
        let is_busy =
            !self.holders.is_empty() || !self.promised.is_empty() || !self.publishers.is_empty();
        Some(Nanos(now.0 + if is_busy { LOOK_INTERVAL } else { IDLE_INTERVAL }))
    }

    fn is_serving(&self) -> bool {
        !self.has_failed
    }

    fn stop(&mut self) {
        if !self.has_failed
            && let Err(error) = self.broker.close()
        {
            tracing::error!(%error, "messages that were not taken are not all on disk");
        }
    }
}
