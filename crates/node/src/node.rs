//! Assembles a node: recovers the partitions, builds the agents, starts the threads, and stops them
//! in order.
//!
//! ```text
//! thread core       gateway │ control partition │ control feed │ partition 1     (fused)
//! thread newcomers  connections that have not logged on
//! thread handshakes TLS handshakes, with TLS
//! thread delivery   delivery store
//! thread cold       archives of orders that the stores discarded, where configured
//! thread web        order state over HTTP, with web-readers, where configured
//! thread ingest     sockets of outside cores, where configured
//! thread replica    follows another node, where configured
//! thread broker     durable subscriptions and their sockets, where configured
//! thread market-…   market data: receive and update, and flush-… for its subscribers
//! thread publish    the node's own market, where published; snapshots  snapshots of it
//! thread keeper     probe drain
//! thread shadows    the shadow engines: event files, snapshots
//! ```
//! With split threads the gateway has its own. Each disk adds a thread where io_uring is missing;
//! one thread per core watches for hiccups.

mod cold;
mod doors;
mod market;
mod publish;
mod replica;
mod router;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rtrb::RingBuffer;
use weir_delivery::TokenKeys;
use weir_door::handshakes::{HandshakeLimits, Handshakes, HandshakesParts, SECURED_MAX, TlsDoor};
use weir_door::lobby::LobbyLimits;
use weir_door::reader_ports::ReaderPorts;
use weir_door::reader_rings::{GatewayPort, gateway_to_delivery};
use weir_door::{Door, DoorLimits};
use weir_gateway::newcomers::{Newcomers, NewcomersParts, link};
use weir_gateway::{Gateway, GatewayConfig, GatewayParts, GatewayStatus, PortParts};
use weir_io::{Clock, OsRng, Rng, SystemClock, WakeFd};
use weir_marketgate::gateway::MarketFigures;
use weir_marketgate::gateway::local::LocalDoors;
use weir_marketgate::publish::SnapshotFigures;
use weir_orderstate::agent::{DeliveryAgent, DeliveryParts};
use weir_orderstate::cold::{ColdAgent, ColdFeeder, ColdFigures};
use weir_orderstate::figures::DeliveryFigures;
use weir_orderstate::ingest::{
    IngestAgent, IngestFigures, IngestParts, IngestPort, ingest_agent, ingest_to_store,
};
use weir_orderstate::replica::{
    ReplicaAgent, ReplicaFigures, ReplicaParts, UpdatePort, follow_to_store,
};
use weir_orderstate::router::{Reload, RouterSection};
use weir_orderstate::stores::StoreSettings;
use weir_orderstate::stores::kept::KeepSources;
use weir_orderstate::stores::own::OwnSource;
use weir_orderstate::stores::snapshots::SnapshotWriter;
use weir_orderstate::token_keys::sealer;
use weir_partition::control_feed::{ControlFeed, FedPartition};
use weir_partition::dirs::partition_dir;
use weir_partition::event_reader::EventReader;
use weir_partition::formats::refuse_newer;
use weir_partition::handoff::{PartitionPort, SourcePort, Submission, gateway_to_partition};
use weir_partition::lineage::Lineage;
use weir_partition::recovery::{ForPartition, Recovered, recover};
use weir_partition::stage_clock::StageClock;
use weir_partition::{Partition, PartitionFigures, PartitionParts, shadow_agent};
use weir_probe::ring::heap_ring;
use weir_probe::thread::Share;
use weir_probe::{ClockReader, ClockWriter, Drain, DrainOptions, HiccupOptions, Hiccups, Recorder};
use weir_runtime::cycle_times::CycleTimes;
use weir_runtime::fd_poller::FdPoller;
use weir_runtime::{Agent, Beat, Runner, RunningThread, WaitStrategy, Wake};
use weir_subscribe::{BrokerAgent, BrokerFigures, BrokerParts, FeedParts, broker_agent};
use weir_tls::TlsError;
use weir_types::hex::parse_key;
use weir_types::{
    Credential, CredentialKind, Epoch, FirmId, Nanos, PartitionId, Position, RequestNo, Role,
    SessionId,
};
use weir_web::{Hub, HubAgent, HubParts, WebServer};
use weir_wire::reference::DefineSession;
use weir_wire::session::{ApiKey, NodeId};
use weir_wire::{Command, Definition, Request};

use self::doors::OuterDoor;
use crate::config::{Config, NodeRole, SourceSection};
use crate::health::Health;
use crate::probe_drain::{ProbeDrain, RECORDS_MAX, RING_RECORDS};
use crate::status::NodeStatus;

