//! Durable subscriptions and messages to other sessions, across losses of the connection.
//!
//! [`BrokerClient`] is one session on one connection, with any number of subscriptions and one
//! publisher; [`Subscription`] and [`Publisher`] wrap a single one of either.
//! [`BrokerClient::poll`] is its duty cycle and blocks no longer than its timeout. It starts no
//! thread, and reconnects automatically after a loss, with growing, randomised pauses; not after
//! another connection has taken the session over.

mod manage;
mod publishing;
mod reading;
mod single;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_types::{Epoch, Nanos, Position, Reason, SessionId, Switch};
use weir_wire::NodeMessage;
use weir_wire::subscription::{PublishReject, SubscribedMessage, TakenPlace};

pub use self::manage::{ListedSubscription, NewSubscription, kind_name, status_name};
pub use self::single::{Message, Publisher, Subscription, WaitOutcome};

use self::publishing::UnacknowledgedMessages;
use self::reading::Reading;
use crate::client::{Client, Incoming};
use crate::clock::Clock;
use crate::connection::{Connection, Limits, Target};
use crate::error::ClientError;
use crate::session::{Session, SessionConfig};
use crate::source::Backoff;

/// The timeout of a logon or a request.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The last place processed, per source.
pub type Seen = BTreeMap<u32, (Epoch, Position)>;

/// The credit of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Messages without acknowledgement; the node sends at most 4,096 whatever is given here.
    pub messages: u32,
    /// Bytes of their bodies.
    pub bytes: u32,
}

impl Default for Credit {
    /// 1,024 messages, 4 MiB.
    fn default() -> Credit {
        Credit { messages: 1024, bytes: 4 << 20 }
    }
}

/// An event of a broker client.
#[derive(Debug)]
pub enum BrokerEvent<'a> {
    /// A subscription is attached, for the first time or again.
    Attached {
        /// The subscription's handle.
        handle: u32,
        /// True when messages may have been lost, because of the node's durability level.
        may_have_lost: bool,
    },
    /// A message that was not acknowledged before, judged by its place.
    Message(&'a SubscribedMessage, &'a [u8]),
    /// A subscription has ended or cannot be attached to; no further attempt is made.
    Ended {
        /// The subscription's handle.
        handle: u32,
        /// The reason.
        reason: Reason,
        /// The places known to the node as taken, to resume from.
        taken: Vec<TakenPlace>,
    },
    /// The token stored under the subscription's name.
    Token {
        /// The subscription's handle.
        handle: u32,
        /// The token; empty for none.
        token: &'a [u8],
    },
    /// Each message up to this number is taken already or has reached the node's durability level.
    Published(u64),
    /// A message was refused and will not be sent again.
    Refused(PublishReject),
}

/// A client of a node's broker with one session.
#[derive(Debug)]
pub struct BrokerClient {
    target: Target,
    session: SessionConfig,
    client: Option<Client>,
    clock: Clock,
    backoff: Backoff,
    failure: Option<ClientError>,
    /// True once another connection has taken the session over: no connection is made any more.
    is_taken_over: bool,
    correlation_id: u64,
    readings: BTreeMap<u32, Reading>,
    publishing: UnacknowledgedMessages,
    /// Messages received while a request waited for its answer.
    early: VecDeque<(SubscribedMessage, Vec<u8>)>,
}

impl BrokerClient {
    /// Creates a client without a connection; the first [`BrokerClient::poll`] or request connects.
    #[must_use]
    pub fn new(target: impl Into<Target>, session: SessionConfig) -> BrokerClient {
        BrokerClient {
            target: target.into(),
            session,
            client: None,
            clock: Clock::default(),
            backoff: Backoff::new(Backoff::seed()),
            failure: None,
            is_taken_over: false,
            correlation_id: 0,
            readings: BTreeMap::new(),
            publishing: UnacknowledgedMessages::default(),
            early: VecDeque::new(),
        }
    }

    fn session_id(&self) -> SessionId {
        self.session.session_id
    }

    /// Sets the target of the next connection.
    pub fn set_target(&mut self, target: impl Into<Target>) {
        self.target = target.into();
    }

