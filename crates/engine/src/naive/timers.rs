//! The naive engine's timers: collected and sorted on every use.

use weir_types::{ExecType, InstrumentId, Nanos, Phase, Reason, Rec, RequestNo, ScheduleStep};
use weir_wire::{Command, Request};

use super::groups::{ChangeKey, is_asked};
use super::phases::Why;
use super::say::News;
use super::{NaiveEngine, Order, StepRule, TradingRule};
use crate::config::{DUE_CHANGES_MAX, EventSink};
use crate::engine::instrument_of;
use crate::sweep::looks_per_change;

/// A timer; variants are in the order in which timers due at the same time fire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Expiry(Rec),
    CallEnd(InstrumentId),
    /// A filed change of many instruments by its group's number, in one instrument or the next.
    FiledForMany(u64, Option<InstrumentId>),
    Change(InstrumentId),
    /// One that an operator asked for, by its number at the time.
    AskedForMany(u64, Option<InstrumentId>),
}

/// Returns the timer of a change of many instruments.
fn of_many((at, number): ChangeKey, instrument_id: Option<InstrumentId>) -> (Nanos, Timer) {
    let timer = if is_asked(number) { Timer::AskedForMany } else { Timer::FiledForMany };
    (at, timer(number, instrument_id))
}

/// The outcome of the timers before a command.
pub(super) struct Ran {
    /// True if more than enough orders have changed.
    pub(super) is_exceeded: bool,
    /// True if the command is refused, since its instrument's phase is not up to date.
    pub(super) must_ask_again: bool,
}

/// Returns the rule for a command to whose instrument too many due changes belong.
fn rule_of_many_changes(command: &Command) -> TradingRule {
    match command {
        Command::Request(Request::SetPhase(m)) if m.phase == Phase::Halted => {
            TradingRule::HaltBeforeChanges
        }
        Command::Request(Request::MassCancel(_)) => TradingRule::MassCancelBeforeChanges,
        Command::Request(Request::SchedulePhase(m)) if m.at != Nanos(0) => {
            TradingRule::OtherBeforeChanges
        }
        Command::Request(Request::SchedulePhases(m))
            if ![ScheduleStep::Clear, ScheduleStep::Replace].contains(&m.step) =>
        {
            TradingRule::OtherBeforeChanges
        }
        Command::Request(Request::Transfer(_)) | Command::Import(..) => {
            TradingRule::OtherBeforeChanges
        }
        _ => TradingRule::ChangesRefuse,
    }
}

