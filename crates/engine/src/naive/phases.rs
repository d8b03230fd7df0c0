//! The naive engine's phases: changes by request, by schedule, by interruption.

use weir_types::{
    ExecType, InstrumentId, Nanos, OrdType, Phase, PhaseCause, PhaseHold, PhaseOrigin, Price,
    Reason, Rec, RequestNo, SessionId, Switch, TimeInForce,
};
use weir_wire::event::PhaseChanged;
use weir_wire::reference::{ResumeTrading, SetPhase};
use weir_wire::{Event, PlainEvent, Request};

use super::matching::breaches;
use super::say::News;
use super::{Halt, NaiveEngine, Order, OrderLocation, TradingRule};
use crate::config::EventSink;

/// The reason of a change of phase.
#[derive(Clone, Copy)]
pub(super) enum Why {
    /// An operator wants it.
    Asked { by: SessionId, whatever_the_price: bool },
    /// It was scheduled.
    Scheduled,
    /// A volatility call's time is over.
    TimeOver,
    /// A price was too far from a reference.
    TooFar,
}

impl NaiveEngine {
    pub(super) fn set_phase<S: EventSink>(
        &mut self,
        request: &Request,
        m: &SetPhase,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, self.config.partition_id)?;
        self.check_instrument_here(m.instrument_id)?;
        self.check_change(m.instrument_id, m.phase)?;
        let whatever_the_price = m.override_collars == Switch::On;
        if whatever_the_price && m.phase != Phase::Continuous {
            return Err(Reason::FieldOutOfRange);
        }
        let why = Why::Asked { by: m.session_id, whatever_the_price };
        if self.must_wait(m.instrument_id, m.phase, why) {
            return Err(Reason::BeyondCollar);
        }
        self.take_over_halt(m.instrument_id, m.phase);
        let ended_count = self.change_phase(m.instrument_id, m.phase, why, out);
        self.say_done(request, ended_count, out);
        Ok(())
    }

    /// Makes a halt hold that an operator asks for again.
    pub(super) fn take_over_halt(&mut self, instrument_id: InstrumentId, to: Phase) {
        let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
        if instrument.phase == Phase::Halted
            && to == Phase::Halted
            && let Some(halt) = &mut instrument.halt
        {
            if !halt.is_operators {
                self.rules.push(TradingRule::HaltTakenOver);
            }
            halt.is_operators = true;
        }
    }

    /// Returns the phase that the end of a halt brings back.
    pub(super) fn resumed_phase(&mut self, halt: Halt, through_call: Switch) -> Phase {
        match halt.before {
            Phase::Continuous if through_call == Switch::On => {
                self.rules.push(TradingRule::ResumedThroughCall);
                Phase::VolatilityCall
            }
            before => before,
        }
    }

    pub(super) fn resume_trading<S: EventSink>(
        &mut self,
        request: &Request,
        m: &ResumeTrading,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, self.config.partition_id)?;
        self.check_instrument_here(m.instrument_id)?;
        let instrument = self.instruments.get_mut(&m.instrument_id).expect("found above");
        let mut ended_count = 0;
        if let Some(halt) = instrument.halt.take() {
            let to = self.resumed_phase(halt, m.through_call);
            let why = Why::Asked { by: m.session_id, whatever_the_price: false };
            ended_count = self.change_phase(m.instrument_id, to, why, out);
        }
        self.say_done(request, ended_count, out);
        Ok(())
    }

    /// Returns true if a volatility call has to go on, since its price is too far from a reference:
    /// its time ends it, or an operator who says so.
    pub(super) fn must_wait(&self, instrument_id: InstrumentId, to: Phase, why: Why) -> bool {
        let may_end = match why {
            Why::Asked { whatever_the_price, .. } => whatever_the_price,
            Why::TimeOver => true,
            Why::Scheduled | Why::TooFar => false,
        };
        !may_end
            && to == Phase::Continuous
            && self.instruments[&instrument_id].phase == Phase::VolatilityCall
            && self.would_breach(instrument_id)
    }

    /// Returns true if a scheduled change is made: not in an operator's halt, except for a close.
    pub(super) fn obeys_schedule(&self, id: InstrumentId, to: Phase, due: Nanos) -> bool {
        let one = &self.instruments[&id];
        let is_stopped = one.is_held() && to != Phase::Closed;
        let was_late = one.origin.is_some_and(|of| of.cause == PhaseCause::Collar && due <= of.at);
        let must_last = was_late && one.phase == Phase::VolatilityCall && to == Phase::Continuous;
        !is_stopped && !must_last && self.check_change(id, to).is_ok()
    }

    pub(super) fn check_instrument_here(&self, instrument_id: InstrumentId) -> Result<(), Reason> {
        let instrument = self.instruments.get(&instrument_id).ok_or(Reason::UnknownInstrument)?;
        if self.is_here(instrument) { Ok(()) } else { Err(Reason::WrongPartition) }
    }

    /// Checks that the rules allow the change from the current phase.
    pub(super) fn check_change(
        &self,
        instrument_id: InstrumentId,
        to: Phase,
    ) -> Result<(), Reason> {
        use Phase::{ClosingCall, Continuous, Halted, OpeningCall, VolatilityCall};
        let from = self.instruments[&instrument_id].phase;
        let origins: &[Phase] = match to {
            Phase::Closed | Halted => Phase::ALL,
            OpeningCall => &[Phase::Closed, Halted],
            Continuous => &[Phase::Closed, OpeningCall, VolatilityCall, Halted],
            VolatilityCall => &[Continuous, Halted],
            ClosingCall => &[Continuous, VolatilityCall, Halted],
        };
        if from == to || origins.contains(&from) { Ok(()) } else { Err(Reason::WrongPhase) }
    }

    /// Changes the phase and returns the number of orders that it ended.
    pub(super) fn change_phase<S: EventSink>(
        &mut self,
        instrument_id: InstrumentId,
        to: Phase,
        why: Why,
        out: &mut S,
    ) -> u64 {
        let instrument = &self.instruments[&instrument_id];
        if instrument.phase == to {
            // An operator took a halt over, or lifted one behind a close.
            if instrument.is_held() != instrument.is_told_held {
                self.tell_phase(instrument_id, why, out);
            }
            return 0;
        }
        self.begin_session(instrument_id, to);
        let instrument = &self.instruments[&instrument_id];
        let is_any_price = matches!(why, Why::Asked { whatever_the_price: true, .. });
        let has_been_warned = is_any_price || instrument.phase == Phase::VolatilityCall;
        if is_any_price && self.would_breach(instrument_id) {
            self.rules.push(TradingRule::CollarOverridden);
        }
        if to == Phase::Continuous && !has_been_warned && self.would_breach(instrument_id) {
            self.interrupt(instrument_id, out);
            return 0;
        }
        let instrument = &self.instruments[&instrument_id];
        let is_close = to == Phase::Closed && instrument.is_in_call();
        let is_free = is_close || is_any_price || matches!(why, Why::TimeOver);
        let references = (!is_free).then(|| self.references(instrument_id));
        if (to == Phase::Continuous || is_close) && !self.uncross(instrument_id, references, out) {
            self.rules.push(TradingRule::FurtherPriceWaits);
            self.interrupt(instrument_id, out);
            return 0;
        }
        let mut ended_count = 0;
        for rec in self.recs_of(|order| order.now.instrument_id == instrument_id) {
            if let Some(news) = how_it_ends(&self.orders[&rec], to) {
                self.end(rec, &news, out);
                ended_count += 1;
            }
        }
        let instrument = self.instruments.get_mut(&instrument_id).expect("found above");
        if to != Phase::Continuous {
            instrument.traded.clear();
        }
        self.say_phase(instrument_id, to, why, out);
        if to == Phase::ClosingCall {
            ended_count += self.stand_parked(instrument_id, out);
        }
        if to == Phase::Closed {
            let over: Vec<Rec> = self.recs_of(|order| {
                order.now.instrument_id == instrument_id
                    && order.now.time_in_force == TimeInForce::Day
            });
            ended_count += over.len() as u64;
            for rec in over {
                self.end(rec, &News::of(ExecType::Expired, Reason::None, RequestNo(0)), out);
            }
        }
        self.set_call_end(instrument_id);
        if to == Phase::Continuous {
            let instrument = self.instruments.get_mut(&instrument_id).expect("found above");
            let recalled = instrument.session_price().map(|price| (0, price));
            instrument.traded.extend(recalled);
        }
        self.trigger_stops(instrument_id, out);
        ended_count
    }

    /// Puts the parked orders of an instrument into its closing call; returns the number of those
    /// that ended instead, because they are killed.
    fn stand_parked<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) -> u64 {
        let mut ended_count = 0;
        for rec in self.recs_of(|order| {
            order.now.instrument_id == instrument_id && order.place == OrderLocation::Parked
        }) {
            let now = self.orders[&rec].now;
            if self.is_killed(now.session_id, &now) {
                self.rules.push(TradingRule::KilledParkedEnds);
                self.end(rec, &News::of(ExecType::Canceled, Reason::Killed, RequestNo(0)), out);
                ended_count += 1;
            } else {
                self.stand(rec);
            }
        }
        ended_count
    }

    /// Begins a session in the first phase with entry behind a close.
    fn begin_session(&mut self, instrument_id: InstrumentId, to: Phase) {
        let last = self.match_id;
        let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
        if !instrument.is_day_over || matches!(to, Phase::Closed | Phase::Halted) {
            return;
        }
        if instrument.last_price().is_some() {
            self.rules.push(TradingRule::SessionBegins);
        }
        (instrument.is_day_over, instrument.session_after) = (false, last);
    }

    /// Returns true if an uncrossing now would be too far from a reference.
    fn would_breach(&self, instrument_id: InstrumentId) -> bool {
        self.would_breach_from(instrument_id, self.references(instrument_id))
    }

    /// Returns true if an uncrossing now would be too far from a static or a dynamic reference of
    /// before.
    pub(super) fn would_breach_from(
        &self,
        instrument_id: InstrumentId,
        [fixed, moving]: [Option<Price>; 2],
    ) -> bool {
        let (best, _) = self.find_uncrossing(instrument_id);
        let Some((price, _, _)) = best else { return false };
        let definition = &self.instruments[&instrument_id].definition;
        breaches(price, fixed, definition.static_collar)
            || breaches(price, moving, definition.dynamic_collar)
    }

    /// Returns the static and the dynamic reference.
    fn references(&self, instrument_id: InstrumentId) -> [Option<Price>; 2] {
        let instrument = &self.instruments[&instrument_id];
        let fixed = instrument.static_reference();
        [fixed, instrument.last_price().or(fixed)]
    }

    /// Begins a volatility call because a trade would breach a collar.
    pub(super) fn interrupt<S: EventSink>(&mut self, instrument_id: InstrumentId, out: &mut S) {
        self.say_phase(instrument_id, Phase::VolatilityCall, Why::TooFar, out);
        self.set_call_end(instrument_id);
    }

    fn set_call_end(&mut self, instrument_id: InstrumentId) {
        let now = self.time.0;
        let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
        let span = instrument.definition.volatility_call.0;
        let is_timed = instrument.phase == Phase::VolatilityCall && span != 0;
        instrument.call_end = is_timed.then(|| Nanos(now.saturating_add(span)));
    }

    fn say_phase<S: EventSink>(
        &mut self,
        instrument_id: InstrumentId,
        to: Phase,
        why: Why,
        out: &mut S,
    ) {
        let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
        let was_operators = instrument.is_held();
        let is_operators = was_operators || matches!(why, Why::Asked { .. });
        instrument.halt = match to {
            Phase::Halted => Some(Halt { before: instrument.phase, is_operators }),
            // A close keeps an operator's halt alone.
            Phase::Closed if was_operators => {
                self.rules.push(TradingRule::HaltOutlivesClose);
                Some(Halt { before: Phase::Closed, is_operators: true })
            }
            _ => None,
        };
        instrument.is_day_over |= to == Phase::Closed;
        instrument.phase = to;
        self.tell_phase(instrument_id, why, out);
    }

    /// Says the phase and the hold of an instrument.
    fn tell_phase<S: EventSink>(&mut self, instrument_id: InstrumentId, why: Why, out: &mut S) {
        let (cause, session_id) = match why {
            Why::Asked { by, .. } => (PhaseCause::Operator, by),
            Why::Scheduled => (PhaseCause::Schedule, SessionId(0)),
            Why::TimeOver => (PhaseCause::CallEnd, SessionId(0)),
            Why::TooFar => (PhaseCause::Collar, SessionId(0)),
        };
        let instrument = self.instruments.get_mut(&instrument_id).expect("found by the caller");
        instrument.is_told_held = instrument.is_held();
        instrument.origin = Some(PhaseOrigin { cause, session_id, at: self.time });
        let event = PhaseChanged {
            position: self.position,
            transact_time: self.time,
            instrument_id,
            partition_id: self.config.partition_id,
            phase: instrument.phase,
            cause,
            session_id,
            hold: if instrument.is_told_held { PhaseHold::Held } else { PhaseHold::Free },
        };
        self.say(Event::Plain(PlainEvent::PhaseChanged(event)), out);
    }
}

/// Returns the end of an order that does not survive a change to the phase.
fn how_it_ends(order: &Order, to: Phase) -> Option<News> {
    use Phase::{ClosingCall, Continuous, OpeningCall, VolatilityCall};
    let is_in_book = order.place == OrderLocation::Book;
    let ends_in: &[Phase] = match order.now.time_in_force {
        TimeInForce::AtTheOpen => &[Continuous, VolatilityCall, ClosingCall, Phase::Closed],
        TimeInForce::AtTheClose if is_in_book => {
            &[OpeningCall, Continuous, VolatilityCall, Phase::Closed]
        }
        TimeInForce::AtTheClose => &[Phase::Closed],
        _ => &[],
    };
    if ends_in.contains(&to) {
        return Some(News::of(ExecType::Expired, Reason::None, RequestNo(0)));
    }
    let is_market = order.now.ord_type == OrdType::Market && is_in_book;
    (is_market && matches!(to, Continuous | Phase::Closed))
        .then(|| News::of(ExecType::Canceled, Reason::NoLiquidity, RequestNo(0)))
}
