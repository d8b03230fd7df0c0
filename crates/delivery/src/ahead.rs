//! A batch of rows at a time: what its rows will touch is looked at together before they are taken
//! in.
//!
//! One change of a random order waits for memory some ten times, one after the other. Those of
//! different orders do not depend on each other, so that a loop that only looks at them lets the
//! processor fetch many at once; the changes themselves then find what they need. Nothing depends
//! on what was seen, and a row that is not there yet, or wrong, is passed over.

use core::hint::black_box;

use weir_types::Rec;

use crate::ingest::{IngestError, Ingested};
use crate::row::rec_of;
use crate::store::OrderStore;

/// Rows that are looked at together: what they touch fits in a core's own caches.
const GROUP_LEN: usize = 32;

/// A row as it came from an outside core.
#[derive(Clone, Copy, Debug)]
pub struct RawRow<'a> {
    /// An encoded [`OrderRow`](weir_wire::delivery::OrderRow), or one of a later version.
    pub block: &'a [u8],
    /// What goes with it.
    pub attributes: &'a [u8],
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct TakenRows {
    /// Rows that were taken in, repeated ones included.
    pub count: usize,
    /// How many of them the store had been past.
    pub repeated_count: usize,
    /// Why the row after them was not; those behind it were not looked at.
    pub error: Option<IngestError>,
}

impl OrderStore {
    /// Takes in rows one after the other, as [`OrderStore::ingest_row`] does, up to the first that
    /// is refused.
    pub fn ingest_rows(&mut self, rows: &[RawRow<'_>]) -> TakenRows {
        let mut taken = TakenRows::default();
        for group in rows.chunks(GROUP_LEN) {
            self.look_ahead(group);
            for row in group {
                match self.ingest_row(row.block, row.attributes) {
                    Ok(ingested) => {
                        taken.count += 1;
                        taken.repeated_count += usize::from(ingested == Ingested::Repeated);
                    }
                    Err(error) => {
                        taken.error = Some(error);
                        return taken;
                    }
                }
            }
        }
        taken
    }

    /// Looks at what is known of the next few slots of a ring, live at `at` and behind, and no more
    /// than `slots_max`; returns the position up to which, and how many steps that took.
    pub(crate) fn look_ahead_in(&self, ring: u32, at: u32, slots_max: u32) -> (u32, u32) {
        let (mut slots, mut position) = ([0; GROUP_LEN], at);
        let (mut count, mut steps) = (0, 0);
        while count < GROUP_LEN.min(slots_max as usize) {
            let step = self.index.next_live(ring, position);
            steps += step.count;
            let Some((at, entry)) = step.found else { break };
            slots[count] = entry.slot;
            (count, position) = (count + 1, at + 1);
        }
        let look = |seen, slot: &u32| seen ^ self.metas.get(*slot).look();
        black_box(slots[..count].iter().fold(0, look));
        (position, steps)
    }

    /// Looks at some rows.
    pub(crate) fn look_at_rows(&self, slots: impl Iterator<Item = u32>) {
        let look = |seen, slot| {
            let meta = self.metas.get(slot);
            seen ^ self.heap.look(meta.block, usize::from(meta.row_len))
        };
        black_box(slots.fold(0, look));
    }

    fn look_ahead(&self, rows: &[RawRow<'_>]) {
        let mut slots = [0; GROUP_LEN];
        let mut count = 0;
        for row in rows {
            let slot = rec_of(row.block).and_then(|rec: Rec| self.records.get(rec));
            slots[count] = slot.unwrap_or_default();
            count += usize::from(slot.is_some());
        }
        let slots = &slots[..count];
        // Each loop looks at what the loop before it found the way to.
        let mut seen = 0;
        for slot in slots {
            seen ^= self.metas.get(*slot).look() ^ self.index.look_at_links(*slot);
        }
        black_box(seen);
        for slot in slots {
            let meta = self.metas.get(*slot);
            seen ^= self.heap.look(meta.block, usize::from(meta.row_len));
            seen ^= self.index.look_at_rings(*slot);
        }
        black_box(seen);
        for slot in slots {
            seen ^= self.index.look_at_entries(*slot);
        }
        black_box(seen);
    }
}
