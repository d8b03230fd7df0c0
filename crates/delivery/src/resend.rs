//! Support for an outside core's stream: epochs that void changes the store holds, and the records
//! in order of their numbers. Our own engine's log does not need it: its epochs void nothing that a
//! store holds.

use weir_types::{ChangeId, Epoch, OrderId, Rec};
use weir_wire::delivery::RowFlags;

use crate::filter::Filter;
use crate::index::FilterRing;
use crate::plant::{self, Plant};
use crate::row::{SlotMeta, SlotState, row_len, write_row};
use crate::store::OrderStore;

/// The most ended epochs whose tokens are honoured; tokens of older ones get RESYNC.
const PAST_EPOCHS_MAX: usize = 1_024;

/// Changes that an epoch voids, and how far the store has voided them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Void {
    /// The last valid place; the start if none is.
    pub(crate) valid_to: ChangeId,
    /// The entries up to here are done.
    pub(crate) cursor: ChangeId,
}

impl Void {
    /// Returns the changes after a place, none of them voided yet.
    pub(crate) fn after(valid_to: ChangeId) -> Void {
        Void { valid_to, cursor: valid_to }
    }

    /// Returns this with the changes that another epoch voids.
    pub(crate) fn and(self, other: Void) -> Void {
        let valid_to = self.valid_to.min(other.valid_to);
        Void { valid_to, cursor: self.cursor.min(other.cursor) }
    }
}

impl OrderStore {
    /// Starts `epoch` of the source: its changes after `valid_to` in earlier epochs are void, and
    /// tokens beyond that get RESYNC. The store keeps those changes until the source, which must
    /// send a full resend, has replaced them.
    ///
    /// # Panics
    /// If `epoch` is not above the store's; the caller has checked it.
    pub(crate) fn begin_epoch_after(&mut self, epoch: Epoch, valid_to: ChangeId) {
        self.epochs.end(valid_to, epoch);
        self.epochs.keep_newest(PAST_EPOCHS_MAX);
    }

    /// Goes on voiding the changes after a place, in the order of their places: makes tombstones of
    /// the ends, and disowns the records all of whose changes are void. Visits `entries_max`
    /// entries, and returns where it came to if there are more.
    ///
    /// A void end is in no history that a reader may be told of. Its place is still that at which
    /// stores that had discarded the order have their floor, so the tombstone stays there: a reader
    /// before it that has the order live is told by each store, or refused.
    pub(crate) fn void_changes(&mut self, void: Void, entries_max: u32) -> Option<Void> {
        let FilterRing::Ring { ring, .. } = self.index.find(&Filter::ALL) else { return None };
        self.give_up_copies(entries_max.min(self.live_count.saturating_add(self.waiting_count)));
        let mut position = self.index.position_after(ring, void.cursor);
        let (mut cursor, mut count) = (void.cursor, 0);
        while let Some((at, entry)) = self.index.next_live(ring, position) {
            if count >= entries_max && entry.change_id > cursor {
                return Some(match plant::is(Plant::ValidPlaceForgotten) {
                    true => Void::after(cursor),
                    false => Void { cursor, ..void },
                });
            }
            self.void_change(entry.slot, void.valid_to);
            (cursor, position) = (entry.change_id, at + 1);
            count += 1;
        }
        None
    }

    fn void_change(&mut self, slot: u32, valid_to: ChangeId) {
        let meta = *self.metas.get(slot);
        if meta.standing == SlotState::Ended {
            self.void_end(slot, &meta);
        }
        // A record that this store may have discarded before may have valid changes elsewhere.
        let is_new = meta.first > valid_to && !meta.is_older;
        let is_disowned = is_new || valid_to == ChangeId::START;
        if is_disowned
            && !meta.is_disowned()
            && meta.standing != SlotState::Leave
            && !plant::is(Plant::VoidNumbersKept)
        {
            self.keep_for_capture(slot);
            self.metas.get_mut(slot).disown();
            self.step_count += 1;
        }
    }

    /// Makes a tombstone of an end, in its place. It needs no memory.
    fn void_end(&mut self, slot: u32, meta: &SlotMeta) {
        self.keep_for_capture(slot);
        let order_id = self.row(slot).order_id();
        let block = self.mark_row.of(meta.change_id, order_id, RowFlags::TOMBSTONE);
        let (old_len, len) = (usize::from(meta.row_len), row_len(0));
        write_row(&block, &[], self.heap.bytes_mut(meta.block, len));
        self.count_bytes(old_len, len);
        self.waiting_bytes -= (old_len - len) as u64;
        let meta = self.metas.get_mut(slot);
        meta.standing = SlotState::Tombstone;
        meta.row_len = u16::try_from(len).expect("rows are short");
        self.step_count += 1;
    }

    /// True when a record's number is not too far above those before, `highest` among them.
    pub(crate) fn can_reach(&self, rec: Rec, highest: Rec) -> bool {
        self.records.can_hold_after(rec, highest)
    }

    /// Returns the order to which a record's number belongs, even if it is deleted; `None` if the
    /// record never existed, is below the floor, or is disowned.
    pub(crate) fn order_id_of(&self, rec: Rec) -> Option<OrderId> {
        let slot = self.records.get(rec)?;
        let meta = self.metas.get(slot);
        let is_free = meta.is_disowned()
            || meta.standing == SlotState::Tombstone && plant::is(Plant::NumbersOfDeletedFree);
        (!is_free).then(|| self.row(slot).order_id())
    }

    /// Returns the first record at or after `rec`, the place of its last change, and whether it was
    /// deleted.
    pub(crate) fn next_record(&self, rec: Rec) -> Option<(Rec, ChangeId, bool)> {
        let (rec, slot) = self.records.next_from(rec)?;
        let meta = self.metas.get(slot);
        Some((rec, meta.change_id, meta.standing == SlotState::Tombstone))
    }
}