impl NaiveEngine {
    /// Returns the time at which the next timer is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if !self.sweeps.is_empty() {
            return Some(Nanos(0));
        }
        self.timers().first().map(|(at, _)| *at)
    }

    fn timers(&self) -> Vec<(Nanos, Timer)> {
        let mut timers = Vec::new();
        for order in self.orders.values() {
            if order.now.expire_time != Nanos(0) {
                timers.push((order.now.expire_time, Timer::Expiry(order.rec)));
            }
        }
        for (id, instrument) in &self.instruments {
            timers.extend(instrument.call_end.map(|at| (at, Timer::CallEnd(*id))));
        }
        timers.extend(self.schedule.keys().map(|(id, at)| (*at, Timer::Change(*id))));
        timers.extend(self.group_changes.keys().map(|key| of_many(*key, None)));
        timers.sort_unstable();
        timers
    }

    /// Fires due timers one at a time, because each may set new ones: of all instruments until
    /// enough orders have changed, then all of the command's instrument, unless there are too many
    /// changes among them.
    pub(super) fn run_timers<S: EventSink>(&mut self, command: &Command, out: &mut S) -> Ran {
        self.timer_changes = 0;
        let is_exceeded = self.run_first(out);
        let busted = match command {
            Command::Request(Request::BustTrade(m)) => self.trades.get(&m.match_id.0),
            _ => None,
        };
        let concerned = busted.map(|trade| trade.instrument_id).or(instrument_of(command));
        let done = Ran { is_exceeded, must_ask_again: false };
        let Some(instrument_id) = concerned else { return done };
        let is_change = |(_, timer): &(Nanos, Timer)| !matches!(timer, Timer::Expiry(_));
        if self.due_of(instrument_id).into_iter().filter(is_change).count() > DUE_CHANGES_MAX {
            let mut rule = rule_of_many_changes(command);
            let ends_halt = |key: &ChangeKey| is_asked(key.1) && !self.is_halt_of_many(*key);
            if rule == TradingRule::HaltBeforeChanges
                && self.changes_left(instrument_id).iter().any(ends_halt)
            {
                rule = TradingRule::ChangesRefuse;
            }
            self.rules.push(rule);
            return Ran { is_exceeded, must_ask_again: rule == TradingRule::ChangesRefuse };
        }
        while let Some((at, timer)) = self.due_of(instrument_id).first().copied() {
            if matches!(timer, Timer::FiledForMany(..) | Timer::AskedForMany(..)) {
                self.rules.push(TradingRule::ManyBeforeCommand);
            }
            self.run(at, timer, out);
        }
        done
    }

    /// Fires due timers of all instruments until enough orders have changed by such of the command;
    /// returns true if more have.
    pub(super) fn run_first<S: EventSink>(&mut self, out: &mut S) -> bool {
        let enough = u64::from(self.config.tick_changes_max);
        let mut changes = self.timer_changes;
        while changes < enough
            && let Some((at, timer)) = self.first_due()
        {
            changes += self.run(at, timer, out);
        }
        self.timer_changes = changes;
        changes > enough
    }

    /// Returns the next timer if it is due.
    fn first_due(&self) -> Option<(Nanos, Timer)> {
        self.timers().first().copied().filter(|(at, _)| *at <= self.time)
    }

    /// Returns the timers of an instrument that are due, the next one first.
    pub(super) fn due_of(&self, instrument_id: InstrumentId) -> Vec<(Nanos, Timer)> {
        let is_of_it = |timer: &Timer| match timer {
            Timer::Expiry(rec) => self.orders[rec].now.instrument_id == instrument_id,
            Timer::CallEnd(id) | Timer::Change(id) => *id == instrument_id,
            Timer::FiledForMany(..) | Timer::AskedForMany(..) => false,
        };
        let mut timers = self.timers();
        timers.retain(|(at, timer)| *at <= self.time && is_of_it(timer));
        let keys = self.changes_left(instrument_id).into_iter();
        let due = keys.filter(|(at, _)| *at <= self.time);
        timers.extend(due.map(|key| of_many(key, Some(instrument_id))));
        timers.sort_unstable();
        timers
    }

    /// Fires a timer and returns its cost in changes of orders.
    pub(super) fn run<S: EventSink>(&mut self, at: Nanos, timer: Timer, out: &mut S) -> u64 {
        let (before, mut looks) = (self.seq, 0);
        match timer {
            Timer::Expiry(rec) => {
                let news = News::of(ExecType::Expired, Reason::None, RequestNo(0));
                self.end(rec, &news, out);
            }
            Timer::CallEnd(instrument_id) => {
                looks = self.looks_of(instrument_id, Phase::Continuous);
                self.change_phase(instrument_id, Phase::Continuous, Why::TimeOver, out);
            }
            Timer::Change(instrument_id) => {
                let to = self.schedule.remove(&(instrument_id, at)).expect("found just now");
                if self.obeys_schedule(instrument_id, to, at) {
                    looks = self.looks_of(instrument_id, to);
                    if self.must_wait(instrument_id, to, Why::Scheduled) {
                        self.rules.push(TradingRule::CallGoesOn);
                    } else {
                        self.change_phase(instrument_id, to, Why::Scheduled, out);
                    }
                } else if self.instruments[&instrument_id].is_held()
                    && self.check_change(instrument_id, to).is_ok()
                {
                    self.rules.push(TradingRule::HaltHolds);
                }
            }
            Timer::FiledForMany(number, named) | Timer::AskedForMany(number, named) => {
                looks = self.run_group_change((at, number), named, out);
            }
        }
        let of_looks = looks / looks_per_change(&self.config);
        if of_looks > 0 {
            self.reached.push(StepRule::LooksCount);
        }
        (self.seq - before + of_looks).max(1)
    }

    /// Returns the orders at which a legal change of phase looks: all of its instrument, at a halt
    /// none.
    pub(super) fn looks_of(&self, instrument_id: InstrumentId, to: Phase) -> u64 {
        if to == Phase::Halted || self.instruments[&instrument_id].phase == to {
            return 0;
        }
        let is_its = |order: &&Order| order.now.instrument_id == instrument_id;
        self.orders.values().filter(is_its).count() as u64
    }
}
