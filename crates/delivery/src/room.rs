//! Room for a batch of an outside core: all of its rows are taken, or none.
//!
//! ```text
//! bytes requested, with those that the batch may need | the batch is taken
//! ----------------------------------------------------+---------------------------------------
//! at most the limit                                   | always
//! more                                                | when its rows and slots need no memory,
//!                                                     | or are made to need none by removing
//!                                                     | ended orders early, oldest first
//! otherwise                                           | never: StoreFull, at the first row for
//!                                                     | which there is no room
//! ```
//! The bytes are an estimate that leaves out the chunks in which rings grow. The limit includes the
//! growth of one event (`memory.rs`), which covers them but for cores that place their orders so
//! that many rings need a chunk in one batch.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{OrderId, Rec};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::rows::Rows;

use crate::filter::Keys;
use crate::heap::{BLOCK_LEN_MAX, CLASS_COUNT, Heap, class_of};
use crate::ingest::IngestError;
use crate::memory::{EARLY_STEPS, EVENT_GROWTH_MAX, FREE_STEPS};
use crate::plant::{self, Plant};
use crate::records::CHUNK_SIZE;
use crate::row::{SlotState, row_len};
use crate::store::{OrderStore, SLOT_SIZE};

/// The most times that ended orders are removed for one batch, as many as it has rows each time.
const ROUNDS_MAX: u32 = 8;
/// The approximate cost of a slot's copy for a snapshot in progress.
const COPY_SIZE: u64 = BLOCK_LEN_MAX as u64 + 256;

/// The latest state of a record, in the store or in the rows before.
#[derive(Clone, Copy)]
struct State {
    keys: Keys,
    class: usize,
    standing: SlotState,
    /// The order to which the number belongs; `None` if it is free.
    owner: Option<OrderId>,
}

/// The needs of a batch's rows.
#[derive(Default)]
struct Need {
    row_count: u32,
    /// Slots for new orders, marks, and changes beside an end.
    slots: u32,
    /// Blocks by class, of rows that do not fit in the block that they have.
    blocks: [u32; CLASS_COUNT],
    /// True when a record's chunk or a key's ring is new.
    is_new: bool,
    /// The most bytes that the rows may request.
    bytes: u64,
}

impl Need {
    fn is_of_places_alone(&self) -> bool {
        self.slots == 0 && self.blocks == [0; CLASS_COUNT]
    }
}

impl OrderStore {
    /// Makes room for all rows of a batch, which were checked, until [`OrderStore::end_batch`].
    ///
    /// # Errors
    /// [`IngestError::StoreFull`] with the number of the first row for which there is none. Then
    /// nothing has changed, except that ended orders may have been removed.
    pub(crate) fn make_room_for_batch(
        &mut self,
        rows: &Rows<'_>,
    ) -> Result<(), (u32, IngestError)> {
        if self.config.bytes_max == u64::MAX {
            return Ok(());
        }
        let count = if plant::is(Plant::RoomForOneRow) { 1 } else { u32::MAX };
        let mut need = self.need_of(rows, count);
        self.is_tight = !self.is_below_limit(&need);
        self.index.is_short = self.is_tight;
        if self.is_tight {
            self.give_up_copies(need.row_count);
            self.index.sweep_idle(FREE_STEPS, true);
        }
        let mut rounds = 0;
        while !self.has_room_for(&need) {
            if rounds == ROUNDS_MAX || !self.retire_early(need.row_count.max(EARLY_STEPS)) {
                self.full_count += 1;
                let bytes_max = self.config.bytes_max;
                let full = IngestError::StoreFull { bytes: self.memory().total, bytes_max };
                return Err((self.first_without_room(rows, need.row_count), full));
            }
            rounds += 1;
            // Records of the batch may have been among them.
            need = self.need_of(rows, count);
        }
        self.is_room_made = true;
        Ok(())
    }

    /// Ends the batch for which room was made.
    pub(crate) fn end_batch(&mut self) {
        self.is_room_made = false;
    }

    fn has_room_for(&self, need: &Need) -> bool {
        self.is_below_limit(need)
            || !need.is_new && need.slots <= self.free_count && self.heap.holds_all(&need.blocks)
    }

    fn is_below_limit(&self, need: &Need) -> bool {
        let orders = u64::from(self.live_count) + u64::from(self.waiting_count);
        let reserve = match need.is_of_places_alone() {
            true => 0,
            false => self.index.growth_bytes(orders + u64::from(need.slots)),
        };
        self.memory().total + reserve + need.bytes + EVENT_GROWTH_MAX <= self.config.bytes_max
    }

