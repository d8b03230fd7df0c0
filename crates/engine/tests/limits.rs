//! Limits that a command sets: both engines take the same ones, at their position and whole.

mod support;

use proptest::prelude::*;
use support::steps::*;
use support::*;
use weir_engine::naive::NaiveEngine;
use weir_engine::script::Script;
use weir_engine::{Engine, EngineConfig, EngineLimits, LimitError, Memory};
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::ChangePhases;
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

fn set(limits: EngineLimits) -> Command {
    Command::SetLimits(limits.to_command())
}

fn small(limits: EngineLimits) -> EngineConfig {
    EngineConfig {
        orders_per_session_max: 20,
        orders_per_account_max: 22,
        orders_per_firm_max: 36,
        checkpoint_interval: 64,
        ..EngineConfig::new(HERE).with_limits(limits)
    }
}

fn restored(engine: &Engine) -> Engine {
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    // The snapshot's limits count, not these, and no layout of rows in memory.
    let config = EngineConfig { hash_seed: 99, ..small(WIDE) };
    Engine::restore(config, &bytes).expect("a snapshot reads back")
}

/// Limits that no script reaches.
const WIDE: EngineLimits = EngineLimits {
    accounts_max: 100,
    sessions_max: 100,
    firms_max: 100,
    instruments_max: 100,
    orders_max: 1_000,
    positions_max: 1_000,
    trades_max: 1_000,
};

type Timed = (Nanos, Command);

/// Returns a script's commands without those that set limits, as an engine with `limits` would hear
/// them.
fn commands_of(bytes: &[u8], limits: EngineLimits) -> Vec<Timed> {
    let (mut script, mut engine) = (Script::new(bytes), Engine::new(small(limits)));
    let (mut commands, mut events) = (Vec::new(), Vec::new());
    while !script.is_over() && commands.len() < 2_000 {
        let command = script.command();
        if matches!(command, Command::SetLimits(_)) {
            continue;
        }
        events.clear();
        engine.apply(engine.position().next(), script.now(), &command, &mut events);
        script.hear(&events);
        commands.push((script.now(), command));
    }
    commands
}

fn applied(engine: &mut Engine, (time, command): &Timed) -> Vec<Event> {
    let mut events = Vec::new();
    engine.apply(engine.position().next(), *time, command, &mut events);
    events
}

/// Returns the last number of commands, at most `count_max`, behind which an engine with wide
/// limits has said the same as one with `limits` and can take those.
fn last_before_a_limit(commands: &[Timed], limits: EngineLimits, count_max: usize) -> usize {
    let (mut narrow, mut wide) = (Engine::new(small(limits)), Engine::new(small(WIDE)));
    let mut last = 0;
    for (count, command) in (1..=count_max).zip(commands) {
        if applied(&mut narrow, command) != applied(&mut wide, command) {
            break;
        }
        if wide.check_limits(&limits).is_ok() && narrow.digest() == wide.digest() {
            last = count;
        }
    }
    last
}

