//! Forced busts: the debts that they leave, the events that tell them, and the orders that an
//! account in debt may not enter. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Debt, EngineConfig};
use weir_types::*;
use weir_wire::{Event, PlainEvent, Request};

fn twins_with(positions_max: u32) -> Desk {
    let config = EngineConfig { positions_max, accounts_max: 1 << 6, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    desk
}

fn twins() -> Desk {
    twins_with(1 << 6)
}

fn debts(desk: &Desk) -> Vec<Debt> {
    desk.engine.debts().collect()
}

fn debt_of_poor(instrument_id: InstrumentId, amount: u128) -> [Debt; 1] {
    [Debt { account_id: POOR, instrument_id, amount }]
}

fn move_into_poor(desk: &mut Desk, id: u64, cash: i128, lots: i64) -> Result<(), Reason> {
    let events = desk.ask(Request::Transfer(transfer(POOR, id, cash, lots)));
    match &events[..] {
        [Event::Plain(PlainEvent::RequestDone(_))] => Ok(()),
        [event] => Err(rejected_of(event).reason),
        other => panic!("{other:?}"),
    }
}

/// Returns a desk whose poor account has sold three lots at 100 and no longer has 250 of the cash.
fn spent() -> Desk {
    let mut desk = twins();
    move_into_poor(&mut desk, 1, 0, 3).expect("lots come in");
    step(&mut desk, "bob buy a 100 3");
    step(&mut desk, "sell x 100 3 poor");
    move_into_poor(&mut desk, 2, -250, 0).expect("cash goes out");
    desk
}

#[test]
fn a_forced_bust_of_lots_that_were_sold_leaves_a_debt_and_tells_it() {
    let mut desk = twins();
    move_into_poor(&mut desk, 1, 300, 0).unwrap();
    for text in ["bob sell a 100 3", "buy x 100 3 poor", "bob buy b 50 3", "sell y 50 3 poor"] {
        step(&mut desk, text);
    }
    let told = ["busted Buy 3@100 owes 3 lots", "busted Sell 3@100", "done 2"];
    check_on(&mut desk, &[("bust 1", &["refused InsufficientPosition"]), ("bust 1 force", &told)]);
    assert_eq!(debts(&desk), debt_of_poor(TULIP, 3));
    assert_eq!(desk.engine.debtor_count(), 1);
    check_on(
        &mut desk,
        &[
            ("sell z 60 1 poor", &["z Rejected InsufficientPosition"]),
            ("buy c 10 1 poor", &["c New 1"]),
            ("cancel c", &["c Canceled None"]),
            ("bob sell d 70 4", &["d New 4"]),
            ("buy e 70 2 poor", &["e New 2", "d Trade 2@70 2", "e Trade 2@70 0"]),
        ],
    );
    assert_eq!(debts(&desk), debt_of_poor(TULIP, 1), "bought back in part");
    step(&mut desk, "buy f 70 2 poor");
    assert_eq!((debts(&desk), desk.engine.debtor_count()), (Vec::new(), 0));
    check_on(&mut desk, &[("sell z 60 1 poor", &["z New 1"])]);
}

#[test]
fn an_account_in_debt_reserves_no_cash_until_it_is_paid() {
    let mut desk = spent();
    check_on(
        &mut desk,
        &[
            ("bust 1", &["refused InsufficientCash"]),
            (
                "bust 1 force",
                &[
                    "busted Buy 3@100",
                    "busted Sell 3@100 owes 250",
                    "references none none",
                    "done 2",
                ],
            ),
            ("buy y 1 1 poor", &["y Rejected InsufficientCash"]),
            ("bob sell s 10 1", &["s New 1"]),
            ("buy m 0 1 poor", &["m New 1", "m Canceled InsufficientCash"]),
            ("sell z 80 2 poor", &["z New 2"]),
        ],
    );
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 250));
    assert_eq!(move_into_poor(&mut desk, 3, -1, 0), Err(Reason::InsufficientCash));
    // A sale pays, and a deposit.
    check_on(
        &mut desk,
        &[
            ("bob cancel s", &["s Canceled None"]),
            ("bob buy b 80 2", &["b New 2", "z Trade 2@80 0", "b Trade 2@80 0"]),
        ],
    );
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 90));
    move_into_poor(&mut desk, 4, 89, 0).unwrap();
    check_on(&mut desk, &[("buy y 1 1 poor", &["y Rejected InsufficientCash"])]);
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 1));
    move_into_poor(&mut desk, 5, 2, 0).unwrap();
    assert!(debts(&desk).is_empty());
    check_on(&mut desk, &[("buy y 1 1 poor", &["y New 1"])]);
}

#[test]
fn orders_from_before_a_forced_bust_stay_and_their_end_pays() {
    let mut desk = twins();
    move_into_poor(&mut desk, 1, 0, 3).unwrap();
    for text in ["bob buy a 100 3", "sell x 100 3 poor", "buy y 50 4 poor"] {
        step(&mut desk, text);
    }
    check_on(
        &mut desk,
        &[
            ("bust 1", &["refused InsufficientCash"]),
            (
                "bust 1 force",
                &[
                    "busted Buy 3@100",
                    "busted Sell 3@100 owes 200",
                    "references none none",
                    "done 2",
                ],
            ),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(50, 4, 1)]);
    check_on(
        &mut desk,
        &[
            ("replace y y2 60 4", &["refused InsufficientCash"]),
            ("replace y y2 50 3", &["y2 Replaced 3"]),
        ],
    );
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 150));
    // It trades with what was reserved, so that the debt stays.
    check_on(&mut desk, &[("bob sell s 50 1", &["s New 1", "y2 Trade 1@50 2", "s Trade 1@50 0"])]);
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 150));
    step(&mut desk, "cancel y2");
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 50));
}

