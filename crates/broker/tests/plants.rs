//! Each planted bug is found by the campaigns that a change goes through: the model of random days,
//! the power loss at every write point, or a test of its own. Needs the feature `planted`.

#![cfg(feature = "planted")]
#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

#[path = "ages.rs"]
#[allow(dead_code, reason = "the rest are its own tests")]
mod ages;
#[path = "behaviour.rs"]
#[allow(dead_code, reason = "the rest are its own tests")]
mod behaviour;
#[path = "crash_points.rs"]
#[allow(dead_code, reason = "its own tests take the rest")]
mod crash_points;
#[path = "model.rs"]
#[allow(dead_code, reason = "its own test takes the rest")]
mod model;

use std::panic::catch_unwind;

use weir_broker::Durability;
use weir_broker::plant::{self, Plant};

/// Seeds within which a planted bug must be found.
const SEEDS_MAX: u64 = 400;
const STEPS: u64 = 1_500;

/// Returns the seeds needed to find a bug, by the model and by crash points.
fn seeds_needed(plant: Plant) -> Option<(u64, &'static str)> {
    plant::set(Some(plant));
    let by_model = |seed| catch_unwind(|| model::live(seed, STEPS)).is_err();
    let levels = [Durability::Disk, Durability::Os];
    let by_crash = |seed: u64| {
        let level = levels[seed as usize % 2];
        seed <= 8 && catch_unwind(|| crash_points::faults(level, seed, 60) > 0).unwrap_or(true)
    };
    let by_test: [fn(); 7] = [
        ages::a_subscription_grows_old_in_service_alone_and_goes_on_from_there_after_a_start,
        ages::a_message_grows_old_in_service_whatever_its_stamp,
        ages::a_subscription_that_is_due_to_expire_has_its_time_of_grace,
        ages::terms_are_at_most_the_configurations,
        behaviour::what_is_given_up_with_its_subscription_is_acknowledged_once_that_is_saved,
        behaviour::nothing_is_written_behind_what_an_eviction_lost_before_that_is_saved,
        behaviour::a_broker_without_a_descriptor_keeps_messages_and_writes_them_when_there_is_one,
    ];
    if by_test.iter().any(|test| catch_unwind(test).is_err()) {
        plant::set(None);
        return Some((0, "a test of its own"));
    }
    let found = (1..=SEEDS_MAX).find_map(|seed| match (by_model(seed), by_crash(seed)) {
        (true, true) => Some((seed, "both")),
        (true, false) => Some((seed, "the model")),
        (false, true) => Some((seed, "crash points")),
        (false, false) => None,
    });
    plant::set(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    // Failed assertions are the expected result.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found: Vec<_> = Plant::ALL.iter().map(|plant| (*plant, seeds_needed(*plant))).collect();
    std::panic::set_hook(hook);
    println!("| planted | seeds | found by |\n| --- | ---: | --- |");
    for (plant, needed) in &found {
        match needed {
            Some((seeds, by)) => println!("| {plant:?} | {seeds} | {by} |"),
            None => println!("| {plant:?} | not in {SEEDS_MAX} | |"),
        }
    }
    let missed: Vec<Plant> = found.iter().filter(|f| f.1.is_none()).map(|f| f.0).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
