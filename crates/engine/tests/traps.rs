//! Traps that caught other engines, one test each, in the short notation of `support::steps`.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::{Definition, Request};

#[test]
fn trades_are_at_the_resting_price_in_both_directions_and_on_a_crossing_replace() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 103 5", &["x New 5", "a Trade 5@100 0", "x Trade 5@100 0"]),
        ("buy b 100 5", &["b New 5"]),
        ("bob sell y 97 5", &["y New 5", "b Trade 5@100 0", "y Trade 5@100 0"]),
        ("sell c 100 5", &["c New 5"]),
        ("bob buy z 90 5", &["z New 5"]),
        ("bob replace z w 110 5", &["w Replaced 5", "c Trade 5@100 0", "w Trade 5@100 0"]),
    ]);
}

#[test]
fn time_priority_survives_cancels_at_the_head_and_in_the_middle_and_partial_fills() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 100 5", &["b New 5"]),
        ("sell c 100 5", &["c New 5"]),
        ("sell d 100 5", &["d New 5"]),
        ("cancel a", &["a Canceled None"]),
        ("cancel c", &["c Canceled None"]),
        ("bob buy x 100 2", &["x New 2", "b Trade 2@100 3", "x Trade 2@100 0"]),
        (
            "bob buy y 100 4",
            &[
                "y New 4",
                "b Trade 3@100 0",
                "y Trade 3@100 1",
                "d Trade 1@100 4",
                "y Trade 1@100 0",
            ],
        ),
    ]);
}

#[test]
fn a_marketable_limit_stops_at_its_own_limit() {
    let desk = check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 102 5", &["b New 5"]),
        ("bob buy x 101 9", &["x New 9", "a Trade 5@100 0", "x Trade 5@100 4"]),
    ]);
    assert_eq!(desk.levels(Side::Buy), [(101, 4, 1)]);
    assert_eq!(desk.levels(Side::Sell), [(102, 5, 1)]);
}

#[test]
fn an_immediate_remainder_never_rests() {
    for flags in ["ioc", "day ioc"] {
        let text = format!("bob sell x 90 9 {flags}");
        let desk = check(&[
            ("buy a 100 5", &["a New 5"]),
            (&text, &["x New 9", "a Trade 5@100 0", "x Trade 5@100 4", "x Canceled NoLiquidity"]),
        ]);
        assert_eq!(desk.engine.live_order_count(), 0);
    }
    check(&[("buy m 0 5", &["m New 5", "m Canceled NoLiquidity"])]);
}

#[test]
fn fill_or_kill_looks_over_all_levels_and_changes_nothing_when_refused() {
    let desk = check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 101 5", &["b New 5"]),
        ("sell c 103 5", &["c New 5"]),
        ("bob buy x 102 11 fok", &["x Rejected CannotFill"]),
        ("bob buy x 103 16 fok", &["x Rejected CannotFill"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(100, 5, 1), (101, 5, 1), (103, 5, 1)]);
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 101 5", &["b New 5"]),
        (
            "bob buy x 101 10 fok",
            &[
                "x New 10",
                "a Trade 5@100 0",
                "x Trade 5@100 5",
                "b Trade 5@101 0",
                "x Trade 5@101 0",
            ],
        ),
    ]);
}

#[test]
fn fill_or_kill_counts_own_orders_as_self_trade_prevention_would() {
    let rows: &[(&str, &str)] = &[
        ("fok newest", "x Rejected CannotFill"),
        ("fok both", "x Rejected CannotFill"),
        ("fok decrement", "x Rejected CannotFill"),
        ("fok oldest", "x New 5"),
        ("fok", "x New 5"),
    ];
    for (flags, want) in rows {
        let mut desk = Desk::open();
        step(&mut desk, "sell a 100 5");
        step(&mut desk, "bob sell b 101 5");
        assert_eq!(step(&mut desk, &format!("buy x 101 5 {flags}"))[0], *want, "{flags}");
    }
}

#[test]
fn a_minimum_quantity_trades_at_once_or_the_order_is_refused() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 9 min=6", &["x Rejected CannotFill"]),
        ("bob buy x 100 9 min=5", &["x New 9", "a Trade 5@100 0", "x Trade 5@100 4"]),
        ("bob buy y 100 9 min=10", &["y Rejected InvalidQty"]),
    ]);
}

