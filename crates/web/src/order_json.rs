//! Order state as JSON: the same for `weir orders --json` and for readers over HTTP.
//!
//! Prices and quantities are decimals as text, by the exponents of their instrument. Identifiers
//! and times, in nanoseconds since the Unix epoch, are integers of up to 64 bits. Codes and reasons
//! are the names of the protocol's pages. A value that an order does not have, a reason too, is
//! null.

use serde_json::{Value, json};
use weir_types::hex::hex;
use weir_types::{OrdType, OrderId, Price, Qty, Reason, TimeInForce, decimal};
use weir_wire::delivery::OrderRow;

/// The symbol of an instrument, and the scale of its prices and quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The symbol.
    pub symbol: String,
    /// The power of ten of a price.
    pub price_exponent: i8,
    /// The power of ten of a lot, in units.
    pub qty_exponent: i8,
}

/// Returns true for an order with a limit price.
#[must_use]
pub fn has_price(ord_type: OrdType) -> bool {
    !matches!(ord_type, OrdType::Market | OrdType::Stop)
}

/// Returns true for a stop order: no stop order has the stop price zero.
#[must_use]
pub fn has_stop(row: &OrderRow) -> bool {
    row.stop_px != Price(0)
}

/// Returns true for a triggered stop: its row has the type that it became, market or limit, and
/// keeps its stop price.
#[must_use]
pub fn is_triggered(row: &OrderRow) -> bool {
    has_stop(row) && matches!(row.ord_type, OrdType::Market | OrdType::Limit)
}

/// Returns the name of a reason; null for none.
#[must_use]
pub fn reason_json(reason: Reason) -> Value {
    if reason == Reason::None { Value::Null } else { Value::from(format!("{reason:?}")) }
}

/// Returns the JSON of an order that was deleted, or no longer matches the filter.
#[must_use]
pub fn gone_json(order_id: OrderId) -> Value {
    json!({ "order_id": order_id.0, "gone": true })
}

/// Returns the JSON of an order's current state. `scale` is that of its instrument; if it is not
/// known, the symbol is null and the decimals are the integers of the protocol.
#[must_use]
pub fn row_json(row: &OrderRow, attributes: &[u8], scale: Option<&Scale>) -> Value {
    let (price_exponent, qty_exponent) =
        scale.map_or((0, 0), |scale| (scale.price_exponent, scale.qty_exponent));
    let price =
        |has_it: bool, price: Price| has_it.then(|| decimal(i128::from(price.0), price_exponent));
    let qty = |qty: Qty| decimal(i128::from(qty.0), qty_exponent);
    let has_traded = !row.last_qty.is_zero();
    let expires = row.time_in_force == TimeInForce::Gtd;
    json!({
        "symbol": scale.map(|scale| &scale.symbol),
        "seq": row.seq.0,
        "rec": row.rec.0,
        "order_id": row.order_id.0,
        "cl_ord_id": row.cl_ord_id.to_string(),
        "partition_id": row.partition_id.0,
        "instrument_id": row.instrument_id.0,
        "firm_id": row.firm_id.0,
        "account_id": row.account_id.0,
        "session_id": row.session_id.0,
        "side": format!("{:?}", row.side),
        "ord_type": format!("{:?}", row.ord_type),
        "time_in_force": format!("{:?}", row.time_in_force),
        "price": price(has_price(row.ord_type), row.price),
        "stop_px": price(has_stop(row), row.stop_px),
        "triggered": is_triggered(row),
        "expire_time": expires.then_some(row.expire_time.0),
        "order_qty": qty(row.order_qty),
        "leaves_qty": qty(row.leaves_qty),
        "display_qty": (!row.display_qty.is_zero()).then(|| qty(row.display_qty)),
        "cum_qty": qty(row.cum_qty),
        "last_px": price(has_traded, row.last_px),
        "last_qty": has_traded.then(|| qty(row.last_qty)),
        "exec_type": format!("{:?}", row.exec_type),
        "ord_status": format!("{:?}", row.ord_status),
        "reason": reason_json(row.reason),
        "transact_time": row.transact_time.0,
        "created_time": row.created_time.0,
        "merged_count": row.merged_count,
        "attributes": hex(attributes),
    })
}

