//! Changes of phase: the legal ones and their effects, in the order of `docs/matching.md`.

use weir_types::{
    ClOrdId, ExecType, InstrumentId, OrdStatus, OrdType, Phase, Reason, RequestNo, TimeInForce,
};
use weir_wire::event::PhaseChanged;
use weir_wire::reference::SetPhase;
use weir_wire::{Event, PlainEvent};

use crate::book::BookSide;
use crate::config::EventSink;
use crate::emit::{Change, NamedIds, Requester};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::is_call;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};

/// Returns true if an instrument may go from one phase to the other.
fn is_legal(from: Phase, to: Phase) -> bool {
    use Phase::{ClosingCall, Continuous, Halted, OpeningCall, VolatilityCall};
    match to {
        Phase::Closed | Halted => true,
        OpeningCall => matches!(from, Phase::Closed | Halted),
        Continuous => matches!(from, Phase::Closed | OpeningCall | VolatilityCall | Halted),
        VolatilityCall => matches!(from, Continuous | Halted),
        ClosingCall => matches!(from, Continuous | VolatilityCall | Halted),
    }
}

/// Returns true if a change to `to` looks at the orders of its instrument: a halt ends none.
fn looks_at_orders(to: Phase) -> bool {
    to != Phase::Halted
}

/// Returns the end of an order that does not survive a change to `to`; `None` when it does.
fn end_in(order: &Order, to: Phase) -> Option<Change> {
    use Phase::{ClosingCall, Continuous, OpeningCall, VolatilityCall};
    let expired = Change::new(ExecType::Expired, OrdStatus::Expired, RequestNo::NONE);
    let is_over = match (order.time_in_force, order.place) {
        (TimeInForce::AtTheOpen, _) => {
            matches!(to, Continuous | VolatilityCall | ClosingCall | Phase::Closed)
        }
        (TimeInForce::AtTheClose, OrderLocation::Parked) => to == Phase::Closed,
        (TimeInForce::AtTheClose, _) => {
            matches!(to, OpeningCall | Continuous | VolatilityCall | Phase::Closed)
        }
        _ => false,
    };
    if is_over {
        return Some(expired);
    }
    let is_market = order.place == OrderLocation::Book && order.ord_type == OrdType::Market;
    if is_market && matches!(to, Continuous | Phase::Closed) {
        let mut change = Change::new(ExecType::Canceled, OrdStatus::Canceled, RequestNo::NONE);
        change.reason = Reason::NoLiquidity;
        return Some(change);
    }
    None
}