#[test]
fn cancels_and_replaces_of_a_filled_order_are_refused() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 5", &["x New 5", "a Trade 5@100 0", "x Trade 5@100 0"]),
        ("cancel a", &["refused UnknownOrder"]),
        ("replace a b 101 5", &["refused UnknownOrder"]),
        ("bob cancel x", &["refused UnknownOrder"]),
    ]);
}

#[test]
fn a_name_is_free_again_after_its_order_ended_and_not_before() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell a 101 5", &["a Rejected DuplicateClOrdId"]),
        ("bob sell a 101 5", &["a New 5"]),
        ("cancel a", &["a Canceled None"]),
        ("sell a 101 5", &["a New 5"]),
        ("sell b 101 5", &["b New 5"]),
        ("replace b a 101 5", &["refused DuplicateClOrdId"]),
        ("replace b c 101 5", &["c Replaced 5"]),
        ("sell b 101 5", &["b New 5"]),
        (
            "bob buy x 102 20",
            &[
                "x New 20",
                "a Trade 5@101 0",
                "x Trade 5@101 15",
                "a Trade 5@101 0",
                "x Trade 5@101 10",
                "c Trade 5@101 0",
                "x Trade 5@101 5",
                "b Trade 5@101 0",
                "x Trade 5@101 0",
            ],
        ),
        ("sell a 101 5", &["a New 5"]),
    ]);
}

#[test]
fn an_unknown_name_on_an_empty_book_is_refused() {
    check(&[
        ("cancel a", &["refused UnknownOrder"]),
        ("replace a b 100 5", &["refused UnknownOrder"]),
    ]);
}

#[test]
fn no_level_is_left_behind_by_its_last_order() {
    let desk = check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 101 5", &["b New 5"]),
        ("cancel a", &["a Canceled None"]),
        ("bob buy x 100 5", &["x New 5"]),
        ("bob buy y 101 1", &["y New 1", "b Trade 1@101 4", "y Trade 1@101 0"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(101, 4, 1)]);
}

#[test]
fn a_reprice_keeps_its_siblings_and_goes_behind_them() {
    let desk = check(&[
        ("sell a 100 5", &["a New 5"]),
        ("sell b 100 5", &["b New 5"]),
        ("sell c 100 5", &["c New 5"]),
        ("replace b d 101 5", &["d Replaced 5"]),
        ("replace d e 100 5", &["e Replaced 5"]),
    ]);
    let orders = desk.engine.orders_at(TULIP, Side::Sell, Price(100));
    assert_eq!(orders.iter().map(|id| id.rec().0).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!(desk.levels(Side::Sell), [(100, 15, 3)]);
}

#[test]
fn a_replace_keeps_its_place_only_at_its_price_and_when_its_total_does_not_go_up() {
    let rows = [("100 4", [1, 2]), ("100 5", [1, 2]), ("100 6", [2, 1])];
    for (to, want) in rows {
        let mut desk = Desk::open();
        step(&mut desk, "sell a 100 5");
        step(&mut desk, "sell b 100 5");
        step(&mut desk, &format!("replace a c {to}"));
        let orders = desk.engine.orders_at(TULIP, Side::Sell, Price(100));
        assert_eq!(orders.iter().map(|id| id.rec().0).collect::<Vec<_>>(), want, "{to}");
    }
}

#[test]
fn a_replace_below_what_is_filled_is_refused() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 3", &["x New 3", "a Trade 3@100 2", "x Trade 3@100 0"]),
        ("replace a b 100 3", &["refused QtyBelowFilled"]),
        ("replace a b 100 4", &["b Replaced 1"]),
    ]);
}

