//! The order stores of a node at work: the delivery agent with its sources, and the agent that
//! follows those of another node.

use std::time::Instant;

use anyhow::Context;
use weir_log::SequencedLog as _;
use weir_orderstate::agent::{DeliveryAgent, DeliveryParts, OwnParts};
use weir_orderstate::cold::{ArchiveSender, SharedPace};
use weir_orderstate::ingest::{IngestAgent, IngestPort};
use weir_orderstate::markets::MarketState;
use weir_orderstate::replica::{ReplicaAgent, ReplicaParts, UpdatePort, follow_to_store};
use weir_orderstate::stores::StoreSettings;
use weir_orderstate::stores::kept::KeepSettings;
use weir_orderstate::stores::own::{EngineState, OwnSource};
use weir_orderstate::stores::snapshots::SnapshotWriter;
use weir_partition::recovery::RecoveredPartition;
use weir_tls::read_secret_text;
use weir_types::hex::parse_key;
use weir_types::{Nanos, PartitionId, SessionId};
use weir_wire::session::ApiKey;

use super::assembly::Assembly;
use super::builder::{Builder, Views};
use super::doors::OuterDoor;
use crate::config::SourceSection;

/// The name under which the status shows what the own order store holds.
const OWN_STORE: &str = "order store";

/// The agent that outside cores connect to, and the store's end of its ring.
pub(super) type Ingest = Option<(OuterDoor<IngestAgent>, IngestPort)>;
/// The agent that follows another node's sources, and the store's end of its ring.
pub(super) type Replica = Option<(ReplicaAgent, UpdatePort)>;

impl Builder<'_> {
    /// Builds the views of a node with order stores: the delivery agent, outside cores, followed
    /// sources and archives.
    pub(super) fn stores(&mut self, ingest: Ingest, replica: Replica) -> anyhow::Result<Views> {
        let (ingest, ingest_port) = ingest.unzip();
        let (replica, update_port) = replica.unzip();
        let begun = Instant::now();
        let (mut agent, writer) = self.delivery(ingest_port, update_port)?;
        self.times.order_state = begun.elapsed();
        let mut cold = agent.take_cold();
        let trading = self.recovered.iter().filter(|one| !one.partition_id.is_none());
        if let Some(log_time) = trading.map(|one| one.log.last_log_time()).max() {
            cold.iter_mut().for_each(|agent| agent.begin_after(log_time));
        }
        let delivery = self.parts.delivery_thread().with_agent(agent);
        Ok(Views { ingest, replica, writer, cold, ..Views::new(delivery) })
    }

    /// Builds the delivery agent, and the agent that writes snapshots of its stores.
    fn delivery(
        &mut self,
        ingest: Option<IngestPort>,
        updates: Option<UpdatePort>,
    ) -> anyhow::Result<(DeliveryAgent, Option<SnapshotWriter>)> {
        let ports = self.take_reader_ports();
        let (parts, notes) = (&self.parts, &mut self.notes);
        let pace = parts.cold_pace();
        let trading = self.recovered.iter_mut().filter(|one| !one.partition_id.is_none());
        let own = trading.map(|one| parts.own_source(one, pace.clone(), notes));
        let own = own.collect::<anyhow::Result<Vec<_>>>()?;
        let section = &parts.config.delivery;
        let sources = parts.config.ingest.iter().flat_map(|section| &section.sources);
        let settings = |source: &SourceSection| {
            let settings = section.settings(PartitionId(source.id), source.bytes_max);
            (settings, source.durability)
        };
        let sources = sources.map(settings).collect();
        let keep = KeepSettings {
            segment_bytes: parts.config.log.segment_bytes,
            ..KeepSettings::in_dir(&parts.config.dir)
        };
        let snapshot_every = parts.config.ingest.as_ref().map(|i| i.snapshot_every_bytes);
        let keep =
            KeepSettings { snapshot_every: snapshot_every.unwrap_or(keep.snapshot_every), ..keep };
        let (agent, kept) = DeliveryAgent::new(DeliveryParts {
            ports,
            own,
            token_keys: parts.token_keys.clone(),
            sources,
            cold_sources: parts.cold_sources(pace),
            look_interval: Nanos(parts.config.delivery.look_interval_us * 1000),
            figures: parts.delivery_figures.clone(),
            ingest: (ingest, parts.ingest_figures.clone()),
            wake: parts.wakes.delivery.clone(),
            replica: updates.map(|port| (parts.followed(), port, parts.replica_figures.clone())),
            keep,
        })?;
        notes.extend(kept.notes);
        Ok((agent, kept.writer))
    }
}

/// Returns the beginning of an order store with the engine's state, and asks for an epoch of the
/// log, which begins when all views are there, unless a start that failed later has begun it.
fn begin_with_engine(
    trading: &mut RecoveredPartition,
) -> Box<dyn FnMut() -> anyhow::Result<EngineState> + '_> {
    Box::new(move || {
        let begins_epoch = trading.want_epoch(OWN_STORE)?;
        Ok(EngineState { begins_epoch, ..engine_state(trading) })
    })
}

/// Returns the engine's state, from which an order store begins if it cannot be built from events.
fn engine_state(trading: &RecoveredPartition) -> EngineState {
    let engine = &trading.engine;
    let markets = engine.instruments().map(|state| MarketState {
        instrument_id: state.definition.instrument_id,
        phase: state.phase,
        is_held: state.is_held,
        origin: state.origin,
        last_price: state.last_price,
        uncrossed_price: state.uncrossed_price,
    });
    EngineState {
        position: engine.position(),
        last_seq: engine.last_seq(),
        last_rec: engine.last_rec(),
        orders: engine.live_orders(),
        markets: markets.collect(),
        begins_epoch: false,
    }
}

impl Assembly<'_> {
    /// Returns a partition as a source of orders, with the archive of those that its store
    /// discards.
    fn own_source<'p>(
        &self,
        trading: &'p mut RecoveredPartition,
        pace: SharedPace,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<OwnParts<'p>> {
        let id = trading.partition_id;
        let cold = self.cold(trading, pace, notes)?;
        let figures = self.delivery_figures.own_of(id).expect("the figures of all partitions");
        let section = &self.config.delivery;
        let source = OwnSource {
            log: trading.figures.clone(),
            figures: figures.clone(),
            settings: section.settings(id, None),
            older_upto: cold.as_ref().map(ArchiveSender::fed),
            events: trading.reader(OWN_STORE),
            event_count: trading.event_count(),
            log_id: trading.log.log_id(),
            snapshot_every: section.snapshot_every_bytes,
            engine: begin_with_engine(trading),
        };
        Ok(OwnParts { source, cold })
    }

    /// Returns the settings of the followed sources' stores.
    pub(super) fn followed(&self) -> Vec<StoreSettings> {
        let sources = self.config.replica.iter().flat_map(|section| &section.sources);
        let settings = |id: &u16| self.config.delivery.settings(PartitionId(*id), None);
        sources.map(settings).collect()
    }

    /// Builds the agent that follows another node's sources, where configured, and the store's end
    /// of its ring.
    pub(super) fn replica(&self) -> anyhow::Result<Replica> {
        let Some(section) = &self.config.replica else { return Ok(None) };
        let path = &section.key_file;
        let key = read_secret_text(path).context("the replica's key")?;
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

    /// Returns the outside sources, each with its session.
    pub(super) fn sources(&self) -> Vec<(PartitionId, SessionId)> {
        let sources = self.config.ingest.iter().flat_map(|section| &section.sources);
        sources.map(|s| (PartitionId(s.id), SessionId(s.session))).collect()
    }
}
