//! Puts a node together. [`Builder::open`] makes the parts of every role: the listeners, the
//! recovered partitions, the gateway with its newcomers, and the readers over HTTP. A role adds its
//! [`Views`], and [`Builder::start`] starts the threads.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use weir_door::handshakes::TlsDoor;
use weir_door::reader_ports::ReaderPorts;
use weir_door::reader_rings::{GatewayPort, gateway_to_delivery};
use weir_engine::EngineLimits;
use weir_gateway::{Gateway, PortParts};
use weir_io::{Clock as _, SystemClock, ThreadDisk};
use weir_log::SequencedLog as _;
use weir_orderstate::cold::{ColdAgent, ends};
use weir_orderstate::ingest::IngestAgent;
use weir_orderstate::replica::ReplicaAgent;
use weir_orderstate::router::Reload;
use weir_orderstate::stores::snapshots::SnapshotWriter;
use weir_partition::checkpoint::CheckpointAgent;
use weir_partition::control_import::{ControlImporter, ImportProgress, ImportingPartition};
use weir_partition::formats::refuse_unfit;
use weir_partition::handoff::{PartitionPort, SourcePort, gateway_to_partition};
use weir_partition::places::Location;
use weir_partition::recovery::{RecoveredPartition, RecoverySettings, find_in_directory};
use weir_probe::Drain;
use weir_runtime::{Agent, Runner};
use weir_subscribe::SubscriptionsAgent;
use weir_types::{PartitionId, Position};
use weir_web::WebServer;

use super::assembly::Assembly;
use super::cold::log_end;
use super::doors::OuterDoor;
use super::engine_limits::{AwaitedLimits, wait_for_limits};
use super::gateway::{GatewayEnds, GatewayStart, WebSide, port_of};
use super::links::{LinkEnds, Links};
use super::operator::bootstrap;
use super::partition_threads::{PartitionRunners, PartitionThreads};
use super::probes::{Probes, keeper, start_hiccups};
use super::publish::Publishers;
use super::threads::{CommonThreads, Cores, StartingThreads, archive_thread, checkpoints_thread};
use super::{CONTROL, Node, Recovery, StartTimes};
use crate::config::Config;
use crate::engine_memory;
use crate::health::Health;
use crate::status::NodeStatus;

/// The backlog of connections that the system keeps until they are accepted.
const BACKLOG: i32 = 4_096;

/// A node under construction, of any role.
pub(super) struct Builder<'a> {
    /// The state that the parts share.
    pub(super) parts: Assembly<'a>,
    /// The recovered partitions, the control partition first.
    pub(super) recovered: Vec<RecoveredPartition>,
    recoveries: Vec<Recovery>,
    begun: Instant,
    /// The times of the start's parts so far.
    pub(super) times: StartTimes,
    /// Notes for operators.
    pub(super) notes: Vec<String>,
    /// The sources of each partition's commands.
    sources: Vec<Vec<SourcePort>>,
    /// Takes definitions from the control partition to the others, if there are others.
    importer: Option<ControlImporter>,
    gateway: Gateway,
    /// The agents that write the gateway's checkpoints.
    checkpoints: Vec<CheckpointAgent<ThreadDisk>>,
    newcomers: Runner,
    history: Runner,
    handshakes: Option<Runner>,
    links: Links,
    /// The reader's end of the gateway's ring to the order stores, until a role takes it.
    gateway_port: Option<GatewayPort>,
    web: WebSide,
    pub(super) web_listener: Option<TcpListener>,
    address: SocketAddr,
    /// The number of definitions that the gateway knew at the start.
    definitions: u64,
    probes: Probes,
    threads: PartitionThreads,
}

/// The views of a role: the thread that answers queries for order state, and the parts that only
/// some nodes have.
pub(super) struct Views {
    pub(super) delivery: Runner,
    pub(super) ingest: Option<OuterDoor<IngestAgent>>,
    pub(super) subscriptions: Option<OuterDoor<SubscriptionsAgent>>,
    pub(super) publishers: Publishers,
    pub(super) cold: Vec<ColdAgent>,
    pub(super) replica: Option<ReplicaAgent>,
    pub(super) writer: Option<SnapshotWriter>,
    /// The channel for a router's new list of nodes behind it.
    pub(super) reload: Option<Reload>,
}

