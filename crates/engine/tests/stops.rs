//! Stops: the trades that reach them, the order in which they trigger, the orders they become.

mod support;

use support::steps::*;
use support::*;
use weir_types::*;

#[test]
fn a_stop_is_triggered_by_a_trade_at_its_price() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 101 5", &["b New 5"]),
        ("sell c 102 5", &["c New 5"]),
        ("buy s 0 4 stop=101", &["s New 4"]),
        ("bob buy x 100 5", &["x New 5", "a Trade 5@100 0", "x Trade 5@100 0"]),
        (
            "bob buy y 101 1",
            &[
                "y New 1",
                "b Trade 1@101 4",
                "y Trade 1@101 0",
                "s Triggered None",
                "b Trade 4@101 0",
                "s Trade 4@101 0",
            ],
        ),
    ]);
}

#[test]
fn a_triggered_stop_says_what_it_has_become_and_keeps_its_stop_price() {
    let mut desk = Desk::open();
    for text in ["sell a 100 5", "buy s 102 4 stop=100", "bob buy x 100 1"] {
        step(&mut desk, text);
    }
    let of_stop: Vec<_> =
        orders(&desk.events).into_iter().filter(|e| e.cl_ord_id == name("s")).collect();
    let told: Vec<_> = of_stop
        .iter()
        .map(|e| (e.exec_type, e.ord_type, e.price.0, e.stop_px.0, e.request_no.0 != 0))
        .collect();
    let want = [
        (ExecType::New, OrdType::StopLimit, 102, 100, true),
        (ExecType::Triggered, OrdType::Limit, 102, 100, false),
        (ExecType::Trade, OrdType::Limit, 102, 100, false),
    ];
    assert_eq!(told, want);
}

#[test]
fn a_stop_that_the_last_price_has_reached_is_triggered_as_it_comes() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 1", &["x New 1", "a Trade 1@100 4", "x Trade 1@100 0"]),
        ("bob sell s 0 1 stop=101", &["s New 1", "s Triggered None", "s Canceled NoLiquidity"]),
        ("bob buy t 99 1 stop=100", &["t New 1", "t Triggered None"]),
        ("bob buy u 99 1 stop=101", &["u New 1"]),
    ]);
}

#[test]
fn stops_come_in_waves_by_rec_and_a_wave_reaches_the_next() {
    let desk = check(&[
        ("sell a 100 1", &["a New 1"]),
        ("sell b 102 1", &["b New 1"]),
        ("sell c 104 1", &["c New 1"]),
        ("sell d 106 9", &["d New 9"]),
        ("buy s1 0 1 stop=104", &["s1 New 1"]),
        ("buy s2 0 1 stop=102", &["s2 New 1"]),
        ("buy s3 0 1 stop=100", &["s3 New 1"]),
        ("buy s4 101 1 stop=100", &["s4 New 1"]),
        (
            "bob buy x 100 1",
            &[
                "x New 1",
                "a Trade 1@100 0",
                "x Trade 1@100 0",
                "s3 Triggered None",
                "b Trade 1@102 0",
                "s3 Trade 1@102 0",
                "s4 Triggered None",
                "s2 Triggered None",
                "c Trade 1@104 0",
                "s2 Trade 1@104 0",
                "s1 Triggered None",
                "d Trade 1@106 8",
                "s1 Trade 1@106 0",
            ],
        ),
    ]);
    assert_eq!(desk.levels(Side::Buy), [(101, 1, 1)]);
    assert_eq!(desk.engine.live_order_count(), 2);
}

