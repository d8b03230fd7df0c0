//! Busts: their effects and their refusals; and the throttle.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig, LimitError, SnapshotError};
use weir_types::*;
use weir_wire::{Command, Definition, Request};

#[test]
fn a_bust_returns_cash_and_lots_once_and_leaves_the_orders() {
    let mut desk = check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 3", &["x New 3", "a Trade 3@100 2", "x Trade 3@100 0"]),
    ]);
    let before = desk.engine.totals();
    let events = desk.ask(Request::BustTrade(weir_wire::reference::BustTrade {
        request_no: RequestNo(0),
        match_id: MatchId(1),
        session_id: OPERATOR,
        partition_id: HERE,
        force: Switch::Off,
    }));
    let sides: Vec<_> = events.iter().filter_map(weir_wire::Event::address).collect();
    assert_eq!(sides.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [BOB, ALICE, OPERATOR]);
    assert_eq!(desk.engine.totals(), before);
    check_on(
        &mut desk,
        &[
            ("bust 1", &["refused UnknownTrade"]),
            ("bust 2", &["refused UnknownTrade"]),
            ("bust 0", &["refused UnknownTrade"]),
            // All lots are back: Alice can sell a million minus the two on order.
            ("sell b 100 999998", &["b New 999998"]),
            ("sell c 100 1", &["c Rejected InsufficientPosition"]),
        ],
    );
    assert_eq!(desk.levels(Side::Sell), [(100, 1_000_000, 2)]);
}

#[test]
fn limits_with_more_trades_are_taken_and_refused_by_both_numbers_with_fewer() {
    let config = |trades_max| EngineConfig { trades_max, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config(3));
    desk.furnish();
    let trade = |desk: &mut Desk| {
        step(desk, "sell a 100 1");
        step(desk, "bob buy x 100 1");
    };
    for _ in 0..5 {
        trade(&mut desk);
    }
    let refused = LimitError::BelowHeld { limit: "trades", held: 3, configured: 2 };
    assert_eq!(desk.engine.check_limits(&config(2).limits()), Err(refused));
    desk.apply(&Command::SetLimits(config(5).limits().to_command()));
    assert_eq!(desk.engine.limits(), config(5).limits());
    desk.restart();
    for _ in 0..3 {
        trade(&mut desk);
    }
    // Eight trades, of which the last five are retained: none of the dropped ones comes back.
    check_on(
        &mut desk,
        &[
            ("bust 2", &["refused TradeTooOld"]),
            ("bust 3", &["refused TradeTooOld"]),
            ("bust 4", &["busted Buy 1@100", "busted Sell 1@100", "done 2"]),
            ("bust 8", &["busted Buy 1@100", "busted Sell 1@100", "done 2"]),
            ("bust 9", &["refused UnknownTrade"]),
        ],
    );
}

#[test]
fn a_snapshot_with_more_answers_than_may_be_remembered_is_refused_by_both_numbers() {
    let config = |outcomes_max| EngineConfig { outcomes_max, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config(8));
    desk.furnish();
    for text in ["buy a 90 1", "buy b 90 1", "buy c 90 1"] {
        step(&mut desk, text);
    }
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let want = SnapshotError::LimitReached { what: "remembered answers", held: 3, allowed: 2 };
    assert_eq!(Engine::restore(config(2), &bytes).err(), Some(want));
    assert!(Engine::restore(config(9), &bytes).is_ok());
}

#[test]
fn the_buyers_event_comes_first_whoever_was_taker() {
    check(&[
        ("buy a 100 5", &["a New 5"]),
        ("bob sell x 100 3", &["x New 3", "a Trade 3@100 2", "x Trade 3@100 0"]),
        ("bust 1", &["busted Buy 3@100", "busted Sell 3@100", "references none none", "done 2"]),
    ]);
}

