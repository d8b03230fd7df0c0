//! Order state as JSON: the same for `weir orders --json` and for readers over HTTP.
//!
//! Numbers are integers as on the wire: prices in ticks, quantities in lots, times in nanoseconds
//! since the Unix epoch. Some need 64 bits. Codes and reasons are the names of the protocol's
//! pages.

use serde_json::{Value, json};
use weir_types::hex::hex;
use weir_types::{OrdType, OrderId, Price};
use weir_wire::delivery::OrderRow;

/// No stop order has the stop price zero.
#[must_use]
pub fn has_stop(row: &OrderRow) -> bool {
    row.stop_px != Price(0)
}

/// A stop is told as the market or limit order that it became, and keeps its stop price.
#[must_use]
pub fn is_triggered(row: &OrderRow) -> bool {
    has_stop(row) && matches!(row.ord_type, OrdType::Market | OrdType::Limit)
}

/// An order that is gone, or no longer matches what was asked for.
#[must_use]
pub fn gone_json(order_id: OrderId) -> Value {
    json!({ "order_id": order_id.0, "gone": true })
}

/// An order as it is now.
#[must_use]
pub fn row_json(row: &OrderRow, attributes: &[u8]) -> Value {
    json!({
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
        "price": row.price.0,
        "stop_px": row.stop_px.0,
        "triggered": is_triggered(row),
        "expire_time": row.expire_time.0,
        "order_qty": row.order_qty.0,
        "leaves_qty": row.leaves_qty.0,
        "display_qty": row.display_qty.0,
        "cum_qty": row.cum_qty.0,
        "last_px": row.last_px.0,
        "last_qty": row.last_qty.0,
        "exec_type": format!("{:?}", row.exec_type),
        "ord_status": format!("{:?}", row.ord_status),
        "reason": format!("{:?}", row.reason),
        "transact_time": row.transact_time.0,
        "created_time": row.created_time.0,
        "merged_count": row.merged_count,
        "attributes": hex(attributes),
    })
}
