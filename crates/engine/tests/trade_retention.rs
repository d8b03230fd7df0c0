//! Trades that can be busted: for a span of log time, and so many at most. Both engines play each
//! test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig, RetainedTrades, SnapshotError};
use weir_types::*;
use weir_wire::Command;
use weir_wire::order_entry::NewOrder;

const SPAN: Nanos = Nanos(1_000);

fn config(trades_max: u32) -> EngineConfig {
    EngineConfig { trades_max, trades_span: SPAN, ..EngineConfig::new(HERE) }
}

fn twins(trades_max: u32) -> Desk {
    let mut desk = Desk::with_twin(config(trades_max));
    desk.furnish();
    desk.clock = 10_000;
    desk
}

/// Makes Alice and Bob trade one lot at a price.
fn trade(desk: &mut Desk, price: i64) {
    step(desk, &format!("sell m{price} {price} 1"));
    let told = step(desk, &format!("bob buy t{price} {price} 1"));
    assert_eq!(told[2], format!("t{price} Trade 1@{price} 0"));
}

fn retained(count: u64, oldest: u64, oldest_time: u64) -> RetainedTrades {
    RetainedTrades { count, oldest: MatchId(oldest), oldest_time: Nanos(oldest_time) }
}

#[test]
fn a_trade_can_be_busted_for_the_span_and_no_longer() {
    let mut desk = twins(64);
    assert_eq!(desk.engine.retained_trades(), RetainedTrades::default());
    trade(&mut desk, 100);
    trade(&mut desk, 101);
    desk.clock = 10_600;
    trade(&mut desk, 102);
    desk.clock = 11_000;
    check_on(&mut desk, &[("bust 1", &["busted Buy 1@100", "busted Sell 1@100", "done 2"])]);
    assert_eq!(desk.engine.retained_trades(), retained(3, 1, 10_000));
    desk.restart();
    desk.clock = 11_001;
    check_on(
        &mut desk,
        &[
            ("bust 2", &["refused TradeTooOld"]),
            ("bust 2 force", &["refused TradeTooOld"]),
            ("bust 1", &["refused TradeTooOld"]),
            ("bust 4", &["refused UnknownTrade"]),
            ("bust 0", &["refused UnknownTrade"]),
        ],
    );
    assert_eq!(desk.engine.retained_trades(), retained(1, 3, 10_600));
    // The price of the one that is too old counts.
    let told = ["busted Buy 1@102", "busted Sell 1@102", "references 101 none", "done 2"];
    check_on(&mut desk, &[("bust 3", &told), ("bust 3", &["refused UnknownTrade"])]);
}

#[test]
fn a_trade_that_later_ones_displaced_is_too_old_before_its_span_ends() {
    let mut desk = twins(2);
    for price in [100, 101, 102] {
        trade(&mut desk, price);
    }
    assert_eq!(desk.engine.retained_trades(), retained(2, 2, 10_000));
    check_on(
        &mut desk,
        &[
            ("bust 1", &["refused TradeTooOld"]),
            ("bust 2", &["busted Buy 1@101", "busted Sell 1@101", "done 2"]),
            ("bust 2", &["refused UnknownTrade"]),
        ],
    );
}

#[test]
fn a_crowd_of_old_trades_holds_up_no_trade_and_keeps_its_last_price() {
    let mut desk = twins(64);
    for price in 100..110 {
        trade(&mut desk, price);
    }
    desk.clock = 20_000;
    assert_eq!(desk.engine.retained_trades().count, 10, "as of the last command");
    trade(&mut desk, 200);
    assert_eq!(desk.engine.retained_trades(), retained(1, 11, 20_000));
    check_on(&mut desk, &[("bust 5", &["refused TradeTooOld"])]);
    desk.restart();
    let told = ["busted Buy 1@200", "busted Sell 1@200", "references 109 none", "done 2"];
    check_on(&mut desk, &[("bust 10", &["refused TradeTooOld"]), ("bust 11", &told)]);
    for price in 201..207 {
        trade(&mut desk, price);
    }
    assert_eq!(desk.engine.retained_trades(), retained(7, 11, 20_000));
}

#[test]
fn old_auctions_leave_their_price_to_the_static_reference() {
    let mut desk = twins(64);
    for text in ["phase closed", "phase opening", "sell a 100 1", "bob buy x 100 1"] {
        step(&mut desk, text);
    }
    step(&mut desk, "phase continuous");
    desk.clock = 20_000;
    for price in [101, 102, 103] {
        trade(&mut desk, price);
    }
    for text in ["phase closing", "sell b 110 1", "bob buy y 110 1", "phase closed"] {
        step(&mut desk, text);
    }
    let told = ["busted Buy 1@110", "busted Sell 1@110", "references 103 100", "done 2"];
    check_on(&mut desk, &[("bust 1", &["refused TradeTooOld"]), ("bust 5", &told)]);
}

