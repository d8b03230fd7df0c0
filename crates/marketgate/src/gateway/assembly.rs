//! Assembles a gateway's threads.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use rtrb::RingBuffer;
use weir_door::lobby::LobbyLimits;
use weir_door::{Door, DoorLimits};
use weir_io::Rng;
use weir_partition::event_reader::EventReader;
use weir_probe::thread::Share;
use weir_runtime::{Runner, WaitStrategy, Wake};
use weir_wire::session::NodeId;

use super::config::{MarketGatewaySection, Stages};
use super::figures::{FlushFigures, MarketFigures, ReceiveFigures, UpdateFigures};
use super::flush::{FlushAgent, FlushParts, flush_agent};
use super::flush_slot::FlushSlot;
use super::local::{LocalDoor, LocalDoors};
use super::post::{AuditedStage, PostAgent, line_names};
use super::receive::{Fused, ReceiveAgent, Staged, UpdateAgent};
use super::ring::{RingReader, ring};
use super::shm::{ShmDoor, ShmFigures};
use super::stages::{FlushProbe, FlushReaders, Sampler, StageReaders, UpdateProbe};
use super::update::{BATCH_MAX, InterestReceiver, UpdateParts, UpdateStage};
use crate::post::{PostProcessor, PostSenders, PostWatch};
use crate::receiver::Receiver;

/// The capacity of the queue of interest changes: a subscriber to everything has one for each
/// instrument.
const WISHES_MAX: usize = 1 << 16;
/// Post-processing yields to publication.
const POST_SHARE: Share = Share::Fair { niceness: 10 };
/// The names of flush threads.
const FLUSH_NAMES: [&str; 8] =
    ["flush-0", "flush-1", "flush-2", "flush-3", "flush-4", "flush-5", "flush-6", "flush-7"];

/// Creates a door from a listener; with TLS a thread of this name does the handshakes and wakes the
/// given thread.
pub type OpenDoor<'a> = dyn Fn(TcpListener, &'static str, &Wake) -> Opened + 'a;
/// A door, and the thread of its TLS handshakes.
type Opened = anyhow::Result<(Door, Option<Runner>)>;

/// The parts of its node that a gateway uses.
pub struct Host<'a> {
    /// The wait strategy of a thread where the section sets none.
    pub wait: WaitStrategy,
    /// The limits on connections without a session.
    pub lobby: LobbyLimits,
    /// The node's identity, for challenges.
    pub node_id: NodeId,
    /// Opens the control log's events from the beginning, for each reader.
    pub definitions: &'a dyn Fn() -> EventReader,
    /// Creates the source of connections: a listener, or the thread of its handshakes.
    pub door: &'a OpenDoor<'a>,
    /// Creates generators of nonces.
    pub rng: &'a dyn Fn() -> Box<dyn Rng + Send>,
    /// True while the node is stopping.
    pub draining: Arc<AtomicBool>,
}

/// A gateway's threads before their start, and its figures.
pub struct Gateway {
    /// The threads.
    pub runners: Vec<Runner>,
    /// The gateway's counters.
    pub figures: Arc<MarketFigures>,
    /// Connects the HTTP door's readers.
    pub local: LocalDoors,
}

/// Assembles a gateway.
///
/// # Errors
/// An error of opening a socket, a file or a listener.
pub fn assemble(section: &MarketGatewaySection, host: &Host<'_>) -> anyhow::Result<Gateway> {
    let receiver = Receiver::open(&section.feed)?;
    let (receive_wake, update_wake) = (Wake::new(), Wake::new());
    let taker = match section.stages {
        Stages::Fused => receive_wake.clone(),
        Stages::Staged => update_wake.clone(),
    };
    let (door, hearings) = ring::<FlushSlot>(section.flush_ring, section.flush_threads);
    let mut flush = Flush { section, host, taker: &taker, parts: Vec::new(), shm: None };
    for (index, hearing) in hearings.into_iter().enumerate() {
        flush.add(index, hearing)?;
    }
    let sampler = Sampler::new(!section.feed.lines.is_empty() && section.feed.capture.is_none());
    let probe = UpdateProbe::default();
    let mut runners = Vec::new();
    let mut figures = flush.figures(&sampler, &probe);
    let (mut wakes, mut wishes, mut local) = (Vec::new(), Vec::new(), Vec::new());
    let first_flush_core = if section.stages == Stages::Staged { 2 } else { 1 };
    for (index, part) in flush.parts.into_iter().enumerate() {
        wakes.push(part.wake.clone());
        wishes.push(part.wishes);
        local.push(part.local);
        let runner = Runner::new(FLUSH_NAMES[index], part.wake, wait_of(section, host))
            .with_sockets(part.agent)
            .on_core(section.cores.get(first_flush_core + index).copied());
        runners.push(runner);
        runners.extend(part.handshakes);
    }
    let (senders, watch) = keep(section, &mut runners)?;
    figures.post = watch;
    let stage = UpdateStage::new(UpdateParts {
        books: section.books(receiver.has_several_channels()),
        batch_max: BATCH_MAX,
        conflator: section.conflator(),
        door,
        wakes,
        wishes,
        when_full: section.when_full,
        post: senders.events,
        probe,
    });
    let core = |index: usize| section.cores.get(index).copied();
    let receive = figures.receive.clone();
    let update = figures.update.clone();
    let runner =
        Runner::new("market-receive", receive_wake, wait_of(section, host)).on_core(core(0));
    match section.stages {
        Stages::Fused => {
            let kept = AuditedStage::new(Fused::new(stage, sampler, update), senders.audit);
            runners.push(runner.with_sockets(ReceiveAgent::new(receiver, kept, receive)?));
        }
        Stages::Staged => {
            let (writer, mut readers) = ring(section.receive_ring, 1);
            let reader = readers.remove(0);
            let staged =
                Staged::new(writer, section.receive_when_full, sampler, update_wake.clone());
            let staged = AuditedStage::new(staged, senders.audit);
            runners.push(runner.with_sockets(ReceiveAgent::new(receiver, staged, receive)?));
            let agent = UpdateAgent::new(reader, stage, update);
            let updating = Runner::new("market-update", update_wake, wait_of(section, host));
            runners.push(updating.with_agent(agent).on_core(core(1)));
        }
    }
    Ok(Gateway { runners, figures: Arc::new(figures), local: LocalDoors::new(local) })
}

