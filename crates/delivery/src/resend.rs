//! What the stream of an outside core needs of a store beside taking rows in: epochs that disown
//! what is held, and the records in order of their numbers.

use weir_types::{Epoch, OrderId, Rec};

use crate::ring::Place;
use crate::row::Standing;
use crate::store::OrderStore;

/// Ended epochs whose tokens are honoured; those of older ones get RESYNC.
const PAST_EPOCHS_MAX: usize = 1_024;

impl OrderStore {
    /// The source goes on in `epoch`; what it said after `valid_to` in epochs before never was, and
    /// tokens beyond get RESYNC. What the store holds of that stays until the source, which is to
    /// send all that there is again, has said otherwise.
    ///
    /// # Panics
    /// When `epoch` is not above the store's: the caller has checked it.
    pub(crate) fn begin_epoch_after(&mut self, epoch: Epoch, valid_to: Place) {
        assert!(epoch > self.epoch, "epoch {epoch} is not above {}", self.epoch);
        if self.past_epochs.len() >= PAST_EPOCHS_MAX {
            self.past_epochs.remove(0);
        }
        self.past_epochs.push((self.epoch, valid_to));
        self.epoch = epoch;
    }

    /// The identifier of a record's order; `None` when the record never was, is below the floor, or
    /// is gone since `forgotten` or before: its number may then be another order's.
    pub(crate) fn order_id_of(&self, rec: Rec, forgotten: Place) -> Option<OrderId> {
        let slot = self.records.get(rec)?;
        let meta = self.metas.get(slot);
        let is_forgotten = meta.standing == Standing::Tombstone && meta.place <= forgotten;
        (!is_forgotten).then(|| self.row(slot).order_id())
    }

    /// The first record from `rec` on, where it last changed, and whether it is gone.
    pub(crate) fn next_record(&self, rec: Rec) -> Option<(Rec, Place, bool)> {
        let (rec, slot) = self.records.next_from(rec)?;
        let meta = self.metas.get(slot);
        Some((rec, meta.place, meta.standing == Standing::Tombstone))
    }
}