#[test]
fn a_sweep_of_five_thousand_fills_needs_no_recursion() {
    let mut desk = Desk::open();
    for at in 0..5_000 {
        let order = sell(100 + at % 50, 1, "");
        desk.order(NewOrder { cl_ord_id: ClOrdId::from_number(at as u64), ..order });
    }
    let events = desk.order(bob(buy(200, 5_000, "x")));
    assert_eq!(events.len(), 1 + 2 * 5_000);
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn a_command_makes_at_most_a_hundred_trades_with_a_resting_order() {
    let mut desk = Desk::open();
    for at in 0..40_i64 {
        let order = sell(100 + at % 7, 1_000, "");
        desk.order(NewOrder {
            cl_ord_id: ClOrdId::from_number(at as u64),
            display_qty: Qty(if at % 3 == 0 { 10 } else { 1_000 }),
            ..order
        });
    }
    // Partly shown, reduced and enlarged: no path leads to more slices.
    step(&mut desk, "bob buy p 100 7");
    step(&mut desk, "sell last 100 1000 show=10");
    step(&mut desk, "replace last last2 100 999");
    step(&mut desk, "replace last2 last3 106 1000");
    assert_eq!(step(&mut desk, "replace last3 last4 106 1001"), ["refused InvalidQty"]);
    let resting = desk.engine.live_order_count() as usize;
    let events = desk.order(bob(buy(200, 1_000_000, "x")));
    assert_eq!(desk.engine.live_order_count(), 1, "all were taken");
    assert!(events.len() <= 1 + 2 * 100 * resting, "{} events", events.len());
}

#[test]
fn prices_at_the_edge_of_the_domain_rest_trade_and_overflow_nothing() {
    let mut desk = Desk::open();
    let wide = weir_wire::reference::DefineInstrument {
        price_min: Price(i64::MIN),
        price_max: Price(i64::MAX),
        ..instrument(TULIP, HERE)
    };
    desk.import(Definition::DefineInstrument(wide));
    let mut order = |order: NewOrder| told(&desk.order(NewOrder { account_id: MAKER, ..order }));
    assert_eq!(order(sell(i64::MAX, 1_000_000, "a")), ["a New 1000000"]);
    assert_eq!(order(buy(i64::MIN, 1_000_000, "b")), ["b New 1000000"]);
    assert_eq!(order(sell(i64::MIN + 1, 1, "c")), ["c New 1"]);
    let want = ["d New 1", "c Trade 1@-9223372036854775807 0", "d Trade 1@-9223372036854775807 0"];
    assert_eq!(order(buy(i64::MAX - 1, 1, "d")), want);
    let want =
        ["e New 1", "a Trade 1@9223372036854775807 999999", "e Trade 1@9223372036854775807 0"];
    assert_eq!(order(buy(i64::MAX, 1, "e")), want);
    assert_eq!(
        order(NewOrder { price: Price(0), ord_type: OrdType::Market, ..sell(0, 1, "f") }),
        ["f New 1", "b Trade 1@-9223372036854775808 999999", "f Trade 1@-9223372036854775808 0"]
    );
}

#[test]
fn combinations_without_a_meaning_are_refused_by_name() {
    check(&[
        ("buy a 0 5 stop=101 post", &["a Rejected UnsupportedOrdType"]),
        ("buy a 0 5 post", &["a Rejected UnsupportedOrdType"]),
        ("buy a 0 5 show=1", &["a Rejected UnsupportedOrdType"]),
        ("buy a 100 5 stop=101 show=1", &["a Rejected UnsupportedOrdType"]),
        ("buy a 100 5 ioc post", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 100 5 ioc show=1", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 100 5 fok stop=101", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 100 5 open stop=101", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 100 5 close post", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 0 5 gtd=5000", &["a Rejected UnsupportedTimeInForce"]),
        ("buy a 0 5 stop=0", &["a Rejected InvalidPrice"]),
        ("buy a 100 5 gtd=1000", &["a Rejected FieldOutOfRange"]),
        ("buy a 100 5 until=5000", &["a Rejected FieldOutOfRange"]),
        ("buy a 100 5 min=1 post", &["a Rejected InvalidQty"]),
        ("buy a 100 5 min=1 stop=101", &["a Rejected InvalidQty"]),
        ("buy a 100 5 min=1 close", &["a Rejected InvalidQty"]),
        ("buy a 100 5 open", &["a Rejected WrongPhase"]),
        ("buy a 0 5 stop=1000001", &["a Rejected InvalidPrice"]),
        ("buy a 100 5 show=6", &["a Rejected InvalidQty"]),
        ("phase halted", &["phase Halted", "done 0"]),
        ("phase opening", &["phase OpeningCall", "done 0"]),
        ("buy a 100 5 ioc", &["a Rejected WrongPhase"]),
        ("buy a 100 5 fok", &["a Rejected WrongPhase"]),
        ("buy a 100 5 post", &["a Rejected WrongPhase"]),
        ("buy a 100 5 min=1", &["a Rejected WrongPhase"]),
        ("buy a 100 5 open", &["a New 5"]),
    ]);
}

#[test]
fn the_last_moment_of_time_is_a_moment_like_any() {
    let mut desk = Desk::open();
    let request = Request::NewOrder(sell(100, 5, "a"));
    let command = weir_wire::Command::Request(numbered(request, 1_000));
    let mut events = Vec::new();
    let next = Position(desk.position + 1);
    desk.engine.apply(next, Nanos(u64::MAX), &command, &mut events);
    assert_eq!(orders(&events)[0].created_time, Nanos(u64::MAX));
}

#[test]
fn where_rows_lie_in_memory_shows_in_no_event_and_no_digest() {
    let run = |hash_seed: u64| {
        let config = EngineConfig { hash_seed, ..EngineConfig::new(HERE) };
        let mut desk = Desk::with_config(config);
        desk.furnish();
        for at in 0..200_u64 {
            let order = buy(50 + (at as i64 * 7) % 40, 1 + at % 5, "");
            desk.order(NewOrder { cl_ord_id: ClOrdId::from_number(at), ..order });
            if at % 3 == 0 {
                desk.ask(Request::CancelOrder(weir_wire::order_entry::CancelOrder {
                    orig_cl_ord_id: ClOrdId::from_number(at / 2),
                    ..cancel("")
                }));
            }
        }
        let events = desk.ask(Request::MassCancel(mass_cancel(MassCancelScope::Firm)));
        let recs: Vec<Rec> = orders(&events).iter().map(|e| e.rec).collect();
        assert!(recs.is_sorted() && recs.len() > 100);
        let mut snapshot = Vec::new();
        desk.engine.snapshot(&mut snapshot);
        (desk.events, desk.engine.digest(), snapshot)
    };
    let first = run(1);
    for seed in [2, 0xffff_ffff_ffff_ffff] {
        assert!(run(seed) == first);
    }
}

/// Continues the desk as if `last` records had been created before.
fn skip_records(desk: &mut Desk, last: u64) {
    const REC_AT: usize = 14 + 7 * 4 + 4 * 8;
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    bytes[REC_AT..REC_AT + 8].copy_from_slice(&last.to_le_bytes());
    let body_len = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..body_len]);
    bytes[body_len..].copy_from_slice(&crc.to_le_bytes());
    desk.engine =
        weir_engine::Engine::restore(desk.engine.config().clone(), &bytes).expect("it reads back");
    assert_eq!(desk.engine.last_rec(), Rec(last));
}

