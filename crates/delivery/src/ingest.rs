//! Taking in changes: events of our own engine, and rows of outside cores.
//!
//! A row keeps its wire format: its enumerations are checked, its place, keys and flags are read,
//! and it is copied once. An error leaves the store unchanged, except that
//! [`IngestError::StoreFull`] may have removed ended orders.

use weir_types::{ChangeId, Epoch, OrderId, PartitionId, Rec, Seq};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::{DecodeError, Message};

use weir_wire::rows::{ATTRIBUTES_LEN_MAX, check_attributes};

use crate::filter::Keys;
use crate::heap::Block;
use crate::index::Rehash;
use crate::plant::{self, Plant};
use crate::row::{ROW_LEN, Row, SlotMeta, SlotState, row_len, row_of, write_row};
use crate::store::{NONE, OrderStore, SLOT_SIZE};

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum IngestOutcome {
    /// An order appeared.
    Inserted,
    /// An order changed, or was deleted.
    Updated,
    /// The event is not about a record: an order was refused.
    NotARecord,
    /// The store is past this place: the event was taken in before.
    Repeated,
    /// The deletion of a record that the store does not have.
    Unknown,
}

/// An event that cannot be this source's, or for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// The event is of another source.
    #[error("an event of partition {got} in the store of partition {want}")]
    WrongSource {
        /// The event's source.
        got: PartitionId,
        /// The store's source.
        want: PartitionId,
    },
    /// Its record number is far beyond the highest so far.
    #[error("record {0} is too far ahead of the highest one")]
    RecJump(Rec),
    /// A row without a record number.
    #[error("the row has no record number (field rec)")]
    NoRecord,
    /// The fixed fields are too short, one has a value without meaning, or the attributes are too
    /// long.
    #[error(transparent)]
    Row(#[from] DecodeError),
    /// A core sends changes; only the store decides that a record has left a filter.
    #[error("field flags of a row that comes in may say TOMBSTONE, not LEAVE")]
    LeaveFlag,
    /// The store is at its memory limit, and no ended orders are left to remove.
    #[error("the store is full: {bytes} bytes of {bytes_max}")]
    StoreFull {
        /// Bytes that it has requested.
        bytes: u64,
        /// Bytes that it may request.
        bytes_max: u64,
    },
    /// The store holds changes that its source has voided: it must be rebuilt.
    #[error("the source's epoch {epoch} begins at {valid_to:?}, before the store's head")]
    EpochBehindHead {
        /// The new epoch.
        epoch: Epoch,
        /// The last place of the old one.
        valid_to: ChangeId,
    },
    /// Epochs only grow.
    #[error("epoch {0} is not after the store's")]
    EpochRepeated(Epoch),
}

/// Slots removed per event, at most: more than one event can add, which are the order, the mark of
/// its former keys, and its end where that keeps its place.
const RETIRE_STEPS: u32 = 4;

/// A record's new state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) change_id: ChangeId,
    pub(crate) keys: Keys,
    pub(crate) standing: SlotState,
    pub(crate) block: &'a [u8],
    pub(crate) attributes: &'a [u8],
}

impl Change<'_> {
    pub(crate) fn row_len(&self) -> usize {
        row_len(self.attributes.len())
    }

    fn order_id(&self) -> OrderId {
        Row(self.block).order_id()
    }
}

impl OrderStore {
    /// Takes in one event.
    ///
    /// # Errors
    /// Any [`IngestError`] about the event; the store is unchanged, except for a
    /// [`StoreFull`](IngestError::StoreFull).
    pub fn ingest(&mut self, event: &OrderEvent) -> Result<IngestOutcome, IngestError> {
        self.check_source(event.partition_id)?;
        if event.rec.is_none() {
            return Ok(IngestOutcome::NotARecord);
        }
        let keys = Keys {
            firm_id: event.firm_id,
            account_id: event.account_id,
            instrument_id: event.instrument_id,
        };
        let standing = if event.ord_status.is_live() { SlotState::Live } else { SlotState::Ended };
        let change_id = ChangeId::new(event.seq, event.rec);
        if change_id <= self.head {
            return Ok(IngestOutcome::Repeated);
        }
        let mut block = core::mem::take(&mut self.scratch);
        block.clear();
        row_of(event).encode_block(&mut block);
        let change = Change { change_id, keys, standing, block: &block, attributes: &[] };
        let ingested = self.apply(&change);
        self.scratch = block;
        ingested
    }