#[test]
fn a_span_without_end_never_ends() {
    let mut desk =
        Desk::with_twin(EngineConfig { trades_span: Nanos(u64::MAX), ..EngineConfig::new(HERE) });
    desk.furnish();
    trade(&mut desk, 100);
    desk.clock = u64::MAX - 1;
    let told = ["busted Buy 1@100", "busted Sell 1@100", "references none none", "done 2"];
    check_on(&mut desk, &[("bust 1", &told)]);
}

#[test]
fn a_snapshot_with_trades_out_of_order_is_refused() {
    let mut desk = twins(64);
    trade(&mut desk, 100);
    desk.clock = 10_600;
    trade(&mut desk, 101);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    for time in [9_999, 10_601] {
        let refused = Engine::restore(config(64), &retimed(&bytes, [10_600, time], 101)).err();
        assert_eq!(refused, Some(SnapshotError::Invalid("trade")), "{time}");
    }
}

/// Returns a snapshot in which the time of the trade of one lot at a price is another.
fn retimed(bytes: &[u8], [from, to]: [u64; 2], price: u64) -> Vec<u8> {
    // Time, price and lots.
    let row =
        |time: u64| [time, price, 1].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let at = bytes.windows(24).position(|bytes| *bytes == row(from)).expect("it is there");
    let mut body = bytes[..bytes.len() - 4].to_vec();
    body[at..at + 24].copy_from_slice(&row(to));
    let crc = crc32c::crc32c(&body);
    body.extend_from_slice(&crc.to_le_bytes());
    body
}

/// The digest had no part of the trades that can be busted: their number followed from the last one
/// while they were kept by count alone.
#[test]
fn a_replica_that_can_bust_other_trades_is_found_at_the_next_checkpoint() {
    let config = EngineConfig { checkpoint_interval: 64, ..config(64) };
    let mut desk = Desk::with_twin(config.clone());
    desk.furnish();
    desk.clock = 10_000;
    trade(&mut desk, 100);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let checkpoint_of = |bytes: &[u8]| {
        let mut engine = Engine::restore(config.clone(), bytes).expect("it reads back");
        let mut events = Vec::new();
        while engine.position() < Position(64) {
            engine.apply(engine.position().next(), Nanos(10_800), &Command::Tick, &mut events);
        }
        (engine.digest(), engine.retained_trades().count)
    };
    let right = checkpoint_of(&bytes);
    assert_eq!(right.1, 1);
    let of_earlier = checkpoint_of(&retimed(&bytes, [10_000, 9_500], 100));
    assert_eq!(of_earlier.1, 0, "its span is over");
    assert_ne!(of_earlier.0, right.0);
}

/// The search for the prices behind a bust went on to the oldest of all trades where the instrument
/// had no other: over a million rows of a full ring.
#[test]
fn a_bust_looks_no_further_back_than_the_instruments_oldest_trade() {
    let mut desk = twins(1 << 10);
    for price in 100..130 {
        trade(&mut desk, price);
    }
    let of_rose = |order: NewOrder| NewOrder { instrument_id: ROSE, ..order };
    desk.order(of_rose(NewOrder { account_id: MAKER, ..sell(50, 1, "r") }));
    let told = desk.order(of_rose(bob(buy(50, 1, "q"))));
    assert!(told.iter().any(|event| event.match_id == MatchId(31)), "{told:?}");
    for price in 130..133 {
        trade(&mut desk, price);
    }
    desk.restart();
    let told = ["busted Buy 1@50", "busted Sell 1@50", "references none none", "done 2"];
    check_on(&mut desk, &[("bust 31", &told)]);
    assert_eq!(desk.engine.trades_visited(), 4, "three later ones and itself");

    // Trades that make room are not counted any more.
    desk.clock = 20_000;
    for price in 200..220 {
        trade(&mut desk, price);
    }
    desk.order(of_rose(NewOrder { account_id: MAKER, ..sell(51, 1, "s") }));
    desk.order(of_rose(bob(buy(51, 1, "u"))));
    let told = ["busted Buy 1@51", "busted Sell 1@51", "references none none", "done 2"];
    check_on(&mut desk, &[("bust 55", &told)]);
    assert_eq!(desk.engine.trades_visited(), 1);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_retention_is_found() {
    use weir_engine::plant::{Plant, set};
    set(Some(Plant::TradesKeptByCount));
    let is_found =
        std::panic::catch_unwind(a_trade_can_be_busted_for_the_span_and_no_longer).is_err();
    set(None);
    assert!(is_found);
}
