//! Benchmark of ITCH 5.0 messages in nanoseconds, printed as one JSON line: decoding, compared with
//! the crates `itch5` and `itchy`; and the whole path from the bytes to the book's best bid and
//! offer.
//!
//! ```text
//! cargo run --release --manifest-path bench/itch/Cargo.toml [FILE]
//! ```
//!
//! To the book ([`update`]): a synthetic flow over 8,000 instruments with 400,000 and with a
//! million resting orders, and, if `WEIR_DATA` names a folder with LOBSTER's sample archives, their
//! days copied over 8,000 instruments.
//!
//! Decoding: all decoders read the same bytes, alternating within each of 31 rounds: FILE, a day's
//! messages each with a length prefix, or a synthetic day of 200,000 messages. All must read the
//! same: orders, shares, prices and times of order and trade messages are summed and compared. Weir
//! is measured three times: its views, which match the others' work, the same from a file in
//! pieces, and the full conversion to updates. Nothing is asserted about time.

mod day;
#[path = "../../../crates/market/tests/support/flow.rs"]
mod flow;
#[allow(dead_code, reason = "tests send the messages in datagrams, too")]
#[path = "../../../crates/market/tests/support/lobster_itch.rs"]
mod lobster_itch;
mod made;
#[path = "../../../crates/market/tests/support/memory.rs"]
mod memory;
mod sides;
mod update;

use std::path::PathBuf;

use std::time::Instant;

use day::{Copies, Made, Stream};
use memory::Counting;
use sides::{SIDES, Sums};
use update::{Figures, How, measure};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUND_COUNT: usize = 31;

/// The number of stretches of 65,536 messages timed in each way.
const STRETCHES: usize = 24;

fn main() {
    let file = std::env::args().nth(1);
    let decode = decode(file.as_deref());
    println!("ns from a message's bytes to its book: mean | 64 together: p50 p99 p99.9 | single");
    let mut runs = Vec::new();
    for (name, mut of) in streams() {
        for how in [How::OneByOne, How::Batches] {
            let figures = measure(&mut *of(), how, STRETCHES);
            let Figures { mean, batch, single, live_orders, allocations, .. } = &figures;
            println!(
                "{name:<24} {live_orders:>8} orders, {how:?}: {mean:6.1} | {batch:6.1?} | \
                 {single:6.1?} | {allocations} allocations"
            );
            runs.push(json(name, how, &figures));
        }
    }
    println!(
        "{{\"bench\":\"market-update\",\"unit\":\"ns/message\",\"goal\":{{\"day\":60,\
         \"million_orders\":100}},\"decode\":{decode},\"update\":[{}]}}",
        runs.join(",")
    );
}

type Begin = Box<dyn FnMut() -> Box<dyn Stream>>;

/// The streams measured, created anew for each way.
fn streams() -> Vec<(&'static str, Begin)> {
    let mut streams: Vec<(&'static str, Begin)> = vec![
        ("made, 400,000 orders", Box::new(|| Box::new(Made::new(8_000, 400_000)))),
        ("made, 1,000,000 orders", Box::new(|| Box::new(Made::new(8_000, 1_000_000)))),
    ];
    match std::env::var_os("WEIR_DATA").map(PathBuf::from) {
        Some(root) => {
            let days = ["AAPL_2012-06-21_1", "AMZN_2012-06-21_5"]
                .map(|name| root.join(format!("lobster/LOBSTER_SampleFile_{name}.zip")));
            let copies = move || -> Box<dyn Stream> {
                let days: Vec<_> = days.iter().map(PathBuf::as_path).collect();
                Box::new(Copies::of(&days, 8_000))
            };
            streams.push(("LOBSTER's days, copied", Box::new(copies)));
        }
        None => eprintln!("NOT MEASURED: WEIR_DATA is not set, so LOBSTER's days were not read"),
    }
    streams
}

fn json(name: &str, how: How, figures: &Figures) -> String {
    let Figures { mean, best, batch, single, live_orders, best_changes_percent, allocations } =
        figures;
    let list = |of: &[f64; 3]| format!("[{:.1},{:.1},{:.1}]", of[0], of[1], of[2]);
    format!(
        "{{\"messages\":\"{name}\",\"instruments\":8000,\"live_orders\":{live_orders},\
         \"how\":\"{how:?}\",\"mean\":{mean:.1},\"best_stretch\":{best:.1},\
         \"batch_p50_p99_p999\":{},\"single_p50_p99_p999\":{},\
         \"best_changes_percent\":{best_changes_percent:.1},\"allocations\":{allocations}}}",
        list(batch),
        list(single)
    )
}

/// Appends a message with its length prefix.
fn frame(bytes: &mut Vec<u8>, message: &[u8]) {
    let len = u16::try_from(message.len()).expect("a message has at most 50 bytes");
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(message);
}

/// Measures decoding only, alternating between the decoders; returns one JSON object.
fn decode(file: Option<&str>) -> String {
    let bytes = match file {
        Some(path) => std::fs::read(path).expect("the file reads"),
        None => made::day(200_000),
    };
    let want = SIDES[0].1(&bytes);
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); SIDES.len()];
    for round in 0..ROUND_COUNT {
        // Each round starts with another decoder.
        for turn in 0..SIDES.len() {
            let side = (round + turn) % SIDES.len();
            let begun = Instant::now();
            let sums: Sums = SIDES[side].1(std::hint::black_box(&bytes));
            let ns = begun.elapsed().as_nanos() as f64;
            assert_eq!(sums, want, "{} read something else", SIDES[side].0);
            rounds[side].push(ns / sums.messages as f64);
        }
    }
    println!("{} messages, {} bytes, {ROUND_COUNT} rounds", want.messages, bytes.len());
    let mut fields = Vec::new();
    for ((name, _), rounds) in SIDES.iter().zip(&mut rounds) {
        rounds.sort_by(f64::total_cmp);
        let at = |share: f64| rounds[((rounds.len() - 1) as f64 * share).round() as usize];
        let (low, median, high) = (at(0.1), at(0.5), at(0.9));
        println!("{name:>14} {median:7.2} ns/message (p10 {low:.2}, p90 {high:.2})");
        fields.push(format!(
            "\"{name}\":{{\"median\":{median:.2},\"p10\":{low:.2},\"p90\":{high:.2}}}"
        ));
    }
    let input = if file.is_some() { "file" } else { "made" };
    let messages = want.messages;
    format!(
        "{{\"messages\":{messages},\"rounds\":{ROUND_COUNT},\"input\":\"{input}\",{}}}",
        fields.join(",")
    )
}
