//! Random changes of the phases of many instruments, where a command or a tick makes only some of
//! them: orders, members that come and go, halts, schedules and restarts come between. Both engines
//! play them; the scripts of the oracle have two instruments, these have ten.

mod support;

use proptest::prelude::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::{
    ChangePhases, DefineInstrument, ResumeTrading, SchedulePhases, SetPhase, field_bit,
};
use weir_wire::{Command, Definition, Request};

const INSTRUMENTS: [u32; 10] = [TULIP.0, ROSE.0, 201, 202, 203, 204, 205, 206, 207, 208];
const GROUPS: [GroupId; 3] = [GroupId::NONE, GroupId(7), GroupId(8)];
const PHASES: [Phase; 8] = [
    Phase::Halted,
    Phase::Continuous,
    Phase::Closed,
    Phase::OpeningCall,
    Phase::Halted,
    Phase::Continuous,
    Phase::ClosingCall,
    Phase::VolatilityCall,
];

/// An event of a random day. Numbers are taken modulo the length of their table.
#[derive(Clone, Copy, Debug)]
enum DayEvent {
    Change { group: usize, phase: usize, resumes: bool },
    ChangeOne { instrument: usize, phase: usize, resumes: bool },
    File { group: usize, phase: usize, after: u64 },
    Join { instrument: usize, group: usize },
    Import { instrument: usize, group: usize },
    Order { instrument: usize, is_buy: bool, price: i64 },
    MassCancel,
    Tick,
    Wait { nanos: u64 },
    Restart,
}

fn step() -> impl Strategy<Value = DayEvent> {
    let (group, phase, instrument) = (0..GROUPS.len(), 0..PHASES.len(), 0..INSTRUMENTS.len());
    prop_oneof![
        4 => (group.clone(), phase.clone(), any::<bool>())
            .prop_map(|(group, phase, resumes)| DayEvent::Change { group, phase, resumes }),
        2 => (instrument.clone(), phase.clone(), any::<bool>())
            .prop_map(|(instrument, phase, resumes)| {
                DayEvent::ChangeOne { instrument, phase, resumes }
            }),
        3 => (group.clone(), phase, 1..300_u64)
            .prop_map(|(group, phase, after)| DayEvent::File { group, phase, after }),
        4 => (instrument.clone(), group.clone())
            .prop_map(|(instrument, group)| DayEvent::Join { instrument, group }),
        1 => (instrument.clone(), group)
            .prop_map(|(instrument, group)| DayEvent::Import { instrument, group }),
        8 => (instrument, any::<bool>(), 99..102_i64)
            .prop_map(|(instrument, is_buy, price)| DayEvent::Order { instrument, is_buy, price }),
        1 => Just(DayEvent::MassCancel),
        4 => Just(DayEvent::Tick),
        3 => (1..200_u64).prop_map(|nanos| DayEvent::Wait { nanos }),
        1 => Just(DayEvent::Restart),
    ]
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::On } else { Switch::Off }
}

fn desk(changes_max: u32) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        orders_max: 1 << 10,
        accounts_max: 1 << 6,
        positions_max: 1 << 8,
        tick_changes_max: changes_max,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    for id in &INSTRUMENTS[2..] {
        let group_id = GROUPS[1 + *id as usize % 2];
        let definition = DefineInstrument { group_id, ..instrument(InstrumentId(*id), HERE) };
        desk.import(Definition::DefineInstrument(definition));
    }
    desk.clock = 10_000;
    desk
}

