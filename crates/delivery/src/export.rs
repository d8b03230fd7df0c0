//! A store's entries in the order of their places, for an archive that keeps them after the store
//! removes them.
//!
//! An archive that exports often enough, before the floor passes its place, misses nothing. For an
//! order that changed several times since the last export it gets the last state, at its place.

use weir_types::{ChangeId, Seq};

use crate::filter::{Filter, Keys};
use crate::index::FilterRing;
use crate::row::{HISTORY_LEN, ROW_LEN, SlotState};
use crate::store::OrderStore;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedKind {
    /// An order that can still change.
    Live,
    /// An order that ended.
    Ended,
    /// A deleted record.
    Tombstone,
    /// The mark that a record had other keys before.
    Leave,
}

/// An entry with all the data that pages use.
#[derive(Clone, Copy, Debug)]
pub struct ExportedEntry<'a> {
    /// The entry's place.
    pub change_id: ChangeId,
    /// Its kind.
    pub exported_as: ExportedKind,
    /// The `seq` of the record's first change; for a mark, its own.
    pub first: Seq,
    /// The number of the record's changes so far.
    pub change_count: u32,
    /// Distances in `seq` from each change to the one before, latest first; zero if there is no
    /// earlier change, `u32::MAX` if the distance does not fit.
    pub history: [u32; HISTORY_LEN],
    /// Its keys: for a mark, those before the change; for a tombstone, the last ones.
    pub keys: Keys,
    /// The keys after the change, for a mark; else none.
    pub next_keys: Keys,
    /// The row's fixed fields.
    pub block: &'a [u8],
    /// Its attributes.
    pub attributes: &'a [u8],
}

impl OrderStore {
    /// Calls `visit` with the entries after `after`, in order, a record before the mark of its
    /// former keys; stops between two places after at least `entries_max` of them. Returns the
    /// place up to which the export is complete: the head, or an earlier place if there is more.
    pub fn export(
        &self,
        after: ChangeId,
        entries_max: u32,
        mut visit: impl FnMut(&ExportedEntry<'_>),
    ) -> ChangeId {
        let end = self.head().max(after);
        let FilterRing::Ring { ring, .. } = self.index.find(&Filter::ALL) else { return end };
        let mut position = self.index.position_after(ring, after);
        let (mut last, mut count) = (after, 0);
        while let Some((at, entry)) = self.index.next_live(ring, position) {
            if count >= entries_max.max(1) && entry.change_id > last {
                return last;
            }
            visit(&self.exported(entry.slot));
            (last, position) = (entry.change_id, at + 1);
            count += 1;
        }
        end
    }

    fn exported(&self, slot: u32) -> ExportedEntry<'_> {
        let meta = self.metas.get(slot);
        let row = self.row(slot);
        ExportedEntry {
            change_id: meta.change_id,
            exported_as: match meta.standing {
                SlotState::Live => ExportedKind::Live,
                SlotState::Ended => ExportedKind::Ended,
                SlotState::Tombstone => ExportedKind::Tombstone,
                SlotState::Leave => ExportedKind::Leave,
                SlotState::Free => unreachable!("a free slot is in no ring"),
            },
            // No reader knows a record that is disowned.
            first: meta.known_from().min(meta.change_id).seq,
            change_count: meta.change_count,
            history: meta.history,
            keys: meta.keys,
            next_keys: meta.next_keys,
            block: &row.0[..ROW_LEN],
            attributes: row.attributes(),
        }
    }
}
