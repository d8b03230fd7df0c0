//! Support for an outside core's stream: epochs that void changes the store holds, and the records
//! in order of their numbers. Our own engine's log does not need it: its epochs void nothing that a
//! store holds.

use weir_types::{ChangeId, Epoch, OrderId, Rec};

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

    /// Returns the order identifier of a record; `None` if the record never existed, is below the
    /// floor, or was deleted at or before `forgotten`: its number may then belong to another order.
    pub(crate) fn order_id_of(&self, rec: Rec, forgotten: ChangeId) -> Option<OrderId> {
        let slot = self.records.get(rec)?;
        let meta = self.metas.get(slot);
        let is_forgotten = meta.standing == SlotState::Tombstone && meta.change_id <= forgotten;
        (!is_forgotten).then(|| self.row(slot).order_id())
    }

    /// Returns the first record at or after `rec`, the place of its last change, and whether it was
    /// deleted.
    pub(crate) fn next_record(&self, rec: Rec) -> Option<(Rec, ChangeId, bool)> {
        let (rec, slot) = self.records.next_from(rec)?;
        let meta = self.metas.get(slot);
        Some((rec, meta.change_id, meta.standing == SlotState::Tombstone))
    }
}
