//! The state of each instrument from the events: its phase, its prices, its last uncrossing.
//!
//! A view like the delivery store, fed by the same reader, so that the order path has no part in
//! it. INVARIANT: an event reported every value of an instrument's row; a value that no retained
//! event reports is absent, never guessed.

use std::collections::BTreeMap;

use weir_types::{ExecType, InstrumentId, Phase, PhaseHold, PhaseOrigin, Price, Switch};
use weir_wire::event::{OrderEvent, PhaseChanged, Uncrossed};
use weir_wire::frame::parse_message;
use weir_wire::{Definition, Event, Message, PlainEvent};

use crate::plant::{self, Plant};

mod state;

pub use state::MarketsForm;

/// The known state of an instrument's market.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Market {
    /// The current phase.
    pub phase: Option<Phase>,
    /// The last change of the phase, or of an operator's halt that holds; `None` while both are the
    /// definition's.
    pub origin: Option<PhaseOrigin>,
    /// True while an operator's halt holds against scheduled changes; `None` where the event that
    /// set the phase is of before it was recorded.
    pub is_held: Option<bool>,
    /// The price of its last trade.
    pub last_price: Option<Price>,
    /// The price of its last uncrossing that traded.
    pub static_reference: Option<Price>,
    /// Its last uncrossing, whether it traded or not.
    pub last_uncrossing: Option<Uncrossed>,
    /// The uncrossing of its last opening call.
    pub opening: Option<Uncrossed>,
    /// The uncrossing of its last closing call.
    pub closing: Option<Uncrossed>,
    /// Its last phases, the newest at the end.
    pub phases: [Option<Phase>; PHASES_KEPT],
}

/// The number of phases kept of an instrument.
pub const PHASES_KEPT: usize = 8;

impl Market {
    /// Sets the phase; the last phases have it once, however often it is told in a row.
    fn enter(&mut self, phase: Phase) {
        if self.phase == Some(phase) {
            return;
        }
        self.phase = Some(phase);
        self.phases.rotate_left(1);
        self.phases[PHASES_KEPT - 1] = Some(phase);
    }

    fn on_phase(&mut self, event: &PhaseChanged) {
        self.enter(event.phase);
        self.is_held = is_held(event);
        if self.origin.is_some() && plant::is(Plant::CauseOfTheChangeBefore) {
            return;
        }
        let PhaseChanged { cause, session_id, transact_time: at, .. } = *event;
        self.origin = Some(PhaseOrigin { cause, session_id, at });
    }
}

/// Returns whether an operator's halt holds after a change, if the event tells.
fn is_held(event: &PhaseChanged) -> Option<bool> {
    match (event.hold, event.phase) {
        (PhaseHold::Held, _) => Some(true),
        (PhaseHold::Free, _) => Some(false),
        (PhaseHold::Unknown, Phase::Halted | Phase::Closed) => None,
        // A halt holds in these two phases only.
        (PhaseHold::Unknown, _) => Some(false),
    }
}

/// An instrument's state in a recovered engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketState {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Its phase.
    pub phase: Phase,
    /// True while an operator's halt holds.
    pub is_held: bool,
    /// The last change of these two, if the engine has it.
    pub origin: Option<PhaseOrigin>,
    /// The price of its last trade.
    pub last_price: Option<Price>,
    /// The price of its last uncrossing that traded.
    pub uncrossed_price: Option<Price>,
}

/// All instruments' markets.
#[derive(Debug)]
pub struct Markets {
    all: BTreeMap<InstrumentId, Market>,
    /// Rows that changed since they were last published.
    changed: BTreeMap<InstrumentId, Market>,
    /// True when the events begin with the partition's first.
    is_whole: bool,
}

impl Markets {
    /// Returns an empty table. `is_whole` states that the events to come begin with the partition's
    /// first: only then does a definition show the first phase of its instrument.
    #[must_use]
    pub fn new(is_whole: bool) -> Markets {
        Markets { all: BTreeMap::new(), changed: BTreeMap::new(), is_whole }
    }

    /// Goes on with the states that the partition's engine has behind the events so far, which
    /// began in the middle: those of all instruments, so that a later definition is the first. The
    /// events alone tell the uncrossings and earlier phases, as far as they are retained.
    #[must_use]
    pub fn go_on_with(mut self, states: &[MarketState]) -> Markets {
        for state in states {
            self.change(state.instrument_id, |market| {
                if market.phase != Some(state.phase) {
                    market.origin = None;
                }
                market.enter(state.phase);
                market.is_held = Some(state.is_held);
                market.origin = state.origin.or(market.origin);
                market.last_price = state.last_price;
                market.static_reference = state.uncrossed_price;
            });
        }
        self.is_whole = true;
        self
    }

    /// Applies a phase or an uncrossing of the events before the engine's state.
    pub fn on_record(&mut self, record: &[u8]) {
        let raw = parse_message(record).expect("the event log holds our own messages");
        if [PhaseChanged::TEMPLATE_ID, Uncrossed::TEMPLATE_ID].contains(&raw.template_id) {
            let event = Event::decode(record).expect("the event log holds our own messages");
            self.on_event(&event);
        }
    }

