//! A session's own orders, for Python: requests out, their outcomes in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_client::request::{LimitOrder, Replace, cancel};
use weir_client::session::{Session, SessionEvent, Submit};
use weir_types::{
    AccountId, ClOrdId, ExecInst, InstrumentId, Nanos, OrdType, PartitionId, Price, Qty,
    SelfTradePrevention, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::NewOrder;

use crate::errors::Failure;
use crate::fields::to_dict;
use crate::service::{Service, Shared};

/// An order to be entered, made by `weir.client`.
#[derive(Debug, FromPyObject)]
pub struct Order {
    cl_ord_id: String,
    instrument: u32,
    account: u32,
    side: u8,
    ord_type: u8,
    time_in_force: u8,
    price: i64,
    stop_px: i64,
    qty: u64,
    min_qty: u64,
    display_qty: u64,
    expire_time: u64,
    post_only: bool,
    self_trade_prevention: u8,
}

fn name(text: &str) -> PyResult<ClOrdId> {
    ClOrdId::new(text).ok_or_else(|| {
        PyValueError::new_err(format!("{text:?}: want 1 to 16 printable characters, no space"))
    })
}

fn code<C>(value: Option<C>, field: &str, code: u8) -> PyResult<C> {
    value.ok_or_else(|| PyValueError::new_err(format!("{field} has no code {code}")))
}

impl Order {
    fn request(&self) -> PyResult<Request> {
        let order = LimitOrder {
            cl_ord_id: name(&self.cl_ord_id)?,
            instrument_id: InstrumentId(self.instrument),
            account_id: AccountId(self.account),
            side: code(Side::from_code(self.side), "side", self.side)?,
            price: Price(self.price),
            order_qty: Qty(self.qty),
            time_in_force: code(
                TimeInForce::from_code(self.time_in_force),
                "time_in_force",
                self.time_in_force,
            )?,
        };
        let prevention = self.self_trade_prevention;
        Ok(Request::NewOrder(NewOrder {
            ord_type: code(OrdType::from_code(self.ord_type), "ord_type", self.ord_type)?,
            stop_px: Price(self.stop_px),
            min_qty: Qty(self.min_qty),
            display_qty: Qty(self.display_qty),
            expire_time: Nanos(self.expire_time),
            exec_inst: if self.post_only { ExecInst::POST_ONLY } else { ExecInst::NONE },
            self_trade_prevention: code(
                SelfTradePrevention::from_code(prevention),
                "self_trade_prevention",
                prevention,
            )?,
            ..order.new_order()
        }))
    }
}

/// Returns the partition of a request: the named one, or the only one. The session keeps a request
/// by its partition, so that of several none is taken for granted.
fn chosen(named: u16, mut known: impl Iterator<Item = PartitionId>) -> Result<PartitionId, String> {
    if named != 0 {
        return Ok(PartitionId(named));
    }
    let first = known.next();
    let Some(second) = known.next() else { return Ok(first.unwrap_or(PartitionId(1))) };
    let of_all = first.into_iter().chain([second]).chain(known);
    let of_all: Vec<_> = of_all.map(|partition_id| partition_id.0.to_string()).collect();
    let of_all = of_all.join(", ");
    Err(format!("partition: the node has several ({of_all}): give that of the instrument"))
}

/// A session's requests and their outcomes.
#[pyclass(frozen, module = "weir._weir")]
pub struct Trader {
    shared: Arc<Shared>,
}

impl Trader {
    /// Sends a request to a partition, by default the node's only one; returns its number.
    fn submit(&self, py: Python<'_>, partition: u16, request: Request) -> PyResult<u64> {
        let submitted = py.detach(|| {
            let mut io = self.shared.io();
            let known = io.session().into_iter().flat_map(Session::partitions);
            let partition_id = chosen(partition, known.filter(|known| known.0 != 0))?;
            let submit = io.submit(partition_id, request);
            io.flush();
            Ok(submit)
        });
        let submitted = submitted.map_err(PyValueError::new_err::<String>)?;
        match submitted {
            Submit::Sent(number) => Ok(number.0),
            Submit::NotOpen => {
                Err(Failure::new("ConnectionLost", "the session is not open just now").raise())
            }
            Submit::Full => {
                Err(Failure::new("TooManyUnanswered", "too many requests have no answer").raise())
            }
        }
    }
}

#[pymethods]
impl Trader {
    /// Creates the trader of a service's session.
    #[new]
    fn new(service: &Service) -> Trader {
        Trader { shared: service.shared.clone() }
    }

    /// Enters an order.
    fn enter(&self, py: Python<'_>, partition: u16, order: Order) -> PyResult<u64> {
        self.submit(py, partition, order.request()?)
    }

    /// Cancels the order of this name.
    fn cancel(
        &self,
        py: Python<'_>,
        partition: u16,
        names: (String, String, u32),
    ) -> PyResult<u64> {
        let (cl_ord_id, orig_cl_ord_id, instrument) = names;
        let (cl_ord_id, orig) = (name(&cl_ord_id)?, name(&orig_cl_ord_id)?);
        self.submit(py, partition, cancel(cl_ord_id, orig, InstrumentId(instrument)))
    }

    /// Changes the price and the total quantity of the order of this name.
    fn replace(
        &self,
        py: Python<'_>,
        partition: u16,
        names: (String, String, u32),
        change: (i64, u64),
    ) -> PyResult<u64> {
        let (cl_ord_id, orig_cl_ord_id, instrument) = names;
        let (price, qty) = change;
        let replace = Replace {
            cl_ord_id: name(&cl_ord_id)?,
            orig_cl_ord_id: name(&orig_cl_ord_id)?,
            instrument_id: InstrumentId(instrument),
            price: Price(price),
            order_qty: Qty(qty),
        };
        self.submit(py, partition, replace.request())
    }

    /// The next event, waiting up to `timeout` seconds or forever; None if there is none in time.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let limit = timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let begun = Instant::now();
        loop {
            if let Some(event) = self.shared.take_event()? {
                return tell(py, &event).map(Some);
            }
            let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Ok(None);
            }
            py.detach(|| self.shared.wait_for_event(left));
            py.check_signals()?;
        }
    }
}

/// Converts an event to a dictionary whose `type` is the message's name; `answered` is the number
/// of the request of which it is the first answer.
fn tell<'py>(py: Python<'py>, event: &SessionEvent) -> PyResult<Bound<'py, PyDict>> {
    let (dict, answered) = match event {
        SessionEvent::Report { report, answered } => (to_dict(py, report)?, answered),
        SessionEvent::Rejected { rejected, answered } => (to_dict(py, rejected)?, answered),
        SessionEvent::Done { done, answered } => (to_dict(py, done)?, answered),
        SessionEvent::Refused { reject, answered } => (to_dict(py, reject)?, answered),
        SessionEvent::TradeBusted(bust) => (to_dict(py, bust)?, &None),
        SessionEvent::LoggedOut(logout) => (to_dict(py, logout)?, &None),
        SessionEvent::Opened { ack, .. } => (to_dict(py, ack)?, &None),
        SessionEvent::Heartbeat(heartbeat) => (to_dict(py, heartbeat)?, &None),
        SessionEvent::Challenged | SessionEvent::Repeated => (PyDict::new(py), &None),
    };
    dict.set_item("answered", answered.as_ref().map(|answered| answered.request_no.0))?;
    Ok(dict)
}
