//! Mutated captures and datagrams over whole commands: no bytes of a stranger end a command, hang
//! it, or make it take memory without a bound.
//!
//! A mutant is a recording of one feed, a day file or a file of DBN, changed by its seed: bits,
//! lengths, sequence numbers and times at their ends, packets cut off, doubled, reordered, joined
//! and begun again, and the file itself. Each goes through `weir feed inspect` and `stats` and
//! `weir book --capture`, one in ten through a gateway that serves it, and its datagrams to a
//! running gateway of its feed, which is asked for `/metrics` and `/status` after each. At the end
//! an honest session of each feed is followed.
//!
//! `WEIR_MUTANTS` sets the number of mutants (100), `WEIR_MUTANT` the first seed (1).

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

mod commands;
mod feeds;
mod gateway;
mod mutate;

use std::time::Duration;

use commands::Commands;
use feeds::{FEEDS, MutatedFeed};
use gateway::Gateway;
use mutate::mutant;

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_mutant_of_a_recording_ends_a_command_or_hangs_it_or_takes_memory_without_a_bound() {
    let (count, first) = (number_from("WEIR_MUTANTS", 100), number_from("WEIR_MUTANT", 1));
    let commands = Commands::new();
    let start = |feed: &'static MutatedFeed| feed.is_live.then(|| Gateway::start(feed));
    let mut gateways: Vec<Option<Gateway>> = FEEDS.iter().map(start).collect();
    for seed in first..first + count {
        let at = usize::try_from(seed).unwrap() % FEEDS.len();
        let mutant = mutant(&FEEDS[at], seed);
        commands.check(&FEEDS[at], &mutant, seed);
        if let Some(gateway) = &mut gateways[at] {
            gateway.take(&mutant, seed);
        }
    }
    gateways.iter_mut().flatten().for_each(Gateway::begin_an_honest_session);
    std::thread::sleep(Duration::from_millis(2_100));
    gateways.iter_mut().flatten().for_each(Gateway::follow_the_honest_session);
    let peak = gateways.into_iter().flatten().map(Gateway::end).max().unwrap_or(0);
    println!(
        "{{\"campaign\": \"mutants\", \"mutants\": {count}, \"first\": {first}, \
         \"gateway_peak_kib\": {peak}}}"
    );
}
