//! The second stage of conflation: turns the first stage's entries into messages at each
//! subscriber's own pace.
//!
//! A subscriber's writer calls [`Fanout::poll`] when it has room, for as many messages as fit;
//! nothing here waits for a subscriber. A subscriber's queues are bounded by the `queue_len_max` of
//! its subscriptions and by its number of instruments.
//!
//! A request does no work that grows with the instruments: [`Fanout::advance`] does, in steps.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_feed::instrument::{Definition, SymbolText};
use weir_types::{InstrumentId, Nanos};

use super::accounts::{AccountId, AccountProgress, Accounts, Departure, Job};
use super::conflator::Interest;
use super::entry::{Body, Entry, MergedChanges};
use super::instruments::Instruments;
use super::outbox::{Group, Outbox};
use super::subscription::{
    Pattern, Policy, SubscribeError, SubscriberId, Subscription, SubscriptionId,
};
use super::topic::Topics;
use super::view::BookView;
use crate::plant::{self, Plant};

/// Items of ended subscriptions that one poll drops.
const DROPS_MAX: usize = 1_024;

/// A message to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subscription that it belongs to.
    pub subscription: SubscriptionId,
    /// Levels of each side to read from the book; `usize::MAX` for all.
    pub depth: usize,
    /// The content.
    pub entry: Entry,
}

/// A writer's request for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The current time.
    pub now: Nanos,
    /// The most messages that it has room for.
    pub room: usize,
}

/// The answer to a [`Poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PollOutcome {
    /// Messages were passed to the writer.
    Sent {
        /// Messages passed.
        count: usize,
        /// Messages still queued.
        left: usize,
    },
    /// The subscriber fell behind; the caller must disconnect and remove it.
    Disconnect(Disconnect),
    /// The subscriber does not exist.
    Unknown,
}

/// The reason for disconnecting a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The subscription whose queue was full.
    pub subscription: SubscriptionId,
    /// The limit of that queue, in messages.
    pub queue_len_max: u32,
}

/// The progress of a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberProgress {
    /// Queued messages.
    pub queue_len: usize,
    /// States waiting for their interval.
    pub waiting_count: usize,
    /// Messages sent.
    pub sent_count: u64,
    /// Changes among those sent that were merged into others.
    pub merged_count: u64,
    /// Trades, changes of orders and states reported to it as lost.
    pub lost_count: u64,
    /// The changes of the entry at the head of its queue: their age is the subscriber's lag.
    pub oldest: Option<MergedChanges>,
    /// Places of its queue that purges have looked at: the work that its queue has caused.
    pub looks: u64,
}

/// A subscription that ended without a request of its subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSubscription {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The reason.
    pub error: SubscribeError,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) terms: Subscription,
    /// All matching instruments in front of this place in the order of definitions are included.
    pub(super) place: usize,
    /// Slots claimed and not taken yet.
    pub(super) claimed: u32,
    pub(super) has_ended: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Subscriber {
    pub(super) outbox: Outbox,
    /// Subscriptions by group.
    pub(super) active: Vec<Option<Active>>,
    pub(super) account: u32,
    /// True once it has gone: it is removed when it has left all instruments.
    pub(super) has_gone: bool,
    /// True while the subscriber is listed for [`Fanout::take_ready`].
    pub(super) is_ready: bool,
    sent_count: u64,
    merged_count: u64,
    lost_count: u64,
}

/// A subscriber and a group of it: a subscription.
pub(super) type Watcher = (u32, u32);

/// The second stage of conflation, for the subscribers of one flush thread.
#[derive(Clone, Debug)]
pub struct Fanout {
    instrument_id_max: InstrumentId,
    subscriptions_max: u32,
    pub(super) topics: Topics,
    pub(super) subscribers: Vec<Option<Subscriber>>,
    pub(super) instruments: Instruments,
    /// Subscriptions of exactly one symbol, by symbol.
    pub(super) exact: HashMap<SymbolText, Vec<Watcher>, FxBuildHasher>,
    pub(super) accounts: Accounts,
    pub(super) interest: Vec<Interest>,
    /// Wishes so far: starts and ends of interest.
    wish_count: u64,
    /// The wishes that the first stage is known to have taken.
    answered: u64,
    /// True when [`Fanout::note_answered`] tells which were taken.
    has_answers: bool,
    pub(super) ended: Vec<EndedSubscription>,
    /// Subscribers with new entries since [`Fanout::take_ready`] last listed them.
    pub(super) ready: Vec<SubscriberId>,
}