fn request_of(step: DayEvent, now: u64, number: usize) -> Option<Request> {
    let request_no = RequestNo(0);
    Some(match step {
        DayEvent::Change { group, phase, resumes } => Request::ChangePhases(ChangePhases {
            request_no,
            session_id: OPERATOR,
            group_id: GROUPS[group],
            partition_id: HERE,
            phase: if resumes { Phase::Closed } else { PHASES[phase] },
            resumes: switch(resumes),
            override_collars: Switch::Off,
            through_call: switch(resumes && phase % 2 == 1),
        }),
        DayEvent::ChangeOne { instrument, phase, resumes: true } => {
            Request::ResumeTrading(ResumeTrading {
                request_no,
                session_id: OPERATOR,
                instrument_id: InstrumentId(INSTRUMENTS[instrument]),
                through_call: switch(phase % 2 == 1),
            })
        }
        DayEvent::ChangeOne { instrument, phase, resumes: false } => Request::SetPhase(SetPhase {
            request_no,
            session_id: OPERATOR,
            instrument_id: InstrumentId(INSTRUMENTS[instrument]),
            phase: PHASES[phase],
            override_collars: Switch::Off,
        }),
        DayEvent::File { group, phase, after } => Request::SchedulePhases(SchedulePhases {
            request_no,
            at: Nanos(now + after),
            session_id: OPERATOR,
            instrument_id: InstrumentId::NONE,
            count: 0,
            group_id: GROUPS[group],
            partition_id: HERE,
            phase: PHASES[phase],
            step: ScheduleStep::File,
        }),
        DayEvent::Join { instrument: index, group } => {
            Request::DefineInstrument(DefineInstrument {
                group_id: GROUPS[group],
                fields: field_bit::<DefineInstrument>("group_id"),
                ..instrument(InstrumentId(INSTRUMENTS[index]), HERE)
            })
        }
        DayEvent::Order { instrument, is_buy, price } => {
            let text = format!("o{number}");
            let order = if is_buy { buy(price, 1, &text) } else { sell(price, 1, &text) };
            let instrument_id = InstrumentId(INSTRUMENTS[instrument]);
            Request::NewOrder(NewOrder { instrument_id, ..order })
        }
        DayEvent::MassCancel => Request::MassCancel(MassCancel {
            request_no,
            cl_ord_id: name("all"),
            sending_time: Nanos(0),
            session_id: ALICE,
            instrument_id: InstrumentId::NONE,
            account_id: AccountId::NONE,
            firm_id: FirmId::NONE,
            partition_id: HERE,
            scope: MassCancelScope::Session,
        }),
        DayEvent::Import { .. } | DayEvent::Tick | DayEvent::Wait { .. } | DayEvent::Restart => {
            return None;
        }
    })
}

/// Plays a day; the desk compares the engines' events after each command.
fn play(changes_max: u32, steps: &[DayEvent]) {
    let mut desk = desk(changes_max);
    for (number, step) in steps.iter().enumerate() {
        desk.clock += 1;
        match (request_of(*step, desk.clock, number), step) {
            (Some(request), _) => drop(desk.ask(request)),
            (None, DayEvent::Wait { nanos }) => desk.clock += nanos,
            (None, DayEvent::Restart) => desk.restart(),
            (None, DayEvent::Import { instrument: index, group }) => {
                let id = InstrumentId(INSTRUMENTS[*index]);
                let moved = DefineInstrument { group_id: GROUPS[*group], ..instrument(id, HERE) };
                drop(desk.import(Definition::DefineInstrument(moved)));
            }
            (None, _) if desk.engine.next_deadline().is_some() => drop(desk.apply(&Command::Tick)),
            (None, _) => {}
        }
    }
    for _ in 0..10_000 {
        if desk.engine.next_deadline().is_none() {
            return;
        }
        desk.clock += 1_000;
        desk.apply(&Command::Tick);
    }
    panic!("changes of many do not end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_agree_on_random_changes_of_many(
        changes_max in 1..4_u32,
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        play(changes_max, &steps);
    }
}

#[cfg(feature = "planted")]
#[test]
fn random_changes_find_the_planted_bugs_of_groups() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use weir_engine::plant::{Plant, set};
    for plant in [
        Plant::GroupChangeUnseen,
        Plant::SkippedUncounted,
        Plant::NewMemberTakesPart,
        Plant::SweepBeforeGroupChange,
        Plant::BudgetForEachPart,
        Plant::SnapshotForgetsChanged,
    ] {
        let mut runner = TestRunner::deterministic();
        let days = (1..4_u32, proptest::collection::vec(step(), 0..120));
        set(Some(plant));
        let found = (0..400).find(|_| {
            let (changes_max, steps) = days.new_tree(&mut runner).expect("a day").current();
            std::panic::catch_unwind(|| play(changes_max, &steps)).is_err()
        });
        set(None);
        println!("{plant:?} on day {found:?}");
        assert!(found.is_some(), "{plant:?}");
    }
}