#[test]
fn every_other_refusal_of_a_bust_stays_with_force() {
    let mut desk = twins_with(3);
    move_into_poor(&mut desk, 1, 100, 0).unwrap();
    for text in [
        "bob sell a 100 1",
        "buy x 100 1 poor",
        "bob buy b 90 1",
        "sell y 90 1 poor",
        // The third position, of three.
        "buy m 50 1 maker",
    ] {
        step(&mut desk, text);
    }
    let told = ["busted Buy 1@100 owes 1 lots", "busted Sell 1@100", "done 2"];
    check_on(
        &mut desk,
        &[
            ("bust 9 force", &["refused UnknownTrade"]),
            ("bust 1 force", &["refused LimitReached"]),
            ("cancel m", &["m Canceled None"]),
            ("bust 1 force", &told),
            ("bust 1 force", &["refused UnknownTrade"]),
        ],
    );
    let force = |session_id| {
        Request::BustTrade(weir_wire::reference::BustTrade {
            request_no: RequestNo(0),
            match_id: MatchId(2),
            session_id,
            partition_id: HERE,
            force: Switch::On,
        })
    };
    assert_eq!(rejected_of(&desk.ask(force(ALICE))[0]).reason, Reason::NotEntitled);
}

/// The naive engine compared each side alone with the limit of positions, and went beyond it.
#[test]
fn a_bust_that_needs_two_positions_is_refused_where_one_is_free() {
    let mut desk = twins_with(4);
    move_into_poor(&mut desk, 1, 300, 0).unwrap();
    for text in ["sell a 100 3 maker", "buy x 100 3 poor", "buy b 50 3 maker", "sell y 50 3 poor"] {
        step(&mut desk, text);
    }
    assert_eq!(desk.engine.open_position_count(), 2, "neither side has lots");
    let order = weir_wire::order_entry::NewOrder { instrument_id: ROSE, ..buy(50, 1, "m") };
    assert_eq!(desk.order(order)[0].exec_type, ExecType::New);
    assert_eq!(desk.engine.open_position_count(), 3);
    check_on(&mut desk, &[("bust 1 force", &["refused LimitReached"])]);
    let cancel = weir_wire::order_entry::CancelOrder { instrument_id: ROSE, ..cancel("m") };
    desk.ask(Request::CancelOrder(cancel));
    let told = ["busted Buy 3@100 owes 3 lots", "busted Sell 3@100", "done 2"];
    check_on(&mut desk, &[("bust 1 force", &told)]);
    let naive = desk.naive.as_ref().expect("a twin");
    assert_eq!((desk.engine.open_position_count(), naive.open_position_count()), (4, 4));
}

#[test]
fn a_forced_bust_that_both_sides_can_afford_leaves_no_debt() {
    let mut desk = twins();
    for text in ["sell a 100 3", "bob buy x 100 3"] {
        step(&mut desk, text);
    }
    let told = ["busted Buy 3@100", "busted Sell 3@100", "references none none", "done 2"];
    check_on(&mut desk, &[("bust 1 force", &told)]);
    assert_eq!((debts(&desk), desk.engine.debtor_count()), (Vec::new(), 0));
}

#[test]
fn an_unlimited_account_below_zero_is_not_counted() {
    let mut desk = twins();
    for text in ["bob sell a 100 3", "buy x 100 3 maker", "bob buy b 90 3", "sell y 90 3 maker"] {
        step(&mut desk, text);
    }
    let told = ["busted Buy 3@100", "busted Sell 3@100", "done 2"];
    check_on(&mut desk, &[("bust 1 force", &told)]);
    assert_eq!((debts(&desk), desk.engine.debtor_count()), (Vec::new(), 0));
}

#[test]
fn a_debt_of_an_account_that_becomes_unlimited_keeps_it_so() {
    let mut desk = spent();
    step(&mut desk, "bust 1 force");
    desk.import(account(POOR, 1, Switch::On));
    assert_eq!((debts(&desk), desk.engine.debtor_count()), (Vec::new(), 0));
    assert!(desk.import(account(POOR, 1, Switch::Off)).is_empty(), "refused: it owes cash");
    assert_eq!(desk.engine.refused_import_count(), 1);
}

#[test]
fn a_restart_keeps_debts() {
    let mut desk = spent();
    step(&mut desk, "bust 1 force");
    desk.restart();
    assert_eq!(debts(&desk), debt_of_poor(InstrumentId::NONE, 250));
    check_on(&mut desk, &[("buy y 1 1 poor", &["y Rejected InsufficientCash"])]);
    move_into_poor(&mut desk, 3, 250, 0).unwrap();
    assert_eq!((debts(&desk), desk.engine.debtor_count()), (Vec::new(), 0));
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_debts_is_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (Plant::ForcedBustUntold, a_forced_bust_of_lots_that_were_sold_leaves_a_debt_and_tells_it),
        (Plant::DebtorTrades, an_account_in_debt_reserves_no_cash_until_it_is_paid),
        (Plant::SnapshotForgetsDebt, a_restart_keeps_debts),
    ]);
}
