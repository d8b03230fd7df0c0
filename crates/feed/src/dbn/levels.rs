//! The ten best levels of both sides, and the changes that a new record makes to them.
//!
//! A level that drops out of the ten is removed: no record reports it until it returns.

use weir_types::{Price, Qty, Side};

use super::record::{BidAsk, LEVELS, UNDEF_PRICE};
use crate::update::Action;

/// Price, size, orders. A side has the best first, and no row after its last level.
type Row = (i64, u32, u32);

/// The levels of an instrument.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    sides: [Vec<Row>; 2],
    changes: Vec<(Side, Row)>,
}

const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

impl Levels {
    /// Takes in the levels of a record, and passes `tell` each change; the last one is marked.
    pub fn show(&mut self, shown: &[BidAsk; LEVELS], mut tell: impl FnMut(Action)) {
        let Levels { sides, changes } = self;
        changes.clear();
        for (side, rows) in SIDES.into_iter().zip(sides) {
            let row = |level: &BidAsk| match side {
                Side::Buy => (level.bid_px, level.bid_sz, level.bid_ct),
                Side::Sell => (level.ask_px, level.ask_sz, level.ask_ct),
            };
            let now = || shown.iter().map(row).filter(|row| row.0 != UNDEF_PRICE && row.1 != 0);
            let gone = rows.iter().filter(|old| !now().any(|row| row.0 == old.0));
            changes.extend(gone.map(|old| (side, (old.0, 0, 0))));
            changes.extend(now().filter(|row| !rows.contains(row)).map(|row| (side, row)));
            rows.clear();
            rows.extend(now());
        }
        let count = changes.len();
        for (index, (side, (price, size, orders))) in changes.iter().enumerate() {
            tell(Action::Level {
                side: *side,
                price: Price(*price),
                size: Qty(u64::from(*size)),
                order_count: *orders,
                is_last: index + 1 == count,
            });
        }
    }

    /// Removes all levels.
    pub fn clear(&mut self) {
        self.sides.iter_mut().for_each(Vec::clear);
    }
}
