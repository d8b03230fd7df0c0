//! `weir-bench market-json`: the cost of a WebSocket subscriber compared with one of the binary
//! protocol: the conversion of a message to JSON, its size, and the write of frames to a TCP socket
//! or to the node's own socket pair.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::{Value, json};
use weir_types::{AnySide, InstrumentId, Nanos, Price, Qty, SessionId, Side};
use weir_web::market::messages::put_market;
use weir_wire::NodeMessage;
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::market::{
    MarketFlags, MarketLevel, MarketLevels, MarketQuote, MarketTrade, TradeConditions,
};
use weir_wire::market_dialogue::put_market_group;

const NOW: Nanos = Nanos(1_790_000_000_123_456_789);
const LEVELS: i64 = 10;
/// The number of frames that a flush thread passes on with one write, if as many are pending.
const FRAMES_A_WRITE: usize = 10;

fn quote(sequence: u64) -> Vec<u8> {
    let quote = MarketQuote {
        first_sequence: sequence,
        last_sequence: sequence + 3,
        event_time: NOW,
        receive_time: NOW,
        sending_time: NOW,
        bid_px: Price(187_420_000_000),
        bid_size: Qty(300),
        ask_px: Price(187_430_000_000),
        ask_size: Qty(1_200),
        session_id: SessionId(11),
        handle: 1,
        instrument_id: InstrumentId(8_042),
        change_count: 4,
        flags: MarketFlags::default(),
    };
    let mut frame = Vec::new();
    put_frame(&quote, &mut frame);
    frame
}

fn trade(sequence: u64) -> Vec<u8> {
    let trade = MarketTrade {
        first_sequence: sequence,
        last_sequence: sequence,
        event_time: NOW,
        receive_time: NOW,
        sending_time: NOW,
        last_px: Price(187_425_000_000),
        last_qty: Qty(100),
        match_id: sequence,
        session_id: SessionId(11),
        handle: 1,
        instrument_id: InstrumentId(8_042),
        venue: b'Q',
        aggressor: AnySide::Buy,
        conditions: TradeConditions::default(),
        flags: MarketFlags::default(),
    };
    let mut frame = Vec::new();
    put_frame(&trade, &mut frame);
    frame
}

fn levels(sequence: u64) -> Vec<u8> {
    let head = MarketLevels {
        first_sequence: sequence,
        last_sequence: sequence,
        event_time: NOW,
        receive_time: NOW,
        sending_time: NOW,
        session_id: SessionId(11),
        handle: 1,
        instrument_id: InstrumentId(8_042),
        change_count: 1,
        flags: MarketFlags::default(),
    };
    let level = |side, place: i64| MarketLevel {
        price: Price(187_420_000_000 + place * 10_000_000),
        size: Qty(100),
        order_count: 3,
        side,
    };
    let bids = (0..LEVELS).map(|place| level(Side::Buy, -place));
    let all: Vec<MarketLevel> =
        bids.chain((1..=LEVELS).map(|place| level(Side::Sell, place))).collect();
    let mut frame = Vec::new();
    put_market_group(&head, all.into_iter(), &mut frame);
    frame
}

/// Converts a frame to text, as a reader's task does.
fn text_of(frame: &[u8]) -> String {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(frame, 1 << 20) else {
        panic!("a whole frame")
    };
    let mut text = String::with_capacity(512);
    match NodeMessage::decode(&raw) {
        Ok(NodeMessage::Market(message)) => put_market(&message, &mut text),
        other => panic!("{other:?}"),
    }
    text
}

/// Measures nanoseconds per message, and its size in both encodings.
fn measure(frame: &[u8], count: u64) -> Value {
    let begun = Instant::now();
    for _ in 0..count {
        black_box(text_of(black_box(frame)));
    }
    let nanos = begun.elapsed().as_nanos() / u128::from(count.max(1));
    json!({
        "json_ns": u64::try_from(nanos).unwrap_or(u64::MAX),
        "binary_bytes": frame.len(),
        "json_bytes": text_of(frame).len(),
    })
}

/// Measures nanoseconds per frame of writes to a reader.
fn measure_writes(mut to: impl Write, mut from: impl Read + Send + 'static, count: u64) -> u64 {
    let reader = std::thread::spawn(move || {
        let mut room = vec![0; 64 * 1024];
        while from.read(&mut room).is_ok_and(|len| len > 0) {}
    });
    let frames = quote(1).repeat(FRAMES_A_WRITE);
    let writes = (count / FRAMES_A_WRITE as u64).max(1);
    let begun = Instant::now();
    for _ in 0..writes {
        to.write_all(black_box(&frames)).expect("somebody reads");
    }
    let nanos = begun.elapsed().as_nanos() / u128::from(writes) / FRAMES_A_WRITE as u128;
    drop(to);
    reader.join().expect("the reader ends with the writer");
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Options of `weir-bench market-json`.
#[derive(Debug, clap::Args)]
pub struct JsonArgs {
    /// Messages of a run.
    #[arg(default_value_t = 1_000_000)]
    messages: u64,
}

/// Runs the benchmark.
///
/// # Errors
/// An I/O error of the operating system.
pub fn run(args: &JsonArgs) -> anyhow::Result<()> {
    let count = args.messages;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    to.set_nodelay(true)?;
    let (from, _) = listener.accept()?;
    let tcp = measure_writes(to, from, count);
    let (to, from) = UnixStream::pair()?;
    let pair = measure_writes(to, from, count);
    let report = json!({
        "bench": "market-json",
        "messages": count,
        "quote": measure(&quote(1), count),
        "trade": measure(&trade(1), count),
        "levels_20": measure(&levels(1), count / 10),
        "write_tcp_ns_a_frame": tcp,
        "write_pair_ns_a_frame": pair,
    });
    println!("{report}");
    Ok(())
}
