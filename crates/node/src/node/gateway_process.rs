//! A gateway process: its clients' sessions, and a link to each partition. It trades nothing and
//! keeps no file but its keys.
//!
//! Clients log on as at a node: same gateway, same newcomers' thread, same keys. Their connections
//! are accepted once the sessions are known, which the link to control tells.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use weir_door::reader_ports::ReaderPorts;
use weir_door::reader_rings::{DeliveryPort, DeliveryRequest, gateway_to_delivery};
use weir_gateway::linked::gateway_to_link;
use weir_gateway::{Gateway, GatewayParts, PortParts};
use weir_io::net::Net;
use weir_io::{OsRng, Rng};
use weir_linkgate::config::UplinkSection;
use weir_linkgate::connection::Connection;
use weir_linkgate::figures::UplinksBoard;
use weir_linkgate::linked_port::LinkedPort;
use weir_linkgate::uplinks::{GatewayProcess, Uplink, UplinkAgent};
use weir_partition::control_import::ImportProgress;
use weir_partition::handoff::gateway_to_partition;
use weir_partition::stage_clock::StageClock;
use weir_probe::Drain;
use weir_runtime::{Agent, Runner};
use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::session::NodeId;

use super::assembly::Assembly;
use super::builder::{listen, open_door};
use super::probes::{Probes, keeper, start_hiccups};
use super::threads::StartingThreads;
use super::{Node, StartTimes};
use crate::config::Config;
use crate::health::Health;
use crate::status::NodeStatus;

/// The reason why a gateway process is not ready while no session can log on.
const CUT_OFF: &str = "the control partition has no link";

/// Starts a gateway process.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    let begun = Instant::now();
    let section = config.uplink.as_ref().context("a gateway has a section [uplink]")?;
    let (listener, address) = listen(config)?;
    let tls = open_door(config)?;
    weir_io::durable::create_dir(&config.dir)
        .with_context(|| format!("cannot make {}", config.dir.display()))?;
    let mut notes = Vec::new();
    let mut probes = Probes::start(config, &mut notes);
    let parts = Assembly::new(config, health, tls.clone())?;
    let (door, handshakes) = parts.front_door(listener)?;
    let wakes = &parts.wakes;
    let (delivery, readers) = gateway_to_delivery(wakes.gateway.clone(), wakes.delivery.clone());
    let (ports, uplinks) = parts.uplinks(section)?;
    let mut gateway = parts.linked_gateway(ports, delivery, &mut probes)?;
    let is_complete = Arc::<AtomicBool>::default();
    gateway.tell_when_complete(is_complete.clone());
    let old = gateway.leave_files_to_links(wakes.links.clone(), wakes.gateway.clone());
    let is_cut_off = Arc::<AtomicBool>::default();
    parts.health.watch_trouble(CUT_OFF, is_cut_off.clone());
    let board = Arc::<UplinksBoard>::default();
    let uplinks = UplinkAgent::new(uplinks, old, is_cut_off, board.clone())?;
    let newcomers = parts.newcomers(door, &mut gateway, Some(is_complete))?;
    gateway.publish_status();
    let runners = [
        Some(newcomers.with_beat(parts.beat("newcomers"))),
        Some(
            Runner::new("gateway", wakes.gateway.clone(), config.wait)
                .with_sockets(gateway)
                .with_beat(parts.beat("gateway"))
                .with_cycle_times(parts.cycles.clone())
                .on_core(config.cores.first().copied()),
        ),
        Some(
            Runner::new("uplinks", wakes.links.clone(), config.wait)
                .with_sockets(uplinks)
                .with_beat(parts.beat("uplinks"))
                .on_core(config.cores.get(1).copied()),
        ),
        Some(parts.delivery_thread().with_agent(NoOrderState(ReaderPorts::new(readers, None)))),
        handshakes.map(|runner| runner.with_beat(parts.beat("handshakes"))),
    ];
    let status = Arc::new(NodeStatus {
        latencies: probes.drain.as_ref().map(Drain::reader),
        hiccups: start_hiccups(config, probes.clock.as_ref(), &mut notes),
        uplinks: Some(board),
        ..parts.status()
    });
    let mut starting = StartingThreads::new(parts.draining.clone());
    for runner in runners.into_iter().flatten().chain([keeper(probes.drain)]) {
        starting.threads.push(runner.start()?);
    }
    Ok(Node {
        threads: starting.started(),
        draining: parts.draining.clone(),
        address,
        status,
        tls,
        web: None,
        reload: None,
        token_keys: parts.token_keys.clone(),
        recoveries: Vec::new(),
        times: StartTimes { whole: begun.elapsed(), ..StartTimes::default() },
        notes,
    })
}

impl Assembly<'_> {
    /// Builds the gateway's ports and the links behind them, control's first.
    fn uplinks(&self, section: &UplinkSection) -> anyhow::Result<(Vec<PortParts>, Vec<Uplink>)> {
        let key = section.key()?;
        let process = GatewayProcess {
            session_id: SessionId(section.session),
            incarnation: OsRng.next_u64(),
        };
        let mut partitions = section.partitions.clone();
        partitions.sort_unstable_by_key(|one| one.id);
        let (mut ports, mut uplinks) = (Vec::new(), Vec::new());
        for at in partitions {
            let id = PartitionId(at.id);
            let (ring, source) = gateway_to_partition(id, self.wakes.links.clone());
            let (link, ends) = gateway_to_link(self.wakes.gateway.clone());
            let linked = LinkedPort::new(id, source, ends);
            ports.push(PortParts { ring, events: linked.reader(), link: Some(link) });
            let tls = section.tls(&at)?;
            let connection = Connection::new(at, process.session_id, key, tls);
            uplinks.push(Uplink::new(connection, linked, process));
        }
        Ok((ports, uplinks))
    }

    fn linked_gateway(
        &self,
        ports: Vec<PortParts>,
        delivery: DeliveryPort,
        probes: &mut Probes,
    ) -> anyhow::Result<Gateway> {
        let mut node_id = [0; 16];
        OsRng.fill(&mut node_id);
        let gateway = Gateway::new(GatewayParts {
            net: Net::System,
            ports,
            imports: ImportProgress::unbounded(),
            delivery,
            recorder: probes.recorder("gateway"),
            clock: StageClock::new(probes.clock.clone().filter(|_| probes.drain.is_some())),
            node_id: NodeId(node_id),
            rng: Box::new(OsRng),
            config: self.gateway_config(),
            assignment: self.config.assignment(),
            draining: self.draining.clone(),
            status: self.gateway_status.clone(),
        })?;
        Ok(gateway)
    }
}

/// The agent in the place of order stores: it refuses each query.
struct NoOrderState(ReaderPorts);

impl Agent for NoOrderState {
    fn name(&self) -> &'static str {
        "no-order-state"
    }

    fn do_work(&mut self, _now: Nanos) -> usize {
        let mut count = 0;
        while let Some(request) = self.0.next_request() {
            count += 1;
            if let DeliveryRequest::Fetch(fetch) = request {
                self.0.refuse(&fetch, Reason::NotServedHere);
            }
        }
        count
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.0.has_waiting().then_some(Nanos(now.0 + 500_000))
    }
}
