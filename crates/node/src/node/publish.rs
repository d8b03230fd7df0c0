//! The threads that publish the partitions' markets, each in a channel of its own, and serve
//! snapshots of them, where configured, and the agents that write their checkpoints.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use anyhow::Context;
use weir_engine::{OrderQueue, QueuedOrder};
use weir_feed::session_name::Calendar;
use weir_io::ThreadDisk;
use weir_log::SnapshotStore;
use weir_market::publish::{Channel, PhaseNow, RequestServer, StandingPlace};
use weir_marketgate::publish::{
    EventPublisherParts, PublishAgent, PublishCheckpoint, PublishCheckpointParts,
    PublishCheckpoints, PublishFigures, PublishParts, PublishedLog, SnapshotAgent, SnapshotFigures,
    SnapshotParts, StandingMarket, checkpoint, published_time,
};
use weir_marketgate::udp;
use weir_partition::event_reader::PastRead;
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::fd_poller::FdPoller;
use weir_runtime::{Agent, Runner, Wake};
use weir_types::{Nanos, PartitionId};
use weir_wire::Event;
use weir_wire::event::OrderEvent;

use super::assembly::Assembly;
use super::threads::DELIVERY_SHARE;
use crate::config::MarketPublisherSection;

/// The name under which the status shows what the publisher holds.
const PUBLISHER: &str = "market publisher";
/// The events that are read at a time to find one with public content.
const BLOCK: u64 = 4_096;

/// The parts of a node that publish its market.
#[derive(Default)]
pub(super) struct Publishers {
    /// The threads that send and serve.
    pub(super) threads: Vec<Runner>,
    /// The agents that write checkpoints, on the thread of the gateway's.
    pub(super) checkpoints: Vec<PublishCheckpoints<ThreadDisk>>,
}

/// The agents of one thread, and the sockets in which it rests.
struct SocketAgents<A> {
    agents: Vec<A>,
    sockets: Vec<RawFd>,
}

impl<A: Agent + 'static> SocketAgents<A> {
    fn new() -> SocketAgents<A> {
        SocketAgents { agents: Vec::new(), sockets: Vec::new() }
    }

    fn push(&mut self, agent: A, socket: RawFd) {
        self.agents.push(agent);
        self.sockets.push(socket);
    }

    /// Returns the thread of the agents; none for no agents.
    fn on(self, thread: Runner) -> anyhow::Result<Option<Runner>> {
        if self.agents.is_empty() {
            return Ok(None);
        }
        let thread = thread.with_sockets(FdPoller::new(&self.sockets)?);
        Ok(Some(self.agents.into_iter().fold(thread, Runner::with_agent)))
    }
}

impl Assembly<'_> {
    /// Builds the threads that publish the trading partitions' markets, where configured.
    pub(super) fn publishers(
        &mut self,
        trading: &mut [RecoveredPartition],
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Publishers> {
        let (mut publish, mut serve) = (SocketAgents::new(), SocketAgents::new());
        let mut checkpoints = Vec::new();
        let config = self.config;
        for (id, section) in config.publishers() {
            let trading = trading.iter_mut().find(|one| one.partition_id == id);
            let trading = trading.expect("the partitions of the configuration are recovered");
            notes.extend(note_of_numbers(id, trading.limits().instruments_max));
            let mut store = open_checkpoints(trading)?;
            let begins_with = beginning(section, &mut store, trading, notes)?;
            let events = || events(section, trading, begins_with.clone());
            let server = snapshots(section, events())?;
            let of_snapshots = server.as_ref().map(|server| server.figures.clone());
            if let Some(SnapshotServer { agent, listener, .. }) = server {
                serve.push(agent, listener);
            }
            let figures = Arc::new(PublishFigures::new(of_snapshots));
            let (agent, requests, address) = publisher(section, events(), &figures)?;
            publish.push(agent, requests);
            checkpoints.push(PublishCheckpoints::new(PublishCheckpointParts {
                store,
                events: events(),
                every: section.checkpoint_every_events,
                partition: trading.figures.clone(),
                figures: figures.clone(),
            }));
            self.channels.push((id, address, figures));
        }
        let publish = publish.on(self.behind("publish"))?;
        let serve = serve.on(self.behind("snapshots"))?;
        Ok(Publishers { threads: publish.into_iter().chain(serve).collect(), checkpoints })
    }

    /// Returns a thread that yields to those of the order path.
    fn behind(&self, name: &'static str) -> Runner {
        Runner::new(name, Wake::new(), self.config.wait).sharing(DELIVERY_SHARE).giving_way()
    }
}

/// Returns the note for operators of more instruments than a session of the published market has
/// numbers for.
fn note_of_numbers(partition_id: PartitionId, instruments_max: u32) -> Option<String> {
    let numbers = u32::from(u16::MAX);
    (instruments_max > numbers).then(|| {
        format!(
            "partition {partition_id} can have {instruments_max} instruments, and a session of its \
             published market has the first {numbers}: the others are left out of it"
        )
    })
}

/// Builds the agent of a channel; returns it with the socket in which it rests, and the address for
/// requests.
fn publisher(
    section: &MarketPublisherSection,
    events: EventPublisherParts,
    figures: &Arc<PublishFigures>,
) -> anyhow::Result<(PublishAgent, RawFd, SocketAddr)> {
    let sender = udp::sender(section.interface, section.hops)
        .with_context(|| format!("cannot send by {}", section.interface))?;
    sender.set_nonblocking(true)?;
    let requests = UdpSocket::bind(section.requests)
        .with_context(|| format!("cannot take requests on {}", section.requests))?;
    requests.set_nonblocking(true)?;
    let (address, socket) = (requests.local_addr()?, requests.as_raw_fd());
    let agent = PublishAgent::new(PublishParts {
        events,
        channel: Channel::new(section.messages_max, section.packet_bytes),
        server: RequestServer::new(section.requests_per_second),
        sender,
        lines: std::iter::once(section.group).chain(section.line_b).collect(),
        requests,
        look_interval: Nanos(section.look_interval_us * 1_000),
        figures: figures.clone(),
    });
    Ok((agent, socket, address))
}

