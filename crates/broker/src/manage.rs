//! Subscriptions: creation, listing, deletion, eviction, expiry; and named tokens.
//!
//! The end of a subscription is saved before its messages not taken are dropped on disk: a crash in
//! between finds it with all of its messages.

use weir_io::Disk;
use weir_types::Nanos;

use crate::broker::{Broker, Notice};
use crate::config::{Quota, Terms};
use crate::error::{EvictReason, SubscriptionError};
use crate::name::{MessageNo, Name, Topic};
use crate::plant::{self, Plant};
use crate::saver::Change;
use crate::subscription::{Kind, Lag, ListedSubscription, Queue, Subscription};
use crate::table::{Status, TOKEN_BYTES_MAX};
use crate::topic::TopicState;

/// The served time after which the table is saved although nothing else has changed, as long as
/// there are subscriptions: a crash takes no more of their ages. An hour.
const NOTE_EVERY: Nanos = Nanos(3600 * 1_000_000_000);

impl<D: Disk> Broker<D> {
    /// Creates a subscription to a topic, from its next message on. Report it as created only when
    /// the change [is saved](Broker::is_saved).
    ///
    /// # Errors
    /// If the name is in use or there are too many.
    pub fn create(
        &mut self,
        name: &Name,
        topic: Topic,
        quota: Option<Quota>,
        now: Nanos,
    ) -> Result<Change, SubscriptionError> {
        self.create_on(name, topic, Terms { quota, ..Terms::default() }, now)
    }

    /// Creates a subscription like [`Broker::create`], with terms.
    ///
    /// # Errors
    /// If the name is in use or there are too many.
    pub fn create_on(
        &mut self,
        name: &Name,
        topic: Topic,
        terms: Terms,
        now: Nanos,
    ) -> Result<Change, SubscriptionError> {
        self.may_create(name)?;
        let state = self.topics.entry(topic).or_default();
        if !state.is_wanted() {
            terms.after.as_slice().iter().for_each(|mark| {
                state.marks.advance(*mark);
            });
        }
        let mut queue = Queue::new(topic, self.last, terms.after.clone());
        queue.put_at(state.total, state.total_bytes);
        state.want(state.total);
        state.away += 1;
        Ok(self.add(name, Kind::Queue(Box::new(queue)), &terms, now))
    }

    /// Creates a subscription to state: a token that is kept under a name.
    ///
    /// # Errors
    /// If the name is in use, there are too many, or the token is too long.
    pub fn create_token(
        &mut self,
        name: &Name,
        token: &[u8],
        terms: &Terms,
        now: Nanos,
    ) -> Result<Change, SubscriptionError> {
        self.may_create(name)?;
        check_token(token)?;
        Ok(self.add(name, Kind::Token(token.to_vec()), terms, now))
    }

    fn may_create(&self, name: &Name) -> Result<(), SubscriptionError> {
        let max = self.config.subscriptions_max;
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        if self.names.contains_key(name) {
            return Err(SubscriptionError::Exists(name.clone()));
        }
        if self.names.len() >= max {
            return Err(SubscriptionError::TooMany { max });
        }
        Ok(())
    }

    fn add(&mut self, name: &Name, kind: Kind, terms: &Terms, now: Nanos) -> Change {
        self.now = self.now.max(now);
        let quota = terms.quota.unwrap_or(self.config.quota);
        let expire_after = terms.expire_after.unwrap_or(self.config.expire_after);
        let (quota, expire_after) = self.within_limits(quota, expire_after);
        self.insert(Subscription {
            name: name.clone(),
            kind,
            status: Status::Live,
            quota,
            expire_after,
            attachment: 0,
            detached_at: self.now,
            created_by: terms.created_by,
            may_have_lost: false,
        });
        self.saver.changed_now()
    }

    /// Returns terms with nothing in them above the configuration's.
    pub(crate) fn within_limits(&self, quota: Quota, expire_after: Nanos) -> (Quota, Nanos) {
        if plant::is(Plant::TermsNotCapped) {
            return (quota, expire_after);
        }
        (quota.within(self.config.quota), expire_after.min(self.config.expire_after))
    }

