//! Changes of phase: the legal ones and their effects, in the order of `docs/matching.md`.

use weir_types::{
    ExecType, InstrumentId, Nanos, OrdStatus, OrdType, Phase, PhaseCause, PhaseHold, PhaseOrigin,
    Reason, RequestNo, SessionId, Switch, TimeInForce,
};
use weir_wire::event::PhaseChanged;
use weir_wire::reference::{ResumeTrading, SetPhase};
use weir_wire::{Event, PlainEvent};

use crate::book::BookSide;
use crate::collar::Collar;
use crate::config::EventSink;
use crate::emit::{Change, NamedIds, Requester};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::is_call;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};

/// The cause of a change of phase.
#[derive(Clone, Copy)]
pub(crate) struct Cause {
    pub(crate) kind: PhaseCause,
    /// The operator's session; none for other causes.
    pub(crate) session_id: SessionId,
    /// True if the uncrossing that begins continuous trading may be beyond the collars.
    pub(crate) overrides_collars: bool,
}

impl Cause {
    pub(crate) const SCHEDULE: Cause = Cause::of(PhaseCause::Schedule);
    pub(crate) const CALL_END: Cause = Cause::of(PhaseCause::CallEnd);
    pub(crate) const COLLAR: Cause = Cause::of(PhaseCause::Collar);

    const fn of(kind: PhaseCause) -> Cause {
        Cause { kind, session_id: SessionId::NONE, overrides_collars: false }
    }