/// A channel's snapshot server.
struct SnapshotServer {
    figures: Arc<SnapshotFigures>,
    agent: SnapshotAgent,
    /// The socket in which it rests.
    listener: RawFd,
}

/// Builds the snapshot server of a channel, where configured.
fn snapshots(
    section: &MarketPublisherSection,
    events: EventPublisherParts,
) -> anyhow::Result<Option<SnapshotServer>> {
    let Some(address) = section.snapshots else { return Ok(None) };
    let access = section.snapshots_access().context("market_publisher")?;
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot serve snapshots on {address}"))?;
    listener.set_nonblocking(true)?;
    let socket = listener.as_raw_fd();
    let figures = Arc::new(SnapshotFigures::new(listener.local_addr()?));
    let agent = SnapshotAgent::new(SnapshotParts {
        events,
        listener,
        access,
        limits: section.snapshot_limits(),
        timeout: Nanos(section.snapshots_timeout_ms * 1_000_000),
        look_interval: Nanos(section.look_interval_us * 1_000),
        figures: figures.clone(),
    });
    Ok(Some(SnapshotServer { figures, agent, listener: socket }))
}

fn calendar(section: &MarketPublisherSection, trading: &RecoveredPartition) -> Calendar {
    Calendar::new(trading.partition_id, section.day_begins_hour)
}

fn events(
    section: &MarketPublisherSection,
    trading: &RecoveredPartition,
    begins_with: Option<PublishCheckpoint>,
) -> EventPublisherParts {
    EventPublisherParts {
        partition_id: trading.partition_id,
        events: trading.reader(PUBLISHER),
        begins_with,
        event_count: trading.event_count(),
        calendar: calendar(section, trading),
    }
}

fn open_checkpoints(trading: &RecoveredPartition) -> anyhow::Result<SnapshotStore<ThreadDisk>> {
    let dir = trading.dirs().publisher();
    let disk = ThreadDisk::open(&dir, None)
        .with_context(|| format!("the market publisher's checkpoints in {}", dir.display()))?;
    Ok(SnapshotStore::new(disk, trading.log.log_id(), trading.partition_id))
}

/// Returns the state with which the market goes on: that of a checkpoint; none where the log has
/// all events; else the engine's book, in an epoch that begins when the start has succeeded.
fn beginning(
    section: &MarketPublisherSection,
    store: &mut SnapshotStore<ThreadDisk>,
    trading: &mut RecoveredPartition,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<PublishCheckpoint>> {
    let (events, event_count) = (trading.reader(PUBLISHER), trading.event_count());
    let first = events.next_record();
    let log = PublishedLog { events, event_count, calendar: calendar(section, trading) };
    let found = checkpoint::load(store, log, notes)?;
    if let Some(found) = found {
        let event = found.event();
        notes.push(format!("market publisher: it begins with the checkpoint of event {event}"));
        return Ok(Some(found));
    }
    if first == 1 {
        return Ok(None);
    }
    // An earlier start may have begun the epoch for this: its session had the same messages.
    trading.want_epoch(PUBLISHER)?;
    notes.push(format!(
        "market publisher: events before {first} are gone and no checkpoint is of use: it begins \
         anew with the engine's book, in a session of its own"
    ));
    let engine = &trading.engine;
    let market = StandingMarket {
        time: newest_published(trading).unwrap_or(engine.time()),
        epoch: trading.epoch,
        instruments: (engine.instruments())
            .filter(|state| state.definition.partition_id == trading.partition_id)
            .map(|state| (state.definition, PhaseNow { phase: state.phase, cause: state.cause() })),
        orders: engine.queued_orders().into_iter().map(standing),
    };
    let publication = market.publication(calendar(section, trading));
    Ok(Some(PublishCheckpoint::of_market(event_count, engine.position(), publication)))
}

/// Returns the time of the newest retained event with public content. The session that begins with
/// the engine's book then has the times of one that begins behind all events.
fn newest_published(trading: &RecoveredPartition) -> Option<Nanos> {
    let mut events = trading.reader(PUBLISHER);
    let (first, mut record) = (events.next_record(), Vec::new());
    let mut end = trading.event_count() + 1;
    // Files are read forward: a step back is another search.
    while end > first {
        let begin = end.saturating_sub(BLOCK).max(first);
        let mut newest = None;
        for number in begin..end {
            if events.read_at(number, &mut record) != PastRead::Found {
                return None;
            }
            let event = Event::decode(&record).expect("the event log holds our own messages");
            newest = published_time(trading.partition_id, &event).or(newest);
        }
        if newest.is_some() {
            return newest;
        }
        end = begin;
    }
    None
}

fn standing(order: QueuedOrder) -> (OrderEvent, StandingPlace) {
    let place = match order.queue {
        OrderQueue::Book => StandingPlace::Book { shown: order.shown_qty },
        OrderQueue::Market => StandingPlace::Market,
        OrderQueue::Stop => StandingPlace::Stop,
        OrderQueue::Parked => StandingPlace::Parked,
    };
    (order.state, place)
}
