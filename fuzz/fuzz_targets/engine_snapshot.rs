//! Any bytes as an engine's snapshot, and a real one with changes in it.
//!
//! Holds that restoring refuses or succeeds, and that an engine restored from changed bytes can
//! still say what it holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_engine::script::Script;
use weir_engine::{Engine, EngineConfig};
use weir_fuzz::Recipe;
use weir_types::{Nanos, PartitionId, Position};

/// The checksum at a snapshot's end.
const CRC_LEN: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    restore(bytes);
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
    restore(&snapshot);
    // Once more with a checksum that holds, to get to what it guards.
    let body_len = snapshot.len() - CRC_LEN;
    let crc = crc32c::crc32c(&snapshot[..body_len]);
    snapshot[body_len..].copy_from_slice(&crc.to_le_bytes());
    restore(&snapshot);
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

fn restore(bytes: &[u8]) {
    match Engine::restore(config(), bytes) {
        Ok(engine) => {
            let mut again = Vec::new();
            engine.snapshot(&mut again);
            assert!(Engine::restore(config(), &again).is_ok(), "its own snapshot is refused");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