impl Views {
    /// Returns the views of a role with only this thread.
    pub(super) fn new(delivery: Runner) -> Views {
        Views {
            delivery,
            ingest: None,
            subscriptions: None,
            publishers: Publishers::default(),
            cold: Vec::new(),
            replica: None,
            writer: None,
            reload: None,
        }
    }
}

/// Recovers the partitions, each with its report. Returns notes for operators too, that on the
/// engines' memory first.
fn recover_all(
    config: &Config,
    partitions: &[PartitionId],
    threads: &PartitionThreads,
) -> anyhow::Result<(Vec<RecoveredPartition>, Vec<Recovery>, Vec<String>)> {
    let (mut found, mut recovered, mut recoveries) = (Vec::new(), Vec::new(), Vec::new());
    let memory_bytes = engine_memory::machine_memory();
    let started = SystemClock.now();
    let threads_of = config.partition_threads();
    let compare = |limits: Vec<(PartitionId, EngineLimits)>| {
        engine_memory::compare(&limits, &threads_of, config.engine.memory, memory_bytes)
    };
    // All are looked at before the first is changed: a refusal leaves the files as they are.
    for id in partitions {
        let begun = Instant::now();
        let wake_fd = threads.wake_fd_of(*id);
        let settings = RecoverySettings { memory_bytes, started, ..config.recovery_of(*id) };
        found.push((find_in_directory(&settings, *id, wake_fd)?, begun.elapsed()));
    }
    check_imports(
        found.first().map_or(Position::NONE, |(control, _)| control.last_position()),
        found.iter().map(|(one, _)| (one.partition_id(), one.control_position())),
    )?;
    compare(found.iter().map(|(one, _)| (one.partition_id(), one.limits())).collect())?;
    for (mut one, before) in found {
        let begun = Instant::now();
        if let Some(control) = recovered.first().map(RecoveredPartition::limits) {
            one.begin_like(&control);
        }
        let one = one.recover()?;
        recoveries.push(Recovery::of(&one, before + begun.elapsed()));
        recovered.push(one);
    }
    // Once more, with the commands after the snapshots.
    check_imports(
        recovered.first().map_or(Position::NONE, |one| Position(one.log.next_position().0 - 1)),
        recovered.iter().map(|one| (one.partition_id, one.engine.control_position())),
    )?;
    let memory = compare(recovered.iter().map(|one| (one.partition_id, one.limits())).collect())?;
    let notes = recovered.iter().flat_map(|one| one.notes.clone());
    let notes = std::iter::once(memory).chain(notes).collect();
    Ok((recovered, recoveries, notes))
}

/// The rings to the partitions.
struct Rings {
    /// The gateway's ends.
    ports: Vec<PortParts>,
    /// The partitions' ends, each with that of its first source in front.
    sources: Vec<Vec<SourcePort>>,
    importer: Option<ControlImporter>,
    /// The ends of the links to gateway processes; without links none.
    links: Vec<PartitionPort>,
}

/// Creates the rings to the partitions. The control partition's first source is the operator of a
/// first start, that of the others the control importer.
fn rings(
    parts: &Assembly<'_>,
    threads: &PartitionThreads,
    recovered: &[RecoveredPartition],
    bootstrap: SourcePort,
) -> Rings {
    let (mut ports, mut sources, mut fed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut links) = (Some(bootstrap), Vec::new());
    for one in recovered {
        let wake = threads.wake_of(one.partition_id, &parts.wakes.partition);
        let ring = || gateway_to_partition(one.partition_id, wake.clone());
        let (port, source) = ring();
        ports.push(port_of(port, one));
        let before = first.take().unwrap_or_else(|| {
            let (port, source) = ring();
            fed.push(ImportingPartition::new(port, one.engine.control_position()));
            SourcePort { feedback: None, ..source }
        });
        let of_links = parts.config.link.is_some().then(ring);
        let (link, of_link) = of_links.unzip();
        links.extend(link);
        sources.push([before, source].into_iter().chain(of_link).collect());
    }
    let importer = (!fed.is_empty()).then(|| {
        let events = recovered[0].reader("control importer");
        ControlImporter::new(events, fed, parts.wakes.gateway.clone())
    });
    Rings { ports, sources, importer, links }
}