#[cfg(test)]
mod tests {
    use weir_types::{
        AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus,
        PartitionId, Rec, Seq, SessionId, Side,
    };
    use weir_wire::delivery::RowFlags;

    use super::*;

    fn limit_order() -> OrderRow {
        OrderRow {
            rec: Rec(1),
            seq: Seq(2),
            order_id: OrderId(3),
            transact_time: Nanos(4),
            created_time: Nanos(5),
            cl_ord_id: ClOrdId::new("first").expect("a short name"),
            price: Price(1_005),
            stop_px: Price(0),
            last_px: Price(0),
            last_qty: Qty(0),
            order_qty: Qty(25),
            leaves_qty: Qty(25),
            cum_qty: Qty(0),
            expire_time: Nanos(0),
            merged_count: 0,
            session_id: SessionId(11),
            firm_id: FirmId(11),
            account_id: AccountId(11),
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
            reason: Reason::None,
            side: Side::Buy,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::default(),
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            flags: RowFlags::default(),
            display_qty: Qty(0),
        }
    }

    fn members(row: &OrderRow, scale: Option<&Scale>, names: &[&str]) -> Vec<Value> {
        let object = row_json(row, &[], scale);
        names.iter().map(|name| object.get(name).expect("a member").clone()).collect()
    }

    #[test]
    fn prices_and_quantities_are_decimals_by_the_instruments_exponents() {
        let scale = Scale { symbol: "ACME".to_owned(), price_exponent: -2, qty_exponent: -1 };
        let names = ["symbol", "price", "order_qty", "leaves_qty", "cum_qty"];
        let scaled = members(&limit_order(), Some(&scale), &names);
        assert_eq!(
            scaled,
            [json!("ACME"), json!("10.05"), json!("2.5"), json!("2.5"), json!("0.0")]
        );
        let unscaled = members(&limit_order(), None, &names);
        assert_eq!(unscaled, [Value::Null, json!("1005"), json!("25"), json!("25"), json!("0")]);
    }

    #[test]
    fn an_order_without_a_reason_has_none_of_that_name() {
        let canceled = OrderRow { reason: Reason::MassCancel, ..limit_order() };
        let cases = [(limit_order(), Value::Null), (canceled, json!("MassCancel"))];
        for (row, want) in cases {
            assert_eq!(members(&row, None, &["reason"]), [want]);
        }
    }

    #[test]
    fn a_value_that_the_order_does_not_have_is_null() {
        let names = ["price", "stop_px", "expire_time", "display_qty", "last_px", "last_qty"];
        let nothing = Value::Null;
        let limit = limit_order();
        let stop = OrderRow { ord_type: OrdType::Stop, stop_px: Price(7), ..limit };
        let market = OrderRow { ord_type: OrdType::Market, last_px: Price(8), ..limit };
        let traded = OrderRow { last_px: Price(0), last_qty: Qty(2), ..limit };
        let dated = OrderRow { time_in_force: TimeInForce::Gtd, expire_time: Nanos(9), ..limit };
        let cases = [
            (limit, [json!("1005"), nothing.clone(), nothing.clone(), nothing.clone()], None),
            (stop, [nothing.clone(), json!("7"), nothing.clone(), nothing.clone()], None),
            (market, [nothing.clone(), nothing.clone(), nothing.clone(), nothing.clone()], None),
            (traded, [json!("1005"), nothing.clone(), nothing.clone(), nothing.clone()], Some(2)),
            (dated, [json!("1005"), nothing.clone(), json!(9), nothing.clone()], None),
        ];
        for (row, own, last_qty) in cases {
            let last = last_qty.map_or([Value::Null, Value::Null], |qty: u64| {
                [json!("0"), json!(qty.to_string())]
            });
            assert_eq!(members(&row, None, &names), [own.as_slice(), &last].concat(), "{row:?}");
        }
    }
}
