//! Market orders that wait for a call: their reservation at the edge of the static collar, and an
//! uncrossing beyond it. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::Request;

/// Returns a desk with a static collar of 5 % about 1,000 and so much cash of the poor account.
fn desk(cash: i128) -> Desk {
    let config =
        EngineConfig { accounts_max: 1 << 6, positions_max: 1 << 6, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    define(&mut desk, |d| (d.reference_price, d.static_collar) = (Price(1_000), 500));
    desk.ask(Request::Transfer(transfer(POOR, 1, cash, 0)));
    desk
}

fn in_opening_call(cash: i128) -> Desk {
    let mut desk = desk(cash);
    step(&mut desk, "phase closed");
    step(&mut desk, "phase opening");
    desk
}

/// Checks that the poor account has so much free cash: one lot at that price, and no more.
fn assert_free_cash(desk: &mut Desk, cash: i64) {
    assert_eq!(desk.engine.debtor_count(), 0);
    let more = step(desk, &format!("buy f {} 1 poor", cash + 1));
    assert_eq!(more, ["f Rejected InsufficientCash"]);
    assert_eq!(step(desk, &format!("buy f {cash} 1 poor")), ["f New 1"]);
}

#[test]
fn a_limited_account_reserves_at_the_collars_edge() {
    let mut desk = in_opening_call(2_100);
    check_on(
        &mut desk,
        &[
            ("buy a 0 3 poor", &["a Rejected InsufficientCash"]),
            ("buy a 0 2 poor", &["a New 2"]),
            ("bob sell s 1000 2", &["s New 2"]),
        ],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(2_100));
    check_on(
        &mut desk,
        &[(
            "phase continuous",
            &[
                "a Trade 2@1000 0",
                "s Trade 2@1000 0",
                "uncrossed 2@1000 +0",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
    assert_free_cash(&mut desk, 100);
}

#[test]
fn without_a_collar_or_a_reference_the_bound_is_reserved() {
    let rows = [(0, 500, 1_000_000), (1_000, 0, 1_000_000), (1_000, 500, 1_050)];
    for (reference, collar, want) in rows {
        let mut desk = desk(want);
        define(&mut desk, |d| (d.reference_price, d.static_collar) = (Price(reference), collar));
        // Parked, it reserves as in a call.
        assert_eq!(step(&mut desk, "buy a 0 1 close poor"), ["a New 1"]);
        assert_eq!(desk.engine.totals().cash_reserved, Cash(want), "{reference} {collar}");
    }
}

#[test]
fn the_edge_is_within_the_bounds() {
    for (price_min, price_max, want) in [(1, 1_020, 1_020), (1_060, 2_000, 1_060)] {
        let mut desk = desk(want);
        step(&mut desk, "reference static=1000");
        define(&mut desk, |d| {
            (d.price_min, d.price_max) = (Price(price_min), Price(price_max));
            d.static_collar = 500;
        });
        assert_eq!(step(&mut desk, "buy a 0 1 close poor"), ["a New 1"]);
        assert_eq!(desk.engine.totals().cash_reserved, Cash(want), "{price_min} {price_max}");
    }
}

#[test]
fn an_uncrossing_beyond_the_edge_takes_what_the_account_has() {
    // The price is overridden: 1,090, with 1,050 reserved for each of two lots.
    for (cash, traded) in [(2_180, 2), (2_179, 1), (2_100, 1)] {
        let mut desk = in_opening_call(cash);
        step(&mut desk, "buy a 0 2 poor");
        step(&mut desk, "bob sell s 1090 2");
        check_on(
            &mut desk,
            &[
                ("phase continuous", &["phase VolatilityCall", "done 0"]),
                ("phase continuous", &["refused BeyondCollar"]),
            ],
        );
        let told = step(&mut desk, "phase continuous override");
        if traded == 2 {
            assert_eq!(told[..3], ["a Trade 2@1090 0", "s Trade 2@1090 0", "uncrossed 2@1090 +0"]);
            assert_eq!(desk.engine.debtor_count(), 0);
        } else {
            let want = [
                "a Trade 1@1090 1",
                "s Trade 1@1090 1",
                "a Canceled InsufficientCash",
                "uncrossed 1@1090 -1",
                "phase Continuous",
                "done 0",
            ];
            assert_eq!(told, want, "{cash}");
            step(&mut desk, "bob cancel s");
            assert_free_cash(&mut desk, cash as i64 - 1_090);
        }
    }
}

#[test]
fn a_reference_that_moves_between_entry_and_uncrossing_takes_no_account_below_zero() {
    let mut desk = in_opening_call(2_100);
    step(&mut desk, "buy a 0 2 poor");
    step(&mut desk, "reference static=1200");
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    desk.engine =
        Engine::restore(desk.engine.config().clone(), &bytes).expect("a snapshot reads back");
    check_on(
        &mut desk,
        &[
            // It keeps the price of its reservation.
            ("replace a b 0 1", &["b Replaced 1"]),
            ("replace b a 0 2", &["a Replaced 2"]),
            ("bob sell s 1200 2", &["s New 2"]),
            (
                "phase continuous",
                &[
                    "a Trade 1@1200 1",
                    "s Trade 1@1200 1",
                    "a Canceled InsufficientCash",
                    "uncrossed 1@1200 -1",
                    "phase Continuous",
                    "done 0",
                ],
            ),
            ("bob cancel s", &["s Canceled None"]),
        ],
    );
    assert_free_cash(&mut desk, 900);
}

#[test]
fn a_parked_market_order_pays_the_price_of_the_close_as_far_as_it_can() {
    let mut desk = desk(2_100);
    for text in ["buy a 0 2 close poor", "phase closing", "bob sell s 1100 1"] {
        step(&mut desk, text);
    }
    check_on(
        &mut desk,
        &[(
            "phase closed",
            &[
                "a Trade 1@1100 1",
                "s Trade 1@1100 0",
                "a Canceled InsufficientCash",
                "uncrossed 1@1100 +0",
                "phase Closed",
                "done 0",
            ],
        )],
    );
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
    assert_eq!(desk.engine.debtor_count(), 0);
}

#[test]
fn one_that_can_pay_no_lot_ends_before_the_first_trade() {
    let mut desk = in_opening_call(1_050);
    for text in ["buy a 0 1 poor", "buy b 1100 1", "bob sell s 1100 1", "phase continuous"] {
        step(&mut desk, text);
    }
    check_on(
        &mut desk,
        &[(
            "phase continuous override",
            &[
                "a Canceled InsufficientCash",
                "b Trade 1@1100 0",
                "s Trade 1@1100 0",
                "uncrossed 1@1100 +0",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
}

#[test]
fn the_earlier_of_an_accounts_orders_is_paid_first() {
    let mut desk = in_opening_call(2_250);
    for text in ["buy a 0 1 poor", "buy b 0 1 poor", "bob sell s 1150 2", "phase continuous"] {
        step(&mut desk, text);
    }
    check_on(
        &mut desk,
        &[(
            "phase continuous override",
            &[
                "b Canceled InsufficientCash",
                "a Trade 1@1150 0",
                "s Trade 1@1150 1",
                "uncrossed 1@1150 -1",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
    step(&mut desk, "bob cancel s");
    assert_free_cash(&mut desk, 1_100);
}

#[test]
fn whole_lots_are_paid() {
    let mut desk = desk(21_000);
    define(&mut desk, |d| {
        (d.reference_price, d.static_collar, d.lot_size) = (Price(1_000), 500, Qty(10));
    });
    for text in ["phase closed", "phase opening", "buy a 0 20 poor", "bob sell s 1100 20"] {
        step(&mut desk, text);
    }
    step(&mut desk, "phase continuous");
    let told = step(&mut desk, "phase continuous override");
    let want = ["a Trade 10@1100 10", "s Trade 10@1100 10", "a Canceled InsufficientCash"];
    assert_eq!(told[..3], want, "19 could be paid");
}

#[test]
fn a_seller_at_a_negative_price_pays_as_far_as_it_can() {
    let mut desk = desk(0);
    define(&mut desk, |d| {
        (d.price_min, d.reference_price, d.static_collar) = (Price(-1_000), Price(-100), 1_000);
    });
    desk.ask(Request::Transfer(transfer(POOR, 2, 220, 2)));
    for text in ["phase closed", "phase opening", "sell a 0 2 poor", "bob buy x -150 2"] {
        step(&mut desk, text);
    }
    assert_eq!(desk.engine.totals().cash_reserved, Cash(220), "110 for each lot");
    step(&mut desk, "phase continuous");
    check_on(
        &mut desk,
        &[(
            "phase continuous override",
            &[
                "x Trade 1@-150 1",
                "a Trade 1@-150 1",
                "a Canceled InsufficientCash",
                "uncrossed 1@-150 +1",
                "phase Continuous",
                "done 0",
            ],
        )],
    );
    assert_eq!(desk.engine.debtor_count(), 0);
}

#[test]
fn an_unlimited_account_pays_beyond_the_edge() {
    let mut desk = in_opening_call(0);
    for text in ["buy a 0 2 maker", "bob sell s 1090 2", "phase continuous"] {
        step(&mut desk, text);
    }
    let told = step(&mut desk, "phase continuous override");
    assert_eq!(told[..3], ["a Trade 2@1090 0", "s Trade 2@1090 0", "uncrossed 2@1090 +0"]);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_reservations_is_found() {
    use weir_engine::plant::{Plant, set};
    set(Some(Plant::CallReservesAtBound));
    let is_found =
        std::panic::catch_unwind(a_limited_account_reserves_at_the_collars_edge).is_err();
    set(None);
    assert!(is_found);
}