#[test]
fn record_numbers_that_pass_two_to_the_32_keep_age_order_and_are_found_by_number() {
    // A small window, so that most orders are in the hash table of older ones.
    let config = EngineConfig { orders_max: 12, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config);
    desk.furnish();
    // The lower half of its number recurs, 2^32 later.
    let first = desk.order(sell(100, 1, "old"))[0];
    skip_records(&mut desk, (1 << 32) - 3);
    let mut ids = vec![("old", first.order_id)];
    for text in ["a", "b", "c", "d", "e", "f"] {
        ids.push((text, desk.order(sell(100, 1, text))[0].order_id));
    }
    let recs: Vec<u64> = ids.iter().map(|(_, id)| id.rec().0).collect();
    assert_eq!(recs[1..5], [(1 << 32) - 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 1]);
    assert_eq!(recs[4] as u32, recs[0] as u32, "the same low half");
    let queue = desk.engine.orders_at(TULIP, Side::Sell, Price(100));
    assert!(queue.iter().eq(ids.iter().map(|(_, id)| id)), "the older one is first");
    desk.engine = {
        let mut bytes = Vec::new();
        desk.engine.snapshot(&mut bytes);
        weir_engine::Engine::restore(desk.engine.config().clone(), &bytes).unwrap()
    };
    for (text, order_id) in [ids[4], ids[0], ids[2]] {
        let by_number = weir_wire::order_entry::CancelOrder {
            order_id,
            orig_cl_ord_id: ClOrdId::NONE,
            ..cancel("x")
        };
        let events = orders(&desk.ask(Request::CancelOrder(by_number)));
        assert_eq!(told(&events), [format!("{text} Canceled None")]);
    }
    let events = orders(&desk.ask(Request::MassCancel(mass_cancel(MassCancelScope::Firm))));
    assert_eq!(
        events.iter().map(|e| e.cl_ord_id).collect::<Vec<_>>(),
        ["a", "c", "e", "f"].map(name)
    );
    assert_eq!(desk.engine.live_order_count(), 0);
}

