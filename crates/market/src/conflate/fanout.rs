//! The second stage of conflation: turns the first stage's entries into messages at each
//! subscriber's own pace.
//!
//! A subscriber's writer calls [`Fanout::poll`] when it has room, for as many messages as fit;
//! nothing here waits for a subscriber. A subscriber's queues are bounded by the `queue_len_max` of
//! its subscriptions and by its number of instruments.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_feed::instrument::{Definition, SymbolText};
use weir_types::{InstrumentId, Nanos};

use super::conflator::Interest;
use super::entry::{Body, Entry, Kind, MergedChanges};
use super::outbox::{Group, Outbox};
use super::subscription::{
    Pattern, Policy, SubscribeError, SubscriberId, Subscription, SubscriptionId,
};
use super::topic::{Listener, Topics};
use super::view::BookView;

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
}

#[derive(Clone, Debug)]
struct Active {
    terms: Subscription,
    slots: Vec<(InstrumentId, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Subscriber {
    outbox: Outbox,
    /// Subscriptions by group.
    active: Vec<Option<Active>>,
    /// True while the subscriber is listed for [`Fanout::take_ready`].
    is_ready: bool,
    sent_count: u64,
    merged_count: u64,
    lost_count: u64,
}

type Watcher = (u32, u32);

/// The second stage of conflation, for the subscribers of one flush thread.
#[derive(Clone, Debug)]
pub struct Fanout {
    instrument_id_max: InstrumentId,
    subscriptions_max: u32,
    topics: Topics,
    subscribers: Vec<Option<Subscriber>>,
    /// Symbols by instrument number.
    symbols: Vec<Option<SymbolText>>,
    numbers: HashMap<SymbolText, InstrumentId, FxBuildHasher>,
    /// Subscriptions of exactly one symbol, by symbol.
    exact: HashMap<SymbolText, Vec<Watcher>, FxBuildHasher>,
    /// All other subscriptions.
    watchers: Vec<Watcher>,
    interest: Vec<Interest>,
    /// Subscribers with new entries since [`Fanout::take_ready`] last listed them.
    ready: Vec<SubscriberId>,
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
            symbols: Vec::new(),
            numbers: HashMap::default(),
            exact: HashMap::default(),
            watchers: Vec::new(),
            interest: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Adds an instrument to all subscriptions that match it. A previous owner of the number or the
    /// symbol loses it.
    pub fn define(&mut self, now: Nanos, definition: &Definition) {
        let Definition { instrument_id: id, symbol, .. } = *definition;
        if id > self.instrument_id_max {
            return;
        }
        let index = id.0 as usize;
        if self.symbols.len() <= index {
            self.symbols.resize(index + 1, None);
        }
        if self.symbols[index] == Some(symbol) {
            return;
        }
        if let Some(other) = self.numbers.get(&symbol).copied() {
            self.forget(other);
        }
        self.forget(id);
        self.symbols[index] = Some(symbol);
        self.numbers.insert(symbol, id);
        let mut found = self.exact.get(&symbol).cloned().unwrap_or_default();
        let is_match = |watcher: &Watcher| self.terms(*watcher).pattern.matches(&symbol);
        found.extend(self.watchers.iter().copied().filter(is_match));
        for watcher in found {
            self.listen(now, watcher, id);
        }
    }

    /// Adds a subscriber without subscriptions.
    pub fn add_subscriber(&mut self) -> SubscriberId {
        let free = self.subscribers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.subscribers.len());
        if index == self.subscribers.len() {
            self.subscribers.push(None);
        }
        self.subscribers[index] = Some(Subscriber::default());
        SubscriberId(u32::try_from(index).expect("fewer subscribers than 2^32"))
    }

    /// Removes a subscriber and ends all its subscriptions. Ignores an unknown one.
    pub fn remove_subscriber(&mut self, id: SubscriberId) {
        let Some(Some(subscriber)) = self.subscribers.get(id.0 as usize) else { return };
        for group in 0..subscriber.active.len() as u32 {
            self.end((id.0, group));
        }
        self.subscribers[id.0 as usize] = None;
    }

    /// Starts a subscription. Each instrument's state comes first, marked as snapshot, and then its
    /// changes. (Trades have no state.)
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
        let count = subscriber.active.iter().flatten().count();
        if count >= subscriptions_max as usize {
            return Err(SubscribeError::TooMany(subscriptions_max));
        }
        let is_merging = terms.policy == Policy::Conflate;
        let mut group = Group::new(is_merging, terms.policy.on_full(), terms.queue_len_max);
        group.urgency = terms.urgency;
        let group = subscriber.outbox.add_group(group, terms.interval);
        let active = Some(Active { terms: *terms, slots: Vec::new() });
        if group as usize == subscriber.active.len() {
            subscriber.active.push(active);
        } else {
            subscriber.active[group as usize] = active;
        }
        let watcher = (id.0, group);
        if let Pattern::Symbol(symbol) = terms.pattern {
            self.exact.entry(symbol).or_default().push(watcher);
        } else {
            self.watchers.push(watcher);
        }
        let instruments = self.matching(&terms.pattern);
        self.open_mut(id)?.reserve(group, instruments.len());
        for instrument in instruments {
            self.listen(now, watcher, instrument);
        }
        Ok(SubscriptionId(group))
    }

