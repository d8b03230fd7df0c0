//! Arbitrary bytes as an engine's snapshot, and a real one with mutations.
//!
//! Checks that restoring refuses or succeeds, and that an engine restored from mutated bytes can
//! still write a snapshot and process any commands.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_engine::script::Script;
use weir_engine::{Engine, EngineConfig};
use weir_fuzz::Recipe;
use weir_types::{Nanos, PartitionId, Position};

/// The length of the checksum at a snapshot's end.
const CRC_LEN: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    restore(bytes, bytes);
    let mut recipe = Recipe::new(bytes);
    let mut snapshot = Vec::new();
    let script = recipe.bytes_up_to(255);
    played(script).snapshot(&mut snapshot);
    while !recipe.is_empty() {
        let at = usize::from(recipe.short()) % snapshot.len();
        match recipe.byte() % 4 {
            0 => snapshot.truncate(at.max(CRC_LEN)),
            _ => snapshot[at] ^= recipe.byte(),
        }
    }
    restore(&snapshot, bytes);
    // Once more with a valid checksum, to reach the code behind it.
    let body_len = snapshot.len() - CRC_LEN;
    let crc = crc32c::crc32c(&snapshot[..body_len]);
    snapshot[body_len..].copy_from_slice(&crc.to_le_bytes());
    restore(&snapshot, bytes);
});

fn config() -> EngineConfig {
    EngineConfig {
        orders_max: 256,
        accounts_max: 64,
        sessions_max: 64,
        firms_max: 64,
        instruments_max: 64,
        positions_max: 256,
        ..EngineConfig::new(PartitionId(1))
    }
}

fn played(bytes: &[u8]) -> Engine {
    let mut engine = Engine::new(config());
    let mut script = Script::new(bytes);
    let mut events = Vec::new();
    let mut position = Position(0);
    while !script.is_over() && position.0 < 400 {
        position = position.next();
        events.clear();
        engine.apply(position, Nanos(1_000 + position.0), &script.command(), &mut events);
        script.hear(&events);
    }
    engine
}

/// The most memory of a restored engine's tables, in bytes. A snapshot may have limits of which
/// tables no machine has room for; the allocation fails then, which is no fault of the reader.
const TABLE_BYTES_MAX: u64 = 256 << 20;

fn restore(snapshot: &[u8], script: &[u8]) {
    let limits = Engine::limits_in(snapshot);
    if limits.is_some_and(|limits| limits.table_bytes() > TABLE_BYTES_MAX) {
        return;
    }
    match Engine::restore(config(), snapshot) {
        Ok(engine) => {
            let mut again = Vec::new();
            engine.snapshot(&mut again);
            assert!(Engine::restore(config(), &again).is_ok(), "its own snapshot is refused");
            go_on(engine, script);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Plays a script to a restored engine; its snapshot must still read back.
fn go_on(mut engine: Engine, bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut events = Vec::new();
    for _ in 0..200 {
        if script.is_over() {
            break;
        }
        let command = script.command();
        let time = Nanos(engine.time().0.saturating_add(1)).max(script.now());
        events.clear();
        engine.apply(engine.position().next(), time, &command, &mut events);
        script.hear(&events);
    }
    let mut again = Vec::new();
    engine.snapshot(&mut again);
    if let Err(error) = Engine::restore(config(), &again) {
        panic!("its later snapshot is refused: {error}");
    }
}
