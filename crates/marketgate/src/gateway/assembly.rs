//! Puts a gateway's threads together.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use rtrb::RingBuffer;
use weir_door::Door;
use weir_io::Rng;
use weir_partition::event_reader::EventReader;
use weir_probe::thread::Share;
use weir_runtime::{Runner, WaitStrategy, Wake};
use weir_types::Nanos;
use weir_wire::session::NodeId;

use super::config::{MarketSection, Stages};
use super::figures::{FlushFigures, MarketFigures, ReceiveFigures, UpdateFigures};
use super::flush::{FlushAgent, FlushParts};
use super::local::{LocalDoor, LocalDoors};
use super::post::{Kept, PostAgent, line_names};
use super::receive::{Fused, ReceiveAgent, Staged, UpdateAgent};
use super::ring::{RingReader, ring};
use super::shm::{ShmDoor, ShmFigures};
use super::stages::{FlushProbe, FlushReaders, Sampler, StageReaders, UpdateProbe};
use super::told::Told;
use super::update::{BATCH_MAX, UpdateParts, UpdateStage, Wishes};
use crate::post::{PostProcessor, PostSenders, PostWatch};
use crate::receiver::Receiver;

/// Wishes that may be on their way: a subscriber to everything has one for each instrument.
const WISHES_MAX: usize = 1 << 16;
/// What is kept can wait for what is told.
const POST_SHARE: Share = Share::Fair { niceness: 10 };
/// The names of flush threads.
const FLUSH_NAMES: [&str; 8] =
    ["flush-0", "flush-1", "flush-2", "flush-3", "flush-4", "flush-5", "flush-6", "flush-7"];

/// Makes a door of a listener; with TLS a thread of this name does its handshakes and wakes who
/// takes what comes.
pub type OpenDoor<'a> = dyn Fn(TcpListener, (&'static str, &Wake)) -> Opened + 'a;
/// A door, and the thread of its handshakes.
type Opened = anyhow::Result<(Door, Option<Runner>)>;

/// What a gateway has of its node.
pub struct Host<'a> {
    /// What an idle thread does where the section does not say.
    pub wait: WaitStrategy,
    /// How long a connection may be without a session.
    pub logon_time_max: Nanos,
    /// Who the node is.
    pub node_id: NodeId,
    /// The control log's events from the beginning, anew for each reader.
    pub definitions: &'a dyn Fn() -> EventReader,
    /// Where connections come from: a listener, or the thread of its handshakes.
    pub door: &'a OpenDoor<'a>,
    /// Draws nonces.
    pub rng: &'a dyn Fn() -> Box<dyn Rng + Send>,
    /// The node is stopping.
    pub draining: Arc<AtomicBool>,
}

/// A gateway's threads to be, and its figures.
pub struct Gateway {
    /// The threads.
    pub runners: Vec<Runner>,
    /// What they count.
    pub figures: Arc<MarketFigures>,
    /// Where the door over HTTP connects for its readers.
    pub local: LocalDoors,
}

/// Puts a gateway together.
///
/// # Errors
/// When a socket, a file or a listener does not open.
pub fn assemble(section: &MarketSection, host: &Host<'_>) -> anyhow::Result<Gateway> {
    let receiver = Receiver::open(&section.feed)?;
    let (receive_wake, update_wake) = (Wake::new(), Wake::new());
    let taker = match section.stages {
        Stages::Fused => receive_wake.clone(),
        Stages::Staged => update_wake.clone(),
    };
    let (door, hearings) = ring::<Told>(section.flush_ring, section.flush_threads);
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
        books: section.books(),
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
            let kept = Kept::new(Fused::new(stage, sampler, update), senders.audit);
            runners.push(runner.with_sockets(ReceiveAgent::new(receiver, kept, receive)?));
        }
        Stages::Staged => {
            let (writer, mut readers) = ring(section.receive_ring, 1);
            let reader = readers.remove(0);
            let staged =
                Staged::new(writer, section.receive_when_full, sampler, update_wake.clone());
            let staged = Kept::new(staged, senders.audit);
            runners.push(runner.with_sockets(ReceiveAgent::new(receiver, staged, receive)?));
            let agent = UpdateAgent::new(reader, stage, update);
            let updating = Runner::new("market-update", update_wake, wait_of(section, host));
            runners.push(updating.with_agent(agent).on_core(core(1)));
        }
    }
    Ok(Gateway { runners, figures: Arc::new(figures), local: LocalDoors::new(local) })
}

/// Starts to keep what is to be kept: where it goes in, and what tells the figures.
fn keep(
    section: &MarketSection,
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

fn wait_of(section: &MarketSection, host: &Host<'_>) -> WaitStrategy {
    section.wait.unwrap_or(host.wait)
}

/// The flush threads, one after the other.
struct Flush<'a> {
    section: &'a MarketSection,
    host: &'a Host<'a>,
    /// Wakes who takes wishes.
    taker: &'a Wake,
    parts: Vec<FlushPart>,
    shm: Option<Arc<ShmFigures>>,
}

struct FlushPart {
    agent: FlushAgent,
    wake: Wake,
    wishes: Wishes,
    local: LocalDoor,
    handshakes: Option<Runner>,
    address: SocketAddr,
    figures: Arc<FlushFigures>,
    times: FlushReaders,
}

impl Flush<'_> {
    /// The ring in shared memory is the first thread's.
    fn open_shm(&mut self, index: usize) -> anyhow::Result<Option<ShmDoor>> {
        let Some(section) = self.section.shm.as_ref().filter(|_| index == 0) else {
            return Ok(None);
        };
        let door = ShmDoor::open(section, self.section.queue_len_max)?;
        self.shm = Some(door.figures());
        Ok(Some(door))
    }

    /// What the gateway counts, without what is kept.
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

    fn add(&mut self, index: usize, hearing: RingReader<Told>) -> anyhow::Result<()> {
        let (section, host) = (self.section, self.host);
        let mut listen = section.listen;
        if listen.port() != 0 {
            let port = usize::from(listen.port()) + index;
            listen.set_port(u16::try_from(port).context("market.listen: no port is left")?);
        }
        let listener = TcpListener::bind(listen)
            .with_context(|| format!("cannot listen for subscribers on {listen}"))?;
        let address = listener.local_addr()?;
        let wake = Wake::new();
        let (door, handshakes) = (host.door)(listener, ("market-tls", &wake))?;
        let (wishes, taken) = RingBuffer::new(WISHES_MAX);
        let (figures, times) = FlushFigures::with_times();
        let probe = FlushProbe::default();
        let readers = probe.readers();
        let shm = self.open_shm(index)?;
        let (local, entrance) = LocalDoor::new(wake.clone());
        let agent = FlushAgent::new(FlushParts {
            shm,
            door,
            local: entrance,
            hearing,
            wishes,
            updater: self.taker.clone(),
            instruments_max: section.instruments_max,
            connections_max: section.connections_max,
            subscriptions_max: section.subscriptions_max,
            queue_len_max: section.queue_len_max,
            logon_time_max: host.logon_time_max,
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
