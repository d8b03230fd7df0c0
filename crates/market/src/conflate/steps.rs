//! The second stage's work for subscribing and leaving, in steps.
//!
//! | cause                        | steps                                                   |
//! |------------------------------|---------------------------------------------------------|
//! | a subscription begins        | one for each instrument that it includes                |
//! | an instrument is defined     | one for each subscription that includes it              |
//! | a subscription ends          | one for each instrument that it leaves, then a sweep    |
//! | a subscriber goes            | one for each instrument that it leaves                  |
//! | an instrument is redefined   | a sweep of each subscriber that has events of it queued |
//!
//! Sixteen looks at something that needs no change count as a step. Work that cannot be divided, a
//! sweep or a change of a subscription's interval, is a debt: its account rests for a time in
//! proportion before it takes another turn.
//!
//! Accounts take turns of [`TURN_STEPS`] steps, however many subscribers and requests they have.

use weir_types::{InstrumentId, Nanos};

use super::accounts::{Departure, Job};
use super::conflator::Interest;
use super::entry::{Entry, Kind, MergedChanges};
use super::fanout::{Active, EndedSubscription, Fanout, Subscriber, Watcher};
use super::subscription::{Pattern, SubscribeError, SubscriberId, SubscriptionId};
use super::topic::{Left, Listener};
use crate::plant::{self, Plant};

/// Slots of which an account may keep the memory beyond twice its limit.
const MEMORY_SLACK: u64 = 16_384;
/// Steps of an account before the next account's turn.
const TURN_STEPS: usize = 64;
/// Looks that count as a step.
const LOOKS_PER_STEP: usize = 16;
/// The most subscriptions of one subscriber that may include the same instrument.
const SUBSCRIPTIONS_OF_INSTRUMENT_MAX: u32 = 32;
/// The rest of an account for each step that it owes, in nanoseconds: four times what a step takes,
/// so that undivided work has at most a fifth of the thread.
const REST_PER_STEP: u64 = 1_600;

impl Fanout {
    /// Does at most `steps_max` steps of the work that requests and definitions have caused;
    /// returns their number, which is less only when no work is left.
    pub fn advance(&mut self, now: Nanos, steps_max: usize) -> usize {
        let steps_max = if plant::is(Plant::CycleWithoutEnd) { usize::MAX } else { steps_max };
        let turn_steps = if plant::is(Plant::TurnWithoutEnd) { usize::MAX } else { TURN_STEPS };
        let mut done = 0;
        self.accounts.end_rests(now);
        while done < steps_max
            && let Some(account) = self.accounts.next_turn()
        {
            done += self.take_turn(now, account, turn_steps.min(steps_max - done));
            let owing = self.accounts.get_mut(account);
            if plant::is(Plant::DebtIgnored) {
                owing.debt = 0;
            }
            let debt = owing.debt;
            if debt > 0 {
                let rest = debt.saturating_mul(REST_PER_STEP);
                self.accounts.rest(account, Nanos(now.0.saturating_add(rest)));
            } else {
                self.accounts.end_turn(account, self.instruments.place_count());
            }
        }
        done
    }

    /// Does all of the work that requests and definitions have caused, without rests.
    pub fn settle(&mut self, now: Nanos) {
        while self.has_steps() {
            self.accounts.end_rests(Nanos(u64::MAX));
            self.advance(now, usize::MAX);
        }
    }

    /// Returns true when [`Fanout::advance`] has work, now or after a rest.
    #[must_use]
    pub fn has_steps(&self) -> bool {
        self.accounts.has_turns() || self.accounts.rests_until().is_some()
    }

    /// Returns the next time at which [`Fanout::advance`] has work, from `now` on; `None` when it
    /// has none.
    #[must_use]
    pub fn next_steps(&self, now: Nanos) -> Option<Nanos> {
        if self.accounts.has_turns() { Some(now) } else { self.accounts.rests_until() }
    }

    /// Returns true when the subscriptions of a subscriber include all instruments that they match.
    #[must_use]
    pub fn is_settled(&self, id: SubscriberId) -> bool {
        let Some(Some(subscriber)) = self.subscribers.get(id.0 as usize) else { return true };
        subscriber.active.iter().flatten().all(|active| {
            active.has_ended
                || match &active.terms.pattern {
                    Pattern::Symbol(symbol) => {
                        active.claimed == 0 || self.instruments.number_of(symbol).is_none()
                    }
                    Pattern::Prefix(_) | Pattern::All => {
                        active.place >= self.instruments.place_count()
                    }
                }
        })
    }

