//! Timers: expiries, ends of calls, the schedule; and their survival of a restart.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::{SchedulePhase, SessionLost};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

#[test]
fn an_order_expires_before_the_command_that_comes_later() {
    let mut desk = check(&[("sell a 100 5 gtd=5000", &["a New 5"])]);
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(5_000)));
    check_on(
        &mut desk,
        &[
            ("at 4999", &[]),
            ("bob buy x 100 1", &["x New 1", "a Trade 1@100 4", "x Trade 1@100 0"]),
            ("at 5000", &[]),
            ("bob buy y 100 1", &["a Expired None", "y New 1"]),
        ],
    );
    assert_eq!(desk.engine.next_deadline(), None);
}

#[test]
fn orders_expire_in_every_phase() {
    for phase in ["halted", "closed", "closing", "volatility"] {
        let mut desk = check(&[("sell a 100 5 gtd=5000", &["a New 5"]), ("at 5000", &[])]);
        desk.clock = 0;
        step(&mut desk, &format!("phase {phase}"));
        desk.clock = 5_000;
        assert_eq!(step(&mut desk, "tick"), ["a Expired None"], "{phase}");
    }
}

#[test]
fn what_is_due_happens_by_deadline_then_kind_then_number() {
    let mut desk = Desk::open();
    define(&mut desk, |d| {
        d.volatility_call = Nanos(1_000);
        (d.reference_price, d.static_collar) = (Price(100), 100);
    });
    check_on(
        &mut desk,
        &[
            ("at 4000", &[]),
            ("sell a 150 5 gtd=5000", &["a New 5"]),
            ("sell b 151 5 gtd=4500", &["b New 5"]),
            ("sell c 152 5 gtd=5000", &["c New 5"]),
            ("sell d 153 5", &["d New 5"]),
            ("schedule 5000 halted", &["done 1"]),
            ("schedule 4900 opening", &["done 1"]),
            ("bob buy x 160 1", &["x New 1", "phase VolatilityCall"]),
            ("at 9000", &[]),
            (
                "tick",
                &[
                    "b Expired None",
                    // The opening call is not legal at 4900, and is skipped.
                    "a Expired None",
                    "c Expired None",
                    "x Trade 1@153 0",
                    "d Trade 1@153 4",
                    "uncrossed 1@153 -4",
                    "phase Continuous",
                    "phase Halted",
                ],
            ),
        ],
    );
    assert_eq!(desk.engine.next_deadline(), None);
}

/// Returns a desk with small steps and orders of two instruments that expire together: `a` to `e`
/// and `r` and `s`. Their time has come.
fn desk_of_due_orders() -> Desk {
    let config = EngineConfig { tick_changes_max: 1, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config);
    desk.furnish();
    let (here, there) = (TULIP, ROSE);
    let names = ["a", "b", "r", "c", "d", "s", "e"];
    let places = [here, here, there, here, here, there, here];
    for (name, instrument_id) in names.into_iter().zip(places) {
        let order = NewOrder { instrument_id, expire_time: Nanos(5_000), ..buy(90, 1, name) };
        desk.order(NewOrder { time_in_force: TimeInForce::Gtd, ..order });
    }
    desk.clock = 6_000;
    desk
}

fn ends(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name} Expired None")).collect()
}

#[test]
fn what_is_due_in_other_instruments_than_a_commands_ends_in_parts() {
    let mut desk = desk_of_due_orders();
    let rose = NewOrder { instrument_id: ROSE, ..buy(80, 1, "x") };
    let before = [ends(&["a", "r", "s"]), vec!["x New 1".to_owned()]].concat();
    assert_eq!(told(&desk.order(rose)), before, "one of all, and its own instrument's");
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(5_000)), "a tick is due");
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let engine = Engine::restore(desk.engine.config().clone(), &bytes).unwrap();
    let mut other = Desk { engine, ..desk };
    for name in ["b", "c", "d", "e"] {
        assert_eq!(step(&mut other, "tick"), ends(&[name]));
    }
    assert_eq!(other.engine.next_deadline(), None);
}

