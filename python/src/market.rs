//! Market data for Python: a gateway's messages gathered into batches, the messages of each kind as
//! blocks of the wire, back to back, for NumPy to map a type onto.
//!
//! The connection is read only while a batch is being waited for, so that a slow program is a slow
//! subscriber for the gateway too, which then applies the subscriptions' policies. The data
//! gathered here is limited to one batch.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use weir_client::ClientError;
use weir_client::clock::unix_time;
use weir_client::market::{MarketClient, Wanted};
use weir_types::{InstrumentId, MarketContent, MarketPolicy, Nanos, Reason};
use weir_wire::Message;
use weir_wire::group::Group;
use weir_wire::market::{
    MarketChannel, MarketEnded, MarketGap, MarketLevel, MarketLevels, MarketOrder, MarketOrders,
    MarketQuote, MarketRestingOrder, MarketStatistics, MarketStatus, MarketTrade, PATTERN_LEN_MAX,
};
use weir_wire::market_dialogue::MarketMessage;

use crate::endpoint::Endpoint;
use crate::errors::Failure;

/// The longest wait without a check for signals, and the longest that a thread holds the
/// connection.
const SLICE: Duration = Duration::from_millis(25);
/// The number of messages after which a batch is returned even if more are available.
const MESSAGES_MAX: usize = 65_536;

/// The kinds of messages, by their indices in a batch.
const QUOTES: usize = 0;
const TRADES: usize = 1;
const LEVELS: usize = 2;
const ORDERS: usize = 3;
const CHANGES: usize = 4;
const STATISTICS: usize = 5;
const STATUSES: usize = 6;
const GAPS: usize = 7;
const CHANNELS: usize = 8;
/// Entries of groups: behind the kinds, since they are not messages.
const LEVEL_ROWS: usize = 9;
const ORDER_ROWS: usize = 10;

/// Their names in Python.
const NAMES: [&str; 11] = [
    "quotes",
    "trades",
    "levels",
    "orders",
    "changes",
    "statistics",
    "statuses",
    "gaps",
    "channels",
    "level_rows",
    "order_rows",
];

/// Returns the layout of each kind: length, and name, offset, size and schema type of each field.
pub fn layouts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    macro_rules! add {
        ($($place:ident $type:ident;)*) => {$(
            let fields = $type::FIELDS.iter().map(|f| (f.name, f.offset, f.size, f.schema_type));
            all.set_item(NAMES[$place], ($type::BLOCK_LENGTH, PyList::new(py, fields)?))?;
        )*};
    }
    add! {
        QUOTES MarketQuote;
        TRADES MarketTrade;
        LEVELS MarketLevels;
        ORDERS MarketOrders;
        CHANGES MarketOrder;
        STATISTICS MarketStatistics;
        STATUSES MarketStatus;
        GAPS MarketGap;
        CHANNELS MarketChannel;
        LEVEL_ROWS MarketLevel;
        ORDER_ROWS MarketRestingOrder;
    }
    Ok(all)
}

/// A batch being gathered.
#[derive(Debug, Default)]
struct Draft {
    /// The kind of each message, in order of receipt.
    kinds: Vec<u8>,
    blocks: [Vec<u8>; NAMES.len()],
    /// The end index of each message's entries, among all of its kind.
    level_ends: Vec<u64>,
    order_ends: Vec<u64>,
    received_time: Nanos,
}

impl Draft {
    fn put<M: Message>(&mut self, kind: usize, message: &M) {
        self.kinds.push(u8::try_from(kind).expect("there are few kinds"));
        message.encode_block(&mut self.blocks[kind]);
    }

    fn put_entries<E: Message>(&mut self, rows: usize, entries: &Group<'_, E>) -> u64 {
        for entry in entries.clone().flatten() {
            entry.encode_block(&mut self.blocks[rows]);
        }
        (self.blocks[rows].len() / E::BLOCK_LENGTH) as u64
    }

    fn take(&mut self, message: &MarketMessage<'_>) {
        match message {
            MarketMessage::Quote(m) => self.put(QUOTES, m),
            MarketMessage::Trade(m) => self.put(TRADES, m),
            MarketMessage::Levels(m, levels) => {
                self.put(LEVELS, m);
                let end = self.put_entries(LEVEL_ROWS, levels);
                self.level_ends.push(end);
            }
            MarketMessage::Orders(m, orders) => {
                self.put(ORDERS, m);
                let end = self.put_entries(ORDER_ROWS, orders);
                self.order_ends.push(end);
            }
            MarketMessage::Order(m) => self.put(CHANGES, m),
            MarketMessage::Statistics(m) => self.put(STATISTICS, m),
            MarketMessage::Status(m) => self.put(STATUSES, m),
            MarketMessage::Gap(m) => self.put(GAPS, m),
            MarketMessage::Channel(m) => self.put(CHANNELS, m),
            // Their content is available by name.
            MarketMessage::Instrument(..)
            | MarketMessage::Subscribed(_)
            | MarketMessage::Ended(_) => {}
        }
    }