    /// Ends a subscription and drops its queued messages.
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
        subscriber.outbox.set_interval(now, subscription.0, interval);
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

    /// Takes the subscribers with new entries since the last call, so that the caller need not poll
    /// all of them: each may have a message now or at [`Fanout::next_due`].
    pub fn take_ready(&mut self, mut take: impl FnMut(SubscriberId)) {
        for id in self.ready.drain(..) {
            if let Some(Some(subscriber)) = self.subscribers.get_mut(id.0 as usize) {
                subscriber.is_ready = false;
                take(id);
            }
        }
    }

    /// Takes the next entry of the first stage.
    pub fn apply(&mut self, now: Nanos, entry: &Entry) {
        let kind = entry.body.kind();
        let Some(topic) = self.topics.get_mut(entry.instrument_id, kind) else { return };
        if kind.is_state() || entry.body == Body::OrdersSnapshot {
            topic.latest = Some(*entry);
        }
        for listener in &topic.listeners {
            let subscriber = self.subscribers[listener.subscriber as usize].as_mut();
            let subscriber = subscriber.expect("a listener's subscriber is there");
            if subscriber.outbox.closed_by().is_none() {
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
        let subscriber = self.subscribers.get_mut(poll.subscriber.0 as usize);
        let Some(Some(subscriber)) = subscriber else { return PollOutcome::Unknown };
        if let Some(disconnect) = subscriber.disconnect() {
            return PollOutcome::Disconnect(disconnect);
        }
        subscriber.outbox.tick(poll.now);
        let mut count = 0;
        while count < poll.room {
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
        self.subscribers.get(id.0 as usize)?.as_ref()?.outbox.next_due()
    }

    /// Returns the progress of a subscriber; `None` when it does not exist.
    #[must_use]
    pub fn standing(&self, id: SubscriberId) -> Option<SubscriberProgress> {
        let subscriber = self.subscribers.get(id.0 as usize)?.as_ref()?;
        Some(SubscriberProgress {
            queue_len: subscriber.outbox.queue_len(),
            waiting_count: subscriber.outbox.waiting_count(),
            sent_count: subscriber.sent_count,
            merged_count: subscriber.merged_count,
            lost_count: subscriber.lost_count,
            oldest: subscriber.outbox.oldest(),
        })
    }

    /// Prepares for a new session, in which the feed's sequence numbers restart: they no longer
    /// tell which changes an orders snapshot contains. Call it before the first entry of the new
    /// session.
    pub fn new_session(&mut self) {
        for subscriber in self.subscribers.iter_mut().flatten() {
            for active in subscriber.active.iter().flatten() {
                for (_, slot) in &active.slots {
                    subscriber.outbox.slot_mut(*slot).floor = 0;
                }
            }
        }
    }

    fn listen(&mut self, now: Nanos, (id, group): Watcher, instrument: InstrumentId) {
        let subscriber = self.subscribers[id as usize].as_mut();
        let subscriber = subscriber.expect("a watcher's subscriber is there");
        let active = subscriber.active[group as usize].as_mut();
        let active = active.expect("a watcher's subscription is there");
        let kind = active.terms.content.kind();
        let slot = subscriber.outbox.add_slot(instrument, kind, group);
        active.slots.push((instrument, slot));
        subscriber.outbox.slot_mut(slot).is_snapshot_due = kind != Kind::Trades;
        let listener = Listener { subscriber: id, slot };
        let (is_first, latest) = self.topics.join(instrument, kind, listener);
        if is_first {
            self.interest.push(Interest { instrument_id: instrument, kind, is_wanted: true });
        }
        if let Some(latest) = latest {
            let merged = MergedChanges { change_count: 0, ..latest.merged };
            subscriber.outbox.hear(now, slot, &Entry { merged, is_snapshot: true, ..latest });
            if !std::mem::replace(&mut subscriber.is_ready, true) {
                self.ready.push(SubscriberId(id));
            }
        }
    }

    fn end(&mut self, (id, group): Watcher) {
        let Some(Some(subscriber)) = self.subscribers.get_mut(id as usize) else { return };
        let Some(active) = subscriber.active[group as usize].take() else { return };
        let kind = active.terms.content.kind();
        let slots: Vec<u32> = active.slots.iter().map(|(_, slot)| *slot).collect();
        subscriber.outbox.remove_slots(&slots);
        subscriber.outbox.remove_group(group);
        for (instrument_id, slot) in active.slots {
            self.leave(instrument_id, kind, Listener { subscriber: id, slot });
        }
        if let Pattern::Symbol(symbol) = active.terms.pattern {
            let watchers = self.exact.get_mut(&symbol).expect("who watches a symbol is listed");
            watchers.retain(|watcher| *watcher != (id, group));
            if watchers.is_empty() {
                self.exact.remove(&symbol);
            }
        } else {
            self.watchers.retain(|watcher| *watcher != (id, group));
        }
    }

    /// Undefines an instrument number and removes all its listeners.
    fn forget(&mut self, id: InstrumentId) {
        let symbol = self.symbols.get_mut(id.0 as usize).and_then(Option::take);
        let Some(symbol) = symbol else { return };
        self.numbers.remove(&symbol);
        for (kind, listener) in self.topics.of_instrument(id) {
            let subscriber = self.subscribers[listener.subscriber as usize].as_mut();
            let subscriber = subscriber.expect("a listener's subscriber is there");
            let group = subscriber.outbox.slot(listener.slot).group;
            if let Some(active) = &mut subscriber.active[group as usize] {
                active.slots.retain(|(_, slot)| *slot != listener.slot);
            }
            subscriber.outbox.remove_slots(&[listener.slot]);
            self.leave(id, kind, listener);
        }
    }

    fn leave(&mut self, instrument_id: InstrumentId, kind: Kind, listener: Listener) {
        if self.topics.leave(instrument_id, kind, listener) {
            self.interest.push(Interest { instrument_id, kind, is_wanted: false });
        }
    }

    fn matching(&self, pattern: &Pattern) -> Vec<InstrumentId> {
        if let Pattern::Symbol(symbol) = pattern {
            return self.numbers.get(symbol).copied().into_iter().collect();
        }
        let known = (0..).zip(&self.symbols);
        known
            .filter(|(_, symbol)| symbol.is_some_and(|symbol| pattern.matches(&symbol)))
            .map(|(index, _)| InstrumentId(index))
            .collect()
    }

    fn terms(&self, (id, group): Watcher) -> &Subscription {
        let subscriber = self.subscribers[id as usize].as_ref();
        let active = &subscriber.expect("a watcher's subscriber is there").active[group as usize];
        &active.as_ref().expect("a watcher's subscription is there").terms
    }

    fn active(
        &self,
        id: SubscriberId,
        subscription: SubscriptionId,
    ) -> Result<&Active, SubscribeError> {
        let subscriber = self.subscribers.get(id.0 as usize).and_then(Option::as_ref);
        let subscriber = subscriber.ok_or(SubscribeError::NoSubscriber(id))?;
        let active = subscriber.active.get(subscription.0 as usize).and_then(Option::as_ref);
        active.ok_or(SubscribeError::NoSubscription(subscription))
    }

    fn open_mut(&mut self, id: SubscriberId) -> Result<&mut Subscriber, SubscribeError> {
        let subscriber = self.subscribers.get_mut(id.0 as usize).and_then(Option::as_mut);
        let subscriber = subscriber.ok_or(SubscribeError::NoSubscriber(id))?;
        match subscriber.outbox.closed_by() {
            Some(_) => Err(SubscribeError::Disconnected),
            None => Ok(subscriber),
        }
    }
}

impl Subscriber {
    /// Allocates for this many instruments of a subscription at once.
    fn reserve(&mut self, group: u32, instruments: usize) {
        self.outbox.reserve(instruments);
        if let Some(active) = &mut self.active[group as usize] {
            active.slots.reserve_exact(instruments);
        }
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
