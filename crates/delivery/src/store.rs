//! The order store: the latest state of each order of one source, and what is new since a place.
//!
//! Fed by events or rows in (`seq`, `rec`) order (`ingest.rs`), it answers one question: what
//! changed after this place, of what this filter lets through? (`page.rs`) It knows no clock, no
//! thread, no I/O and no reader. What it does for one event is bounded: nothing ever stops to
//! compact, and what it may take of memory is bounded too (`memory.rs`).

use weir_types::{Epoch, PartitionId, Reason, Rec};
use weir_wire::delivery::OrderRow;

use crate::capture::{Capture, Kept};
use crate::chunk::Chunked;
use crate::filter::Filter;
use crate::heap::Heap;
use crate::index::{Index, Kinds};
use crate::ingest::IngestError;
use crate::records::Records;
use crate::ring::Place;
use crate::row::{MarkRow, Meta, ROW_LEN, Row, Standing};

/// How long what ended is kept. Must be far more than what ends while a reader waits, pages through
/// its first copy, or is away: a reader that is overtaken starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// At most this many ended orders, tombstones and LEAVE marks.
    pub count_max: u32,
    /// At most this many bytes of them: their rows, and [`SLOT_SIZE`] each.
    pub bytes_max: u64,
}

impl Retention {
    /// Keeps whatever ended for ever.
    pub const ALL: Retention = Retention { count_max: u32::MAX, bytes_max: u64::MAX };
}

/// What ended and stays beyond what [`Retention`] says, until who keeps it elsewhere has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// All that ended after this place is held,
    pub after: Place,
    /// but no more than so many above [`Retention::count_max`]; short memory lets all of it go.
    pub count_max: u32,
}

/// About what one order costs beside its row, in bytes: what is known of it and its places.
pub const SLOT_SIZE: u64 = 400;

/// What a store is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Whose records these are.
    pub source: PartitionId,
    /// The source's epoch.
    pub epoch: Epoch,
    /// The keys that have rings; [`Kinds::NONE`] for a replica for readers of everything.
    pub kinds: Kinds,
    /// How long what ended is kept.
    pub retention: Retention,
    /// Bytes of memory that the store may ask for, all together; `u64::MAX` for no limit. What
    /// ended goes early before it is reached, and then what is new is refused.
    pub bytes_max: u64,
}

impl StoreConfig {
    /// A store of `source` with all keys, that keeps a million ended orders, without a limit.
    #[must_use]
    pub const fn new(source: PartitionId, epoch: Epoch) -> StoreConfig {
        let retention = Retention { count_max: 1_000_000, bytes_max: u64::MAX };
        StoreConfig { source, epoch, kinds: Kinds::FULL, retention, bytes_max: u64::MAX }
    }
}

/// Why a place cannot be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Resync {
    /// The place is beyond the end of its epoch, or its epoch is not known here.
    #[error("the place is beyond its epoch's end")]
    Epoch,
    /// Something that the reader may have seen is gone without it having been told.
    #[error("the place is older than the floor")]
    Floor,
}

impl Resync {
    /// The reason as the wire has it.
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
/// INVARIANT: what waits for the floor (ended orders, tombstones, LEAVE marks) is chained in the
/// order of its places, so that what is removed is always the oldest, and the floor only rises.
#[derive(Clone, Debug)]
pub struct OrderStore {
    pub(crate) config: StoreConfig,
    pub(crate) head: Place,
    pub(crate) epoch: Epoch,
    /// Epochs before the current one with the last valid place of each, oldest first.
    pub(crate) past_epochs: Vec<(Epoch, Place)>,
    pub(crate) records: Records,
    pub(crate) index: Index,
    pub(crate) metas: Chunked<Meta>,
    pub(crate) heap: Heap,
    /// The first free slot; the chain goes on in the slots.
    pub(crate) free_slot: u32,
    pub(crate) free_count: u32,
    /// The chain of what waits for the floor.
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    pub(crate) waiting_count: u32,
    pub(crate) waiting_bytes: u64,
    pub(crate) held: Option<Held>,
    pub(crate) live_count: u32,
    /// Bytes of all rows, and of their attributes alone.
    pub(crate) row_bytes: u64,
    pub(crate) attribute_bytes: u64,
    /// Memory is short: nothing new is asked for.
    pub(crate) is_tight: bool,
    /// What went before its time because memory was short.
    pub(crate) early_count: u64,
    pub(crate) full_count: u64,
    pub(crate) step_count: u64,
    /// The snapshot under way.
    pub(crate) capture: Option<Box<Capture>>,
    pub(crate) is_capture_given_up: bool,
    /// What snapshots that were given up had kept, given back a little at a time.
    pub(crate) abandoned: Kept,
    pub(crate) mark_row: MarkRow,
    pub(crate) scratch: Vec<u8>,
}

impl OrderStore {
    /// An empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> OrderStore {
        OrderStore {
            head: Place::START,
            epoch: config.epoch,
            past_epochs: Vec::new(),
            records: Records::default(),
            index: Index::new(config.kinds),
            metas: Chunked::new(),
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
            early_count: 0,
            full_count: 0,
            step_count: 0,
            capture: None,
            is_capture_given_up: false,
            abandoned: Kept::default(),
            mark_row: MarkRow::new(),
            scratch: Vec::with_capacity(ROW_LEN),
            config,
        }
    }

    /// Whose records these are.
    #[must_use]
    pub fn source(&self) -> PartitionId {
        self.config.source
    }

