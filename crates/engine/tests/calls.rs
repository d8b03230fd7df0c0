//! Calls: the orders that they collect, their uncrossing price, the orders that a change of phase
//! ends.

mod support;

use support::steps::*;
use support::*;
use weir_types::*;

/// Returns a desk whose instrument is in its opening call.
fn in_opening_call() -> Desk {
    let mut desk = Desk::open();
    step(&mut desk, "phase closed");
    step(&mut desk, "phase opening");
    desk
}

#[test]
fn a_call_collects_and_uncrosses_at_the_price_of_most_volume() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("buy b1 202 100", &["b1 New 100"]),
            ("buy b2 201 100", &["b2 New 100"]),
            ("bob sell s1 200 150", &["s1 New 150"]),
            ("bob sell s2 201 100", &["s2 New 100"]),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(202, 100, 1), (201, 100, 1)]);
    check_on(
        &mut desk,
        &[
            (
                "phase continuous",
                &[
                    "b1 Trade 100@201 0",
                    "s1 Trade 100@201 50",
                    "b2 Trade 50@201 50",
                    "s1 Trade 50@201 0",
                    "b2 Trade 50@201 0",
                    "s2 Trade 50@201 50",
                    "uncrossed 200@201 -50",
                    "phase Continuous",
                    "done 0",
                ],
            ),
            ("phase continuous", &["done 0"]),
        ],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
}

#[test]
fn limits_that_a_redefined_bound_left_crossed_are_uncrossed_again() {
    let mut desk = in_opening_call();
    step(&mut desk, "bob sell s 96 120");
    step(&mut desk, "buy b1 97 150");
    step(&mut desk, "buy b2 96 30");
    define(&mut desk, |definition| definition.price_min = Price(97));
    // It may not sell below 97, takes all demand there, and leaves bid and offer crossed at 96.
    step(&mut desk, "bob sell m 0 160");
    check_on(
        &mut desk,
        &[(
            "phase continuous",
            &[
                "b1 Trade 150@97 0",
                "m Trade 150@97 10",
                "uncrossed 150@97 -130",
                "b2 Trade 30@96 0",
                "s Trade 30@96 90",
                "uncrossed 30@96 -90",
                "m Canceled NoLiquidity",
                "phase Continuous",
                "done 1",
            ],
        )],
    );
    assert_eq!(desk.levels(Side::Sell), [(96, 90, 1)]);
}

#[test]
fn market_orders_stand_before_every_limit_and_pay_what_was_reserved() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("bob buy l 1000000 1", &["l New 1"]),
            ("bob buy m 0 2", &["m New 2"]),
            ("bob buy n 0 2", &["n New 2"]),
            ("sell a 100 3", &["a New 3"]),
        ],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(5_000_000));
    assert_eq!(desk.levels(Side::Buy), [(1_000_000, 1, 1)], "market orders are in no level");
    let told: Vec<_> = orders(&desk.events).iter().map(|e| (e.price.0, e.ord_type)).collect();
    assert!(told.contains(&(0, OrdType::Market)));
    check_on(
        &mut desk,
        &[(
            "phase continuous",
            &[
                "m Trade 2@1000000 0",
                "a Trade 2@1000000 1",
                "n Trade 1@1000000 1",
                "a Trade 1@1000000 0",
                "uncrossed 3@1000000 +2",
                "n Canceled NoLiquidity",
                "phase Continuous",
                "done 1",
            ],
        )],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(1_000_000));
}

