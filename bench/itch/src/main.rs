//! What decoding a message of ITCH 5.0 costs, beside the crates `itch5` and `itchy`: nanoseconds
//! per message, one JSON line at the end.
//!
//! ```text
//! cargo run --release --manifest-path bench/itch/Cargo.toml [FILE]
//! ```
//!
//! All read the same bytes, taking turns within each of 31 rounds: FILE, a day's messages each with
//! its length before it, or a made-up day of 200,000 messages. Each must have read the same:
//! orders, shares, prices and times of the messages of orders and trades are summed up and
//! compared. Weir is measured three times: its views, as the others' work is, the same out of a
//! file's pieces, and all the way to updates. Nothing is asserted about time.

mod made;
mod sides;

use std::time::Instant;

use sides::{SIDES, Sums};

const ROUND_COUNT: usize = 31;

fn main() {
    let file = std::env::args().nth(1);
    let bytes = match &file {
        Some(path) => std::fs::read(path).expect("the file reads"),
        None => made::day(200_000),
    };
    let want = SIDES[0].1(&bytes);
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); SIDES.len()];
    for round in 0..ROUND_COUNT {
        // Another one begins in each round.
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
    println!(
        "{{\"bench\":\"itch-decode\",\"unit\":\"ns/message\",\"messages\":{messages},\
         \"rounds\":{ROUND_COUNT},\"input\":\"{input}\",{}}}",
        fields.join(",")
    );
}
