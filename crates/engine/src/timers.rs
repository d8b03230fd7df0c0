//! Timers on log time: expiries of good-till-date orders, ends of volatility calls, scheduled
//! phases, changes of many instruments. They fire one at a time, in order of deadline, kind and
//! identifier.
//!
//! | before | due timers fire | at most |
//! | --- | --- | --- |
//! | any command | in all instruments | until `tick_changes_max` orders have changed |
//! | one of an instrument | then in that, a bust in that of the trade | all, or none |
//!
//! None fires for the instrument's sake while more than `DUE_CHANGES_MAX` change its phase.
//!
//! A change of phase looks at the orders of its instrument, and these looks count as changes in the
//! proportion of a command's visits to its ends: else a tick could look at all orders of many
//! instruments. A halt ends no order and looks at none.
//!
//! So a command finds its own instrument as its time wants it, and timers of thousands of
//! instruments that are due together hold up no command for long. Nor do thousands of changes that
//! were filed for one instrument: a command that depends on its phase is refused until ticks have
//! made enough of them, and another is carried out ahead of them. A sweep, which may reach orders
//! of all instruments, fires those that come before the end of an order when it is at that order;
//! in a tick whose timers changed more than `tick_changes_max` orders, in a later one.
//!
//! Ends of calls and scheduled phases are in agendas, by time and by instrument.
//!
//! Expiries are in heaps, one of all and one of each instrument. An order that ends otherwise
//! leaves its entries there; such entries are skipped, and swept out when they are more than half.
//! INVARIANT: a heap's first entry belongs to a live order.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_types::{
    ExecType, InstrumentId, Nanos, OrdStatus, Phase, Position, Rec, RequestNo, ScheduleStep,
};
use weir_wire::{Command, Request};

use crate::agenda::Agenda;
use crate::config::{DUE_CHANGES_MAX, EventSink};
use crate::digest::timer_word;
use crate::emit::Change;
use crate::engine::{Engine, instrument_of};
use crate::groups::{ChangeKey, GroupAction, GroupChange, Groups, Membership};
use crate::index::Slot;
use crate::order::Orders;
use crate::phases::Cause;
use crate::plant::{self, Plant};
use crate::schedule::ScheduleOwner;
use crate::sweep::looks_per_change;

/// The number of entries below which sweeping a heap gains nothing.
const SWEEP_MIN: usize = 64;

/// The expiries of live orders, and some of orders that have ended.
#[derive(Default)]
struct Expiries {
    heap: BinaryHeap<Reverse<(Nanos, Rec)>>,
    /// The number of live orders with an entry.
    live_count: usize,
}

impl Expiries {
    fn add(&mut self, at: Nanos, rec: Rec) {
        self.heap.push(Reverse((at, rec)));
        self.live_count += 1;
    }

    /// Removes the expiry of an order that has ended and is no longer in any index.
    fn forget(&mut self, orders: &Orders) {
        self.live_count -= 1;
        if self.heap.len() > SWEEP_MIN && self.heap.len() > 2 * self.live_count {
            self.heap.retain(|Reverse((_, rec))| orders.find_rec(*rec).is_some());
        }
        while let Some(Reverse((_, rec))) = self.heap.peek()
            && orders.find_rec(*rec).is_none()
        {
            self.heap.pop();
        }
        // One instrument after the other may have had as many orders as there can be.
        let (len, capacity) = (self.heap.len(), self.heap.capacity());
        if capacity > 4 * SWEEP_MIN && len < capacity / 4 {
            self.heap.shrink_to(capacity / 2);
        }
    }

    fn next(&self) -> Option<(Nanos, Due)> {
        self.heap.peek().map(|Reverse((at, rec))| (*at, Due::Expiry(*rec)))
    }
}

/// The deadlines of one partition.
pub(crate) struct Timers {
    /// A lower bound for all deadlines, the only field that a command reads when nothing is due.
    /// INVARIANT: the earliest deadline of the four below; the end of time when there is none.
    earliest: Nanos,
    expiries: Expiries,
    /// The same by instrument; none behind the last instrument that had one.
    expiries_of: Vec<Expiries>,
    /// Ends of volatility calls, at most one of an instrument.
    call_ends: Agenda<()>,
    /// Scheduled phases.
    schedule: Agenda<Phase>,
    /// Changes of many instruments.
    groups: Groups,
    /// The last command that fired timers of all instruments, and the orders that these changed.
    spent: (Position, u64),
}

