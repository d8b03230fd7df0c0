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
pub(crate) mod report;

use anyhow::Context;
use weir_client::status::InstrumentStatus;
use weir_runtime::civil::utc;
use weir_types::{Nanos, Price, Qty};

use super::instruments::Instruments;
use super::units;

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