#[test]
fn a_bust_needs_the_lots_and_then_the_cash_to_be_free() {
    let mut desk = Desk::open();
    desk.ask(Request::Transfer(transfer(POOR, 1, 300, 0)));
    check_on(
        &mut desk,
        &[
            ("bob sell a 100 3", &["a New 3"]),
            ("buy x 100 3 poor", &["x New 3", "a Trade 3@100 0", "x Trade 3@100 0"]),
            ("sell y 200 1 poor", &["y New 1"]),
            ("bust 1", &["refused InsufficientPosition"]),
            ("cancel y", &["y Canceled None"]),
            ("bob buy b 200 4999999", &["b Rejected InvalidQty"]),
            (
                "bust 1",
                &["busted Buy 3@100", "busted Sell 3@100", "references none none", "done 2"],
            ),
            ("bob buy c 10 3", &["c New 3"]),
        ],
    );
    let mut desk = Desk::open();
    desk.ask(Request::Transfer(transfer(POOR, 1, 0, 3)));
    check_on(
        &mut desk,
        &[
            ("bob buy a 100 3", &["a New 3"]),
            ("sell x 100 3 poor", &["x New 3", "a Trade 3@100 0", "x Trade 3@100 0"]),
            ("buy y 50 1 poor", &["y New 1"]),
            ("bust 1", &["refused InsufficientCash"]),
            ("cancel y", &["y Canceled None"]),
            (
                "bust 1",
                &["busted Buy 3@100", "busted Sell 3@100", "references none none", "done 2"],
            ),
        ],
    );
}

#[test]
fn only_the_last_trades_can_be_busted() {
    let config = EngineConfig {
        trades_max: 3,
        accounts_max: 1 << 6,
        positions_max: 1 << 6,
        orders_max: 64,
        ..EngineConfig::new(HERE)
    };
    let mut desk = Desk::with_config(config.clone());
    desk.furnish();
    step(&mut desk, "sell a 100 50");
    for _ in 0..5 {
        step(&mut desk, "bob buy x 100 1");
    }
    check_on(&mut desk, &[("bust 2", &["refused TradeTooOld"])]);
    check_on(&mut desk, &[("bust 4", &["busted Buy 1@100", "busted Sell 1@100", "done 2"])]);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    desk.engine = weir_engine::Engine::restore(config, &bytes).expect("it reads back");
    check_on(
        &mut desk,
        &[
            ("bust 2", &["refused TradeTooOld"]),
            ("bust 4", &["refused UnknownTrade"]),
            ("bust 3", &["busted Buy 1@100", "busted Sell 1@100", "done 2"]),
            ("bob buy x 100 1", &["x New 1", "a Trade 1@100 44", "x Trade 1@100 0"]),
            ("bust 3", &["refused TradeTooOld"]),
            ("bust 6", &["busted Buy 1@100", "busted Sell 1@100", "done 2"]),
        ],
    );
}

#[test]
fn only_operators_bust_and_only_here() {
    let mut desk = Desk::open();
    let bust = |session_id, partition_id| {
        Request::BustTrade(weir_wire::reference::BustTrade {
            request_no: RequestNo(0),
            match_id: MatchId(1),
            session_id,
            partition_id,
            force: Switch::Off,
        })
    };
    assert_eq!(rejected_of(&desk.ask(bust(ALICE, HERE))[0]).reason, Reason::NotEntitled);
    let far = PartitionId(2);
    assert_eq!(rejected_of(&desk.ask(bust(OPERATOR, far))[0]).reason, Reason::WrongPartition);
}

#[test]
fn a_session_sends_no_more_than_its_rate_lets_it() {
    let mut desk = Desk::open();
    let Definition::DefineSession(mut alice) = session(ALICE, 1, Role::Trader) else {
        unreachable!("a session was asked for")
    };
    alice.order_rate_max = 2;
    desk.import(Definition::DefineSession(alice));
    check_on(
        &mut desk,
        &[
            ("at 1000000000", &[]),
            ("sell a 100 5", &["a New 5"]),
            ("replace nobody b 100 5", &["refused UnknownOrder"]),
            ("replace a b 101 5", &["b Replaced 5"]),
            ("sell c 100 5", &["c Rejected Throttled"]),
            ("replace b c 101 5", &["refused Throttled"]),
            ("cancel b", &["b Canceled None"]),
            ("bob sell x 100 5", &["x New 5"]),
            ("at 1499999999", &[]),
            ("sell c 100 5", &["c Rejected Throttled"]),
            ("at 1500000000", &[]),
            ("sell c 100 0", &["c Rejected InvalidQty"]),
            ("sell c 100 5", &["c Rejected Throttled"]),
        ],
    );
    alice.order_rate_max = 0;
    desk.import(Definition::DefineSession(alice));
    check_on(&mut desk, &[("sell c 100 5", &["c New 5"])]);
}
