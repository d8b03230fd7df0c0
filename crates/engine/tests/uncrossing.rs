//! The price of an uncrossing, checked against the rows of the page's table and against the page's
//! rule applied to every price on the tick. No price between two limits would have traded more.

mod support;

use proptest::prelude::*;
use support::play::Pair;
use weir_engine::{CallLevel, Uncrossing, uncrossing_price};
use weir_types::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/matching.md");

/// Side, limit (`None` for a market order) and lots.
type Order = (Side, Option<i64>, u64);

#[derive(Clone, Copy, Debug)]
struct At {
    price: i64,
    volume: i64,
    surplus: i64,
    is_limit: bool,
}

/// Returns the result of each price on the tick, from one tick below the lowest limit or reference
/// to one above the highest.
fn every_price(orders: &[Order], reference: Option<i64>, tick: i64) -> Vec<At> {
    let limits = || orders.iter().filter_map(|(_, limit, _)| *limit);
    let (Some(low), Some(high)) =
        (limits().chain(reference).min(), limits().chain(reference).max())
    else {
        return Vec::new();
    };
    let at = |price: i64| {
        let lots = |of: Side, takes: &dyn Fn(i64) -> bool| -> i64 {
            let of_side = orders.iter().filter(|(side, ..)| *side == of);
            of_side
                .filter(|(_, limit, _)| limit.is_none_or(takes))
                .map(|(.., lots)| *lots as i64)
                .sum()
        };
        let demand = lots(Side::Buy, &|limit| limit >= price);
        let supply = lots(Side::Sell, &|limit| limit <= price);
        let is_limit = limits().any(|limit| limit == price);
        At { price, volume: demand.min(supply), surplus: demand - supply, is_limit }
    };
    (low - tick..=high + tick).filter(|price| price % tick == 0).map(at).collect()
}

/// Applies the page's rule to every price. The price is in the range of the best limits, no best
/// limit above it leaves buys, none below it leaves sells (market orders alone have no limits and
/// trade anywhere). Of such prices it is the nearest to the reference, the higher of two; without a
/// reference the highest.
fn by_every_price(all: &[At], reference: Option<i64>) -> Option<At> {
    let has_limits = all.iter().any(|at| at.is_limit);
    let candidates = || all.iter().filter(|at| (at.is_limit || !has_limits) && at.volume > 0);
    let most = candidates().map(|at| at.volume).max()?;
    let least = candidates().filter(|at| at.volume == most).map(|at| at.surplus.abs()).min()?;
    let best: Vec<&At> =
        candidates().filter(|at| (at.volume, at.surplus.abs()) == (most, least)).collect();
    let fits = |at: &&At| {
        let above = best.iter().filter(|other| other.price > at.price);
        let below = best.iter().filter(|other| other.price < at.price);
        let is_within = best[0].price <= at.price && at.price <= best[best.len() - 1].price;
        !has_limits
            || is_within
                && above.clone().all(|o| o.surplus <= 0)
                && below.clone().all(|o| o.surplus >= 0)
    };
    let distance = |at: &At| reference.map_or(0, |reference| (at.price - reference).abs());
    all.iter().filter(fits).min_by_key(|at| (distance(at), -at.price)).copied()
}

/// Returns the book in the engine's layout: market orders at the worst price of their side.
fn levels(orders: &[Order]) -> Vec<CallLevel> {
    let level = |(side, limit, lots): &Order| {
        let (worst, buy_qty, sell_qty) = match side {
            Side::Buy => (i64::MAX, Qty(*lots), Qty(0)),
            Side::Sell => (i64::MIN, Qty(0), Qty(*lots)),
        };
        let price = Price(limit.unwrap_or(worst));
        CallLevel { price, buy_qty, sell_qty, is_limit: limit.is_some() }
    };
    let mut levels: Vec<CallLevel> = orders.iter().map(level).collect();
    levels.sort_by_key(|level| level.price);
    levels
}

fn orders(tick: i64) -> impl Strategy<Value = Vec<Order>> {
    let side = any::<bool>().prop_map(|is_buy| if is_buy { Side::Buy } else { Side::Sell });
    let limit = prop::option::weighted(0.85, (1i64..9).prop_map(move |at| at * tick));
    prop::collection::vec((side, limit, 1u64..5), 0..10)
}