/// An instrument, for its timers.
#[derive(Clone, Copy)]
pub(crate) struct TimedInstrument {
    slot: Slot,
    id: InstrumentId,
    membership: Membership,
}

/// A due timer. Variants are in the order in which equal deadlines fire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// An order expires.
    Expiry(Rec),
    /// A volatility call ends.
    CallEnd(InstrumentId),
    /// A filed change of many instruments, in this one; in the next one if there is none.
    Filed(ChangeKey, InstrumentId),
    /// A scheduled change of a phase.
    Scheduled(InstrumentId, Phase),
    /// A change of many instruments that an operator asked for, likewise.
    Asked(ChangeKey, InstrumentId),
}

impl Due {
    fn of_many(key: ChangeKey, instrument_id: InstrumentId) -> (Nanos, Due) {
        let due = if key.is_asked() { Due::Asked } else { Due::Filed };
        (key.at, due(key, instrument_id))
    }
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            earliest: Nanos(u64::MAX),
            expiries: Expiries::default(),
            expiries_of: Vec::new(),
            call_ends: Agenda::default(),
            schedule: Agenda::default(),
            groups: Groups::default(),
            spent: (Position(0), 0),
        }
    }
}

impl Timers {
    /// Adds the expiry of an order that starts to stand.
    pub(crate) fn add_expiry(&mut self, at: Nanos, rec: Rec, instrument: Slot) {
        let index = instrument as usize;
        if self.expiries_of.len() <= index {
            self.expiries_of.resize_with(index + 1, Expiries::default);
        }
        self.expiries.add(at, rec);
        self.expiries_of[index].add(at, rec);
        self.earliest = self.earliest.min(at);
    }

    /// Removes the expiry of an order that has ended and is no longer in any index.
    pub(crate) fn forget_expiry(&mut self, orders: &Orders, instrument: Slot) {
        self.expiries.forget(orders);
        self.expiries_of[instrument as usize].forget(orders);
        self.find_earliest();
    }

    /// Sets the end of an instrument's volatility call; `None` if it does not end by itself.
    pub(crate) fn set_call_end(&mut self, instrument_id: InstrumentId, end: Option<Nanos>) {
        let before = self.call_ends.take_next_of(instrument_id);
        if let Some(end) = end {
            self.call_ends.put(end, instrument_id, ());
        }
        if before.is_some() || end.is_some() {
            self.find_earliest();
        }
    }

    pub(crate) fn call_ends(&self) -> &Agenda<()> {
        &self.call_ends
    }

    pub(crate) fn schedule(&self) -> &Agenda<Phase> {
        &self.schedule
    }

    /// Returns the number of filed changes of phase: of an instrument, a group or all one each.
    pub(crate) fn filed_count(&self) -> usize {
        self.schedule.len() + self.groups.filed_count()
    }

    pub(crate) fn is_filed(&self, owner: ScheduleOwner, at: Nanos) -> bool {
        match owner {
            ScheduleOwner::Instrument(id) => self.schedule.contains(at, id),
            ScheduleOwner::Group(group_id) => self.groups.contains(ChangeKey::filed(at, group_id)),
        }
    }

    /// Files a change of phase, and replaces one of the same owner and time.
    pub(crate) fn file(&mut self, owner: ScheduleOwner, at: Nanos, phase: Phase) {
        match owner {
            ScheduleOwner::Instrument(id) => self.schedule.put(at, id, phase),
            ScheduleOwner::Group(group_id) => {
                let action = GroupAction::Set { phase, overrides_collars: false };
                let change = GroupChange::new(group_id, action, None);
                self.groups.add(ChangeKey::filed(at, group_id), change);
            }
        }
        self.earliest = self.earliest.min(at);
    }

