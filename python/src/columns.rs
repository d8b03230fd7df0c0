//! Rows as Arrow columns, exported by Arrow's C data interface in PyCapsules, so that any library
//! with that interface (pyarrow, polars, DuckDB, pandas) takes them without a copy, and none is
//! required.
//!
//! Codes are dictionaries of their names; times are timestamps in UTC, null when the row has none.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampNanosecondBuilder, UInt8Builder,
    UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, StructArray,
};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use weir_types::{ExecType, Nanos, OrdStatus, OrdType, Reason, Side, TimeInForce};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;

use crate::errors::Failure;

/// The columns of a batch.
#[derive(Debug)]
pub struct Columns {
    batch: RecordBatch,
}

impl Columns {
    /// Builds the columns from blocks of rows and their attributes.
    ///
    /// # Errors
    /// `ProtocolError` for a block that does not decode.
    pub fn of(blocks: &[u8], attributes: &[&[u8]]) -> PyResult<Columns> {
        let rows: Result<Vec<OrderRow>, _> =
            blocks.chunks_exact(OrderRow::BLOCK_LENGTH).map(OrderRow::decode_block).collect();
        let rows = rows.map_err(|error| Failure::new("ProtocolError", error.to_string()))?;
        let mut all = numbers(&rows);
        all.extend(moments(&rows));
        all.extend(names(&rows));
        let mut beside = BinaryBuilder::new();
        attributes.iter().for_each(|bytes| beside.append_value(bytes));
        all.push(("attributes", Arc::new(beside.finish())));
        RecordBatch::try_from_iter(all).map(|batch| Columns { batch }).map_err(broken)
    }

    /// The schema, in a capsule.
    pub fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The columns, in a capsule that owns them.
    pub fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let array = StructArray::from(self.batch.clone()).to_data();
        PyCapsule::new_with_value(py, FFI_ArrowArray::new(&array), c"arrow_array")
    }
}

fn broken(error: ArrowError) -> PyErr {
    Failure::new("WeirError", error.to_string()).raise()
}

type NamedColumn = (&'static str, ArrayRef);

macro_rules! columns_of {
    ($rows:ident, $builder:ident: $($field:ident)*) => {
        vec![$({
            let mut column = $builder::with_capacity($rows.len());
            $rows.iter().for_each(|row| column.append_value(row.$field.0));
            (stringify!($field), Arc::new(column.finish()) as ArrayRef)
        }),*]
    };
}

fn numbers(rows: &[OrderRow]) -> Vec<NamedColumn> {
    let mut all: Vec<NamedColumn> = columns_of!(rows, UInt64Builder: seq rec order_id order_qty
        leaves_qty cum_qty last_qty display_qty);
    all.extend::<Vec<NamedColumn>>(columns_of!(rows, Int64Builder: price stop_px last_px));
    all.extend::<Vec<NamedColumn>>(columns_of!(rows, UInt32Builder: session_id firm_id account_id
        instrument_id));
    all.extend::<Vec<NamedColumn>>(columns_of!(rows, UInt16Builder: partition_id));
    all.extend::<Vec<NamedColumn>>(columns_of!(rows, UInt8Builder: exec_inst flags));
    let mut merged = UInt32Builder::with_capacity(rows.len());
    rows.iter().for_each(|row| merged.append_value(row.merged_count));
    all.push(("merged_count", Arc::new(merged.finish())));
    all
}

fn moments(rows: &[OrderRow]) -> Vec<NamedColumn> {
    let column = |of: fn(&OrderRow) -> Nanos| -> ArrayRef {
        let mut column = TimestampNanosecondBuilder::with_capacity(rows.len());
        for row in rows {
            let time = i64::try_from(of(row).0).ok().filter(|time| *time != 0);
            column.append_option(time);
        }
        Arc::new(column.finish().with_timezone("UTC"))
    };
    vec![
        ("transact_time", column(|row| row.transact_time)),
        ("created_time", column(|row| row.created_time)),
        ("expire_time", column(|row| row.expire_time)),
    ]
}

fn names(rows: &[OrderRow]) -> Vec<NamedColumn> {
    let mut texts = StringBuilder::new();
    rows.iter().for_each(|row| texts.append_value(row.cl_ord_id.to_string()));
    let mut reasons = StringBuilder::new();
    for row in rows {
        match row.reason {
            Reason::None => reasons.append_null(),
            reason => reasons.append_value(format!("{reason:?}")),
        }
    }
    vec![
        ("cl_ord_id", Arc::new(texts.finish())),
        ("side", coded(rows, Side::ALL, |row| row.side)),
        ("ord_type", coded(rows, OrdType::ALL, |row| row.ord_type)),
        ("time_in_force", coded(rows, TimeInForce::ALL, |row| row.time_in_force)),
        ("exec_type", coded(rows, ExecType::ALL, |row| row.exec_type)),
        ("ord_status", coded(rows, OrdStatus::ALL, |row| row.ord_status)),
        ("reason", Arc::new(reasons.finish())),
    ]
}

/// Builds a column of codes: each row's index in the list of all codes.
fn coded<C: Copy + Eq + Debug>(rows: &[OrderRow], all: &[C], of: fn(&OrderRow) -> C) -> ArrayRef {
    let place = |code: C| all.iter().position(|known| *known == code);
    let keys: Int8Array =
        rows.iter().map(|row| place(of(row)).and_then(|at| i8::try_from(at).ok())).collect();
    let names: StringArray = all.iter().map(|code| Some(format!("{code:?}"))).collect();
    let column = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(names));
    Arc::new(column.expect("each key is a place in the list"))
}
