//! A single subscription, and a single publisher, each on a connection of its own.

use std::collections::VecDeque;
use std::time::Duration;

use weir_types::{Epoch, Reason, SessionId};
use weir_wire::frame::put_message;
use weir_wire::report::ExecutionReport;
use weir_wire::subscription::{PublishReject, SubscribedMessage, TakenPlace};

use super::{BrokerClient, BrokerEvent, Credit, Seen};
use crate::connection::Target;
use crate::error::ClientError;
use crate::session::SessionConfig;

/// A message of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number and place.
    pub head: SubscribedMessage,
    /// Its body.
    pub body: Vec<u8>,
}

/// The result of a wait for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A message.
    Message(Message),
    /// No message in time.
    Nothing,
    /// The subscription has ended, or cannot be attached to, or another connection has taken the
    /// session over; with the places to resume from.
    Ended(Reason, Vec<TakenPlace>),
}

/// One subscription: attached to, iterated, acknowledged; it reconnects automatically.
#[derive(Debug)]
pub struct Subscription {
    client: BrokerClient,
    handle: u32,
    came: VecDeque<Message>,
    ended: Option<(Reason, Vec<TakenPlace>)>,
    may_have_lost: bool,
}

impl Subscription {
    /// Attaches to the subscription of this name at the next poll; `seen` holds the places
    /// processed before.
    #[must_use]
    pub fn new(
        target: impl Into<Target>,
        session: SessionConfig,
        name: &str,
        seen: Seen,
    ) -> Subscription {
        Subscription::on(BrokerClient::new(target, session), name, Credit::default(), seen)
    }

    /// As [`Subscription::new`], on a client that has no other subscription, with another credit.
    #[must_use]
    pub fn on(mut client: BrokerClient, name: &str, credit: Credit, seen: Seen) -> Subscription {
        let handle = client.subscribe(name, credit, seen);
        let came = VecDeque::new();
        Subscription { client, handle, came, ended: None, may_have_lost: false }
    }

    /// Returns the next message, waiting at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> WaitOutcome {
        if self.came.is_empty() && self.ended.is_none() {
            self.pump(timeout);
        }
        match (self.came.pop_front(), &self.ended) {
            (Some(message), _) => WaitOutcome::Message(message),
            (None, Some((reason, taken))) => WaitOutcome::Ended(*reason, taken.clone()),
            (None, None) => WaitOutcome::Nothing,
        }
    }

    /// Sends acknowledgements at once; otherwise they are sent at the next wait.
    pub fn flush(&mut self) {
        self.pump(Duration::ZERO);
    }

    fn pump(&mut self, timeout: Duration) {
        let (came, ended, lost) = (&mut self.came, &mut self.ended, &mut self.may_have_lost);
        let polled = self.client.poll(timeout, |event| match event {
            BrokerEvent::Message(head, body) => {
                came.push_back(Message { head: *head, body: body.to_vec() });
            }
            // Messages without acknowledgement come again after this.
            BrokerEvent::Attached { may_have_lost, .. } => {
                came.clear();
                *lost |= may_have_lost;
            }
            BrokerEvent::Ended { reason, taken, .. } => *ended = Some((reason, taken)),
            BrokerEvent::Token { .. } | BrokerEvent::Published(_) | BrokerEvent::Refused(_) => {}
        });
        if polled.is_err() {
            self.ended.get_or_insert((Reason::TakenOver, Vec::new()));
        }
    }

    /// Acknowledges a message and all before it; sent at the next wait without a message at hand,
    /// or by [`Subscription::flush`].
    pub fn ack(&mut self, message: &Message) {
        self.client.ack(self.handle, message.head.message_no);
    }

    /// The places processed, to be stored by programs that resume after a restart.
    #[must_use]
    pub fn seen(&self) -> Option<&Seen> {
        self.client.seen(self.handle)
    }

    /// Returns true if the node has reported, since the last call, that messages may have been
    /// lost.
    pub fn take_may_have_lost(&mut self) -> bool {
        std::mem::take(&mut self.may_have_lost)
    }

    /// The client, for the connection and its failures.
    pub fn client(&mut self) -> &mut BrokerClient {
        &mut self.client
    }
}

/// A publisher of messages to other sessions: sent again after losses until they are acknowledged.
#[derive(Debug)]
pub struct Publisher {
    client: BrokerClient,
    acknowledged: u64,
    refused: Vec<PublishReject>,
}

impl Publisher {
    /// Creates a publisher that starts in an epoch with the number after `last`.
    #[must_use]
    pub fn new(
        target: impl Into<Target>,
        session: SessionConfig,
        epoch: Epoch,
        last: u64,
    ) -> Publisher {
        let mut client = BrokerClient::new(target, session);
        client.publish_from(epoch, last);
        Publisher { client, acknowledged: last, refused: Vec::new() }
    }

    /// Queues a message for another session; returns its number. See [`BrokerClient::publish`].
    pub fn publish(&mut self, to: SessionId, body: &[u8]) -> u64 {
        self.client.publish(to, body)
    }

    /// Queues an execution of the source that the session feeds, for every subscriber that may see
    /// its firm's executions; returns its number.
    pub fn publish_execution(&mut self, report: &ExecutionReport) -> u64 {
        let mut body = Vec::with_capacity(512);
        put_message(report, &mut body);
        self.publish(SessionId::NONE, &body)
    }

    /// Sends queued messages, and waits at most `timeout` for answers. Returns the number up to
    /// which each message is taken already or has reached the node's durability level. Once another
    /// connection has taken the session over nothing is sent any more:
    /// [`Publisher::take_failure`] returns that.
    pub fn poll(&mut self, timeout: Duration) -> u64 {
        let (acknowledged, refused) = (&mut self.acknowledged, &mut self.refused);
        let polled = self.client.poll(timeout, |event| match event {
            BrokerEvent::Published(upto) => *acknowledged = upto,
            BrokerEvent::Refused(reject) => refused.push(reject),
            _ => {}
        });
        if polled.is_err() {
            std::thread::sleep(timeout);
        }
        self.acknowledged
    }

    /// The number of published messages without acknowledgement.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.client.unacknowledged()
    }

    /// Returns the messages refused since the last call; they are not sent again.
    pub fn take_refused(&mut self) -> Vec<PublishReject> {
        std::mem::take(&mut self.refused)
    }

    /// Returns the error that ended the last connection; each is returned once.
    pub fn take_failure(&mut self) -> Option<ClientError> {
        self.client.take_failure()
    }

    /// The client, for the connection.
    pub fn client(&mut self) -> &mut BrokerClient {
        &mut self.client
    }
}
