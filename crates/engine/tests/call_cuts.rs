//! Market orders of a call that is priced beyond their reservations: the lots that are cut, the
//! limit that they are from then on, and the rounds of the search for the price. Both engines play
//! each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::Request;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{DefineInstrument, SchedulePhases};

/// The first of the accounts that tests define.
const FIRST: u32 = 30;

/// Returns a desk in its opening call.
fn in_opening_call(change: impl FnOnce(&mut DefineInstrument)) -> Desk {
    let config = EngineConfig {
        orders_max: 1 << 10,
        accounts_max: 1 << 6,
        positions_max: 1 << 6,
        ..EngineConfig::new(HERE)
    };
    let mut desk = Desk::with_twin(config);
    desk.furnish();
    define(&mut desk, change);
    step(&mut desk, "phase closed");
    step(&mut desk, "phase opening");
    desk
}

/// A static collar of 5 % about 1,000: buys reserve at 1,050.
fn about_1000(d: &mut DefineInstrument) {
    (d.reference_price, d.static_collar) = (Price(1_000), 500);
}

/// Defines an account of Alice's firm with so much cash and so many lots.
fn fund(desk: &mut Desk, number: u32, cash: i128, lots: i64) -> AccountId {
    let account_id = AccountId(FIRST + number);
    desk.import(account(account_id, 1, Switch::Off));
    let done = desk.ask(Request::Transfer(transfer(account_id, 1, cash, lots)));
    assert_eq!(done_of(&done[0]).affected_count, 1);
    account_id
}

fn market(side: Side, qty: u64, text: &str, account_id: AccountId) -> NewOrder {
    NewOrder { ord_type: OrdType::Market, account_id, ..limit(side, 0, qty, text) }
}

/// Enters a market order, which must be accepted.
fn enter(desk: &mut Desk, order: NewOrder) {
    let told = desk.order(order);
    assert_eq!((told[0].exec_type, told.len()), (ExecType::New, 1), "{told:?}");
}

/// Begins continuous trading whatever the collars are; returns the events.
fn open(desk: &mut Desk) -> Vec<String> {
    let told = step(desk, "phase continuous override");
    assert_eq!(desk.engine.debtor_count(), 0);
    assert!(desk.naive.as_ref().is_some_and(|naive| naive.debts().is_empty()));
    told
}

/// Each round of the search skipped the orders that had no lots left, which gave their reservations
/// to later orders in one round and not in the next: 401 rounds, and no order could pay.
#[test]
fn four_hundred_orders_of_one_account_are_cut_in_two_rounds() {
    let mut desk = in_opening_call(about_1000);
    let poor = fund(&mut desk, 0, 400 * 1_050, 0);
    for number in 0..400 {
        enter(&mut desk, market(Side::Buy, 1, &format!("m{number}"), poor));
    }
    step(&mut desk, "bob sell s 1051 400");
    let told = open(&mut desk);
    assert_eq!(desk.engine.call_rounds(), 2);
    assert_eq!(told[..2], ["m0 Canceled InsufficientCash", "m1 Trade 1@1051 0"]);
    assert_eq!(told.iter().filter(|text| text.contains("Canceled")).count(), 1);
    assert!(told.contains(&"uncrossed 399@1051 -1".to_owned()), "{told:?}");

    // One order of as many lots trades the same.
    let mut desk = in_opening_call(about_1000);
    let poor = fund(&mut desk, 0, 400 * 1_050, 0);
    enter(&mut desk, market(Side::Buy, 400, "m", poor));
    step(&mut desk, "bob sell s 1051 400");
    assert_eq!(open(&mut desk)[0], "m Trade 399@1051 1");
    assert_eq!(desk.engine.call_rounds(), 2);
}

/// Orders that could not pay an inflated price were out for good, with all others' that had
/// reserved in full: the call then traded without them at a price that they could pay.
#[test]
fn an_inflated_price_removes_no_order_that_can_pay_the_last_one() {
    for (honest_comes_first, want) in [
        (true, ["h Trade 1@1050 0", "p Trade 5@1050 5", "p Canceled NoLiquidity"]),
        (false, ["p Trade 6@1050 4", "p Canceled NoLiquidity", "h Canceled NoLiquidity"]),
    ] {
        let mut desk = in_opening_call(about_1000);
        let attacker = fund(&mut desk, 0, 10_500, 0);
        let honest = fund(&mut desk, 1, 1_050, 0);
        let mut orders = [market(Side::Buy, 10, "p", attacker), market(Side::Buy, 1, "h", honest)];
        if honest_comes_first {
            orders.reverse();
        }
        for order in orders {
            enter(&mut desk, order);
        }
        // At 20,000 eleven lots would trade, of which nobody can pay one.
        step(&mut desk, "bob sell s 1000 6");
        step(&mut desk, "bob sell t 20000 9");
        let told = step(&mut desk, "phase continuous");
        assert!(told.contains(&"uncrossed 6@1050 +5".to_owned()), "{told:?}");
        let of_buys = told.iter().filter(|text| text.starts_with(['p', 'h']) && !is_phase(text));
        assert_eq!(of_buys.collect::<Vec<_>>(), want);
    }
}