impl Fanout {
    /// Creates a fan-out without instruments and subscribers. Ignores instruments with numbers
    /// above `instrument_id_max`; a subscriber has at most `subscriptions_max` subscriptions.
    #[must_use]
    pub fn new(instrument_id_max: InstrumentId, subscriptions_max: u32) -> Fanout {
        Fanout {
            instrument_id_max,
            subscriptions_max,
            topics: Topics::default(),
            subscribers: Vec::new(),
            instruments: Instruments::default(),
            exact: HashMap::default(),
            accounts: Accounts::default(),
            interest: Vec::new(),
            wish_count: 0,
            answered: 0,
            has_answers: false,
            ended: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Limits the slots of all accounts together, except those without a limit of their own.
    #[must_use]
    pub fn with_slots_max(mut self, slots_max: u64) -> Fanout {
        self.accounts.slots_max = Some(slots_max);
        self
    }

    /// Has interest take effect when [`Fanout::note_answered`] says so, for a first stage on
    /// another thread. Without it, interest is in force once it has been taken.
    #[must_use]
    pub fn with_answers(mut self) -> Fanout {
        self.has_answers = true;
        self
    }

    /// Adds an instrument, which all subscriptions that match it include in later steps. A previous
    /// owner of the number or the symbol loses it.
    pub fn define(&mut self, definition: &Definition) {
        let Definition { instrument_id: id, symbol, .. } = *definition;
        if id > self.instrument_id_max || self.instruments.symbol_of(id) == Some(symbol) {
            return;
        }
        if let Some(other) = self.instruments.number_of(&symbol) {
            self.forget(other);
        }
        self.forget(id);
        self.instruments.add(id, symbol);
        self.compact_order();
        for (subscriber, group) in self.exact.get(&symbol).into_iter().flatten().copied() {
            let waiting = self.subscribers[subscriber as usize].as_ref();
            let account = waiting.expect("a watcher's subscriber is there").account;
            self.accounts.get_mut(account).behind.push_back((subscriber, group));
            self.accounts.list(account);
        }
        if !plant::is(Plant::GrowthForgotten) {
            self.accounts.list_watching();
        }
    }

    /// Adds an account, whose subscribers share `slots_max` slots, and the turns at which their
    /// requests are carried out.
    pub fn add_account(&mut self, slots_max: Option<u64>) -> AccountId {
        self.accounts.add(slots_max, true)
    }

    /// Removes an account once all its subscribers have been removed.
    pub fn remove_account(&mut self, id: AccountId) {
        self.accounts.remove(id);
    }

    /// Returns the figures of an account; `None` when it does not exist.
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<AccountProgress> {
        Some(self.accounts.get(id.0)?.progress())
    }

    /// Returns the slots of all accounts, those being released included.
    #[must_use]
    pub fn slot_count(&self) -> u64 {
        self.accounts.total().claimed
    }

    /// Adds a subscriber without subscriptions, with an account of its own that has no limit.
    pub fn add_subscriber(&mut self) -> SubscriberId {
        let account = self.accounts.add(None, false);
        self.add_subscriber_of(account)
    }

    /// Adds a subscriber without subscriptions to an account.
    ///
    /// # Panics
    /// When the account does not exist.
    pub fn add_subscriber_of(&mut self, account: AccountId) -> SubscriberId {
        self.accounts.get_mut(account.0).subscriber_count += 1;
        let free = self.subscribers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.subscribers.len());
        if index == self.subscribers.len() {
            self.subscribers.push(None);
        }
        self.subscribers[index] = Some(Subscriber {
            outbox: Outbox::default(),
            active: Vec::new(),
            account: account.0,
            has_gone: false,
            is_ready: false,
            sent_count: 0,
            merged_count: 0,
            lost_count: 0,
        });
        SubscriberId(u32::try_from(index).expect("fewer subscribers than 2^32"))
    }

    /// Removes a subscriber and ends all its subscriptions. Ignores an unknown one. Its number is
    /// not used again before it has left all instruments, in steps.
    pub fn remove_subscriber(&mut self, id: SubscriberId) {
        let Some(subscriber) = self.subscriber_mut(id) else { return };
        for group in 0..subscriber.active.len() as u32 {
            self.begin_end((id.0, group));
        }
        let Some(subscriber) = self.subscriber_mut(id) else { return };
        subscriber.has_gone = true;
        subscriber.outbox.drop_items();
        let account_id = subscriber.account;
        let account = self.accounts.get_mut(account_id);
        account.watchers.retain(|(subscriber, _)| *subscriber != id.0);
        let departure = Departure { subscriber: id.0, slot: 0, group: 0 };
        account.jobs.push_back(Job::Leave(departure));
        self.accounts.list(account_id);
    }

    /// Starts a subscription. Each instrument's state comes first, marked as snapshot, and then its
    /// changes. (Trades have no state.) The instruments are included in steps.
    ///
    /// # Errors
    /// [`SubscribeError`]: the reason for the refusal.
    pub fn subscribe(
        &mut self,
        now: Nanos,
        id: SubscriberId,
        terms: &Subscription,
    ) -> Result<SubscriptionId, SubscribeError> {
        terms.check()?;
        let subscriptions_max = self.subscriptions_max;
        let subscriber = self.open_mut(id)?;
        let account_id = subscriber.account;
        let count = subscriber.active.iter().flatten().count();
        if count >= subscriptions_max as usize {
            return Err(match subscriber.active.iter().flatten().any(|active| active.has_ended) {
                true => SubscribeError::Pending,
                false => SubscribeError::TooMany(subscriptions_max),
            });
        }
        let needed = self.instruments.count(&terms.pattern);
        let claimed = u32::try_from(needed).expect("fewer instruments than 2^32");
        let known = match &terms.pattern {
            Pattern::Symbol(symbol) => self.instruments.number_of(symbol),
            Pattern::Prefix(_) | Pattern::All => None,
        };
        if let Some(instrument) = known {
            let is_leaving = self.is_leaving(id.0, instrument);
            let overlap = self.check_overlap(id.0, instrument);
            overlap.map_err(|error| if is_leaving { SubscribeError::Pending } else { error })?;
        }
        self.check_memory(account_id, id, needed)?;
        self.accounts.claim(account_id, u64::from(claimed))?;
        let active = Active { terms: *terms, place: 0, claimed, has_ended: false };
        let group = self.open_mut(id)?.add(active);
        let watcher = (id.0, group);
        if let Pattern::Symbol(symbol) = terms.pattern {
            self.exact.entry(symbol).or_default().push(watcher);
            if let Some(instrument) = known {
                self.take_claim(watcher)?;
                self.listen(now, watcher, instrument);
            }
        } else {
            self.open_mut(id)?.outbox.reserve(needed);
            let account = self.accounts.get_mut(account_id);
            account.joining += u64::from(claimed);
            account.watchers.push(watcher);
            account.behind.push_back(watcher);
            self.accounts.list(account_id);
        }
        Ok(SubscriptionId(group))
    }

    /// Ends a subscription: no message of it follows. Its number is not used again before it has
    /// left all instruments, in steps.
    ///
    /// # Errors
    /// [`SubscribeError::NoSubscriber`], [`SubscribeError::NoSubscription`].
    pub fn unsubscribe(
        &mut self,
        id: SubscriberId,
        subscription: SubscriptionId,
    ) -> Result<(), SubscribeError> {
        self.active(id, subscription)?;
        self.end((id.0, subscription.0));
        Ok(())
    }

    /// Changes a subscription's interval from now on.
    ///
    /// # Errors
    /// [`SubscribeError`]: the reason for the refusal.
    pub fn set_interval(
        &mut self,
        now: Nanos,
        id: SubscriberId,
        subscription: SubscriptionId,
        interval: Nanos,
    ) -> Result<(), SubscribeError> {
        self.active(id, subscription)?.terms.check_interval(interval)?;
        let subscriber = self.open_mut(id)?;
        let account = subscriber.account;
        let looked_at = subscriber.outbox.set_interval(now, subscription.0, interval);
        self.owe(account, looked_at as usize);
        let subscriber = self.open_mut(id)?;
        if let Some(active) = &mut subscriber.active[subscription.0 as usize] {
            active.terms.interval = interval;
        }
        Ok(())
    }

    /// Takes the interest that subscribers started and ended since the last call, for
    /// [`super::Conflator`].
    pub fn take_interest(&mut self) -> impl Iterator<Item = Interest> + '_ {
        self.interest.drain(..)
    }

