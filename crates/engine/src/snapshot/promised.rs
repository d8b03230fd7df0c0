//! The check that the reservations in a snapshot equal those of its orders.
//!
//! The engine's arithmetic relies on the equality: a reservation without an order would never be
//! released, and a missing one would still be released.

use weir_types::Cash;

use super::SnapshotError;
use crate::config::POSITION_LIMIT;
use crate::engine::Engine;
use crate::entry::holding_of;
use crate::index::Slot;
use crate::position::Position;

/// The reservations as read from the snapshot, before its orders.
#[derive(Default)]
pub(super) struct SnapshotReservations {
    /// Indexed by the account's slot.
    pub(super) reserved: Vec<Cash>,
    /// In order of account and instrument.
    positions: Vec<((Slot, Slot), Position)>,
}

impl SnapshotReservations {
    /// Records a position with these total, reserved and open-buy lots.
    pub(super) fn position(
        &mut self,
        account: Slot,
        instrument: Slot,
        words: [u64; 3],
    ) -> Result<Position, SnapshotError> {
        let [total, reserved, open_buy] = words.map(u64::cast_signed);
        let position = Position { total, reserved, open_buy };
        let (least, most) =
            (i128::from(total) - i128::from(reserved), i128::from(total) + i128::from(open_buy));
        let is_bounded =
            reserved >= 0 && open_buy >= 0 && least >= -POSITION_LIMIT && most <= POSITION_LIMIT;
        let pair = (account, instrument);
        let is_next = self.positions.last().is_none_or(|(before, _)| *before < pair);
        if !is_bounded || !is_next || position.is_empty() {
            return Err(SnapshotError::Invalid("position"));
        }
        self.positions.push((pair, position));
        Ok(position)
    }
}

impl Engine {
    /// Reserves the means of a restored order.
    pub(super) fn reserve_restored(&mut self, slot: Slot) -> Result<(), SnapshotError> {
        if !self.config.has_risk {
            return Ok(());
        }
        let order = &self.orders[slot];
        let holding = holding_of(order, order.leaves_qty);
        let position = self.positions.get(holding.account, holding.instrument);
        // Wrong sums must not end the process before the check finds them.
        let lots = position.reserved.max(position.open_buy).checked_add_unsigned(holding.qty.0);
        if lots.is_none() || position.is_empty() && !self.positions.has_room(1) {
            return Err(SnapshotError::Invalid("position"));
        }
        self.reserve(holding);
        Ok(())
    }

    /// Checks that the orders have reserved the amounts in the snapshot.
    pub(super) fn check_promised(
        &self,
        promised: &SnapshotReservations,
    ) -> Result<(), SnapshotError> {
        let reserved = self.accounts.rows().iter().map(|account| &account.reserved);
        if !reserved.eq(&promised.reserved) {
            return Err(SnapshotError::Invalid("reserved cash"));
        }
        let is_so = |((account, instrument), position): &((Slot, Slot), Position)| {
            self.positions.get(*account, *instrument) == *position
        };
        if promised.positions.len() != self.positions.count()
            || !promised.positions.iter().all(is_so)
        {
            return Err(SnapshotError::Invalid("position"));
        }
        Ok(())
    }
}