    /// Converts to Python: bytes by name.
    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (name, blocks) in NAMES.iter().zip(&self.blocks) {
            dict.set_item(name, PyBytes::new(py, blocks))?;
        }
        dict.set_item("kinds", PyBytes::new(py, &self.kinds))?;
        dict.set_item("level_ends", self.level_ends)?;
        dict.set_item("order_ends", self.order_ends)?;
        dict.set_item("received_time", self.received_time.0)?;
        Ok(dict)
    }
}

/// A connection and the messages received on it.
struct Inner {
    client: MarketClient,
    draft: Draft,
    /// Intervals in force at the gateway, by subscription, in nanoseconds.
    intervals: BTreeMap<u32, u64>,
    /// Refused subscriptions, with the reasons.
    refused: Vec<MarketEnded>,
    /// The error that ended the feed for good.
    failed: Option<Failure>,
    /// The error that ended the last connection.
    lost: Option<Failure>,
}

impl Inner {
    /// Waits for messages; returns true when there is something to take.
    fn poll(&mut self, timeout: Duration) -> bool {
        let Inner { client, draft, intervals, refused, .. } = self;
        client.poll(timeout, |message| {
            draft.take(message);
            match message {
                MarketMessage::Subscribed(done) => {
                    intervals.insert(done.handle, done.interval.0);
                }
                MarketMessage::Ended(ended) => {
                    intervals.remove(&ended.handle);
                    let is_refusal = ended.reason != Reason::None;
                    refused.extend(is_refusal.then_some(*ended));
                }
                _ => {}
            }
        });
        if let Some(error) = client.take_failure() {
            let is_final = is_final(&error);
            let failure = Failure::from(error);
            self.failed = is_final.then(|| failure.clone()).or(self.failed.take());
            self.lost = Some(failure);
        }
        self.has_something()
    }

    fn has_something(&self) -> bool {
        !self.draft.kinds.is_empty() || !self.refused.is_empty() || self.failed.is_some()
    }

    /// Returns the messages gathered and available; without any, the pending error.
    fn take(&mut self) -> Result<Option<Draft>, Failure> {
        while !self.draft.kinds.is_empty() && self.draft.kinds.len() < MESSAGES_MAX {
            let before = self.draft.kinds.len();
            self.poll(Duration::ZERO);
            if self.draft.kinds.len() == before {
                break;
            }
        }
        if !self.draft.kinds.is_empty() {
            let draft = std::mem::take(&mut self.draft);
            return Ok(Some(Draft { received_time: unix_time(), ..draft }));
        }
        if let Some(ended) = self.refused.pop() {
            let MarketEnded { handle, reason, slots_needed, slots_max, .. } = ended;
            let mut message = format!("subscription {handle} was refused: {}", reason.text());
            if slots_max > 0 {
                message += &format!(": {slots_needed} of {slots_max}");
            }
            return Err(Failure::new("Refused", message).because(reason));
        }
        self.failed.clone().map_or(Ok(None), Err)
    }
}

/// Returns true if reconnecting is pointless: the gateway refuses the session, or has ended it by
/// the session's own policy.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::LogonRejected { reason, .. } => {
            matches!(reason, Reason::UnknownKey | Reason::KeyExpired | Reason::NotEntitled)
        }
        ClientError::LoggedOut { reason, .. } => *reason == Reason::SlowConsumer,
        _ => false,
    }
}

/// A subscription's parameters, made by `weir.market`.
#[derive(FromPyObject)]
pub struct SubscriptionSpec {
    pattern: String,
    content: u8,
    depth: u16,
    /// A policy's code; None for the default of the content.
    policy: Option<u8>,
    interval_ns: u64,
    urgent_move_ppm: u32,
    queue_len_max: u32,
}