    /// Returns the number of an owner's filed changes behind `now`; of all, those of each
    /// instrument and group too.
    pub(crate) fn later_count(&self, owner: ScheduleOwner, now: Nanos) -> usize {
        match owner {
            ScheduleOwner::Instrument(id) => self.schedule.later_count(Some(id), now),
            ScheduleOwner::Group(group_id) => {
                let of_groups = self.groups.later_of(group_id, now).len();
                let is_all = group_id.is_none();
                of_groups + if is_all { self.schedule.later_count(None, now) } else { 0 }
            }
        }
    }

    /// Clears the changes that [`later_count`](Timers::later_count) counts, and returns their
    /// number.
    pub(crate) fn clear_later(&mut self, owner: ScheduleOwner, now: Nanos) -> u64 {
        let before = self.filed_count();
        match owner {
            ScheduleOwner::Instrument(id) => self.schedule.clear_later(Some(id), now),
            ScheduleOwner::Group(group_id) => {
                for key in self.groups.later_of(group_id, now) {
                    self.groups.take(key);
                }
                if group_id.is_none() {
                    self.schedule.clear_later(None, now);
                }
            }
        }
        self.find_earliest();
        (before - self.filed_count()) as u64
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the groups; changes are added and taken by the methods below.
    pub(crate) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    pub(crate) fn add_group_change(&mut self, key: ChangeKey, change: GroupChange) {
        self.groups.add(key, change);
        self.earliest = self.earliest.min(key.at);
    }

    pub(crate) fn take_group_change(&mut self, key: ChangeKey) -> GroupChange {
        let change = self.groups.take(key);
        self.find_earliest();
        change
    }

    fn find_earliest(&mut self) {
        self.earliest = self.next_deadline().unwrap_or(Nanos(u64::MAX));
    }

    fn next(&self) -> Option<(Nanos, Due)> {
        let call_end = self.call_ends.next().map(|(at, id, ())| (at, Due::CallEnd(id)));
        let scheduled = self.schedule.next().map(|(at, id, phase)| (at, Due::Scheduled(id, phase)));
        let of_many = self.groups.next().map(|key| Due::of_many(key, InstrumentId::NONE));
        earliest_of([self.expiries.next(), call_end, scheduled, of_many])
    }

    /// Returns the next timer of an instrument that is due by `now`.
    fn next_of(&self, of: TimedInstrument, now: Nanos) -> Option<Due> {
        let TimedInstrument { slot, id, membership } = of;
        let expiry = self.expiries_of.get(slot as usize).and_then(Expiries::next);
        let call_end = self.call_ends.next_of(id).map(|(at, ())| (at, Due::CallEnd(id)));
        let scheduled = self.schedule.next_of(id);
        let scheduled = scheduled.map(|(at, phase)| (at, Due::Scheduled(id, phase)));
        let of_many = self.groups.next_of(membership).map(|key| Due::of_many(key, id));
        let next = earliest_of([expiry, call_end, scheduled, of_many]);
        next.filter(|(at, _)| *at <= now).map(|(_, due)| due)
    }

    /// Returns true while a change of the instrument's phase is due by `now`.
    fn changes_phase_of(&self, of: TimedInstrument, now: Nanos) -> bool {
        let call_end = self.call_ends.next_of(of.id).map(|(at, ())| at);
        let scheduled = self.schedule.next_of(of.id).map(|(at, _)| at);
        let of_many = self.groups.next_of(of.membership).map(|key| key.at);
        let of_many = of_many.filter(|_| !plant::is(Plant::SweepBeforeGroupChange));
        call_end.into_iter().chain(scheduled).chain(of_many).any(|at| at <= now)
    }

    /// Returns true if more changes of the instrument's phase are due by `now` than a command
    /// makes.
    fn has_many_changes_of(&self, of: TimedInstrument, now: Nanos) -> bool {
        let call_ends = self.call_ends.due_of(of.id, now);
        let alone = call_ends.chain(self.schedule.due_of(of.id, now));
        let of_many = self.groups.due_of(of.membership, now).map(|key| key.at);
        alone.chain(of_many).nth(DUE_CHANGES_MAX).is_some()
    }

    /// Removes the next scheduled phase of an instrument, and returns its time.
    fn take_scheduled(&mut self, instrument_id: InstrumentId) -> Nanos {
        let (at, _) = self.schedule.take_next_of(instrument_id).expect("it is due");
        self.find_earliest();
        at
    }

    /// Returns true while a timer is due by `now`.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.earliest <= now
    }

