//! The orders of one batch that its store does not have yet: a batch gives a record to one order.

use weir_types::{OrderId, Rec};
use weir_wire::delivery::{OrderRow, RowFlags};

/// The new orders of a batch by their records, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct NewOrders(Vec<(Rec, OrderId)>);

impl NewOrders {
    /// Returns true when an earlier row gave this row's record to another order; else records the
    /// row's order. A tombstone of an unknown record leaves nothing behind.
    pub(crate) fn is_other(&mut self, row: &OrderRow) -> bool {
        let is_tombstone = row.flags.contains(RowFlags::TOMBSTONE);
        // Most new orders come in the order of their records.
        let is_last = self.0.last().is_none_or(|(last, _)| *last < row.rec);
        let at = match is_last {
            true => Err(self.0.len()),
            false => self.0.binary_search_by_key(&row.rec, |(rec, _)| *rec),
        };
        match at {
            Ok(at) => self.0[at].1 != row.order_id,
            Err(at) if !is_tombstone => {
                self.0.insert(at, (row.rec, row.order_id));
                false
            }
            Err(_) => false,
        }
    }
}
