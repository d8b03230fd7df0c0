//! The order store: the latest state of each order of one source, and what is new since a place.
//!
//! Fed by events in (`seq`, `rec`) order, it answers one question: what changed after this place,
//! of what this filter lets through? It knows no clock, no thread, no I/O and no reader. What it
//! does for one event is bounded: nothing ever stops to compact.
//!
//! INVARIANT: what waits for the floor (ended orders, tombstones, LEAVE marks) is chained in the
//! order of its places, so that what is removed is always the oldest, and the floor only rises.

use weir_types::{Epoch, OrderId, PartitionId, Reason, Rec};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;

use crate::chunk::Chunked;
use crate::filter::{Filter, Keys};
use crate::index::{Index, Kinds};
use crate::records::Records;
use crate::ring::Place;
use crate::row::{Body, Meta, ROW_LEN, Standing, bodiless_row, row_of};

/// How long what ended is kept. Must be far more than what ends while a reader waits, pages through
/// its first copy, or is away: a reader that is overtaken starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// At most this many ended orders, tombstones and LEAVE marks.
    pub count_max: u32,
    /// At most this many bytes of them, by [`SLOT_SIZE`] each.
    pub bytes_max: u64,
}

/// About what one order costs, in bytes: its row, what is known of it and its places.
pub const SLOT_SIZE: u64 = ROW_LEN as u64 + 400;

impl Retention {
    fn effective_count_max(self) -> u32 {
        let by_bytes = u32::try_from(self.bytes_max / SLOT_SIZE).unwrap_or(u32::MAX);
        self.count_max.min(by_bytes)
    }
}

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
}

impl StoreConfig {
    /// A store of `source` with all keys, that keeps a million ended orders.
    #[must_use]
    pub const fn new(source: PartitionId, epoch: Epoch) -> StoreConfig {
        let retention = Retention { count_max: 1_000_000, bytes_max: u64::MAX };
        StoreConfig { source, epoch, kinds: Kinds::FULL, retention }
    }
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ingested {
    /// An order appeared.
    Inserted,
    /// An order changed.
    Updated,
    /// The event is not about a record: an order was refused.
    NotARecord,
    /// The store is past this place: the event came before.
    Repeated,
}

/// An event that cannot be this source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// It is another source's.
    #[error("an event of partition {got} in the store of partition {want}")]
    WrongSource {
        /// Whose it is.
        got: PartitionId,
        /// Whose the store is.
        want: PartitionId,
    },
    /// Its record number is far beyond the highest so far.
    #[error("record {0} is too far ahead of the highest one")]
    RecJump(Rec),
    /// The store holds changes that its source now disowns: it has to be built anew.
    #[error("the source's epoch {epoch} begins at {valid_to:?}, before the store's head")]
    EpochBehindHead {
        /// The new epoch.
        epoch: Epoch,
        /// The last place of the old one.
        valid_to: Place,
    },
    /// Epochs only grow.
    #[error("epoch {0} is not after the store's")]
    EpochRepeated(Epoch),
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

const NONE: u32 = u32::MAX;
/// What is removed at most per event: more than the order and the mark that one event can add.
const RETIRE_STEPS: u32 = 4;

/// The latest state of each order of one source.
#[derive(Clone, Debug)]
pub struct OrderStore {
    config: StoreConfig,
    head: Place,
    epoch: Epoch,
    /// Epochs before the current one with the last valid place of each, oldest first.
    past_epochs: Vec<(Epoch, Place)>,
    records: Records,
    pub(crate) index: Index,
    pub(crate) metas: Chunked<Meta>,
    pub(crate) bodies: Chunked<Body>,
    free_slots: Vec<u32>,
    /// The chain of what waits for the floor.
    oldest: u32,
    newest: u32,
    waiting_count: u32,
    live_count: u32,
    scratch: Vec<u8>,
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
            bodies: Chunked::new(),
            free_slots: Vec::new(),
            oldest: NONE,
            newest: NONE,
            waiting_count: 0,
            live_count: 0,
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

