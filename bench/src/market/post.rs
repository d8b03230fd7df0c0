//! `weir-bench market-post`: the cost of post-processing: sending datagrams to the audit's queue,
//! writing audits, building bars of trades, and sending and aggregating the events of statistics.
//!
//! Each figure is the median of the rounds. Payloads consist of a counter, prices and sizes of a
//! few values, and some noise, so that they compress about like market data; the ratio is printed.
//! The queue is emptied between bursts that fit it, outside the measured time. Audits, bars and
//! statistics are written to a temporary directory. Of four events of statistics, three are orders
//! and one is a quote; there are as many as trades.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_feed::capture::Datagram;
use weir_feed::capture::audit::LineNo;
use weir_feed::{TradeFlags, Venue};
use weir_market::bar::{BarBuilder, BarBuilderConfig, BarTrade};
use weir_market::book::TradePrint;
use weir_market::interval::{Activity, OrderAct, Quote, QuoteChange};
use weir_marketgate::post::audit::{AuditWriter, SendOutcome, audit_queue};
use weir_marketgate::post::{
    AuditSection, Bars, BarsSection, EventSelection, FileSystem, PostEvent, Statistics,
    StatisticsSection, post_events,
};
use weir_types::{InstrumentId, Nanos, Price, Qty};

/// The number of datagrams between two clock readings: fewer than the queue holds.
const BURST: u64 = 10_000;
const START: u64 = 1_790_000_000_000_000_000;

/// Options of `weir-bench market-post`.
#[derive(Debug, clap::Args)]
pub struct PostArgs {
    /// Datagrams of a round.
    #[arg(long, default_value_t = 1_000_000)]
    datagrams: u64,
    /// Bytes of a datagram.
    #[arg(long, default_value_t = 500)]
    bytes: u64,
    /// Trades of a round, and events of statistics.
    #[arg(long, default_value_t = 2_000_000)]
    trades: u64,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
}

fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns payloads of 36-byte messages, like those of an order-by-order feed.
fn payloads(count: usize, len: usize) -> Vec<Vec<u8>> {
    let mut chance = 0x9e37_79b9_7f4a_7c15;
    let mut order = 0_u64;
    (0..count)
        .map(|_| {
            let mut payload = b"WEIR00001A\0\0\0\0".to_vec();
            while payload.len() < len {
                let noise = draw(&mut chance);
                order += noise % 7;
                payload.extend_from_slice(b"A\0");
                payload.extend_from_slice(&(noise as u16 % 9_000).to_be_bytes());
                payload.extend_from_slice(&(34_200_000_000_000 + order * 900).to_be_bytes()[2..]);
                payload.extend_from_slice(&order.to_be_bytes());
                payload.push(if noise & 1 == 0 { b'B' } else { b'S' });
                payload.extend_from_slice(&((noise >> 20) as u32 % 10 * 100).to_be_bytes());
                payload.extend_from_slice(b"AAPL    ");
                payload.extend_from_slice(&(1_700_000 + (noise >> 40) as u32 % 500).to_be_bytes());
            }
            payload.truncate(len);
            payload
        })
        .collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

struct Audit {
    send_ns: f64,
    write_mb_s: f64,
    ratio: f64,
}

/// Sends bursts, and writes them in between.
fn audit(count: u64, payloads: &[Vec<u8>]) -> Audit {
    let dir = tempfile::tempdir().expect("a directory");
    let config = AuditSection { dir: dir.path().to_owned(), ..AuditSection::default() };
    let (mut sender, mut receiver) = audit_queue(config.queue_bytes as usize, 2);
    let lines = ["A".to_owned(), "B".to_owned()];
    let mut writer =
        AuditWriter::new(&config, &lines, Box::new(FileSystem)).expect("a directory to write to");
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (src, dst) = (address("10.0.0.1:4000"), address("233.54.12.111:26477"));
    let (mut sending, mut writing, mut number) = (Duration::ZERO, Duration::ZERO, 0);
    while number < count {
        let end = (number + BURST).min(count);
        let began = Instant::now();
        while number < end {
            let at = Nanos(START + number * 1_000);
            let payload = &payloads[number as usize % payloads.len()];
            let datagram = Datagram { ts_recv: at, src, dst, payload };
            let handed = sender.send(LineNo(number as u16 % 2), Nanos(at.0 + 250), &datagram);
            assert_eq!(handed, SendOutcome::Taken, "a burst fits");
            number += 1;
        }
        sending += began.elapsed();
        let began = Instant::now();
        let now = Nanos(START + number * 1_000);
        receiver.take(usize::MAX, &mut |record| writer.record(record, now));
        writing += began.elapsed();
    }
    let began = Instant::now();
    writer.finish(Nanos(START + number * 1_000));
    writing += began.elapsed();
    let figures = writer.figures();
    assert_eq!((figures.datagrams, figures.lost), (count, 0));
    Audit {
        send_ns: sending.as_nanos() as f64 / count as f64,
        write_mb_s: figures.raw_bytes as f64 / 1e6 / writing.as_secs_f64(),
        ratio: figures.raw_bytes as f64 / figures.bytes as f64,
    }
}

fn trades(count: u64) -> Vec<BarTrade> {
    let mut chance = 0x1234_5678_9abc_def1;
    (1..=count)
        .map(|number| {
            let noise = draw(&mut chance);
            BarTrade {
                instrument_id: InstrumentId(1 + (noise % 8_000) as u32),
                sequence: number,
                ts_event: Nanos(START + number * 100_000),
                print: TradePrint {
                    price: Price(170_000_000_000 + (noise >> 20) as i64 % 500 * 10_000_000),
                    size: Qty(1 + (noise >> 40) % 1_000),
                    match_id: number,
                    aggressor: None,
                    venue: Venue(0),
                    flags: TradeFlags::default(),
                },
            }
        })
        .collect()
}

/// Measures nanoseconds per trade: one-minute bars alone, and three kinds with their tables.
fn bars(trades: &[BarTrade]) -> (f64, f64) {
    let kind = "time-60s".parse().expect("a kind");
    let mut builder = BarBuilder::new(&BarBuilderConfig::new(kind));
    let mut count = 0_u64;
    let began = Instant::now();
    for trade in trades {
        builder.trade(trade, &mut |_| count += 1);
        builder.advance(Nanos(trade.ts_event.0 - 1_000_000_000), &mut |_| count += 1);
    }
    let alone = began.elapsed().as_nanos() as f64 / trades.len() as f64;
    assert!(count > 0, "bars were made");
    let dir = tempfile::tempdir().expect("a directory");
    let kinds = ["time-60s", "ticks-100", "volume-10000"];
    let mut config = BarsSection { dir: dir.path().to_owned(), ..BarsSection::default() };
    config.kinds = kinds.map(|kind| kind.to_owned().try_into().expect("a kind")).to_vec();
    let mut bars = Bars::new(&config, &mut || Box::new(FileSystem)).expect("a directory");
    let began = Instant::now();
    for trade in trades {
        bars.trade(trade, trade.ts_event);
    }
    bars.end_session(Nanos(START));
    let into_tables = began.elapsed().as_nanos() as f64 / trades.len() as f64;
    let figures = bars.figures();
    assert_eq!((figures.bar_files.lost, figures.bar_files.rows), (0, figures.bars.bars));
    (alone, into_tables)
}

/// Orders and quotes of 8,000 instruments.
fn events(count: u64) -> Vec<PostEvent> {
    let mut chance = 0x0fed_cba9_8765_4321;
    let event = |number: u64| {
        let noise = draw(&mut chance);
        let (instrument_id, channel) = (InstrumentId(1 + (noise % 8_000) as u32), 0);
        let (sequence, ts_event) = (number, Nanos(START + number * 10_000));
        if number.is_multiple_of(4) {
            let bid_px = Price(170_000_000_000 + (noise >> 20) as i64 % 500 * 10_000_000);
            let ask_px = Price(bid_px.0 + 10_000_000);
            let (bid_sz, ask_sz) = (Qty(1 + (noise >> 40) % 900), Qty(1 + (noise >> 50) % 900));
            let quote = Quote { bid_px, bid_sz, ask_px, ask_sz };
            let (state, is_whole) = (None, false);
            return PostEvent::Quote(QuoteChange {
                instrument_id,
                channel,
                is_whole,
                state,
                sequence,
                ts_event,
                quote,
            });
        }
        PostEvent::Act(Activity {
            instrument_id,
            channel,
            order: Some(OrderAct::Add),
            is_trade: false,
            is_break: false,
            sequence,
            ts_event,
            added: Qty(100),
            removed: Qty(0),
            traded: Qty(0),
        })
    };
    (1..=count).map(event).collect()
}

/// Measures nanoseconds per event: sending it, and aggregating it into a table of seconds.
fn statistics(events: &[PostEvent]) -> (f64, f64) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = StatisticsSection {
        dir: dir.path().to_owned(),
        interval_s: 1,
        ..StatisticsSection::default()
    };
    let mut statistics =
        Statistics::new(&config, &mut || Box::new(FileSystem)).expect("a directory");
    let wants = EventSelection { bars: false, statistics: true };
    let (mut sender, mut receiver) = post_events(BURST as usize, wants);
    let (mut sending, mut adding) = (Duration::ZERO, Duration::ZERO);
    for burst in events.chunks(BURST as usize) {
        let began = Instant::now();
        let sent = burst.iter().filter(|event| sender.send(event) == SendOutcome::Taken).count();
        sending += began.elapsed();
        assert_eq!(sent, burst.len(), "a burst fits");
        let began = Instant::now();
        receiver.take(usize::MAX, &mut |event| statistics.take(event, Nanos(START)));
        adding += began.elapsed();
    }
    let began = Instant::now();
    statistics.finish(Nanos(START));
    adding += began.elapsed();
    let figures = statistics.figures();
    assert_eq!((figures.files.lost, figures.files.rows), (0, figures.intervals.told));
    let each = |spent: Duration| spent.as_nanos() as f64 / events.len() as f64;
    (each(sending), each(adding))
}

