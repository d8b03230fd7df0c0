//! The order store: the latest state of each order of one source, and the changes since a place.
//!
//! It takes in events or rows in (`seq`, `rec`) order (`ingest.rs`) and answers one query: the rows
//! that changed after a place and pass a filter (`page.rs`). It has no clock, thread, I/O or
//! reader. The work for one event is bounded: nothing ever stops to compact. Its memory is bounded
//! too (`memory.rs`).

use weir_types::{ChangeId, Epoch, Epochs, PartitionId, Reason, Rec, SourceLog};
use weir_wire::delivery::OrderRow;

use crate::capture::{Capture, KeptEntries};
use crate::chunk::ChunkedArray;
use crate::filter::Filter;
use crate::heap::Heap;
use crate::index::{Index, Kinds};
use crate::ingest::IngestError;
use crate::records::Records;
use crate::row::{MarkRow, ROW_LEN, Row, SlotMeta, SlotState};

/// The limits on ended orders that are kept. They must be far more than end while a reader waits,
/// pages through its first copy, or is away: a reader that the floor overtakes starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// At most this many ended orders, tombstones and LEAVE marks.
    pub count_max: u32,
    /// At most this many bytes of them: their rows, plus [`SLOT_SIZE`] each.
    pub bytes_max: u64,
}

impl Retention {
    /// Keeps all ended orders for ever.
    pub const ALL: Retention = Retention { count_max: u32::MAX, bytes_max: u64::MAX };
}

/// Ended orders that stay beyond [`Retention`], until an archive has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOrders {
    /// Everything that ended after this place is held,
    pub after: ChangeId,
    /// but at most this many above [`Retention::count_max`]; when memory is short they are removed.
    pub count_max: u32,
}

/// The approximate cost of one order besides its row, in bytes: its metadata and its places.
pub const SLOT_SIZE: u64 = 400;

/// The configuration of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The source of the records.
    pub source: PartitionId,
    /// The source's epoch.
    pub epoch: Epoch,
    /// The keys that have rings; [`Kinds::NONE`] for a replica for readers of everything.
    pub kinds: Kinds,
    /// The limits on ended orders that are kept.
    pub retention: Retention,
    /// Bytes of memory that the store may request in all; `u64::MAX` for no limit. Near the limit
    /// ended orders are removed early; then new orders are refused.
    pub bytes_max: u64,
}

impl StoreConfig {
    /// Returns the configuration of a store of `source` with all keys and a million ended orders,
    /// without a memory limit.
    #[must_use]
    pub const fn new(source: PartitionId, epoch: Epoch) -> StoreConfig {
        let retention = Retention { count_max: 1_000_000, bytes_max: u64::MAX };
        StoreConfig { source, epoch, kinds: Kinds::FULL, retention, bytes_max: u64::MAX }
    }
}

/// The reason that a reader cannot go on from a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Resync {
    /// The place is beyond the end of its epoch, or its epoch is not known here.
    #[error("the place is beyond its epoch's end")]
    Epoch,
    /// A change that the reader may need was removed before the reader got it.
    #[error("the place is older than the floor")]
    Floor,
}

impl Resync {
    /// Returns the reason code of the wire format.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Resync::Epoch => Reason::ResyncEpoch,
            Resync::Floor => Reason::ResyncFloor,
        }
    }
}

pub(crate) const NONE: u32 = u32::MAX;

/// The latest state of each order of one source.
///
/// INVARIANT: the slots that wait for the floor (ended orders, tombstones, LEAVE marks) are chained
/// in the order of their places, so that the oldest is always removed first, and the floor only
/// rises.
#[derive(Clone, Debug)]
pub struct OrderStore {
    pub(crate) config: StoreConfig,
    pub(crate) head: ChangeId,
    /// The end of the last full resend: see [`OrderStore::complete_to`].
    pub(crate) resent_to: ChangeId,
    pub(crate) epochs: Epochs<ChangeId>,
    pub(crate) log: SourceLog,
    pub(crate) records: Records,
    pub(crate) index: Index,
    pub(crate) metas: ChunkedArray<SlotMeta>,
    pub(crate) heap: Heap,
    /// The first free slot; the chain goes on in the slots.
    pub(crate) free_slot: u32,
    pub(crate) free_count: u32,
    /// The chain of slots that wait for the floor.
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    pub(crate) waiting_count: u32,
    pub(crate) waiting_bytes: u64,
    pub(crate) held: Option<HeldOrders>,
    pub(crate) live_count: u32,
    /// Bytes of all rows, and of their attributes alone.
    pub(crate) row_bytes: u64,
    pub(crate) attribute_bytes: u64,
    /// True when memory is short: nothing new is requested.
    pub(crate) is_tight: bool,
    /// True while the rows of a batch are taken for all of which room was made.
    pub(crate) is_room_made: bool,
    /// Slots removed early because memory was short.
    pub(crate) early_count: u64,
    pub(crate) full_count: u64,
    pub(crate) step_count: u64,
    /// The snapshot in progress.
    pub(crate) capture: Option<Box<Capture>>,
    pub(crate) is_capture_given_up: bool,
    /// Entries that cancelled snapshots had kept, freed a few at a time.
    pub(crate) abandoned: KeptEntries,
    pub(crate) mark_row: MarkRow,
    pub(crate) scratch: Vec<u8>,
}