    pub(crate) fn operator(session_id: SessionId) -> Cause {
        Cause { session_id, ..Cause::of(PhaseCause::Operator) }
    }
}

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
                let cause = Cause {
                    overrides_collars: m.override_collars == Switch::On,
                    ..Cause::operator(self.sessions[asker.session].session_id)
                };
                let ended_count = self.ask_phase(slot, m.phase, cause, out);
                self.say_phase_reached(asker, slot, ended_count, out);
            }
            Err(reason) => {
                let named = NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    fn check_set_phase(&mut self, asker: Requester, m: &SetPhase) -> Result<Slot, Reason> {
        let slot = self.check_phase_request(asker, m.instrument_id)?;
        self.check_change(slot, m.phase)?;
        match m.override_collars {
            Switch::On if m.phase != Phase::Continuous => Err(Reason::FieldOutOfRange),
            Switch::Off if self.ends_call_beyond_collar(slot, m.phase) => Err(Reason::BeyondCollar),
            _ => Ok(slot),
        }
    }

    /// Carries out a legal change that an operator asked for, as [`Engine::change_phase`].
    pub(crate) fn ask_phase<S: EventSink>(
        &mut self,
        instrument: Slot,
        to: Phase,
        cause: Cause,
        out: &mut S,
    ) -> u64 {
        let row = &mut self.instruments[instrument];
        // An operator's halt holds, also one that a schedule began.
        if row.phase == Phase::Halted && to == Phase::Halted && !row.is_held {
            row.is_held = true;
            self.say_phase(instrument, cause, out);
        }
        self.change_phase(instrument, to, cause, out)
    }

    /// Lifts a halt: the instrument goes back to the phase before. Without one nothing changes.
    pub(crate) fn resume_trading<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &ResumeTrading,
        out: &mut S,
    ) {
        let slot = match self.check_phase_request(asker, m.instrument_id) {
            Ok(slot) => slot,
            Err(reason) => {
                let named = NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING };
                return self.reject(asker, named, reason, out);
            }
        };
        let mut ended_count = 0;
        if let Some(to) = self.phase_to_resume(slot, m.through_call == Switch::On) {
            let cause = Cause::operator(self.sessions[asker.session].session_id);
            ended_count = self.lift_halt(slot, to, cause, out);
        }
        self.say_phase_reached(asker, slot, ended_count, out);
    }

    /// Returns the phase to which an instrument goes when its halt is lifted; `None` without one.
    pub(crate) fn phase_to_resume(&self, instrument: Slot, is_through_call: bool) -> Option<Phase> {
        let before = self.instruments[instrument].resume_to?;
        let is_through_call = is_through_call && before == Phase::Continuous;
        Some(if is_through_call { Phase::VolatilityCall } else { before })
    }

    /// Lifts a halt, and returns the number of orders that the change of phase ended.
    pub(crate) fn lift_halt<S: EventSink>(
        &mut self,
        instrument: Slot,
        to: Phase,
        cause: Cause,
        out: &mut S,
    ) -> u64 {
        let row = &mut self.instruments[instrument];
        let was_held = core::mem::take(&mut row.is_held);
        row.resume_to = None;
        if was_held && row.phase == to {
            // A close outlives the halt: only the hold ends.
            self.say_phase(instrument, cause, out);
        }
        self.change_phase(instrument, to, cause, out)
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

    /// Returns true if the change would end a volatility call at a price beyond the collars, which
    /// only the end of its time may do, and an operator who says so.
    pub(crate) fn ends_call_beyond_collar(&mut self, instrument: Slot, to: Phase) -> bool {
        self.instruments[instrument].phase == Phase::VolatilityCall
            && to == Phase::Continuous
            && !plant::is(Plant::CallEndsUnchecked)
            && self.uncrosses_beyond_collar(instrument)
    }

    /// Returns true if a scheduled change may happen now: an operator's halt holds against all but
    /// a close.
    pub(crate) fn is_open_to_schedule(&self, instrument: Slot, to: Phase, due: Nanos) -> bool {
        let row = &self.instruments[instrument];
        let is_held = row.is_held && to != Phase::Closed;
        // A call that began by an interruption lasts behind changes that were due by then.
        let is_behind = |of: PhaseOrigin| of.cause == PhaseCause::Collar && due <= of.at;
        let ends_new_call = row.phase == Phase::VolatilityCall
            && to == Phase::Continuous
            && row.origin.is_some_and(is_behind);
        !is_held && !ends_new_call && self.check_change(instrument, to).is_ok()
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
        cause: Cause,
        out: &mut S,
    ) -> u64 {
        let from = self.instruments[instrument].phase;
        if from == to {
            return 0;
        }
        let last = self.match_id;
        self.instruments[instrument].begin_session_in(to, last);
        if to == Phase::Continuous
            && from != Phase::VolatilityCall
            && !cause.overrides_collars
            && self.uncrosses_beyond_collar(instrument)
        {
            self.interrupt(instrument, out);
            return 0;
        }
        let collar = self.collar_of_change(instrument, to, cause);
        if (to == Phase::Continuous || (to == Phase::Closed && is_call(from)))
            && !self.uncross(instrument, collar, out)
        {
            self.interrupt(instrument, out);
            return 0;
        }
        let mut ended_count = 0;
        if looks_at_orders(to) {
            ended_count = self.end_all(instrument, |order| end_in(order, to), out);
        }
        if to != Phase::Continuous {
            self.instruments[instrument].traded = None;
        }
        self.enter_phase(instrument, to, cause, out);
        match to {
            Phase::ClosingCall => ended_count += self.release_parked(instrument, out),
            Phase::Closed => {
                let expired = Change::new(ExecType::Expired, OrdStatus::Expired, RequestNo::NONE);
                let is_of_day = |order: &Order| order.time_in_force == TimeInForce::Day;
                ended_count +=
                    self.end_all(instrument, |order| is_of_day(order).then_some(expired), out);
            }
            Phase::VolatilityCall => self.set_call_end(instrument),
            Phase::Continuous => self.instruments[instrument].recall_session_price(),
            Phase::Halted | Phase::OpeningCall => {}
        }
        self.look_at_stops(instrument, out);
        ended_count
    }

    /// Returns the collar of the prices of a change's uncrossing, with the references of before it.
    /// A close, the end of a volatility call's time and an operator's word allow every price.
    fn collar_of_change(&self, instrument: Slot, to: Phase, cause: Cause) -> Collar {
        let is_bounded = to == Phase::Continuous
            && cause.kind != PhaseCause::CallEnd
            && !cause.overrides_collars;
        if is_bounded { self.instruments[instrument].collar() } else { Collar::NONE }
    }

    /// Sets the phase alone, without the other effects of a change; clears the end set for the
    /// previous phase.
    pub(crate) fn enter_phase<S: EventSink>(
        &mut self,
        instrument: Slot,
        to: Phase,
        cause: Cause,
        out: &mut S,
    ) {
        let row = &mut self.instruments[instrument];
        row.enter(to, cause.kind == PhaseCause::Operator);
        let instrument_id = row.definition.instrument_id;
        self.timers.set_call_end(instrument_id, None);
        self.say_phase(instrument, cause, out);
    }

    /// Reports the phase and whether an operator's halt holds, one of which has changed, and keeps
    /// the cause.
    fn say_phase<S: EventSink>(&mut self, instrument: Slot, cause: Cause, out: &mut S) {
        let Cause { kind, session_id, .. } = cause;
        let row = &mut self.instruments[instrument];
        row.origin = Some(PhaseOrigin { cause: kind, session_id, at: self.time });
        let event = Event::Plain(PlainEvent::PhaseChanged(PhaseChanged {
            position: self.position,
            transact_time: self.time,
            instrument_id: row.definition.instrument_id,
            partition_id: self.config.partition_id,
            phase: row.phase,
            cause: kind,
            session_id,
            hold: if row.is_held { PhaseHold::Held } else { PhaseHold::Free },
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

    /// Moves parked orders into the book at the start of the closing call, by `rec`; cancels those
    /// whose entry a kill switch would refuse, and returns their number.
    fn release_parked<S: EventSink>(&mut self, instrument: Slot, out: &mut S) -> u64 {
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
        let mut killed_count = 0;
        for slot in &batch {
            if self.is_order_killed(*slot) && !plant::is(Plant::KilledParkedEnter) {
                self.cancel_resting(*slot, Reason::Killed, RequestNo::NONE, out);
                killed_count += 1;
                continue;
            }
            self.unlink(*slot);
            self.stand(*slot, OrderLocation::Book, true);
        }
        self.batch = batch;
        killed_count
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