    /// The connection, for waiting on several at once; `None` while there is none.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.client.as_ref().map(Client::connection)
    }

    /// Returns the error that ended the last connection or prevented one; each is returned once.
    pub fn take_failure(&mut self) -> Option<ClientError> {
        self.failure.take()
    }

    /// Attaches to a subscription, now and after each loss; `seen` holds the places processed
    /// before, from the caller's storage. Returns its handle.
    pub fn subscribe(&mut self, name: &str, credit: Credit, seen: Seen) -> u32 {
        let handle = self.readings.last_key_value().map_or(1, |(last, _)| last + 1);
        let mut reading = Reading::new(name, credit, seen);
        if let Some(client) = &mut self.client {
            self.correlation_id += 1;
            let session_id = self.session.session_id;
            reading.put_attach(self.correlation_id, session_id, handle, client.outbox());
        }
        self.readings.insert(handle, reading);
        handle
    }

    /// Acknowledges a message and all before it: they will not come again.
    pub fn ack(&mut self, handle: u32, message_no: u64) {
        if let Some(reading) = self.readings.get_mut(&handle) {
            reading.ack(message_no);
        }
    }

    /// The places processed of a subscription, to be stored by programs that resume after a
    /// restart.
    #[must_use]
    pub fn seen(&self, handle: u32) -> Option<&Seen> {
        self.readings.get(&handle).map(Reading::seen)
    }

    /// Starts to publish in an epoch, with the number after `last`.
    pub fn publish_from(&mut self, epoch: Epoch, last: u64) {
        self.publishing = UnacknowledgedMessages::new(epoch, last);
    }

    /// Queues a message for another session; returns its number. It is sent again after losses
    /// until it is acknowledged or refused.
    ///
    /// # Panics
    /// When the body is longer than [`weir_wire::subscription::BODY_LEN_MAX`], or no epoch was
    /// started.
    pub fn publish(&mut self, to: SessionId, body: &[u8]) -> u64 {
        self.publishing.push(to, body)
    }

    /// The number of published messages without acknowledgement.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.publishing.len()
    }

    /// Connects if it is due, sends queued messages, waits up to `timeout` for messages and passes
    /// events to `sink`. Returns the number of messages. A lost connection is no error: the client
    /// reconnects, and [`BrokerClient::take_failure`] returns the cause.
    ///
    /// # Errors
    /// [`ClientError::LoggedOut`] with [`Reason::TakenOver`], now and at each later call: another
    /// connection has the session, and this client makes none any more.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut sink: impl FnMut(BrokerEvent<'_>),
    ) -> Result<usize, ClientError> {
        self.check_not_taken_over()?;
        let now = self.clock.now();
        if self.client.is_none() {
            if let Some(left) = self.backoff.left(now) {
                std::thread::sleep(left.min(timeout));
                return Ok(0);
            }
            if let Err(error) = self.connect() {
                return self.fail(error).map(|()| 0);
            }
        }
        self.take_early(&mut sink);
        self.put_due(now);
        let Some(client) = &mut self.client else { return Ok(0) };
        let (readings, publishing) = (&mut self.readings, &mut self.publishing);
        let polled = client.poll(timeout, |incoming, _| {
            if let Incoming::Broker(message) = incoming {
                hear(readings, publishing, &message, now, &mut sink);
            }
        });
        match polled {
            Ok(count) => {
                self.backoff.succeeded();
                self.put_due(now);
                let Some(client) = &mut self.client else { return Ok(count) };
                let (readings, publishing) = (&mut self.readings, &mut self.publishing);
                let flushed = client.flush_or_hear(|incoming, _| {
                    if let Incoming::Broker(message) = incoming {
                        hear(readings, publishing, &message, now, &mut sink);
                    }
                });
                flushed.or_else(|error| self.fail(error))?;
                Ok(count)
            }
            Err(error) => self.fail(error).map(|()| 0),
        }
    }

    fn check_not_taken_over(&self) -> Result<(), ClientError> {
        match self.is_taken_over {
            true => Err(ClientError::taken_over(self.session_id())),
            false => Ok(()),
        }
    }

    fn take_early(&mut self, sink: &mut impl FnMut(BrokerEvent<'_>)) {
        for (message, body) in std::mem::take(&mut self.early) {
            let reading = self.readings.get_mut(&message.handle);
            if reading.is_some_and(|reading| reading.take(&message, body.len())) {
                sink(BrokerEvent::Message(&message, &body));
            }
        }
    }

    /// Queues acknowledgements and messages, and retries subscriptions that were in use.
    fn put_due(&mut self, now: Nanos) {
        let session_id = self.session.session_id;
        let Some(client) = &mut self.client else { return };
        for (handle, reading) in &mut self.readings {
            if reading.is_to_attach(now) {
                self.correlation_id += 1;
                reading.put_attach(self.correlation_id, session_id, *handle, client.outbox());
            }
            reading.put_acks(session_id, *handle, client.outbox());
        }
        self.publishing.pump(session_id, now, client.outbox());
    }

    fn connect(&mut self) -> Result<(), ClientError> {
        let limits = Limits { connect_timeout: ANSWER_TIME, ..Limits::default() };
        let connection = self.target.connect(limits)?;
        let mut client = Client::over(connection, self.target.clone(), limits);
        client.start_logon(Session::new(self.session));
        let opened = client.wait_until_open(ANSWER_TIME, &mut |_, _| {});
        opened.inspect_err(|error| self.target.pass_over_after(error))?;
        let session_id = self.session.session_id;
        for (handle, reading) in &mut self.readings {
            self.correlation_id += 1;
            reading.put_attach(self.correlation_id, session_id, *handle, client.outbox());
        }
        self.publishing.rewind();
        self.early.clear();
        self.client = Some(client);
        Ok(())
    }

    /// Ends the connection after an error; returns the error if it is final.
    fn fail(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.client = None;
        self.is_taken_over = error.is_taken_over();
        self.backoff.failed(self.clock.now());
        self.failure = Some(error);
        self.check_not_taken_over()
    }
}