/// The session of a new node's first operator.
pub const FIRST_OPERATOR: SessionId = SessionId(1);
/// The trading partition.
const TRADING: PartitionId = PartitionId(1);
/// The time that the gateway has to submit its remaining input when the node stops.
const DRAIN_TIME: Duration = Duration::from_millis(20);

/// With few cores, an order's sender gets its answer before the followers.
pub const DELIVERY_SHARE: Share = Share::Fair { niceness: 5 };
/// Logged-on sessions take precedence over newcomers.
const NEWCOMERS_SHARE: Share = Share::Fair { niceness: 5 };
/// The backlog of connections that the system keeps until they are accepted.
const BACKLOG: i32 = 4_096;
/// Figures can wait, but not for ever.
const KEEPER_SHARE: Share = Share::Fair { niceness: 10 };
/// The time within which a new operator key must be in effect.
const START_TIME: Duration = Duration::from_secs(30);

/// A running node.
pub struct Node {
    threads: Vec<RunningThread>,
    draining: Arc<AtomicBool>,
    address: SocketAddr,
    status: Arc<NodeStatus>,
    tls: Option<Arc<TlsDoor>>,
    web: Option<WebServer>,
    /// For a router: the channel for a new list of nodes behind it.
    reload: Option<Reload>,
    token_keys: TokenKeys,
    notes: Vec<String>,
}

/// The threads' wakes, created before the threads.
struct Wakes {
    newcomers: Wake,
    gateway: Wake,
    partition: Wake,
    delivery: Wake,
    web: Wake,
    ingest: Wake,
    replica: Wake,
    broker: Wake,
    cold: Wake,
}

/// The probe rings before they reach the drain.
struct Probes {
    drain: Option<Drain>,
    clock: Option<ClockReader>,
}