    /// Takes in one row of an outside core: `block` is an encoded [`OrderRow`], longer if it is of
    /// a later version. With the flag TOMBSTONE the record is deleted. Its `merged_count` is
    /// ignored.
    ///
    /// # Errors
    /// Any [`IngestError`] about the row, which names its field; the store is unchanged, except for
    /// a [`StoreFull`](IngestError::StoreFull).
    pub fn ingest_row(
        &mut self,
        block: &[u8],
        attributes: &[u8],
    ) -> Result<IngestOutcome, IngestError> {
        let row = OrderRow::decode_block(block)?;
        self.check_source(row.partition_id)?;
        if row.rec.is_none() {
            return Err(IngestError::NoRecord);
        }
        check_attributes(attributes)?;
        if row.flags.contains(RowFlags::LEAVE) {
            return Err(IngestError::LeaveFlag);
        }
        let change_id = ChangeId::new(row.seq, row.rec);
        if change_id <= self.head {
            return Ok(IngestOutcome::Repeated);
        }
        if row.flags.contains(RowFlags::TOMBSTONE) {
            return self.bury(change_id);
        }
        let keys = Keys {
            firm_id: row.firm_id,
            account_id: row.account_id,
            instrument_id: row.instrument_id,
        };
        let standing = if row.ord_status.is_live() { SlotState::Live } else { SlotState::Ended };
        self.apply(&Change { change_id, keys, standing, block, attributes })
    }

    /// Begins an empty store in the middle of its source's history, after `floor` and all changes
    /// with its `seq`, with the states that live orders have there, in the order of their records;
    /// `last_rec` is the highest record number given so far. A place before `floor` is refused from
    /// now on: changes after it are not known. So a state's place is `floor`'s `seq` with its
    /// record: a first copy can be paged, and a reader that was at the head may get a state again.
    ///
    /// # Panics
    /// When the store is not empty, or a state is of another source.
    pub fn begin_in_the_middle(&mut self, floor: Seq, states: &[OrderEvent], last_rec: Rec) {
        assert!(self.head == ChangeId::START, "only an empty store can begin anywhere");
        let floor = ChangeId { seq: floor, rec: Rec::NONE };
        self.index.set_floor(floor);
        for state in states {
            let state = OrderEvent { seq: floor.seq, ..*state };
            self.records.reach(state.rec);
            let ingested = self.ingest(&state).expect("live orders of our own are no surprise");
            assert_eq!(ingested, IngestOutcome::Inserted, "each live order has a record");
            let slot = self.records.get(state.rec).expect("it was inserted");
            // A reader knows the order from before, however near to the head it was.
            let meta = self.metas.get_mut(slot);
            (meta.first, meta.is_older) = (floor, false);
        }
        self.records.reach(last_rec);
        self.records.gave_up_to(last_rec);
        self.head = ChangeId { seq: floor.seq, rec: last_rec };
    }

    fn check_source(&self, got: PartitionId) -> Result<(), IngestError> {
        let want = self.config.source;
        if got == want { Ok(()) } else { Err(IngestError::WrongSource { got, want }) }
    }

    /// Deletes a record: readers get a tombstone until the floor passes it. Returns true if the
    /// record was there and `change_id` is later than every place so far.
    pub fn delete(&mut self, change_id: ChangeId) -> bool {
        let is_new = change_id > self.head && self.records.get(change_id.rec).is_some();
        is_new && self.bury(change_id) == Ok(IngestOutcome::Updated)
    }

    /// Takes the deletion of a record; of one that is gone already only the first counts.
    fn bury(&mut self, change_id: ChangeId) -> Result<IngestOutcome, IngestError> {
        let known = self.records.get(change_id.rec);
        let is_there = |slot: &u32| self.metas.get(*slot).standing != SlotState::Tombstone;
        let Some(slot) = known.filter(is_there) else {
            self.head = change_id;
            return Ok(IngestOutcome::Unknown);
        };
        let (keys, order_id) = (self.metas.get(slot).keys, self.row(slot).order_id());
        let block = self.mark_row.of(change_id, order_id, RowFlags::TOMBSTONE);
        let standing = SlotState::Tombstone;
        self.apply(&Change { change_id, keys, standing, block: &block, attributes: &[] })
    }

    fn apply(&mut self, change: &Change<'_>) -> Result<IngestOutcome, IngestError> {
        let rec = change.change_id.rec;
        if self.records.get(rec).is_none() && !self.records.can_hold(rec) {
            return Err(IngestError::RecJump(rec));
        }
        self.make_room(change)?;
        let ingested = match self.records.get(rec) {
            Some(slot) => {
                if self.keeps_end(slot, change) {
                    self.succeed(slot, change);
                } else {
                    self.update(slot, change);
                }
                IngestOutcome::Updated
            }
            None => {
                self.insert(change);
                IngestOutcome::Inserted
            }
        };
        self.head = change.change_id;
        self.retire();
        Ok(ingested)
    }

