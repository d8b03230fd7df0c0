//! Durable subscriptions and addressed messages, for Python.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weir_client::subscription::{
    BrokerClient, Credit, Message as Came, NewSubscription, Seen, Subscription, WaitOutcome,
    kind_name, status_name,
};
use weir_client::{ClientError, Publisher, SessionConfig, Target};
use weir_types::{
    AckLevel, Epoch, FirmId, Position, SessionId, SubscriptionAction, SubscriptionKind,
};
use weir_wire::frame::parse_message;
use weir_wire::subscription::{BODY_LEN_MAX, MessageFlags, PublicTrade, SubscribedMessage};
use weir_wire::{Message as _, NodeMessage};

use crate::endpoint::Endpoint;
use crate::errors::{Failure, name_of};
use crate::fields::to_dict;

/// The longest wait without a check for signals.
const SLICE: Duration = Duration::from_millis(50);
/// The longest time that a request waits for its session to be free.
const FREE_TIME: Duration = Duration::from_secs(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One subscription, attached at the first wait.
#[pyclass(frozen, module = "weir._weir")]
pub struct Reader(Mutex<Option<Subscription>>);

impl Reader {
    fn with<T>(&self, what: impl FnOnce(&mut Subscription) -> T) -> PyResult<T> {
        let closed = || Failure::new("Closed", "the subscription was closed").raise();
        lock(&self.0).as_mut().map(what).ok_or_else(closed)
    }
}

/// A message of a subscription.
#[pyclass(frozen, module = "weir._weir")]
pub struct Message {
    head: SubscribedMessage,
    body: Py<PyBytes>,
}

#[pymethods]
impl Reader {
    /// Attaches to a subscription; `seen` has the last (epoch, record) processed per source.
    #[new]
    fn new(
        endpoint: Endpoint,
        name: &str,
        credit: (u32, u32),
        seen: BTreeMap<u32, (u32, u64)>,
    ) -> PyResult<Reader> {
        let client = BrokerClient::new(endpoint.target()?, endpoint.session()?);
        let place = |(source, (epoch, record))| (source, (Epoch(epoch), Position(record)));
        let seen: Seen = seen.into_iter().map(place).collect();
        let credit = Credit { messages: credit.0, bytes: credit.1 };
        Ok(Reader(Mutex::new(Some(Subscription::on(client, name, credit, seen)))))
    }

    /// The next message, waiting up to `timeout` seconds or forever; None if there is none in time.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Message>> {
        let limit = timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let begun = Instant::now();
        loop {
            let left = limit.map_or(SLICE, |limit| limit.saturating_sub(begun.elapsed()));
            match py.detach(|| self.with(|reader| reader.next(left.min(SLICE))))? {
                WaitOutcome::Message(Came { head, body }) => {
                    let body = PyBytes::new(py, &body).unbind();
                    return Ok(Some(Message { head, body }));
                }
                WaitOutcome::Ended(reason, taken) => {
                    let message = format!("the subscription has ended: {reason}; taken {taken:?}");
                    return Err(Failure::new("SubscriptionEnded", message).because(reason).raise());
                }
                WaitOutcome::Nothing if left.is_zero() => return Ok(None),
                WaitOutcome::Nothing => py.check_signals()?,
            }
        }
    }

    /// Acknowledges a message and all before it.
    fn ack(&self, message: &Message) -> PyResult<()> {
        self.with(|reader| reader.ack(&Came { head: message.head, body: Vec::new() }))
    }

    /// Sends acknowledgements at once.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(Subscription::flush))
    }

    /// Sends acknowledgements and closes the connection.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(mut reader) = lock(&self.0).take() {
                reader.flush();
            }
        });
    }

    /// The last (epoch, record) processed per source.
    #[getter]
    fn seen(&self) -> PyResult<BTreeMap<u32, (u32, u64)>> {
        self.with(|reader| {
            let places = reader.seen().into_iter().flatten();
            places.map(|(source, (epoch, record))| (*source, (epoch.0, record.0))).collect()
        })
    }

    /// True if the node has reported, since the last call, that messages may have been lost.
    fn take_may_have_lost(&self) -> PyResult<bool> {
        self.with(Subscription::take_may_have_lost)
    }

    /// The error that ended the last connection, returned once; None if there is none.
    fn take_failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let failure = self.with(|reader| reader.client().take_failure()).ok().flatten()?;
        Some(Failure::from(failure).raise().into_value(py).into_any())
    }
}

#[pymethods]
impl Message {
    /// Its number: increasing, not dense.
    #[getter]
    fn number(&self) -> u64 {
        self.head.message_no
    }

    /// Source, epoch and record, which identify a redelivered message.
    #[getter]
    fn place(&self) -> (u32, u32, u64) {
        (self.head.source, self.head.epoch.0, self.head.record.0)
    }

    /// The time at which the node accepted it, in nanoseconds since 1970.
    #[getter]
    fn published_time(&self) -> u64 {
        self.head.published_time.0
    }

    /// True for a known redelivery.
    #[getter]
    fn again(&self) -> bool {
        self.head.flags.contains(MessageFlags::AGAIN)
    }

    /// Its body.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body.clone_ref(py)
    }

    /// The execution, trade or bust that the body holds, as a dictionary; None for other bytes.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Ok(raw) = parse_message(self.body.as_bytes(py)) else { return Ok(None) };
        if raw.template_id == PublicTrade::TEMPLATE_ID {
            return raw.decode_whole::<PublicTrade>().ok().map(|m| to_dict(py, &m)).transpose();
        }
        match NodeMessage::decode(&raw) {
            Ok(NodeMessage::ExecutionReport(report)) => to_dict(py, &report).map(Some),
            Ok(NodeMessage::TradeBusted(bust)) => to_dict(py, &bust).map(Some),
            _ => Ok(None),
        }
    }
}