impl Node {
    /// Starts the process that the configuration describes: a trading node, a following node, or a
    /// router.
    ///
    /// # Errors
    /// When an address is taken, a log is damaged or locked, a key cannot be read, or the machine
    /// lacks a needed resource.
    pub fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
        match config.role {
            NodeRole::Node if config.follows_own() => replica::start(config, health),
            NodeRole::Node => Node::start_exchange(config, health),
            NodeRole::Router => router::start(config, health),
        }
    }

    fn start_exchange(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
        let (listener, address) = listen(config)?;
        let web_listener = listen_for_web(config)?;
        let tls = open_door(config)?;
        prepare_dir(config, &[PartitionId(0), TRADING])?;
        let wake_fd = WakeFd::new()?;
        let control = recover(&config.recovery(), PartitionId(0), &wake_fd)?;
        let trading = recover(&config.recovery(), TRADING, &wake_fd)?;
        let mut notes = [control.notes.clone(), trading.notes.clone()].concat();
        let mut probes = Probes::start(config, &mut notes);
        let mut assembly = Assembly::new(config, health, tls.clone())?;
        let bootstrap = bootstrap(config, &control, &mut notes)?;
        let [to_control, to_trading, to_feed] = [PartitionId(0), TRADING, TRADING]
            .map(|id| gateway_to_partition(id, assembly.wakes.partition.clone()));
        let (control_port, control_source) = to_control;
        let (trading_port, trading_source) = to_trading;
        let (feed_port, feed_source) = to_feed;
        let feed_source = SourcePort { feedback: None, ..feed_source };
        let (delivery_port, gateway_port) =
            gateway_to_delivery(assembly.wakes.gateway.clone(), assembly.wakes.delivery.clone());
        let ports = vec![port_of(control_port, &control), port_of(trading_port, &trading)];
        let (door, handshakes) = assembly.front_door(listener)?;
        let mut gateway =
            assembly.gateway(ports, delivery_port, &mut probes, &[&control, &trading])?;
        let newcomers = assembly.newcomers(door, &mut gateway)?;
        let web = assembly.web_side(&gateway, || control.reader());
        let fed = FedPartition::new(feed_port, trading.engine.control_position());
        let definitions = gateway.definition_count();
        let feed = ControlFeed::new(control.reader(), vec![fed]);
        let (ingest, ingest_port) = assembly.ingest(&control)?.unzip();
        let broker = assembly.broker(&control, &trading, &mut notes)?;
        assembly.open_market(&control)?;
        let reader_ports = ReaderPorts::new(gateway_port, web.port);
        let (replica, update_port) = assembly.replica()?.unzip();
        let ports = (reader_ports, (ingest_port, update_port));
        let (mut delivery, writer) = assembly.delivery(ports, (Some(&trading), &mut notes))?;
        let publisher = assembly.publisher(&trading)?;
        let figures = [&control, &trading].map(|r| assembly.figures(r));
        let (control, control_shadow) = control.with_shadow(&config.recovery())?;
        let (trading, trading_shadow) = trading.with_shadow(&config.recovery())?;
        let shadows = shadows().with_agent(control_shadow).with_agent(trading_shadow);
        let control = assembly.partition(control, vec![bootstrap, control_source], &mut probes);
        let trading = assembly.partition(trading, vec![feed_source, trading_source], &mut probes);
        let status = Arc::new(NodeStatus {
            partitions: figures.to_vec(),
            tls: tls.clone(),
            web: web.hub.as_ref().map(|hub| hub.figures.clone()),
            ingest: ingest.as_ref().map(|door| (door.address, assembly.ingest_figures.clone())),
            broker: broker.as_ref().map(|door| (door.address, assembly.broker_figures.clone())),
            publish: publisher.as_ref().map(|p| (p.requests, p.figures.clone())),
            latencies: probes.drain.as_ref().map(Drain::reader),
            hiccups: start_hiccups(config, probes.clock.as_ref(), &mut notes),
            ..assembly.status()
        });
        let aside = (delivery.take_cold(), replica, writer);
        let background = assembly.background(aside, [keeper(probes.drain), shadows]);
        let background = publish::before(publisher, background);
        let web_readers = web.readers;
        let delivery = assembly.delivery_thread().with_agent(delivery);
        let others =
            Others { delivery, ingest, broker, newcomers, handshakes, web_readers, background };
        let partitions: Vec<Box<dyn Agent>> =
            vec![Box::new(control), Box::new(feed), Box::new(trading)];
        let threads = assembly.start_threads((gateway, partitions), others, &wake_fd)?;
        assembly.wait_for_operator(definitions)?;
        let Assembly { draining, token_keys, market_doors: doors, .. } = assembly;
        let web = web_listener.zip(web.hub).map(|(at, hub)| WebServer::start(at, hub, doors));
        let (web, reload) = (web.transpose()?, None);
        Ok(Node { threads, draining, address, status, tls, web, reload, token_keys, notes })
    }

    /// Returns the address of order entry and delivery.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of order state over HTTP, if served.
    #[must_use]
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(WebServer::address)
    }

    /// Returns the address for outside cores, if configured.
    #[must_use]
    pub fn ingest_address(&self) -> Option<SocketAddr> {
        self.status.ingest.as_ref().map(|(address, _)| *address)
    }

    /// Returns the address for subscribers and publishers, if durable subscriptions are served.
    #[must_use]
    pub fn broker_address(&self) -> Option<SocketAddr> {
        self.status.broker.as_ref().map(|(address, _)| *address)
    }

    /// Returns the addresses for market-data subscribers, one per flush thread; empty if none is
    /// served.
    #[must_use]
    pub fn market_addresses(&self) -> &[SocketAddr] {
        self.status.market.as_ref().map_or(&[], |figures| &figures.addresses)
    }

    /// Returns the address for retransmission requests of the node's own market, if published.
    #[must_use]
    pub fn requests_address(&self) -> Option<SocketAddr> {
        self.status.publish.as_ref().map(|(address, _)| *address)
    }

    /// Returns the address for snapshots of the node's own market, if served.
    #[must_use]
    pub fn snapshots_address(&self) -> Option<SocketAddr> {
        let (_, figures) = self.status.publish.as_ref()?;
        figures.snapshots().map(SnapshotFigures::address)
    }

    /// Returns the node's figures.
    #[must_use]
    pub fn status(&self) -> Arc<NodeStatus> {
        self.status.clone()
    }

    /// Returns notes on the start for operators.
    #[must_use]
    pub fn start_notes(&self) -> &[String] {
        &self.notes
    }

    /// Reloads the certificates, for new connections; `None` without TLS.
    ///
    /// # Errors
    /// Inside: the fault of the files. The old certificates stay then.
    pub fn reload_certificates(&self) -> Option<Result<(), TlsError>> {
        self.tls.as_ref().map(|tls| tls.reload())
    }

    /// Reloads the token keys named by this configuration, for new tokens.
    ///
    /// # Errors
    /// When one cannot be read; the keys stay unchanged then.
    pub fn reload_token_keys(&self, config: &Config) -> anyhow::Result<()> {
        config.token_key_file().read_into(&self.token_keys)
    }

    /// Sends a router its new list of backends; false for a node.
    pub fn reload_backends(&self, section: RouterSection) -> bool {
        let reload = self.reload.as_ref();
        reload.inspect(|reload| reload.send(section)).is_some()
    }

    /// Returns the name of a thread that ended unexpectedly, if any.
    #[must_use]
    pub fn finished_thread(&self) -> Option<&'static str> {
        self.threads.iter().find(|thread| thread.is_finished()).map(RunningThread::name)
    }

    /// Stops the node in order: takes no more input, commits and answers what was taken, sends the
    /// sessions a logout, and writes the files' closing marks.
    ///
    /// # Panics
    /// When a thread panicked.
    pub fn stop(&mut self) {
        self.draining.store(true, Ordering::Relaxed);
        if let Some(web) = &mut self.web {
            web.stop();
        }
        std::thread::sleep(DRAIN_TIME);
        // In the order of the data flow: newcomers, partitions, gateway, delivery, keeper, shadows.
        for thread in &mut self.threads {
            thread.ask_to_stop();
            thread.join();
        }
    }
}

