//! Common helpers of the books' tests.

use std::io::Write;
use std::path::PathBuf;

use weir_feed::{Action, Update};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

/// Returns the path of a recorded file, if recorded data is available.
pub(crate) fn data(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("WEIR_DATA") else {
        // Writes past the test harness, which captures the output of passing tests.
        let mut stderr = std::io::stderr();
        _ = writeln!(stderr, "NOT CHECKED: WEIR_DATA is not set, so {path} was not read");
        return None;
    };
    Some(PathBuf::from(root).join(path))
}

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
