//! Collars: a trade beyond the collar does not happen, and a call begins.

mod support;

use support::steps::*;
use support::*;
use weir_types::*;

fn collared(static_collar: u32, dynamic_collar: u32) -> Desk {
    let mut desk = Desk::open();
    define(&mut desk, |d| {
        d.reference_price = Price(1_000);
        d.volatility_call = Nanos(500);
        (d.static_collar, d.dynamic_collar) = (static_collar, dynamic_collar);
    });
    desk
}

#[test]
fn a_trade_beyond_the_collar_does_not_happen_and_a_call_begins() {
    for (to_static, to_dynamic) in [(100, 0), (0, 100), (200, 100)] {
        let mut desk = collared(to_static, to_dynamic);
        check_on(
            &mut desk,
            &[
                ("sell a 1010 5", &["a New 5"]),
                ("sell b 1011 5", &["b New 5"]),
                (
                    "bob buy x 1020 7",
                    &["x New 7", "a Trade 5@1010 0", "x Trade 5@1010 2", "phase VolatilityCall"],
                ),
            ],
        );
        assert_eq!(desk.levels(Side::Buy), [(1_020, 2, 1)], "the book may be crossed");
        assert_eq!(desk.levels(Side::Sell), [(1_011, 5, 1)]);
    }
}

#[test]
fn references_are_fixed_when_the_order_begins_to_match() {
    let mut desk = collared(0, 100);
    check_on(
        &mut desk,
        &[
            ("sell a 1009 1", &["a New 1"]),
            ("sell b 1018 1", &["b New 1"]),
            (
                "bob buy x 1020 2 ioc",
                &[
                    "x New 2",
                    "a Trade 1@1009 0",
                    "x Trade 1@1009 1",
                    "phase VolatilityCall",
                    "x Canceled VolatilityInterruption",
                ],
            ),
            ("phase continuous", &["uncrossed 0@0 +0", "phase Continuous", "done 0"]),
            ("bob buy y 1020 1", &["y New 1", "b Trade 1@1018 0", "y Trade 1@1018 0"]),
        ],
    );
}

#[test]
fn the_interruption_ends_by_its_timer_with_an_uncrossing() {
    let mut desk = collared(100, 0);
    check_on(
        &mut desk,
        &[
            ("sell a 1050 5", &["a New 5"]),
            ("at 2000", &[]),
            ("bob buy x 1060 3", &["x New 3", "phase VolatilityCall"]),
        ],
    );
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(2_500)));
    check_on(
        &mut desk,
        &[
            ("at 2499", &[]),
            ("tick", &[]),
            ("at 2500", &[]),
            (
                "tick",
                &[
                    "x Trade 3@1050 0",
                    "a Trade 3@1050 2",
                    "uncrossed 3@1050 -2",
                    "phase Continuous",
                ],
            ),
            // The uncrossing's price is the new static reference.
            ("bob buy y 1055 1", &["y New 1", "a Trade 1@1050 1", "y Trade 1@1050 0"]),
        ],
    );
    assert_eq!(desk.engine.next_deadline(), None);
}

#[test]
fn a_change_of_phase_forgets_the_interruptions_end() {
    let mut desk = collared(100, 0);
    step(&mut desk, "sell a 1050 5");
    step(&mut desk, "bob buy x 1060 3");
    assert!(desk.engine.next_deadline().is_some());
    step(&mut desk, "phase halted");
    assert_eq!(desk.engine.next_deadline(), None);
}

#[test]
fn fill_or_kill_is_refused_when_a_collar_is_in_the_way() {
    let mut desk = collared(100, 0);
    check_on(
        &mut desk,
        &[
            ("sell a 1010 5", &["a New 5"]),
            ("sell b 1011 5", &["b New 5"]),
            ("bob buy x 1020 6 fok", &["x Rejected CannotFill"]),
            ("bob buy x 1020 9 min=6", &["x Rejected CannotFill"]),
            ("bob buy x 1020 5 fok", &["x New 5", "a Trade 5@1010 0", "x Trade 5@1010 0"]),
        ],
    );
}