impl SubscriptionSpec {
    fn wanted(&self) -> PyResult<Wanted> {
        let unknown = |what: &str| PyValueError::new_err(format!("there is no such {what}"));
        if self.pattern.len() > PATTERN_LEN_MAX {
            let message = format!("a pattern of more than {PATTERN_LEN_MAX} bytes");
            return Err(PyValueError::new_err(message));
        }
        let content = MarketContent::from_code(self.content).ok_or_else(|| unknown("content"))?;
        let mut wanted = Wanted {
            depth: self.depth,
            interval: Duration::from_nanos(self.interval_ns),
            urgent_move_ppm: self.urgent_move_ppm,
            queue_len_max: self.queue_len_max,
            ..Wanted::new(&self.pattern, content)
        };
        if let Some(policy) = self.policy {
            wanted.policy = MarketPolicy::from_code(policy).ok_or_else(|| unknown("policy"))?;
        }
        Ok(wanted)
    }
}

/// A session at a gateway.
#[pyclass(frozen, module = "weir._weir")]
pub struct MarketSession(Mutex<Option<Inner>>);

impl MarketSession {
    fn lock(&self) -> MutexGuard<'_, Option<Inner>> {
        // The data is consistent between any two statements, so a poisoned lock is safe.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut Inner) -> T + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.lock().as_mut().map(what));
        done.ok_or_else(|| Failure::new("Closed", "market data was closed").raise())
    }
}

#[pymethods]
impl MarketSession {
    /// Connects at once, so that a wrong address or key is reported here.
    #[new]
    fn new(py: Python<'_>, endpoint: Endpoint) -> PyResult<MarketSession> {
        let mut inner = Inner {
            client: MarketClient::new(endpoint.target()?, endpoint.session()?),
            draft: Draft::default(),
            intervals: BTreeMap::new(),
            refused: Vec::new(),
            failed: None,
            lost: None,
        };
        py.detach(|| inner.poll(Duration::ZERO));
        inner.lost.take().map_or(Ok(()), Err)?;
        Ok(MarketSession(Mutex::new(Some(inner))))
    }

    /// Subscribes; returns the subscription's handle.
    fn subscribe(&self, py: Python<'_>, spec: SubscriptionSpec) -> PyResult<u32> {
        let wanted = spec.wanted()?;
        self.with(py, |inner| inner.client.subscribe(wanted))
    }

    /// Ends a subscription.
    fn unsubscribe(&self, py: Python<'_>, handle: u32) -> PyResult<()> {
        self.with(py, |inner| inner.client.unsubscribe(handle))
    }

    /// Changes a subscription's interval.
    fn set_interval(&self, py: Python<'_>, handle: u32, interval_ns: u64) -> PyResult<()> {
        let interval = Duration::from_nanos(interval_ns);
        self.with(py, |inner| inner.client.set_interval(handle, interval))
    }

    /// Intervals in force at the gateway in nanoseconds, by subscription.
    #[getter]
    fn intervals(&self, py: Python<'_>) -> PyResult<BTreeMap<u32, u64>> {
        self.with(py, |inner| inner.intervals.clone())
    }

    /// Symbol, price exponent, round lot and previous closing price of an instrument that a message
    /// has named.
    fn instrument(&self, py: Python<'_>, id: u32) -> PyResult<Option<(String, i8, u64, i64)>> {
        self.with(py, |inner| {
            let one = inner.client.instrument(InstrumentId(id))?;
            let message = &one.message;
            let lot = message.round_lot.0;
            Some((one.symbol.clone(), one.price_exponent, lot, message.previous_close.0))
        })
    }

    /// Waits up to `timeout` seconds without checking for signals; True when there is something to
    /// take.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO);
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let is_there =
                self.with(py, |inner| inner.has_something() || inner.poll(left.min(SLICE)))?;
            if is_there || left.is_zero() {
                return Ok(is_there);
            }
        }
    }

    /// The available messages, as bytes by name; None for none.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let taken = self.with(py, Inner::take)??;
        taken.map(|draft| draft.into_dict(py)).transpose()
    }

    /// As `take`, but waits up to `timeout` seconds, or forever, checking for signals.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let begun = Instant::now();
        loop {
            if let Some(taken) = self.take(py)? {
                return Ok(taken);
            }
            let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Err(Failure::new("Timeout", "no market data in time").raise());
            }
            self.with(py, |inner| inner.poll(left.min(SLICE)))?;
            py.check_signals()?;
        }
    }

    /// The error that ended the last connection, returned once; None if there is none.
    fn take_failure(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let lost = self.with(py, |inner| inner.lost.take())?;
        Ok(lost.map(|failure| failure.raise().into_value(py).into_any()))
    }

    /// Closes the connection. A waiting thread gets `Closed`.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }
}
