//! The instruments of a recording, defined at a node: one for each copy that is played.

use anyhow::Context;
use weir_client::Admin;
use weir_client::flow::{FlowItem, PackedFlow};
use weir_types::{
    GroupId, InstrumentId, Nanos, PartitionId, Phase, Price, Qty, RequestNo, SessionId, Symbol,
};
use weir_wire::reference::DefineInstrument;

use super::published::told_as_unfit;
use crate::plant::{self, Plant};

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
    let copies = Copies { first_id, count: copies };
    let instruments = definitions(recording, copies, &admin.partitions(), terms)?;
    for definition in &instruments {
        admin.define_instrument(*definition)?;
    }
    if let Some(note) = instruments.iter().find_map(told_as_unfit) {
        eprintln!("weir: {note}");
    }
    Ok(instruments)
}

/// The copies of a recording, and the identifier of the first one's instrument.
#[derive(Clone, Copy, Debug)]
struct Copies {
    first_id: u32,
    count: u32,
}

/// Returns the definition of an instrument per copy of a recording, assigned to the partitions in
/// turn.
fn definitions(
    recording: &PackedFlow,
    copies: Copies,
    partitions: &[PartitionId],
    terms: Terms<'_>,
) -> anyhow::Result<Vec<DefineInstrument>> {
    let header = &recording.header;
    let (price_min, price_max) = price_range(&recording.items);
    let order_qty_max = match largest_order(&recording.items).max(ORDER_QTY_MAX) {
        _ if plant::is(Plant::ReplayUnbounded) => Qty(1 << 40),
        largest => largest,
    };
    anyhow::ensure!(!partitions.is_empty(), "the node has no partition that trades");
    let name = terms.symbol.unwrap_or(&header.instrument);
    let mut instruments = Vec::new();
    for copy in 0..copies.count {
        let name = name_of_copy(name, copy);
        let symbol = Symbol::new(&name)
            .filter(|symbol| symbol.is_valid() && !symbol.is_none())
            .with_context(|| format!("{name:?} is no symbol: give another by --symbol"))?;
        instruments.push(DefineInstrument {
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
            instrument_id: InstrumentId(copies.first_id + copy),
            partition_id: partitions[copy as usize % partitions.len()],
            price_exponent: header.price_exponent,
            qty_exponent: header.qty_exponent,
            phase: terms.phase,
            fields: 0,
            group_id: GroupId::NONE,
        });
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
    use crate::demo::recordings::recorded_day;

    const HERE: [PartitionId; 2] = [PartitionId(1), PartitionId(2)];

    /// The definitions of three copies.
    fn copies(recording: &PackedFlow) -> Vec<DefineInstrument> {
        let copies = Copies { first_id: 800_000, count: 3 };
        definitions(recording, copies, &HERE, Terms::default()).expect("its name is a symbol")
    }

    /// The shipped day without its orders above 42.9 bitcoins, which the published market cannot
    /// tell.
    fn day_of_small_orders() -> PackedFlow {
        let mut recording = recorded_day().expect("it ships with the program");
        let is_small = |item: &FlowItem| match item {
            FlowItem::Event(event) => event.qty <= ORDER_QTY_MAX,
            FlowItem::Row(_) => true,
        };
        recording.items.retain(is_small);
        recording
    }

    #[test]
    fn copies_of_the_shipped_day_have_room_for_its_orders_and_are_told_as_not_published() {
        let recording = recorded_day().expect("it ships with the program");
        for (copy, definition) in copies(&recording).iter().enumerate() {
            assert_eq!(definition.instrument_id, InstrumentId(800_000 + copy as u32));
            assert_eq!(definition.partition_id, HERE[copy % 2]);
            // From 1 cent to 350 dollars; 200 bitcoins in 10^-8.
            assert_eq!((definition.price_min, definition.price_max), (Price(1), Price(35_000)));
            assert_eq!(definition.order_qty_max, Qty(20_000_000_000));
            let told = told_as_unfit(definition).expect("its largest order is too large");
            assert!(told.contains("largest order") && told.contains("BTC"), "{told}");
        }
    }

    #[test]
    fn copies_of_a_day_whose_orders_fit_are_published() {
        for definition in copies(&day_of_small_orders()) {
            assert_eq!(told_as_unfit(&definition), None, "{}", definition.symbol);
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bugs_of_listings_are_found() {
        let tests = [
            copies_of_the_shipped_day_have_room_for_its_orders_and_are_told_as_not_published,
            copies_of_a_day_whose_orders_fit_are_published,
        ];
        for plant in [Plant::ReplayUnbounded, Plant::UnfitUntold] {
            plant::set(Some(plant));
            let is_found = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
            plant::set(None);
            assert!(is_found, "{plant:?}");
        }
    }

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
