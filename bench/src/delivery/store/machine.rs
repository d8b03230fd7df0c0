//! The machine's own memory speed: the time to copy a row from a random place of as much memory as
//! all rows take, and to read one word whose address depends on the word before it. The copy is the
//! lower limit for any store that pages rows from random places.

use std::hint::black_box;

use super::work::Random;
use crate::rounds::{Rounds, spent};

/// Copies and reads per round.
const COUNT: u64 = 200_000;

/// Returns the thread's processor time in ns for a copy and for a read, as JSON.
pub(crate) fn memory_json(orders: u64, row_bytes: usize, rounds: u64) -> String {
    let len = orders as usize * row_bytes;
    // Written, because untouched memory would be one page of zeros.
    let memory: Vec<u8> = (0..len).map(|at| (at / 4_096) as u8).collect();
    let (mut copies, mut looks) = (Rounds::default(), Rounds::default());
    let mut row = vec![0; row_bytes];
    for turn in 1..=rounds {
        let mut random = Random(turn);
        let copied = spent(|| {
            for _ in 0..COUNT {
                let at = random.below(orders) as usize * row_bytes;
                row.copy_from_slice(&memory[at..at + row_bytes]);
                black_box(&row);
            }
            COUNT
        });
        let mut seen = 0;
        let looked = spent(|| {
            for _ in 0..COUNT {
                let at = random.below(orders) as usize * row_bytes + seen;
                seen = usize::from(memory[at]) % row_bytes;
            }
            COUNT
        });
        black_box(seen);
        copies.push(copied.cpu * 1e9 / copied.count);
        looks.push(looked.cpu * 1e9 / looked.count);
    }
    format!("{{\"copy_ns\":{},\"look_ns\":{}}}", copies.json(1), looks.json(1))
}
