//! The instruments on the status page: definitions, with the state that follows from the events.
//!
//! Prices and quantities are decimals as text, by the instrument's exponents. The exponents stand
//! beside them for clients that enter orders, whose prices and quantities are mantissas and lots.

use serde::Serialize;
use weir_client::status::{cause_name, phase_name};
use weir_orderstate::markets::Market;
use weir_types::{Price, Qty, decimal};
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
    /// Its group; zero for none.
    pub group: u16,
    /// The power of ten of a price in the protocol.
    pub price_exponent: i8,
    /// The power of ten of a lot, in units.
    pub qty_exponent: i8,
    /// The least price step; prices are multiples of it.
    pub tick_size: String,
    /// The quantity step; quantities are multiples of it.
    pub lot_size: String,
    /// The lowest price of an order, and of a market sell's trades.
    pub price_min: String,
    /// The highest price of an order, and of a market buy's trades.
    pub price_max: String,
    /// The current phase; absent when no retained event shows it.
    pub phase: Option<&'static str>,
    /// Log time of the last change of the phase, or of an operator's halt that holds, nanoseconds
    /// since the Unix epoch; absent while both are the definition's.
    pub phase_since_ns: Option<u64>,
    /// The cause of that change: operator, schedule, call-end or collar; absent where it is not
    /// known.
    pub phase_cause: Option<&'static str>,
    /// The operator's session that asked for it; absent for other causes.
    pub phase_by: Option<u32>,
    /// True while an operator's halt holds against scheduled changes; absent where no retained
    /// event shows it.
    pub is_held: Option<bool>,
    /// The price of its last trade.
    pub last_price: Option<String>,
    /// The price of its last uncrossing that traded, or else its definition's.
    pub static_reference: Option<String>,
    /// The price of its last uncrossing; absent if it traded nothing.
    pub uncrossing_price: Option<String>,
    /// The volume of its last uncrossing.
    pub uncrossing_qty: Option<String>,
    /// Demand less supply at the price of its last uncrossing.
    pub uncrossing_surplus: Option<String>,
    /// Log time of its last uncrossing, nanoseconds since the Unix epoch.
    pub uncrossing_at_ns: Option<u64>,
    /// The price of its last opening call; absent if it traded nothing.
    pub opening_price: Option<String>,
    /// The volume of its last opening call.
    pub opening_qty: Option<String>,
    /// The price of its last closing call; absent if it traded nothing.
    pub closing_price: Option<String>,
    /// The volume of its last closing call.
    pub closing_qty: Option<String>,
    /// Its last phases, the newest at the end.
    pub phases: String,
}

impl InstrumentReport {
    pub(super) fn of(d: &DefineInstrument, market: &Market) -> InstrumentReport {
        let uncrossing = market.last_uncrossing;
        let defined = Some(d.reference_price).filter(|price| price.0 != 0);
        let price = |price: Price| decimal(i128::from(price.0), d.price_exponent);
        let qty = |qty: Qty| decimal(i128::from(qty.0), d.qty_exponent);
        let traded_at =
            |of: Option<Uncrossed>| of.filter(|of| !of.qty.is_zero()).map(|of| price(of.price));
        let volume = |of: Option<Uncrossed>| of.map(|of| qty(of.qty));
        let phases: Vec<_> = market.phases.iter().flatten().map(|p| phase_name(*p)).collect();
        InstrumentReport {
            id: d.instrument_id.0,
            symbol: d.symbol.to_string(),
            partition: d.partition_id.0,
            group: d.group_id.0,
            price_exponent: d.price_exponent,
            qty_exponent: d.qty_exponent,
            tick_size: price(d.tick_size),
            lot_size: qty(d.lot_size),
            price_min: price(d.price_min),
            price_max: price(d.price_max),
            phase: market.phase.map(phase_name),
            phase_since_ns: market.origin.map(|origin| origin.at.0),
            phase_cause: market.origin.and_then(|origin| cause_name(origin.cause)),
            phase_by: (market.origin.map(|origin| origin.session_id))
                .filter(|by| !by.is_none())
                .map(|by| by.0),
            is_held: market.is_held,
            last_price: market.last_price.map(price),
            static_reference: market.static_reference.or(defined).map(price),
            uncrossing_price: traded_at(uncrossing),
            uncrossing_qty: volume(uncrossing),
            uncrossing_surplus: uncrossing
                .map(|of| decimal(i128::from(of.surplus), d.qty_exponent)),
            uncrossing_at_ns: uncrossing.map(|of| of.transact_time.0),
            opening_price: traded_at(market.opening),
            opening_qty: volume(market.opening),
            closing_price: traded_at(market.closing),
            closing_qty: volume(market.closing),
            phases: phases.join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_types::{
        GroupId, InstrumentId, Nanos, PartitionId, Phase, PhaseCause, PhaseOrigin, RequestNo,
        SessionId, Symbol,
    };

    use super::*;

    fn definition() -> DefineInstrument {
        DefineInstrument {
            request_no: RequestNo::NONE,
            symbol: Symbol::new("ACME").expect("a short name"),
            tick_size: Price(5),
            lot_size: Qty(100),
            order_qty_max: Qty(1_000),
            price_min: Price(-50),
            price_max: Price(100_000),
            reference_price: Price(1_000),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id: SessionId::NONE,
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
            price_exponent: -2,
            qty_exponent: -3,
            phase: Phase::Continuous,
            fields: 0,
            group_id: GroupId::NONE,
        }
    }

    #[test]
    fn prices_and_quantities_are_decimals_as_text() {
        let market = Market { last_price: Some(Price(1_005)), ..Market::default() };
        let report = InstrumentReport::of(&definition(), &market);
        let page = serde_json::to_value(report).expect("a status is JSON");
        let wanted = [
            ("tick_size", json!("0.05")),
            ("lot_size", json!("0.100")),
            ("price_min", json!("-0.50")),
            ("price_max", json!("1000.00")),
            ("last_price", json!("10.05")),
            ("static_reference", json!("10.00")),
            ("opening_price", Value::Null),
            ("price_exponent", json!(-2)),
        ];
        for (name, value) in wanted {
            assert_eq!(page[name], value, "{name}");
        }
    }

    #[test]
    fn a_change_of_phase_has_its_cause_its_operator_and_its_time() {
        let origin =
            |cause, by, at| Some(PhaseOrigin { cause, session_id: SessionId(by), at: Nanos(at) });
        for (origin, is_held, want) in [
            (None, Some(false), json!([null, null, null, false])),
            (origin(PhaseCause::Operator, 9, 5), Some(true), json!([5, "operator", 9, true])),
            (origin(PhaseCause::Schedule, 0, 6), Some(false), json!([6, "schedule", null, false])),
            (origin(PhaseCause::CallEnd, 0, 7), Some(false), json!([7, "call-end", null, false])),
            (origin(PhaseCause::Collar, 0, 8), Some(false), json!([8, "collar", null, false])),
            (origin(PhaseCause::Unknown, 0, 9), None, json!([9, null, null, null])),
        ] {
            let market = Market { origin, is_held, ..Market::default() };
            let report = InstrumentReport::of(&definition(), &market);
            let page = serde_json::to_value(report).expect("a status is JSON");
            let names = ["phase_since_ns", "phase_cause", "phase_by", "is_held"];
            assert_eq!(json!(names.map(|name| page[name].clone())), want);
        }
    }
}
