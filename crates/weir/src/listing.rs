//! The instruments of a recording, defined at a node: one for each copy that is played.

use anyhow::Context;
use weir_client::Admin;
use weir_client::flow::{FlowItem, PackedFlow};
use weir_types::{InstrumentId, Nanos, Phase, Price, Qty, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineInstrument;

/// The most lots that an engine lets an order have.
const ORDER_QTY_MAX: Qty = Qty(1 << 40);

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

/// Defines an instrument per copy of a recording, wide enough for its prices. The identifiers count
/// up from `first_id`.
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
    let partitions = admin.partitions();
    anyhow::ensure!(!partitions.is_empty(), "the node has no partition that trades");
    let name = terms.symbol.unwrap_or(&header.instrument);
    let mut instruments = Vec::new();
    for copy in 0..copies {
        let name = if copy == 0 { name.to_owned() } else { format!("{name}.{}", copy + 1) };
        let symbol = Symbol::new(&name)
            .filter(|symbol| symbol.is_valid() && !symbol.is_none())
            .with_context(|| format!("{name:?} is no symbol: give another by --symbol"))?;
        let definition = DefineInstrument {
            request_no: RequestNo::NONE,
            symbol,
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: ORDER_QTY_MAX,
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
        };
        admin.define_instrument(definition)?;
        instruments.push(definition);
    }
    Ok(instruments)
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
