//! What a store holds, entry by entry in the order of their places: for an archive that keeps it
//! when the store lets it go.
//!
//! An archive that asks often enough, before the floor passes its place, misses nothing. Of an
//! order that changed more than once since it asked it gets the last state, at its place.

use weir_types::Seq;

use crate::filter::{Filter, Keys};
use crate::index::Found;
use crate::ring::Place;
use crate::row::{HISTORY_LEN, ROW_LEN, Standing};
use crate::store::OrderStore;

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedAs {
    /// An order that can still change.
    Live,
    /// An order that ended.
    Ended,
    /// A record that is gone.
    Tombstone,
    /// The mark that a record had other keys before.
    Leave,
}

/// An entry with all that pages know of it.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'a> {
    /// Where it is.
    pub place: Place,
    /// What it stands for.
    pub exported_as: ExportedAs,
    /// Where its record began; the place of a mark.
    pub first: Seq,
    /// All changes of the record so far.
    pub change_count: u32,
    /// Distances in `seq` from each change to the one before, latest first; zero where there is
    /// none, `u32::MAX` where it does not fit.
    pub history: [u32; HISTORY_LEN],
    /// Its keys: those before the change in a mark, the last ones in a tombstone.
    pub keys: Keys,
    /// The keys after the change in a mark; else none.
    pub next_keys: Keys,
    /// The row's fixed fields.
    pub block: &'a [u8],
    /// Its attributes.
    pub attributes: &'a [u8],
}

impl OrderStore {
    /// Calls `visit` with the entries after `after`, in order, a record before the mark of what it
    /// was; stops between two places after at least `entries_max` of them. Returns the place up to
    /// which all was told: the head, or earlier when there is more.
    pub fn export(
        &self,
        after: Place,
        entries_max: u32,
        mut visit: impl FnMut(&Exported<'_>),
    ) -> Place {
        let end = self.head().max(after);
        let Found::Ring { ring, .. } = self.index.find(&Filter::ALL) else { return end };
        let mut position = self.index.position_after(ring, after);
        let (mut last, mut count) = (after, 0);
        while let Some((at, entry)) = self.index.next_live(ring, position) {
            if count >= entries_max.max(1) && entry.place > last {
                return last;
            }
            visit(&self.exported(entry.slot));
            (last, position) = (entry.place, at + 1);
            count += 1;
        }
        end
    }

    fn exported(&self, slot: u32) -> Exported<'_> {
        let meta = self.metas.get(slot);
        let row = self.row(slot);
        Exported {
            place: meta.place,
            exported_as: match meta.standing {
                Standing::Live => ExportedAs::Live,
                Standing::Ended => ExportedAs::Ended,
                Standing::Tombstone => ExportedAs::Tombstone,
                Standing::Leave => ExportedAs::Leave,
                Standing::Free => unreachable!("a free slot is in no ring"),
            },
            first: meta.first.seq,
            change_count: meta.change_count,
            history: meta.history,
            keys: meta.keys,
            next_keys: meta.next_keys,
            block: &row.0[..ROW_LEN],
            attributes: row.attributes(),
        }
    }
}
