//! Requests about subscriptions, each of which waits for its answer.

use std::time::{Duration, Instant};

use weir_types::{
    AckLevel, FirmId, Nanos, Reason, SubscriptionAction, SubscriptionKind, SubscriptionStatus,
    Switch,
};
use weir_wire::NodeMessage;
use weir_wire::dialogue::put_with_data;
use weir_wire::subscription::{
    CreateSubscription, NamedToken, SubscriptionDone, SubscriptionRequest, SubscriptionState,
};

use super::{ANSWER_TIME, BrokerClient, BrokerEvent, hear};
use crate::client::Incoming;
use crate::error::ClientError;

/// Returns the name of a kind, in options and in lists.
#[must_use]
pub fn kind_name(kind: SubscriptionKind) -> &'static str {
    match kind {
        SubscriptionKind::Executions => "executions",
        SubscriptionKind::Trades => "trades",
        SubscriptionKind::Messages => "messages",
        SubscriptionKind::State => "state",
    }
}

/// Returns the name of a status, in lists.
#[must_use]
pub fn status_name(status: SubscriptionStatus) -> &'static str {
    match status {
        SubscriptionStatus::Live => "live",
        SubscriptionStatus::Evicted => "evicted",
        SubscriptionStatus::Expired => "expired",
    }
}

/// The parameters of a new subscription. Zero in a limit means the node's own.
#[derive(Clone, Copy, Debug)]
pub struct NewSubscription<'a> {
    /// Its name: 1 to 48 printable ASCII characters without a space.
    pub name: &'a str,
    /// The kind of its topic.
    pub kind: SubscriptionKind,
    /// The topic's key: a firm, an instrument or a session; zero for all, or the session's own.
    pub topic_key: u32,
    /// The least durability level of its messages.
    pub level: AckLevel,
    /// The limit of bytes not taken.
    pub quota_bytes: u64,
    /// The limit of messages not taken.
    pub quota_messages: u64,
    /// The maximum age of a message not taken.
    pub quota_age: Duration,
    /// The longest time without an attached session.
    pub expire_after: Duration,
}

impl<'a> NewSubscription<'a> {
    /// Uses the node's own limits, and accepts any durability level.
    #[must_use]
    pub fn new(name: &'a str, kind: SubscriptionKind) -> NewSubscription<'a> {
        NewSubscription {
            name,
            kind,
            topic_key: 0,
            level: AckLevel::Memory,
            quota_bytes: 0,
            quota_messages: 0,
            quota_age: Duration::ZERO,
            expire_after: Duration::ZERO,
        }
    }
}

/// A subscription in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSubscription {
    /// Its name; in a list of all firms', prefixed by the firm and a slash.
    pub name: String,
    /// Its state.
    pub state: SubscriptionState,
}