#[test]
fn nothing_trades_in_an_instrument_after_its_time() {
    let mut desk = desk_of_due_orders();
    let told = step(&mut desk, "bob sell y 90 7");
    let before = ends(&["a", "b", "c", "d", "e"]);
    assert_eq!(told, [&before[..], &["y New 7".to_owned()]].concat());
    assert_eq!(step(&mut desk, "tick"), ends(&["r"]));
    assert_eq!(step(&mut desk, "tick"), ends(&["s"]));
}

/// A mass cancel or a loss may reach orders of all instruments.
#[test]
fn a_mass_cancel_and_a_loss_cancel_no_order_whose_time_has_come() {
    for is_loss in [false, true] {
        let mut desk = desk_of_due_orders();
        let told: Vec<Event> = if is_loss {
            let cancel_on_disconnect = Switch::On;
            desk.apply(&Command::SessionLost(SessionLost {
                session_id: ALICE,
                cancel_on_disconnect,
            }))
        } else {
            desk.ask(Request::MassCancel(MassCancel {
                request_no: RequestNo(0),
                cl_ord_id: name("all"),
                sending_time: Nanos(0),
                session_id: ALICE,
                instrument_id: InstrumentId(0),
                account_id: AccountId(0),
                firm_id: FirmId(0),
                partition_id: HERE,
                scope: MassCancelScope::Session,
            }))
        };
        let mut told: Vec<String> = told.iter().map(tell).collect();
        assert_eq!(told, ends(&["a", "b"]), "one by the timers before it, one by its step");
        for _ in 0..3 {
            told.extend(step(&mut desk, "tick"));
        }
        let expired = ends(&["a", "b", "r", "c", "d", "s", "e"]);
        let done = (!is_loss).then(|| "done 0".to_owned());
        assert_eq!(told, expired.into_iter().chain(done).collect::<Vec<_>>());
        assert_eq!(desk.engine.next_deadline(), None);
    }
}

/// A bust names no instrument, but the trade has one.
#[test]
fn a_bust_finds_nothing_due_in_the_instrument_of_its_trade() {
    let mut desk = desk_of_due_orders();
    desk.clock = 4_000;
    step(&mut desk, "bob sell y 90 1");
    desk.clock = 6_000;
    let told = step(&mut desk, "bust 1");
    let others = ends(&["b", "c", "d", "e"]);
    assert_eq!(told[..4], others, "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("done 2"));
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(5_000)), "two roses are left");
}

#[test]
fn closes_of_many_instruments_at_one_time_happen_in_parts() {
    let config = EngineConfig { tick_changes_max: 2, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config);
    desk.furnish();
    for instrument_id in [TULIP, ROSE] {
        for number in 1..=3 {
            let name = format!("{instrument_id}-{number}");
            let order = NewOrder { instrument_id, ..buy(90, 1, &name) };
            desk.order(NewOrder { time_in_force: TimeInForce::Day, ..order });
        }
        desk.ask(Request::SchedulePhase(weir_wire::reference::SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(5_000),
            session_id: OPERATOR,
            instrument_id,
            phase: Phase::Closed,
        }));
    }
    desk.clock = 6_000;
    let day_ends = |instrument_id: InstrumentId| {
        let ends = (1..=3).map(|number| format!("{instrument_id}-{number} Expired None"));
        std::iter::once("phase Closed".to_owned()).chain(ends).collect::<Vec<_>>()
    };
    assert_eq!(step(&mut desk, "tick"), day_ends(TULIP));
    let late = NewOrder { instrument_id: ROSE, ..buy(90, 1, "late") };
    assert_eq!(told(&desk.order(late)).last().unwrap(), "late Rejected WrongPhase");
    assert_eq!(desk.engine.next_deadline(), None);
}

