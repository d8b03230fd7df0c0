//! Prefetching: touches the memory that a batch of rows will need before the rows are taken in.
//!
//! One change of a random order waits for memory some ten times, one after the other. Changes of
//! different orders do not depend on each other, so a loop that only touches their memory lets the
//! processor fetch many lines at once; the changes themselves then hit the cache. The values read
//! do not matter, and a row that is unknown or wrong is skipped.

use core::hint::black_box;

use weir_types::{ChangeId, Rec};

use crate::ingest::{IngestError, IngestOutcome};
use crate::ring::Entry;
use crate::row::rec_of;
use crate::store::OrderStore;

/// Rows that are touched together: their memory fits in a core's own caches.
pub(crate) const GROUP_LEN: usize = 32;

/// Live entries of a ring with their positions.
pub(crate) type Group = [(u32, Entry); GROUP_LEN];

/// An empty group.
pub(crate) const NO_GROUP: Group = [(0, Entry { change_id: ChangeId::START, slot: 0 }); GROUP_LEN];

/// A row as it came from an outside core.
#[derive(Clone, Copy, Debug)]
pub struct RawRow<'a> {
    /// An encoded [`OrderRow`](weir_wire::delivery::OrderRow), or one of a later version.
    pub block: &'a [u8],
    /// The row's attributes.
    pub attributes: &'a [u8],
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct TakenRows {
    /// Rows that were taken in, repeated ones included.
    pub count: usize,
    /// The number of them that the store had taken in before.
    pub repeated_count: usize,
    /// The reason for the refusal of the next row; the rows after it were not processed.
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
                        taken.repeated_count += usize::from(ingested == IngestOutcome::Repeated);
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

    /// Finds a ring's next live entries at or after `position`, at most `entries_max`, and touches
    /// their slots' metadata, and with `with_rows` their rows; returns the number of entries and
    /// the steps.
    #[inline]
    pub(crate) fn next_group(
        &self,
        ring: u32,
        position: u32,
        entries_max: u32,
        with_rows: bool,
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

    /// Touches both ends of some rows. The processor itself prefetches the bytes between when they
    /// are copied: it fetches more lines at once for a sequential read than for single accesses.
    pub(crate) fn look_at_rows(&self, slots: impl Iterator<Item = u32>) {
        let look = |seen, slot| {
            let meta = self.metas.get(slot);
            seen ^ self.heap.look_at_ends(meta.block, usize::from(meta.row_len))
        };
        black_box(slots.fold(0, look));
    }

    /// Touches the metadata and order identifiers of the rows' records, for at most [`GROUP_LEN`]
    /// rows.
    pub(crate) fn look_at_orders<'a>(&self, blocks: impl Iterator<Item = &'a [u8]>) {
        let (slots, count) = self.slots_of(blocks);
        let slots = || slots[..count].iter();
        black_box(slots().fold(0, |seen, slot| seen ^ self.metas.get(*slot).look()));
        self.look_at_rows(slots().copied());
    }

    /// Returns the slots of the first rows' records that are known, and their number.
    fn slots_of<'a>(&self, blocks: impl Iterator<Item = &'a [u8]>) -> ([u32; GROUP_LEN], usize) {
        let (mut slots, mut count) = ([0; GROUP_LEN], 0);
        for block in blocks.take(GROUP_LEN) {
            let slot = rec_of(block).and_then(|rec: Rec| self.records.get(rec));
            slots[count] = slot.unwrap_or_default();
            count += usize::from(slot.is_some());
        }
        (slots, count)
    }

    fn look_ahead(&self, rows: &[RawRow<'_>]) {
        let (slots, count) = self.slots_of(rows.iter().map(|row| row.block));
        let slots = &slots[..count];
        // Each loop touches memory that the loop before it made reachable.
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
