//! Trades that can be busted: for a span of log time, and so many at most. Both engines play each
//! test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig, RetainedTrades, SnapshotError};
use weir_types::*;

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

fn restart(desk: &mut Desk) {
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    desk.engine =
        Engine::restore(desk.engine.config().clone(), &bytes).expect("a snapshot reads back");
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
    restart(&mut desk);
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
    restart(&mut desk);
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
    // Time, price and lots of the second trade.
    let row = |time: u64| [time, 101, 1].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let at = bytes.windows(24).position(|bytes| *bytes == row(10_600)).expect("it is there");
    for time in [9_999, 10_601] {
        let mut body = bytes[..bytes.len() - 4].to_vec();
        body[at..at + 24].copy_from_slice(&row(time));
        let crc = crc32c::crc32c(&body);
        body.extend_from_slice(&crc.to_le_bytes());
        let refused = Engine::restore(config(64), &body).err();
        assert_eq!(refused, Some(SnapshotError::Invalid("trade")), "{time}");
    }
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
