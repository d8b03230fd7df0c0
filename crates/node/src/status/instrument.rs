//! The instruments on the status page: definitions, with the state that follows from the events.

use serde::Serialize;
use weir_client::status::phase_name;
use weir_orderstate::markets::Market;
use weir_wire::event::Uncrossed;
use weir_wire::reference::DefineInstrument;

/// An instrument.
#[derive(Clone, Debug, Serialize)]
pub struct InstrumentReport {
    /// Its identifier.
    pub id: u32,
    /// Its name.
    pub symbol: String,
    /// Its partition.
    pub partition: u16,
    /// The power of ten of the price: a mantissa m is m times ten to this power.
    pub price_exponent: i8,
    /// The power of ten of a lot, in units.
    pub qty_exponent: i8,
    /// The least price step, as a mantissa; prices are multiples of it.
    pub tick_size: i64,
    /// The quantity step; quantities are multiples of it.
    pub lot_size: u64,
    /// The lowest price of an order, and of a market sell's trades, as a mantissa.
    pub price_min: i64,
    /// The highest price of an order, and of a market buy's trades, as a mantissa.
    pub price_max: i64,
    /// The current phase; absent when no retained event shows it.
    pub phase: Option<&'static str>,
    /// Log time of the last change of phase, nanoseconds since the Unix epoch.
    pub phase_since_ns: Option<u64>,
    /// The price of its last trade, as a mantissa.
    pub last_price: Option<i64>,
    /// The price of its last uncrossing that traded, or else its definition's, as a mantissa.
    pub static_reference: Option<i64>,
    /// The price of its last uncrossing, as a mantissa; absent if it traded nothing.
    pub uncrossing_price: Option<i64>,
    /// The volume of its last uncrossing, in lots.
    pub uncrossing_qty: Option<u64>,
    /// Demand less supply at the price of its last uncrossing, in lots.
    pub uncrossing_surplus: Option<i64>,
    /// Log time of its last uncrossing, nanoseconds since the Unix epoch.
    pub uncrossing_at_ns: Option<u64>,
    /// The price of its last opening call, as a mantissa; absent if it traded nothing.
    pub opening_price: Option<i64>,
    /// The volume of its last opening call, in lots.
    pub opening_qty: Option<u64>,
    /// The price of its last closing call, as a mantissa; absent if it traded nothing.
    pub closing_price: Option<i64>,
    /// The volume of its last closing call, in lots.
    pub closing_qty: Option<u64>,
    /// Its last phases, the newest at the end.
    pub phases: String,
}

impl InstrumentReport {
    pub(super) fn of(d: &DefineInstrument, market: &Market) -> InstrumentReport {
        let uncrossing = market.last_uncrossing;
        let defined = Some(d.reference_price).filter(|price| price.0 != 0);
        let told = |figure: fn(&Uncrossed) -> u64| uncrossing.as_ref().map(figure);
        let price = |of: Option<Uncrossed>| of.filter(|of| !of.qty.is_zero()).map(|of| of.price.0);
        let phases: Vec<_> = market.phases.iter().flatten().map(|p| phase_name(*p)).collect();
        InstrumentReport {
            id: d.instrument_id.0,
            symbol: d.symbol.to_string(),
            partition: d.partition_id.0,
            price_exponent: d.price_exponent,
            qty_exponent: d.qty_exponent,
            tick_size: d.tick_size.0,
            lot_size: d.lot_size.0,
            price_min: d.price_min.0,
            price_max: d.price_max.0,
            phase: market.phase.map(phase_name),
            phase_since_ns: market.phase_since.map(|at| at.0),
            last_price: market.last_price.map(|price| price.0),
            static_reference: market.static_reference.or(defined).map(|price| price.0),
            uncrossing_price: price(uncrossing),
            uncrossing_qty: told(|u| u.qty.0),
            uncrossing_surplus: uncrossing.map(|u| u.surplus),
            uncrossing_at_ns: told(|u| u.transact_time.0),
            opening_price: price(market.opening),
            opening_qty: market.opening.map(|of| of.qty.0),
            closing_price: price(market.closing),
            closing_qty: market.closing.map(|of| of.qty.0),
            phases: phases.join(" "),
        }
    }
}
