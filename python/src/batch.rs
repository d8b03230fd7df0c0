//! A page of order state for Python: its header, its token, its rows as received.
//!
//! Rows stay the bytes of the wire, one block after another; NumPy maps its type onto them without
//! a copy, and Arrow's columns are built only on demand.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use weir_client::clock::unix_time;
use weir_types::Nanos;
use weir_wire::Message;
use weir_wire::delivery::{OrderPage, OrderRow, PageFlags, SourceState};
use weir_wire::rows::Rows;

use crate::columns;

/// A page, copied from the connection.
#[derive(Debug)]
pub struct Page {
    head: OrderPage,
    token: Vec<u8>,
    /// The rows' blocks, each of [`OrderRow::BLOCK_LENGTH`] bytes.
    blocks: Vec<u8>,
    /// All rows' attributes, back to back.
    attributes: Vec<u8>,
    /// The end offset of each row's attributes.
    ends: Vec<usize>,
    sources: Vec<SourceState>,
    received_time: Nanos,
}

impl Page {
    /// Copies a page whose rows are validated.
    pub fn new(head: &OrderPage, token: &[u8], mut rows: Rows<'_>, states: &[SourceState]) -> Page {
        let count = rows.len();
        let mut blocks = Vec::with_capacity(count * OrderRow::BLOCK_LENGTH);
        let (mut attributes, mut ends) = (Vec::new(), Vec::with_capacity(count));
        while let Some((block, beside)) = rows.next_raw() {
            // Blocks of a later version are longer; their further fields are unknown here.
            blocks.extend_from_slice(&block[..OrderRow::BLOCK_LENGTH]);
            attributes.extend_from_slice(beside);
            ends.push(attributes.len());
        }
        let (token, sources) = (token.to_vec(), states.to_vec());
        let received_time = unix_time();
        Page { head: *head, token, blocks, attributes, ends, sources, received_time }
    }

    /// The attributes of a row.
    fn attributes_of(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.attributes[begin..self.ends[index]]
    }
}

/// Orders in their current state, in the order of their changes.
#[pyclass(frozen, module = "weir._weir")]
pub struct OrderBatch {
    page: Page,
    blocks: Py<PyBytes>,
    columns: OnceLock<columns::Columns>,
}

impl OrderBatch {
    /// Makes the Python object of a page.
    pub fn new(py: Python<'_>, mut page: Page) -> PyResult<OrderBatch> {
        let blocks = PyBytes::new(py, &page.blocks).unbind();
        page.blocks = Vec::new();
        Ok(OrderBatch { page, blocks, columns: OnceLock::new() })
    }

    fn columns(&self, py: Python<'_>) -> PyResult<&columns::Columns> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let attributes: Vec<&[u8]> =
            (0..self.page.ends.len()).map(|index| self.page.attributes_of(index)).collect();
        let made = columns::Columns::of(self.blocks.as_bytes(py), &attributes)?;
        Ok(self.columns.get_or_init(|| made))
    }
}

#[pymethods]
impl OrderBatch {
    fn __len__(&self) -> usize {
        self.page.ends.len()
    }

    fn __repr__(&self) -> String {
        let online = if self.online() { ", online" } else { "" };
        format!("<OrderBatch of {} rows{online}>", self.page.ends.len())
    }

    /// The rows' bytes, as received.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.blocks.clone_ref(py)
    }

    /// The rows as a structured array of NumPy that shares the batch's memory.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = py.import("weir.rows")?.getattr("ORDER_DTYPE")?;
        py.import("numpy")?.call_method1("frombuffer", (self.blocks.bind(py), kind))
    }

    /// The token after this batch, as bytes.
    #[getter]
    fn token<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(py, &self.page.token);
        py.import("weir.token")?.getattr("Token")?.call1((bytes,))
    }

    /// The attributes of each row from its source; mostly empty.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let count = self.page.ends.len();
        PyList::new(py, (0..count).map(|i| PyBytes::new(py, self.page.attributes_of(i))))
    }

    /// The time of the oldest change in the batch, in nanoseconds since 1970; 0 without rows.
    #[getter]
    fn oldest_created(&self) -> u64 {
        self.page.head.oldest_transact_time.0
    }

    /// The time at which the fetch reached the store, in nanoseconds since 1970, by the server's
    /// clock.
    #[getter]
    fn asked_time(&self) -> u64 {
        self.page.head.asked_time.0
    }

    /// The time at which the page was made, in nanoseconds since 1970, by the server's clock.
    #[getter]
    fn served_time(&self) -> u64 {
        self.page.head.served_time.0
    }

    /// The time at which the page was read from the connection, in nanoseconds since 1970, by this
    /// clock.
    #[getter]
    fn received_time(&self) -> u64 {
        self.page.received_time.0
    }

    /// The number of changes left out because a later change of the same order is in the batch.
    #[getter]
    fn merged(&self) -> u32 {
        self.page.head.merged_count
    }

    /// The batch reaches the newest state: what follows is live.
    #[getter]
    fn online(&self) -> bool {
        self.page.head.flags.contains(PageFlags::ONLINE)
    }

    /// The batch ends among changes that share one `seq`.
    #[getter]
    fn partial(&self) -> bool {
        self.page.head.flags.contains(PageFlags::PARTIAL)
    }

    /// A source behind the service did not answer; `sources` has the status of each.
    #[getter]
    fn source_away(&self) -> bool {
        self.page.head.flags.contains(PageFlags::SOURCE_AWAY)
    }

    /// The status of the sources, with their numbers, if a router reported it.
    #[getter]
    fn sources(&self) -> Vec<(u16, String)> {
        let states = self.page.sources.iter();
        states.map(|state| (state.source_id.0, format!("{:?}", state.status))).collect()
    }

    /// Arrow's PyCapsule interface: the schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.columns(py)?.schema(py)
    }

    /// Arrow's PyCapsule interface: the rows as a struct of columns.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // A producer may leave the cast to another schema to the consumer.
        drop(requested_schema);
        let columns = self.columns(py)?;
        PyTuple::new(py, [columns.schema(py)?, columns.array(py)?])
    }
}