    fn insert(&mut self, change: &Change<'_>) {
        let rec = change.change_id.rec;
        let mut meta = SlotMeta::new(change.change_id, change.keys, change.standing);
        // This store may have discarded the order before: a reader from another store may have it
        // live, wherever it is.
        meta.is_older = self.records.may_have_had(rec) && self.floor() > ChangeId::START;
        let slot = self.take_slot(meta, change.block, change.attributes);
        self.records.insert(rec, slot);
        let hash = self.metas.get(slot).hash;
        self.index.insert(slot, change.change_id, &change.keys, hash);
        self.count_in(slot);
    }

    fn update(&mut self, slot: u32, change: &Change<'_>) {
        self.keep_for_capture(slot);
        self.count_out(slot);
        let meta = self.metas.get_mut(slot);
        meta.advance(change.change_id, change.standing);
        let (old, out) = (core::mem::replace(&mut meta.keys, change.keys), meta.hash);
        self.set_row(slot, change.block, change.attributes);
        let rehash = Rehash { out, into: self.metas.get(slot).hash };
        if old == change.keys {
            self.index.touch(slot, change.change_id, rehash);
            self.count_in(slot);
        } else {
            self.index.rekey(slot, change.change_id, &change.keys, rehash);
            self.count_in(slot);
            let order_id = self.row(slot).order_id();
            self.leave_mark(change.change_id, order_id, old, change.keys);
        }
    }

    /// True when a record's entry stays at its place and the change gets an entry of its own.
    ///
    /// Stores of one source discard ended orders at different times, and a reader may move between
    /// them from any place. So an end may leave its place only for one at which each store tells
    /// its readers of the change:
    ///
    /// ```text
    /// the record | changes to           | a store that had discarded it | the end keeps its place
    /// -----------+----------------------+-------------------------------+------------------------
    /// live       | anything             | none: live orders stay        | -
    /// ended      | a row with its keys  | takes the row                 | no
    /// ended      | a row of other keys  | has no mark of the old keys   | yes
    /// ended      | a tombstone          | has no tombstone              | yes
    /// gone       | a row with its keys  | takes the row                 | no
    /// gone       | a row of other keys  | has no mark of the old keys   | yes
    /// gone       | a tombstone          | -                             | it is the end already
    /// both       | another order's row  | takes the row as a new one    | yes, unless disowned
    /// ```
    pub(crate) fn keeps_end(&self, slot: u32, change: &Change<'_>) -> bool {
        let meta = self.metas.get(slot);
        if !meta.is_waiting() {
            return false;
        }
        // A store that had discarded the order did not know its number. Readers of another one may
        // have it live, and find its end here.
        let is_others = || {
            !meta.is_disowned()
                && self.row(slot).order_id() != change.order_id()
                && !plant::is(Plant::EndOfOtherOverwritten)
        };
        change.standing == SlotState::Tombstone || meta.keys != change.keys || is_others()
    }

    /// Enters a change beside the end of its record, which is not the record's latest entry any
    /// longer.
    fn succeed(&mut self, end: u32, change: &Change<'_>) {
        let (end, order_id) = (*self.metas.get(end), self.row(end).order_id());
        let mut meta = SlotMeta::new(change.change_id, change.keys, change.standing);
        let is_same = order_id == change.order_id();
        if !end.begins_with(change.standing) {
            // The end stands for the changes before it. Another order comes to a store that had
            // discarded the end as one that it may have had.
            meta.first = if is_same { end.first } else { change.change_id };
            meta.is_older = end.is_older || !is_same;
        }
        let slot = self.take_slot(meta, change.block, change.attributes);
        self.records.replace(change.change_id.rec, slot);
        let hash = self.metas.get(slot).hash;
        self.index.insert(slot, change.change_id, &change.keys, hash);
        self.count_in(slot);
        if is_same && end.keys != change.keys && end.standing == SlotState::Ended {
            self.leave_mark(change.change_id, order_id, end.keys, change.keys);
        }
    }

    /// Leaves a mark in the rings of a record's old keys, for readers whose filter does not match
    /// the new ones.
    fn leave_mark(&mut self, change_id: ChangeId, order_id: OrderId, old: Keys, new: Keys) {
        let mut meta = SlotMeta::new(change_id, old, SlotState::Leave);
        meta.next_keys = new;
        let block = self.mark_row.of(change_id, order_id, RowFlags::LEAVE);
        let slot = self.take_slot(meta, &block, &[]);
        self.index.insert(slot, change_id, &old, 0);
        self.count_in(slot);
    }

