//! Changes of the phase of many instruments by one command: at once for order entry, in bounded
//! parts for everybody else, counted, refused whole. Both engines play each test.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{
    ChangePhases, DefineInstrument, KillSwitch, SchedulePhase, SchedulePhases, SetPhase, field_bit,
};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

const GROUP: GroupId = GroupId(7);
const MEMBERS: [u32; 8] = [201, 202, 203, 204, 205, 206, 207, 208];
/// One of another partition.
const ELSEWHERE: u32 = 209;

/// Returns a desk with eight instruments of a group beside those of every desk, where a command or
/// a tick makes two changes.
fn desk() -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        orders_max: 1 << 10,
        accounts_max: 1 << 6,
        positions_max: 1 << 8,
        tick_changes_max: 2,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    for id in MEMBERS {
        let definition = DefineInstrument { group_id: GROUP, ..instrument(InstrumentId(id), HERE) };
        desk.import(Definition::DefineInstrument(definition));
    }
    desk.import(Definition::DefineInstrument(DefineInstrument {
        group_id: GROUP,
        ..instrument(InstrumentId(ELSEWHERE), PartitionId(2))
    }));
    desk
}

fn set(group_id: GroupId, phase: Phase) -> ChangePhases {
    ChangePhases {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        group_id,
        partition_id: HERE,
        phase,
        resumes: Switch::Off,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    }
}

fn resume(group_id: GroupId) -> ChangePhases {
    ChangePhases { resumes: Switch::On, ..set(group_id, Phase::Closed) }
}

fn order_in(id: u32, text: &str) -> NewOrder {
    NewOrder { instrument_id: InstrumentId(id), ..buy(100, 1, text) }
}