    /// Puts a subscription into a free slot.
    pub(crate) fn insert(&mut self, subscription: Subscription) {
        let free = self.subscriptions.iter().position(Option::is_none);
        let at = free.unwrap_or(self.subscriptions.len());
        let id = u32::try_from(at).expect("fewer than 2^32 subscriptions");
        self.names.insert(subscription.name.clone(), id);
        if at == self.subscriptions.len() {
            self.subscriptions.push(None);
        }
        self.subscriptions[at] = Some(subscription);
    }

    /// Returns the number of subscriptions, ended ones included, whose names begin with `prefix`,
    /// and the number of those that a participant created.
    #[must_use]
    pub fn count_created(&self, prefix: &Name, created_by: u32) -> (usize, usize) {
        let (mut all, mut own) = (0, 0);
        let from = self.names.range::<Name, _>(prefix..);
        for (_, id) in from.take_while(|(name, _)| name.as_str().starts_with(prefix.as_str())) {
            all += 1;
            own += usize::from(self.at(*id as usize).created_by == created_by);
        }
        (all, own)
    }

    pub(crate) fn find(&self, name: &Name) -> Result<usize, SubscriptionError> {
        let id = self.names.get(name).ok_or_else(|| SubscriptionError::Unknown(name.clone()))?;
        Ok(*id as usize)
    }

    pub(crate) fn at(&self, id: usize) -> &Subscription {
        self.subscriptions[id].as_ref().expect("a name is of a subscription")
    }

    pub(crate) fn at_mut(&mut self, id: usize) -> &mut Subscription {
        self.subscriptions[id].as_mut().expect("a name is of a subscription")
    }

    /// True when a change is saved: a creation or deletion by it survives any failure.
    #[must_use]
    pub fn is_saved(&self, change: Change) -> bool {
        change.0 <= self.saver.saved()
    }

    /// Removes a subscription, live or ended.
    ///
    /// # Errors
    /// If there is none of the name, or a client is attached.
    pub fn delete(&mut self, name: &Name) -> Result<Change, SubscriptionError> {
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        let id = self.find(name)?;
        if self.at(id).is_attached() && self.at(id).status == Status::Live {
            return Err(SubscriptionError::Attached(name.clone()));
        }
        let change = self.saver.changed_now();
        self.give_up(id, change);
        self.remove(id);
        Ok(change)
    }

    fn remove(&mut self, id: usize) {
        if let Some(subscription) = self.subscriptions[id].take() {
            self.names.remove(&subscription.name);
        }
    }

    /// Drops everything that a live subscription still wants.
    fn give_up(&mut self, id: usize, change: Change) {
        let subscription = self.at_mut(id);
        let is_attached = subscription.is_attached();
        if subscription.status != Status::Live {
            return;
        }
        let Some(queue) = subscription.queue_mut() else { return };
        queue.rewind();
        let (topic, index) = (queue.topic, queue.acked_index);
        let state = self.topics.get_mut(&topic).expect("its topic is there");
        state.end(index, change.0);
        state.away -= u32::from(!is_attached);
        self.forget_taken(topic);
    }

    fn end(&mut self, id: usize, status: Status) {
        let change = self.saver.changed_now();
        self.give_up(id, change);
        let now = self.now;
        let subscription = self.at_mut(id);
        subscription.status = status;
        subscription.attachment = 0;
        subscription.detached_at = now;
    }

    pub(crate) fn evict_at(&mut self, id: usize, reason: EvictReason) {
        self.end(id, Status::Evicted(reason));
        self.counters.evicted += 1;
        let name = self.at(id).name.clone();
        self.notices.push(Notice::Evicted { name, reason });
    }

    /// Evicts a subscription on behalf of an operator.
    ///
    /// # Errors
    /// If there is none of the name, it ended before, or it is a token.
    pub fn evict(&mut self, name: &Name) -> Result<Change, SubscriptionError> {
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        let id = self.find(name)?;
        self.check_live(id)?;
        if self.at(id).queue().is_none() {
            return Err(SubscriptionError::OtherKind(name.clone()));
        }
        self.evict_at(id, EvictReason::Operator);
        Ok(self.saver.changed_now())
    }