#[test]
fn a_market_order_of_a_call_trades_within_the_bounds_at_its_end() {
    let mut desk = in_opening_call();
    define(&mut desk, |d| d.price_max = Price(150));
    step(&mut desk, "bob buy m 0 2");
    define(&mut desk, |d| d.price_max = Price(300));
    check_on(
        &mut desk,
        &[
            ("sell a 200 1", &["a New 1"]),
            ("sell b 400 1", &["b Rejected InvalidPrice"]),
            ("bob buy n 0 2", &["n New 2"]),
            (
                "phase continuous",
                &[
                    "m Trade 1@200 1",
                    "a Trade 1@200 0",
                    "uncrossed 1@200 +3",
                    "m Canceled NoLiquidity",
                    "n Canceled NoLiquidity",
                    "phase Continuous",
                    "done 2",
                ],
            ),
        ],
    );
    for text in ["phase closed", "phase opening", "sell c 200 1"] {
        step(&mut desk, text);
    }
    define(&mut desk, |d| d.price_max = Price(150));
    step(&mut desk, "bob buy o 0 1");
    let told = ["uncrossed 0@0 +0", "o Canceled NoLiquidity", "phase Continuous", "done 1"];
    check_on(&mut desk, &[("phase continuous", &told)]);
}

#[test]
fn a_market_order_of_a_call_needs_its_cash_at_entry() {
    let mut desk = in_opening_call();
    desk.ask(weir_wire::Request::Transfer(transfer(POOR, 1, 1_999_999, 0)));
    check_on(
        &mut desk,
        &[
            ("buy a 0 2 poor", &["a Rejected InsufficientCash"]),
            ("buy a 0 1 poor", &["a New 1"]),
            ("replace a b 0 2", &["refused InsufficientCash"]),
            ("replace a b 5 1", &["refused InvalidPrice"]),
            ("replace a b 0 1", &["b Replaced 1"]),
            ("cancel b", &["b Canceled None"]),
        ],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
}

#[test]
fn market_orders_alone_uncross_at_the_last_price_or_the_reference() {
    for (reference, want) in [(0, "uncrossed 0@0 +0"), (120, "uncrossed 2@120 +1")] {
        let mut desk = in_opening_call();
        define(&mut desk, |d| d.reference_price = Price(reference));
        step(&mut desk, "bob buy m 0 3");
        step(&mut desk, "sell n 0 2");
        let events = step(&mut desk, "phase continuous");
        assert!(events.iter().any(|event| event == want), "{events:?}");
    }
}

#[test]
fn an_iceberg_counts_in_full_and_keeps_its_place_in_an_uncrossing() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("sell a 100 9 show=2", &["a New 9"]),
            ("sell b 100 1", &["b New 1"]),
            ("bob buy x 100 6", &["x New 6"]),
        ],
    );
    assert_eq!(desk.levels(Side::Sell), [(100, 3, 2)]);
    check_on(
        &mut desk,
        &[(
            "phase continuous",
            &[
                "x Trade 6@100 0",
                "a Trade 6@100 3",
                "uncrossed 6@100 -4",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
    assert_eq!(desk.levels(Side::Sell), [(100, 3, 2)]);
    let ids = desk.engine.orders_at(TULIP, Side::Sell, Price(100));
    assert_eq!(ids.iter().map(|id| id.rec().0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn self_trades_are_not_prevented_in_an_uncrossing() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("sell a 100 1 newest", &["a New 1"]),
            ("buy b 100 1 newest", &["b New 1"]),
            (
                "phase continuous",
                &[
                    "b Trade 1@100 0",
                    "a Trade 1@100 0",
                    "uncrossed 1@100 +0",
                    "phase Continuous",
                    "done 0",
                ],
            ),
        ],
    );
    assert!(
        orders(&desk.events)
            .iter()
            .all(|e| { (e.exec_type == ExecType::Trade) == (e.liquidity == Liquidity::Auction) })
    );
}

#[test]
fn orders_at_the_open_end_with_the_opening_and_all_ends_are_by_rec() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("buy a 90 1 open", &["a New 1"]),
            ("buy b 0 1", &["b New 1"]),
            ("buy c 0 1 open", &["c New 1"]),
            ("buy d 89 1 day", &["d New 1"]),
            ("phase halted", &["phase Halted", "done 0"]),
            (
                "phase continuous",
                &[
                    "uncrossed 0@0 +0",
                    "a Expired None",
                    "b Canceled NoLiquidity",
                    "c Expired None",
                    "phase Continuous",
                    "done 3",
                ],
            ),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(89, 1, 1)]);
}