impl<'a> Builder<'a> {
    /// Opens a node with these partitions, the control partition first.
    pub(super) fn open(
        config: &'a Config,
        health: Arc<Health>,
        partitions: &[PartitionId],
    ) -> anyhow::Result<Builder<'a>> {
        assert_eq!(partitions.first(), Some(&CONTROL), "the control partition is the first");
        let begun = Instant::now();
        let (listener, address) = listen(config)?;
        let web_listener = listen_for_web(config)?;
        let tls = open_door(config)?;
        prepare_dir(config, partitions)?;
        let threads = PartitionThreads::new(config)?;
        let (recovered, recoveries, mut notes) = recover_all(config, partitions, &threads)?;
        let mut probes = Probes::start(config, &mut notes);
        let parts = Assembly::new(config, health, tls)?;
        let bootstrap = bootstrap(config, &recovered[0], &mut notes)?;
        let rings = rings(&parts, &threads, &recovered, bootstrap);
        let Rings { ports, sources, importer, links } = rings;
        let imports = importer.as_ref().map_or_else(ImportProgress::unbounded, |i| i.progress());
        let ends = LinkEnds { rings: links, imports: imports.clone() };
        let links = parts.links(&recovered, ends, &mut notes)?;
        let wakes = &parts.wakes;
        let (delivery_port, gateway_port) =
            gateway_to_delivery(wakes.gateway.clone(), wakes.delivery.clone());
        let (door, handshakes) = parts.front_door(listener)?;
        let before_gateway = Instant::now();
        let ends = GatewayEnds { ports, imports, delivery: delivery_port };
        let GatewayStart { mut gateway, checkpoints, notes: of_gateway } =
            parts.gateway(ends, &mut probes, &recovered)?;
        let times = StartTimes { gateway: before_gateway.elapsed(), ..StartTimes::default() };
        notes.extend(of_gateway);
        let newcomers = parts.newcomers(door, &mut gateway, None)?;
        let history = parts.history(&mut gateway);
        let web = parts.web_side(&gateway, || recovered[0].reader("web"));
        let definitions = gateway.definition_count();
        let gateway_port = Some(gateway_port);
        Ok(Builder {
            parts,
            recovered,
            recoveries,
            begun,
            times,
            notes,
            sources,
            importer,
            gateway,
            checkpoints,
            newcomers,
            history,
            handshakes,
            links,
            gateway_port,
            web,
            web_listener,
            address,
            definitions,
            probes,
            threads,
        })
    }

    /// Takes the readers' ends of the rings to the agent that answers them.
    ///
    /// # Panics
    /// When they are taken already: one agent answers.
    pub(super) fn take_reader_ports(&mut self) -> ReaderPorts {
        let gateway = self.gateway_port.take().expect("one agent answers readers");
        ReaderPorts::new(gateway, self.web.port.take())
    }

    /// Begins the epochs that views asked for. The end of the one before is kept first: an archive
    /// of orders needs it at later starts, when the events around it may be gone. A line of it
    /// without an epoch behind says nothing.
    fn begin_wanted_epochs(&mut self) -> anyhow::Result<()> {
        for one in self.recovered.iter_mut().filter(|one| one.wants_epoch()) {
            ends::add_end(one.epoch, log_end(one), &one.dirs().past_ends())?;
            one.begin_wanted_epoch()?;
        }
        Ok(())
    }

    /// Starts the threads of the node with a role's views.
    pub(super) fn start(mut self, mut views: Views) -> anyhow::Result<Node> {
        // Only now, when all views are there: a start that fails before leaves no epoch behind, and
        // one that fails later the one that it asked for.
        self.begin_wanted_epochs()?;
        let Builder { mut parts, mut probes, mut notes, web, .. } = self;
        let (config, tls) = (parts.config, parts.tls.clone());
        let awaited: Vec<_> = self.recovered.iter().map(awaited_limits).collect();
        let mut threads = self.threads;
        let figures = self.recovered.iter();
        let figures =
            figures.map(|one| parts.partition_status(one, threads.name_of(one.partition_id)));
        let figures = figures.collect();
        let settings = config.recovery();
        let split = self.recovered.into_iter().map(|one| one.with_background(&settings));
        let split = split.collect::<Result<Vec<_>, _>>()?;
        for ((partition, background), sources) in split.into_iter().zip(self.sources) {
            let id = partition.partition_id;
            threads.add(id, parts.partition(partition, sources, &mut probes), background);
        }
        let checkpoints = self.checkpoints.into_iter();
        let checkpoints = checkpoints.fold(checkpoints_thread(), Runner::with_agent);
        let of_channels = std::mem::take(&mut views.publishers.checkpoints).into_iter();
        let checkpoints = of_channels.fold(checkpoints, Runner::with_agent);
        let importer = self.importer.map(|one| Box::new(one) as Box<dyn Agent>);
        let wake_fd = threads.shared_fd.clone();
        let PartitionRunners { shared, own, shadows, archives } =
            threads.runners(importer, config)?;
        let status = Arc::new(NodeStatus {
            partitions: figures,
            web: web.hub.as_ref().map(|hub| (hub.figures.clone(), hub.http.clone())),
            latencies: probes.drain.as_ref().map(Drain::reader),
            hiccups: start_hiccups(config, probes.clock.as_ref(), &mut notes),
            links: self.links.board.clone(),
            ..parts.status()
        });
        let common = CommonThreads {
            newcomers: self.newcomers,
            links: self.links.threads,
            history: self.history,
            handshakes: self.handshakes,
            web_readers: web.readers,
            keeper: keeper(probes.drain),
            shadows,
            checkpoints,
            archive: archive_thread(archives),
        };
        let reload = views.reload.take();
        let cores = Cores { gateway: self.gateway, partitions: shared, own };
        let mut starting = StartingThreads::new(parts.draining.clone());
        parts.start_threads(cores, common, views, &wake_fd, &mut starting.threads)?;
        wait_for_limits(&awaited, &starting.threads)?;
        parts.wait_for_operator(self.definitions)?;
        let Assembly { draining, token_keys, market_doors: doors, .. } = parts;
        let web = self.web_listener.zip(web.hub);
        let web = web.map(|(at, hub)| WebServer::start(at, hub, doors)).transpose()?;
        let times = StartTimes { whole: self.begun.elapsed(), ..self.times };
        Ok(Node {
            threads: starting.started(),
            draining,
            address: self.address,
            status,
            tls,
            web,
            reload,
            token_keys,
            recoveries: self.recoveries,
            times,
            notes,
        })
    }
}

