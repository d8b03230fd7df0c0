//! Filed changes of groups, and schedules that are replaced by one command. Both engines play each
//! test, but the one that fills the schedule.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{DefineInstrument, SchedulePhase, SchedulePhases, field_bit};
use weir_wire::{Definition, Event, PlainEvent, Request};

const GROUP: GroupId = GroupId(7);
const SECOND_OPERATOR: SessionId = SessionId(19);

fn config() -> EngineConfig {
    EngineConfig {
        orders_max: 1 << 10,
        accounts_max: 1 << 6,
        positions_max: 1 << 8,
        tick_changes_max: 2,
        ..EngineConfig::new(HERE)
    }
}

/// Furnishes a desk with tulips in a group, and roses in none.
fn furnish(desk: &mut Desk) {
    desk.furnish();
    desk.import(session(SECOND_OPERATOR, 0, Role::Operator));
    join(desk, TULIP);
}

fn desk() -> Desk {
    let mut desk = Desk::with_twin(config());
    furnish(&mut desk);
    desk
}

fn join(desk: &mut Desk, instrument_id: InstrumentId) {
    let fields = field_bit::<DefineInstrument>("group_id");
    let join = DefineInstrument { group_id: GROUP, fields, ..instrument(instrument_id, HERE) };
    let events = desk.ask(Request::DefineInstrument(join));
    assert!(matches!(events[0], Event::Defined(_, Definition::DefineInstrument(_))));
}

fn of_group(group_id: GroupId, step: ScheduleStep) -> SchedulePhases {
    SchedulePhases {
        request_no: RequestNo(0),
        at: Nanos(0),
        session_id: OPERATOR,
        instrument_id: InstrumentId::NONE,
        count: 0,
        group_id,
        partition_id: HERE,
        phase: Phase::Closed,
        step,
    }
}

/// Returns the count of the answer, or the reason of the refusal.
fn ask(desk: &mut Desk, m: SchedulePhases) -> Result<u64, Reason> {
    match desk.ask(Request::SchedulePhases(m)).last().expect("an answer") {
        Event::Plain(PlainEvent::RequestDone(e)) => Ok(e.affected_count),
        Event::Plain(PlainEvent::RequestRejected(e)) => Err(e.reason),
        other => panic!("no answer: {other:?}"),
    }
}

fn file(desk: &mut Desk, group_id: GroupId, at: u64, phase: Phase) {
    let m = SchedulePhases { at: Nanos(at), phase, ..of_group(group_id, ScheduleStep::File) };
    assert_eq!(ask(desk, m), Ok(1));
}

fn file_of_one(desk: &mut Desk, instrument_id: InstrumentId, at: u64, phase: Phase) -> Vec<Event> {
    desk.ask(Request::SchedulePhase(SchedulePhase {
        request_no: RequestNo(0),
        at: Nanos(at),
        session_id: OPERATOR,
        instrument_id,
        phase,
    }))
}

fn list(desk: &mut Desk, changes: &[(u64, Phase)]) {
    assert_eq!(ask(desk, of_group(GroupId::NONE, ScheduleStep::Begin)), Ok(0));
    for (at, phase) in changes {
        let (at, phase, step) = (Nanos(*at), *phase, ScheduleStep::Add);
        assert_eq!(ask(desk, SchedulePhases { at, phase, ..of_group(GROUP, step) }), Ok(1));
    }
}

fn replace(group_id: GroupId, count: u32) -> SchedulePhases {
    SchedulePhases { count, ..of_group(group_id, ScheduleStep::Replace) }
}

fn phase_of(engine: &Engine, id: InstrumentId) -> Phase {
    let mut rows = engine.instruments();
    rows.find(|row| row.definition.instrument_id == id).expect("it is defined").phase
}

fn order_in(instrument_id: InstrumentId, text: &str) -> NewOrder {
    NewOrder { instrument_id, ..buy(100, 1, text) }
}

#[test]
fn a_filed_change_belongs_to_the_group_and_is_made_in_its_members_of_then() {
    let mut desk = desk();
    file(&mut desk, GROUP, 50_000, Phase::Closed);
    assert_eq!(desk.engine.filed_change_count(), 1, "not one of each instrument");
    join(&mut desk, ROSE);
    desk.clock = 50_000;
    for id in [ROSE, TULIP] {
        let refused = desk.order(order_in(id, "a"));
        assert_eq!(refused[0].reason, Reason::WrongPhase, "{id}");
    }
    let schedule = |event: &&Event| match event {
        Event::Plain(PlainEvent::PhaseChanged(e)) => e.cause == PhaseCause::Schedule,
        _ => false,
    };
    assert_eq!(desk.events.iter().filter(schedule).count(), 2);
    assert_eq!(desk.engine.filed_change_count(), 0);
}

