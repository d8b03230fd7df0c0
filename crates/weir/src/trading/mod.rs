//! Trading by hand: orders, cancels, and the trades and positions that came of them.
//!
//! * [`entry`]: `weir order`, `weir cancel`, `weir mass-cancel`.
//! * [`history`]: `weir trades`, `weir positions`, from copies of reports.
//! * [`report`]: a report as a row of a table or as a JSON object.
//!
//! Symbols, prices and quantities are translated by the node's status page; prices and quantities
//! are decimals in both directions, exactly.

pub mod entry;
pub mod history;
mod report;

use std::collections::HashMap;

use anyhow::Context;
use weir_client::status::InstrumentStatus;
use weir_runtime::civil::utc;
use weir_types::{InstrumentId, Nanos, Price, Qty};

use super::endpoint::{Endpoint, decimal};
use super::units;

/// The node's instruments by identifier.
struct Instruments(HashMap<InstrumentId, InstrumentStatus>);

impl Instruments {
    fn fetch(endpoint: &Endpoint) -> anyhow::Result<Instruments> {
        let all = endpoint.status()?.instruments.into_iter();
        Ok(Instruments(all.map(|one| (one.instrument_id(), one)).collect()))
    }

    /// The symbol; the number of an instrument that the node defined after the page was read.
    fn symbol(&self, id: InstrumentId) -> String {
        match self.0.get(&id) {
            Some(one) => one.symbol.clone(),
            None if id.is_none() => String::new(),
            None => id.to_string(),
        }
    }

    fn price(&self, id: InstrumentId, price: Price) -> String {
        decimal(i128::from(price.0), self.0.get(&id).map_or(0, |one| one.price_exponent))
    }

    fn qty(&self, id: InstrumentId, qty: Qty) -> String {
        self.lots(id, i128::from(qty.0))
    }

    fn lots(&self, id: InstrumentId, lots: i128) -> String {
        decimal(lots, self.0.get(&id).map_or(0, |one| one.qty_exponent))
    }
}

/// A moment of UTC to the millisecond.
fn moment(at: Nanos) -> String {
    let seconds = utc(Nanos(at.0 - at.0 % 1_000_000_000));
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), at.0 / 1_000_000 % 1_000)
}

/// A decimal price as the instrument's mantissa.
fn parse_price(of: &InstrumentStatus, text: &str, what: &str) -> anyhow::Result<Price> {
    let price = units::decimal(text, of.price_exponent).map(Price);
    price.map_err(anyhow::Error::msg).with_context(|| format!("{what} {text}"))
}

/// A decimal quantity as the instrument's lots.
fn parse_qty(of: &InstrumentStatus, text: &str, what: &str) -> anyhow::Result<Qty> {
    let lots = units::decimal(text, of.qty_exponent)
        .and_then(|lots| u64::try_from(lots).map_err(|_| "a quantity is not negative".to_owned()));
    lots.map(Qty).map_err(anyhow::Error::msg).with_context(|| format!("{what} {text}"))
}
