//! A report of an order as a row of a table, or as a JSON object with the fields' own names.
//!
//! Prices and quantities are decimals, in JSON as text, so that none loses a digit. Codes have the
//! names that the protocol's pages use. A value that an order does not have is null.

use serde_json::{Value, json};
use weir_types::{ExecType, Price, Reason};
use weir_web::order_json::{has_price, reason_json};
use weir_wire::event::{OrderEvent, RequestRejected, TradeBusted};

use super::{Instruments, moment};

/// Prints reports as they come; the heading comes with the first row.
pub(super) struct Printer {
    instruments: Instruments,
    is_json: bool,
    has_heading: bool,
}

/// The columns of a table of reports.
struct Row {
    time: String,
    symbol: String,
    exec_type: String,
    side: String,
    qty: String,
    price: String,
    last_qty: String,
    last_px: String,
    leaves: String,
    status: String,
    order_id: String,
    cl_ord_id: String,
    notes: String,
}

impl Printer {
    pub(super) fn new(instruments: Instruments, is_json: bool) -> Printer {
        Printer { instruments, is_json, has_heading: false }
    }

    /// An order's change.
    pub(super) fn report(&mut self, event: &OrderEvent) {
        self.instruments.refresh_for(event.instrument_id);
        if self.is_json {
            println!("{}", report_json(&self.instruments, event));
            return;
        }
        let id = event.instrument_id;
        let is_trade = event.exec_type == ExecType::Trade;
        let only_if = |is_there: bool, text: String| if is_there { text } else { String::new() };
        let row = Row {
            time: moment(event.transact_time),
            symbol: self.instruments.symbol(id),
            exec_type: format!("{:?}", event.exec_type),
            side: format!("{:?}", event.side),
            qty: self.instruments.qty(id, event.order_qty),
            price: only_if(has_price(event.ord_type), self.instruments.price(id, event.price)),
            last_qty: only_if(is_trade, self.instruments.qty(id, event.last_qty)),
            last_px: only_if(is_trade, self.instruments.price(id, event.last_px)),
            leaves: self.instruments.qty(id, event.leaves_qty),
            status: format!("{:?}", event.ord_status),
            order_id: only_if(!event.order_id.is_none(), event.order_id.to_string()),
            cl_ord_id: event.cl_ord_id.to_string(),
            notes: reason_text(event.reason),
        };
        self.put(&row);
    }

    /// A refused request.
    pub(super) fn rejected(&mut self, rejected: &RequestRejected) {
        if self.is_json {
            println!("{}", rejected_json(&self.instruments, rejected));
        }
    }

    /// A busted trade.
    pub(super) fn busted(&mut self, bust: &TradeBusted) {
        let id = bust.instrument_id;
        let (qty, price) =
            (self.instruments.qty(id, bust.last_qty), self.instruments.price(id, bust.last_px));
        let symbol = self.instruments.symbol(id);
        if self.is_json {
            println!("{}", busted_json(&self.instruments, bust));
        } else {
            let debt = debt_text(bust);
            println!("trade {} of {symbol} is busted: {qty} at {price}{debt}", bust.match_id);
        }
    }

    fn put(&mut self, row: &Row) {
        if !self.has_heading {
            self.has_heading = true;
            let names = [
                "time",
                "symbol",
                "report",
                "side",
                "qty",
                "price",
                "last qty",
                "last px",
                "leaves",
                "status",
                "order id",
                "cl ord id",
                "reason",
            ];
            println!("{}", line(names.map(str::to_owned)));
        }
        println!("{}", line(row.cells()));
    }
}

impl Row {
    fn cells(&self) -> [String; 13] {
        [
            &self.time,
            &self.symbol,
            &self.exec_type,
            &self.side,
            &self.qty,
            &self.price,
            &self.last_qty,
            &self.last_px,
            &self.leaves,
            &self.status,
            &self.order_id,
            &self.cl_ord_id,
            &self.notes,
        ]
        .map(Clone::clone)
    }
}

