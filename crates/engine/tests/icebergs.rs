//! Icebergs: the shown quantity, the place of the next slice, the quantity that a look-ahead
//! counts.

mod support;

use support::steps::*;
use support::*;
use weir_types::*;

#[test]
fn an_iceberg_loses_its_place_when_its_next_slice_is_shown() {
    let mut desk = check(&[("sell a 100 9 show=3", &["a New 9"]), ("sell b 100 4", &["b New 4"])]);
    assert_eq!(desk.levels(Side::Sell), [(100, 7, 2)]);
    check_on(
        &mut desk,
        &[(
            "bob buy x 100 4",
            &[
                "x New 4",
                "a Trade 3@100 6",
                "x Trade 3@100 1",
                "b Trade 1@100 3",
                "x Trade 1@100 0",
            ],
        )],
    );
    assert_eq!(desk.levels(Side::Sell), [(100, 6, 2)]);
    check_on(
        &mut desk,
        &[(
            "bob buy y 100 9",
            &[
                "y New 9",
                "b Trade 3@100 0",
                "y Trade 3@100 6",
                "a Trade 3@100 3",
                "y Trade 3@100 3",
                "a Trade 3@100 0",
                "y Trade 3@100 0",
            ],
        )],
    );
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn an_incoming_iceberg_trades_with_all_it_has_and_then_shows_a_slice() {
    let desk = check(&[
        ("bob sell x 100 5", &["x New 5"]),
        ("buy a 100 9 show=3", &["a New 9", "x Trade 5@100 0", "a Trade 5@100 4"]),
    ]);
    assert_eq!(desk.levels(Side::Buy), [(100, 3, 1)]);
}

#[test]
fn a_slice_that_traded_in_part_is_not_filled_up() {
    let desk = check(&[
        ("sell a 100 9 show=4", &["a New 9"]),
        ("bob buy x 100 3", &["x New 3", "a Trade 3@100 6", "x Trade 3@100 0"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(100, 1, 1)]);
}

#[test]
fn a_replace_that_keeps_its_place_shows_no_more_than_before() {
    let rows = [(8, 2), (7, 1), (9, 2), (10, 4)];
    for (total, shown) in rows {
        let mut desk = check(&[
            ("sell a 100 9 show=4", &["a New 9"]),
            (
                "bob buy x 100 6",
                &[
                    "x New 6",
                    "a Trade 4@100 5",
                    "x Trade 4@100 2",
                    "a Trade 2@100 3",
                    "x Trade 2@100 0",
                ],
            ),
        ]);
        step(&mut desk, &format!("replace a b 100 {total}"));
        assert_eq!(desk.levels(Side::Sell), [(100, shown, 1)], "{total}");
    }
}

#[test]
fn a_decrement_takes_the_hidden_part_first() {
    let desk = check(&[
        ("sell a 100 9 show=4", &["a New 9"]),
        ("buy x 100 7 decrement", &["x New 7", "a Restated 2", "x Canceled SelfTrade"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(100, 2, 1)]);
    let desk = check(&[
        ("sell a 100 9 show=4", &["a New 9"]),
        ("buy x 100 3 decrement", &["x New 3", "a Restated 6", "x Canceled SelfTrade"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(100, 4, 1)]);
}

#[test]
fn fill_or_kill_counts_what_is_hidden() {
    check(&[
        ("sell a 100 9 show=2", &["a New 9"]),
        ("bob buy x 100 10 fok", &["x Rejected CannotFill"]),
        ("sell b 100 1", &["b New 1"]),
    ]);
    for (flag, is_filled) in [("fok", true), ("fok newest", true), ("fok oldest", true)] {
        let mut desk =
            check(&[("sell a 100 9 show=2", &["a New 9"]), ("sell b 100 1", &["b New 1"])]);
        let events = step(&mut desk, &format!("bob buy x 100 10 {flag}"));
        assert_eq!(events[0] == "x New 10", is_filled, "{flag}");
        assert_eq!(events.last().expect("told"), "x Trade 1@100 0");
    }
}

#[test]
fn a_market_order_with_a_minimum_pays_slice_by_slice_in_the_look_ahead_as_in_matching() {
    // Slices of 3 at 100: with cash for 4 lots the second slice cannot be paid in full.
    let rows: &[(i128, u64, &str)] = &[
        (400, 3, "x New 9"),
        (400, 4, "x Rejected CannotFill"),
        (599, 4, "x Rejected CannotFill"),
        (600, 4, "x New 9"),
        (600, 6, "x New 9"),
        (899, 7, "x Rejected CannotFill"),
        (900, 9, "x New 9"),
    ];
    for (cash, min, want) in rows {
        let mut desk = Desk::open();
        desk.ask(weir_wire::Request::Transfer(transfer(POOR, 1, *cash, 0)));
        step(&mut desk, "bob sell a 100 30 show=3");
        let events = step(&mut desk, &format!("buy x 0 9 min={min} poor"));
        assert_eq!(events[0], *want, "{cash} {min}");
        let traded: usize = events.iter().filter(|e| e.starts_with("x Trade")).count() * 3;
        assert!(events.len() == 1 || traded as u64 >= *min, "{events:?}");
    }
}

#[test]
fn an_icebergs_minimum_is_told_once() {
    let mut desk = Desk::open();
    step(&mut desk, "bob sell a 100 3");
    step(&mut desk, "buy x 100 9 min=2 show=4");
    let told: Vec<_> = orders(&desk.events)
        .iter()
        .filter(|e| e.cl_ord_id == name("x"))
        .map(|e| (e.exec_type, e.min_qty.0, e.display_qty.0))
        .collect();
    assert_eq!(told, [(ExecType::New, 2, 4), (ExecType::Trade, 0, 4)]);
}

#[test]
fn an_iceberg_shows_at_least_a_hundredth_of_its_total() {
    let rows: &[(&str, &str)] = &[
        ("sell b 100 1000 show=10", "b New 1000"),
        ("sell b 100 1001 show=10", "b Rejected InvalidQty"),
        ("sell b 100 1 show=1", "b New 1"),
        ("sell b 100 101 show=1", "b Rejected InvalidQty"),
        ("replace a b 100 1000", "b Replaced 1000"),
        ("replace a b 100 1001", "refused InvalidQty"),
        ("replace a b 101 1001", "refused InvalidQty"),
        ("replace c b 100 5000", "b Replaced 5000"),
    ];
    for (text, want) in rows {
        let mut desk = check(&[
            ("sell a 100 900 show=10", &["a New 900"]),
            ("sell c 100 900", &["c New 900"]),
        ]);
        assert_eq!(step(&mut desk, text)[0], *want, "{text}");
    }
}

#[test]
fn a_snapshot_may_hold_icebergs_of_smaller_slices() {
    let mut desk = Desk::open();
    desk.ask(weir_wire::Request::Transfer(transfer(POOR, 1, 100 * 700_000, 0)));
    step(&mut desk, "bob sell a 100 1000000 show=123456");
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    // The shown quantity, the display quantity and the one in the remembered answer become one lot.
    let (slice, one) = (123_456_u64.to_le_bytes(), 1_u64.to_le_bytes());
    let places: Vec<_> = (0..bytes.len() - 8).filter(|at| bytes[*at..at + 8] == slice).collect();
    for at in &places {
        bytes[*at..at + 8].copy_from_slice(&one);
    }
    let body = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.to_le_bytes());
    let config = desk.engine.config().clone();
    desk.engine = weir_engine::Engine::restore(config, &bytes).expect("it is sound");
    check_on(
        &mut desk,
        &[
            // A look-ahead over 700,000 slices that can be paid, and one that cannot.
            ("buy x 0 1000000 min=700001 poor", &["x Rejected CannotFill"]),
            (
                "buy y 100 2",
                &[
                    "y New 2",
                    "a Trade 1@100 999999",
                    "y Trade 1@100 1",
                    "a Trade 1@100 999998",
                    "y Trade 1@100 0",
                ],
            ),
            ("bob replace a b 100 1000001", &["refused InvalidQty"]),
            ("bob replace a b 100 900", &["b Replaced 898"]),
        ],
    );
    assert_eq!((places.len(), desk.levels(Side::Sell)), (3, vec![(100, 1, 1)]));
}