#[test]
fn a_cascade_of_two_thousand_waves_needs_no_recursion() {
    let mut desk = Desk::open();
    for at in 0..2_000 {
        let mut ask = sell(1_000 + at, 1, "");
        ask.cl_ord_id = ClOrdId::from_number(at as u64);
        desk.order(ask);
        let mut stop = buy(0, 1, "");
        stop.cl_ord_id = ClOrdId::from_number(10_000 + at as u64);
        (stop.ord_type, stop.stop_px) = (OrdType::Stop, Price(1_000 + at));
        desk.order(stop);
    }
    let events = desk.order(bob(buy(1_000, 1, "x")));
    let triggered = events.iter().filter(|e| e.exec_type == ExecType::Triggered).count();
    assert_eq!(triggered, 2_000);
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn stops_are_in_no_book_and_are_cancelled_like_any_order() {
    let desk = check(&[
        ("buy s 0 4 stop=101", &["s New 4"]),
        ("buy t 105 4 stop=101 day", &["t New 4"]),
        ("buy u 105 4 stop=101 gtd=5000", &["u New 4"]),
        ("replace s s2 0 9", &["s2 Replaced 9"]),
        ("replace s2 s3 7 9", &["refused InvalidPrice"]),
        ("replace t t2 106 2", &["t2 Replaced 2"]),
        ("cancel s2", &["s2 Canceled None"]),
        ("phase closed", &["phase Closed", "t2 Expired None", "done 1"]),
        ("at 5000", &[]),
        ("tick", &["u Expired None"]),
    ]);
    assert_eq!(desk.levels(Side::Buy), []);
    assert_eq!(desk.engine.live_order_count(), 0);
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
}

#[test]
fn an_uncrossings_price_reaches_stops_when_continuous_trading_begins() {
    check(&[
        ("phase halted", &["phase Halted", "done 0"]),
        ("phase opening", &["phase OpeningCall", "done 0"]),
        ("buy s 110 4 stop=101", &["s New 4"]),
        ("buy t 110 4 stop=102", &["t New 4"]),
        ("sell a 101 5", &["a New 5"]),
        ("bob buy x 101 2", &["x New 2"]),
        (
            "phase continuous",
            &[
                "x Trade 2@101 0",
                "a Trade 2@101 3",
                "uncrossed 2@101 -3",
                "phase Continuous",
                "s Triggered None",
                "a Trade 3@101 0",
                "s Trade 3@101 1",
                "done 0",
            ],
        ),
    ]);
}

#[test]
fn the_rest_of_a_wave_joins_the_call_that_the_wave_has_brought() {
    let mut desk = Desk::open();
    define(&mut desk, |d| d.dynamic_collar = 100);
    desk.ask(weir_wire::Request::Transfer(transfer(POOR, 1, 200, 0)));
    check_on(
        &mut desk,
        &[
            ("sell a 100 2", &["a New 2"]),
            ("sell b 105 5", &["b New 5"]),
            ("buy s1 0 1 stop=100", &["s1 New 1"]),
            ("buy s2 0 1 stop=100", &["s2 New 1"]),
            ("buy s3 0 1 stop=100 poor", &["s3 New 1"]),
            ("buy s4 106 1 stop=100", &["s4 New 1"]),
            (
                "bob buy x 100 2",
                &[
                    "x New 2",
                    "a Trade 2@100 0",
                    "x Trade 2@100 0",
                    "s1 Triggered None",
                    "phase VolatilityCall",
                    "s1 Canceled VolatilityInterruption",
                    "s2 Triggered None",
                    "s3 Triggered None",
                    "s3 Canceled InsufficientCash",
                    "s4 Triggered None",
                ],
            ),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(106, 1, 1)]);
    assert_eq!(desk.engine.totals().cash_reserved, Cash(1_000_000 + 106));
    check_on(
        &mut desk,
        &[(
            "phase continuous override",
            &[
                "s2 Trade 1@105 0",
                "b Trade 1@105 4",
                "s4 Trade 1@105 0",
                "b Trade 1@105 3",
                "uncrossed 2@105 -3",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
}

#[test]
fn stops_that_were_reached_before_an_interruption_come_in_when_trading_goes_on() {
    let mut desk = Desk::open();
    define(&mut desk, |d| d.dynamic_collar = 200);
    let steps: &[ScriptLine<'_>] = &[
        ("sell a 100 1", &["a New 1"]),
        ("sell b 101 1", &["b New 1"]),
        ("sell c 110 5", &["c New 5"]),
        ("bob buy w 100 1", &["w New 1", "a Trade 1@100 0", "w Trade 1@100 0"]),
        ("buy s 99 1 stop=101", &["s New 1"]),
        (
            "bob buy x 110 2 ioc",
            &[
                "x New 2",
                "b Trade 1@101 0",
                "x Trade 1@101 1",
                "phase VolatilityCall",
                "x Canceled VolatilityInterruption",
            ],
        ),
    ];
    check_on(&mut desk, steps);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = desk.engine.config().clone();
    desk.engine = weir_engine::Engine::restore(config, &bytes).expect("a snapshot reads back");
    let want = ["uncrossed 0@0 +0", "phase Continuous", "s Triggered None", "done 0"];
    assert_eq!(step(&mut desk, "phase continuous"), want);
}

#[test]
fn the_last_price_reaches_stops_when_continuous_trading_begins() {
    // A closing call's price does not on the next morning.
    check(&[
        ("sell s 0 5 stop=95", &["s New 5"]),
        ("phase closing", &["phase ClosingCall", "done 0"]),
        ("sell a 90 2", &["a New 2"]),
        ("bob buy b 90 2", &["b New 2"]),
        (
            "phase closed",
            &["b Trade 2@90 0", "a Trade 2@90 0", "uncrossed 2@90 +0", "phase Closed", "done 0"],
        ),
        ("phase continuous", &["uncrossed 0@0 +0", "phase Continuous", "done 0"]),
    ]);
    // A stop entered in a call is treated like the same stop entered one command later.
    check(&[
        ("sell a 100 1", &["a New 1"]),
        ("bob buy b 100 1", &["b New 1", "a Trade 1@100 0", "b Trade 1@100 0"]),
        ("phase volatility", &["phase VolatilityCall", "done 0"]),
        ("buy s 99 1 stop=90", &["s New 1"]),
        ("buy t 99 1 stop=101", &["t New 1"]),
        (
            "phase continuous",
            &["uncrossed 0@0 +0", "phase Continuous", "s Triggered None", "done 0"],
        ),
        ("buy u 99 1 stop=90", &["u New 1", "u Triggered None"]),
    ]);
}

#[test]
fn nothing_reaches_a_stop_before_the_first_trade() {
    check(&[
        ("phase volatility", &["phase VolatilityCall", "done 0"]),
        ("buy s 99 1 stop=90", &["s New 1"]),
        ("phase continuous", &["uncrossed 0@0 +0", "phase Continuous", "done 0"]),
    ]);
}