    /// Compacts spill files on behalf of an operator: the wanted parts of a file are written to
    /// another one, a bounded number per cycle, and the file is removed. This happens automatically
    /// when the waste exceeds the wanted bytes.
    pub fn compact(&mut self) {
        if !self.has_stopped() {
            self.spill.compact();
        }
    }

    /// Drops the messages that a subscription has not taken, on behalf of an operator: it goes on
    /// with the next message.
    ///
    /// # Errors
    /// If there is none of the name, it ended, a client is attached, or it is a token.
    pub fn skip(&mut self, name: &Name) -> Result<Change, SubscriptionError> {
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        let (id, last) = (self.find(name)?, self.last);
        self.check_live(id)?;
        if self.at(id).is_attached() {
            return Err(SubscriptionError::Attached(name.clone()));
        }
        let Some(queue) = self.at(id).queue() else {
            return Err(SubscriptionError::OtherKind(name.clone()));
        };
        let (topic, from) = (queue.topic, queue.acked_index);
        let state = &self.topics[&topic];
        let (to, bytes, marks) = (state.total, state.total_bytes, state.marks.clone());
        let queue = self.at_mut(id).queue_mut().expect("it is one");
        queue.acked = last;
        marks.as_slice().iter().for_each(|mark| {
            queue.taken.advance(*mark);
        });
        queue.put_at(to, bytes);
        self.topics.get_mut(&topic).expect("its topic is there").advance(from, to);
        self.forget_taken(topic);
        Ok(self.saver.changed_now())
    }

    /// Checks that a subscription is live; the error tells how it ended.
    pub(crate) fn check_live(&self, id: usize) -> Result<(), SubscriptionError> {
        let subscription = self.at(id);
        let name = subscription.name.clone();
        let taken = subscription.queue().map(|queue| queue.taken.clone()).unwrap_or_default();
        match subscription.status {
            Status::Live => Ok(()),
            Status::Evicted(reason) => Err(SubscriptionError::Evicted { name, reason, taken }),
            Status::Expired => Err(SubscriptionError::Expired { name, taken }),
        }
    }

