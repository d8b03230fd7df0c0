//! The links of a node to gateway processes, where configured: a ring to each partition, and the
//! thread of the listener.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use weir_io::{OsRng, Rng};
use weir_link::PartitionTerms;
use weir_link::message::LogId;
use weir_linkgate::control::{Control, ControlStart, begin_start};
use weir_linkgate::door::{LinkDoorParts, link_door};
use weir_linkgate::figures::LinksBoard;
use weir_linkgate::partition::{LinkedPartition, LinkedPartitionParts, RecoveredSession};
use weir_linkgate::seal::SealKey;
use weir_partition::checkpoint::Checkpoint;
use weir_partition::control_import::ImportProgress;
use weir_partition::handoff::PartitionPort;
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::Runner;
use weir_types::Nanos;
use weir_wire::session::NodeId;

use super::assembly::Assembly;
use crate::config::LinkSection;

/// The interval of a link's pulses.
const PULSE: Nanos = Nanos(1_000_000_000);
/// The unanswered commands of a gateway at a partition.
const COMMANDS_MAX: u32 = 8_192;

/// The links of a node; empty where none are configured.
#[derive(Default)]
pub(super) struct Links {
    /// The address of the listener, and the figures.
    pub(super) board: Option<(SocketAddr, Arc<LinksBoard>)>,
    /// The thread of the listener, and that of its handshakes.
    pub(super) threads: Vec<Runner>,
}

/// The ends that the links have inside the node.
pub(super) struct LinkEnds {
    /// Their ends of the rings to the partitions, control first.
    pub(super) rings: Vec<PartitionPort>,
    /// The progress of the control importer.
    pub(super) imports: ImportProgress,
}

/// The terms of a partition's links, and the key to the seals of grants.
struct SecuredTerms {
    terms: PartitionTerms,
    key: SealKey,
}

impl Assembly<'_> {
    /// Builds the links to gateway processes, where configured.
    pub(super) fn links(
        &self,
        recovered: &[RecoveredPartition],
        ends: LinkEnds,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Links> {
        let LinkEnds { rings, imports } = ends;
        let Some(section) = &self.config.link else { return Ok(Links::default()) };
        let listener = std::net::TcpListener::bind(section.listen)
            .with_context(|| format!("cannot listen for gateways on {}", section.listen))?;
        let address = listener.local_addr()?;
        let (door, handshakes) = self.door(listener, "links-tls", &self.wakes.links)?;
        let ControlStart { number, key } = begin_start(&self.config.dir)?;
        let control = Control::new(number, key.clone());
        let (incarnation, board) = (OsRng.next_u64(), Arc::<LinksBoard>::default());
        let mut partitions = Vec::new();
        for (of, ring) in recovered.iter().zip(rings) {
            let checkpoint = self.checkpoint_of(of).unwrap_or_else(|error| {
                notes.push(format!("links: the events are read from the first one on: {error:#}"));
                None
            });
            let terms = terms_of(section, of, incarnation);
            let secured = SecuredTerms { terms, key: key.clone() };
            partitions.push(linked(of, ring, checkpoint, secured));
        }
        let agent = link_door(LinkDoorParts {
            door,
            definitions: recovered[0].reader("links"),
            partitions,
            imports,
            control,
            node_id: NodeId(recovered[0].log.log_id().to_be_bytes()),
            rng: Box::new(OsRng),
            limits: self.door_limits(section.connections_max),
            draining: self.draining.clone(),
            board: board.clone(),
        })?;
        let runner = Runner::new("links", self.wakes.links.clone(), self.config.wait)
            .with_sockets(agent)
            .with_beat(self.beat("links"));
        let handshakes = handshakes.map(|runner| runner.with_beat(self.beat("links-tls")));
        let threads = [runner].into_iter().chain(handshakes).collect();
        Ok(Links { board: Some((address, board)), threads })
    }
}

fn linked(
    of: &RecoveredPartition,
    ring: PartitionPort,
    checkpoint: Option<Checkpoint>,
    secured: SecuredTerms,
) -> LinkedPartition {
    let SecuredTerms { terms, key } = secured;
    let firms = of.engine.session_firms();
    let sessions = of.engine.sessions().zip(firms).map(|((id, state), (_, firm_id))| {
        let (next_event_no, last_request_no) = (state.next_event_no, state.last_request_no);
        RecoveredSession { id, firm_id, next_event_no, last_request_no }
    });
    let instruments = of.engine.instruments().map(|state| state.definition);
    let parts = LinkedPartitionParts {
        terms,
        ring,
        events: of.reader("links"),
        checkpoint,
        sessions: sessions.collect(),
        instruments: instruments.filter(|d| d.partition_id == of.partition_id).collect(),
        choices: of.engine.cancel_on_disconnect().to_vec(),
        key,
    };
    LinkedPartition::new(parts)
}

fn terms_of(section: &LinkSection, of: &RecoveredPartition, incarnation: u64) -> PartitionTerms {
    PartitionTerms {
        partition_id: of.partition_id,
        log_id: LogId(of.log.log_id().to_be_bytes()),
        incarnation,
        lease: Nanos(u64::from(section.lease_ms) * 1_000_000),
        pulse: PULSE,
        commands_max: COMMANDS_MAX,
    }
}