impl BrokerClient {
    /// Creates a subscription; it is saved when this returns.
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Timeout`], or those of the connection; as
    /// [`BrokerClient::poll`] once another connection has taken the session over.
    pub fn create(&mut self, new: &NewSubscription<'_>) -> Result<(), ClientError> {
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let create = CreateSubscription {
            correlation_id: self.next_correlation_id(),
            quota_bytes: new.quota_bytes,
            quota_messages: new.quota_messages,
            quota_age: nanos(new.quota_age),
            expire_after: nanos(new.expire_after),
            session_id: self.session_id(),
            topic_key: new.topic_key,
            kind: new.kind,
            level: new.level,
        };
        let put = |out: &mut Vec<u8>| put_with_data(&create, new.name.as_bytes(), out);
        self.ask("a subscription", create.correlation_id, new.name, put, &mut |_, _| {})?;
        Ok(())
    }

    /// Deletes, drains or evicts a subscription; it is saved when this returns.
    ///
    /// # Errors
    /// As [`BrokerClient::create`].
    pub fn act(
        &mut self,
        action: SubscriptionAction,
        firm_id: FirmId,
        name: &str,
    ) -> Result<(), ClientError> {
        self.request(action, firm_id, name, &mut |_, _| {})?;
        Ok(())
    }

    /// Returns all subscriptions of a firm; with none, those of the session's own firm, or of all
    /// firms if the session may see them.
    ///
    /// # Errors
    /// As [`BrokerClient::create`].
    pub fn list(&mut self, firm_id: FirmId) -> Result<Vec<ListedSubscription>, ClientError> {
        let mut all: Vec<ListedSubscription> = Vec::new();
        loop {
            let behind = all.last().map(|last| last.name.clone()).unwrap_or_default();
            let mut keep = |state: &SubscriptionState, name: &[u8]| {
                let name = String::from_utf8_lossy(name).into_owned();
                all.push(ListedSubscription { name, state: *state });
            };
            let list = SubscriptionAction::List;
            let done = self.request(list, firm_id, &behind, &mut keep)?;
            if done.has_more == Switch::Off {
                return Ok(all);
            }
        }
    }

    /// Stores a token under the name of a subscription to state; it is saved when this returns.
    ///
    /// # Errors
    /// As [`BrokerClient::create`].
    pub fn keep_token(&mut self, handle: u32, token: &[u8]) -> Result<(), ClientError> {
        let (correlation_id, session_id) = (self.next_correlation_id(), self.session_id());
        let named = NamedToken { correlation_id, session_id, handle };
        let put = |out: &mut Vec<u8>| put_with_data(&named, token, out);
        self.ask("a token", correlation_id, "", put, &mut |_, _| {})?;
        Ok(())
    }

    fn next_correlation_id(&mut self) -> u64 {
        self.correlation_id += 1;
        self.correlation_id
    }

    fn request(
        &mut self,
        action: SubscriptionAction,
        firm_id: FirmId,
        name: &str,
        listed: &mut dyn FnMut(&SubscriptionState, &[u8]),
    ) -> Result<SubscriptionDone, ClientError> {
        let (correlation_id, session_id) = (self.next_correlation_id(), self.session_id());
        let request = SubscriptionRequest { correlation_id, session_id, firm_id, action };
        let put = |out: &mut Vec<u8>| put_with_data(&request, name.as_bytes(), out);
        self.ask("a request about a subscription", correlation_id, name, put, listed)
    }

    /// Sends a request and waits for its answer. Subscribed messages that come meanwhile are kept
    /// for the next poll; other messages are dropped.
    fn ask(
        &mut self,
        request: &'static str,
        correlation_id: u64,
        subject: &str,
        put: impl Fn(&mut Vec<u8>),
        listed: &mut dyn FnMut(&SubscriptionState, &[u8]),
    ) -> Result<SubscriptionDone, ClientError> {
        self.check_not_taken_over()?;
        if self.client.is_none() {
            self.connect().inspect_err(|error| self.is_taken_over = error.is_taken_over())?;
        }
        let client = self.client.as_mut().expect("it was connected above");
        put(client.outbox());
        let begun = Instant::now();
        let (readings, publishing) = (&mut self.readings, &mut self.publishing);
        let early = &mut self.early;
        let (now, mut done) = (self.clock.now(), None);
        while done.is_none() {
            let left = ANSWER_TIME.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(ClientError::Timeout { waiting_for: request, timeout: ANSWER_TIME });
            }
            let polled = client.poll(left, |incoming, _| match incoming {
                Incoming::Broker(NodeMessage::SubscriptionDone(d))
                    if d.correlation_id == correlation_id =>
                {
                    done = Some(d);
                }
                Incoming::Broker(NodeMessage::SubscriptionState(state, name))
                    if state.correlation_id == correlation_id =>
                {
                    listed(&state, name);
                }
                Incoming::Broker(NodeMessage::SubscribedMessage(message, body)) => {
                    early.push_back((message, body.to_vec()));
                }
                Incoming::Broker(message) => {
                    hear(readings, publishing, &message, now, &mut |_: BrokerEvent<'_>| {});
                }
                _ => {}
            });
            if let Err(error) = polled {
                self.client = None;
                self.is_taken_over = error.is_taken_over();
                return Err(error);
            }
        }
        let done = done.expect("the loop ends with one");
        if done.reason == Reason::None {
            return Ok(done);
        }
        Err(ClientError::Refused { request, reason: done.reason, subject: subject.to_owned() })
    }
}