fn is_phase(text: &str) -> bool {
    text.starts_with("phase")
}

#[test]
fn lots_that_cannot_be_paid_move_the_price_to_their_reservation_at_most() {
    let mut desk = in_opening_call(about_1000);
    desk.ask(Request::Transfer(transfer(POOR, 1, 10_500, 0)));
    for text in ["buy a 0 10 poor", "buy b 1000 1", "bob sell s 1000 1", "bob sell t 20000 9"] {
        step(&mut desk, text);
    }
    // At 20,000 ten lots would trade, of which the account can pay none.
    check_on(
        &mut desk,
        &[(
            "phase continuous",
            &[
                "a Trade 1@1050 9",
                "s Trade 1@1050 0",
                "uncrossed 1@1050 +9",
                "a Canceled NoLiquidity",
                "phase Continuous",
                "done 1",
            ],
        )],
    );
    assert_eq!(desk.engine.call_rounds(), 2);
}

#[test]
fn without_a_price_none_is_cut() {
    let mut desk = in_opening_call(about_1000);
    let poor = fund(&mut desk, 0, 1_050, 0);
    enter(&mut desk, market(Side::Buy, 1, "a", poor));
    step(&mut desk, "bob sell s 1100 1");
    let want = ["uncrossed 0@0 +0", "a Canceled NoLiquidity", "phase Continuous", "done 1"];
    assert_eq!(open(&mut desk), want);
}

#[test]
fn a_limit_off_the_tick_suggests_the_nearest_price_that_it_pays() {
    let mut desk = in_opening_call(|d| {
        (d.tick_size, d.reference_price, d.static_collar) = (Price(100), Price(1_000), 550);
    });
    let poor = fund(&mut desk, 0, 2_110, 0);
    enter(&mut desk, market(Side::Buy, 2, "a", poor));
    for text in ["bob sell s 900 1", "bob sell t 9900 9"] {
        step(&mut desk, text);
    }
    // 1,055 is reserved.
    let told = step(&mut desk, "phase continuous");
    assert_eq!(told[..3], ["a Trade 1@1000 1", "s Trade 1@1000 0", "uncrossed 1@1000 +1"]);
}

/// With prices of both signs a cut of buys moved the price below zero, where sells were cut, which
/// moved it above zero, and so on: 22 rounds of this book, as many as its ladders have rungs.
#[test]
fn prices_of_both_signs_end_in_a_few_rounds() {
    let mut desk = in_opening_call(|d| {
        (d.price_min, d.price_max) = (Price(-10_000), Price(10_000));
        (d.reference_price, d.static_collar) = (Price(1), 20_000);
    });
    let buyer = fund(&mut desk, 0, 100_000, 0);
    let seller = fund(&mut desk, 1, 100_000, 260);
    enter(&mut desk, market(Side::Buy, 261, "p", buyer));
    enter(&mut desk, market(Side::Sell, 260, "q", seller));
    // The price of each rung is the one at which an account can pay its next number of lots.
    let mut lots = 260;
    for rung in 1..=20 {
        lots -= rung + 1;
        let price = 100_000 / lots;
        step(&mut desk, &format!("bob sell s{rung} {price} 1"));
        step(&mut desk, &format!("bob buy b{rung} -{price} 1"));
    }
    let told = open(&mut desk);
    assert_eq!(told[..3], ["p Trade 260@3 1", "q Trade 260@3 0", "uncrossed 260@3 +1"]);
    assert!(desk.engine.call_rounds() <= 8 + 2 + 1, "{} rounds", desk.engine.call_rounds());
}

