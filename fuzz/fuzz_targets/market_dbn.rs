//! Arbitrary bytes as DBN records with their lengths, of known types and others; and as a single
//! record.
//!
//! Checks that nothing panics, that a refused record emits nothing, and that updates name only
//! instruments defined before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::dbn::record::rtype;
use weir_feed::dbn::{Dbn, received};
use weir_feed::{CollectedUpdates, Context, Feed};
use weir_fuzz::Recipe;
use weir_types::Nanos;

/// Record types and their lengths in version 3.
const TYPES: [(u8, usize); 12] = [
    (rtype::MBO, 56),
    (rtype::MBO, 56),
    (rtype::MBP_0, 48),
    (rtype::MBP_1, 80),
    (rtype::MBP_10, 368),
    (rtype::BBO_1S, 80),
    (rtype::STATUS, 40),
    (rtype::STATISTICS, 80),
    (rtype::INSTRUMENT_DEF, 520),
    (rtype::SYMBOL_MAPPING, 176),
    (0x20, 56),
    (0x77, 20),
];

fn take(feed: &mut Dbn, record: &[u8], told: &mut CollectedUpdates) {
    let before = (told.definitions.len(), told.updates.len());
    let context = Context { sequence: 1, channel: 0, ts_send: Nanos(0) };
    let _ = received(record);
    if feed.decode(&context, record, told).is_err() {
        let after = (told.definitions.len(), told.updates.len());
        assert_eq!(before, after, "a refused record says nothing");
    }
    for update in &told.updates[before.1..] {
        let id = update.instrument_id;
        let is_defined = told.definitions.iter().any(|one| one.instrument_id == id);
        assert!(id.is_none() || is_defined);
    }
}

fuzz_target!(|bytes: &[u8]| {
    take(&mut Dbn::new(), bytes, &mut CollectedUpdates::default());
    let (mut feed, mut told, mut recipe) =
        (Dbn::new(), CollectedUpdates::default(), Recipe::new(bytes));
    while !recipe.is_empty() {
        let (kind, len) = TYPES[usize::from(recipe.byte()) % TYPES.len()];
        let mut record = vec![(len / 4) as u8, kind];
        // Few publishers and instruments, so that records relate to each other.
        record.extend([recipe.byte() % 2, 0, recipe.byte() % 4, 0, 0, 0]);
        record.resize(len, 0);
        let rest = (len - 8).min(48);
        for place in &mut record[8..8 + rest] {
            *place = recipe.byte();
        }
        if kind == rtype::MBO {
            // One of few orders, with a valid action.
            record[17..24].fill(0);
            record[38] = b"AMCRTFN"[usize::from(record[38]) % 7];
            record[39] = b"BAN"[usize::from(record[39]) % 3];
            record[36] &= 0x80;
        }
        take(&mut feed, &record, &mut told);
    }
});