#[test]
fn self_trade_prevention_comes_before_the_collar() {
    let mut desk = collared(100, 0);
    check_on(
        &mut desk,
        &[
            ("sell a 1050 5", &["a New 5"]),
            ("buy x 1060 5 newest", &["x New 5", "x Canceled SelfTrade"]),
            ("buy x 1060 5 oldest", &["x New 5", "a Canceled SelfTrade"]),
        ],
    );
}

#[test]
fn a_replace_may_breach_and_stands_where_it_was_moved_to() {
    let mut desk = collared(100, 0);
    check_on(
        &mut desk,
        &[
            ("sell a 1050 5", &["a New 5"]),
            ("bob buy x 1000 5", &["x New 5"]),
            ("bob replace x y 1060 5", &["y Replaced 5", "phase VolatilityCall"]),
            ("bob replace y z 1070 5", &["z Replaced 5"]),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(1_070, 5, 1)]);
}

/// Returns a desk with last price 500 and, in an opening call, market orders on both sides and one
/// stray limit.
fn with_a_stray_limit(volatility_call: u64) -> Desk {
    let mut desk = Desk::open();
    define(&mut desk, |d| {
        d.dynamic_collar = 1_000;
        d.volatility_call = Nanos(volatility_call);
    });
    check_on(
        &mut desk,
        &[
            ("sell a 500 1", &["a New 1"]),
            ("bob buy b 500 1", &["b New 1", "a Trade 1@500 0", "b Trade 1@500 0"]),
            ("phase halted", &["phase Halted", "done 0"]),
            ("phase opening", &["phase OpeningCall", "done 0"]),
            ("bob buy m 0 100", &["m New 100"]),
            ("sell n 0 90", &["n New 90"]),
            ("sell o 460 10 open", &["o New 10"]),
            ("buy z 1 10", &["z New 10"]),
            ("cancel o", &["o Canceled None"]),
            ("sell o 1 10 open", &["o New 10"]),
            ("at 2000", &[]),
            ("phase continuous", &["phase VolatilityCall", "done 0"]),
        ],
    );
    desk
}

#[test]
fn a_call_that_would_end_beyond_a_collar_becomes_a_volatility_call() {
    let mut desk = with_a_stray_limit(500);
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(2_500)));
    // No order has ended, and there is time to correct the price.
    check_on(
        &mut desk,
        &[
            ("sell p 505 20", &["p New 20"]),
            ("bob buy q 505 20", &["q New 20"]),
            ("at 2500", &[]),
            (
                "tick",
                &[
                    "m Trade 90@505 10",
                    "n Trade 90@505 0",
                    "m Trade 10@505 0",
                    "o Trade 10@505 0",
                    "q Trade 20@505 0",
                    "p Trade 20@505 0",
                    "uncrossed 120@505 +0",
                    "phase Continuous",
                ],
            ),
        ],
    );
    assert_eq!(desk.levels(Side::Buy), [(1, 10, 1)]);
}

#[test]
fn a_volatility_call_ends_at_the_price_that_it_finds() {
    // By its timer or, without one, by the word of an operator.
    for (span, end) in [(500, "tick"), (0, "phase continuous override")] {
        let mut desk = with_a_stray_limit(span);
        assert_eq!(desk.engine.next_deadline().is_some(), span > 0);
        step(&mut desk, "at 2500");
        let told = step(&mut desk, end);
        assert_eq!(told[0], "m Trade 90@1 10", "{end}");
        assert!(told.contains(&"uncrossed 100@1 +10".to_owned()), "{told:?}");
        assert!(told.contains(&"phase Continuous".to_owned()), "{told:?}");
    }
}

#[test]
fn a_price_within_the_collars_ends_a_call_at_once() {
    for (price, is_within) in [(449, false), (450, true), (550, true), (551, false)] {
        let mut desk = Desk::open();
        define(&mut desk, |d| d.dynamic_collar = 1_000);
        for text in ["sell a 500 1", "bob buy b 500 1", "phase halted", "phase opening"] {
            step(&mut desk, text);
        }
        step(&mut desk, &format!("sell c {price} 1"));
        step(&mut desk, &format!("bob buy d {price} 1"));
        let told = step(&mut desk, "phase continuous");
        assert_eq!(told.contains(&"phase Continuous".to_owned()), is_within, "{price}");
        assert_eq!(told[0] == "phase VolatilityCall", !is_within, "{price}");
    }
}
