//! Random scripts through the fast and the naive engine: equal events, equal digests, invariants
//! after every command, snapshots restored on the way.

use proptest::prelude::*;
use weir_engine::EngineConfig;
use weir_engine::naive::{NaiveEngine, StepRule, TradingRule};
use weir_engine::script::{Duel, DuelSetting, Script, StepLimits, Tally, fuzz_commands};
use weir_types::{Nanos, PartitionId, Position};
use weir_wire::Command;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_say_the_same_of_any_script(
        data in proptest::collection::vec(any::<u8>(), 0..6_000),
    ) {
        fuzz_commands(&data);
    }
}

/// Returns bytes that look random and are the same everywhere.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut state: u64 = 7;
    for byte in &mut bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    bytes
}

/// Runs the same kinds of commands as the campaign `engine-oracle`, but fewer.
#[test]
fn both_engines_agree_on_a_long_script_that_trades() {
    let bytes = random_bytes(200_000);
    let setting = DuelSetting { partition_id: PartitionId(1), steps: StepLimits::SMALL };
    let (mut script, mut duel) = (Script::new(&bytes), Duel::new(setting));
    let mut count = 0;
    while !script.is_over() {
        let command = script.command();
        let told = duel.apply(script.now(), &command);
        assert_eq!(told, Ok(()), "{command:?}");
        script.hear(duel.events());
        count += 1;
        if count % 997 == 0 {
            duel.restore();
        }
    }
    let trades = duel.tally().of("order event", "Trade") / 2;
    let refusals = duel.tally().of("refused", "request");
    assert!(trades > count / 20, "{trades} trades in {count} commands test little");
    assert!(refusals < count * 3 / 4, "{refusals} refusals in {count} commands test little");
}

/// Returns the tally of a script that both engines play with these lengths of steps.
fn tally_of(steps: StepLimits, bytes: &[u8]) -> Tally {
    let setting = DuelSetting { partition_id: PartitionId(1), steps };
    let (mut script, mut duel) = (Script::new(bytes), Duel::new(setting));
    while !script.is_over() {
        let command = script.command();
        let told = duel.apply(script.now(), &command);
        assert_eq!(told, Ok(()), "{command:?} with {steps:?}");
        script.hear(duel.events());
    }
    duel.tally().clone()
}

/// A rule of steps that no script reaches is not tested, whatever the campaign's length.
#[test]
fn scripts_reach_every_rule_of_steps_and_turns() {
    let bytes = random_bytes(800_000);
    let mut tally = Tally::default();
    for (number, part) in (0..).zip(bytes.chunks(50_000)) {
        tally.merge(&tally_of(StepLimits::drawn(number), part));
    }
    let counts: Vec<_> =
        StepRule::ALL.iter().map(|rule| (rule, tally.of("step", &format!("{rule:?}")))).collect();
    assert!(counts.iter().all(|(_, count)| *count >= 3), "{counts:?}");
}

/// So with the rules of phases, halts, kills and references.
#[test]
fn scripts_reach_every_rule_of_trading() {
    let bytes = random_bytes(3_200_000);
    let mut tally = Tally::default();
    for (number, part) in (0..).zip(bytes.chunks(50_000)) {
        tally.merge(&tally_of(StepLimits::drawn(number), part));
    }
    let counts: Vec<_> = (TradingRule::ALL.iter())
        .map(|rule| (rule, tally.of("rule", &format!("{rule:?}"))))
        .collect();
    assert!(counts.iter().all(|(_, count)| *count >= 3), "{counts:?}");
}

/// Checks that ticks fire all due timers and end the sweeps.
fn assert_ticks_end_all(engine: &mut NaiveEngine, last: Position, now: Nanos) {
    let mut position = last;
    while engine.next_deadline().is_some_and(|at| at <= now) {
        position = position.next();
        engine.apply(position, now, &Command::Tick, &mut Vec::new());
        assert!(position.0 < last.0 + 1_000, "a timer that is due is left");
    }
}

/// Checks the naive engine's results: a generator that never reaches a rule, or is mostly refused,
/// would prove nothing.
#[test]
fn scripts_reach_every_rule_and_are_mostly_accepted() {
    let bytes = random_bytes(900_000);
    let mut script = Script::new(&bytes);
    let config = EngineConfig {
        orders_max: 64,
        orders_per_session_max: 20,
        orders_per_account_max: 22,
        orders_per_firm_max: 36,
        sweep_ends_max: 3,
        sweep_visits_max: 6,
        tick_changes_max: 2,
        sweeps_max: 2,
        ..EngineConfig::new(PartitionId(1))
    };
    let mut engine = NaiveEngine::new(config);
    let (mut tally, mut events, mut position) = (Tally::default(), Vec::new(), 0);
    while !script.is_over() && position < 30_000 {
        position += 1;
        events.clear();
        let command = script.command();
        engine.apply(Position(position), script.now(), &command, &mut events);
        script.hear(&events);
        tally.command(&command, &events);
        assert!(engine.totals().is_conserved(), "conserved after {command:?}");
    }
    assert_ticks_end_all(&mut engine, Position(position), script.now());
    assert!(script.now() > Nanos(0));
    for (group, kind, count) in tally.iter() {
        println!("{group}\t{kind}\t{count}");
    }
    let (accepted, refused) = (tally.of("accepted", "request"), tally.of("refused", "request"));
    assert!(accepted > refused * 2, "{accepted} accepted, {refused} refused");
    let reached = [
        ("entered type", &["Limit", "Market", "Stop", "StopLimit"][..]),
        ("entered time in force", &["Day", "Gtc", "Gtd", "Ioc", "Fok", "AtTheOpen", "AtTheClose"]),
        ("entered condition", &["Iceberg", "MinQty", "PostOnly"]),
        (
            "order event",
            &["New", "Trade", "Canceled", "Expired", "Replaced", "Restated", "Triggered"],
        ),
        ("trade", &["Auction Market", "Auction Limit", "Maker Limit", "Taker Market"]),
        ("phase", &["OpeningCall", "Continuous", "VolatilityCall", "ClosingCall", "Halted"]),
        ("event", &["TradeBusted", "Uncrossed with trades"]),
        (
            "reason",
            &[
                "VolatilityInterruption",
                "Throttled",
                "UnknownTrade",
                "CannotFill",
                "NoLiquidity",
                "WrongPhase",
                "SelfTrade",
                "WouldTakeLiquidity",
                "InsufficientCash",
                "InProgress",
                "TooManySessionOrders",
                "TooManyAccountOrders",
                "TooManyFirmOrders",
                "TooManyMassCancels",
                "InsufficientPosition",
            ],
        ),
    ];
    for (group, kinds) in reached {
        for kind in kinds {
            assert!(tally.of(group, kind) >= 3, "{group} {kind}: {}", tally.of(group, kind));
        }
    }
}