    /// Returns the subscription with the greatest `measure`, unless all are zero. The measure takes
    /// the topic and the bytes of bodies before the first one not taken.
    pub(crate) fn furthest_behind(
        &self,
        measure: impl Fn(&TopicState, u64) -> u64,
    ) -> Option<usize> {
        let measured = |(id, subscription): (usize, &Option<Subscription>)| {
            let queue = subscription.as_ref()?.live_queue()?;
            Some((measure(&self.topics[&queue.topic], queue.acked_bytes), id))
        };
        let all = self.subscriptions.iter().enumerate().filter_map(measured);
        all.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes).map(|(_, id)| id)
    }

    /// Checks all quotas and expiry times. Returns the number of subscriptions that it ended or
    /// removed.
    pub(crate) fn sweep(&mut self) -> usize {
        self.note_served();
        let (mut ended, mut lapsing_count) = (0, 0);
        for id in 0..self.subscriptions.len() {
            let Some(subscription) = &self.subscriptions[id] else { continue };
            let away = self.now.since(subscription.detached_at);
            let is_gone = !subscription.is_attached() && away >= subscription.expire_after;
            let is_in_grace = self.is_in_grace(subscription, away);
            match subscription.status {
                Status::Live if is_gone && !is_in_grace => {
                    let name = subscription.name.clone();
                    self.end(id, Status::Expired);
                    self.counters.expired += 1;
                    self.notices.push(Notice::Expired { name });
                }
                // The grace lifts no quota.
                Status::Live => match self.over_quota(subscription) {
                    Some(reason) => self.evict_at(id, reason),
                    None => {
                        lapsing_count += u64::from(is_gone);
                        continue;
                    }
                },
                // A client that comes back is told of the end for as long again.
                _ if is_gone => {
                    self.remove(id);
                    self.saver.changed();
                }
                _ => continue,
            }
            ended += 1;
        }
        self.lapsing_count = lapsing_count;
        ended
    }

    /// True while a subscription that is due to expire is kept: it has been due for less than the
    /// grace, or the broker was opened less than that ago.
    fn is_in_grace(&self, subscription: &Subscription, away: Nanos) -> bool {
        let grace = self.config.expire_grace;
        let due_for = away.since(subscription.expire_after);
        let open_for = self.now.since(self.opened_at);
        (due_for < grace || open_for < grace) && !plant::is(Plant::GraceSkipped)
    }

    fn note_served(&mut self) {
        if self.now.since(self.noted_at) >= NOTE_EVERY && !self.names.is_empty() {
            self.noted_at = self.now;
            self.saver.changed();
        }
    }

    fn over_quota(&self, subscription: &Subscription) -> Option<EvictReason> {
        let (lag, quota) = (self.lag(subscription), subscription.quota);
        if lag.bytes > quota.bytes_max {
            Some(EvictReason::Bytes)
        } else if lag.messages > quota.messages_max + u64::from(plant::is(Plant::QuotaOffByOne)) {
            Some(EvictReason::Messages)
        } else if lag.age > quota.age_max {
            Some(EvictReason::Age)
        } else {
            None
        }
    }

    fn lag(&self, subscription: &Subscription) -> Lag {
        let Some(queue) = subscription.live_queue() else { return Lag::default() };
        let state = &self.topics[&queue.topic];
        let at = state.published_at(queue.acked_index);
        Lag {
            messages: state.total - queue.acked_index,
            bytes: state.total_bytes - queue.acked_bytes,
            spilled_bytes: state.bytes_before_memory().saturating_sub(queue.acked_bytes),
            age: at.map_or(Nanos(0), |at| self.now.since(at)),
        }
    }

    /// Returns all subscriptions, sorted by name.
    #[must_use]
    pub fn list(&self) -> Vec<ListedSubscription> {
        self.names.values().map(|id| self.listed(self.at(*id as usize))).collect()
    }

    /// Returns one subscription.
    ///
    /// # Errors
    /// If there is none of the name.
    pub fn look(&self, name: &Name) -> Result<ListedSubscription, SubscriptionError> {
        Ok(self.listed(self.at(self.find(name)?)))
    }

    fn listed(&self, subscription: &Subscription) -> ListedSubscription {
        let (row, lag) = (subscription.row(), self.lag(subscription));
        ListedSubscription { row, is_attached: subscription.is_attached(), lag }
    }

    /// Returns the token that is kept under a name.
    ///
    /// # Errors
    /// If there is none, it expired, or the name is of a queue.
    pub fn token(&self, name: &Name) -> Result<&[u8], SubscriptionError> {
        let id = self.find(name)?;
        self.check_live(id)?;
        match &self.at(id).kind {
            Kind::Token(token) => Ok(token),
            Kind::Queue(_) => Err(SubscriptionError::OtherKind(name.clone())),
        }
    }

    /// Replaces the token under a name, after a client has acknowledged its state. Report it as
    /// kept only when the change [is saved](Broker::is_saved).
    ///
    /// # Errors
    /// If there is none, it expired, the name is of a queue, or the token is too long.
    pub fn keep_token(
        &mut self,
        name: &Name,
        token: &[u8],
        now: Nanos,
    ) -> Result<Change, SubscriptionError> {
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        let id = self.find(name)?;
        self.check_live(id)?;
        check_token(token)?;
        self.now = self.now.max(now);
        let now = self.now;
        let subscription = self.at_mut(id);
        let Kind::Token(kept) = &mut subscription.kind else {
            return Err(SubscriptionError::OtherKind(name.clone()));
        };
        *kept = token.to_vec();
        subscription.detached_at = now;
        Ok(self.saver.changed_now())
    }

    /// Returns the newest message's number.
    #[must_use]
    pub fn last(&self) -> MessageNo {
        self.last
    }
}

fn check_token(token: &[u8]) -> Result<(), SubscriptionError> {
    let (bytes, max) = (token.len(), TOKEN_BYTES_MAX);
    if bytes > max { Err(SubscriptionError::TokenTooLong { bytes, max }) } else { Ok(()) }
}
