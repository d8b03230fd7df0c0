//! Arbitrary bytes as a gateway's checkpoint, and one that the decoder is likely to read.
//!
//! Checks that nothing panics, that an index that is read is written as the same state, and that it
//! takes further events and forgets old ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_partition::event_index::fuzz_state;
use weir_types::state_bytes::{put_ascending, put_number};

fuzz_target!(|bytes: &[u8]| {
    fuzz_state(bytes);
    let mut recipe = Recipe::new(bytes);
    let mut state = shaped(&mut recipe);
    fuzz_state(&state);
    while !recipe.is_empty() {
        let at = usize::from(recipe.short()) % state.len();
        state[at] ^= recipe.byte();
    }
    fuzz_state(&state);
});

/// Returns a state whose parts are in their places and whose numbers are small.
fn shaped(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let out = &mut Vec::new();
    // The format, the next record, the newest command, the first record.
    let next = 1 + u64::from(recipe.short());
    put(&[1, next, u64::from(recipe.short()), 1 + u64::from(recipe.byte())], out);
    // The epochs: the known position, the current one, those that ended.
    let ended = u64::from(recipe.byte() % 4);
    put(&[u64::from(recipe.byte()), ended + 1, ended], out);
    for epoch in 1..=ended {
        put(&[epoch, u64::from(recipe.byte())], out);
    }
    put_trail(recipe, ended, out);
    let session_count = u64::from(recipe.byte() % 8);
    put_number(out, session_count);
    let mut firms = vec![0];
    for session_id in 1..=session_count {
        let firm_id = u64::from(recipe.byte() % 4);
        firms.push(firm_id);
        put(&[session_id, firm_id], out);
        // Begun or not, the oldest event, the last request.
        let has_begun = u64::from(recipe.byte() % 2);
        put(&[has_begun, 1 + u64::from(recipe.byte() % 3), u64::from(recipe.byte())], out);
        put_trail(recipe, ended, out);
        put_records(recipe, next, out);
    }
    firms.sort_unstable();
    firms.dedup();
    put_number(out, firms.len() as u64);
    for firm_id in firms {
        // The firm, the floor, the newest record before the first retained one.
        put(&[firm_id, u64::from(recipe.byte() % 8), u64::from(recipe.byte() % 3)], out);
        put_records(recipe, next, out);
    }
    std::mem::take(out)
}

fn put(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| put_number(out, *number));
}

/// Appends the ends that a sequence has passed: the first number, their count, and the places.
fn put_trail(recipe: &mut Recipe<'_>, ended: u64, out: &mut Vec<u8>) {
    let passed = u64::from(recipe.byte()) % (ended + 1);
    put(&[1, passed, u64::from(passed > 0)], out);
    if passed > 0 {
        put(&[0, 1 + u64::from(recipe.byte() % 4)], out);
    }
}

/// Appends records before `next`, or some that are not.
fn put_records(recipe: &mut Recipe<'_>, next: u64, out: &mut Vec<u8>) {
    let (count, begin) = (u64::from(recipe.byte()), u64::from(recipe.byte()));
    let count = count * u64::from(1 + recipe.byte() % 12);
    let count = if recipe.one_in(8) { count } else { count.min(next.saturating_sub(begin + 1)) };
    let records = (0..count).map(|index| begin + 1 + index);
    put_ascending(out, usize::try_from(count).expect("few"), records);
}
