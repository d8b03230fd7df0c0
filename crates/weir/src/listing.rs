//! The instruments of a recording, defined at a node: one for each copy that is played.

use anyhow::Context;
use weir_client::Admin;
use weir_client::flow::{FlowItem, PackedFlow};
use weir_types::{GroupId, InstrumentId, Nanos, Phase, Price, Qty, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineInstrument;

use super::published::told_as_unfit;

/// The most lots of an order that the published market can tell. A recording whose orders are
/// larger needs more, and is not published.
const ORDER_QTY_MAX: Qty = Qty(u32::MAX as u64);
/// The longest symbol of the published market.
const SYMBOL_LEN_MAX: usize = 8;

/// The trading terms of a recording's instruments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    /// The symbol of the first copy; the recording's own when not given.
    pub(super) symbol: Option<&'a str>,
    /// The phase that they begin in.
    pub(super) phase: Phase,
    /// The largest distance of a trade from the last price, in basis points; zero for no collar.
    pub(super) dynamic_collar: u32,
    /// The duration of a volatility call.
    pub(super) volatility_call: Nanos,
}

impl Default for Terms<'_> {
    fn default() -> Self {
        Terms {
            symbol: None,
            phase: Phase::Continuous,
            dynamic_collar: 0,
            volatility_call: Nanos(0),
        }
    }
}

/// Defines an instrument per copy of a recording, wide enough for its prices and quantities. The
/// identifiers count up from `first_id`. Tells on standard error if they are not published.
///
/// # Errors
/// When the node has no partition that trades, refuses, or the name is no symbol.
pub(super) fn list_copies(
    admin: &mut Admin,
    recording: &PackedFlow,
    first_id: u32,
    copies: u32,
    terms: Terms<'_>,
) -> anyhow::Result<Vec<DefineInstrument>> {
    let header = &recording.header;
    let (price_min, price_max) = price_range(&recording.items);
    let order_qty_max = largest_order(&recording.items).max(ORDER_QTY_MAX);
    let partitions = admin.partitions();
    anyhow::ensure!(!partitions.is_empty(), "the node has no partition that trades");
    let name = terms.symbol.unwrap_or(&header.instrument);
    let mut instruments = Vec::new();
    for copy in 0..copies {
        let name = name_of_copy(name, copy);
        let symbol = Symbol::new(&name)
            .filter(|symbol| symbol.is_valid() && !symbol.is_none())
            .with_context(|| format!("{name:?} is no symbol: give another by --symbol"))?;
        let definition = DefineInstrument {
            request_no: RequestNo::NONE,
            symbol,
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max,
            price_min,
            price_max,
            reference_price: Price(0),
            volatility_call: terms.volatility_call,
            static_collar: 0,
            dynamic_collar: terms.dynamic_collar,
            session_id: SessionId::NONE,
            instrument_id: InstrumentId(first_id + copy),
            partition_id: partitions[copy as usize % partitions.len()],
            price_exponent: header.price_exponent,
            qty_exponent: header.qty_exponent,
            phase: terms.phase,
            fields: 0,
            group_id: GroupId::NONE,
        };
        admin.define_instrument(definition)?;
        instruments.push(definition);
    }
    if let Some(note) = instruments.iter().find_map(told_as_unfit) {
        eprintln!("weir: {note}");
    }
    Ok(instruments)
}

/// Returns the name of a copy: a number behind the recording's name, of which so much is left that
/// the published market has room for both, if it has room for the name.
fn name_of_copy(name: &str, copy: u32) -> String {
    if copy == 0 {
        return name.to_owned();
    }
    let suffix = format!(".{}", copy + 1);
    let room = SYMBOL_LEN_MAX.saturating_sub(suffix.len()).max(1);
    let fits = name.is_ascii() && name.len() <= SYMBOL_LEN_MAX;
    let len = if fits { name.len().min(room) } else { name.len() };
    format!("{}{suffix}", &name[..len])
}

/// Returns the largest quantity that an event names.
fn largest_order(items: &[FlowItem]) -> Qty {
    let quantities = items.iter().filter_map(|item| match item {
        FlowItem::Event(event) => Some(event.qty),
        FlowItem::Row(_) => None,
    });
    quantities.max().unwrap_or_default()
}

fn price_range(items: &[FlowItem]) -> (Price, Price) {
    let prices = items.iter().filter_map(|item| match item {
        FlowItem::Event(event) => Some(event.price),
        FlowItem::Row(_) => None,
    });
    let (min, max) =
        prices.fold((Price(1), Price(1)), |(min, max), price| (min.min(price), max.max(price)));
    (min, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_copies_are_as_long_as_the_published_market_has_room_for() {
        for (name, copy, want) in [
            ("BTCUSD", 0, "BTCUSD"),
            ("BTCUSD", 1, "BTCUSD.2"),
            ("BTCUSD", 99, "BTCU.100"),
            ("LONGER-NAME", 0, "LONGER-NAME"),
            ("LONGER-NAME", 1, "LONGER-NAME.2"),
            ("A", 9_999_998, "A.9999999"),
        ] {
            assert_eq!(name_of_copy(name, copy), want);
        }
    }
}