impl Wakes {
    fn new(fused: bool) -> Wakes {
        let gateway = Wake::new();
        let partition = if fused { gateway.clone() } else { Wake::new() };
        Wakes {
            newcomers: Wake::new(),
            gateway,
            partition,
            delivery: Wake::new(),
            web: Wake::new(),
            ingest: Wake::new(),
            replica: Wake::new(),
            broker: Wake::new(),
            cold: Wake::new(),
        }
    }
}

impl Probes {
    /// Starts a drain, when probes are on and the machine's counter is reliable.
    fn start(config: &Config, notes: &mut Vec<String>) -> Probes {
        let writer = match ClockWriter::start() {
            Ok(writer) => writer,
            Err(error) => {
                notes.push(format!("orders are not stamped: {error}"));
                return Probes { drain: None, clock: None };
            }
        };
        let clock = writer.reader();
        if !config.probes.enabled {
            // The cores are watched in any case.
            return Probes { drain: None, clock: Some(clock) };
        }
        let options = DrainOptions { records_max: RECORDS_MAX, ..DrainOptions::default() };
        let mut drain = Drain::new(writer, options);
        if let Some(path) = &config.probes.capture {
            let captured = std::fs::File::create(path)
                .and_then(|file| drain.capture_to(Box::new(std::io::BufWriter::new(file))));
            if let Err(error) = captured {
                notes.push(format!("stamps are not captured in {}: {error}", path.display()));
            }
        }
        Probes { drain: Some(drain), clock: Some(clock) }
    }

    /// Returns a recorder for one thread.
    fn recorder(&mut self, name: &str) -> Recorder {
        let Some(drain) = &mut self.drain else { return Recorder::disabled() };
        match heap_ring(RING_RECORDS) {
            Ok((producer, consumer)) => {
                drain.add_ring(name, consumer);
                Recorder::new(producer)
            }
            Err(error) => {
                tracing::warn!(part = name, %error, "not stamped");
                Recorder::disabled()
            }
        }
    }
}