impl OrderStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> OrderStore {
        OrderStore {
            head: ChangeId::START,
            resent_to: ChangeId::START,
            epochs: Epochs::new(config.epoch),
            log: SourceLog::NONE,
            records: Records::default(),
            index: Index::new(config.kinds),
            metas: ChunkedArray::new(),
            heap: Heap::new(),
            free_slot: NONE,
            free_count: 0,
            oldest: NONE,
            newest: NONE,
            waiting_count: 0,
            waiting_bytes: 0,
            held: None,
            live_count: 0,
            row_bytes: 0,
            attribute_bytes: 0,
            is_tight: false,
            is_room_made: false,
            early_count: 0,
            full_count: 0,
            step_count: 0,
            capture: None,
            is_capture_given_up: false,
            abandoned: KeptEntries::default(),
            mark_row: MarkRow::new(),
            scratch: Vec::with_capacity(ROW_LEN),
            config,
        }
    }

    /// Returns the store's configuration.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Returns the source of the records.
    #[must_use]
    pub fn source(&self) -> PartitionId {
        self.config.source
    }

    /// Returns the log of the source's changes, where it is known.
    #[must_use]
    pub fn log(&self) -> SourceLog {
        self.log
    }

    /// Sets the log of the source's changes, which snapshots carry on to replicas.
    pub fn set_log(&mut self, log: SourceLog) {
        self.log = log;
    }

    /// Returns the source's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs.current()
    }

    /// Returns the known earlier epochs, oldest first, each with the place up to which it survives.
    #[must_use]
    pub fn past_epochs(&self) -> &[(Epoch, ChangeId)] {
        self.epochs.ended()
    }

    /// Changes the limits on ended orders from now on; the excess is removed a few at a time.
    pub fn set_retention(&mut self, retention: Retention) {
        self.config.retention = retention;
    }

    /// Sets the ended orders that stay for now beyond the limits. This is not part of a snapshot.
    pub fn set_held(&mut self, held: Option<HeldOrders>) {
        self.held = held;
    }

    /// True when there are more ended orders than the limits allow, and they are not held.
    #[must_use]
    pub fn has_to_retire(&self) -> bool {
        let retention = self.config.retention;
        let is_over =
            self.waiting_count > retention.count_max || self.waiting_bytes > retention.bytes_max;
        is_over && !self.is_held()
    }

    fn is_held(&self) -> bool {
        let Some(held) = self.held else { return false };
        let count_max = self.config.retention.count_max.saturating_add(held.count_max);
        self.waiting_count <= count_max
            && self.oldest != NONE
            && self.metas.get(self.oldest).change_id > held.after
    }

    /// Returns the bytes of memory that the store may request; `u64::MAX` for no limit.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.config.bytes_max
    }

    /// Changes the memory limit, from the next change on.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.config.bytes_max = bytes_max;
        if bytes_max == u64::MAX {
            (self.is_tight, self.index.is_short) = (false, false);
        }
    }

    /// Returns the latest place that the store has taken in.
    #[must_use]
    pub fn head(&self) -> ChangeId {
        self.head
    }

    /// Returns the place up to which the store has all changes: its head, or the end of a full
    /// resend where that is later.
    ///
    /// The end of a resend is behind the tombstones of all records that it left out, and a store
    /// has tombstones of those alone that it had not discarded. So the heads of stores with other
    /// limits, or archives, differ after it, and a reader that comes from another one may be beyond
    /// the head here without lacking anything.
    #[must_use]
    pub fn complete_to(&self) -> ChangeId {
        self.head.max(self.resent_to)
    }

    /// Returns the place of the latest removed change that this filter could have let through.
    #[must_use]
    pub fn floor_of(&self, filter: &Filter) -> ChangeId {
        self.index.floor_of(filter)
    }

    /// Returns the place of the latest removed change: the FLOOR.
    #[must_use]
    pub fn floor(&self) -> ChangeId {
        self.index.floor()
    }

    /// Returns the number of orders that can still change.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.live_count
    }

    /// Returns the number of ended orders, tombstones and LEAVE marks that are kept.
    #[must_use]
    pub fn ended_count(&self) -> u32 {
        self.waiting_count
    }

    /// Returns the elementary steps so far: entries appended, killed, moved or removed, chunks
    /// freed, rows written. The steps of one call bound its duration, regardless of the store's
    /// size.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        self.step_count + self.index.step_count
    }

    /// Returns the latest state of a record; `None` if it never existed, was deleted, or is below
    /// the floor.
    #[must_use]
    pub fn get(&self, rec: Rec) -> Option<OrderRow> {
        self.current(rec).map(Row::decode)
    }

    /// Returns the attributes of a record's latest state, as its core sent them; `None` in the
    /// cases of [`OrderStore::get`].
    #[must_use]
    pub fn attributes(&self, rec: Rec) -> Option<&[u8]> {
        self.current(rec).map(Row::attributes)
    }

    fn current(&self, rec: Rec) -> Option<Row<'_>> {
        let slot = self.records.get(rec)?;
        (self.metas.get(slot).standing != SlotState::Tombstone).then(|| self.row(slot))
    }

    #[inline]
    pub(crate) fn row(&self, slot: u32) -> Row<'_> {
        let meta = self.metas.get(slot);
        Row(self.heap.bytes(meta.block, usize::from(meta.row_len)))
    }

    /// Returns the digest of the live orders of `filter`, which a reader compares with its
    /// mirror's: the sum, modulo 2^64, of XXH3-64 of each live order's row, which is its fixed
    /// fields with `merged_count` zero, the length of its attributes and the attributes. It is the
    /// same on every replica, regardless of the history that led there.
    ///
    /// `None` if no ring holds exactly these orders: the digest would need a scan.
    #[must_use]
    pub fn digest(&self, filter: &Filter) -> Option<u64> {
        self.index.digest_of(filter)
    }

    /// True when pages of this filter find their rows in a ring of their own; otherwise they scan
    /// within a page's budget, and are marked as scans.
    #[must_use]
    pub fn is_indexed(&self, filter: &Filter) -> bool {
        self.index.is_indexed(filter)
    }

    /// Starts an epoch with a new writer of the source: its changes after `valid_to` in epochs
    /// before `epoch` are void.
    ///
    /// # Errors
    /// [`IngestError::EpochRepeated`], [`IngestError::EpochBehindHead`]: the store must then be
    /// rebuilt.
    pub fn begin_epoch(&mut self, epoch: Epoch, valid_to: ChangeId) -> Result<(), IngestError> {
        if epoch <= self.epoch() {
            return Err(IngestError::EpochRepeated(epoch));
        }
        if valid_to < self.head {
            return Err(IngestError::EpochBehindHead { epoch, valid_to });
        }
        self.epochs.end(valid_to, epoch);
        Ok(())
    }

    /// Adds an epoch that ended before the store began.
    ///
    /// # Panics
    /// If it is not after the known ones and before the current one.
    pub fn know_past_epoch(&mut self, epoch: Epoch, valid_to: ChangeId) {
        let ended = self.epochs.ended().iter().copied().chain([(epoch, valid_to)]);
        self.epochs = Epochs::with_ended(self.epoch(), ended);
    }

    /// Checks that a reader with this filter can go on from `change_id` of `epoch` and miss
    /// nothing.
    ///
    /// The start is always legal: a reader that has seen nothing misses nothing. A place beyond the
    /// head is legal too: this store is behind the one that the reader had before, or had fewer
    /// records to remove at the end of a full resend.
    ///
    /// # Errors
    /// [`Resync`], with the reason.
    pub fn check(&self, epoch: Epoch, change_id: ChangeId, filter: &Filter) -> Result<(), Resync> {
        if change_id == ChangeId::START {
            return Ok(());
        }
        if !self.epochs.has(epoch, change_id) {
            return Err(Resync::Epoch);
        }
        if change_id < self.index.floor_of(filter) {
            return Err(Resync::Floor);
        }
        Ok(())
    }
}