/// Pairs of orders of an account each: the earlier one has reserved more, and pays a lot of the
/// later one as long as the price is beyond its own limit. Each cut moves the price to the limit of
/// the next pair. From the ninth round on all lots beyond their limits are cut at once.
#[test]
fn orders_of_many_reservations_are_cut_to_these_behind_the_eighth_round() {
    const PAIRS: u32 = 20;
    let mut desk = in_opening_call(|d| (d.reference_price, d.static_collar) = (Price(1), 10_000));
    for pair in 0..PAIRS {
        let limit = 1_000 - 10 * i128::from(pair);
        let account_id = fund(&mut desk, pair, limit + 500, 0);
        step(&mut desk, &format!("reference static={}", limit / 2));
        enter(&mut desk, market(Side::Buy, 1, &format!("e{pair}"), account_id));
        step(&mut desk, "reference static=1");
        enter(&mut desk, market(Side::Buy, 250, &format!("l{pair}"), account_id));
    }
    step(&mut desk, &format!("bob sell s 700 {}", PAIRS + 1));
    step(&mut desk, "bob sell t 1005 20000");
    let told = open(&mut desk);
    assert_eq!(desk.engine.call_rounds(), 10, "eight, the one that cuts all, and the last");
    assert!(told.contains(&"uncrossed 20@700 -1".to_owned()), "{told:?}");
    let of = |what: &str| told.iter().filter(|text| text.contains(what)).count();
    assert_eq!(of("Canceled InsufficientCash"), 20, "the later ones: no lot at 700");
    assert_eq!(of("Trade 1@700 0"), 20, "the earlier ones");
}

/// Enters lots that are cut to 1,050, where they take all that is offered at 1,000, and crossed
/// limits behind these.
fn cross_behind_cut_lots(desk: &mut Desk, price: i64) {
    desk.ask(Request::Transfer(transfer(POOR, 1, 10_500, 0)));
    step(desk, "buy m 0 10 poor");
    step(desk, &format!("buy b {price} 1"));
    step(desk, "bob sell x 1000 10");
    step(desk, &format!("bob sell y {price} 1"));
}

const FIRST_PRICE: [&str; 3] = ["m Trade 10@1050 0", "x Trade 10@1050 0", "uncrossed 10@1050 +1"];

/// Only the first price of an uncrossing was compared with the collars. Cut lots count as a limit
/// and trade ahead of better ones, which then traded at 20,000.
#[test]
fn a_further_price_beyond_a_collar_waits_for_a_volatility_call() {
    // 1,100 is within the collar of the first price.
    for price in [20_000, 1_100] {
        let mut desk = in_opening_call(about_1000);
        cross_behind_cut_lots(&mut desk, price);
        let told = step(&mut desk, "phase continuous");
        assert_eq!(told[..3], FIRST_PRICE);
        assert_eq!(told[3..], ["phase VolatilityCall", "done 0"], "{price}");
        assert_eq!(desk.levels(Side::Buy), [(price, 1, 1)]);
        assert_eq!(desk.levels(Side::Sell), [(price, 1, 1)]);
    }
}

#[test]
fn a_further_price_within_the_collars_of_before_trades_at_once() {
    // m may not sell below 970, its bound, and takes all demand there.
    let mut desk = in_opening_call(about_1000);
    step(&mut desk, "bob sell s 960 120");
    for text in ["buy c 970 150", "buy d 960 30"] {
        step(&mut desk, text);
    }
    define(&mut desk, |d| {
        about_1000(d);
        d.price_min = Price(970);
    });
    step(&mut desk, "bob sell m 0 160");
    let told = step(&mut desk, "phase continuous");
    let uncrossed = ["uncrossed 150@970 -130", "uncrossed 30@960 -90"];
    assert!(uncrossed.iter().all(|text| told.contains(&(*text).to_owned())), "{told:?}");
    assert!(told.contains(&"phase Continuous".to_owned()), "{told:?}");
}

#[test]
fn a_volatility_call_that_is_ended_early_begins_anew_at_a_further_price_beyond_a_collar() {
    let mut desk = in_opening_call(|d| {
        about_1000(d);
        d.volatility_call = Nanos(500);
    });
    for text in ["phase continuous", "at 5000", "phase volatility"] {
        step(&mut desk, text);
    }
    cross_behind_cut_lots(&mut desk, 20_000);
    step(&mut desk, "at 5200");
    let told = step(&mut desk, "phase continuous");
    assert_eq!(told[..3], FIRST_PRICE);
    assert_eq!(told[3..], ["phase VolatilityCall", "done 0"]);
    assert_eq!(desk.engine.next_deadline(), Some(Nanos(5_700)));
    let last =
        ["b Trade 1@20000 0", "y Trade 1@20000 0", "uncrossed 1@20000 +0", "phase Continuous"];
    check_on(
        &mut desk,
        &[
            ("phase continuous", &["refused BeyondCollar"]),
            ("at 5500", &[]),
            ("tick", &[]),
            ("at 5700", &[]),
            ("tick", &last),
        ],
    );
}