fn hear(
    readings: &mut BTreeMap<u32, Reading>,
    publishing: &mut UnacknowledgedMessages,
    message: &NodeMessage<'_>,
    now: Nanos,
    sink: &mut impl FnMut(BrokerEvent<'_>),
) {
    match message {
        NodeMessage::SubscribedMessage(message, body) => {
            let reading = readings.get_mut(&message.handle);
            if reading.is_some_and(|reading| reading.take(message, body.len())) {
                sink(BrokerEvent::Message(message, body));
            }
        }
        NodeMessage::SubscriptionAttached(attached, _) => {
            let (handle, may_have_lost) = (attached.handle, attached.may_have_lost == Switch::On);
            sink(BrokerEvent::Attached { handle, may_have_lost });
        }
        NodeMessage::SubscriptionEnded(ended, taken) => {
            let (handle, reason) = (ended.handle, ended.reason);
            readings.remove(&handle);
            let taken = taken.clone().filter_map(Result::ok).collect();
            sink(BrokerEvent::Ended { handle, reason, taken });
        }
        // Only a refused attachment is handled here: requests wait for their own answers.
        NodeMessage::SubscriptionDone(done) if done.reason != Reason::None => {
            let refused = |(_, reading): &(&u32, &Reading)| reading.asked == done.correlation_id;
            let handle = readings.iter().find(refused).map(|(handle, _)| *handle);
            let Some(handle) = handle else { return };
            if done.reason == Reason::SubscriptionInUse {
                // The node may not have noticed the end of an earlier connection yet.
                readings.get_mut(&handle).expect("it was found").attach_later(now);
            } else {
                readings.remove(&handle);
                let (reason, taken) = (done.reason, Vec::new());
                sink(BrokerEvent::Ended { handle, reason, taken });
            }
        }
        NodeMessage::NamedToken(named, token) => {
            sink(BrokerEvent::Token { handle: named.handle, token });
        }
        NodeMessage::PublishAck(ack) => {
            if let Some(upto) = publishing.acknowledged(ack) {
                sink(BrokerEvent::Published(upto));
            }
        }
        NodeMessage::PublishReject(reject) if publishing.refused(reject, now) => {
            sink(BrokerEvent::Refused(*reject));
        }
        _ => {}
    }
}
