//! The gateway of a node with its newcomers, and the readers over HTTP beside it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use weir_door::Door;
use weir_door::lobby::LobbyLimits;
use weir_door::reader_rings::{DeliveryPort, GatewayPort, gateway_to_delivery};
use weir_gateway::newcomers::{Newcomers, NewcomersParts, link};
use weir_gateway::{Gateway, GatewayConfig, GatewayParts, PortParts, Protocol};
use weir_io::net::Net;
use weir_io::{OsRng, ThreadDisk, monotonic_now};
use weir_partition::checkpoint::CheckpointAgent;
use weir_partition::control_import::ImportProgress;
use weir_partition::event_reader::EventReader;
use weir_partition::handoff::PartitionPort;
use weir_partition::recovery::RecoveredPartition;
use weir_partition::stage_clock::StageClock;
use weir_runtime::{Runner, WaitStrategy};
use weir_types::Nanos;
use weir_web::{Hub, HubAgent, HubParts};
use weir_wire::session::NodeId;

use super::assembly::Assembly;
use super::probes::Probes;
use super::threads::{HISTORY_SHARE, NEWCOMERS_SHARE};

/// The parts of order state over HTTP; empty where not served.
#[derive(Default)]
pub(super) struct WebSide {
    pub(super) readers: Option<HubAgent>,
    pub(super) hub: Option<Hub>,
    /// The delivery store's end.
    pub(super) port: Option<GatewayPort>,
}

/// The gateway's ends of the rings to the other agents.
pub(super) struct GatewayEnds {
    /// Those to the partitions, the control partition first.
    pub(super) ports: Vec<PortParts>,
    /// The progress of the control importer.
    pub(super) imports: ImportProgress,
    /// That to the order stores.
    pub(super) delivery: DeliveryPort,
}

/// A gateway with the past of its partitions.
pub(super) struct GatewayStart {
    pub(super) gateway: Gateway,
    /// The agents that write its checkpoints.
    pub(super) checkpoints: Vec<CheckpointAgent<ThreadDisk>>,
    /// Notes for operators.
    pub(super) notes: Vec<String>,
}

impl Assembly<'_> {
    /// Builds the gateway, with the past of its partitions, and the agents that write its
    /// checkpoints.
    pub(super) fn gateway(
        &self,
        ends: GatewayEnds,
        probes: &mut Probes,
        recovered: &[RecoveredPartition],
    ) -> anyhow::Result<GatewayStart> {
        let GatewayEnds { ports, imports, delivery } = ends;
        let mut gateway = Gateway::new(GatewayParts {
            net: Net::System,
            ports,
            delivery,
            recorder: probes.recorder("gateway"),
            clock: StageClock::new(probes.clock.clone().filter(|_| probes.drain.is_some())),
            node_id: NodeId(recovered[0].log.log_id().to_be_bytes()),
            rng: Box::new(OsRng),
            config: self.gateway_config(),
            assignment: self.config.assignment(),
            imports,
            draining: self.draining.clone(),
            status: self.gateway_status.clone(),
        })?;
        for recovered in recovered {
            for (id, firm_id) in recovered.engine.session_firms() {
                gateway.know_firm(id, firm_id);
            }
        }
        let (mut checkpoints, mut notes) = (Vec::new(), Vec::new());
        for (port, recovered) in recovered.iter().enumerate() {
            if !recovered.partition_id.is_none() {
                let begun = self.begin_with_checkpoint(&mut gateway, port, recovered);
                checkpoints.extend(begun.0);
                notes.extend(begun.1);
            }
        }
        gateway.take_in_the_past(monotonic_now());
        for (port, recovered) in recovered.iter().enumerate() {
            for (id, state) in recovered.engine.sessions() {
                gateway.agree(port, id, state.next_event_no, state.last_request_no);
            }
            // Changes of instruments may be in events that are not read, or gone.
            for state in recovered.engine.instruments() {
                gateway.know_instrument(port, &state.definition);
            }
            // Those that the links await are not this gateway's.
            if self.config.link.is_none() {
                for id in recovered.engine.cancel_on_disconnect() {
                    gateway.await_return(port, *id);
                }
            }
        }
        gateway.publish_status();
        Ok(GatewayStart { gateway, checkpoints, notes })
    }

    pub(super) fn gateway_config(&self) -> GatewayConfig {
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
            return_within: Nanos(section.return_within_ms * 1_000_000),
            traders_elsewhere: self.config.link.is_some(),
        }
    }

    /// Builds the thread of connections that have not logged on.
    /// With a flag they wait in the system's backlog until it is set.
    pub(super) fn newcomers(
        &self,
        door: Door,
        gateway: &mut Gateway,
        may_accept: Option<Arc<AtomicBool>>,
    ) -> anyhow::Result<Runner> {
        let wakes = &self.wakes;
        let (port, to_gateway) = link(wakes.gateway.clone(), wakes.newcomers.clone());
        let newcomers = Newcomers::new(NewcomersParts {
            net: Net::System,
            door,
            protocol: Protocol::Sbe,
            gateway: to_gateway,
            reception: gateway.meet(port, Box::new(OsRng)),
            config: self.gateway_config(),
            draining: self.draining.clone(),
            status: self.gateway_status.clone(),
        })?;
        let newcomers = match may_accept {
            Some(flag) => newcomers.waiting_for(flag),
            None => newcomers,
        };
        let runner = Runner::new("newcomers", wakes.newcomers.clone(), WaitStrategy::Park)
            .sharing(NEWCOMERS_SHARE)
            .giving_way()
            .with_sockets(newcomers);
        Ok(runner)
    }

    /// Builds the thread that reads old events from files for the gateway. It may wait for a disk
    /// without limit, so the node lives without it, and is not ready.
    pub(super) fn history(&self, gateway: &mut Gateway) -> Runner {
        let (wake, wakes) = (self.wakes.history.clone(), &self.wakes);
        let history = gateway.leave_files(wake.clone(), wakes.gateway.clone());
        Runner::new("history", wake, WaitStrategy::Park)
            .sharing(HISTORY_SHARE)
            .giving_way()
            .with_agent(history)
    }

    /// Builds the parts between readers over HTTP and the delivery store, where configured.
    pub(super) fn web_side(&self, gateway: &Gateway, control: impl Fn() -> EventReader) -> WebSide {
        let Some(section) = &self.config.web else { return WebSide::default() };
        let wakes = &self.wakes;
        let (delivery, port) = gateway_to_delivery(wakes.web.clone(), wakes.delivery.clone());
        let (status, mut seen) = (self.gateway_status.clone(), 0);
        let (readers, hub) = HubAgent::new(HubParts {
            delivery,
            control: control(),
            instruments: Box::new(move || {
                let status = status.lock().unwrap_or_else(PoisonError::into_inner);
                let version = status.instruments_version;
                let is_new = std::mem::replace(&mut seen, version) != version;
                is_new.then(|| status.instruments.clone())
            }),
            directory: gateway.directory_beside(&mut OsRng),
            wake: wakes.web.clone(),
            limits: section.limits(),
        });
        WebSide { readers: Some(readers), hub: Some(hub), port: Some(port) }
    }
}

/// Returns the gateway's parts for a partition.
pub(super) fn port_of(ring: PartitionPort, of: &RecoveredPartition) -> PortParts {
    PortParts::here(ring, of.reader("gateway"))
}
