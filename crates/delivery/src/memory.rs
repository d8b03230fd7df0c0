//! The memory that a store has requested from the allocator, and its limit.
//!
//! ```text
//! bytes requested                        | an event is taken in
//! ---------------------------------------+-------------------------------------------------------
//! well below the limit                   | always
//! one event's growth below it, or closer | when its order's row and slot need no new memory;
//!                                        | ended orders are removed early, oldest first, until
//!                                        | that is so; rings are swept early
//! half of that, or closer                | when nothing needs new memory
//! otherwise                              | never: StoreFull
//! ```
//! An order that is new, longer or has other keys also leaves room for the rings to grow as the
//! orders in them change, so that a full store still takes in changes that need no memory of their
//! own. A refused event may be sent again: each attempt removes more ended orders. Batches of
//! outside cores are taken as a whole or not at all (`room.rs`).

use crate::index::{KIND_COUNT, Kind};
use crate::ingest::{Change, IngestError};
use crate::store::OrderStore;

/// More bytes than one event can make a store request.
pub const EVENT_GROWTH_MAX: u64 = 3 << 19;
/// Ended orders removed early per event, at most.
pub(crate) const EARLY_STEPS: u32 = 64;
/// Rings of keys without orders visited per event while memory is short.
pub(crate) const FREE_STEPS: u32 = 4;

/// The memory that a store has requested from the allocator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Rows in wire format, attributes included.
    pub rows: u64,
    /// Attributes alone.
    pub attributes: u64,
    /// The blocks in use: rows, and the unused rest of their blocks.
    pub blocks: u64,
    /// All memory reserved for blocks.
    pub heap: u64,
    /// The metadata of slots.
    pub slots: u64,
    /// The directory from record numbers to slots.
    pub records: u64,
    /// The rings, by [`Kind`].
    pub rings: [u64; KIND_COUNT],
    /// The slots' positions in the rings, and the rings' heads.
    pub links: u64,
    /// A snapshot in progress: copies of slots that changed since it began and have not been sent;
    /// and the copies of a cancelled one that have not been freed yet.
    pub capture: u64,
    /// All memory reserved: `heap`, `slots`, `records`, `rings`, `links` and `capture`.
    pub total: u64,
}

impl OrderStore {
    /// Returns the memory that the store has requested from the allocator. Costs a few additions.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let rings = Kind::EVERY.map(|kind| self.index.bytes_of(kind));
        let (heap, slots) = (self.heap.reserved_bytes(), self.metas.reserved_bytes());
        let (records, links) = (self.records.reserved_bytes(), self.index.shared_bytes());
        let under_way = self.capture.as_ref().map_or(0, |capture| capture.reserved_bytes());
        let capture = under_way + self.abandoned.reserved_bytes();
        Memory {
            rows: self.row_bytes,
            attributes: self.attribute_bytes,
            blocks: self.heap.used_bytes(),
            heap,
            slots,
            records,
            rings,
            links,
            capture,
            total: heap + slots + records + links + capture + rings.iter().sum::<u64>(),
        }
    }

    /// Returns the ended orders, tombstones and marks removed early because memory was short.
    #[must_use]
    pub fn early_count(&self) -> u64 {
        self.early_count
    }

    /// Returns the events refused because there was no memory.
    #[must_use]
    pub fn full_count(&self) -> u64 {
        self.full_count
    }

    /// Makes room for a change, by the table above. This may remove the change's own record.
    #[inline]
    pub(crate) fn make_room(&mut self, change: &Change<'_>) -> Result<(), IngestError> {
        if self.config.bytes_max == u64::MAX || self.is_room_made {
            return Ok(());
        }
        self.make_room_below(change)
    }

    fn make_room_below(&mut self, change: &Change<'_>) -> Result<(), IngestError> {
        self.is_tight = self.is_short_of(change, EVENT_GROWTH_MAX);
        self.index.is_short = self.is_tight;
        if !self.is_tight {
            return Ok(());
        }
        if self.capture.is_some() && self.is_short_of(change, EVENT_GROWTH_MAX / 2) {
            // The memory of its copies is needed for orders.
            self.cancel_snapshot();
            self.is_capture_given_up = true;
        }
        self.index.sweep_idle(FREE_STEPS, true);
        for _ in 0..EARLY_STEPS {
            if self.fits(change) {
                return Ok(());
            }
            if !self.retire_oldest() {
                break;
            }
            self.early_count += 1;
        }
        if self.fits(change) {
            return Ok(());
        }
        self.full_count += 1;
        Err(IngestError::StoreFull { bytes: self.memory().total, bytes_max: self.config.bytes_max })
    }

    fn is_short_of(&self, change: &Change<'_>, bytes: u64) -> bool {
        let stays = self.records.get(change.change_id.rec).is_some_and(|slot| {
            let meta = self.metas.get(slot);
            meta.keys == change.keys
                && !self.keeps_end(slot, change)
                && self.heap.is_enough(meta.block, change.row_len())
        });
        let orders = u64::from(self.live_count) + u64::from(self.waiting_count);
        let reserve = if stays { 0 } else { self.index.growth_bytes(orders) };
        self.memory().total + reserve + bytes > self.config.bytes_max
    }

    /// True when a change needs no new memory, except for its places while there is some left for
    /// them.
    fn fits(&mut self, change: &Change<'_>) -> bool {
        let slot = self.records.get(change.change_id.rec);
        let keeps_end = slot.is_some_and(|slot| self.keeps_end(slot, change));
        let (old_keys, fits_block) = match slot {
            Some(slot) => {
                let meta = self.metas.get(slot);
                let is_enough = self.heap.is_enough(meta.block, change.row_len());
                (Some(meta.keys), is_enough && !keeps_end)
            }
            None => (None, false),
        };
        // A change of keys leaves a mark.
        let marks = u32::from(old_keys.is_some_and(|keys| keys != change.keys));
        let slots = u32::from(slot.is_none() || keeps_end) + marks;
        let blocks = u32::from(!fits_block) + marks;
        if slots > self.free_count || blocks > 0 && !self.heap.holds(change.row_len(), blocks) {
            return false;
        }
        if self.memory().total + EVENT_GROWTH_MAX / 2 <= self.config.bytes_max {
            return true;
        }
        let has_record = slot.is_some() || self.records.has_room(change.change_id.rec);
        let has_places = self.index.make_room(&change.keys, 1 + marks)
            && old_keys.is_none_or(|keys| self.index.make_room(&keys, 1 + marks));
        has_record && has_places
    }
}
