//! Drives the fast and the naive engine with random commands and stops at the first difference.
//!
//! `engine_oracle [COMMANDS [SEED]]`: checks events, digests and every invariant after each
//! command, restores a snapshot now and then, begins anew every 50,000 commands. Prints one line;
//! a difference panics with the position, and the seed repeats it.

use std::collections::BTreeMap;

use weir_engine::script::{Duel, Script};
use weir_types::PartitionId;

/// Commands between two fresh starts.
const ROUND_LEN: u64 = 50_000;
/// Bytes handed to a script at a time.
const CHUNK_LEN: usize = 1 << 16;

/// SplitMix64: good enough to draw commands with, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

fn argument(at: usize, default: u64) -> u64 {
    match std::env::args().nth(at) {
        Some(text) => text.replace('_', "").parse().expect("a whole number"),
        None => default,
    }
}

/// Plays `count` commands to a fresh pair; its number of events, trades and refusals.
fn round(count: u64, random: &mut Random, reasons: &mut BTreeMap<String, u64>) -> [u64; 3] {
    let mut bytes = vec![0; CHUNK_LEN];
    let (mut script, mut duel) = match random.next() % 8 {
        0 => (Script::for_control(&[]), Duel::new(PartitionId(0))),
        _ => (Script::new(&[]), Duel::new(PartitionId(1))),
    };
    let mut played = 0;
    let restore_every = 500 + random.next() % 2_000;
    while played < count {
        random.fill(&mut bytes);
        let mut part = script.continued(&bytes);
        while played < count && !part.is_over() {
            duel.apply(&part.command());
            part.hear(duel.events());
            played += 1;
            if played.is_multiple_of(restore_every) {
                duel.restore();
            }
        }
        script = part.continued(&[]);
    }
    for (reason, count) in duel.reasons() {
        *reasons.entry(format!("{reason:?}")).or_default() += count;
    }
    let (events, trades, refusals) = duel.counts();
    [events, trades, refusals]
}

fn main() {
    let (count, seed) = (argument(1, 1_000_000), argument(2, 1));
    let started = std::time::Instant::now();
    let mut random = Random(seed);
    let mut sums = [0; 3];
    let mut reasons = BTreeMap::new();
    let mut left = count;
    while left > 0 {
        let part = left.min(ROUND_LEN);
        for (sum, more) in sums.iter_mut().zip(round(part, &mut random, &mut reasons)) {
            *sum += more;
        }
        left -= part;
    }
    let [events, trades, refusals] = sums;
    let seconds = started.elapsed().as_secs_f64();
    let reasons: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("\"{reason}\":{count}")).collect();
    println!(
        "{{\"campaign\":\"engine_oracle\",\"seed\":{seed},\"commands\":{count},\"events\":{events},\
         \"trades\":{trades},\"refusals\":{refusals},\"reasons\":{{{}}},\"differences\":0,\
         \"seconds\":{seconds:.1}}}",
        reasons.join(",")
    );
}
