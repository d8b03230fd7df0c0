//! A follower of order state, for Python to iterate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use weir_client::FollowerConfig;
use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, SessionId};

use crate::batch::OrderBatch;
use crate::errors::{Failure, name_of};
use crate::service::{FollowerEvent, Service, Shared};

/// The parameters of a follower, made by `weir.client`.
#[derive(FromPyObject)]
pub struct Question {
    firm: u32,
    account: u32,
    instrument: u32,
    live: bool,
    source: u16,
    rows_max: u32,
    rows_min: u32,
    wait_max_us: u32,
    credit: u32,
    token: PyBackedBytes,
    min_token: PyBackedBytes,
    min_wait_us: u32,
}

impl Question {
    fn config(&self) -> FollowerConfig {
        FollowerConfig {
            firm_id: FirmId(self.firm),
            account_id: AccountId(self.account),
            instrument_id: InstrumentId(self.instrument),
            live_only: self.live,
            source_id: PartitionId(self.source),
            rows_max: self.rows_max,
            rows_min: self.rows_min,
            wait_max_us: self.wait_max_us,
            credit: self.credit.max(1),
            ..FollowerConfig::new(SessionId::NONE)
        }
    }
}

/// A follower's queue.
#[pyclass(frozen, module = "weir._weir")]
pub struct OrderFollower {
    shared: Arc<Shared>,
    handle: u32,
}

#[pymethods]
impl OrderFollower {
    /// Sends the first fetch.
    #[new]
    fn new(py: Python<'_>, service: &Service, question: Question) -> OrderFollower {
        let shared = service.shared.clone();
        let handle = py.detach(|| {
            let mut io = shared.io();
            let (token, min_token) = (question.token.to_vec(), question.min_token.to_vec());
            let handle = io.follow_from(question.config(), token, min_token, question.min_wait_us);
            // The lock on the connection is still held, so no page can arrive before this.
            shared.add(handle);
            handle
        });
        OrderFollower { shared, handle }
    }

    /// Waits up to `timeout` seconds without checking for signals; True when there is something to
    /// take.
    fn wait(&self, py: Python<'_>, timeout: f64) -> bool {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO);
        let begun = Instant::now();
        py.detach(|| {
            loop {
                let left = limit.saturating_sub(begun.elapsed());
                if self.shared.wait_for(self.handle, left) {
                    return true;
                }
                if left.is_zero() {
                    return false;
                }
            }
        })
    }

    /// The next item: a batch, a pair (reason, token) of a resync, or None.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.shared.take(self.handle)? {
            None => None,
            Some(FollowerEvent::Page(page)) => {
                Some(Bound::new(py, OrderBatch::new(py, page)?)?.into_any())
            }
            Some(FollowerEvent::Resync(reason, token)) => {
                let pair = (name_of(reason), PyBytes::new(py, &token));
                Some(pair.into_pyobject(py)?.into_any())
            }
            Some(FollowerEvent::Ended(failure)) => return Err(failure.raise()),
        })
    }

    /// As `take`, but waits up to `timeout` seconds, or forever, checking for signals.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let begun = Instant::now();
        loop {
            if let Some(told) = self.take(py)? {
                return Ok(told);
            }
            let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Err(Failure::new("Timeout", "no batch in time").raise());
            }
            py.detach(|| self.shared.wait_for(self.handle, left));
            py.check_signals()?;
        }
    }

    /// Cancels the fetch and ends the follower.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.shared.remove(self.handle));
    }
}
