//! What a store has asked of the allocator, and how it keeps within what it may ask for.
//!
//! ```text
//! bytes asked for                        | an event is taken in
//! ---------------------------------------+-------------------------------------------------------
//! well below the limit                   | as it is
//! one event's growth below it, or closer | when its order's row and slot need no new memory; what
//!                                        | ended goes early, oldest first, until that is so; rings
//!                                        | are swept early
//! half of that, or closer                | when nothing needs new memory
//! else                                   | not: StoreFull
//! ```
//! An order that is new, longer or of other keys also leaves room for the rings to grow as the
//! orders in them change, so that a full store goes on taking in changes that need no room of their
//! own. An event that was refused may be sent again: each try lets more of what ended go.

use crate::index::{KIND_COUNT, Kind};
use crate::ingest::{Change, IngestError};
use crate::store::OrderStore;

/// More than one event can make a store ask for.
pub const EVENT_GROWTH_MAX: u64 = 3 << 19;
/// What goes early at most per event.
const EARLY_STEPS: u32 = 64;
/// Rings of keys without orders looked at per event while memory is short.
const FREE_STEPS: u32 = 4;

/// What a store has asked of the allocator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Rows, attributes included, as they are on the wire.
    pub rows: u64,
    /// Attributes alone.
    pub attributes: u64,
    /// Blocks that rows are in: rows, and what their blocks are larger.
    pub blocks: u64,
    /// All that is reserved for blocks.
    pub heap: u64,
    /// What is known of each slot beside its row.
    pub slots: u64,
    /// The directory from record numbers to slots.
    pub records: u64,
    /// The rings, by [`Kind`].
    pub rings: [u64; KIND_COUNT],
    /// Where each slot is in its rings, and the rings' heads.
    pub links: u64,
    /// A snapshot that is being taken: what has changed since it began and is not out yet; and
    /// what one that was given up has not given back yet.
    pub capture: u64,
    /// All that is reserved: `heap`, `slots`, `records`, `rings`, `links` and `capture`.
    pub total: u64,
}

impl OrderStore {
    /// What the store has asked of the allocator. Costs a few additions.
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

    /// Ended orders, tombstones and marks that went before their time because memory was short.
    #[must_use]
    pub fn early_count(&self) -> u64 {
        self.early_count
    }

    /// Events that were refused because there was no memory.
    #[must_use]
    pub fn full_count(&self) -> u64 {
        self.full_count
    }

    /// Sees that a change fits, by the table above. The record that it is of may be gone then.
    #[inline]
    pub(crate) fn make_room(&mut self, change: &Change<'_>) -> Result<(), IngestError> {
        if self.config.bytes_max == u64::MAX {
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
            // What it keeps is wanted for orders.
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
        let stays = self.records.get(change.place.rec).is_some_and(|slot| {
            let meta = self.metas.get(slot);
            meta.keys == change.keys && self.heap.is_enough(meta.block, change.row_len())
        });
        let orders = u64::from(self.live_count) + u64::from(self.waiting_count);
        let reserve = if stays { 0 } else { self.index.growth_bytes(orders) };
        self.memory().total + reserve + bytes > self.config.bytes_max
    }

    /// Whether a change needs no new memory but, unless that is short too, for its places.
    fn fits(&mut self, change: &Change<'_>) -> bool {
        let slot = self.records.get(change.place.rec);
        let (old_keys, fits_block) = match slot {
            Some(slot) => {
                let meta = self.metas.get(slot);
                (Some(meta.keys), self.heap.is_enough(meta.block, change.row_len()))
            }
            None => (None, false),
        };
        // A change of keys leaves a mark.
        let marks = u32::from(old_keys.is_some_and(|keys| keys != change.keys));
        let slots = u32::from(slot.is_none()) + marks;
        let blocks = u32::from(!fits_block) + marks;
        if slots > self.free_count || blocks > 0 && !self.heap.holds(change.row_len(), blocks) {
            return false;
        }
        if self.memory().total + EVENT_GROWTH_MAX / 2 <= self.config.bytes_max {
            return true;
        }
        let has_record = slot.is_some() || self.records.has_room(change.place.rec);
        let has_places = self.index.make_room(&change.keys, 1 + marks)
            && old_keys.is_none_or(|keys| self.index.make_room(&keys, 1 + marks));
        has_record && has_places
    }
}
