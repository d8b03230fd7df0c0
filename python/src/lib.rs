//! `weir._weir`: the native extension of the Python package `weir`.
//!
//! It is a layer over `weir-client` without any protocol logic of its own: every fetch, token,
//! batch and acknowledgement is that crate's. Its calls wait without the interpreter's lock, check
//! for signals meanwhile, and return rows as received, for NumPy to map a type onto, or as Arrow
//! columns.

mod batch;
mod columns;
mod endpoint;
mod errors;
mod fields;
mod market;
mod orders;
mod service;
mod source;
mod subscription;
mod trading;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_types::{
    AnySide, ExecType, FeedState, MarketContent, MarketPolicy, OrdStatus, OrdType, OrderAction,
    PhaseCause, Reason, Side, TimeInForce, TradingState,
};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::ingest::BATCH_ROW_COUNT_MAX;
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

/// The module's contents.
#[pymodule]
fn _weir(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("ROW_LEN", OrderRow::BLOCK_LENGTH)?;
    module.add("BATCH_ROWS_MAX", BATCH_ROW_COUNT_MAX)?;
    module.add("ATTRIBUTES_LEN_MAX", ATTRIBUTES_LEN_MAX)?;
    module.add("ROW_FIELDS", row_fields(module.py())?)?;
    module.add("CODES", codes(module.py())?)?;
    module.add("MARKET_LAYOUTS", market::layouts(module.py())?)?;
    module.add_class::<batch::OrderBatch>()?;
    module.add_class::<service::Service>()?;
    module.add_class::<orders::OrderFollower>()?;
    module.add_class::<trading::Trader>()?;
    module.add_class::<source::Writer>()?;
    module.add_class::<subscription::Reader>()?;
    module.add_class::<subscription::Message>()?;
    module.add_class::<subscription::Sender>()?;
    module.add_class::<subscription::Manager>()?;
    module.add_class::<market::MarketSession>()?;
    Ok(())
}

/// Returns the name, offset, size and schema type of each field of a row.
fn row_fields(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let fields = OrderRow::FIELDS;
    PyList::new(py, fields.iter().map(|f| (f.name, f.offset, f.size, f.schema_type)))
}

/// Returns the names and codes of each enumeration.
fn codes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    macro_rules! add {
        ($($type:ident)*) => {$(
            let values: Vec<(String, u16)> =
                $type::ALL.iter().map(|v| (format!("{v:?}"), u16::from(v.code()))).collect();
            all.set_item(stringify!($type), values)?;
        )*};
    }
    add!(Side OrdType TimeInForce ExecType OrdStatus Reason);
    add!(AnySide FeedState MarketContent MarketPolicy OrderAction PhaseCause TradingState);
    Ok(all)
}
