//! The stores of all sources at a start: recovered where their level requires it, else new.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_delivery::OrderStore;
use weir_delivery::stream::SourceStream;
use weir_io::{OsRng, Rng, ThreadDisk};
use weir_log::LogConfig;
use weir_partition::dirs::{ORDER_STORE, partition_dir};
use weir_runtime::Wake;
use weir_types::{Durability, Epoch, Position};

use super::journal::{Journal, RecoveredSource, recover};
use super::own::{self, OwnSource, OwnStart, OwnStore};
use super::snapshots::{SnapshotPort, SnapshotWriter, StoreSnapshots, store_to_writer};
use super::tail::EntryTail;
use super::{StoreSettings, WINDOW};
use crate::cold::sources::BroughtStore;
use crate::cold::{ArchiveSender, ColdSources};

/// The settings for keeping sources' stores over a restart.
#[derive(Clone, Debug)]
pub struct KeepSettings {
    /// The node's directory.
    pub dir: PathBuf,
    /// The size of a segment of a source's log, in bytes.
    pub segment_bytes: u64,
    /// The number of log bytes between snapshots of a store.
    pub snapshot_every: u64,
    /// The thread that writes snapshots.
    pub wake: Wake,
}

/// The results of a start other than the stores.
pub struct KeptSources {
    /// The writer of snapshots; none where no source survives a restart.
    pub writer: Option<SnapshotWriter>,
    /// Notes on the start for operators.
    pub notes: Vec<String>,
}

/// The store of the node's own partition.
pub struct KeptOwnStore {
    /// The order store.
    pub store: OrderStore,
    /// The store's stream.
    pub stream: SourceStream,
    /// The events that it is built from.
    pub events: OwnStart,
    /// The number of event bytes between snapshots.
    pub snapshot_every: u64,
}

/// The store of an outside source.
pub struct KeptSourceStore {
    /// The order store.
    pub store: OrderStore,
    /// The store's stream.
    pub stream: SourceStream,
    /// The log of its batches, where it survives a restart.
    pub journal: Option<Journal<ThreadDisk>>,
    /// The log's newest entries.
    pub tail: EntryTail,
    /// The archive of the orders that it discards, if any.
    pub cold: Option<ArchiveSender>,
}

/// The recovered stores of a start.
pub struct RecoveredStores {
    /// The node's own partition, where it trades.
    pub own: Option<KeptOwnStore>,
    /// The outside sources.
    pub source_stores: Vec<KeptSourceStore>,
    /// The ring to the writer of snapshots.
    pub port: Option<SnapshotPort>,
    /// The writer of snapshots.
    pub writer: Option<SnapshotWriter>,
    /// Notes on the start for operators.
    pub notes: Vec<String>,
}

impl KeepSettings {
    /// Returns the defaults, with files below the node's directory.
    #[must_use]
    pub fn in_dir(dir: &Path) -> KeepSettings {
        KeepSettings {
            dir: dir.to_owned(),
            segment_bytes: 64 << 20,
            snapshot_every: 256 << 20,
            wake: Wake::new(),
        }
    }

    /// Recovers the stores of the node's own partition and of these sources, with the archives of
    /// the latter; `wake` wakes the stores' thread.
    ///
    /// # Errors
    /// When a log is damaged, newer or locked, or contradicts its snapshot.
    pub fn bring_back(
        &self,
        own: Option<OwnSource<'_>>,
        sources: &[(StoreSettings, Durability)],
        cold: Option<&ColdSources>,
        wake: &Wake,
    ) -> anyhow::Result<RecoveredStores> {
        let (mut source_stores, mut stores, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let own = own.map(|source| self.bring_back_own(source, &mut stores, &mut notes));
        let own = own.transpose()?;
        for (settings, durability) in sources {
            let source = settings.source;
            if *durability == Durability::Memory {
                let mut store = settings.store(Epoch::NONE);
                let stream = SourceStream::new(source, WINDOW);
                let brought = BroughtStore { store: &mut store, log_id: None, resends: 0 };
                let cold = cold.map(|cold| cold.open(brought, &mut notes)).transpose()?;
                let tail = EntryTail::new(Position::NONE);
                source_stores.push(KeptSourceStore { store, stream, journal: None, tail, cold });
                continue;
            }
            // The archive receives all orders before the store discards any.
            let count_max = cold.map_or(settings.ended_orders_max, |_| usize::MAX);
            let unlimited = StoreSettings { ended_orders_max: count_max, ..*settings };
            let kept = self.recover(&unlimited, *durability, wake)?;
            notes.extend(kept.notes);
            let (mut store, journal) = (kept.store, kept.journal);
            let log_id = Some(journal.identity().0);
            let brought = BroughtStore { store: &mut store, log_id, resends: kept.resends };
            let cold = cold.map(|cold| cold.open(brought, &mut notes)).transpose()?;
            store.set_retention(settings.config(Epoch::NONE).retention);
            let log = ThreadDisk::open(&self.batches(settings), None)?;
            stores.push(StoreSnapshots { source, snapshots: kept.snapshots, log: Some(log) });
            let (stream, journal, tail) = (kept.stream, Some(journal), kept.tail);
            source_stores.push(KeptSourceStore { store, stream, journal, tail, cold });
        }
        if stores.is_empty() {
            return Ok(RecoveredStores { own, source_stores, port: None, writer: None, notes });
        }
        let (port, writer) = store_to_writer(stores, self.wake.clone(), wake.clone());
        Ok(RecoveredStores { own, source_stores, port: Some(port), writer: Some(writer), notes })
    }

    fn bring_back_own(
        &self,
        source: OwnSource<'_>,
        stores: &mut Vec<StoreSnapshots>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<KeptOwnStore> {
        let (snapshot_every, own) = (source.snapshot_every, source.settings.source);
        let dir = self.dir.join(partition_dir(own)).join(ORDER_STORE);
        let brought = own::recover(source, &dir)?;
        let OwnStore { store, stream, events, snapshots, notes: own_notes } = brought;
        notes.extend(own_notes);
        stores.push(StoreSnapshots { source: own, snapshots, log: None });
        Ok(KeptOwnStore { store, stream, events, snapshot_every })
    }

    fn root(&self, settings: &StoreSettings) -> PathBuf {
        self.dir.join(format!("source-{}", settings.source))
    }

    fn batches(&self, settings: &StoreSettings) -> PathBuf {
        self.root(settings).join("batches")
    }

    fn recover(
        &self,
        settings: &StoreSettings,
        durability: Durability,
        wake: &Wake,
    ) -> anyhow::Result<RecoveredSource<ThreadDisk, ThreadDisk>> {
        let source = settings.source;
        let root = self.root(settings);
        let mut rng = OsRng;
        let log_id = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let config = LogConfig {
            durability,
            segment_bytes: self.segment_bytes,
            ..LogConfig::new(source, log_id)
        };
        let batches = ThreadDisk::open(&self.batches(settings), Some(wake.as_waker()))?;
        let snapshots = ThreadDisk::open(&root.join("snapshots"), None)?;
        recover(settings, WINDOW, config, batches, snapshots)
            .with_context(|| format!("source {source} in {}", root.display()))
    }
}
