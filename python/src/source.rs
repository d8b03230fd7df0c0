//! A writer of an outside core's orders, for Python: numbered batches, sent again until they are
//! acknowledged.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use weir_client::source::PushError;
use weir_client::{SourceConfig, SourceEvent, SourceWriter};
use weir_types::{Epoch, PartitionId, Rec, Seq};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::ingest::BatchFlags;

use crate::endpoint::Endpoint;
use crate::errors::{Failure, name_of};
use crate::fields::to_dict;

/// The longest wait without a check for signals.
const SLICE: Duration = Duration::from_millis(50);

/// The parameters of an epoch, made by `weir.source`.
#[derive(Debug, FromPyObject)]
pub struct EpochSettings {
    source: u16,
    epoch: u32,
    full_resend: bool,
    /// Epoch, seq and rec of the last place that is still valid.
    valid_to: Option<(u32, u64, u64)>,
    unacknowledged_max: usize,
}

/// The writer of one source.
#[pyclass(frozen, module = "weir._weir")]
pub struct Writer {
    writer: Mutex<SourceWriter>,
    endpoint: Endpoint,
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, SourceWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(endpoint: &Endpoint, settings: &EpochSettings) -> PyResult<SourceConfig> {
        let session_id = endpoint.session()?.session_id;
        let (source_id, epoch) = (PartitionId(settings.source), Epoch(settings.epoch));
        let place = |(epoch, seq, rec)| (Epoch(epoch), Seq(seq), Rec(rec));
        Ok(SourceConfig {
            full_resend: settings.full_resend,
            valid_to: settings.valid_to.map(place),
            unacknowledged_max: settings.unacknowledged_max,
            ..SourceConfig::full(session_id, source_id, epoch)
        })
    }
}

#[pymethods]
impl Writer {
    /// Creates a writer that connects with the first `poll`.
    #[new]
    fn new(endpoint: Endpoint, settings: EpochSettings) -> PyResult<Writer> {
        let config = Writer::config(&endpoint, &settings)?;
        let writer = SourceWriter::new(endpoint.target()?, endpoint.session()?, config);
        Ok(Writer { writer: Mutex::new(writer), endpoint })
    }

    /// Queues a batch: blocks of rows back to back, and the attributes of each row or none at all.
    /// Returns its number, or None when too much is unacknowledged.
    fn push(
        &self,
        py: Python<'_>,
        blocks: &[u8],
        attributes: Vec<PyBackedBytes>,
        flags: u8,
    ) -> PyResult<Option<u64>> {
        let rows = rows_of(blocks, &attributes)?;
        let pushed = py.detach(|| self.lock().push(&rows, BatchFlags(flags)));
        match pushed {
            Ok(batch_no) => Ok(Some(batch_no.0)),
            Err(PushError::Full { .. }) => Ok(None),
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    /// Sends, and waits up to `timeout` seconds for events; returns them.
    fn poll<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO);
        let begun = Instant::now();
        let mut events = Vec::new();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let polled =
                py.detach(|| self.lock().poll(left.min(SLICE), |event| events.push(event)));
            polled.map_err(Failure::from)?;
            if !events.is_empty() || left.is_zero() {
                return events.iter().map(|event| tell(py, event)).collect();
            }
            py.check_signals()?;
        }
    }

    /// The number of unacknowledged batches.
    #[getter]
    fn unacknowledged(&self) -> usize {
        self.lock().batches().unacknowledged_count()
    }

    /// True while the source is open.
    #[getter]
    fn is_open(&self) -> bool {
        self.lock().batches().is_open()
    }

    /// Starts another epoch; batches of the one before are discarded.
    fn begin(&self, settings: EpochSettings) -> PyResult<()> {
        let config = Writer::config(&self.endpoint, &settings)?;
        self.lock().begin(config);
        Ok(())
    }

    /// Repeats the request to open the source, after a refusal whose cause is gone.
    fn open_again(&self) {
        self.lock().open_again();
    }

    /// The error that ended the last connection, returned once; None if there is none.
    fn take_failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let failure = Failure::from(self.lock().take_failure()?);
        Some(failure.raise().into_value(py).into_any())
    }
}

fn rows_of<'a>(
    blocks: &[u8],
    attributes: &'a [PyBackedBytes],
) -> PyResult<Vec<(OrderRow, &'a [u8])>> {
    let chunks = blocks.chunks_exact(OrderRow::BLOCK_LENGTH);
    if !chunks.remainder().is_empty() {
        return Err(PyValueError::new_err("the rows are not whole rows"));
    }
    if !attributes.is_empty() && attributes.len() != chunks.len() {
        let (rows, beside) = (chunks.len(), attributes.len());
        let message = format!("{rows} rows have {beside} attributes: want one for each, or none");
        return Err(PyValueError::new_err(message));
    }
    let row = |(index, block): (usize, &[u8])| {
        let row = OrderRow::decode_block(block)
            .map_err(|error| PyValueError::new_err(format!("row {}: {error}", index + 1)))?;
        Ok((row, attributes.get(index).map_or(&[][..], |beside| beside)))
    };
    chunks.enumerate().map(row).collect()
}

/// Converts an event to a dictionary with its name as `type`.
fn tell<'py>(py: Python<'py>, event: &SourceEvent) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match event {
        SourceEvent::Opened { head, next, level } => {
            dict.set_item("type", "Opened")?;
            dict.set_item("head", (head.0.0, head.1.0))?;
            dict.set_item("next", next.0)?;
            dict.set_item("level", format!("{level:?}"))?;
        }
        SourceEvent::Acknowledged(batch_no) => {
            dict.set_item("type", "Acknowledged")?;
            dict.set_item("batch_no", batch_no.0)?;
        }
        SourceEvent::SentAgain { from } => {
            dict.set_item("type", "SentAgain")?;
            dict.set_item("batch_no", from.0)?;
        }
        SourceEvent::Refused(reject) => {
            let dict = to_dict(py, reject)?;
            dict.set_item("type", "Refused")?;
            dict.set_item("reason", name_of(reject.reason))?;
            return Ok(dict);
        }
        SourceEvent::NotOurs => dict.set_item("type", "NotOurs")?,
    }
    Ok(dict)
}