/// Returns the instruments whose phases changed, in the order of the events.
fn changed(events: &[Event]) -> Vec<u32> {
    let id = |event: &Event| match event {
        Event::Plain(PlainEvent::PhaseChanged(e)) => Some(e.instrument_id.0),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

/// Returns the orders ended, the instruments changed and those skipped, of the answer among the
/// events.
fn answer(events: &[Event]) -> Option<(u64, u32, u32)> {
    let counts = |event: &Event| match event {
        Event::Plain(PlainEvent::RequestDone(e)) => {
            Some((e.affected_count, e.changed_count, e.skipped_count))
        }
        _ => None,
    };
    events.iter().find_map(counts)
}

/// Returns the answers among all events.
fn answers(desk: &Desk) -> Vec<(u64, u32, u32)> {
    desk.events.iter().filter_map(|event| answer(std::slice::from_ref(event))).collect()
}

/// Ticks until a change of many is answered; returns all events.
fn tick_to_the_end(desk: &mut Desk) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..100 {
        if desk.engine.next_deadline().is_none() {
            return events;
        }
        events.extend(desk.apply(&Command::Tick));
    }
    panic!("a change of many does not end");
}

fn phase_of(engine: &Engine, id: u32) -> Phase {
    let mut rows = engine.instruments();
    rows.find(|row| row.definition.instrument_id.0 == id).expect("it is defined").phase
}

#[test]
fn no_order_sees_a_group_from_before_a_change_that_is_still_being_made() {
    let mut desk = desk();
    let events = desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    assert_eq!((changed(&events), answer(&events)), (vec![201, 202], None), "the first part");
    // A command of an instrument makes the change there first, behind its own part of all.
    let events = desk.ask(Request::NewOrder(order_in(208, "a")));
    assert_eq!(changed(&events), [203, 204, 208]);
    let refused = orders(&events);
    assert_eq!((refused.len(), refused[0].reason), (1, Reason::WrongPhase));
    assert_eq!(desk.order(order_in(TULIP.0, "b"))[0].exec_type, ExecType::New, "no member");
    assert_eq!(changed(&tick_to_the_end(&mut desk)), [207], "205 and 206 came with the order");
    assert_eq!(MEMBERS.map(|id| phase_of(&desk.engine, id)), [Phase::Halted; 8]);
    assert_eq!(phase_of(&desk.engine, ELSEWHERE), Phase::Continuous);
    assert_eq!(answers(&desk), [(0, 8, 0)], "one answer, with the counts");

    let events = desk.ask(Request::ChangePhases(resume(GROUP)));
    assert_eq!(changed(&events), [201, 202]);
    assert_eq!(desk.order(order_in(205, "c"))[0].exec_type, ExecType::New);
    tick_to_the_end(&mut desk);
    assert_eq!(answers(&desk), [(0, 8, 0), (0, 8, 0)]);
}

#[test]
fn a_change_of_all_counts_the_orders_it_ended_and_the_instruments_it_left() {
    let mut desk = desk();
    for (id, text) in [(201, "a"), (203, "b"), (TULIP.0, "c")] {
        let day = NewOrder { time_in_force: TimeInForce::Day, ..order_in(id, text) };
        desk.order(day);
    }
    desk.ask(Request::ChangePhases(set(GROUP, Phase::ClosingCall)));
    tick_to_the_end(&mut desk);
    desk.events.clear();
    // A volatility call comes from continuous trading, not from a closing call.
    desk.ask(Request::ChangePhases(set(GroupId::NONE, Phase::VolatilityCall)));
    tick_to_the_end(&mut desk);
    assert_eq!(answers(&desk), [(0, 2, 8)]);
    desk.events.clear();
    desk.ask(Request::ChangePhases(set(GroupId::NONE, Phase::Closed)));
    tick_to_the_end(&mut desk);
    assert_eq!(answers(&desk), [(3, 10, 0)], "the day orders");
    let events = desk.ask(Request::ChangePhases(set(GroupId(9), Phase::Halted)));
    assert_eq!(answer(&events), Some((0, 0, 0)), "a group without instruments");
}

#[test]
fn a_request_that_contradicts_itself_or_comes_from_a_trader_changes_nothing() {
    let mut desk = desk();
    let halted = set(GROUP, Phase::Halted);
    let cases = [
        (ChangePhases { session_id: ALICE, ..halted }, Reason::NotEntitled),
        (ChangePhases { partition_id: PartitionId(2), ..halted }, Reason::WrongPartition),
        (ChangePhases { override_collars: Switch::On, ..halted }, Reason::FieldOutOfRange),
        (ChangePhases { through_call: Switch::On, ..halted }, Reason::FieldOutOfRange),
        (ChangePhases { phase: Phase::Halted, ..resume(GROUP) }, Reason::FieldOutOfRange),
        (ChangePhases { override_collars: Switch::On, ..resume(GROUP) }, Reason::FieldOutOfRange),
    ];
    for (change, want) in cases {
        let events = desk.ask(Request::ChangePhases(change));
        assert_eq!((events.len(), rejected_of(&events[0]).reason), (1, want), "{change:?}");
    }
    assert_eq!(desk.engine.next_deadline(), None, "nothing is left to do");
}

#[test]
fn a_session_has_one_request_that_goes_on_and_its_repeat_is_told() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    let again = numbered(Request::ChangePhases(set(GROUP, Phase::Halted)), desk.request_no);
    let events = desk.ask(Request::ChangePhases(set(GROUP, Phase::Closed)));
    assert_eq!(rejected_of(&events[2]).reason, Reason::TooManyMassCancels, "behind 203 and 204");
    let events = desk.apply(&Command::Request(again));
    assert_eq!(rejected_of(&events[2]).reason, Reason::InProgress);
    tick_to_the_end(&mut desk);
    let events = desk.apply(&Command::Request(again));
    assert_eq!(answer(&events), Some((0, 8, 0)), "the answer that it had");
}