    /// Notes how many starts and ends of interest the first stage has taken so far, since the
    /// beginning. Entries that are applied from now on are from behind these.
    pub fn note_answered(&mut self, count: u64) {
        self.answered = self.answered.max(count);
    }

    /// Returns the number of starts and ends of interest that the first stage has not taken yet, as
    /// far as is known.
    #[must_use]
    pub fn unanswered_count(&self) -> u64 {
        self.wish_count.saturating_sub(self.answered)
    }

    /// Starts or ends interest; returns the number of wishes with this one.
    pub(super) fn wish(&mut self, interest: Interest) -> u64 {
        self.interest.push(interest);
        self.wish_count += 1;
        self.wish_count
    }

    /// Takes the subscribers with new entries since the last call, so that the caller need not poll
    /// all of them: each may have a message now or at [`Fanout::next_due`].
    pub fn take_ready(&mut self, mut take: impl FnMut(SubscriberId)) {
        for id in self.ready.drain(..) {
            if let Some(Some(subscriber)) = self.subscribers.get_mut(id.0 as usize) {
                subscriber.is_ready = false;
                if !subscriber.has_gone {
                    take(id);
                }
            }
        }
    }

    /// Takes the next entry of the first stage.
    pub fn apply(&mut self, now: Nanos, entry: &Entry) {
        let kind = entry.body.kind();
        let Some(topic) = self.topics.get_mut(entry.instrument_id, kind) else { return };
        // The first stage may still have served an earlier interest, which ended. Its entry is no
        // state to begin from: changes between that end and this beginning are in none.
        let is_foreign = self.has_answers && topic.begun_by > self.answered;
        if is_foreign && !plant::is(Plant::EarlierInterestHeard) {
            return;
        }
        let is_kept = plant::is(Plant::FirstStateKept) && topic.latest.is_some();
        if (kind.is_state() || entry.body == Body::OrdersSnapshot) && !is_kept {
            topic.latest = Some(*entry);
        }
        for listener in &topic.listeners {
            let subscriber = self.subscribers[listener.subscriber as usize].as_mut();
            let subscriber = subscriber.expect("a listener's subscriber is there");
            if subscriber.outbox.closed_by().is_none() && !subscriber.has_gone {
                subscriber.outbox.hear(now, listener.slot, entry);
                if !std::mem::replace(&mut subscriber.is_ready, true) {
                    self.ready.push(SubscriberId(listener.subscriber));
                }
            }
        }
    }