fn any_limits() -> impl Strategy<Value = EngineLimits> {
    (7..12_u32, 8..12_u32, 2..5_u32, 3..6_u32, 6..64_u32, 8..30_u32, 4..64_u32).prop_map(|drawn| {
        let (accounts_max, sessions_max, firms_max, instruments_max, orders_max, .., trades_max) =
            drawn;
        EngineLimits {
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            orders_max,
            positions_max: drawn.5,
            trades_max,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn limits_set_on_the_way_are_those_from_the_start(
        bytes in proptest::collection::vec(any::<u8>(), 3_000..20_000),
        limits in any_limits(),
        most in 25_usize..600,
        is_restored in any::<[bool; 2]>(),
    ) {
        let mut commands = commands_of(&bytes, limits);
        let at = last_before_a_limit(&commands, limits, most);
        let time = if at == 0 { Nanos(0) } else { commands[at - 1].0 };
        commands.insert(at, (time, set(limits)));
        let mut early = Engine::new(small(limits));
        let mut late = Engine::new(small(WIDE));
        let mut naive = NaiveEngine::new(small(WIDE));
        for (index, command) in commands.iter().enumerate() {
            if index == at && is_restored[0] {
                late = restored(&late);
            }
            let events = applied(&mut early, command);
            prop_assert_eq!(&events, &applied(&mut late, command), "at {}", index);
            let mut of_naive = Vec::new();
            naive.apply(late.position(), command.0, &command.1, &mut of_naive);
            prop_assert_eq!(&events, &of_naive, "naive at {}", index);
            if index == at && is_restored[1] {
                late = restored(&late);
            }
            if index >= at {
                prop_assert_eq!(late.limits(), limits);
                prop_assert_eq!(early.digest(), late.digest());
                prop_assert_eq!(early.digest(), naive.digest());
            }
        }
        prop_assert!(late.totals().is_conserved());
        prop_assert_eq!(early.retained_trades(), late.retained_trades());
    }
}

fn twins(limits: EngineLimits) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        checkpoint_interval: 64,
        ..EngineConfig::new(HERE).with_limits(limits)
    });
    desk.furnish();
    desk
}

/// A row of the slab may lie behind the new number of rows.
#[test]
fn a_lower_limit_of_orders_keeps_the_last_of_many_and_their_priority() {
    let mut desk = twins(EngineLimits { orders_max: 1 << 12, ..WIDE });
    for number in 0..200 {
        step(&mut desk, &format!("buy n{number} 90 1"));
    }
    for number in 0..190 {
        desk.cancel(&format!("n{number}"));
    }
    let ids = desk.engine.orders_at(TULIP, Side::Buy, Price(90));
    assert_eq!(ids.len(), 10);
    let limits = EngineLimits { orders_max: 12, ..desk.engine.limits() };
    assert_eq!(desk.apply(&set(limits)), []);
    assert_eq!(desk.engine.orders_at(TULIP, Side::Buy, Price(90)), ids);
    check_on(
        &mut desk,
        &[
            ("buy x 90 1", &["x New 1"]),
            ("buy y 90 1", &["y New 1"]),
            ("buy z 90 1", &["z Rejected LimitReached"]),
        ],
    );
    desk.cancel("x");
    let told = ["s New 1", "n190 Trade 1@90 0", "s Trade 1@90 0"];
    check_on(&mut desk, &[("bob sell s 90 1", &told)]);
    assert_eq!(desk.apply(&set(EngineLimits { orders_max: 1 << 14, ..limits })), []);
    step(&mut desk, "buy z 90 1");
    assert_eq!(desk.engine.live_order_count(), 11);
}

#[test]
fn a_higher_limit_lets_in_the_definitions_that_a_lower_one_refused() {
    let mut desk = twins(EngineLimits { accounts_max: 4, ..WIDE });
    let more = Definition::DefineAccount(match account(AccountId(77), 1, Switch::Off) {
        Definition::DefineAccount(d) => d,
        _ => unreachable!("it is an account"),
    });
    desk.import(more);
    assert_eq!(desk.engine.refused_import_count(), 1);
    desk.apply(&set(EngineLimits { accounts_max: 5, ..desk.engine.limits() }));
    desk.import(more);
    assert_eq!((desk.engine.refused_import_count(), desk.engine.held().accounts_max), (1, 5));
}

