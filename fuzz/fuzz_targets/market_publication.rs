//! Arbitrary bytes as the state of a published market, and some that the decoder is likely to read.
//!
//! Checks that nothing panics, that a publication that is read is written as the same state, and
//! that its snapshot and the beginning of its next session can be told.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_market::publish::fuzz_state;
use weir_types::state_bytes::put_number;

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
    // The format, the version of the messages, the hour, the epoch, an open session of day 0.
    put(&[2, 3, 0, 1 + u64::from(recipe.byte()), 1, 0, u64::from(recipe.byte() % 2), 0], out);
    // The time, no order under way, then the numbers that were assigned.
    put(&[u64::from(recipe.short()), 0, 1 << 16, 1 << 16, 9, 3, 0, 0], out);
    let instruments = 1 + u64::from(recipe.byte() % 4);
    put_number(out, instruments);
    for id in 1..=instruments {
        put_number(out, id);
        let mut symbol = [0; 16];
        symbol[..4].copy_from_slice(b"WEIR");
        out.extend_from_slice(&symbol);
        // Tick, least and greatest price, lot, greatest quantity, exponent -2.
        put(&[2, 0, 1 << 20, 1, 1_000, 3], out);
        // Its first phase, its phase, the cause of that, and its number in the session.
        out.extend_from_slice(&[recipe.byte() % 6, recipe.byte() % 6, recipe.byte() % 5]);
        put_number(out, id);
    }
    let orders = u64::from(recipe.byte() % 32);
    put_number(out, orders);
    for number in 1..=orders {
        put(&[1 + u64::from(recipe.byte() % 3), u64::from(recipe.byte()) % instruments], out);
        // Side, type, time in force and self-trade prevention by their codes, the place.
        out.extend_from_slice(&[b'1' + recipe.byte() % 2, b'2', b'0', 0, recipe.byte() % 5]);
        let qty = 1 + u64::from(recipe.byte());
        put(&[2 * (1 + u64::from(recipe.byte())), qty, qty, 0, qty, number], out);
        put_number(out, if recipe.byte() % 2 == 0 { number } else { 0 });
    }
    std::mem::take(out)
}

fn put(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| put_number(out, *number));
}