#[test]
fn a_schedule_is_replaced_cleared_and_bounded_by_now() {
    let mut desk = check(&[
        ("schedule 1000 closed", &["refused FieldOutOfRange"]),
        ("schedule 5000 closed", &["done 1"]),
        ("schedule 5000 halted", &["done 1"]),
        ("schedule 6000 closed", &["done 1"]),
        ("schedule 0 closed", &["done 2"]),
        ("schedule 0 closed", &["done 0"]),
        ("schedule 5000 halted", &["done 1"]),
    ]);
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(5_000)));
    check_on(&mut desk, &[("at 7000", &[]), ("tick", &["phase Halted"]), ("tick", &[])]);
    let stranger = Request::SchedulePhase(weir_wire::reference::SchedulePhase {
        request_no: RequestNo(0),
        at: Nanos(9_000),
        session_id: ALICE,
        instrument_id: TULIP,
        phase: Phase::Closed,
    });
    assert_eq!(rejected_of(&desk.ask(stranger)[0]).reason, Reason::NotEntitled);
}

#[test]
fn ended_orders_leave_no_deadline_behind() {
    let mut desk = Desk::open();
    for at in 0..500_u64 {
        let mut order = sell(100 + at as i64, 1, "");
        order.cl_ord_id = ClOrdId::from_number(at);
        (order.time_in_force, order.expire_time) = (TimeInForce::Gtd, Nanos(10_000 + at));
        desk.order(order);
    }
    for at in 0..499_u64 {
        let cancel = weir_wire::order_entry::CancelOrder {
            orig_cl_ord_id: ClOrdId::from_number(at),
            ..cancel("")
        };
        desk.ask(Request::CancelOrder(cancel));
        assert_eq!(desk.engine.next_deadline(), Some(Nanos(10_001 + at)));
    }
    desk.order(bob(buy(1_000, 1, "x")));
    assert_eq!(desk.engine.next_deadline(), None);
}

/// Returns the instruments whose phase changed, in order.
fn changed(events: &[Event]) -> Vec<u32> {
    let changed = |event: &Event| match event {
        Event::Plain(PlainEvent::PhaseChanged(e)) => Some(e.instrument_id.0),
        _ => None,
    };
    events.iter().filter_map(changed).collect()
}

/// A change of phase looks at each order of its instrument, also where none ends: 64 of 16,000
/// orders each took a tick of 20 ms.
#[test]
fn a_tick_changes_the_phases_of_few_instruments_with_many_orders() {
    // Four looks count as a change, and a tick has two.
    let config = EngineConfig {
        sweep_ends_max: 2,
        sweep_visits_max: 8,
        tick_changes_max: 2,
        ..EngineConfig::new(HERE)
    };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    for (id, order_count) in [(200, 9), (201, 3), (202, 4), (203, 4), (204, 0), (205, 2)] {
        let instrument_id = InstrumentId(id);
        desk.import(Definition::DefineInstrument(instrument(instrument_id, HERE)));
        for number in 0..order_count {
            let name = format!("{id}-{number}");
            desk.order(NewOrder { instrument_id, ..buy(90 + number, 1, &name) });
        }
        desk.ask(Request::SchedulePhase(SchedulePhase {
            request_no: RequestNo(0),
            at: Nanos(5_000),
            session_id: OPERATOR,
            instrument_id,
            phase: Phase::Closed,
        }));
    }
    desk.clock = 5_000;
    assert_eq!(changed(&desk.apply(&Command::Tick)), [200]);
    assert_eq!(changed(&desk.apply(&Command::Tick)), [201, 202]);
    // A command finds its own instrument as its time wants it.
    let late = NewOrder { instrument_id: InstrumentId(205), ..buy(90, 1, "late") };
    let events = desk.ask(Request::NewOrder(late));
    assert_eq!(changed(&events), [203, 204, 205]);
    assert_eq!(told(&orders(&events)), ["late Rejected WrongPhase"]);
    assert_eq!(desk.engine.next_deadline(), None);
}

/// A call with all kinds of orders in it, deadlines to come and trades that can be busted.
const DAY: &[&str] = &[
    "sell a 100 9 show=2",
    "sell a2 100 3",
    "bob buy x 100 3",
    "buy s1 0 2 stop=105",
    "buy s2 110 2 stop=103",
    "bob sell s3 0 2 stop=90",
    "buy p1 0 1 close",
    "bob sell p2 99 3 close",
    "sell g1 104 2 gtd=8000",
    "buy g2 95 2 gtd=7000",
    "schedule 9000 closing",
    "schedule 9500 closed",
    "at 3000",
    "bob buy y 104 10",
    "bob buy m 0 4",
    "sell n 0 1",
    "sell big 106 50 show=7",
];