/// Listens for order entry and delivery.
fn listen(config: &Config) -> anyhow::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(config.listen)
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    // Called again for a longer backlog of unaccepted connections: the default is 128.
    rustix::net::listen(&listener, BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Listens for readers over HTTP, where configured.
fn listen_for_web(config: &Config) -> anyhow::Result<Option<std::net::TcpListener>> {
    let Some(section) = &config.web else { return Ok(None) };
    let listener = std::net::TcpListener::bind(section.listen)
        .with_context(|| format!("cannot serve order state on {}", section.listen))?;
    Ok(Some(listener))
}

/// Returns a thread that no order waits for.
fn background(name: &'static str, share: Share) -> Runner {
    Runner::new(name, Wake::new(), WaitStrategy::Park).sharing(share)
}

/// Opens the node's TLS identity, where configured.
fn open_door(config: &Config) -> anyhow::Result<Option<Arc<TlsDoor>>> {
    let door = config.tls.as_ref().map(|tls| TlsDoor::open(tls.files())).transpose()?;
    Ok(door.map(Arc::new))
}

/// Returns the thread that drains the probe rings, if there are any.
fn keeper(drain: Option<Drain>) -> Runner {
    let keeper = background("keeper", KEEPER_SHARE).giving_way();
    match drain {
        Some(drain) => keeper.with_agent(ProbeDrain::new(drain)),
        None => keeper,
    }
}

/// Creates the node's directory if needed; refuses one that a newer program wrote.
fn prepare_dir(config: &Config, partitions: &[PartitionId]) -> anyhow::Result<()> {
    weir_io::durable::create_dir(&config.dir)
        .with_context(|| format!("cannot make {}", config.dir.display()))?;
    refuse_newer(&config.dir, partitions)
}

/// Returns the gateway's parts for a partition.
fn port_of(ring: PartitionPort, of: &Recovered) -> PortParts {
    PortParts { ring, events: of.reader(), lineage: Lineage::new(of.epoch, &of.ended) }
}

/// Returns the thread that writes snapshots of outside cores' stores.
fn store_snapshots(writer: SnapshotWriter) -> Runner {
    Runner::new("store-snapshots", writer.wake(), WaitStrategy::Park)
        .sharing(KEEPER_SHARE)
        .giving_way()
        .with_agent(writer)
}

/// Returns the thread of the partitions' shadow engines.
fn shadows() -> Runner {
    background("shadows", shadow_agent::SHARE)
}

fn start_hiccups(
    config: &Config,
    clock: Option<&ClockReader>,
    notes: &mut Vec<String>,
) -> Option<Hiccups> {
    let clock = clock.filter(|_| config.probes.hiccups)?;
    let cores = weir_probe::thread::usable_cores();
    let cores = cores.into_iter().map(|core| (core, Recorder::disabled())).collect();
    match Hiccups::start(cores, HiccupOptions::default(), clock) {
        Ok(hiccups) => Some(hiccups),
        Err(error) => {
            notes.push(format!("hiccups are not watched: {error}"));
            None
        }
    }
}

/// Creates the ring with the command that defines the first operator, when the control log is new.
fn bootstrap(
    config: &Config,
    control: &Recovered,
    notes: &mut Vec<String>,
) -> anyhow::Result<SourcePort> {
    let (mut to_control, submissions) = RingBuffer::new(1);
    let is_first = control.engine.position() == Position::NONE;
    if is_first || config.new_operator_key {
        let key = match config.bootstrap_key.as_deref().and_then(parse_key) {
            Some(key) => key,
            None => make_operator_key(&config.dir, notes)?,
        };
        let mut sessions = control.engine.sessions();
        let last = sessions.find(|(session_id, _)| *session_id == FIRST_OPERATOR);
        let operator = DefineSession {
            request_no: RequestNo(last.map_or(0, |(_, state)| state.last_request_no.0) + 1),
            valid_until: Nanos(0),
            credential: Credential(*blake3::hash(&key).as_bytes()),
            session_id: FIRST_OPERATOR,
            defined_session_id: FIRST_OPERATOR,
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
            credential_kind: CredentialKind::ApiKey,
        };
        let command = if is_first {
            let operator = DefineSession { request_no: RequestNo::NONE, ..operator };
            Command::Import(Position(1), Definition::DefineSession(operator))
        } else {
            // The same request as the operator itself would send if it could log on.
            Command::Request(Request::DefineSession(operator))
        };
        let pushed = to_control.push(Submission::internal(command));
        assert!(pushed.is_ok(), "the ring was made for this one command");
    }
    Ok(SourcePort { submissions, feedback: None })
}

/// Creates the first operator's key and writes it to a file that only the owner can read.
fn make_operator_key(dir: &Path, notes: &mut Vec<String>) -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    OsRng.fill(&mut key);
    let path = dir.join("operator.key");
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    // Durable before the operator exists: a lost key could not be recovered.
    weir_io::durable::write_file(&path, format!("{text}\n").as_bytes(), 0o600)
        .with_context(|| format!("cannot keep the operator's key in {}", path.display()))?;
    notes.push(format!("operator session {FIRST_OPERATOR}: its API key is in {}", path.display()));
    Ok(key)
}

/// A partition with this node's kind of log.
type NodePartition = Partition<weir_log::EmbeddedLog<weir_io::RealDisk>>;

/// The agents of the order path: the gateway, and the partitions with the control feed.
type Cores = (Gateway, Vec<Box<dyn Agent>>);

/// The threads that orders do not wait for.
struct Others {
    delivery: Runner,
    newcomers: Runner,
    ingest: Option<OuterDoor<IngestAgent>>,
    broker: Option<OuterDoor<BrokerAgent>>,
    handshakes: Option<Runner>,
    web_readers: Option<HubAgent>,
    background: Vec<Runner>,
}

/// The parts of order state over HTTP; empty where not served.
#[derive(Default)]
struct WebSide {
    readers: Option<HubAgent>,
    hub: Option<Hub>,
    /// The delivery store's end.
    port: Option<GatewayPort>,
}

/// The state that the parts share while they are built.
struct Assembly<'a> {
    config: &'a Config,
    health: Arc<Health>,
    tls: Option<Arc<TlsDoor>>,
    wakes: Wakes,
    draining: Arc<AtomicBool>,
    gateway_status: Arc<Mutex<GatewayStatus>>,
    delivery_figures: Arc<DeliveryFigures>,
    ingest_figures: Arc<IngestFigures>,
    replica_figures: Arc<ReplicaFigures>,
    broker_figures: Arc<BrokerFigures>,
    market_figures: Option<Arc<MarketFigures>>,
    /// The connector for readers of market data over HTTP, until they are served.
    market_doors: Option<LocalDoors>,
    /// The threads of market data, until they start.
    market_runners: Vec<Runner>,
    cold_figures: BTreeMap<PartitionId, Arc<ColdFigures>>,
    cycles: Arc<CycleTimes>,
    token_keys: TokenKeys,
}