#[test]
fn a_scheduled_opening_waits_at_a_further_price_beyond_a_collar() {
    let mut desk = in_opening_call(about_1000);
    cross_behind_cut_lots(&mut desk, 20_000);
    step(&mut desk, "schedule 5000 continuous");
    step(&mut desk, "at 5000");
    let told = step(&mut desk, "tick");
    assert_eq!(told[..3], FIRST_PRICE);
    assert_eq!(told[3..], ["phase VolatilityCall"]);
}

/// A change that was filed twice, for all and for the instrument's own, ended the volatility call
/// in the command that began it, with the first price as reference: each walked one more collar.
#[test]
fn a_change_filed_twice_does_not_end_the_volatility_call_that_it_began() {
    let mut desk = in_opening_call(|d| {
        about_1000(d);
        d.volatility_call = Nanos(500);
    });
    cross_behind_cut_lots(&mut desk, 1_100);
    for at in [5_000, 5_100] {
        step(&mut desk, &format!("schedule {at} continuous"));
        let of_all = SchedulePhases {
            request_no: RequestNo(0),
            at: Nanos(at),
            session_id: OPERATOR,
            group_id: GroupId::NONE,
            instrument_id: InstrumentId::NONE,
            partition_id: HERE,
            count: 0,
            phase: Phase::Continuous,
            step: ScheduleStep::File,
        };
        let filed = desk.ask(Request::SchedulePhases(of_all));
        assert_eq!(done_of(&filed[0]).affected_count, 1);
    }
    // The ticks are late, so that all four are due.
    step(&mut desk, "at 5200");
    let told = step(&mut desk, "tick");
    assert_eq!(told[..3], FIRST_PRICE);
    assert_eq!(told[3..], ["phase VolatilityCall"]);
    assert_eq!(
        (desk.engine.filed_change_count(), desk.engine.next_deadline()),
        (0, Some(Nanos(5_700)))
    );
    step(&mut desk, "at 5700");
    let told = step(&mut desk, "tick");
    assert!(told.contains(&"phase Continuous".to_owned()), "{told:?}");
}

#[test]
fn an_override_a_close_and_the_end_of_a_calls_time_trade_at_every_further_price() {
    for (end, phase) in [
        ("phase continuous override", "phase Continuous"),
        ("phase closed", "phase Closed"),
        ("tick", "phase Continuous"),
    ] {
        let mut desk = in_opening_call(|d| {
            about_1000(d);
            d.volatility_call = Nanos(500);
        });
        if end == "tick" {
            for text in ["phase continuous", "at 5000", "phase volatility"] {
                step(&mut desk, text);
            }
        }
        cross_behind_cut_lots(&mut desk, 20_000);
        step(&mut desk, "at 5500");
        let told = step(&mut desk, end);
        assert_eq!(told[..3], FIRST_PRICE, "{end}");
        let further = ["b Trade 1@20000 0", "y Trade 1@20000 0", "uncrossed 1@20000 +0", phase];
        assert_eq!(told[3..7], further, "{end}");
    }
}

/// Trades at the first price reach stops once continuous trading begins.
#[test]
fn stops_see_the_first_price_behind_the_volatility_call() {
    let mut desk = in_opening_call(about_1000);
    cross_behind_cut_lots(&mut desk, 20_000);
    step(&mut desk, "sell s 1 1 stop=1050");
    step(&mut desk, "phase continuous");
    let told = step(&mut desk, "phase continuous override");
    assert!(told.contains(&"s Triggered None".to_owned()), "{told:?}");
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_cuts_is_found() {
    use weir_engine::plant::Plant;
    assert_each_is_found(&[
        (Plant::CutLotsStayOut, an_inflated_price_removes_no_order_that_can_pay_the_last_one),
        (
            Plant::FurtherPricesUnchecked,
            a_further_price_beyond_a_collar_waits_for_a_volatility_call,
        ),
    ]);
}

#[cfg(feature = "planted")]
#[test]
fn scripts_find_the_planted_bug_of_further_prices() {
    let found = commands_until_a_difference(weir_engine::plant::Plant::FurtherPricesUnchecked);
    println!("{found:?}");
    assert!(found.is_some());
}
