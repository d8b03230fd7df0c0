//! The naive engine's timers: collected and sorted on every use.

use weir_types::{ExecType, InstrumentId, Nanos, Phase, Reason, Rec, RequestNo};
use weir_wire::{Command, Request};

use super::phases::Why;
use super::say::News;
use super::{NaiveEngine, Order, StepRule, TradingRule};
use crate::config::EventSink;
use crate::engine::instrument_of;
use crate::sweep::looks_per_change;

/// A timer; variants are in the order in which timers due at the same time fire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Expiry(Rec),
    CallEnd(InstrumentId),
    Change(InstrumentId),
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
        timers.sort_unstable();
        timers
    }

    /// Fires due timers one at a time, because each may set new ones: of all instruments until
    /// enough orders have changed, then all of the command's instrument. Returns true if more than
    /// enough have changed.
    pub(super) fn run_timers<S: EventSink>(&mut self, command: &Command, out: &mut S) -> bool {
        let enough = u64::from(self.config.tick_changes_max);
        let mut changes = 0;
        while changes < enough
            && let Some((at, timer)) = self.first_due()
        {
            changes += self.run(at, timer, out);
        }
        let busted = match command {
            Command::Request(Request::BustTrade(m)) => self.trades.get(&m.match_id.0),
            _ => None,
        };
        let concerned = busted.map(|trade| trade.instrument_id).or(instrument_of(command));
        let is_exceeded = changes > enough;
        let Some(instrument_id) = concerned else { return is_exceeded };
        while let Some((at, timer)) = self.due_of(instrument_id).first().copied() {
            self.run(at, timer, out);
        }
        is_exceeded
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
        };
        let mut timers = self.timers();
        timers.retain(|(at, timer)| *at <= self.time && is_of_it(timer));
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
                if self.obeys_schedule(instrument_id, to) {
                    looks = self.looks_of(instrument_id, to);
                    if self.must_wait(instrument_id, to, Why::Scheduled) {
                        self.rules.push(TradingRule::CallGoesOn);
                    } else {
                        self.change_phase(instrument_id, to, Why::Scheduled, out);
                    }
                } else if self.check_change(instrument_id, to).is_ok() {
                    self.rules.push(TradingRule::HaltHolds);
                }
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
    fn looks_of(&self, instrument_id: InstrumentId, to: Phase) -> u64 {
        if to == Phase::Halted || self.instruments[&instrument_id].phase == to {
            return 0;
        }
        let is_its = |order: &&Order| order.now.instrument_id == instrument_id;
        self.orders.values().filter(is_its).count() as u64
    }
}