    /// Passes the messages that a subscriber may be sent now to `out`, oldest first.
    pub fn poll<B: BookView>(
        &mut self,
        poll: Poll,
        books: &B,
        out: &mut impl FnMut(&Message, &B),
    ) -> PollOutcome {
        let Some(subscriber) = self.subscriber_mut(poll.subscriber) else {
            return PollOutcome::Unknown;
        };
        if let Some(disconnect) = subscriber.disconnect() {
            return PollOutcome::Disconnect(disconnect);
        }
        subscriber.outbox.tick(poll.now);
        let (mut count, mut dropped) = (0, 0);
        while count < poll.room {
            if !plant::is(Plant::EndedIsSent) {
                dropped += subscriber.outbox.drop_ended(DROPS_MAX - dropped);
            }
            if dropped == DROPS_MAX {
                break;
            }
            let Some((slot, entry)) = subscriber.outbox.pop(poll.now) else { break };
            if let Some(message) = subscriber.message(slot, entry, books) {
                out(&message, books);
                count += 1;
            }
        }
        PollOutcome::Sent { count, left: subscriber.outbox.queue_len() }
    }

    /// Returns the next time at which [`Fanout::poll`] may have a message for a subscriber whose
    /// queue is empty; `None` when nothing waits.
    #[must_use]
    pub fn next_due(&self, id: SubscriberId) -> Option<Nanos> {
        self.subscriber(id)?.outbox.next_due()
    }