    fn take_slot(&mut self, meta: SlotMeta, block: &[u8], attributes: &[u8]) -> u32 {
        let slot = match self.free_slot {
            NONE => self.metas.push(meta),
            slot => {
                self.keep_for_capture(slot);
                self.free_slot = self.metas.get(slot).older;
                self.free_count -= 1;
                *self.metas.get_mut(slot) = meta;
                slot
            }
        };
        self.set_row(slot, block, attributes);
        slot
    }

    /// Writes a slot's row, in place if its block is the right size.
    fn set_row(&mut self, slot: u32, block: &[u8], attributes: &[u8]) {
        let len = row_len(attributes.len());
        let (old, old_len) = {
            let meta = self.metas.get(slot);
            (meta.block, usize::from(meta.row_len))
        };
        let at = self.block_for(old, len);
        let bytes = self.heap.bytes_mut(at, len);
        write_row(block, attributes, bytes);
        let meta = self.metas.get_mut(slot);
        meta.hash = if meta.standing == SlotState::Live { Row(bytes).hash() } else { 0 };
        (meta.block, meta.row_len) = (at, u16::try_from(len).expect("rows are short"));
        self.count_bytes(old_len, len);
        self.step_count += 1;
    }

    fn block_for(&mut self, old: Block, len: usize) -> Block {
        if old == Block::NONE {
            return self.take_block(len);
        }
        let stays = self.heap.is_fit(old, len) || self.is_tight && self.heap.is_enough(old, len);
        if stays {
            return old;
        }
        let block = self.take_block(len);
        self.heap.give(old);
        block
    }

    fn take_block(&mut self, len: usize) -> Block {
        match self.is_tight && !self.is_room_made {
            true => self.heap.take_held(len).expect("room was made"),
            false => self.heap.take(len),
        }
    }

    pub(crate) fn count_bytes(&mut self, old_len: usize, len: usize) {
        let attributes = |len: usize| len.saturating_sub(row_len(0)) as u64;
        self.row_bytes = self.row_bytes + len as u64 - old_len as u64;
        self.attribute_bytes = self.attribute_bytes + attributes(len) - attributes(old_len);
    }

    /// Counts a slot by its standing, and appends it to the chain if it now waits for the floor.
    pub(crate) fn count_in(&mut self, slot: u32) {
        let newest = self.newest;
        let meta = self.metas.get_mut(slot);
        if !meta.is_waiting() {
            self.live_count += 1;
            return;
        }
        (meta.older, meta.newer) = (newest, NONE);
        self.waiting_bytes += u64::from(meta.row_len) + SLOT_SIZE;
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
        self.waiting_bytes -= u64::from(meta.row_len) + SLOT_SIZE;
    }

    /// Removes the oldest ended slots while there are more than the limits allow and they are not
    /// held.
    fn retire(&mut self) {
        self.step_count += u64::from(self.abandoned.free_one());
        for _ in 0..RETIRE_STEPS {
            if !self.has_to_retire() || !self.retire_oldest() {
                return;
            }
        }
    }

    /// Removes the oldest ended slot; false if there is none.
    pub(crate) fn retire_oldest(&mut self) -> bool {
        let slot = self.oldest;
        if slot == NONE {
            return false;
        }
        self.keep_for_capture(slot);
        self.count_out(slot);
        let meta = *self.metas.get(slot);
        // Neither a mark nor an end with a later entry is the record's latest one.
        if self.records.get(meta.change_id.rec) == Some(slot) {
            self.records.remove(meta.change_id.rec);
        }
        self.index.remove(slot, meta.change_id);
        self.heap.give(meta.block);
        self.count_bytes(usize::from(meta.row_len), 0);
        *self.metas.get_mut(slot) = SlotMeta { older: self.free_slot, ..SlotMeta::FREE };
        self.free_slot = slot;
        self.free_count += 1;
        self.step_count += 1;
        true
    }

    /// Continues sweeping and removing while nothing comes in: visits `rings_max` rings. Returns
    /// true if there was something to do.
    pub fn sweep(&mut self, rings_max: u32) -> bool {
        let before = self.step_count();
        self.retire();
        self.index.sweep_idle(rings_max, self.is_tight);
        self.step_count() > before
    }
}

const _: () = assert!(row_len(ATTRIBUTES_LEN_MAX) <= crate::heap::BLOCK_LEN_MAX);
const _: () = assert!(ROW_LEN <= row_len(0));