    /// Applies a change of an order.
    pub fn on_order(&mut self, event: &OrderEvent) {
        if event.exec_type == ExecType::Trade {
            self.change(event.instrument_id, |market| market.last_price = Some(event.last_px));
        }
    }

    /// Applies any other event; events without an instrument change nothing.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::Plain(PlainEvent::OrderEvent(event)) => self.on_order(event),
            Event::Plain(PlainEvent::PhaseChanged(event)) => {
                self.change(event.instrument_id, |market| market.on_phase(event));
            }
            Event::Plain(PlainEvent::Uncrossed(event)) => {
                self.change(event.instrument_id, |market| {
                    market.last_uncrossing = Some(*event);
                    // The event precedes the change of phase that it belongs to.
                    match market.phase {
                        Some(Phase::OpeningCall) => market.opening = Some(*event),
                        Some(Phase::ClosingCall) => market.closing = Some(*event),
                        _ => {}
                    }
                    if !event.qty.is_zero() {
                        market.static_reference = Some(event.price);
                    }
                });
            }
            Event::Plain(PlainEvent::ReferencesChanged(event)) => {
                let there = |has: Switch, price: Price| (has == Switch::On).then_some(price);
                self.change(event.instrument_id, |market| {
                    market.last_price = there(event.has_last, event.last_px);
                    market.static_reference = there(event.has_static, event.static_px);
                });
            }
            // A later definition of the same instrument does not change its phase.
            Event::Defined(_, Definition::DefineInstrument(definition))
                if self.is_whole && !self.all.contains_key(&definition.instrument_id) =>
            {
                self.change(definition.instrument_id, |market| {
                    market.enter(definition.phase);
                    market.is_held = Some(definition.phase == Phase::Halted);
                });
            }
            _ => {}
        }
    }

    fn change(&mut self, instrument_id: InstrumentId, how: impl FnOnce(&mut Market)) {
        let market = self.all.entry(instrument_id).or_default();
        how(market);
        self.changed.insert(instrument_id, *market);
    }

    /// Returns true when rows changed since they were last published.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Moves the changed rows to `table`.
    pub fn publish(&mut self, table: &mut BTreeMap<InstrumentId, Market>) {
        table.append(&mut self.changed);
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Nanos, PartitionId, PhaseCause, Position, Qty, SessionId};

    use super::*;

    const ONE: InstrumentId = InstrumentId(1);

    fn change_to(phase: Phase) -> PhaseChanged {
        PhaseChanged {
            position: Position(1),
            transact_time: Nanos(7),
            instrument_id: ONE,
            partition_id: PartitionId(1),
            phase,
            cause: PhaseCause::Operator,
            session_id: SessionId(1),
            hold: if phase == Phase::Halted { PhaseHold::Held } else { PhaseHold::Free },
        }
    }

    fn told(change: PhaseChanged) -> Event {
        Event::Plain(PlainEvent::PhaseChanged(change))
    }

    fn phase(phase: Phase) -> Event {
        told(change_to(phase))
    }

    const ORIGIN: PhaseOrigin =
        PhaseOrigin { cause: PhaseCause::Operator, session_id: SessionId(1), at: Nanos(7) };

    fn uncrossed(price: i64, qty: u64) -> Uncrossed {
        Uncrossed {
            position: Position(2),
            transact_time: Nanos(8),
            price: Price(price),
            qty: Qty(qty),
            surplus: 3,
            instrument_id: ONE,
            partition_id: PartitionId(1),
        }
    }

    #[test]
    fn an_uncrossing_without_a_trade_leaves_the_static_reference() {
        let mut markets = Markets::new(true);
        for event in [uncrossed(100, 5), uncrossed(0, 0)] {
            markets.on_event(&Event::Plain(PlainEvent::Uncrossed(event)));
        }
        let mut table = BTreeMap::new();
        markets.publish(&mut table);
        assert_eq!(table[&ONE].static_reference, Some(Price(100)));
        assert_eq!(table[&ONE].last_uncrossing, Some(uncrossed(0, 0)));
    }

    #[test]
    fn a_table_that_begins_in_the_middle_has_the_uncrossings_that_are_retained() {
        let record = |event: &Event| {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            bytes
        };
        let mut markets = Markets::new(false);
        // The call before the first of these is not known: it may have been any.
        for event in [
            Event::Plain(PlainEvent::Uncrossed(uncrossed(90, 5))),
            phase(Phase::OpeningCall),
            Event::Plain(PlainEvent::Uncrossed(uncrossed(100, 5))),
            phase(Phase::Continuous),
        ] {
            markets.on_record(&record(&event));
        }
        let state = |phase| MarketState {
            instrument_id: ONE,
            phase,
            is_held: false,
            origin: None,
            last_price: Some(Price(103)),
            uncrossed_price: Some(Price(100)),
        };
        let mut table = BTreeMap::new();
        markets.go_on_with(&[state(Phase::Continuous)]).publish(&mut table);
        let market = table[&ONE];
        assert_eq!((market.last_price, market.closing), (Some(Price(103)), None));
        assert_eq!([market.opening, market.last_uncrossing], [Some(uncrossed(100, 5)); 2]);
        assert_eq!((market.origin, market.is_held), (Some(ORIGIN), Some(false)));
        assert_eq!(market.phases.iter().flatten().count(), 2);
    }

    /// Returns the row after these changes.
    fn row_after(changes: &[PhaseChanged]) -> Market {
        let mut markets = Markets::new(true);
        let mut table = BTreeMap::new();
        changes.iter().for_each(|change| markets.on_event(&told(*change)));
        markets.publish(&mut table);
        table[&ONE]
    }

    #[test]
    fn a_row_has_the_cause_of_its_last_change_and_no_earlier_one() {
        let by_schedule = PhaseChanged {
            transact_time: Nanos(9),
            cause: PhaseCause::Schedule,
            session_id: SessionId::NONE,
            hold: PhaseHold::Free,
            ..change_to(Phase::Halted)
        };
        let taken_over = change_to(Phase::Halted);
        let (nobody, at) = (SessionId::NONE, Nanos(9));
        let scheduled = PhaseOrigin { cause: PhaseCause::Schedule, session_id: nobody, at };
        for (changes, origin, is_held, count) in [
            (&[taken_over][..], ORIGIN, true, 1),
            (&[by_schedule], scheduled, false, 1),
            (&[by_schedule, taken_over], ORIGIN, true, 1),
            (&[change_to(Phase::Closed), by_schedule], scheduled, false, 2),
        ] {
            let row = row_after(changes);
            assert_eq!((row.origin, row.is_held), (Some(origin), Some(is_held)), "{changes:?}");
            assert_eq!(row.phases.iter().flatten().count(), count, "{changes:?}");
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn a_planted_cause_of_the_change_before_is_found() {
        plant::set(Some(Plant::CauseOfTheChangeBefore));
        let check = a_row_has_the_cause_of_its_last_change_and_no_earlier_one;
        let is_found = std::panic::catch_unwind(check).is_err();
        plant::set(None);
        assert!(is_found, "it is planted");
    }

    #[test]
    fn an_event_from_before_holds_tells_none_where_there_may_be_one() {
        for (phase, is_held) in
            [(Phase::Halted, None), (Phase::Closed, None), (Phase::Continuous, Some(false))]
        {
            let change = PhaseChanged { hold: PhaseHold::Unknown, ..change_to(phase) };
            assert_eq!(row_after(&[change]).is_held, is_held, "{phase:?}");
        }
    }

    #[test]
    fn the_engines_cause_takes_the_place_of_an_older_one_and_none_is_that_of_another_phase() {
        let of = |phase, origin| MarketState {
            instrument_id: ONE,
            phase,
            is_held: true,
            origin,
            last_price: None,
            uncrossed_price: None,
        };
        let later = PhaseOrigin { at: Nanos(11), ..ORIGIN };
        for (state, want) in [
            (of(Phase::Closed, Some(later)), Some(later)),
            (of(Phase::Halted, Some(later)), Some(later)),
            (of(Phase::Halted, None), Some(ORIGIN)),
            (of(Phase::Closed, None), None),
        ] {
            let mut markets = Markets::new(false);
            markets.on_event(&phase(Phase::Halted));
            let mut table = BTreeMap::new();
            markets.go_on_with(&[state]).publish(&mut table);
            assert_eq!((table[&ONE].origin, table[&ONE].is_held), (want, Some(true)), "{state:?}");
        }
    }

    #[test]
    fn what_changed_is_moved_once_and_the_rest_stays() {
        let mut markets = Markets::new(true);
        let mut table = BTreeMap::new();
        markets.on_event(&phase(Phase::OpeningCall));
        markets.publish(&mut table);
        assert!(!markets.has_changes());
        markets.on_event(&Event::Plain(PlainEvent::Uncrossed(uncrossed(100, 5))));
        markets.publish(&mut table);
        assert_eq!(table[&ONE].phase, Some(Phase::OpeningCall));
        assert_eq!(table[&ONE].origin, Some(ORIGIN));
    }

    #[test]
    fn an_uncrossing_is_the_opening_or_closing_of_the_call_before_it() {
        let mut markets = Markets::new(true);
        let calls = [(Phase::OpeningCall, 100), (Phase::VolatilityCall, 101)];
        for (call, price) in calls.into_iter().chain([(Phase::ClosingCall, 102)]) {
            markets.on_event(&phase(call));
            markets.on_event(&Event::Plain(PlainEvent::Uncrossed(uncrossed(price, 5))));
            markets.on_event(&phase(Phase::Continuous));
        }
        let mut table = BTreeMap::new();
        markets.publish(&mut table);
        let market = table[&ONE];
        let prices = [market.opening, market.closing].map(|u| u.map(|u| u.price.0));
        assert_eq!(prices, [Some(100), Some(102)]);
        let last: Vec<_> = market.phases.iter().flatten().rev().take(2).collect();
        assert_eq!(last, [&Phase::Continuous, &Phase::ClosingCall]);
    }
}