    /// The source's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Its epochs before with the last valid place of each, oldest first, as far as they are known.
    #[must_use]
    pub fn past_epochs(&self) -> &[(Epoch, Place)] {
        &self.past_epochs
    }

    /// Changes what is kept of what ended, from now on; what is too much goes bit by bit.
    pub fn set_retention(&mut self, retention: Retention) {
        self.config.retention = retention;
    }

    /// Says what of what ended stays for now though it is too much. It is no part of a snapshot.
    pub fn set_held(&mut self, held: Option<Held>) {
        self.held = held;
    }

    /// Whether there is more of what ended than is to be kept, and it may go.
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
            && self.metas.get(self.oldest).place > held.after
    }

    /// Bytes of memory that it may ask for; `u64::MAX` for no limit.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.config.bytes_max
    }

    /// Changes what it may ask for, from the next change on.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.config.bytes_max = bytes_max;
        if bytes_max == u64::MAX {
            (self.is_tight, self.index.is_short) = (false, false);
        }
    }

    /// The latest place that the store has taken in.
    #[must_use]
    pub fn head(&self) -> Place {
        self.head
    }

    /// The place of the latest change that is gone and that this filter could have let through.
    #[must_use]
    pub fn floor_of(&self, filter: &Filter) -> Place {
        self.index.floor_of(filter)
    }

    /// The place of the latest change that is gone: the FLOOR.
    #[must_use]
    pub fn floor(&self) -> Place {
        self.index.floor()
    }

    /// Orders that can still change.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.live_count
    }

    /// Ended orders, tombstones and LEAVE marks that are kept.
    #[must_use]
    pub fn ended_count(&self) -> u32 {
        self.waiting_count
    }

    /// Elementary steps so far: entries put, killed, moved or removed, chunks given back, rows
    /// written. What one call adds bounds how long it takes, whatever is in the store.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        self.step_count + self.index.step_count
    }

    /// The latest state of a record; `None` when it never was, is gone, or is below the floor.
    #[must_use]
    pub fn get(&self, rec: Rec) -> Option<OrderRow> {
        self.current(rec).map(Row::decode)
    }

    /// The attributes of a record's latest state, as its core sent them; `None` as for
    /// [`OrderStore::get`].
    #[must_use]
    pub fn attributes(&self, rec: Rec) -> Option<&[u8]> {
        self.current(rec).map(Row::attributes)
    }

    fn current(&self, rec: Rec) -> Option<Row<'_>> {
        let slot = self.records.get(rec)?;
        (self.metas.get(slot).standing != Standing::Tombstone).then(|| self.row(slot))
    }

    #[inline]
    pub(crate) fn row(&self, slot: u32) -> Row<'_> {
        let meta = self.metas.get(slot);
        Row(self.heap.bytes(meta.block, usize::from(meta.row_len)))
    }

    /// The digest of what a reader of `filter` should have of live orders, to compare with its
    /// mirror's: the sum, modulo 2^64, of XXH3-64 of each live order's row, its fixed fields with
    /// `merged_count` zero, the length of its attributes and these. The same on every replica,
    /// whatever the way to it.
    ///
    /// `None` when no ring holds just these orders: the digest would need a scan.
    #[must_use]
    pub fn digest(&self, filter: &Filter) -> Option<u64> {
        self.index.digest_of(filter)
    }

    /// True when pages of this filter find their rows in a ring of their own; else they scan, as
    /// far as a page's budget goes, and say so.
    #[must_use]
    pub fn is_indexed(&self, filter: &Filter) -> bool {
        self.index.is_indexed(filter)
    }

    /// The source's writer changed: what it said after `valid_to` in epochs before `epoch` never
    /// was.
    ///
    /// # Errors
    /// [`IngestError::EpochRepeated`], [`IngestError::EpochBehindHead`]: the store then must be
    /// built anew.
    pub fn begin_epoch(&mut self, epoch: Epoch, valid_to: Place) -> Result<(), IngestError> {
        if epoch <= self.epoch {
            return Err(IngestError::EpochRepeated(epoch));
        }
        if valid_to < self.head {
            return Err(IngestError::EpochBehindHead { epoch, valid_to });
        }
        self.past_epochs.push((self.epoch, valid_to));
        self.epoch = epoch;
        Ok(())
    }

    /// Makes known an epoch that ended before the store began.
    ///
    /// # Panics
    /// When it is not after those known and before the current one.
    pub fn know_past_epoch(&mut self, epoch: Epoch, valid_to: Place) {
        let last = self.past_epochs.last().map(|(epoch, _)| *epoch);
        assert!(last < Some(epoch) && epoch < self.epoch, "epoch {epoch} is out of order");
        self.past_epochs.push((epoch, valid_to));
    }

    /// Checks that a reader with this filter can go on from `place` of `epoch` and miss nothing.
    ///
    /// The start is always legal: who has seen nothing misses nothing. A place beyond the head is
    /// legal too: this store is behind the one that the reader had before.
    ///
    /// # Errors
    /// [`Resync`], with the reason.
    pub fn check(&self, epoch: Epoch, place: Place, filter: &Filter) -> Result<(), Resync> {
        if place == Place::START {
            return Ok(());
        }
        if epoch != self.epoch {
            let mut after = self.past_epochs.iter().skip_while(|(past, _)| *past < epoch);
            let is_known = after.clone().next().is_some_and(|(past, _)| *past == epoch);
            if !is_known || after.any(|(_, valid_to)| place > *valid_to) {
                return Err(Resync::Epoch);
            }
        }
        if place < self.index.floor_of(filter) {
            return Err(Resync::Floor);
        }
        Ok(())
    }
}