#[test]
fn an_instrument_that_comes_to_a_group_takes_no_part_in_a_change_from_before() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    let join = DefineInstrument {
        group_id: GROUP,
        fields: field_bit::<DefineInstrument>("group_id"),
        ..instrument(ROSE, HERE)
    };
    desk.ask(Request::DefineInstrument(join));
    desk.order(order_in(ROSE.0, "a"));
    assert_eq!(phase_of(&desk.engine, ROSE.0), Phase::Continuous, "no command of its own makes it");
    // One that leaves it has made the change, as it stood in the group then.
    let (group_id, instrument_id) = (GroupId::NONE, InstrumentId(208));
    let leave = DefineInstrument { group_id, instrument_id, ..join };
    assert_eq!(changed(&desk.ask(Request::DefineInstrument(leave))).last(), Some(&208));
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, ROSE.0), Phase::Continuous);
    desk.ask(Request::ChangePhases(resume(GROUP)));
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Closed)));
    tick_to_the_end(&mut desk);
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Closed)));
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, ROSE.0), Phase::Closed, "later changes are its own too");
    assert_eq!(phase_of(&desk.engine, 208), Phase::Halted);
}

#[test]
fn a_mass_cancel_leaves_the_orders_of_a_group_that_is_closed_meanwhile() {
    let mut desk = desk();
    desk.order(order_in(208, "a"));
    desk.order(order_in(TULIP.0, "b"));
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Closed)));
    assert_eq!(phase_of(&desk.engine, 208), Phase::Continuous, "ticks have not come so far");
    let own = weir_wire::order_entry::MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: InstrumentId::NONE,
        account_id: AccountId::NONE,
        firm_id: FirmId::NONE,
        partition_id: HERE,
        scope: MassCancelScope::Session,
    };
    let mut events = desk.ask(Request::MassCancel(own));
    events.extend(tick_to_the_end(&mut desk));
    assert_eq!(told(&orders(&events)), ["b Canceled MassCancel"]);
}

#[test]
fn a_change_of_many_goes_on_behind_a_restart() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    desk.order(order_in(205, "a"));
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = desk.engine.config().clone();
    desk.engine = Engine::restore(config, &bytes).expect("it reads back");
    let mut again = Vec::new();
    desk.engine.snapshot(&mut again);
    assert_eq!(again, bytes);
    let events = tick_to_the_end(&mut desk);
    assert_eq!(changed(&events), [206, 207, 208], "the others came with the commands");
    assert_eq!(answer(&events), Some((0, 8, 0)));
}

fn halt(id: u32) -> Request {
    Request::SetPhase(SetPhase {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        instrument_id: InstrumentId(id),
        phase: Phase::Halted,
        override_collars: Switch::Off,
    })
}

#[test]
fn a_halt_of_one_instrument_holds_behind_an_earlier_resume_of_all() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    tick_to_the_end(&mut desk);
    desk.ask(Request::ChangePhases(resume(GROUP)));
    let events = desk.ask(halt(206));
    assert!(changed(&events).ends_with(&[206, 206]), "resumed, then halted: {events:?}");
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, 206), Phase::Halted);
    assert_eq!(phase_of(&desk.engine, 205), Phase::Continuous);
}

#[test]
fn a_change_of_many_and_a_kill_of_one_session_do_not_wait_for_each_other() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Closed)));
    let kill = |request_no| {
        Request::KillSwitch(KillSwitch {
            request_no,
            session_id: OPERATOR,
            id: 0,
            partition_id: HERE,
            scope: KillScope::All,
            switch: Switch::On,
            cancel_orders: Switch::On,
        })
    };
    let events = desk.ask(kill(RequestNo(0)));
    assert!(events.iter().all(|e| !matches!(e, Event::Plain(PlainEvent::RequestRejected(_)))));
    tick_to_the_end(&mut desk);
    assert_eq!(answers(&desk).len(), 2, "of both");
}

#[test]
fn a_change_of_many_takes_what_the_timers_before_it_have_left() {
    let mut desk = desk();
    for at in [50_000, 50_001] {
        desk.ask(Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(at),
            session_id: OPERATOR,
            instrument_id: TULIP,
            phase: if at % 2 == 0 { Phase::Closed } else { Phase::OpeningCall },
        }));
    }
    desk.clock = 60_000;
    desk.events.clear();
    let events = desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    assert_eq!(changed(&events), [TULIP.0; 2], "two are a command's");
    tick_to_the_end(&mut desk);
    assert_eq!(answers(&desk), [(0, 8, 0)]);
}