#[test]
fn of_changes_for_one_time_the_nearest_has_the_last_word() {
    let mut desk = desk();
    file_of_one(&mut desk, TULIP, 50_000, Phase::ClosingCall);
    file(&mut desk, GROUP, 50_000, Phase::VolatilityCall);
    file(&mut desk, GroupId::NONE, 50_000, Phase::Halted);
    desk.clock = 50_000;
    for _ in 0..4 {
        desk.apply(&weir_wire::Command::Tick);
    }
    assert_eq!(phase_of(&desk.engine, TULIP), Phase::ClosingCall);
    assert_eq!(phase_of(&desk.engine, ROSE), Phase::Halted);
}

#[test]
fn an_operators_halt_holds_against_a_change_that_is_filed_for_its_group() {
    let mut desk = desk();
    file(&mut desk, GROUP, 50_000, Phase::Continuous);
    file(&mut desk, GROUP, 60_000, Phase::Closed);
    desk.phase(Phase::Halted);
    for (at, want) in [(50_000, Phase::Halted), (60_000, Phase::Closed)] {
        desk.clock = at;
        desk.apply(&weir_wire::Command::Tick);
        assert_eq!(phase_of(&desk.engine, TULIP), want);
    }
}

#[test]
fn a_list_that_is_not_whole_clears_nothing() {
    let mut desk = desk();
    for at in [50_000, 60_000, 70_000] {
        file(&mut desk, GROUP, at, Phase::Closed);
    }
    assert_eq!(ask(&mut desk, replace(GROUP, 0)), Err(Reason::ListIncomplete), "no list");
    list(&mut desk, &[(51_000, Phase::Halted), (61_000, Phase::Closed)]);
    assert_eq!(ask(&mut desk, replace(GROUP, 3)), Err(Reason::ListIncomplete));
    let of_both = SchedulePhases { instrument_id: TULIP, ..replace(GROUP, 2) };
    assert_eq!(ask(&mut desk, of_both), Err(Reason::FieldOutOfRange), "a group or an instrument");
    let another = SchedulePhases { session_id: SECOND_OPERATOR, ..replace(GROUP, 2) };
    assert_eq!(ask(&mut desk, another), Err(Reason::ListIncomplete), "another session's list");
    let elsewhere = SchedulePhases { instrument_id: FAR, ..replace(GroupId::NONE, 2) };
    assert_eq!(ask(&mut desk, elsewhere), Err(Reason::WrongPartition));
    desk.clock = 52_000;
    assert_eq!(desk.engine.filed_change_count(), 3);
    assert_eq!(ask(&mut desk, replace(GROUP, 2)), Err(Reason::FieldOutOfRange), "one has passed");
    assert_eq!(desk.engine.filed_change_count(), 2, "the first was due");

    list(&mut desk, &[(53_000, Phase::Halted), (63_000, Phase::Closed)]);
    let begin = of_group(GROUP, ScheduleStep::Begin);
    ask(&mut desk, SchedulePhases { session_id: SECOND_OPERATOR, ..begin }).expect("it begins");
    assert_eq!(ask(&mut desk, replace(GROUP, 2)), Err(Reason::ListIncomplete), "it is another's");
    assert_eq!(desk.engine.filed_change_count(), 2);
}

#[test]
fn a_list_takes_the_place_of_a_schedule_and_serves_several() {
    let mut desk = desk();
    for at in [50_000, 60_000, 70_000] {
        file(&mut desk, GROUP, at, Phase::Halted);
        file_of_one(&mut desk, ROSE, at, Phase::Halted);
    }
    list(&mut desk, &[(51_000, Phase::ClosingCall), (60_000, Phase::Closed)]);
    assert_eq!(ask(&mut desk, replace(GROUP, 2)), Ok(3));
    let of_rose = SchedulePhases { instrument_id: ROSE, ..replace(GroupId::NONE, 2) };
    assert_eq!(ask(&mut desk, of_rose), Ok(3));
    assert_eq!(desk.engine.filed_change_count(), 4);
    let append = SchedulePhases { step: ScheduleStep::Append, ..of_rose };
    assert_eq!(ask(&mut desk, append), Ok(0), "both are filed already");

    // A restart keeps what is filed, and the list.
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = desk.engine.config().clone();
    desk.engine = Engine::restore(config, &bytes).expect("it reads back");
    assert_eq!(ask(&mut desk, replace(GroupId::NONE, 2)), Ok(4), "of all: each one's go");
    assert_eq!(desk.engine.filed_change_count(), 2);
    for (at, want) in [(51_000, Phase::ClosingCall), (60_000, Phase::Closed)] {
        desk.clock = at;
        desk.apply(&weir_wire::Command::Tick);
        assert_eq!([TULIP, ROSE].map(|id| phase_of(&desk.engine, id)), [want; 2]);
    }
}

