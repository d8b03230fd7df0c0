//! Halts: the changes of phase that one holds against, the phase to which its end goes back, and
//! the words that an operator has to say. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::event::PhaseChanged;
use weir_wire::{Event, PlainEvent};

/// Returns a desk that both engines serve.
fn twins() -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        orders_max: 64,
        accounts_max: 8,
        positions_max: 16,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    desk
}

fn check_both(steps: &[ScriptLine<'_>]) -> Desk {
    let mut desk = twins();
    check_on(&mut desk, steps);
    desk
}

#[test]
fn an_operators_halt_holds_against_a_scheduled_change_and_outlives_a_restart() {
    let mut desk = check_both(&[
        ("schedule 5000 continuous", &["done 1"]),
        ("schedule 6000 opening", &["done 1"]),
        ("phase halted", &["phase Halted", "done 0"]),
    ]);
    desk.restart();
    check_on(
        &mut desk,
        &[
            ("at 5000", &[]),
            ("tick", &[]),
            ("buy a 100 1", &["a Rejected WrongPhase"]),
            ("at 7000", &[]),
            ("tick", &[]),
            ("resume", &["uncrossed 0@0 +0", "phase Continuous", "done 0 Continuous"]),
            ("buy a 100 1", &["a New 1"]),
        ],
    );
}

#[test]
fn a_close_ends_a_held_instruments_day_and_the_next_morning_does_not_open_it() {
    check_both(&[
        ("sell day 100 1 day", &["day New 1"]),
        ("sell gtc 101 1", &["gtc New 1"]),
        ("schedule 5000 closed", &["done 1"]),
        ("schedule 6000 opening", &["done 1"]),
        ("schedule 9000 opening", &["done 1"]),
        ("phase halted", &["phase Halted", "done 0"]),
        ("at 5000", &[]),
        ("tick", &["phase Closed", "day Expired None"]),
        ("at 6000", &[]),
        ("tick", &[]),
        // What was closed stays closed: its own opening is the next one.
        ("resume", &["phase Closed", "done 0 Closed"]),
        ("at 9000", &[]),
        ("tick", &["phase OpeningCall"]),
    ]);
}

#[test]
fn a_scheduled_halt_ends_by_schedule_until_an_operator_takes_it_over() {
    check_both(&[
        ("schedule 5000 halted", &["done 1"]),
        ("schedule 6000 continuous", &["done 1"]),
        ("schedule 7000 halted", &["done 1"]),
        ("schedule 8000 continuous", &["done 1"]),
        ("at 5000", &[]),
        ("tick", &["phase Halted"]),
        ("at 6000", &[]),
        ("tick", &["uncrossed 0@0 +0", "phase Continuous"]),
        ("at 7000", &[]),
        ("tick", &["phase Halted"]),
        ("phase halted", &["phase Halted", "done 0"]),
        ("phase halted", &["done 0"]),
        ("at 8000", &[]),
        ("tick", &[]),
        ("resume", &["uncrossed 0@0 +0", "phase Continuous", "done 0 Continuous"]),
    ]);
}

#[test]
fn a_resume_goes_back_to_the_phase_before_the_halt_and_opens_nothing_that_was_closed() {
    for (phase, told) in [
        ("closed", "Closed"),
        ("opening", "OpeningCall"),
        ("volatility", "VolatilityCall"),
        ("closing", "ClosingCall"),
    ] {
        let mut desk = twins();
        if phase == "opening" {
            step(&mut desk, "phase closed");
        }
        step(&mut desk, &format!("phase {phase}"));
        step(&mut desk, "phase halted");
        let (phase, done) = (format!("phase {told}"), format!("done 0 {told}"));
        assert_eq!(step(&mut desk, "resume"), [phase, done.clone()]);
        assert_eq!(step(&mut desk, "resume"), [done], "nothing is halted");
    }
}

#[test]
fn a_resume_through_a_call_lets_participants_react_before_trading() {
    let mut desk = twins();
    define(&mut desk, |d| d.volatility_call = Nanos(500));
    check_on(
        &mut desk,
        &[
            ("phase halted", &["phase Halted", "done 0"]),
            ("at 5000", &[]),
            ("resume call", &["phase VolatilityCall", "done 0 VolatilityCall"]),
            ("buy a 100 2", &["a New 2"]),
            ("bob sell x 100 1", &["x New 1"]),
            ("at 5500", &[]),
            (
                "tick",
                &["a Trade 1@100 1", "x Trade 1@100 0", "uncrossed 1@100 +1", "phase Continuous"],
            ),
        ],
    );
}

/// Returns a desk with a last price of 100 and a collar of 10 % about it, in a call that would
/// uncross at 200.
fn far_off(call: &str) -> Desk {
    let mut desk = twins();
    define(&mut desk, |d| (d.dynamic_collar, d.volatility_call) = (1_000, Nanos(500)));
    for text in ["sell a 100 1", "bob buy x 100 1", &format!("phase {call}")] {
        step(&mut desk, text);
    }
    step(&mut desk, "buy b 200 5");
    step(&mut desk, "bob sell y 200 5");
    desk
}

const AT_200: &[&str] =
    &["b Trade 5@200 0", "y Trade 5@200 0", "uncrossed 5@200 +0", "phase Continuous", "done 0"];

#[test]
fn an_answer_says_the_phase_that_was_reached_and_a_repeat_ends_no_call_beyond_a_collar() {
    let mut desk = far_off("closing");
    check_on(&mut desk, &[("phase halted", &["phase Halted", "done 0"])]);
    let events = desk.phase(Phase::Continuous);
    let reached: Vec<_> = events.iter().filter_map(reached_of).collect();
    assert_eq!(reached, [PhaseReached::VolatilityCall]);
    check_on(
        &mut desk,
        &[
            ("phase continuous", &["refused BeyondCollar"]),
            ("phase closing override", &["refused FieldOutOfRange"]),
            ("phase continuous override", AT_200),
        ],
    );
}

fn reached_of(event: &Event) -> Option<PhaseReached> {
    match event {
        Event::Plain(PlainEvent::RequestDone(e)) => Some(e.phase_reached),
        _ => None,
    }
}

#[test]
fn one_word_overrides_the_collars_where_no_call_has_begun_yet() {
    let mut desk = far_off("closing");
    step(&mut desk, "phase halted");
    check_on(&mut desk, &[("phase continuous override", AT_200)]);
}

#[test]
fn a_scheduled_change_ends_no_call_beyond_a_collar_and_its_time_does() {
    let mut desk = far_off("volatility");
    check_on(&mut desk, &[("schedule 1100 continuous", &["done 1"]), ("at 1100", &[])]);
    assert_eq!(step(&mut desk, "tick"), [""; 0]);
    check_on(&mut desk, &[("at 2000", &[]), ("tick", &AT_200[..4])]);
}

/// A scheduled halt, a call that a collar begins and its time ends, and changes of an operator.
const CHANGES: [&str; 13] = [
    "schedule 5000 halted",
    "schedule 5001 continuous",
    "sell a 100 1",
    "bob buy x 100 1",
    "sell b 105 1",
    "bob buy y 105 1",
    "at 3000",
    "tick",
    "at 5000",
    "tick",
    "at 5001",
    "tick",
    "phase closing",
];

/// Returns a desk whose collars and calls are small enough for [`CHANGES`].
fn collared() -> Desk {
    let mut desk = twins();
    define(&mut desk, |d| (d.dynamic_collar, d.volatility_call) = (100, Nanos(50)));
    desk
}

/// Returns the changes of phase among a desk's events.
fn changes_of(desk: &Desk) -> impl DoubleEndedIterator<Item = PhaseChanged> {
    desk.events.iter().filter_map(|event| match event {
        Event::Plain(PlainEvent::PhaseChanged(e)) => Some(*e),
        _ => None,
    })
}

#[test]
fn a_change_of_phase_says_its_cause() {
    let mut desk = collared();
    for text in CHANGES {
        step(&mut desk, text);
    }
    let told = changes_of(&desk).map(|e| (e.phase, e.cause, e.session_id));
    let nobody = SessionId::NONE;
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (Phase::VolatilityCall, PhaseCause::Collar, nobody),
            (Phase::Continuous, PhaseCause::CallEnd, nobody),
            (Phase::Halted, PhaseCause::Schedule, nobody),
            (Phase::Continuous, PhaseCause::Schedule, nobody),
            (Phase::ClosingCall, PhaseCause::Operator, OPERATOR),
        ]
    );
}

