//! Accounts: the slots of a session's subscriptions over all its connections, their limits, and the
//! work that its requests have still to cause.
//!
//! A slot is one instrument of one subscription. A subscription claims the slots of all instruments
//! that it matches when it begins, and releases each as it leaves the instrument.
//!
//! INVARIANT: an account with work is in the list of turns or rests, once.

use std::collections::{BTreeMap, VecDeque};

use weir_types::Nanos;

use super::fanout::Watcher;
use super::subscription::SubscribeError;

/// The account of a session in a `Fanout`. Numbers are reused after removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub(super) u32);

/// The figures of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountProgress {
    /// Slots claimed.
    pub slots: u64,
    /// The most slots that it may have; `None` without a limit.
    pub slots_max: Option<u64>,
    /// Steps that its earlier requests have still to cause, about.
    pub backlog: u64,
}

/// Work that is done in steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// Leave the instruments of a subscription that has ended.
    End(Watcher),
    /// Remove a subscriber that has gone.
    Leave(Departure),
    /// Sweep the queue of a subscriber that has lost instruments.
    Sweep(u32),
}

/// The departure of a subscriber, which has left the instruments of all slots below `slot`, and the
/// subscriptions below `group`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) subscriber: u32,
    pub(super) slot: u32,
    pub(super) group: u32,
}

/// Slots claimed, and those of them that are being released.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claims {
    pub(super) claimed: u64,
    pub(super) ending: u64,
}

impl Claims {
    /// The sum with this many more, without those that are being released.
    fn with(&self, more: u64) -> u64 {
        self.claimed + more - self.ending
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) slots: Claims,
    slots_max: Option<u64>,
    /// Slots that subscriptions have claimed and not taken yet.
    pub(super) joining: u64,
    /// Slots that its subscribers have memory for.
    pub(super) kept: u64,
    /// Steps that were done in advance, which it rests for.
    pub(super) debt: u64,
    pub(super) subscriber_count: u32,
    /// True while the caller may add subscribers to it.
    is_kept: bool,
    /// The subscriptions to more than one symbol.
    pub(super) watchers: Vec<Watcher>,
    /// Subscriptions that instruments wait for.
    pub(super) behind: VecDeque<Watcher>,
    /// All of `watchers` but those in `behind` include the instruments in front of this place.
    pub(super) seen: usize,
    pub(super) jobs: VecDeque<Job>,
    is_listed: bool,
}

impl Account {
    fn has_work(&self, place_count: usize) -> bool {
        let is_behind = self.seen < place_count && !self.watchers.is_empty();
        self.debt > 0 || !self.jobs.is_empty() || !self.behind.is_empty() || is_behind
    }

    pub(super) fn progress(&self) -> AccountProgress {
        let backlog = self.joining + self.slots.ending + self.debt + self.behind.len() as u64;
        AccountProgress { slots: self.slots.claimed, slots_max: self.slots_max, backlog }
    }
}

/// All accounts, and their turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    accounts: Vec<Option<Account>>,
    turns: VecDeque<u32>,
    /// Accounts that take no turn, by the ends of their rests, with the steps that each rests for.
    resting: BTreeMap<(Nanos, u32), u64>,
    /// The sum of all accounts.
    total: Claims,
    /// The most slots of all accounts together; `None` without a limit.
    pub(super) slots_max: Option<u64>,
}

impl Accounts {
    pub(super) fn add(&mut self, slots_max: Option<u64>, is_kept: bool) -> AccountId {
        let free = self.accounts.iter().position(Option::is_none);
        let index = free.unwrap_or(self.accounts.len());
        if index == self.accounts.len() {
            self.accounts.push(None);
        }
        self.accounts[index] = Some(Account { slots_max, is_kept, ..Account::default() });
        AccountId(u32::try_from(index).expect("fewer accounts than 2^32"))
    }