#[test]
fn limits_below_what_is_held_are_refused_by_name_and_change_nothing() {
    let mut desk = twins(WIDE);
    for text in ["sell a 100 3", "bob buy x 100 1", "bob buy y 99 1"] {
        step(&mut desk, text);
    }
    let held = desk.engine.held();
    let all = [held.accounts_max, held.sessions_max, held.firms_max, held.instruments_max];
    assert_eq!(all, [4, 6, 2, 3]);
    assert_eq!((held.orders_max, held.positions_max, held.trades_max), (2, 2, 1));
    let set_one: [fn(&mut EngineLimits, u32); 7] = [
        |of, limit| of.accounts_max = limit,
        |of, limit| of.sessions_max = limit,
        |of, limit| of.firms_max = limit,
        |of, limit| of.instruments_max = limit,
        |of, limit| of.orders_max = limit,
        |of, limit| of.positions_max = limit,
        |of, limit| of.trades_max = limit,
    ];
    for ((name, count), set_one) in held.named().into_iter().zip(set_one) {
        let mut limits = WIDE;
        set_one(&mut limits, count - 1);
        let refused = desk.engine.check_limits(&limits);
        let expected = match count {
            1 => LimitError::OutOfRange { limit: name, configured: 0, max: 1 << 24 },
            _ => LimitError::BelowHeld { limit: name, held: count, configured: count - 1 },
        };
        assert_eq!(refused, Err(expected), "{name}");
        let before = desk.engine.held();
        assert_eq!(desk.apply(&set(limits)), [], "{name}");
        assert_eq!((desk.engine.limits(), desk.engine.held()), (WIDE, before), "{name}");
    }
    let text = desk.engine.check_limits(&EngineLimits { orders_max: 1, ..WIDE });
    let text = text.expect_err("two are live").to_string();
    assert_eq!(text, "the limit of orders is 1, and 2 are held");
    // All as they are held, and no more.
    desk.apply(&set(held));
    assert_eq!(desk.engine.limits(), held);
    check_on(&mut desk, &[("buy z 90 1", &["z Rejected LimitReached"])]);
}

/// A start checks the limits against the state behind the last command. A timer in between could
/// trade.
#[test]
fn no_timer_fires_before_new_limits() {
    let mut desk = twins(WIDE);
    let expiring =
        NewOrder { time_in_force: TimeInForce::Gtd, expire_time: Nanos(50_000), ..buy(90, 1, "a") };
    desk.order(expiring);
    desk.clock = 60_000;
    assert_eq!(desk.apply(&set(EngineLimits { orders_max: 7, ..WIDE })), []);
    assert_eq!(desk.engine.live_order_count(), 1);
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(50_000)));
    assert_eq!(told(&orders(&desk.apply(&Command::Tick))), ["a Expired None"]);
}

/// The trades of which only the price counts stay in their rows until a later one drops them.
#[test]
fn trades_too_old_for_a_bust_make_room_for_a_lower_limit_and_leave_their_prices() {
    let config =
        EngineConfig { trades_span: Nanos(1_000), ..EngineConfig::new(HERE).with_limits(WIDE) };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    desk.clock = 10_000;
    for price in 100..110 {
        step(&mut desk, &format!("sell m{price} {price} 1"));
        step(&mut desk, &format!("bob buy t{price} {price} 1"));
    }
    let limits = EngineLimits { trades_max: 2, ..WIDE };
    let refused = LimitError::BelowHeld { limit: "trades", held: 10, configured: 2 };
    assert_eq!(desk.engine.check_limits(&limits), Err(refused));
    desk.clock = 20_000;
    desk.apply(&set(limits));
    assert_eq!(desk.engine.limits(), limits);
    step(&mut desk, "sell m 200 1");
    step(&mut desk, "bob buy t 200 1");
    let told = ["busted Buy 1@200", "busted Sell 1@200", "references 109 none", "done 2"];
    check_on(&mut desk, &[("bust 10", &["refused TradeTooOld"]), ("bust 11", &told)]);
}

#[test]
fn a_checkpoint_due_behind_new_limits_is_said_there_and_the_next_in_its_place() {
    let mut desk = twins(WIDE);
    while desk.position < 63 {
        desk.apply(&Command::Tick);
    }
    let is_checkpoint =
        |events: &[Event]| matches!(events, [Event::Plain(PlainEvent::Checkpoint(_))]);
    assert!(is_checkpoint(&desk.apply(&set(EngineLimits { orders_max: 7, ..WIDE }))));
    while desk.position < 127 {
        assert_eq!(desk.apply(&Command::Tick), []);
    }
    assert!(is_checkpoint(&desk.apply(&Command::Tick)));
}

