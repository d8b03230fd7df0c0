//! Many filed changes of one instrument's phase that are due together, as behind a pause of the
//! node: no command makes them all. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{DefineInstrument, KillSwitch, SchedulePhase};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

/// The time of the first change.
const DUE: u64 = 1_000_000;

/// Returns a desk with an order `a` of Alice's that has traded once, and `count` changes that are
/// due: halts and ends of halts by turns. Each command makes `changes_max` of them in any case.
fn desk_with_due_changes(count: u64, changes_max: u32) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        orders_max: 64,
        accounts_max: 8,
        positions_max: 16,
        tick_changes_max: changes_max,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    step(&mut desk, "sell a 100 5");
    step(&mut desk, "bob buy x 100 1");
    for number in 0..count {
        let is_halt = number.is_multiple_of(2);
        desk.ask(Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(DUE + number),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase: if is_halt { Phase::Halted } else { Phase::Continuous },
        }));
    }
    desk.clock = DUE + count;
    desk
}

fn change_count(events: &[Event]) -> usize {
    let is_change = |event: &&Event| matches!(event, Event::Plain(PlainEvent::PhaseChanged(_)));
    events.iter().filter(is_change).count()
}

/// Ten thousand changes were one command's: seconds, if the instrument has many orders.
#[test]
fn thousands_of_due_changes_of_an_instrument_hold_up_no_command() {
    let mut desk = desk_with_due_changes(10_000, 32);
    let events = desk.ask(Request::NewOrder(buy(90, 1, "b")));
    assert_eq!(change_count(&events), 32, "those that precede any command");
    assert_eq!(told(&orders(&events)), ["b Rejected ChangesDue"]);
    let mut made = change_count(&events);
    while desk.engine.next_deadline().is_some() {
        let events = desk.apply(&Command::Tick);
        assert_eq!(change_count(&events), 32.min(10_000 - made));
        made += change_count(&events);
    }
    assert_eq!(made, 10_000);
    assert_eq!(step(&mut desk, "buy b 90 1"), ["b New 1"]);
}

#[test]
fn a_command_makes_four_due_changes_of_its_instrument_and_no_five() {
    let mut desk = desk_with_due_changes(7, 1);
    let refused = ["phase Halted", "b Rejected ChangesDue"];
    assert_eq!(step(&mut desk, "buy b 90 1"), refused, "six are left");
    let again = ["uncrossed 0@0 +0", "phase Continuous", "b Rejected ChangesDue"];
    assert_eq!(step(&mut desk, "buy b 90 1"), again, "five are left");
    let mut told = step(&mut desk, "buy b 90 1");
    told.retain(|text| !text.starts_with("uncrossed"));
    let (halt, on) = ("phase Halted", "phase Continuous");
    assert_eq!(told, [halt, on, halt, on, halt, "b Rejected WrongPhase"], "four were left");
    assert_eq!(desk.engine.next_deadline(), None);
}

/// Returns the events of a request ahead of seven due changes, without those of the changes.
fn ahead(request: Request) -> (Desk, Vec<String>) {
    let mut desk = desk_with_due_changes(8, 1);
    let events = desk.ask(request);
    assert!(change_count(&events) <= 2, "{events:?}");
    let told = events.iter().map(tell).filter(|text| !text.starts_with("phase ")).collect();
    (desk, told)
}

fn asked(text: &str) -> Request {
    asked_in(text).expect("the step is a request")
}

#[test]
fn a_request_that_depends_on_the_phase_is_refused_ahead_of_many_changes() {
    let steps = [
        "replace a c 100 4",
        "cancel a",
        "phase closed",
        "phase continuous",
        "resume",
        "bust 1",
        "reference last=100",
        "schedule 0 closed",
    ];
    let definition = DefineInstrument { fields: 1, ..instrument(TULIP, HERE) };
    let requests = steps.map(asked).into_iter().chain([Request::DefineInstrument(definition)]);
    for request in requests {
        let (mut desk, told) = ahead(request);
        assert_eq!(told, ["refused ChangesDue"], "{request:?}");
        for _ in 0..4 {
            step(&mut desk, "tick");
        }
        let events = desk.ask(request);
        assert!(!events.iter().map(tell).any(|text| text.ends_with("ChangesDue")), "{events:?}");
    }
}

