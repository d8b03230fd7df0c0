//! Last prices and references: of the trades that remain behind busts, of operators, of the
//! session. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;

fn twins_with(trades_max: u32) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig { trades_max, ..EngineConfig::new(HERE) });
    desk.furnish();
    desk
}

fn twins() -> Desk {
    twins_with(64)
}

/// Makes Alice and Bob trade one lot at a price.
fn trade(desk: &mut Desk, price: i64) {
    step(desk, &format!("sell m{price} {price} 1"));
    let told = step(desk, &format!("bob buy t{price} {price} 1"));
    assert_eq!(told[2], format!("t{price} Trade 1@{price} 0"));
}

fn last_price(desk: &Desk) -> Option<i64> {
    let tulip = desk.engine.instruments().next().expect("the desk has instruments");
    tulip.last_price.map(|price| price.0)
}

#[test]
fn a_bad_print_does_not_outlive_its_bust() {
    let mut desk = twins();
    trade(&mut desk, 1_000);
    trade(&mut desk, 10);
    desk.restart();
    check_on(
        &mut desk,
        &[
            ("bust 2", &["busted Buy 1@10", "busted Sell 1@10", "references 1000 none", "done 2"]),
            ("bob sell s 0 1 stop=900", &["s New 1"]),
            (
                "bust 1",
                &["busted Buy 1@1000", "busted Sell 1@1000", "references none none", "done 2"],
            ),
        ],
    );
}

#[test]
fn a_bust_of_an_earlier_trade_leaves_the_last_price() {
    let mut desk = twins();
    trade(&mut desk, 1_000);
    trade(&mut desk, 1_010);
    check_on(&mut desk, &[("bust 1", &["busted Buy 1@1000", "busted Sell 1@1000", "done 2"])]);
    assert_eq!(last_price(&desk), Some(1_010));
}

#[test]
fn behind_a_bust_a_trade_too_old_to_be_busted_counts() {
    let mut desk = twins_with(2);
    for price in [100, 101, 102] {
        trade(&mut desk, price);
    }
    desk.restart();
    for (text, references) in [("bust 3", "references 101 none"), ("bust 2", "references 100 none")]
    {
        assert_eq!(step(&mut desk, text)[2], references);
    }
    assert_eq!(step(&mut desk, "bust 1"), ["refused TradeTooOld"]);
}

#[test]
fn a_busted_trade_that_is_too_old_by_then_counts_no_more() {
    let mut desk = twins_with(2);
    trade(&mut desk, 100);
    step(&mut desk, "bust 1");
    for price in [101, 102] {
        trade(&mut desk, price);
    }
    step(&mut desk, "bust 2");
    assert_eq!(step(&mut desk, "bust 3")[2], "references none none");
}

#[test]
fn a_bad_auction_leaves_the_static_reference_with_its_last_bust() {
    let mut desk = twins();
    for text in ["phase closed", "phase opening", "sell a 100 2", "bob buy x 100 2"] {
        step(&mut desk, text);
    }
    assert_eq!(step(&mut desk, "phase continuous")[2], "uncrossed 2@100 +0");
    for text in ["phase closing", "sell b 10 2", "bob buy y 10 1", "bob buy z 10 1"] {
        step(&mut desk, text);
    }
    assert_eq!(step(&mut desk, "phase closed")[4], "uncrossed 2@10 +0");
    let references = |told: Vec<String>| told.into_iter().find(|text| text.starts_with("ref"));
    assert_eq!(references(step(&mut desk, "bust 2")), None, "a trade of the auction remains");
    assert_eq!(references(step(&mut desk, "bust 3")).unwrap(), "references 100 100");
}

#[test]
fn an_operators_reference_holds_until_a_trade_and_no_bust_of_before_changes_it() {
    let mut desk = twins();
    trade(&mut desk, 1_000);
    check_on(
        &mut desk,
        &[
            ("reference last=500 static=505", &["references 500 505", "done 0"]),
            ("bust 1", &["busted Buy 1@1000", "busted Sell 1@1000", "done 2"]),
        ],
    );
    desk.restart();
    trade(&mut desk, 510);
    assert_eq!(step(&mut desk, "bust 2")[2], "references 500 505");
    check_on(
        &mut desk,
        &[
            ("reference last=0 static=0", &["references none none", "done 0"]),
            ("reference", &["refused FieldOutOfRange"]),
            ("reference last=2000000", &["refused InvalidPrice"]),
        ],
    );
}

#[test]
fn collars_are_measured_from_an_operators_references() {
    let mut desk = twins();
    define(&mut desk, |d| (d.static_collar, d.dynamic_collar) = (1_000, 1_000));
    trade(&mut desk, 1_000);
    // A split: a tenth of the price.
    step(&mut desk, "reference last=100 static=100");
    trade(&mut desk, 105);
    step(&mut desk, "sell far 116 1");
    assert_eq!(step(&mut desk, "bob buy x 116 1")[1], "phase VolatilityCall");
}

#[test]
fn a_stop_does_not_look_at_yesterdays_last_price() {
    let mut desk = twins();
    trade(&mut desk, 90);
    for text in ["bob sell s 0 1 stop=85", "phase closing", "phase closed", "phase opening"] {
        step(&mut desk, text);
    }
    check_on(
        &mut desk,
        &[
            ("bob sell t 0 1 stop=95", &["t New 1"]),
            ("phase continuous", &["uncrossed 0@0 +0", "phase Continuous", "done 0"]),
            ("bob sell u 0 1 stop=95", &["u New 1"]),
            ("reference last=80", &["references 80 none", "done 0"]),
        ],
    );
    desk.restart();
    step(&mut desk, "sell m 95 1");
    let told = step(&mut desk, "bob buy n 95 1");
    assert!(told.contains(&"t Triggered None".to_owned()), "{told:?}");
    assert!(told.contains(&"u Triggered None".to_owned()), "{told:?}");
}

#[test]
fn a_halt_of_a_closed_market_begins_no_session() {
    let mut desk = twins();
    trade(&mut desk, 90);
    for text in ["phase closed", "phase halted", "resume", "bust 1", "phase continuous"] {
        step(&mut desk, text);
    }
    assert_eq!(last_price(&desk), None);
    check_on(&mut desk, &[("bob sell s 0 1 stop=95", &["s New 1"])]);
}

#[test]
fn a_trade_before_an_interruption_reaches_no_stop_behind_its_bust() {
    let mut desk = twins();
    define(&mut desk, |d| d.dynamic_collar = 1_000);
    trade(&mut desk, 100);
    for text in ["bob sell s 0 1 stop=95", "buy b 94 1", "buy a 80 1"] {
        step(&mut desk, text);
    }
    let told = step(&mut desk, "bob sell x 80 2");
    assert_eq!(told[3], "phase VolatilityCall");
    desk.restart();
    step(&mut desk, "bust 2");
    for text in ["cancel a", "bob cancel x"] {
        step(&mut desk, text);
    }
    let told = step(&mut desk, "phase continuous");
    assert_eq!(told, ["uncrossed 0@0 +0", "phase Continuous", "done 0"]);
}