/// Returns the limits that the start waits for in a partition's engine.
fn awaited_limits(of: &RecoveredPartition) -> AwaitedLimits {
    let (partition_id, limits, figures) = (of.partition_id, of.limits(), of.figures.clone());
    AwaitedLimits { partition_id, limits, figures }
}

/// Checks that the control log, which ends at `last`, has all definitions that the partitions have
/// imported, each up to a position of that log. One that lost its end would give later definitions
/// their positions, and no partition would import those.
fn check_imports(
    last: Position,
    imported: impl Iterator<Item = (PartitionId, Position)>,
) -> anyhow::Result<()> {
    for (partition_id, imported) in imported.filter(|(id, _)| !id.is_none()) {
        anyhow::ensure!(
            imported <= last,
            "partition {partition_id} has definitions up to position {imported} of the control \
             log, which ends at {last}: the control log has lost its end; restore both from one \
             backup"
        );
    }
    Ok(())
}

/// Listens for order entry and delivery.
pub(super) fn listen(config: &Config) -> anyhow::Result<(std::net::TcpListener, SocketAddr)> {
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

/// Opens the node's TLS identity, where configured.
pub(super) fn open_door(config: &Config) -> anyhow::Result<Option<Arc<TlsDoor>>> {
    let door = config.tls.as_ref().map(|tls| TlsDoor::open(tls.files())).transpose()?;
    Ok(door.map(Arc::new))
}

/// Creates the node's directory and those of its partitions, if needed; refuses one that a newer
/// program wrote, that is another partition's, or that is not where it was.
///
/// The control partition's directory is the last: a first start that is killed must not leave the
/// directory of a node without a trading partition.
fn prepare_dir(config: &Config, partitions: &[PartitionId]) -> anyhow::Result<()> {
    let create = |dir: &Path| {
        let made = weir_io::durable::create_dir(dir);
        made.with_context(|| format!("cannot make {}", dir.display()))
    };
    create(&config.dir)?;
    let place =
        |id: &PartitionId| Location::check(&config.dir, *id, config.place_of(*id).as_deref());
    let places = partitions.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    refuse_unfit(&places)?;
    places.iter().rev().try_for_each(Location::make)?;
    Ok(())
}