/// The halt that an operator took over was told by no event, nor was its end behind a close: views
/// could not know whether it held.
#[test]
fn a_halt_that_begins_or_ceases_to_hold_is_told_also_where_the_phase_stays() {
    let mut desk = twins();
    for text in ["schedule 5000 halted", "schedule 6000 closed", "at 5000", "tick"] {
        step(&mut desk, text);
    }
    for text in ["phase halted", "phase halted", "at 6000", "tick", "resume", "resume"] {
        step(&mut desk, text);
    }
    let told = changes_of(&desk).map(|e| (e.phase, e.cause, e.hold));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (Phase::Halted, PhaseCause::Schedule, PhaseHold::Free),
            (Phase::Halted, PhaseCause::Operator, PhaseHold::Held),
            (Phase::Closed, PhaseCause::Schedule, PhaseHold::Held),
            (Phase::Closed, PhaseCause::Operator, PhaseHold::Free),
        ]
    );
}

/// As `docs/operations.md` says: views have one origin for the phase and the halt in it.
#[test]
fn the_end_of_a_halt_behind_a_close_is_the_last_change() {
    let mut desk = twins();
    let row = |desk: &Desk| {
        let mut rows = desk.engine.instruments();
        let row = rows.find(|row| row.definition.instrument_id == TULIP).expect("it is defined");
        let origin = row.origin.expect("it has changed");
        (row.phase, row.is_held, origin.cause, origin.at)
    };
    for text in ["phase halted", "schedule 6000 closed", "at 6000", "tick"] {
        step(&mut desk, text);
    }
    assert_eq!(row(&desk), (Phase::Closed, true, PhaseCause::Schedule, Nanos(6_000)));
    for text in ["at 7000", "resume"] {
        step(&mut desk, text);
    }
    assert_eq!(row(&desk), (Phase::Closed, false, PhaseCause::Operator, Nanos(7_000)));
}

#[test]
fn the_cause_of_a_phase_outlives_a_restart() {
    let mut desk = collared();
    for text in CHANGES.into_iter().chain(["phase halted", "resume"]) {
        step(&mut desk, text);
        let before: Vec<_> = desk.engine.instruments().collect();
        desk.restart();
        assert_eq!(desk.engine.instruments().collect::<Vec<_>>(), before, "{text}");
        let last = changes_of(&desk).next_back().map(|e| {
            let (cause, session_id, at) = (e.cause, e.session_id, e.transact_time);
            (PhaseOrigin { cause, session_id, at }, e.hold == PhaseHold::Held)
        });
        let row = before.iter().find(|row| row.definition.instrument_id == TULIP);
        let row = row.expect("it is defined");
        assert_eq!(row.origin, last.map(|(origin, _)| origin), "{text}");
        assert_eq!(row.is_held, last.is_some_and(|(_, is_held)| is_held), "{text}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_snapshot_without_causes_is_found() {
    use weir_engine::plant::{Plant, set};
    set(Some(Plant::CauseForgottenAtRestart));
    let is_found = std::panic::catch_unwind(the_cause_of_a_phase_outlives_a_restart).is_err();
    set(None);
    assert!(is_found, "it is planted");
}