#[test]
fn a_snapshot_carries_the_limits_and_no_configuration_changes_them() {
    let mut desk = twins(WIDE);
    let limits = EngineLimits { orders_max: 3, accounts_max: 1 << 10, ..WIDE };
    desk.apply(&set(limits));
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    assert_eq!(Engine::limits_in(&bytes), Some(limits));
    assert_eq!(Engine::limits_in(&bytes[..20]), None);
    for config in [small(WIDE), EngineConfig::new(HERE), small(limits)] {
        let again = Engine::restore(config, &bytes).expect("it is read");
        assert_eq!(again.limits(), limits);
        assert_eq!(again.state_hash(), desk.engine.state_hash());
    }
}

/// A start tells the memory of a snapshot by these figures; a position is counted twice.
#[test]
fn the_rows_of_a_snapshot_take_the_bytes_that_are_told_for_them() {
    let mut desk = twins(WIDE);
    let bytes_of = |desk: &Desk| {
        let mut bytes = Vec::new();
        desk.engine.snapshot(&mut bytes);
        bytes.len() as u64
    };
    let mut grows = |change: &mut dyn FnMut(&mut Desk)| {
        let before = bytes_of(&desk);
        change(&mut desk);
        bytes_of(&desk) - before
    };
    let told = |change: fn(&mut EngineLimits) -> &mut u32| {
        let mut more = WIDE;
        *change(&mut more) += 1;
        more.snapshot_bytes() - WIDE.snapshot_bytes()
    };
    let accounts = grows(&mut |desk| drop(desk.import(account(AccountId(77), 1, Switch::Off))));
    assert_eq!(told(|of| &mut of.accounts_max), accounts);
    let sessions = grows(&mut |desk| drop(desk.import(session(SessionId(77), 1, Role::Trader))));
    assert_eq!(told(|of| &mut of.sessions_max), sessions);
    assert_eq!(told(|of| &mut of.firms_max), grows(&mut |desk| drop(desk.import(firm(77)))));
    let more = Definition::DefineInstrument(instrument(InstrumentId(77), HERE));
    let instruments = grows(&mut |desk| drop(desk.import(more)));
    let most = told(|of| &mut of.instruments_max);
    assert!((instruments..instruments + 128).contains(&most), "{instruments} of {most}");
    // An order with its answer and its position, then one with its answer, and the same again.
    let first = grows(&mut |desk| drop(step(desk, "buy a 90 1")));
    let order = grows(&mut |desk| drop(step(desk, "buy b 90 1")));
    let cancelled = grows(&mut |desk| drop(desk.cancel("nothing")));
    assert!(first >= order && order > cancelled);
    let position = 32;
    assert_eq!(told(|of| &mut of.positions_max), 2 * position);
    assert_eq!(told(|of| &mut of.orders_max), 106);
    assert_eq!(told(|of| &mut of.trades_max), 62);
}

/// Trades that have become too old since the last command make room for the next one's limits.
#[test]
fn limits_are_compared_with_the_rows_that_are_held_when_they_will_hold() {
    let config =
        EngineConfig { trades_span: Nanos(1_000), ..EngineConfig::new(HERE).with_limits(WIDE) };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    desk.clock = 10_000;
    for price in 100..105 {
        step(&mut desk, &format!("sell m{price} {price} 1"));
        step(&mut desk, &format!("bob buy t{price} {price} 1"));
    }
    let limits = EngineLimits { trades_max: 2, ..WIDE };
    let last = desk.engine.time();
    let refused = LimitError::BelowHeld { limit: "trades", held: 5, configured: 2 };
    assert_eq!(desk.engine.check_limits(&limits), Err(refused));
    assert_eq!(desk.engine.check_limits_at(&limits, Nanos(last.0 + 1_000)), Err(refused));
    assert_eq!(desk.engine.check_limits_at(&limits, Nanos(last.0 + 1_001)), Ok(()));
    desk.clock = last.0 + 1_001;
    desk.apply(&set(limits));
    assert_eq!(desk.engine.limits(), limits);
}