    /// Removes an account once it has no subscriber.
    pub(super) fn remove(&mut self, id: AccountId) {
        if let Some(Some(account)) = self.accounts.get_mut(id.0 as usize) {
            account.is_kept = false;
            self.drop_if_over(id.0);
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Account> {
        self.accounts.get(id as usize)?.as_ref()
    }

    /// # Panics
    /// When the account does not exist.
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Account {
        let account = self.accounts.get_mut(id as usize).and_then(Option::as_mut);
        account.expect("a subscriber's account is there")
    }

    pub(super) fn total(&self) -> Claims {
        self.total
    }

    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Has an account without a turn rest until this time.
    pub(super) fn rest(&mut self, id: u32, until: Nanos) {
        let account = self.get_mut(id);
        let debt = account.debt;
        // What was done in its turn may have listed it; it rests at its next one then.
        if !std::mem::replace(&mut account.is_listed, true) {
            self.resting.insert((until, id), debt);
        }
    }

    /// The end of the next rest.
    pub(super) fn rests_until(&self) -> Option<Nanos> {
        self.resting.first_key_value().map(|((until, _), _)| *until)
    }

    /// Has the accounts whose rest is over take turns again. What they rested for is settled.
    pub(super) fn end_rests(&mut self, now: Nanos) {
        while let Some(rest) = self.resting.first_entry()
            && rest.key().0 <= now
        {
            let ((_, id), debt) = rest.remove_entry();
            self.get_mut(id).debt -= debt;
            self.turns.push_back(id);
        }
    }

    /// Takes the account whose turn it is.
    pub(super) fn next_turn(&mut self) -> Option<u32> {
        let id = self.turns.pop_front()?;
        self.get_mut(id).is_listed = false;
        Some(id)
    }

    /// Has an account take its turn, behind those that wait for theirs.
    pub(super) fn list(&mut self, id: u32) {
        let account = self.get_mut(id);
        if !std::mem::replace(&mut account.is_listed, true) {
            self.turns.push_back(id);
        }
    }

    /// Lists an account that has more work, or removes it if it is over.
    pub(super) fn end_turn(&mut self, id: u32, place_count: usize) {
        if self.get_mut(id).has_work(place_count) {
            self.list(id);
        } else {
            self.drop_if_over(id);
        }
    }

    /// Has all accounts take a turn that follow the order of definitions.
    pub(super) fn list_watching(&mut self) {
        for id in 0..self.accounts.len() as u32 {
            if self.get(id).is_some_and(|account| !account.watchers.is_empty()) {
                self.list(id);
            }
        }
    }

    /// The accounts, to move their places.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        self.accounts.iter_mut().flatten()
    }

    fn drop_if_over(&mut self, id: u32) {
        let is_over = self.get(id).is_some_and(|account| {
            !account.is_kept && account.subscriber_count == 0 && !account.is_listed
        });
        if is_over {
            self.accounts[id as usize] = None;
        }
    }

    /// Claims slots for a request.
    ///
    /// # Errors
    /// [`SubscribeError::SessionSlots`] and [`SubscribeError::AllSlots`]; instead
    /// [`SubscribeError::Pending`] when there will be room once earlier requests are done.
    pub(super) fn claim(&mut self, id: u32, count: u64) -> Result<(), SubscribeError> {
        self.check_claim(id, count)?;
        let account = self.get(id).expect("a subscriber's account is there");
        let is_above =
            |claims: Claims, max: Option<u64>| max.is_some_and(|max| claims.claimed + count > max);
        let is_limited = account.slots_max.is_some();
        let is_full = is_above(account.slots, account.slots_max);
        if is_full || is_limited && is_above(self.total, self.slots_max) {
            return Err(SubscribeError::Pending);
        }
        self.add_claim(id, count);
        Ok(())
    }

    /// Claims a slot for an instrument that was defined later.
    ///
    /// # Errors
    /// [`SubscribeError::SessionSlots`] and [`SubscribeError::AllSlots`].
    pub(super) fn claim_one(&mut self, id: u32) -> Result<(), SubscribeError> {
        self.check_claim(id, 1)?;
        self.add_claim(id, 1);
        Ok(())
    }

    /// Checks a claim as if all slots that are being released were free. The subscriptions of an
    /// account without a limit are the operator's.
    fn check_claim(&self, id: u32, count: u64) -> Result<(), SubscribeError> {
        let account = self.get(id).expect("a subscriber's account is there");
        let Some(max) = account.slots_max else { return Ok(()) };
        let needed = account.slots.with(count);
        if needed > max {
            return Err(SubscribeError::SessionSlots { needed, max });
        }
        let Some(max) = self.slots_max else { return Ok(()) };
        let needed = self.total.with(count);
        if needed > max {
            return Err(SubscribeError::AllSlots { needed, max });
        }
        Ok(())
    }

    fn add_claim(&mut self, id: u32, count: u64) {
        self.get_mut(id).slots.claimed += count;
        self.total.claimed += count;
    }

    /// Notes that slots are being released.
    pub(super) fn begin_release(&mut self, id: u32, count: u64) {
        self.get_mut(id).slots.ending += count;
        self.total.ending += count;
    }

    /// Releases slots, which may have been noted by [`Accounts::begin_release`].
    pub(super) fn release(&mut self, id: u32, count: u64, is_ending: bool) {
        let ending = if is_ending { count } else { 0 };
        let release = |claims: &mut Claims| {
            claims.claimed -= count;
            claims.ending -= ending;
        };
        release(&mut self.get_mut(id).slots);
        release(&mut self.total);
    }
}
