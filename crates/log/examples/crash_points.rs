//! The full-size crash campaign: power lost at every write point of recorded workloads.
//!
//! `crash_points [--recoveries N] [--operations N] [--seed N]` repeats campaigns with successive
//! seeds, over all levels, until N recoveries are done; prints one line of JSON and fails on any
//! violation. A violation names level, seed, write point and choice, which reproduce it.

#[path = "../tests/common/crash.rs"]
mod crash;

use crash::{Plan, Tally, run};
use weir_log::Durability;

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|a| a != name);
    match (arguments.next(), arguments.next()) {
        (Some(_), Some(value)) => value.parse().expect("a number after the option"),
        _ => default,
    }
}

fn main() {
    let wanted = argument("--recoveries", 1_000_000);
    let operations = argument("--operations", 400);
    let first_seed = argument("--seed", 1);
    let mut total = Tally::default();
    let mut seed = first_seed;
    while total.recoveries < wanted {
        let levels = [Durability::Disk, Durability::Disk, Durability::Os, Durability::Memory];
        let level = levels[seed as usize % levels.len()];
        let tally = run(Plan { level, operations, seed, subsets: 16, nested_every: 200 });
        for violation in tally.violations.iter().take(5) {
            eprintln!("violation: {violation}");
        }
        total.write_points += tally.write_points;
        total.recoveries += tally.recoveries;
        total.nested += tally.nested;
        total.cuts += tally.cuts;
        total.new_epochs += tally.new_epochs;
        total.violations.extend(tally.violations);
        seed += 1;
    }
    println!(
        "{{\"campaign\":\"crash_points\",\"first_seed\":{first_seed},\"seeds\":{},\
         \"operations\":{operations},\"write_points\":{},\"recoveries\":{},\
         \"of_recovery_itself\":{},\"tails_cut\":{},\"epochs_begun\":{},\"violations\":{}}}",
        seed - first_seed,
        total.write_points,
        total.recoveries,
        total.nested,
        total.cuts,
        total.new_epochs,
        total.violations.len(),
    );
    std::process::exit(i32::from(!total.violations.is_empty()));
}