/// The tables that a change makes anew take their memory ahead too, and hold the same.
#[test]
fn tables_made_anew_with_memory_ahead_hold_the_same_rows() {
    let ahead = EngineConfig { memory: Memory::Ahead, ..EngineConfig::new(HERE).with_limits(WIDE) };
    let mut desks = [Desk::with_twin(ahead), twins(WIDE)];
    desks[0].furnish();
    desks[1].engine.set_memory(Memory::Ahead);
    for desk in &mut desks {
        for text in ["sell a 100 3", "bob buy x 100 1", "bob buy y 99 1"] {
            step(desk, text);
        }
        // Large enough for whole pages.
        let limits = EngineLimits { orders_max: 1 << 16, positions_max: 1 << 16, ..WIDE };
        desk.apply(&set(limits));
        assert_eq!(desk.engine.limits(), limits);
        assert_eq!(desk.engine.config().memory, Memory::Ahead);
        desk.engine.take_memory();
        check_on(desk, &[("bob buy z 100 2", &["z New 2", "a Trade 2@100 0", "z Trade 2@100 0"])]);
        step(desk, "bust 1");
    }
    let [one, other] = desks.map(|desk| desk.engine.state_hash());
    assert_eq!(one, other);
}

/// A mass cancel and a change of a group that have begun go on behind new limits.
#[test]
fn a_sweep_and_a_change_of_a_group_go_on_behind_new_limits() {
    let config = EngineConfig {
        sweep_ends_max: 2,
        tick_changes_max: 1,
        ..EngineConfig::new(HERE).with_limits(EngineLimits { orders_max: 100, ..WIDE })
    };
    let mass_cancel = MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id: BOB,
        instrument_id: InstrumentId(0),
        account_id: OTHER,
        firm_id: FirmId(0),
        partition_id: HERE,
        scope: MassCancelScope::Session,
    };
    let change = ChangePhases {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        group_id: GroupId::NONE,
        partition_id: HERE,
        phase: Phase::Halted,
        resumes: Switch::Off,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    };
    for request in [Request::MassCancel(mass_cancel), Request::ChangePhases(change)] {
        let play = |limits: Option<EngineLimits>| {
            let mut desk = Desk::with_twin(config.clone());
            desk.furnish();
            for number in 0..12 {
                step(&mut desk, &format!("bob buy n{number} 90 1"));
            }
            let mut said: Vec<_> = desk.ask(request).iter().map(tell).collect();
            let live = desk.engine.live_order_count();
            if let Some(limits) = limits {
                assert_eq!(desk.apply(&set(limits)), []);
                assert_eq!(desk.engine.limits(), limits);
                assert_eq!(desk.engine.live_order_count(), live);
                desk.restart();
            }
            for _ in 0..20 {
                said.extend(desk.apply(&Command::Tick).iter().map(tell));
            }
            (said, desk.engine.live_order_count())
        };
        let plain = play(None);
        assert!(plain.0.len() > 2, "{request:?}: {:?}", plain.0);
        assert_eq!(play(Some(EngineLimits { orders_max: 1 << 12, ..WIDE })), plain, "{request:?}");
        assert_eq!(play(Some(EngineLimits { orders_max: 12, ..WIDE })), plain, "{request:?}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_of_limits_are_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (
            Plant::SnapshotForgetsLimits,
            a_snapshot_carries_the_limits_and_no_configuration_changes_them,
        ),
        (Plant::LimitsBelowHeld, limits_below_what_is_held_are_refused_by_name_and_change_nothing),
        (Plant::LimitsAfterTimers, no_timer_fires_before_new_limits),
        (
            Plant::LimitsForgetCheckpoint,
            a_checkpoint_due_behind_new_limits_is_said_there_and_the_next_in_its_place,
        ),
    ]);
    // Random scripts reach two of them.
    for plant in [Plant::LimitsAfterTimers, Plant::LimitsForgetCheckpoint] {
        assert!(commands_until_a_difference(plant).is_some(), "{plant:?}");
    }
}