/// A client whose clock is ahead of log time leaves changes out that are to come for the node: a
/// close between both times was cleared and not filed again.
#[test]
fn a_replacement_leaves_the_changes_up_to_the_time_that_it_names() {
    let mut desk = desk();
    for at in [50_000, 60_000, 70_000] {
        file(&mut desk, GROUP, at, Phase::Closed);
        file_of_one(&mut desk, ROSE, at, Phase::Closed);
    }
    let behind = |at: u64, of: SchedulePhases| SchedulePhases { at: Nanos(at), ..of };
    list(&mut desk, &[(80_000, Phase::Closed)]);
    assert_eq!(ask(&mut desk, behind(60_000, replace(GROUP, 1))), Ok(1), "that of 70,000");
    let of_rose = SchedulePhases { instrument_id: ROSE, ..replace(GroupId::NONE, 1) };
    assert_eq!(ask(&mut desk, behind(50_000, of_rose)), Ok(2));
    assert_eq!(desk.engine.filed_change_count(), 5);
    // A change of the list up to that time takes the place of one for the same time.
    list(&mut desk, &[(60_000, Phase::Halted), (90_000, Phase::Closed)]);
    assert_eq!(ask(&mut desk, behind(85_000, replace(GROUP, 2))), Ok(0), "none is behind it");
    assert_eq!(desk.engine.filed_change_count(), 6);
    // Log time is past the time that is named.
    desk.clock = 55_000;
    assert_eq!(ask(&mut desk, behind(10_000, replace(GroupId::NONE, 2))), Ok(4));
    for (at, want) in [(60_000, Phase::Halted), (90_000, Phase::Closed)] {
        desk.clock = at;
        desk.apply(&weir_wire::Command::Tick);
        assert_eq!(phase_of(&desk.engine, TULIP), want);
    }
}

#[test]
fn a_change_that_is_due_is_made_and_not_cleared() {
    let mut desk = desk();
    for at in 0..9 {
        let phase = if at % 2 == 0 { Phase::Halted } else { Phase::Continuous };
        file_of_one(&mut desk, ROSE, 50_000 + at, phase);
    }
    file(&mut desk, GROUP, 50_000, Phase::Closed);
    file(&mut desk, GROUP, 90_000, Phase::Closed);
    desk.clock = 55_000;
    assert_eq!(ask(&mut desk, of_group(GroupId::NONE, ScheduleStep::Clear)), Ok(1));
    let of_rose =
        SchedulePhases { instrument_id: ROSE, ..of_group(GroupId::NONE, ScheduleStep::Clear) };
    assert_eq!(ask(&mut desk, of_rose), Err(Reason::ChangesDue));
    for _ in 0..6 {
        desk.apply(&weir_wire::Command::Tick);
    }
    assert_eq!(phase_of(&desk.engine, ROSE), Phase::Halted);
    assert_eq!(phase_of(&desk.engine, TULIP), Phase::Closed);
}

/// A calendar of a year for a group is so many changes, not so many for each instrument; and one
/// that does not fit is refused before anything is cleared.
#[test]
fn a_full_schedule_is_replaced_but_takes_nothing_more() {
    const LIST_MAX: u32 = 1 << 12;
    let mut desk = Desk::with_config(config());
    furnish(&mut desk);
    let at = |number: u32| (1_000_000 + u64::from(number), Phase::Closed);
    let changes: Vec<_> = (0..LIST_MAX).map(at).collect();
    list(&mut desk, &changes);
    let more = SchedulePhases { at: Nanos(9_000_000), ..of_group(GROUP, ScheduleStep::Add) };
    assert_eq!(ask(&mut desk, more), Err(Reason::LimitReached), "a list's length");
    for group in 1..=16 {
        let append = of_group(GroupId(group), ScheduleStep::Append);
        let append = SchedulePhases { count: LIST_MAX, ..append };
        assert_eq!(ask(&mut desk, append), Ok(u64::from(LIST_MAX)));
    }
    assert_eq!(desk.engine.filed_change_count(), 1 << 16);
    let refused = file_of_one(&mut desk, TULIP, 2_000_000, Phase::Closed);
    assert_eq!(rejected_of(&refused[0]).reason, Reason::LimitReached);
    assert_eq!(ask(&mut desk, replace(GroupId(17), LIST_MAX)), Err(Reason::LimitReached));
    assert_eq!(ask(&mut desk, replace(GroupId(16), LIST_MAX)), Ok(u64::from(LIST_MAX)));
    file(&mut desk, GroupId(16), 1_000_000, Phase::Halted);
    assert_eq!(desk.engine.filed_change_count(), 1 << 16);
    assert_eq!(ask(&mut desk, replace(GroupId::NONE, LIST_MAX)), Ok(1 << 16));
    assert_eq!(desk.engine.filed_change_count(), LIST_MAX as usize);
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_group_schedules_is_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (Plant::ListUncounted, a_list_that_is_not_whole_clears_nothing),
        (Plant::SnapshotForgetsList, a_list_takes_the_place_of_a_schedule_and_serves_several),
    ]);
}