fn mass_cancel(scope: MassCancelScope) -> MassCancel {
    MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: InstrumentId(0),
        account_id: RICH,
        firm_id: FirmId(0),
        partition_id: HERE,
        scope,
    }
}

/// (price, lots, orders) of each level, best first.
type Levels = &'static [(i64, u64, u32)];

#[test]
fn self_trade_prevention_leaves_no_remainder_that_it_should_not() {
    let rows: &[(&str, &[&str], Levels, Levels)] = &[
        ("newest", &["x New 8", "x Canceled SelfTrade"], &[], &[(100, 5, 1)]),
        ("oldest", &["x New 8", "a Canceled SelfTrade"], &[(100, 8, 1)], &[]),
        ("both", &["x New 8", "a Canceled SelfTrade", "x Canceled SelfTrade"], &[], &[]),
        ("decrement", &["x New 8", "a Canceled SelfTrade", "x Restated 3"], &[(100, 3, 1)], &[]),
    ];
    for (flag, want, bids, asks) in rows {
        let mut desk = Desk::open();
        step(&mut desk, "sell a 100 5");
        assert_eq!(step(&mut desk, &format!("buy x 100 8 {flag}")), *want, "{flag}");
        assert_eq!(desk.levels(Side::Buy), *bids, "{flag}");
        assert_eq!(desk.levels(Side::Sell), *asks, "{flag}");
    }
}

#[test]
fn a_decrement_makes_the_larger_resting_order_smaller() {
    let desk = check(&[
        ("sell a 100 8", &["a New 8"]),
        ("buy x 100 5 decrement", &["x New 5", "a Restated 3", "x Canceled SelfTrade"]),
    ]);
    assert_eq!(desk.levels(Side::Sell), [(100, 3, 1)]);
}

#[test]
fn post_only_takes_nothing_at_entry_and_on_replace() {
    check(&[
        ("sell a 100 5", &["a New 5"]),
        ("bob buy x 100 5 post", &["x Rejected WouldTakeLiquidity"]),
        ("bob buy x 99 5 post", &["x New 5"]),
        ("bob replace x y 100 5", &["refused WouldTakeLiquidity"]),
        ("bob replace x y 98 5", &["y Replaced 5"]),
    ]);
}

#[test]
fn a_market_order_trades_no_further_than_the_instruments_bounds() {
    let mut desk = Desk::open();
    step(&mut desk, "sell a 100 5");
    step(&mut desk, "sell b 200 5");
    let narrow =
        weir_wire::reference::DefineInstrument { price_max: Price(150), ..instrument(TULIP, HERE) };
    desk.import(Definition::DefineInstrument(narrow));
    let want = ["x New 9", "a Trade 5@100 0", "x Trade 5@100 4", "x Canceled NoLiquidity"];
    assert_eq!(step(&mut desk, "bob buy x 0 9"), want);
}

#[test]
fn a_market_buy_pays_fill_by_fill_and_stops_when_the_cash_is_out() {
    let mut desk = Desk::open();
    desk.ask(Request::Transfer(transfer(POOR, 1, 1_000, 0)));
    step(&mut desk, "bob sell a 100 5");
    step(&mut desk, "bob sell b 101 5");
    let want =
        ["x New 9", "a Trade 5@100 0", "x Trade 5@100 4", "b Trade 4@101 1", "x Trade 4@101 0"];
    assert_eq!(step(&mut desk, "buy x 0 9 poor"), want);
    let want = ["y New 1", "y Canceled InsufficientCash"];
    assert_eq!(step(&mut desk, "buy y 0 1 poor"), want);
    assert_eq!(step(&mut desk, "buy z 101 1 poor"), ["z Rejected InsufficientCash"]);
    assert_eq!(step(&mut desk, "sell w 101 10 poor"), ["w Rejected InsufficientPosition"]);
}