    /// Returns ends of calls and scheduled phases as one word, for the digest.
    pub(crate) fn word(&self) -> u64 {
        let ends = self.call_ends.latest_first().map(|(at, id, ())| timer_word(at, id, None));
        let changes = self.schedule.latest_first().map(|(at, id, to)| timer_word(at, id, Some(to)));
        ends.chain(changes).fold(0, u64::wrapping_add)
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.next().map(|(at, _)| at)
    }
}

/// The outcome of the timers before a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fired {
    /// True if those of all instruments have changed more orders than they should.
    pub(crate) is_exceeded: bool,
    /// True if changes of the phase of its instrument are left, behind which the command belongs.
    pub(crate) leaves_changes: bool,
}

/// Returns true if a command depends on the phase of its instrument, on an order that a change of
/// it may end, or on the prices that an uncrossing sets.
///
/// A mass cancel looks for itself at each order. A definition of the control log has no sender who
/// could ask again. A halt is legal in every phase, and skips the changes that it comes before.
fn depends_on_phase(command: &Command) -> bool {
    let Command::Request(request) = command else { return false };
    match request {
        Request::NewOrder(_)
        | Request::ReplaceOrder(_)
        | Request::CancelOrder(_)
        | Request::BustTrade(_)
        | Request::ResumeTrading(_)
        | Request::SetReference(_)
        | Request::DefineInstrument(_) => true,
        Request::SetPhase(m) => m.phase != Phase::Halted || plant::is(Plant::DueChangesRefuseHalt),
        // A change that is filed is later than all that are due; those are not cleared unmade.
        Request::SchedulePhase(m) => m.at == Nanos(0),
        Request::SchedulePhases(m) => {
            matches!(m.step, ScheduleStep::Clear | ScheduleStep::Replace)
        }
        Request::MassCancel(_)
        | Request::KillSwitch(_)
        | Request::ChangePhases(_)
        | Request::Transfer(_)
        | Request::AccountInquiry(_)
        | Request::DefineFirm(_)
        | Request::DefineAccount(_)
        | Request::DefineSession(_) => false,
    }
}

/// Returns true if a command halts an instrument.
fn is_halt(command: &Command) -> bool {
    matches!(command, Command::Request(Request::SetPhase(m)) if m.phase == Phase::Halted)
}

/// Returns true if a planted bug fires all timers of the command's instrument.
fn fires_any_number(command: &Command) -> bool {
    let is_mass_cancel = matches!(command, Command::Request(Request::MassCancel(_)));
    plant::is(Plant::DueChangesUnbounded)
        || is_mass_cancel && plant::is(Plant::DueChangesBeforeMassCancel)
}

/// Returns the timer that fires first.
fn earliest_of(due: [Option<(Nanos, Due)>; 4]) -> Option<(Nanos, Due)> {
    let due = due.into_iter().flatten();
    if plant::is(Plant::ExpiryAfterPhase) {
        return due.min_by_key(|(at, due)| (*at, Reverse(*due)));
    }
    due.min()
}

impl Engine {
    /// Fires the due timers that come before a command.
    #[inline(always)]
    pub(crate) fn fire_timers<S: EventSink>(&mut self, command: &Command, out: &mut S) -> Fired {
        if self.timers.is_due(self.time) { self.fire_due(command, out) } else { Fired::default() }
    }

    #[cold]
    fn fire_due<S: EventSink>(&mut self, command: &Command, out: &mut S) -> Fired {
        let is_exceeded = self.fire_first(out);
        Fired { is_exceeded, leaves_changes: self.fire_due_of(command, out) }
    }

    /// Fires due timers of all instruments until enough orders have changed by such of the command;
    /// returns true if more have.
    pub(crate) fn fire_first<S: EventSink>(&mut self, out: &mut S) -> bool {
        let enough = u64::from(self.config.tick_changes_max);
        let (position, spent) = self.timers.spent;
        let is_same = position == self.position && !plant::is(Plant::BudgetForEachPart);
        let mut change_count = if is_same { spent } else { 0 };
        while change_count < enough
            && let Some((at, due)) = self.timers.next()
            && at <= self.time
        {
            change_count += self.fire(due, out);
        }
        self.timers.spent = (self.position, change_count);
        change_count > enough
    }