/// An operator who finds thousands of wrong changes stops the instrument.
#[test]
fn a_halt_comes_ahead_of_many_changes_and_skips_them() {
    let (mut desk, told) = ahead(asked("phase halted"));
    assert_eq!(told, ["done 0"]);
    for _ in 0..7 {
        assert_eq!(step(&mut desk, "tick"), [] as [&str; 0]);
    }
    assert_eq!(desk.engine.next_deadline(), None);
    assert_eq!(step(&mut desk, "buy b 90 1"), ["b Rejected WrongPhase"]);
}

#[test]
fn a_request_that_needs_no_phase_comes_ahead_of_many_changes() {
    let kill = Request::KillSwitch(KillSwitch {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        id: 0,
        partition_id: HERE,
        scope: KillScope::All,
        switch: Switch::On,
        cancel_orders: Switch::Off,
    });
    let lots = Request::Transfer(transfer(RICH, 2, 0, 5));
    let later = asked("schedule 9000000 closed");
    for (request, done) in [(kill, "done 0"), (lots, "done 1"), (later, "done 1")] {
        assert_eq!(ahead(request).1, [done], "{request:?}");
    }
    let mut desk = desk_with_due_changes(8, 1);
    let events = desk.import(Definition::DefineInstrument(instrument(TULIP, HERE)));
    assert!(matches!(events[..], [_, Event::Defined(..)]), "{events:?}");
}

/// Its steps make the changes that come before the end of an order.
#[test]
fn a_mass_cancel_is_not_refused_and_cancels_behind_the_changes() {
    let cancel = |session_id, scope| {
        Request::MassCancel(MassCancel {
            request_no: RequestNo(0),
            cl_ord_id: name("all"),
            sending_time: Nanos(0),
            session_id,
            instrument_id: TULIP,
            account_id: AccountId(0),
            firm_id: FirmId(0),
            partition_id: HERE,
            scope,
        })
    };
    for request in
        [cancel(ALICE, MassCancelScope::Session), cancel(OPERATOR, MassCancelScope::Instrument)]
    {
        let (mut desk, mut all) = ahead(request);
        while desk.engine.next_deadline().is_some() {
            all.extend(step(&mut desk, "tick"));
        }
        let ends = &all[all.len() - 2..];
        assert_eq!(ends, ["a Canceled MassCancel", "done 1"], "{all:?}");
    }
}

#[test]
fn a_number_again_has_its_refusal_again() {
    let mut desk = desk_with_due_changes(8, 1);
    let request = numbered(Request::NewOrder(buy(90, 1, "b")), 1_000);
    for _ in 0..12 {
        let events = desk.apply(&Command::Request(request));
        assert_eq!(told(&orders(&events)), ["b Rejected ChangesDue"]);
    }
    assert_eq!(desk.engine.next_deadline(), None);
}

#[cfg(feature = "planted")]
#[test]
fn scripts_find_the_planted_bugs_of_due_changes() {
    use weir_engine::plant::Plant::{
        DueChangesBeforeMassCancel, DueChangesRefuseHalt, DueChangesUnbounded,
    };
    for plant in [DueChangesUnbounded, DueChangesRefuseHalt, DueChangesBeforeMassCancel] {
        let found = commands_until_a_difference(plant);
        println!("{plant:?} {found:?}");
        assert!(found.is_some(), "{plant:?}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_due_changes_is_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (Plant::DueChangesUnbounded, thousands_of_due_changes_of_an_instrument_hold_up_no_command),
        (Plant::DueChangesRefuseHalt, a_halt_comes_ahead_of_many_changes_and_skips_them),
        (
            Plant::DueChangesBeforeMassCancel,
            a_mass_cancel_is_not_refused_and_cancels_behind_the_changes,
        ),
    ]);
}
