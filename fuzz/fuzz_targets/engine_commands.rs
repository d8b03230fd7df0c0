//! Any bytes as a script of commands, for the fast engine and the naive one side by side.
//!
//! Holds that both say the same events and are in the same state after each command, that the
//! invariants hold (money and shares conserved, books not crossed, quantities adding up, no number
//! left out), and that a snapshot read back goes on the same way.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_engine::fuzz_commands(bytes));