    /// Fires the timers that are due in a command's instrument: none if too many change the phase.
    /// Returns true then, if the command depends on it.
    fn fire_due_of<S: EventSink>(&mut self, command: &Command, out: &mut S) -> bool {
        if !self.timers.is_due(self.time) {
            return false;
        }
        let concerned = instrument_of(command).or_else(|| self.instrument_of_bust(command));
        let Some(instrument_id) = concerned else { return false };
        let Some(slot) = self.instruments.find(instrument_id.0) else { return false };
        let of = self.timed(slot);
        if self.timers.has_many_changes_of(of, self.time) && !fires_any_number(command) {
            // An operator's later halt would not hold against an earlier change of many.
            let is_undone = || self.timers.groups.undoes_halt(of.membership);
            return depends_on_phase(command) || is_halt(command) && is_undone();
        }
        while let Some(due) = self.timers.next_of(self.timed(slot), self.time) {
            if matches!(due, Due::Asked(..)) && plant::is(Plant::GroupChangeUnseen) {
                break;
            }
            self.fire(due, out);
        }
        false
    }

    /// Returns an instrument for its timers.
    fn timed(&self, slot: Slot) -> TimedInstrument {
        let id = self.instruments[slot].definition.instrument_id;
        TimedInstrument { slot, id, membership: self.membership(slot) }
    }

    /// Returns the due timer that comes next before a cancel of the order in a sweep: the first of
    /// its instrument while a change of the phase is due there, then its own expiry. Expiries of
    /// other orders change nothing for it.
    pub(crate) fn due_before_end(&self, slot: Slot) -> Option<Due> {
        let order = &self.orders[slot];
        let of = self.timed(order.instrument);
        if self.timers.changes_phase_of(of, self.time) && !plant::is(Plant::SweepBeforePhase) {
            return self.timers.next_of(of, self.time);
        }
        let is_due = order.expire_time != Nanos(0)
            && order.expire_time <= self.time
            && !plant::is(Plant::SweepBeforeExpiry);
        is_due.then_some(Due::Expiry(order.rec))
    }

    /// Fires a timer and returns its cost in changes of orders: those that it makes, and a part of
    /// one for each order at which it looks; at least one.
    pub(crate) fn fire<S: EventSink>(&mut self, due: Due, out: &mut S) -> u64 {
        let (before, mut look_count) = (self.seq, 0);
        match due {
            Due::Expiry(rec) => {
                let slot = self.orders.find_rec(rec).expect("an expiry is a live order's");
                let change = Change::new(ExecType::Expired, OrdStatus::Expired, RequestNo::NONE);
                self.end_resting(slot, &change, out);
            }
            Due::CallEnd(instrument_id) => {
                self.timers.set_call_end(instrument_id, None);
                let slot = self.timed_instrument(instrument_id);
                look_count = self.looks_of_change(slot, Phase::Continuous);
                self.change_phase(slot, Phase::Continuous, Cause::CALL_END, out);
            }
            Due::Scheduled(instrument_id, phase) => {
                let at = self.timers.take_scheduled(instrument_id);
                let slot = self.timed_instrument(instrument_id);
                if self.is_open_to_schedule(slot, phase, at) {
                    look_count = self.looks_of_change(slot, phase);
                    if !self.ends_call_beyond_collar(slot, phase) {
                        self.change_phase(slot, phase, Cause::SCHEDULE, out);
                    }
                }
            }
            Due::Filed(key, instrument_id) | Due::Asked(key, instrument_id) => {
                look_count = self.fire_group_change(key, instrument_id, out);
            }
        }
        let of_looks = match look_count / looks_per_change(&self.config) {
            _ if plant::is(Plant::LooksUncounted) => 0,
            count => count,
        };
        (self.seq.0 - before.0 + of_looks).max(1)
    }

    fn timed_instrument(&self, instrument_id: InstrumentId) -> Slot {
        self.instruments.find(instrument_id.0).expect("no instrument is ever taken out")
    }
}
