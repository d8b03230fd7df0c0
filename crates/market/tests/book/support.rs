//! Common helpers of the books' tests.

use weir_feed::{Action, Update};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

pub(crate) use weir_skip::recorded as data;

pub(crate) fn update(instrument: u32, action: Action) -> Update {
    let instrument_id = InstrumentId(instrument);
    Update { instrument_id, sequence: 1, ts_event: Nanos(1), action }
}

pub(crate) fn add(order_id: u64, side: Side, price: i64, size: u64) -> Action {
    Action::Add { order_id, side, price: Price(price), size: Qty(size) }
}

pub(crate) fn level(side: Side, price: i64, size: u64, is_last: bool) -> Action {
    let (price, size) = (Price(price), Qty(size));
    Action::Level { side, price, size, order_count: 0, is_last }
}