    /// The latest place that the store has taken in.
    #[must_use]
    pub fn head(&self) -> Place {
        self.head
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

    /// The latest state of a record; `None` when it never was, is gone, or is below the floor.
    #[must_use]
    pub fn get(&self, rec: Rec) -> Option<OrderRow> {
        let slot = self.records.get(rec)?;
        (self.metas.get(slot).standing != Standing::Tombstone)
            .then(|| self.bodies.get(slot).decode())
    }

    /// Takes in one event.
    ///
    /// # Errors
    /// Any [`IngestError`] about the event; the store is as before.
    pub fn ingest(&mut self, event: &OrderEvent) -> Result<Ingested, IngestError> {
        if event.partition_id != self.config.source {
            let (got, want) = (event.partition_id, self.config.source);
            return Err(IngestError::WrongSource { got, want });
        }
        if event.rec.is_none() {
            return Ok(Ingested::NotARecord);
        }
        let place = Place::new(event.seq, event.rec);
        if place <= self.head {
            return Ok(Ingested::Repeated);
        }
        let keys = Keys {
            firm_id: event.firm_id,
            account_id: event.account_id,
            instrument_id: event.instrument_id,
        };
        let standing = if event.ord_status.is_live() { Standing::Live } else { Standing::Ended };
        let ingested = match self.records.get(event.rec) {
            Some(slot) => {
                self.update(slot, place, keys, standing);
                self.set_body(slot, &row_of(event));
                Ingested::Updated
            }
            None => {
                if !self.records.can_hold(event.rec) {
                    return Err(IngestError::RecJump(event.rec));
                }
                self.insert(place, keys, standing, &row_of(event));
                Ingested::Inserted
            }
        };
        self.head = place;
        self.retire();
        Ok(ingested)
    }

    /// The record is gone: readers get a tombstone until the floor passes it. True when the record
    /// was there and `place` is later than everything so far.
    pub fn delete(&mut self, place: Place) -> bool {
        let Some(slot) = self.records.get(place.rec) else { return false };
        if place <= self.head {
            return false;
        }
        let (keys, order_id) = (self.metas.get(slot).keys, self.bodies.get(slot).order_id());
        self.update(slot, place, keys, Standing::Tombstone);
        self.set_body(slot, &bodiless_row(place, order_id, RowFlags::TOMBSTONE));
        self.head = place;
        self.retire();
        true
    }

    fn insert(&mut self, place: Place, keys: Keys, standing: Standing, row: &OrderRow) {
        let slot = self.take_slot(Meta::new(place, keys, standing), row);
        self.records.insert(place.rec, slot);
        self.index.insert(slot, place, &keys);
        self.count_in(slot);
    }

    fn update(&mut self, slot: u32, place: Place, keys: Keys, standing: Standing) {
        self.count_out(slot);
        let meta = self.metas.get_mut(slot);
        meta.advance(place);
        meta.standing = standing;
        let old = core::mem::replace(&mut meta.keys, keys);
        if old == keys {
            self.index.touch(slot, place);
        } else {
            self.index.rekey(slot, place, &keys);
            let order_id = self.bodies.get(slot).order_id();
            self.leave_mark(place, order_id, (old, keys));
        }
        self.count_in(slot);
    }

    /// Leaves a mark wherever readers of a record's old keys look, for those whose filter does not
    /// match the new ones.
    fn leave_mark(&mut self, place: Place, order_id: OrderId, (old, new): (Keys, Keys)) {
        let row = bodiless_row(place, order_id, RowFlags::LEAVE);
        let mut meta = Meta::new(place, old, Standing::Leave);
        meta.next_keys = new;
        let slot = self.take_slot(meta, &row);
        self.index.insert(slot, place, &old);
        self.count_in(slot);
    }

    fn take_slot(&mut self, meta: Meta, row: &OrderRow) -> u32 {
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                *self.metas.get_mut(slot) = meta;
                slot
            }
            None => {
                self.bodies.push(Body::EMPTY);
                self.metas.push(meta)
            }
        };
        self.set_body(slot, row);
        slot
    }

    fn set_body(&mut self, slot: u32, row: &OrderRow) {
        *self.bodies.get_mut(slot) = Body::encode(row, &mut self.scratch);
    }

    /// Counts a slot by its standing, and chains it when it now waits for the floor.
    fn count_in(&mut self, slot: u32) {
        let newest = self.newest;
        let meta = self.metas.get_mut(slot);
        if !meta.is_waiting() {
            self.live_count += 1;
            return;
        }
        (meta.older, meta.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            newest => self.metas.get_mut(newest).newer = slot,
        }
        self.newest = slot;
        self.waiting_count += 1;
    }

    fn count_out(&mut self, slot: u32) {
        let meta = *self.metas.get(slot);
        if !meta.is_waiting() {
            self.live_count -= 1;
            return;
        }
        match meta.older {
            NONE => self.oldest = meta.newer,
            older => self.metas.get_mut(older).newer = meta.newer,
        }
        match meta.newer {
            NONE => self.newest = meta.older,
            newer => self.metas.get_mut(newer).older = meta.older,
        }
        self.waiting_count -= 1;
    }

    /// Lets the oldest of what ended go while there is more than is to be kept.
    fn retire(&mut self) {
        let count_max = self.config.retention.effective_count_max();
        for _ in 0..RETIRE_STEPS {
            if self.waiting_count <= count_max {
                return;
            }
            let slot = self.oldest;
            self.count_out(slot);
            let meta = *self.metas.get(slot);
            if meta.standing != Standing::Leave {
                self.records.remove(meta.place.rec);
            }
            self.index.remove(slot, meta.place);
            *self.metas.get_mut(slot) = Meta::FREE;
            self.free_slots.push(slot);
        }
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