/// Runs the benchmark.
pub fn run(args: &PostArgs) -> anyhow::Result<()> {
    let PostArgs { datagrams, bytes, trades: count, rounds } = *args;
    let payloads = payloads(4_096, bytes as usize);
    let trades = trades(count);
    let audits: Vec<Audit> = (0..rounds).map(|_| audit(datagrams, &payloads)).collect();
    let of_bars: Vec<(f64, f64)> = (0..rounds).map(|_| bars(&trades)).collect();
    let events = events(count);
    let of_events: Vec<(f64, f64)> = (0..rounds).map(|_| statistics(&events)).collect();
    let round = |number: f64| (number * 10.0).round() / 10.0;
    let of = |field: fn(&Audit) -> f64| round(median(audits.iter().map(field).collect()));
    let line = json!({
        "bench": "market-post",
        "rounds": rounds,
        "datagrams": datagrams,
        "datagram_bytes": bytes,
        "audit_send_ns": of(|audit| audit.send_ns),
        "audit_write_mb_s": of(|audit| audit.write_mb_s),
        "audit_ratio": of(|audit| audit.ratio),
        "trades": count,
        "bar_ns_per_trade": round(median(of_bars.iter().map(|it| it.0).collect())),
        "three_tables_ns_per_trade": round(median(of_bars.iter().map(|it| it.1).collect())),
        "statistics_send_ns": round(median(of_events.iter().map(|it| it.0).collect())),
        "statistics_ns_per_event": round(median(of_events.iter().map(|it| it.1).collect())),
    });
    println!("{line}");
    Ok(())
}
