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
use crate::ring::{Entry, Place};
use crate::row::rec_of;
use crate::store::OrderStore;

/// Rows that are looked at together: what they touch fits in a core's own caches.
pub(crate) const GROUP_LEN: usize = 32;

/// Live entries of a ring with their positions.
pub(crate) type Group = [(u32, Entry); GROUP_LEN];

/// A group before anything was found.
pub(crate) const NO_GROUP: Group = [(0, Entry { place: Place::START, slot: 0 }); GROUP_LEN];

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

    /// Finds a ring's next live entries at or after `position`, no more than `entries_max`, and
    /// looks at what is known of their slots, and at their rows where these are wanted; returns how
    /// many there were, and how many steps that took.
    #[inline]
    pub(crate) fn next_group(
        &self,
        (ring, position): (u32, u32),
        (entries_max, with_rows): (u32, bool),
        group: &mut Group,
    ) -> (usize, u32) {
        let len = GROUP_LEN.min(entries_max as usize);
        let (count, steps) = self.index.live_from(ring, position, &mut group[..len]);
        let slots = || group[..count].iter().map(|(_, entry)| entry.slot);
        black_box(slots().fold(0, |seen, slot| seen ^ self.metas.get(slot).look()));
        if with_rows {
            self.look_at_rows(slots());
        }
        (count, steps)
    }

    /// Looks at both ends of some rows. What lies between comes by itself when it is copied: a
    /// processor fetches ahead what is read in order, and more of that at once than of single looks.
    pub(crate) fn look_at_rows(&self, slots: impl Iterator<Item = u32>) {
        let look = |seen, slot| {
            let meta = self.metas.get(slot);
            seen ^ self.heap.look_at_ends(meta.block, usize::from(meta.row_len))
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