impl<'a> Assembly<'a> {
    fn new(
        config: &'a Config,
        health: Arc<Health>,
        tls: Option<Arc<TlsDoor>>,
    ) -> anyhow::Result<Assembly<'a>> {
        Ok(Assembly {
            config,
            token_keys: config.token_key_file().keys()?,
            health,
            tls,
            wakes: Wakes::new(config.is_fused()),
            draining: Arc::new(AtomicBool::new(false)),
            gateway_status: Arc::new(Mutex::new(GatewayStatus::default())),
            delivery_figures: Arc::new(DeliveryFigures::default()),
            ingest_figures: Arc::default(),
            replica_figures: Arc::default(),
            broker_figures: Arc::default(),
            market_figures: None,
            market_doors: None,
            market_runners: Vec::new(),
            cold_figures: cold::figures_of(config),
            cycles: Arc::new(CycleTimes::default()),
        })
    }

    /// Returns the node's status with the figures known so far.
    fn status(&self) -> NodeStatus {
        NodeStatus {
            started: Instant::now(),
            durability: self.config.durability,
            wait: self.config.wait,
            fused: self.config.is_fused(),
            dir: self.config.dir.clone(),
            partitions: Vec::new(),
            gateway: self.gateway_status.clone(),
            tls: None,
            web: None,
            delivery: self.delivery_figures.clone(),
            ingest: None,
            replica: self.config.replica.as_ref().map(|_| self.replica_figures.clone()),
            broker: None,
            market: self.market_figures.clone(),
            publish: None,
            cold: self.cold_figures.clone(),
            router: None,
            cycles: self.cycles.clone(),
            latencies: None,
            hiccups: None,
        }
    }

    fn gateway(
        &mut self,
        ports: Vec<PortParts>,
        delivery: weir_door::reader_rings::DeliveryPort,
        probes: &mut Probes,
        recovered: &[&Recovered],
    ) -> anyhow::Result<Gateway> {
        let mut gateway = Gateway::new(GatewayParts {
            ports,
            delivery,
            recorder: probes.recorder("gateway"),
            clock: StageClock::new(probes.clock.clone().filter(|_| probes.drain.is_some())),
            node_id: NodeId(recovered[0].log.log_id().to_be_bytes()),
            rng: Box::new(OsRng),
            config: self.gateway_config(),
            draining: self.draining.clone(),
            status: self.gateway_status.clone(),
        })?;
        for recovered in recovered {
            for (id, firm_id) in recovered.engine.session_firms() {
                gateway.know_firm(id, firm_id);
            }
        }
        gateway.take_in_the_past(SystemClock.now());
        for (port, recovered) in recovered.iter().enumerate() {
            for (id, state) in recovered.engine.sessions() {
                gateway.agree(port, id, state.next_event_no, state.last_request_no);
            }
        }
        Ok(gateway)
    }

    fn gateway_config(&self) -> GatewayConfig {
        let section = &self.config.gateway;
        GatewayConfig {
            output_len_max: section.output_bytes_max,
            connections_max: section.connections_max,
            stall_max: Nanos(section.stall_max_ms * 1_000_000),
            lobby: LobbyLimits {
                logon_time_max: Nanos(section.logon_timeout_ms * 1_000_000),
                per_address_max: section.lobby_per_address_max,
            },
            copies_retained_max: section.copies_retained_max as usize,
        }
    }

    /// Builds the thread of connections that have not logged on.
    fn newcomers(&self, door: Door, gateway: &mut Gateway) -> anyhow::Result<Runner> {
        let wakes = &self.wakes;
        let (port, to_gateway) = link(wakes.gateway.clone(), wakes.newcomers.clone());
        let newcomers = Newcomers::new(NewcomersParts {
            door,
            gateway: to_gateway,
            reception: gateway.meet(port, Box::new(OsRng)),
            config: self.gateway_config(),
            draining: self.draining.clone(),
            status: self.gateway_status.clone(),
        })?;
        let runner = Runner::new("newcomers", wakes.newcomers.clone(), WaitStrategy::Park)
            .sharing(NEWCOMERS_SHARE)
            .giving_way()
            .with_sockets(newcomers);
        Ok(runner)
    }

    /// Builds the parts between readers over HTTP and the delivery store, where configured.
    fn web_side(&self, gateway: &Gateway, control: impl Fn() -> EventReader) -> WebSide {
        let Some(section) = &self.config.web else { return WebSide::default() };
        let wakes = &self.wakes;
        let (delivery, port) = gateway_to_delivery(wakes.web.clone(), wakes.delivery.clone());
        let (readers, hub) = HubAgent::new(HubParts {
            delivery,
            control: control(),
            directory: gateway.directory_beside(&mut OsRng),
            wake: wakes.web.clone(),
            readers_max: section.readers_max,
        });
        WebSide { readers: Some(readers), hub: Some(hub), port: Some(port) }
    }

    fn partition(
        &self,
        recovered: ForPartition,
        sources: Vec<SourcePort>,
        probes: &mut Probes,
    ) -> NodePartition {
        let name = match recovered.partition_id.0 {
            0 => "control".to_owned(),
            id => format!("partition-{id}"),
        };
        let views = [&self.wakes.gateway].into_iter();
        Partition::new(PartitionParts {
            engine: recovered.engine,
            log: recovered.log,
            tail: recovered.tail,
            sources,
            views: views.cloned().collect(),
            recorder: probes.recorder(&name),
            figures: recovered.figures,
            durability: self.config.durability,
        })
    }

    fn delivery(
        &self,
        (ports, (ingest, updates)): (ReaderPorts, (Option<IngestPort>, Option<UpdatePort>)),
        (trading, notes): (Option<&Recovered>, &mut Vec<String>),
    ) -> anyhow::Result<(DeliveryAgent, Option<SnapshotWriter>)> {
        let pace = self.cold_pace();
        let cold = trading.map(|trading| self.cold((trading, pace.clone()), notes)).transpose()?;
        let cold = cold.flatten();
        let section = &self.config.delivery;
        let sources = self.config.ingest.iter().flat_map(|section| &section.sources);
        let settings = |source: &SourceSection| {
            let settings = section.settings(PartitionId(source.id), source.bytes_max);
            (settings, source.durability)
        };
        let sources = sources.map(settings).collect();
        let keep = KeepSources {
            segment_bytes: self.config.log.segment_bytes,
            ..KeepSources::in_dir(&self.config.dir)
        };
        let snapshot_every = self.config.ingest.as_ref().map(|i| i.snapshot_every_bytes);
        let keep =
            KeepSources { snapshot_every: snapshot_every.unwrap_or(keep.snapshot_every), ..keep };
        let own = trading.map(|trading| OwnSource {
            settings: section.settings(TRADING, None),
            older_upto: cold.as_ref().map(ColdFeeder::fed),
            events: trading.reader(),
            event_count: trading.event_count(),
            epoch: trading.epoch,
            ended: trading.ended.clone(),
            log_id: trading.log.log_id(),
            snapshot_every: section.snapshot_every_bytes,
        });
        let (agent, kept) = DeliveryAgent::new(DeliveryParts {
            ports,
            own,
            token_keys: self.token_keys.clone(),
            sources,
            cold_sources: self.cold_sources(pace),
            look_interval: Nanos(self.config.delivery.look_interval_us * 1000),
            figures: self.delivery_figures.clone(),
            ingest: (ingest, self.ingest_figures.clone()),
            wake: self.wakes.delivery.clone(),
            replica: updates.map(|port| (self.followed(), port, self.replica_figures.clone())),
            keep,
            cold,
        })?;
        notes.extend(kept.notes);
        Ok((agent, kept.writer))
    }

    /// Returns the settings of the followed sources' stores.
    fn followed(&self) -> Vec<StoreSettings> {
        let sources = self.config.replica.iter().flat_map(|section| &section.sources);
        let settings = |id: &u16| self.config.delivery.settings(PartitionId(*id), None);
        sources.map(settings).collect()
    }

    /// Builds the agent that follows another node's sources, where configured, and the store's end
    /// of its ring.
    fn replica(&self) -> anyhow::Result<Option<(ReplicaAgent, UpdatePort)>> {
        let Some(section) = &self.config.replica else { return Ok(None) };
        let path = &section.key_file;
        let key = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the replica's key in {}", path.display()))?;
        let key = parse_key(&key)
            .with_context(|| format!("{} holds no key in hexadecimal", path.display()))?;
        let (port, updates) =
            follow_to_store(self.wakes.replica.clone(), self.wakes.delivery.clone());
        let agent = ReplicaAgent::new(ReplicaParts {
            master: section.target()?,
            session_id: SessionId(section.session),
            api_key: ApiKey(key),
            stores: self.followed(),
            port,
            figures: self.replica_figures.clone(),
        });
        Ok(Some((agent, updates)))
    }

    /// Returns the background threads, in the order in which they stop.
    fn background(
        &mut self,
        (cold, replica, writer): (Vec<ColdAgent>, Option<ReplicaAgent>, Option<SnapshotWriter>),
        always: [Runner; 2],
    ) -> Vec<Runner> {
        let cold = self.cold_thread(cold);
        let replica = replica.map(|agent| {
            Runner::new("replica", self.wakes.replica.clone(), WaitStrategy::Park)
                .sharing(DELIVERY_SHARE)
                .giving_way()
                .with_agent(agent)
        });
        let first = cold.into_iter().chain(replica);
        let market = std::mem::take(&mut self.market_runners).into_iter();
        first.chain(always).chain(writer.map(store_snapshots)).chain(market).collect()
    }

    /// Returns the thread of the delivery store, without its agent.
    fn delivery_thread(&self) -> Runner {
        Runner::new("delivery", self.wakes.delivery.clone(), self.config.wait)
            .sharing(DELIVERY_SHARE)
            .giving_way()
            .on_core(self.config.cores.get(2).copied())
    }

    /// Returns the outside sources, each with its session.
    fn sources(&self) -> Vec<(PartitionId, SessionId)> {
        let sources = self.config.ingest.iter().flat_map(|section| &section.sources);
        sources.map(|s| (PartitionId(s.id), SessionId(s.session))).collect()
    }

    /// Returns a partition's figures and adds them to the health checks.
    fn figures(&self, of: &Recovered) -> (PartitionId, Epoch, Arc<PartitionFigures>) {
        self.health.watch_partition(of.partition_id, of.figures.clone());
        (of.partition_id, of.epoch, of.figures.clone())
    }

    /// Returns the heartbeat of a thread that orders or their followers depend on.
    fn beat(&self, thread: &'static str) -> Beat {
        self.health.watch_thread(thread, SystemClock.now())
    }

    /// Waits until the first operator's definition is in effect. With a new operator key, `before`
    /// definitions existed already and one more is awaited.
    fn wait_for_operator(&self, before: u64) -> anyhow::Result<()> {
        let before = if self.config.new_operator_key { before } else { 0 };
        let deadline = Instant::now() + START_TIME;
        while Instant::now() < deadline {
            let status = self.gateway_status.lock().unwrap_or_else(PoisonError::into_inner);
            if status.definitions > before {
                return Ok(());
            }
            drop(status);
            std::thread::sleep(Duration::from_millis(1));
        }
        anyhow::bail!("the control log took no definition of an operator within {START_TIME:?}")
    }

    fn start_threads(
        &self,
        cores: Cores,
        others: Others,
        wake_fd: &WakeFd,
    ) -> anyhow::Result<Vec<RunningThread>> {
        let (gateway, partitions) = cores;
        let wait = self.config.wait;
        let core = |index: usize| self.config.cores.get(index).copied();
        // Each thread is watched from its start: a recovery may last longer than the limit without
        // a cycle.
        let mut threads = vec![others.newcomers.with_beat(self.beat("newcomers")).start()?];
        if self.config.is_fused() {
            gateway.watch(wake_fd.as_raw_fd())?;
            let runner = Runner::new("core", self.wakes.gateway.clone(), wait)
                .with_sockets(gateway)
                .with_agents(partitions)
                .with_beat(self.beat("core"))
                .with_cycle_times(self.cycles.clone())
                .on_core(core(0));
            threads.push(runner.start()?);
        } else {
            let poller = FdPoller::new(&[wake_fd.as_raw_fd()])?;
            let runner = Runner::new("partition", self.wakes.partition.clone(), wait)
                .with_sockets(poller)
                .with_agents(partitions)
                .with_beat(self.beat("partition"))
                .on_core(core(1));
            threads.push(runner.start()?);
            let runner = Runner::new("gateway", self.wakes.gateway.clone(), wait)
                .with_sockets(gateway)
                .with_beat(self.beat("gateway"))
                .with_cycle_times(self.cycles.clone())
                .on_core(core(0));
            threads.push(runner.start()?);
        }
        self.start_doors((others.ingest, others.broker), &mut threads)?;
        threads.push(others.delivery.with_beat(self.beat("delivery")).start()?);
        if let Some(runner) = others.handshakes {
            threads.push(runner.with_beat(self.beat("handshakes")).start()?);
        }
        if let Some(readers) = others.web_readers {
            let runner = Runner::new("web-readers", self.wakes.web.clone(), WaitStrategy::Park)
                .with_agent(readers)
                .sharing(DELIVERY_SHARE)
                .giving_way()
                .with_beat(self.beat("web-readers"));
            threads.push(runner.start()?);
        }
        for runner in others.background {
            threads.push(runner.start()?);
        }
        Ok(threads)
    }
}