/// A publisher of messages to other sessions.
#[pyclass(frozen, module = "weir._weir")]
pub struct Sender(Mutex<Publisher>);

#[pymethods]
impl Sender {
    /// Creates a publisher that starts in an epoch with the number after `last`.
    #[new]
    fn new(endpoint: Endpoint, epoch: u32, last: u64) -> PyResult<Sender> {
        if epoch == 0 {
            return Err(PyValueError::new_err("epochs begin with 1"));
        }
        let (target, session) = (endpoint.target()?, endpoint.session()?);
        let publisher = Publisher::new(target, session, Epoch(epoch), last);
        Ok(Sender(Mutex::new(publisher)))
    }

    /// Queues a message for a session; returns its number.
    fn publish(&self, to: u32, body: &[u8]) -> PyResult<u64> {
        if body.len() > BODY_LEN_MAX {
            let message = format!("a body of {} bytes, of at most {BODY_LEN_MAX}", body.len());
            return Err(PyValueError::new_err(message));
        }
        Ok(lock(&self.0).publish(SessionId(to), body))
    }

    /// Sends, and waits up to `timeout` seconds until all messages are acknowledged or refused;
    /// returns the number up to which they are acknowledged.
    fn poll(&self, py: Python<'_>, timeout: f64) -> PyResult<u64> {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO);
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let upto = py.detach(|| lock(&self.0).poll(left.min(SLICE)));
            if left.is_zero() || lock(&self.0).unacknowledged() == 0 {
                return Ok(upto);
            }
            py.check_signals()?;
        }
    }

    /// The number of unacknowledged messages.
    #[getter]
    fn unacknowledged(&self) -> usize {
        lock(&self.0).unacknowledged()
    }

    /// Number and reason of the messages refused since the last call.
    fn take_refused(&self) -> Vec<(u64, String)> {
        let refused = lock(&self.0).take_refused();
        refused.iter().map(|reject| (reject.message_no, name_of(reject.reason))).collect()
    }

    /// The error that ended the last connection, returned once; None if there is none.
    fn take_failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let failure = Failure::from(lock(&self.0).take_failure()?);
        Some(failure.raise().into_value(py).into_any())
    }
}

/// Requests about subscriptions, each on a connection of its own: a session can be logged on only
/// once, and an idle logon here would keep its subscriptions from being read.
#[pyclass(frozen, module = "weir._weir")]
pub struct Manager {
    target: Target,
    session: SessionConfig,
}

impl Manager {
    /// Sends a request, once the session is free.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl Fn(&mut BrokerClient) -> Result<T, ClientError> + Sync,
    ) -> PyResult<T> {
        let begun = Instant::now();
        loop {
            let asked =
                py.detach(|| ask(&mut BrokerClient::new(self.target.clone(), self.session)));
            match asked {
                // The node may not have noticed the end of a connection closed a moment ago.
                Err(error) if error.is_session_taken() && begun.elapsed() < FREE_TIME => {
                    py.check_signals()?;
                    py.detach(|| std::thread::sleep(Duration::from_millis(10)));
                }
                asked => return Ok(asked.map_err(Failure::from)?),
            }
        }
    }
}

#[pymethods]
impl Manager {
    /// Creates a manager, which connects for each request.
    #[new]
    fn new(endpoint: Endpoint) -> PyResult<Manager> {
        Ok(Manager { target: endpoint.target()?, session: endpoint.session()? })
    }

    /// Creates a subscription; `quota` is bytes, messages, and the age in seconds.
    fn create(
        &self,
        py: Python<'_>,
        what: (String, String, u32),
        level: &str,
        quota: (u64, u64, f64),
        expire_after: f64,
    ) -> PyResult<()> {
        let (name, kind, topic_key) = what;
        let (quota_bytes, quota_messages, quota_age) = quota;
        let kind = of_name(&kind, SubscriptionKind::ALL, "a kind")?;
        let span = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let new = NewSubscription {
            topic_key,
            level: of_name(level, AckLevel::ALL, "a level")?,
            quota_bytes,
            quota_messages,
            quota_age: span(quota_age),
            expire_after: span(expire_after),
            ..NewSubscription::new(&name, kind)
        };
        self.ask(py, |client| client.create(&new))
    }

    /// Deletes, drains or evicts a subscription.
    fn act(&self, py: Python<'_>, action: &str, name: &str, firm: u32) -> PyResult<()> {
        let action = of_name(action, SubscriptionAction::ALL, "an action")?;
        self.ask(py, |client| client.act(action, FirmId(firm), name))
    }

    /// All subscriptions of a firm, or of those that the session may see.
    fn list<'py>(&self, py: Python<'py>, firm: u32) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let listed = self.ask(py, |client| client.list(FirmId(firm)))?;
        let tell = |one: &weir_client::subscription::ListedSubscription| {
            let dict = to_dict(py, &one.state)?;
            dict.set_item("name", &one.name)?;
            // As `create` and the command line name them.
            dict.set_item("kind", kind_name(one.state.kind))?;
            dict.set_item("status", status_name(one.state.status))?;
            Ok(dict)
        };
        listed.iter().map(tell).collect()
    }
}

/// Returns the value whose name is `text`, ignoring case.
fn of_name<C: Copy + std::fmt::Debug>(text: &str, all: &[C], what: &str) -> PyResult<C> {
    let is_it = |code: &&C| format!("{code:?}").eq_ignore_ascii_case(text);
    all.iter().find(is_it).copied().ok_or_else(|| {
        PyValueError::new_err(format!("{text:?} is not {what}: want one of {all:?}"))
    })
}