const AFTER: &[&str] = &[
    "bust 2",
    "bust 2",
    "bob replace y z 105 12",
    "at 7500",
    "tick",
    "phase halted",
    "phase continuous",
    "phase continuous override",
    "bob buy w 106 20",
    "cancel big",
    "at 9000",
    "tick",
    "buy late 120 1 close",
    "at 9600",
    "tick",
    "phase opening",
];

#[test]
fn a_snapshot_in_the_middle_of_a_call_goes_on_as_the_engine_that_it_came_from() {
    let furnished = || {
        let mut desk = Desk::open();
        define(&mut desk, |d| {
            (d.reference_price, d.static_collar) = (Price(100), 300);
            d.volatility_call = Nanos(5_000);
        });
        desk
    };
    let whole: Vec<&str> = DAY.iter().chain(AFTER).copied().collect();
    let mut straight = furnished();
    let want: Vec<_> = (whole.iter())
        .map(|text| (step(&mut straight, text), straight.engine.next_deadline()))
        .collect();
    let all: Vec<_> = want.iter().flat_map(|(told, _)| told).collect();
    for expected in ["phase VolatilityCall", "s2 Triggered None", "g2 Expired None", "done 2"] {
        assert!(all.iter().any(|told| *told == expected), "no {expected}: {all:#?}");
    }
    for at in 0..whole.len() {
        let mut desk = furnished();
        for text in &whole[..at] {
            step(&mut desk, text);
        }
        let mut bytes = Vec::new();
        desk.engine.snapshot(&mut bytes);
        let mut config = desk.engine.config().clone();
        config.hash_seed ^= 0x5555;
        desk.engine = Engine::restore(config, &bytes).expect("a snapshot reads back");
        let mut again = Vec::new();
        desk.engine.snapshot(&mut again);
        assert!(again == bytes, "at {at}");
        for (text, want) in whole[at..].iter().zip(&want[at..]) {
            let told = (step(&mut desk, text), desk.engine.next_deadline());
            assert_eq!(told, *want, "restored at {at}: {text}");
        }
        assert_eq!(desk.engine.digest(), straight.engine.digest());
    }
}

/// Plays the whole day to an engine in any state, with every request under an old and a new
/// number.
fn go_on(mut engine: Engine) {
    let mut events = Vec::new();
    for (round, text) in (1..).zip(DAY.iter().chain(AFTER)) {
        for request_no in [round, u64::MAX - 100 + round] {
            let command = match asked_in(text) {
                Some(request) => Command::Request(numbered(request, request_no)),
                None => Command::Tick,
            };
            let time = Nanos(engine.time().0.saturating_add(250));
            engine.apply(engine.position().next(), time, &command, &mut events);
        }
    }
}

#[test]
fn bytes_that_are_no_snapshot_are_refused_and_never_a_panic() {
    let mut desk = Desk::open();
    for text in DAY {
        step(&mut desk, text);
    }
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = desk.engine.config().clone();
    let body = bytes.len() - 4;
    // Every byte, and words of extreme values.
    for (at, word) in (0..body).flat_map(|at| [(at, 0x81), (at, 0), (at, u64::MAX)]) {
        let mut broken = bytes.clone();
        match word {
            0x81 => broken[at] ^= 0x81,
            word => {
                let end = body.min(at + 8);
                broken[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
        }
        let crc = crc32c::crc32c(&broken[..body]);
        broken[body..].copy_from_slice(&crc.to_le_bytes());
        // A change that only renames something may be accepted; the result must be sound, and keep
        // working.
        if let Ok(engine) = Engine::restore(config.clone(), &broken) {
            let mut again = Vec::new();
            engine.snapshot(&mut again);
            assert!(Engine::restore(config.clone(), &again).is_ok(), "byte {at}");
            if word != 0x81 || at % 3 == 0 {
                go_on(engine);
            }
        }
    }
}