impl Engine {
    pub(crate) fn set_phase<S: EventSink>(&mut self, asker: Requester, m: &SetPhase, out: &mut S) {
        match self.check_set_phase(asker, m) {
            Ok(slot) => {
                let ended_count = self.change_phase(slot, m.phase, out);
                self.say_done(asker, ClOrdId::NONE, ended_count, out);
            }
            Err(reason) => {
                let named = NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    fn check_set_phase(&self, asker: Requester, m: &SetPhase) -> Result<Slot, Reason> {
        let slot = self.check_phase_request(asker, m.instrument_id)?;
        self.check_change(slot, m.phase)?;
        Ok(slot)
    }

    /// Checks that the asker may change the instrument's phase here, now or later.
    pub(crate) fn check_phase_request(
        &self,
        asker: Requester,
        instrument_id: InstrumentId,
    ) -> Result<Slot, Reason> {
        self.check_operator(asker, self.config.partition_id)?;
        let slot = self.instruments.find(instrument_id.0).ok_or(Reason::UnknownInstrument)?;
        if self.instruments[slot].definition.partition_id != self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        Ok(slot)
    }

    /// Checks that the change is legal now; keeping the phase always is.
    pub(crate) fn check_change(&self, instrument: Slot, to: Phase) -> Result<(), Reason> {
        let from = self.instruments[instrument].phase;
        if from == to || is_legal(from, to) { Ok(()) } else { Err(Reason::WrongPhase) }
    }

    /// Returns the number of orders at which a legal change will look, once each: so many as the
    /// instrument has, in its calls and at its end too.
    pub(crate) fn looks_of_change(&self, instrument: Slot, to: Phase) -> u64 {
        let row = &self.instruments[instrument];
        if row.phase == to || !looks_at_orders(to) {
            return 0;
        }
        let levels = row.queues().into_iter().flat_map(BookSide::best_first);
        levels.map(|level| u64::from(self.levels[level].order_count)).sum()
    }

    /// Carries out a legal change and returns the number of orders that it ended without a trade.
    pub(crate) fn change_phase<S: EventSink>(
        &mut self,
        instrument: Slot,
        to: Phase,
        out: &mut S,
    ) -> u64 {
        let from = self.instruments[instrument].phase;
        if from == to {
            return 0;
        }
        if to == Phase::Continuous
            && from != Phase::VolatilityCall
            && self.uncrosses_beyond_collar(instrument)
        {
            self.interrupt(instrument, out);
            return 0;
        }
        if to == Phase::Continuous || (to == Phase::Closed && is_call(from)) {
            self.uncross(instrument, out);
        }
        let mut ended_count = 0;
        if looks_at_orders(to) {
            ended_count = self.end_all(instrument, |order| end_in(order, to), out);
        }
        if to != Phase::Continuous {
            self.instruments[instrument].traded = None;
        }
        self.enter_phase(instrument, to, out);
        match to {
            Phase::ClosingCall => self.release_parked(instrument),
            Phase::Closed => {
                let expired = Change::new(ExecType::Expired, OrdStatus::Expired, RequestNo::NONE);
                let is_of_day = |order: &Order| order.time_in_force == TimeInForce::Day;
                ended_count +=
                    self.end_all(instrument, |order| is_of_day(order).then_some(expired), out);
            }
            Phase::VolatilityCall => self.set_call_end(instrument),
            Phase::Continuous => self.instruments[instrument].recall_last_price(),
            Phase::Halted | Phase::OpeningCall => {}
        }
        self.look_at_stops(instrument, out);
        ended_count
    }

    /// Sets the phase alone, without the other effects of a change; clears the end set for the
    /// previous phase.
    pub(crate) fn enter_phase<S: EventSink>(&mut self, instrument: Slot, to: Phase, out: &mut S) {
        let row = &mut self.instruments[instrument];
        row.phase = to;
        let instrument_id = row.definition.instrument_id;
        self.timers.set_call_end(instrument_id, None);
        let event = Event::Plain(PlainEvent::PhaseChanged(PhaseChanged {
            position: self.position,
            transact_time: self.time,
            instrument_id,
            partition_id: self.config.partition_id,
            phase: to,
        }));
        self.say(&event, out);
    }

    /// Ends the instrument's live orders for which `how` returns an end, in order of `rec`.
    fn end_all<S: EventSink>(
        &mut self,
        instrument: Slot,
        how: impl Fn(&Order) -> Option<Change>,
        out: &mut S,
    ) -> u64 {
        let mut batch = core::mem::take(&mut self.batch);
        batch.clear();
        for queue in self.instruments[instrument].queues() {
            for level in queue.best_first() {
                let mut slot = self.levels[level].head;
                while slot != NIL {
                    let order = &self.orders[slot];
                    if how(order).is_some() {
                        batch.push(slot);
                    }
                    slot = order.level_next;
                }
            }
        }
        self.sort_by_rec(&mut batch);
        for slot in &batch {
            let change = how(&self.orders[*slot]).expect("it had an end just now");
            self.end_resting(*slot, &change, out);
        }
        let count = batch.len() as u64;
        self.batch = batch;
        count
    }

    /// Moves parked orders into the book at the start of the closing call, by `rec`.
    fn release_parked(&mut self, instrument: Slot) {
        let mut batch = core::mem::take(&mut self.batch);
        batch.clear();
        if let Some(level) = self.instruments[instrument].parked().best() {
            let mut slot = self.levels[level].head;
            while slot != NIL {
                batch.push(slot);
                slot = self.orders[slot].level_next;
            }
        }
        self.sort_by_rec(&mut batch);
        if plant::is(Plant::ParkedOutOfOrder) {
            batch.reverse();
        }
        for slot in &batch {
            self.unlink(*slot);
            self.stand(*slot, OrderLocation::Book, true);
        }
        self.batch = batch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legal_changes_are_those_of_the_page() {
        use Phase::{ClosingCall, Continuous, Halted, OpeningCall, VolatilityCall};
        let table: &[(Phase, &[Phase])] = &[
            (Phase::Closed, Phase::ALL),
            (OpeningCall, &[Phase::Closed, Halted]),
            (Continuous, &[Phase::Closed, OpeningCall, VolatilityCall, Halted]),
            (VolatilityCall, &[Continuous, Halted]),
            (ClosingCall, &[Continuous, VolatilityCall, Halted]),
            (Halted, Phase::ALL),
        ];
        for (to, from) in table {
            for phase in Phase::ALL {
                assert_eq!(is_legal(*phase, *to), from.contains(phase), "{phase:?} to {to:?}");
            }
        }
    }
}
