//! One subscription, and one publisher, each on a connection of its own.

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

/// What a wait for a message came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message.
    Message(Message),
    /// Nothing in time.
    Nothing,
    /// The subscription has ended, or cannot be attached to; the places say where to go on.
    Ended(Reason, Vec<TakenPlace>),
}

/// One subscription: attached to, iterated, acknowledged; it comes back after a loss by itself.
#[derive(Debug)]
pub struct Subscription {
    client: BrokerClient,
    handle: u32,
    came: VecDeque<Message>,
    ended: Option<(Reason, Vec<TakenPlace>)>,
    may_have_lost: bool,
}

impl Subscription {
    /// Attaches by and by to the subscription of this name; `seen` is what was dealt with before.
    #[must_use]
    pub fn new(
        target: impl Into<Target>,
        session: SessionConfig,
        name: &str,
        seen: Seen,
    ) -> Subscription {
        Subscription::on(BrokerClient::new(target, session), name, Credit::default(), seen)
    }

    /// The same, on a client that has no other subscription, with another credit.
    #[must_use]
    pub fn on(mut client: BrokerClient, name: &str, credit: Credit, seen: Seen) -> Subscription {
        let handle = client.subscribe(name, credit, seen);
        let came = VecDeque::new();
        Subscription { client, handle, came, ended: None, may_have_lost: false }
    }

    /// The next message, waited for at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Next {
        if self.came.is_empty() && self.ended.is_none() {
            self.pump(timeout);
        }
        match (self.came.pop_front(), &self.ended) {
            (Some(message), _) => Next::Message(message),
            (None, Some((reason, taken))) => Next::Ended(*reason, taken.clone()),
            (None, None) => Next::Nothing,
        }
    }

    /// Tells the node at once what was acknowledged; else it is told with the next wait.
    pub fn flush(&mut self) {
        self.pump(Duration::ZERO);
    }

    fn pump(&mut self, timeout: Duration) {
        let (came, ended, lost) = (&mut self.came, &mut self.ended, &mut self.may_have_lost);
        self.client.poll(timeout, |event| match event {
            BrokerEvent::Message(head, body) => {
                came.push_back(Message { head: *head, body: body.to_vec() });
            }
            // What was not acknowledged before comes again behind this.
            BrokerEvent::Attached { may_have_lost, .. } => {
                came.clear();
                *lost |= may_have_lost;
            }
            BrokerEvent::Ended { reason, taken, .. } => *ended = Some((reason, taken)),
            BrokerEvent::Token { .. } | BrokerEvent::Published(_) | BrokerEvent::Refused(_) => {}
        });
    }

    /// Acknowledges a message and all before it; it is told with the next wait that finds none
    /// here already, or by [`Subscription::flush`].
    pub fn ack(&mut self, message: &Message) {
        self.client.ack(self.handle, message.head.message_no);
    }

    /// What was dealt with, to be kept by those who outlive their process.
    #[must_use]
    pub fn seen(&self) -> Option<&Seen> {
        self.client.seen(self.handle)
    }

    /// Whether the node has said, since this was asked last, that messages may be missing.
    pub fn take_may_have_lost(&mut self) -> bool {
        std::mem::take(&mut self.may_have_lost)
    }

    /// Its client, for the connection and its failures.
    pub fn client(&mut self) -> &mut BrokerClient {
        &mut self.client
    }
}

/// Messages for others: sent again after losses until they are acknowledged.
#[derive(Debug)]
pub struct Publisher {
    client: BrokerClient,
    acknowledged: u64,
    refused: Vec<PublishReject>,
}

impl Publisher {
    /// A publisher that begins in an epoch with the number after `last`.
    #[must_use]
    pub fn new(
        target: impl Into<Target>,
        session: SessionConfig,
        (epoch, last): (Epoch, u64),
    ) -> Publisher {
        let mut client = BrokerClient::new(target, session);
        client.publish_from(epoch, last);
        Publisher { client, acknowledged: last, refused: Vec::new() }
    }

    /// Takes a message for another session; returns its number. See [`BrokerClient::publish`].
    pub fn publish(&mut self, to: SessionId, body: &[u8]) -> u64 {
        self.client.publish(to, body)
    }

    /// Takes an execution of the source that the session feeds, for whoever may see its firm's;
    /// returns its number.
    pub fn publish_execution(&mut self, report: &ExecutionReport) -> u64 {
        let mut body = Vec::with_capacity(512);
        put_message(report, &mut body);
        self.publish(SessionId::NONE, &body)
    }

    /// Sends, and waits at most `timeout` for something to come. Returns the number up to which all
    /// messages are taken, or survive what the node's level says.
    pub fn poll(&mut self, timeout: Duration) -> u64 {
        let (acknowledged, refused) = (&mut self.acknowledged, &mut self.refused);
        self.client.poll(timeout, |event| match event {
            BrokerEvent::Published(upto) => *acknowledged = upto,
            BrokerEvent::Refused(reject) => refused.push(reject),
            _ => {}
        });
        self.acknowledged
    }

    /// Messages that were published and are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.client.unacknowledged()
    }

    /// Messages that were refused since this was asked last; they are not sent again.
    pub fn take_refused(&mut self) -> Vec<PublishReject> {
        std::mem::take(&mut self.refused)
    }

    /// What ended the last connection; each is told once.
    pub fn take_failure(&mut self) -> Option<ClientError> {
        self.client.take_failure()
    }

    /// Its client, for the connection.
    pub fn client(&mut self) -> &mut BrokerClient {
        &mut self.client
    }
}