fn line(cells: [String; 13]) -> String {
    let [time, symbol, report, side, qty, price, last_qty, last_px, leaves, status, id, name, why] =
        cells;
    let line = format!(
        "{time:<24} {symbol:<10} {report:<9} {side:<4} {qty:>9} {price:>10} {last_qty:>9} \
         {last_px:>10} {leaves:>9} {status:<15} {id:>16} {name:<16} {why}"
    );
    line.trim_end().to_owned()
}

/// A reason as its name and its sentence; empty for none.
pub(crate) fn reason_text(reason: Reason) -> String {
    match reason {
        Reason::None => String::new(),
        reason => format!("{reason:?}: {reason}"),
    }
}

/// An order's change as a JSON object.
pub(crate) fn report_json(instruments: &Instruments, event: &OrderEvent) -> Value {
    let id = event.instrument_id;
    let price = |price| instruments.price(id, price);
    let qty = |qty| instruments.qty(id, qty);
    let mut object = json!({
        "report": "execution_report",
        "symbol": instruments.symbol_json(id),
        "instrument_id": id.0,
        "exec_type": format!("{:?}", event.exec_type),
        "ord_status": format!("{:?}", event.ord_status),
        "order_id": event.order_id.0,
        "exec_id": event.exec_id.0,
        "cl_ord_id": event.cl_ord_id.to_string(),
        "orig_cl_ord_id": event.orig_cl_ord_id.to_string(),
        "session_id": event.session_id.0,
        "firm_id": event.firm_id.0,
        "account_id": event.account_id.0,
        "side": format!("{:?}", event.side),
        "ord_type": format!("{:?}", event.ord_type),
        "time_in_force": format!("{:?}", event.time_in_force),
        "price": has_price(event.ord_type).then(|| price(event.price)),
        "stop_px": (event.stop_px != Price(0)).then(|| price(event.stop_px)),
        "order_qty": qty(event.order_qty),
        "leaves_qty": qty(event.leaves_qty),
        "cum_qty": qty(event.cum_qty),
        "reason": reason_json(event.reason),
        "transact_time": event.transact_time.0,
    });
    if event.exec_type == ExecType::Trade {
        object["match_id"] = event.match_id.0.into();
        object["last_px"] = price(event.last_px).into();
        object["last_qty"] = qty(event.last_qty).into();
        object["liquidity"] = format!("{:?}", event.liquidity).into();
    }
    object
}

/// A busted trade as a JSON object.
pub(crate) fn busted_json(instruments: &Instruments, bust: &TradeBusted) -> Value {
    let id = bust.instrument_id;
    json!({
        "report": "trade_busted",
        "symbol": instruments.symbol_json(id),
        "instrument_id": id.0,
        "order_id": bust.order_id.0,
        "match_id": bust.match_id.0,
        "account_id": bust.account_id.0,
        "side": format!("{:?}", bust.side),
        "last_qty": instruments.qty(id, bust.last_qty),
        "last_px": instruments.price(id, bust.last_px),
        "transact_time": bust.transact_time.0,
        "debt_cash": bust.debt_cash.0.to_string(),
        "debt_qty": bust.debt_qty.0,
    })
}

/// The debts of the account behind a bust, in words to append; empty for none.
pub(crate) fn debt_text(bust: &TradeBusted) -> String {
    let cash = (bust.debt_cash.0 > 0).then(|| format!("{} in cash", bust.debt_cash.0));
    let lots = (!bust.debt_qty.is_zero()).then(|| format!("{} lots", bust.debt_qty));
    let owed: Vec<_> = [cash, lots].into_iter().flatten().collect();
    if owed.is_empty() {
        return String::new();
    }
    format!("; account {} owes {}", bust.account_id, owed.join(" and "))
}

fn rejected_json(instruments: &Instruments, rejected: &RequestRejected) -> Value {
    json!({
        "report": "request_rejected",
        "symbol": instruments.symbol_json(rejected.instrument_id),
        "order_id": rejected.order_id.0,
        "cl_ord_id": rejected.cl_ord_id.to_string(),
        "orig_cl_ord_id": rejected.orig_cl_ord_id.to_string(),
        "session_id": rejected.session_id.0,
        "reason": reason_json(rejected.reason),
        "transact_time": rejected.transact_time.0,
    })
}
