//! Support for an outside core's stream: epochs that void changes the store holds, and the records
//! in order of their numbers. Our own engine's log does not need it: its epochs void nothing that a
//! store holds.

use weir_types::{ChangeId, Epoch, OrderId, Rec};

use crate::filter::Filter;
use crate::index::FilterRing;
use crate::row::SlotState;
use crate::store::OrderStore;

/// The most ended epochs whose tokens are honoured; tokens of older ones get RESYNC.
const PAST_EPOCHS_MAX: usize = 1_024;

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

    /// Makes tombstones of the ended orders after `after`, in the order of their places: their ends
    /// are void. Visits `entries_max` entries, and returns the place that it came to if there are
    /// more.
    pub(crate) fn bury_ended_after(
        &mut self,
        after: ChangeId,
        entries_max: u32,
    ) -> Option<ChangeId> {
        let FilterRing::Ring { ring, .. } = self.index.find(&Filter::ALL) else { return None };
        let mut position = self.index.position_after(ring, after);
        let (mut last, mut count) = (after, 0);
        while let Some((at, entry)) = self.index.next_live(ring, position) {
            if count >= entries_max && entry.change_id > last {
                return Some(last);
            }
            self.bury_ended(entry.slot);
            (last, position) = (entry.change_id, at + 1);
            count += 1;
        }
        None
    }

    /// Returns the order identifier of a record; `None` if the record never existed, is below the
    /// floor, or was deleted at or before `forgotten`: its number may then belong to another order.
    pub(crate) fn order_id_of(&self, rec: Rec, forgotten: ChangeId) -> Option<OrderId> {
        let slot = self.records.get(rec)?;
        let meta = self.metas.get(slot);
        let is_forgotten = meta.standing == SlotState::Tombstone && meta.change_id <= forgotten;
        (!is_forgotten).then(|| self.row(slot).order_id())
    }

    /// Returns the first record at or after `rec`, and its slot.
    pub(crate) fn next_record(&self, rec: Rec) -> Option<(Rec, u32)> {
        self.records.next_from(rec)
    }
}
