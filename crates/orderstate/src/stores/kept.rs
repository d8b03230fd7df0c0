//! The stores of all sources at a start: recovered where their level requires it, else new.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_delivery::OrderStore;
use weir_delivery::stream::SourceStream;
use weir_io::{OsRng, Rng, ThreadDisk};
use weir_log::LogConfig;
use weir_partition::dirs::PartitionDirs;
use weir_runtime::Wake;
use weir_types::{Durability, Epoch, Position};

use super::journal::{Journal, RecoveredSource, is_source_fault, recover};
use super::own::{self, OwnSource, OwnStart, OwnStore};
use super::snapshots::{SnapshotPort, SnapshotWriter, StoreSnapshots, store_to_writer};
use super::tail::EntryTail;
use super::{StoreSettings, WINDOW};
use crate::cold::sources::BroughtStore;
use crate::cold::{ArchiveSender, ColdSources};
use crate::plant::{self, Plant};

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

/// The store of a partition that trades here.
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
    /// The reason that its log was set aside, if it was.
    pub failure: Option<String>,
}

/// The recovered stores of a start.
pub struct RecoveredStores {
    /// The partitions that trade here.
    pub own: Vec<KeptOwnStore>,
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

    /// Recovers the stores of the node's own partitions and of these sources, with the archives of
    /// the latter; `wake` wakes the stores' thread. The log of a source that is damaged or
    /// contradicts its store is set aside: the source begins empty, and a note tells of it.
    ///
    /// # Errors
    /// When a log is newer or locked, or an own partition's store cannot be recovered.
    pub fn bring_back(
        &self,
        own: Vec<OwnSource<'_>>,
        sources: &[(StoreSettings, Durability)],
        cold: Option<&ColdSources>,
        wake: &Wake,
    ) -> anyhow::Result<RecoveredStores> {
        let (mut source_stores, mut stores, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let own = own.into_iter();
        let own = own.map(|source| self.bring_back_own(source, &mut stores, &mut notes));
        let own = own.collect::<anyhow::Result<Vec<_>>>()?;
        for (settings, durability) in sources {
            let source = settings.source;
            if *durability == Durability::Memory {
                let mut store = settings.store(Epoch::NONE);
                let stream = SourceStream::new(source, WINDOW);
                let brought = BroughtStore { store: &mut store, log_id: None };
                let cold = cold.map(|cold| cold.open(brought, &mut notes)).transpose()?;
                let tail = EntryTail::new(Position::NONE);
                let (journal, failure) = (None, None);
                source_stores.push(KeptSourceStore { store, stream, journal, tail, cold, failure });
                continue;
            }
            // The archive receives all orders before the store discards any.
            let count_max = cold.map_or(settings.ended_orders_max, |_| usize::MAX);
            let unlimited = StoreSettings { ended_orders_max: count_max, ..*settings };
            let mut failure = None;
            let kept = match self.recover(&unlimited, *durability, wake) {
                Err(error) if is_source_fault(&error) && !plant::is(Plant::FaultEndsStart) => {
                    notes.push(self.set_aside(settings, &error)?);
                    failure = Some(format!("{error:#}"));
                    self.recover(&unlimited, *durability, wake)?
                }
                kept => kept?,
            };
            notes.extend(kept.notes);
            let (mut store, journal) = (kept.store, kept.journal);
            let log_id = Some(journal.identity().0);
            let brought = BroughtStore { store: &mut store, log_id };
            let cold = cold.map(|cold| cold.open(brought, &mut notes)).transpose()?;
            store.set_retention(settings.config(Epoch::NONE).retention);
            let log = ThreadDisk::open(&self.batches(settings), None)?;
            stores.push(StoreSnapshots { source, snapshots: kept.snapshots, log: Some(log) });
            let (stream, journal, tail) = (kept.stream, Some(journal), kept.tail);
            source_stores.push(KeptSourceStore { store, stream, journal, tail, cold, failure });
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
        let dir = PartitionDirs::find(&self.dir, own)?.order_store();
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

    /// Moves a source's files to a name beside it, for the operator; returns the note.
    fn set_aside(&self, settings: &StoreSettings, error: &anyhow::Error) -> anyhow::Result<String> {
        let (source, root) = (settings.source, self.root(settings));
        let aside = (1..).map(|number| self.dir.join(format!("source-{source}.failed-{number}")));
        let aside = aside.into_iter().find(|name| !name.exists()).expect("numbers do not end");
        std::fs::rename(&root, &aside).with_context(|| {
            format!("source {source}: {error:#}; its files cannot be set aside")
        })?;
        tracing::error!(%source, error = format!("{error:#}"), aside = %aside.display(),
            "a source has failed: its core has to send all again");
        Ok(format!(
            "source {source} begins empty, and its core has to send all again: {error:#}; its \
             files are in {}",
            aside.display()
        ))
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

#[cfg(test)]
mod tests {
    use weir_delivery::ROW_LEN;
    use weir_types::{Nanos, Rec};
    use weir_wire::delivery::row_offset_of;

    use super::*;
    use crate::simulated_core::{SOURCE, SimulatedCore, frame_of};
    use crate::stores::Indexes;

    fn settings() -> StoreSettings {
        let indexes = Indexes::default();
        StoreSettings { source: SOURCE, ended_orders_max: 20, bytes_max: u64::MAX, indexes }
    }

    fn start(keep: &KeepSettings) -> RecoveredStores {
        let sources = [(settings(), Durability::Os)];
        keep.bring_back(Vec::new(), &sources, None, &Wake::new()).expect("it starts")
    }

    /// Returns the entries of a core that opened its source and sent two orders.
    fn entries(core: &mut SimulatedCore) -> Vec<Vec<u8>> {
        let open = core.next_epoch(weir_types::ChangeId::START, weir_types::Switch::On);
        core.prepare_resend(weir_types::ChangeId::START, 1);
        let resend = core.next_batch().expect("an empty one");
        vec![frame_of(&open), resend, core.insert(1), core.insert(2)]
    }

    fn log(keep: &KeepSettings, entries: Vec<Vec<u8>>) {
        let mut recovered = start(keep);
        let journal = recovered.source_stores[0].journal.as_mut().expect("it has a log");
        for entry in entries {
            journal.keep(entry, Nanos(1));
        }
        journal.close().expect("the disk works");
    }

    /// A batch that was journaled unchecked, or by an earlier version, ended each start.
    #[test]
    fn a_start_sets_the_log_of_a_source_aside_that_it_cannot_replay() {
        let dir = tempfile::tempdir().expect("a directory");
        let keep = KeepSettings::in_dir(dir.path());
        let mut core = SimulatedCore::default();
        log(&keep, entries(&mut core));
        assert_eq!(start(&keep).source_stores[0].store.live_count(), 2);
        // The same order again, at a place that it has passed.
        let again = core.say(1, 1, weir_types::OrdStatus::New);
        log(&keep, vec![again.clone(), again]);
        for (number, live) in [(1, 0), (2, 0)] {
            let recovered = start(&keep);
            let source = &recovered.source_stores[0];
            assert_eq!((source.store.live_count(), source.stream.is_whole()), (live, false));
            let is_told = recovered.notes.iter().any(|note| note.contains("begins empty"));
            assert_eq!(is_told, number == 1, "{:?}", recovered.notes);
            assert_eq!(source.failure.is_some(), number == 1);
        }
        assert!(dir.path().join(format!("source-{SOURCE}.failed-1")).is_dir());
        // The core sends all again, and the next start has it.
        log(&keep, entries(&mut SimulatedCore::default()));
        assert_eq!(start(&keep).source_stores[0].store.live_count(), 2);
    }

    /// Versions before times had a bound took any, as that of an order that never expires.
    #[test]
    fn a_start_takes_the_log_of_a_version_that_had_no_bound_of_times() {
        let dir = tempfile::tempdir().expect("a directory");
        let keep = KeepSettings::in_dir(dir.path());
        let mut core = SimulatedCore::default();
        log(&keep, entries(&mut core));
        let mut batch = core.insert(3);
        for field in ["transact_time", "created_time", "expire_time"] {
            // The row is followed by the length of its attributes.
            let at = batch.len() - 2 - ROW_LEN + row_offset_of(field);
            batch[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        }
        log(&keep, vec![batch]);
        let recovered = start(&keep);
        let source = &recovered.source_stores[0];
        assert_eq!((source.store.live_count(), &source.failure), (3, &None));
        let row = source.store.get(Rec(3)).expect("it is live");
        assert_eq!(row.expire_time, Nanos(u64::MAX));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn a_planted_fault_of_one_source_that_ends_the_start_is_found() {
        plant::set(Some(Plant::FaultEndsStart));
        let test = a_start_sets_the_log_of_a_source_aside_that_it_cannot_replay;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found, "it is planted");
    }

    #[test]
    fn a_start_sets_a_damaged_log_of_a_source_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let keep = KeepSettings::in_dir(dir.path());
        log(&keep, entries(&mut SimulatedCore::default()));
        let batches = keep.batches(&settings());
        for file in std::fs::read_dir(batches).expect("its files") {
            let path = file.expect("a file").path();
            let mut bytes = std::fs::read(&path).expect("a file");
            // The lock is empty.
            bytes.iter_mut().take(64).for_each(|byte| *byte = 0xff);
            std::fs::write(&path, bytes).expect("it is ours");
        }
        let recovered = start(&keep);
        assert_eq!(recovered.source_stores[0].store.live_count(), 0);
        assert!(recovered.notes.iter().any(|note| note.contains("begins empty")));
    }
}