/// Generates books with their tick, and a reference that may be off it.
fn books() -> impl Strategy<Value = (Vec<Order>, i64, Option<i64>)> {
    (1i64..4)
        .prop_flat_map(|tick| (orders(tick), Just(tick), prop::option::weighted(0.8, 1..10 * tick)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_price_is_the_best_of_every_price((orders, tick, reference) in books()) {
        let all = every_price(&orders, reference, tick);
        let want = by_every_price(&all, reference);
        let got = uncrossing_price(&levels(&orders), reference.map(Price), Price(tick));
        let want = want.map(|at| Uncrossing {
            price: Price(at.price),
            qty: Qty(at.volume as u64),
            surplus: at.surplus,
        });
        prop_assert_eq!(got, want);
        let Some(got) = got else { return Ok(()) };
        let (volume, surplus) = (got.qty.0 as i64, got.surplus.abs());
        for at in all {
            prop_assert!(at.volume <= volume, "{:?} trades more", at);
            let is_better = at.volume == volume && at.surplus.abs() < surplus;
            prop_assert!(!is_better || !at.is_limit, "{:?} leaves less", at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_uncross_at_the_best_of_every_price((orders, tick, reference) in books()) {
        // A definition's reference price must be one that a limit could have.
        let reference = reference.map(|price| (price / tick).max(1) * tick);
        let mut pair = Pair::open();
        pair.play(&format!("set tick={tick} reference={}", reference.unwrap_or(0)));
        pair.play("phase closed");
        pair.play("phase opening");
        for (at, (side, limit, lots)) in orders.iter().enumerate() {
            let who = if *side == Side::Buy { "buy" } else { "bob sell" };
            pair.play(&format!("{who} n{at} {} {lots}", limit.unwrap_or(0)));
        }
        let told = pair.play("phase continuous");
        let want = by_every_price(&every_price(&orders, reference, tick), reference);
        let want = match want {
            Some(at) => format!("uncrossed {}@{} {:+}", at.volume, at.price, at.surplus),
            None => "uncrossed 0@0 +0".to_owned(),
        };
        prop_assert!(told.contains(&want), "{:?} tells not {}", told, want);
    }
}

/// Returns the rows of the table below this heading, without its first two lines.
fn table<'a>(page: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let at = page.find(head).expect("the table is there");
    let rows = page[at..].lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Parses `100 @ 202, market 50` as (price, or 0 for a market order, and lots).
fn side(text: &str) -> Vec<(&str, &str)> {
    let orders = text.split(", ").filter(|order| !order.is_empty());
    orders
        .map(|order| match order.strip_prefix("market ") {
            Some(lots) => ("0", lots),
            None => {
                let (lots, price) = order.split_once(" @ ").expect("LOTS @ PRICE");
                (price, lots)
            }
        })
        .collect()
}

#[test]
fn every_row_of_the_pages_uncrossings_is_what_both_engines_do() {
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let rows = table(&page, "| bids | asks | reference | price | executed | surplus |");
    assert!(rows.len() >= 12, "{} rows", rows.len());
    for row in rows {
        let [bids, asks, reference, price, executed, surplus, ..] = row[..] else {
            panic!("six columns: {row:?}")
        };
        let mut pair = Pair::open();
        let reference = if reference == "none" { "0" } else { reference };
        pair.play(&format!("set reference={reference}"));
        pair.play("phase closed");
        pair.play("phase opening");
        for (at, (price, lots)) in side(bids).into_iter().enumerate() {
            pair.play(&format!("bob buy b{at} {price} {lots}"));
        }
        for (at, (price, lots)) in side(asks).into_iter().enumerate() {
            pair.play(&format!("sell a{at} {price} {lots}"));
        }
        let want = match price {
            "none" => "uncrossed 0@0 +0".to_owned(),
            _ => format!("uncrossed {executed}@{price} {surplus}"),
        };
        let told = pair.play("phase continuous");
        let uncrossings: Vec<_> = told.iter().filter(|e| e.starts_with("uncrossed")).collect();
        assert_eq!(uncrossings, [&want], "{row:?}");
    }
}