#[test]
fn orders_at_the_close_are_parked_until_the_closing_call() {
    let mut desk = check(&[
        ("buy a 100 1 close", &["a New 1"]),
        ("buy b 0 1 close", &["b New 1"]),
        ("replace a c 100 3", &["c Replaced 3"]),
        ("bob sell x 100 1", &["x New 1"]),
    ]);
    assert_eq!(desk.levels(Side::Buy), []);
    assert_eq!(desk.engine.totals().cash_reserved, Cash(1_000_300));
    check_on(
        &mut desk,
        &[
            ("cancel x", &["refused UnknownOrder"]),
            ("bob cancel x", &["x Canceled None"]),
            ("bob buy y 100 2 day", &["y New 2"]),
            ("phase closing", &["phase ClosingCall", "done 0"]),
            ("buy d 100 1 close", &["d New 1"]),
            ("bob sell z 100 5 day", &["z New 5"]),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(100, 6, 3)]);
    check_on(
        &mut desk,
        &[(
            "phase closed",
            &[
                "b Trade 1@100 0",
                "z Trade 1@100 4",
                "y Trade 2@100 0",
                "z Trade 2@100 2",
                "c Trade 2@100 1",
                "z Trade 2@100 0",
                "uncrossed 5@100 +2",
                "c Expired None",
                "d Expired None",
                "phase Closed",
                "done 2",
            ],
        )],
    );
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn parked_orders_end_when_the_instrument_closes_without_a_closing_call() {
    check(&[
        ("buy a 100 1 close", &["a New 1"]),
        ("buy b 100 1 day", &["b New 1"]),
        ("phase closed", &["a Expired None", "phase Closed", "b Expired None", "done 2"]),
    ]);
}

#[test]
fn a_replace_in_a_call_goes_behind_and_trades_nothing() {
    let mut desk = in_opening_call();
    check_on(
        &mut desk,
        &[
            ("sell a 100 2", &["a New 2"]),
            ("bob buy x 99 2", &["x New 2"]),
            ("bob buy y 101 2", &["y New 2"]),
            ("bob replace x z 101 2", &["z Replaced 2"]),
        ],
    );
    let ids = desk.engine.orders_at(TULIP, Side::Buy, Price(101));
    assert_eq!(ids.iter().map(|id| id.rec().0).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn a_change_that_the_page_does_not_know_is_refused() {
    check(&[
        ("phase opening", &["refused WrongPhase"]),
        ("phase closing", &["phase ClosingCall", "done 0"]),
        ("phase continuous", &["refused WrongPhase"]),
        ("phase volatility", &["refused WrongPhase"]),
        ("phase closed", &["uncrossed 0@0 +0", "phase Closed", "done 0"]),
        ("phase closing", &["refused WrongPhase"]),
        ("buy a 100 1", &["a Rejected WrongPhase"]),
    ]);
}

#[test]
fn a_market_order_of_a_call_has_no_limit_to_tell() {
    let mut desk = in_opening_call();
    step(&mut desk, "buy m 0 2");
    step(&mut desk, "buy l 99 2");
    let price = |text: &str| desk.engine.order_by_name(ALICE, name(text)).map(|o| o.price.0);
    assert_eq!((price("m"), price("l")), (Some(0), Some(99)));
}

#[test]
fn a_reference_price_is_none_or_one_that_a_limit_may_have() {
    let rows = [(0, true), (10, true), (500, true), (12, false), (5, false), (505, false)];
    for (reference_price, is_taken) in rows {
        let mut desk = in_opening_call();
        let definition = weir_wire::reference::DefineInstrument {
            reference_price: Price(reference_price),
            tick_size: Price(5),
            price_min: Price(10),
            price_max: Price(500),
            ..instrument(TULIP, HERE)
        };
        let events = desk.import(weir_wire::Definition::DefineInstrument(definition));
        assert_eq!(events.len() == 1, is_taken, "{reference_price}");
    }
}
