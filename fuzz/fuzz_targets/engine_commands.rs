//! Arbitrary bytes as a script of commands, for the fast and the naive engine in parallel.
//!
//! Checks that both emit the same events and are in the same state after each command, that the
//! invariants hold (money and shares conserved, books not crossed, quantities adding up, no number
//! skipped), and that a restored snapshot continues identically.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| weir_engine::fuzz_commands(bytes));
