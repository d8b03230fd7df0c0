//! The naive engine's timers: collected and sorted on every use.

use weir_types::{ExecType, InstrumentId, Nanos, Phase, Reason, Rec, RequestNo};

use super::NaiveEngine;
use super::say::News;
use crate::config::EventSink;

/// A timer; variants are in the order in which timers due at the same time fire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
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

    /// Fires the due timers one at a time, because each may set new ones.
    pub(super) fn run_timers<S: EventSink>(&mut self, out: &mut S) {
        while let Some((at, timer)) = self.timers().first().copied()
            && at <= self.time
        {
            match timer {
                Timer::Expiry(rec) => {
                    let news = News::of(ExecType::Expired, Reason::None, RequestNo(0));
                    self.end(rec, &news, out);
                }
                Timer::CallEnd(instrument_id) => {
                    self.change_phase(instrument_id, Phase::Continuous, out);
                }
                Timer::Change(instrument_id) => {
                    let to = self.schedule.remove(&(instrument_id, at)).expect("found just now");
                    if self.check_change(instrument_id, to).is_ok() {
                        self.change_phase(instrument_id, to, out);
                    }
                }
            }
        }
    }
}