    /// Cancels a snapshot in progress if there is no memory for this many copies more.
    pub(crate) fn give_up_copies(&mut self, count: u32) {
        let copies = u64::from(count) * COPY_SIZE;
        let bytes = self.memory().total.saturating_add(copies + EVENT_GROWTH_MAX / 2);
        if self.capture.is_some() && bytes > self.config.bytes_max {
            self.cancel_snapshot();
            self.is_capture_given_up = true;
        }
    }

    /// Removes the oldest ended orders; false if there is none.
    fn retire_early(&mut self, count_max: u32) -> bool {
        let mut count = 0;
        while count < count_max && self.retire_oldest() {
            count += 1;
        }
        self.early_count += u64::from(count);
        count > 0
    }

    /// Returns the number of the first row for which there is no room, where there is none for all
    /// `row_count` of them.
    fn first_without_room(&self, rows: &Rows<'_>, row_count: u32) -> u32 {
        let (mut fits, mut fails) = (0, row_count);
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            match self.has_room_for(&self.need_of(rows, middle)) {
                true => fits = middle,
                false => fails = middle,
            }
        }
        fails
    }

    /// Returns the needs of the first `count_max` rows.
    fn need_of(&self, rows: &Rows<'_>, count_max: u32) -> Need {
        let mut need = Need::default();
        let (mut states, mut chunks) = (BTreeMap::new(), BTreeSet::new());
        let mut rows = rows.clone();
        while need.row_count < count_max
            && let Some((block, attributes)) = rows.next_raw()
        {
            need.row_count += 1;
            let row = OrderRow::decode_block(block).expect("rows were checked");
            let state = states.get(&row.rec).copied().or_else(|| self.state_of(row.rec));
            let Some(next) = need.add(&row, attributes.len(), state) else { continue };
            states.insert(row.rec, next);
            if state.is_none() {
                chunks.extend(self.records.new_chunk(row.rec));
            }
            need.is_new |= !self.index.has_rings(&next.keys);
        }
        need.is_new |= !chunks.is_empty();
        let slots = u64::from(need.slots) * SLOT_SIZE;
        need.bytes = need.bytes.saturating_add(slots + chunks.len() as u64 * CHUNK_SIZE);
        need
    }

    fn state_of(&self, rec: Rec) -> Option<State> {
        let meta = self.metas.get(self.records.get(rec)?);
        let class = self.heap.class_at(meta.block);
        Some(State {
            keys: meta.keys,
            class,
            standing: meta.standing,
            owner: self.order_id_of(rec),
        })
    }
}

impl Need {
    /// Adds a row to the needs, by the rules of [`OrderStore::keeps_end`]; returns the state of its
    /// record after it, or `None` if the row changes nothing.
    fn add(
        &mut self,
        row: &OrderRow,
        attributes_len: usize,
        state: Option<State>,
    ) -> Option<State> {
        let is_tombstone = row.flags.contains(RowFlags::TOMBSTONE);
        if is_tombstone && state.is_none_or(|state| state.standing == SlotState::Tombstone) {
            return None;
        }
        let keys = match state {
            Some(state) if is_tombstone => state.keys,
            _ => Keys {
                firm_id: row.firm_id,
                account_id: row.account_id,
                instrument_id: row.instrument_id,
            },
        };
        let standing = match is_tombstone {
            true => SlotState::Tombstone,
            false if row.ord_status.is_live() => SlotState::Live,
            false => SlotState::Ended,
        };
        let class = class_of(row_len(if is_tombstone { 0 } else { attributes_len }));
        let is_rekeyed = state.is_some_and(|state| state.keys != keys);
        let keeps_end = state.is_some_and(|state| {
            let is_others = state.owner.is_some_and(|owner| owner != row.order_id);
            state.standing != SlotState::Live && (is_tombstone || is_rekeyed || is_others)
        });
        let held = state.filter(|state| !keeps_end && state.class >= class);
        self.slots += u32::from(state.is_none() || keeps_end) + u32::from(is_rekeyed);
        self.blocks[class] += u32::from(held.is_none());
        self.bytes += Heap::block_len(class);
        if is_rekeyed {
            let mark = class_of(row_len(0));
            self.blocks[mark] += 1;
            self.bytes += Heap::block_len(mark);
        }
        let owner = if is_tombstone { state.and_then(|it| it.owner) } else { Some(row.order_id) };
        Some(State { keys, class: held.map_or(class, |state| state.class), standing, owner })
    }
}