/// Creates the post-processing thread, if configured; returns its inputs and its figures.
fn keep(
    section: &MarketGatewaySection,
    runners: &mut Vec<Runner>,
) -> anyhow::Result<(PostSenders, Option<PostWatch>)> {
    if section.post.is_empty() {
        return Ok((PostSenders { audit: None, events: None }, None));
    }
    let (processor, senders) =
        PostProcessor::new(&section.post, &line_names(&section.feed)).context("post-processing")?;
    let watch = processor.watch();
    let thread = Runner::new("market-post", Wake::new(), WaitStrategy::Park);
    runners.push(thread.sharing(POST_SHARE).with_agent(PostAgent::new(processor)));
    Ok((senders, Some(watch)))
}

fn wait_of(section: &MarketGatewaySection, host: &Host<'_>) -> WaitStrategy {
    section.wait.unwrap_or(host.wait)
}

/// The flush threads under construction.
struct Flush<'a> {
    section: &'a MarketGatewaySection,
    host: &'a Host<'a>,
    /// Wakes the thread that takes interest changes.
    taker: &'a Wake,
    parts: Vec<FlushPart>,
    shm: Option<Arc<ShmFigures>>,
}

struct FlushPart {
    agent: FlushAgent,
    wake: Wake,
    wishes: InterestReceiver,
    local: LocalDoor,
    handshakes: Option<Runner>,
    address: SocketAddr,
    figures: Arc<FlushFigures>,
    times: FlushReaders,
}

impl Flush<'_> {
    /// Opens the ring in shared memory, which belongs to the first thread.
    fn open_shm(&mut self, index: usize) -> anyhow::Result<Option<ShmDoor>> {
        let Some(section) = self.section.shm.as_ref().filter(|_| index == 0) else {
            return Ok(None);
        };
        let door = ShmDoor::open(section, self.section.queue_len_max)?;
        self.shm = Some(door.figures());
        Ok(Some(door))
    }

    /// The gateway's figures, without those of post-processing.
    fn figures(&self, sampler: &Sampler, probe: &UpdateProbe) -> MarketFigures {
        MarketFigures {
            addresses: self.parts.iter().map(|part| part.address).collect(),
            receive: Arc::new(ReceiveFigures::default()),
            update: Arc::new(UpdateFigures::default()),
            flush: self.parts.iter().map(|part| part.figures.clone()).collect(),
            post: None,
            stages: StageReaders {
                has_kernel_time: sampler.has_kernel_time(),
                receive: sampler.reader(),
                update: probe.readers(),
                flush: self.parts.iter().map(|part| part.times.clone()).collect(),
            },
            shm: self.shm.clone(),
        }
    }

    fn add(&mut self, index: usize, hearing: RingReader<FlushSlot>) -> anyhow::Result<()> {
        let (section, host) = (self.section, self.host);
        let mut listen = section.listen;
        if listen.port() != 0 {
            let port = usize::from(listen.port()) + index;
            listen.set_port(u16::try_from(port).context("market_gateway.listen: no port is left")?);
        }
        let listener = TcpListener::bind(listen)
            .with_context(|| format!("cannot listen for subscribers on {listen}"))?;
        let address = listener.local_addr()?;
        let wake = Wake::new();
        let (door, handshakes) = (host.door)(listener, "market-tls", &wake)?;
        let (wishes, taken) = RingBuffer::new(WISHES_MAX);
        let (figures, times) = FlushFigures::with_times();
        let probe = FlushProbe::default();
        let readers = probe.readers();
        let shm = self.open_shm(index)?;
        let (local, entrance) = LocalDoor::new(wake.clone());
        let limits = DoorLimits { connections_max: section.connections_max, lobby: host.lobby };
        let agent = flush_agent(FlushParts {
            index: u16::try_from(index).context("market_gateway.flush_threads: too many")?,
            shm,
            door,
            local: entrance,
            hearing,
            wishes,
            updater: self.taker.clone(),
            instruments_max: section.instruments_max,
            limits,
            sessions: section.sessions(),
            subscriptions_max: section.subscriptions_max,
            queue_len_max: section.queue_len_max,
            definitions: (host.definitions)(),
            node_id: host.node_id,
            rng: (host.rng)(),
            draining: host.draining.clone(),
            figures: figures.clone(),
            times,
            probe,
            is_replayed: section.feed.capture.is_some(),
        })?;
        let (times, wishes) = (readers, taken);
        let part = FlushPart { agent, wake, wishes, local, handshakes, address, figures, times };
        self.parts.push(part);
        Ok(())
    }
}
