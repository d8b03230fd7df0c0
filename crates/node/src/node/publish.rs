//! The threads that publish the node's own market and serve snapshots of it, where configured, and
//! the agent that writes its checkpoints.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
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
use weir_runtime::{Runner, Wake};
use weir_types::Nanos;
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
    /// The agent that writes checkpoints, on the thread of the gateway's.
    pub(super) checkpoints: Option<PublishCheckpoints<ThreadDisk>>,
}

impl Assembly<'_> {
    /// Builds the threads that publish the trading partition's market, where configured.
    pub(super) fn publisher(
        &mut self,
        trading: &mut RecoveredPartition,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Publishers> {
        let Some(section) = &self.config.market_publisher else {
            return Ok(Publishers::default());
        };
        let mut store = open_checkpoints(trading)?;
        let begins_with = beginning(section, &mut store, trading, notes)?;
        let (snapshots, server) =
            self.snapshots(section, events(section, trading, begins_with.clone()))?.unzip();
        let figures = Arc::new(PublishFigures::new(snapshots));
        let sender = udp::sender(section.interface, section.hops)
            .with_context(|| format!("cannot send by {}", section.interface))?;
        sender.set_nonblocking(true)?;
        let requests = UdpSocket::bind(section.requests)
            .with_context(|| format!("cannot take requests on {}", section.requests))?;
        requests.set_nonblocking(true)?;
        let (address, poller) = (requests.local_addr()?, FdPoller::new(&[requests.as_raw_fd()])?);
        let agent = PublishAgent::new(PublishParts {
            events: events(section, trading, begins_with.clone()),
            channel: Channel::new(section.messages_max, section.packet_bytes),
            server: RequestServer::new(section.requests_per_second),
            sender,
            lines: std::iter::once(section.group).chain(section.line_b).collect(),
            requests,
            look_interval: Nanos(section.look_interval_us * 1_000),
            figures: figures.clone(),
        });
        let runner = self.behind("publish").with_sockets(poller).with_agent(agent);
        let checkpoints = PublishCheckpoints::new(PublishCheckpointParts {
            store,
            events: events(section, trading, begins_with),
            every: section.checkpoint_every_events,
            partition: trading.figures.clone(),
            figures: figures.clone(),
        });
        self.publish = Some((address, figures));
        let threads = std::iter::once(runner).chain(server).collect();
        Ok(Publishers { threads, checkpoints: Some(checkpoints) })
    }

    /// Builds the snapshot server of that market, where configured: its figures and its thread.
    fn snapshots(
        &self,
        section: &MarketPublisherSection,
        events: EventPublisherParts,
    ) -> anyhow::Result<Option<(Arc<SnapshotFigures>, Runner)>> {
        let Some(address) = section.snapshots else { return Ok(None) };
        let access = section.snapshots_access().context("market_publisher")?;
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("cannot serve snapshots on {address}"))?;
        listener.set_nonblocking(true)?;
        let poller = FdPoller::new(&[listener.as_raw_fd()])?;
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
        Ok(Some((figures, self.behind("snapshots").with_sockets(poller).with_agent(agent))))
    }

    /// Returns a thread that yields to those of the order path.
    fn behind(&self, name: &'static str) -> Runner {
        Runner::new(name, Wake::new(), self.config.wait).sharing(DELIVERY_SHARE).giving_way()
    }
}

fn calendar(section: &MarketPublisherSection) -> Calendar {
    Calendar::new(section.day_begins_hour)
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
        calendar: calendar(section),
    }
}

fn open_checkpoints(trading: &RecoveredPartition) -> anyhow::Result<SnapshotStore<ThreadDisk>> {
    let dir = trading.publisher_dir();
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
    let log = PublishedLog { events, event_count, calendar: calendar(section) };
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
    let publication = market.publication(calendar(section));
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
