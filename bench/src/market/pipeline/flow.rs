//! Generated updates: quotes of many instruments, which change with every update.

use weir_feed::{Action, Definition, SymbolText, TradeFlags, Update, Venue};
use weir_types::{InstrumentId, Nanos, Price, Qty};

/// The number of instruments.
pub const INSTRUMENTS: u32 = 1_000;
/// The number of updates of which one is a trade, in a flow with trades.
const TRADE_EVERY: u64 = 8;

/// The definition of an instrument.
pub fn definition(id: u32) -> Definition {
    Definition {
        instrument_id: InstrumentId(id),
        symbol: SymbolText::new(format!("I{id}").as_bytes()).expect("a symbol"),
        round_lot: Qty(100),
        previous_close: None,
    }
}

/// The update of this number: a best bid and offer that moved by less than a thousandth.
pub fn update(number: u64) -> Update {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    let id = 1 + (mixed % u64::from(INSTRUMENTS)) as u32;
    let price = 100_000_000_000 + ((mixed >> 32) % 100) as i64 * 1_000_000;
    let size = 1 + number % 1_000;
    Update {
        instrument_id: InstrumentId(id),
        sequence: number + 1,
        ts_event: Nanos(0),
        action: Action::Consolidated {
            bid_venue: Venue(0),
            ask_venue: Venue(0),
            bid_px: Price(price),
            bid_sz: Qty(size),
            ask_px: Price(price + 10_000_000),
            ask_sz: Qty(size),
        },
    }
}

/// The update of this number in a flow with trades.
pub fn update_or_trade(number: u64) -> Update {
    let update = update(number);
    let Action::Consolidated { bid_px: price, .. } = update.action else { return update };
    if !number.is_multiple_of(TRADE_EVERY) {
        return update;
    }
    let (venue, size, flags) = (Venue(0), Qty(1), TradeFlags::default());
    let match_id = number + 1;
    let action = Action::Trade { venue, aggressor: None, price, size, match_id, flags };
    Update { action, ..update }
}