    /// Returns true when a subscription includes an instrument by now: a look at all its slots, for
    /// tests.
    #[must_use]
    pub fn includes(
        &self,
        id: SubscriberId,
        subscription: SubscriptionId,
        instrument: InstrumentId,
    ) -> bool {
        let Some(Some(subscriber)) = self.subscribers.get(id.0 as usize) else { return false };
        let outbox = &subscriber.outbox;
        (0..outbox.slot_count()).map(|slot| outbox.slot(slot)).any(|slot| {
            let is_of = slot.group == subscription.0 && slot.instrument_id == instrument;
            is_of && !slot.is_removed
        })
    }

    /// Takes the subscriptions that ended since the last call for want of slots: an instrument that
    /// was defined later found none, or had as many subscriptions of the subscriber as may be.
    pub fn take_ended(&mut self) -> impl Iterator<Item = EndedSubscription> + '_ {
        self.ended.drain(..)
    }

    fn take_turn(&mut self, now: Nanos, account: u32, steps_max: usize) -> usize {
        let mut done = 0;
        while done < steps_max
            && !self.owes(account)
            && let Some(job) = self.accounts.get_mut(account).jobs.front().copied()
        {
            let (steps, rest) = self.work(job, steps_max - done);
            done += steps;
            let jobs = &mut self.accounts.get_mut(account).jobs;
            match rest {
                Some(rest) => jobs[0] = rest,
                None => _ = jobs.pop_front(),
            }
        }
        while done < steps_max
            && !self.owes(account)
            && let Some(watcher) = self.next_behind(account)
        {
            let (steps, is_done) = self.catch_up(now, watcher, steps_max - done);
            done += steps;
            if is_done {
                self.accounts.get_mut(account).behind.pop_front();
            }
        }
        done
    }

    fn owes(&mut self, account: u32) -> bool {
        self.accounts.get_mut(account).debt > 0 && !plant::is(Plant::DebtIgnored)
    }

    /// The account's next subscription that instruments wait for.
    fn next_behind(&mut self, account: u32) -> Option<Watcher> {
        let place_count = self.instruments.place_count();
        let account = self.accounts.get_mut(account);
        if account.behind.is_empty() && account.seen < place_count {
            account.seen = place_count;
            account.behind.extend(&account.watchers);
        }
        account.behind.front().copied()
    }

    /// Does a part of a job. Returns the number of steps, and the rest of the job.
    fn work(&mut self, job: Job, steps_max: usize) -> (usize, Option<Job>) {
        match job {
            Job::End(watcher) => self.leave_instruments(watcher, steps_max),
            Job::Leave(departure) => self.remove_part(departure, steps_max),
            Job::Sweep(subscriber) => {
                if let Some(Some(swept)) = self.subscribers.get_mut(subscriber as usize) {
                    let (looks, account) = (swept.outbox.sweep(), swept.account);
                    self.owe(account, looks);
                }
                (1, None)
            }
        }
    }

    /// Leaves instruments of a subscription that has ended, and removes it behind the last one.
    fn leave_instruments(&mut self, watcher: Watcher, steps_max: usize) -> (usize, Option<Job>) {
        let (id, group) = watcher;
        let Some(Some(subscriber)) = self.subscribers.get(id as usize) else { return (1, None) };
        // A subscriber that goes leaves the instruments of all its subscriptions.
        if subscriber.has_gone || subscriber.active[group as usize].is_none() {
            return (1, None);
        }
        for done in 0..steps_max {
            let subscriber = self.there(id);
            let account = subscriber.account;
            let Some(slot) = subscriber.outbox.slot_of_group(group) else {
                let mut looks = subscriber.outbox.sweep();
                subscriber.outbox.remove_group(group);
                let slot_count = subscriber.outbox.slot_count();
                looks += subscriber.outbox.trim();
                let freed = slot_count - subscriber.outbox.slot_count();
                let active = subscriber.active[group as usize].take();
                let active = active.expect("it was there above");
                self.accounts.get_mut(account).kept -= u64::from(freed);
                self.owe(account, looks);
                self.forget_subscription(watcher, account, &active);
                return (done + 1, None);
            };
            self.leave_topic(id, slot);
            let _has_events = self.there(id).outbox.remove_slot(slot);
            if !plant::is(Plant::EndKeepsSlots) {
                self.accounts.release(account, 1, true);
            }
        }
        (steps_max, Some(Job::End(watcher)))
    }

    /// Leaves instruments of a subscriber that has gone, then its subscriptions, and removes it.
    fn remove_part(&mut self, departure: Departure, steps_max: usize) -> (usize, Option<Job>) {
        let Departure { subscriber: id, mut slot, mut group } = departure;
        for done in 0..steps_max {
            let subscriber = self.there(id);
            let account = subscriber.account;
            if slot < subscriber.outbox.slot_count() {
                if !subscriber.outbox.slot(slot).is_removed {
                    self.leave_topic(id, slot);
                    self.accounts.release(account, 1, true);
                }
                slot += 1;
            } else if let Some(active) = subscriber.active.get_mut(group as usize) {
                if let Some(active) = active.take() {
                    self.forget_subscription((id, group), account, &active);
                }
                group += 1;
            } else {
                let kept = u64::from(subscriber.outbox.slot_count());
                self.subscribers[id as usize] = None;
                let account = self.accounts.get_mut(account);
                account.kept -= kept;
                account.subscriber_count -= 1;
                return (done + 1, None);
            }
        }
        (steps_max, Some(Job::Leave(Departure { slot, group, ..departure })))
    }

    /// Removes a subscription that has left its instruments from the lists of those that wait for
    /// others, and releases what it has claimed in vain.
    fn forget_subscription(&mut self, watcher: Watcher, account: u32, active: &Active) {
        self.accounts.release(account, u64::from(active.claimed), true);
        let Pattern::Symbol(symbol) = active.terms.pattern else { return };
        let watchers = self.exact.get_mut(&symbol).expect("who watches a symbol is listed");
        let looks = watchers.len();
        watchers.retain(|other| *other != watcher);
        if watchers.is_empty() {
            self.exact.remove(&symbol);
        }
        self.owe(account, looks);
    }

    /// Includes instruments in a subscription. Returns the number of steps, and true when none is
    /// left.
    fn catch_up(&mut self, now: Nanos, watcher: Watcher, steps_max: usize) -> (usize, bool) {
        let looks_max = steps_max.saturating_mul(LOOKS_PER_STEP);
        let mut looks = 0;
        while let Some(active) = self.live_mut(watcher).copied() {
            let pattern = active.terms.pattern;
            let found = match &pattern {
                Pattern::Symbol(symbol) => {
                    self.instruments.number_of(symbol).filter(|_| active.claimed > 0)
                }
                Pattern::Prefix(_) | Pattern::All => {
                    if active.place >= self.instruments.place_count() {
                        self.return_claims(watcher);
                        break;
                    }
                    if looks >= looks_max {
                        return (looks / LOOKS_PER_STEP, false);
                    }
                    self.look_behind(watcher)
                }
            };
            if let Some(instrument) = found {
                looks += LOOKS_PER_STEP;
                if let Err(error) = self.join(now, watcher, instrument) {
                    self.end_for(watcher, error);
                    break;
                }
            } else {
                looks += 1;
            }
            if matches!(pattern, Pattern::Symbol(_)) {
                break;
            }
        }
        (looks.div_ceil(LOOKS_PER_STEP).clamp(1, steps_max), true)
    }

    /// Moves a subscription's place by one; returns the instrument there that it includes.
    fn look_behind(&mut self, watcher: Watcher) -> Option<InstrumentId> {
        let active = self.live_mut(watcher)?;
        let (pattern, place) = (active.terms.pattern, active.place);
        active.place += 1;
        let (id, symbol) = self.instruments.at(place)?;
        pattern.matches(&symbol).then_some(id)
    }

    /// Releases what a subscription has claimed for instruments that are gone now.
    fn return_claims(&mut self, watcher: Watcher) {
        let Some(active) = self.live_mut(watcher) else { return };
        let claimed = u64::from(std::mem::take(&mut active.claimed));
        let account = self.there(watcher.0).account;
        self.accounts.release(account, claimed, false);
        self.accounts.get_mut(account).joining -= claimed;
    }

    fn join(
        &mut self,
        now: Nanos,
        watcher: Watcher,
        instrument: InstrumentId,
    ) -> Result<(), SubscribeError> {
        self.check_overlap(watcher.0, instrument)?;
        self.take_claim(watcher)?;
        self.listen(now, watcher, instrument);
        Ok(())
    }

    /// Refuses slots for which an account would have to keep memory far above its limit: that of
    /// slots which its connections no longer use and cannot free yet.
    ///
    /// # Errors
    /// [`SubscribeError::SessionSlots`].
    pub(super) fn check_memory(
        &self,
        account: u32,
        id: SubscriberId,
        count: usize,
    ) -> Result<(), SubscribeError> {
        let Some(account) = self.accounts.get(account) else { return Ok(()) };
        let Some(max) = account.progress().slots_max else { return Ok(()) };
        let kept = account.kept;
        let Some(Some(subscriber)) = self.subscribers.get(id.0 as usize) else { return Ok(()) };
        let needed = kept + count.saturating_sub(subscriber.outbox.free_count()) as u64;
        match needed > 2 * max + MEMORY_SLACK {
            true => Err(SubscribeError::SessionSlots { needed, max }),
            false => Ok(()),
        }
    }

    /// Refuses one more slot of an instrument to a subscriber that has many. One whose account has
    /// no limit, the operator's, may have any number.
    ///
    /// # Errors
    /// [`SubscribeError::TooManyOfInstrument`].
    pub(super) fn check_overlap(
        &self,
        id: u32,
        instrument: InstrumentId,
    ) -> Result<(), SubscribeError> {
        let max = SUBSCRIPTIONS_OF_INSTRUMENT_MAX;
        let Some(Some(subscriber)) = self.subscribers.get(id as usize) else { return Ok(()) };
        let account = self.accounts.get(subscriber.account);
        if account.is_none_or(|account| account.progress().slots_max.is_none()) {
            return Ok(());
        }
        match subscriber.outbox.has_siblings(instrument, max as usize) {
            true => Err(SubscribeError::TooManyOfInstrument(max)),
            false => Ok(()),
        }
    }

    /// Returns true when a subscription that has ended has still to leave the instrument.
    pub(super) fn is_leaving(&self, id: u32, instrument: InstrumentId) -> bool {
        let subscriber = self.subscribers.get(id as usize).and_then(Option::as_ref);
        subscriber.is_some_and(|one| one.outbox.has_ended_sibling(instrument))
    }

    /// Takes a slot that the subscription has claimed, or claims one.
    ///
    /// # Errors
    /// [`SubscribeError::SessionSlots`], [`SubscribeError::AllSlots`].
    pub(super) fn take_claim(&mut self, watcher: Watcher) -> Result<(), SubscribeError> {
        let account = self.there(watcher.0).account;
        let Some(active) = self.live_mut(watcher) else { return Ok(()) };
        if active.claimed == 0 {
            if plant::is(Plant::GrowthUnclaimed) {
                return Ok(());
            }
            return self.accounts.claim_one(account);
        }
        active.claimed -= 1;
        let is_joining = !matches!(active.terms.pattern, Pattern::Symbol(_));
        self.accounts.get_mut(account).joining -= u64::from(is_joining);
        Ok(())
    }

    /// Has a subscription hear an instrument, with a slot that it has claimed.
    pub(super) fn listen(&mut self, now: Nanos, (id, group): Watcher, instrument: InstrumentId) {
        let subscriber = self.there(id);
        let active = subscriber.active[group as usize].as_ref();
        let kind = active.expect("a watcher's subscription is there").terms.content.kind();
        let slot_count = subscriber.outbox.slot_count();
        let slot = subscriber.outbox.add_slot(instrument, kind, group);
        let (added, account) = (subscriber.outbox.slot_count() - slot_count, subscriber.account);
        self.accounts.get_mut(account).kept += u64::from(added);
        let (place, latest) = self.topics.join(instrument, kind, Listener { subscriber: id, slot });
        if place == 0 {
            let wish = self.wish(Interest { instrument_id: instrument, kind, is_wanted: true });
            let topic = self.topics.get_mut(instrument, kind).expect("a listener has joined it");
            topic.begun_by = wish;
        }
        let subscriber = self.there(id);
        let added = subscriber.outbox.slot_mut(slot);
        added.topic_place = place;
        added.is_snapshot_due = kind != Kind::Trades;
        if let Some(latest) = latest.filter(|_| !plant::is(Plant::LateWithoutState)) {
            let merged = MergedChanges { change_count: 0, ..latest.merged };
            subscriber.outbox.hear(now, slot, &Entry { merged, is_snapshot: true, ..latest });
            if !std::mem::replace(&mut subscriber.is_ready, true) {
                self.ready.push(SubscriberId(id));
            }
        }
    }

    /// Ends a subscription without a request.
    fn end_for(&mut self, watcher: Watcher, error: SubscribeError) {
        if self.live_mut(watcher).is_some() {
            let (subscriber, subscription) = (SubscriberId(watcher.0), SubscriptionId(watcher.1));
            self.ended.push(EndedSubscription { subscriber, subscription, error });
            self.end(watcher);
        }
    }

    /// Ends a subscription and has it leave its instruments in steps.
    pub(super) fn end(&mut self, watcher: Watcher) {
        if self.begin_end(watcher) {
            let account_id = self.there(watcher.0).account;
            let account = self.accounts.get_mut(account_id);
            let looks = account.watchers.len();
            account.watchers.retain(|other| *other != watcher);
            account.jobs.push_back(Job::End(watcher));
            self.owe(account_id, looks);
        }
    }

    /// Ends a subscription, which still has its instruments; false if it had ended before.
    pub(super) fn begin_end(&mut self, watcher: Watcher) -> bool {
        let (id, group) = watcher;
        let Some(active) = self.live_mut(watcher) else { return false };
        active.has_ended = true;
        let claimed = u64::from(active.claimed);
        let is_joining = !matches!(active.terms.pattern, Pattern::Symbol(_));
        let subscriber = self.there(id);
        let account = subscriber.account;
        let slots = u64::from(subscriber.outbox.slot_count_of(group));
        subscriber.outbox.end_group(group);
        self.accounts.begin_release(account, claimed + slots);
        if is_joining {
            self.accounts.get_mut(account).joining -= claimed;
        }
        true
    }

    /// Undefines an instrument number and removes all its listeners.
    pub(super) fn forget(&mut self, instrument: InstrumentId) {
        if !self.instruments.remove(instrument) {
            return;
        }
        for (_, Listener { subscriber: id, slot }) in self.topics.of_instrument(instrument) {
            self.leave_topic(id, slot);
            let subscriber = self.there(id);
            let account = subscriber.account;
            let group = subscriber.outbox.slot(slot).group;
            if subscriber.has_gone {
                subscriber.outbox.slot_mut(slot).is_removed = true;
                self.accounts.release(account, 1, true);
                continue;
            }
            let has_events = subscriber.outbox.remove_slot(slot);
            let active = subscriber.active[group as usize].as_mut();
            let active = active.expect("a slot's subscription is there");
            let has_ended = active.has_ended;
            // The claim of one symbol stays for the next instrument that has it.
            let keeps_claim = matches!(active.terms.pattern, Pattern::Symbol(_)) && !has_ended;
            active.claimed += u32::from(keeps_claim);
            self.accounts.release(account, u64::from(!keeps_claim), has_ended);
            if has_events {
                self.accounts.get_mut(account).jobs.push_back(Job::Sweep(id));
                self.accounts.list(account);
            }
        }
    }

    /// Removes a slot from its topic.
    fn leave_topic(&mut self, id: u32, slot: u32) {
        let slot = self.there(id).outbox.slot(slot);
        let (instrument_id, kind) = (slot.instrument_id, slot.kind);
        let place = slot.topic_place;
        match self.topics.leave(instrument_id, kind, place) {
            Left::Nobody => {
                self.wish(Interest { instrument_id, kind, is_wanted: false });
            }
            Left::Others => {}
            Left::Moved(_) if plant::is(Plant::PlaceNotMoved) => {}
            Left::Moved(Listener { subscriber, slot }) => {
                self.there(subscriber).outbox.slot_mut(slot).topic_place = place;
            }
        }
    }

    /// Has an account rest for looks that were made at once.
    pub(super) fn owe(&mut self, account: u32, looks: usize) {
        self.accounts.get_mut(account).debt += (looks / LOOKS_PER_STEP) as u64;
        self.accounts.list(account);
    }

    /// Moves the places of all subscriptions when the order of definitions was compacted.
    pub(super) fn compact_order(&mut self) {
        let Some(stay) = self.instruments.compact() else { return };
        let subscribers = self.subscribers.iter_mut().flatten();
        for active in subscribers.flat_map(|one| one.active.iter_mut().flatten()) {
            active.place = stay[active.place];
        }
        for account in self.accounts.iter_mut() {
            account.seen = stay[account.seen];
        }
    }

    /// A subscription that has not ended.
    fn live_mut(&mut self, (id, group): Watcher) -> Option<&mut Active> {
        let subscriber = self.subscribers.get_mut(id as usize)?.as_mut()?;
        let active = subscriber.active.get_mut(group as usize)?.as_mut();
        active.filter(|active| !active.has_ended)
    }

    /// # Panics
    /// When the subscriber does not exist.
    fn there(&mut self, id: u32) -> &mut Subscriber {
        let subscriber = self.subscribers.get_mut(id as usize).and_then(Option::as_mut);
        subscriber.expect("a listener's subscriber is there")
    }
}