    /// Returns the progress of a subscriber; `None` when it does not exist.
    #[must_use]
    pub fn standing(&self, id: SubscriberId) -> Option<SubscriberProgress> {
        let subscriber = self.subscriber(id)?;
        Some(SubscriberProgress {
            queue_len: subscriber.outbox.queue_len(),
            waiting_count: subscriber.outbox.waiting_count(),
            sent_count: subscriber.sent_count,
            merged_count: subscriber.merged_count,
            lost_count: subscriber.lost_count,
            oldest: subscriber.outbox.oldest(),
            looks: subscriber.outbox.looks(),
        })
    }

    /// Prepares for a new session, in which the feed's sequence numbers restart: they no longer
    /// tell which changes an orders snapshot contains. Call it before the first entry of the new
    /// session.
    pub fn new_session(&mut self) {
        self.subscribers.iter_mut().flatten().for_each(|one| one.outbox.forget_floors());
    }

    fn active(
        &self,
        id: SubscriberId,
        subscription: SubscriptionId,
    ) -> Result<&Active, SubscribeError> {
        let subscriber = self.subscriber(id).ok_or(SubscribeError::NoSubscriber(id))?;
        let active = subscriber.active.get(subscription.0 as usize).and_then(Option::as_ref);
        let active = active.filter(|active| !active.has_ended);
        active.ok_or(SubscribeError::NoSubscription(subscription))
    }

    fn subscriber(&self, id: SubscriberId) -> Option<&Subscriber> {
        self.subscribers.get(id.0 as usize)?.as_ref().filter(|subscriber| !subscriber.has_gone)
    }

    fn subscriber_mut(&mut self, id: SubscriberId) -> Option<&mut Subscriber> {
        self.subscribers.get_mut(id.0 as usize)?.as_mut().filter(|one| !one.has_gone)
    }

    fn open_mut(&mut self, id: SubscriberId) -> Result<&mut Subscriber, SubscribeError> {
        let subscriber = self.subscriber_mut(id).ok_or(SubscribeError::NoSubscriber(id))?;
        match subscriber.outbox.closed_by() {
            Some(_) => Err(SubscribeError::Disconnected),
            None => Ok(subscriber),
        }
    }
}

impl Subscriber {
    /// Adds a subscription; returns its group.
    fn add(&mut self, active: Active) -> u32 {
        let terms = active.terms;
        let is_merging = terms.policy == Policy::Conflate;
        let mut group = Group::new(is_merging, terms.policy.on_full(), terms.queue_len_max);
        group.urgency = terms.urgency;
        let group = self.outbox.add_group(group, terms.interval);
        if group as usize == self.active.len() {
            self.active.push(None);
        }
        self.active[group as usize] = Some(active);
        group
    }

    fn disconnect(&self) -> Option<Disconnect> {
        let group = self.outbox.closed_by()?;
        let queue_len_max = self.outbox.group(group).map_or(0, |group| group.queue_len_max);
        Some(Disconnect { subscription: SubscriptionId(group), queue_len_max })
    }

    /// Returns the message of an entry; `None` for a change of an order that the last snapshot
    /// contains.
    fn message(&mut self, slot: u32, entry: Entry, books: &impl BookView) -> Option<Message> {
        let slot_state = self.outbox.slot_mut(slot);
        match entry.body {
            Body::OrdersSnapshot => {
                slot_state.floor = books.last_change(entry.instrument_id).sequence;
            }
            Body::Order(_) if entry.merged.last_sequence <= slot_state.floor => return None,
            Body::Gap(_) => {
                self.lost_count += u64::from(entry.merged.change_count);
                self.outbox.heal(slot, entry.merged);
            }
            _ => self.merged_count += u64::from(entry.merged.merged_count()),
        }
        self.sent_count += 1;
        let group = self.outbox.slot(slot).group;
        let active = self.active[group as usize].as_ref().expect("a slot's subscription is there");
        let subscription = SubscriptionId(group);
        Some(Message { subscription, depth: active.terms.depth(), entry })
    }
}