/// A definition of the control log comes ahead of many due changes, and would come to them late.
#[test]
fn an_instrument_that_changes_its_group_ahead_of_due_changes_of_all_has_its_part_in_them() {
    let mut desk = desk();
    for number in 0..12 {
        desk.ask(Request::SchedulePhases(SchedulePhases {
            request_no: RequestNo(0),
            at: Nanos(50_000 + number),
            session_id: OPERATOR,
            instrument_id: InstrumentId::NONE,
            count: 0,
            group_id: GroupId::NONE,
            partition_id: HERE,
            phase: if number % 2 == 0 { Phase::Closed } else { Phase::OpeningCall },
            step: ScheduleStep::File,
        }));
    }
    desk.clock = 60_000;
    let moved = DefineInstrument { group_id: GroupId(8), ..instrument(InstrumentId(208), HERE) };
    desk.import(Definition::DefineInstrument(moved));
    assert_eq!(phase_of(&desk.engine, 208), Phase::Continuous, "ahead of the changes");
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, 208), Phase::OpeningCall);
}

/// Else the halt, which may come ahead of many due changes, would be lifted by the earlier request.
#[test]
fn a_halt_ahead_of_many_due_changes_waits_for_an_earlier_change_of_many() {
    let mut desk = desk();
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    tick_to_the_end(&mut desk);
    for number in 0..12 {
        desk.ask(Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(50_000 + number),
            session_id: OPERATOR,
            instrument_id: InstrumentId(206),
            phase: Phase::Continuous,
        }));
    }
    desk.clock = 60_000;
    desk.ask(Request::ChangePhases(resume(GROUP)));
    let events = desk.ask(halt(206));
    assert_eq!(rejected_of(events.last().unwrap()).reason, Reason::ChangesDue);
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, 206), Phase::Continuous);
    desk.ask(halt(206));
    assert_eq!(phase_of(&desk.engine, 206), Phase::Halted);
}

#[test]
fn a_halt_ahead_of_many_due_changes_does_not_wait_for_a_halt_of_many() {
    let mut desk = desk();
    for number in 0..12 {
        desk.ask(Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(50_000 + number),
            session_id: OPERATOR,
            instrument_id: InstrumentId(208),
            phase: if number % 2 == 0 { Phase::Closed } else { Phase::OpeningCall },
        }));
    }
    desk.clock = 60_000;
    desk.ask(Request::ChangePhases(set(GROUP, Phase::Halted)));
    let events = desk.ask(halt(208));
    assert_eq!(changed(&events).last(), Some(&208));
    assert_eq!(phase_of(&desk.engine, 208), Phase::Halted);
    tick_to_the_end(&mut desk);
    assert_eq!(phase_of(&desk.engine, 208), Phase::Halted);
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_groups_is_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (
            Plant::GroupChangeUnseen,
            no_order_sees_a_group_from_before_a_change_that_is_still_being_made,
        ),
        (
            Plant::SkippedUncounted,
            a_change_of_all_counts_the_orders_it_ended_and_the_instruments_it_left,
        ),
        (
            Plant::NewMemberTakesPart,
            an_instrument_that_comes_to_a_group_takes_no_part_in_a_change_from_before,
        ),
        (
            Plant::SweepBeforeGroupChange,
            a_mass_cancel_leaves_the_orders_of_a_group_that_is_closed_meanwhile,
        ),
        (Plant::BudgetForEachPart, a_change_of_many_takes_what_the_timers_before_it_have_left),
        (Plant::SnapshotForgetsChanged, a_change_of_many_goes_on_behind_a_restart),
    ]);
}

#[cfg(feature = "planted")]
#[test]
fn scripts_find_the_planted_bugs_of_groups() {
    use weir_engine::plant::Plant::{
        GroupChangeUnseen, ListUncounted, SkippedUncounted, SweepBeforeGroupChange,
    };
    for plant in [GroupChangeUnseen, ListUncounted, SkippedUncounted, SweepBeforeGroupChange] {
        let found = commands_until_a_difference(plant);
        println!("{plant:?} {found:?}");
        assert!(found.is_some(), "{plant:?}");
    }
}
