//! `crash-points`: the log through a loss of power at every write point of recorded workloads.
//!
//! Repeats the workload with successive seeds, over all levels, until enough recoveries are done. A
//! violation names level, seed, write point and choice, which reproduce it. With the feature
//! `planted`, `--plants` plants each bug in the log and counts the seeds needed to find it.

#[path = "../../log/tests/support/crash.rs"]
mod crash;

use std::process::ExitCode;

use crash::{Plan, Tally, run};
use weir_log::Durability;

/// Options of `weir-campaign crash-points`.
#[derive(Debug, clap::Args)]
pub(crate) struct CrashArgs {
    /// Recoveries, over as many seeds as they need.
    #[arg(long, default_value_t = 1_000_000)]
    recoveries: u64,
    /// Operations of a workload.
    #[arg(long, default_value_t = 400)]
    operations: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plant each bug, from so many first seeds; needs the feature `planted`.
    #[arg(long, value_name = "STARTS", num_args = 0..=1, default_missing_value = "5")]
    plants: Option<u64>,
}

/// The durability levels of successive campaigns.
const LEVELS: [Durability; 4] =
    [Durability::Disk, Durability::Disk, Durability::Os, Durability::Memory];

fn level_of(seed: u64) -> Durability {
    LEVELS[seed as usize % LEVELS.len()]
}

/// The number of seeds within which a planted bug must be found.
#[cfg(feature = "planted")]
const SEEDS_MAX: u64 = 40;

/// Returns true if a rule is broken on a seed, with a bug or without.
#[cfg(feature = "planted")]
fn fails(plant: Option<weir_log::plant::Plant>, seed: u64) -> bool {
    use std::panic::catch_unwind;
    weir_log::plant::set(plant);
    let plan = Plan { level: level_of(seed), operations: 150, seed, subsets: 4, nested_every: 50 };
    let outcome = catch_unwind(|| run(plan));
    weir_log::plant::set(None);
    outcome.map_or(true, |tally| !tally.violations.is_empty())
}

/// Prints a row per planted bug: the median and the maximum of the seeds needed over all starts.
#[cfg(feature = "planted")]
fn find_plants(starts: u64) -> ExitCode {
    use weir_log::plant::Plant;
    // The simulated order path covers these: the first is in the node's use of the log, the others
    // need a time without descriptors or room.
    let unmet = [
        Plant::TailAppliedTwice,
        Plant::NoDescriptorIsFatal,
        Plant::PreparedOnce,
        Plant::RoomAtEachTry,
    ];
    let plants = Plant::ALL.iter().copied().filter(|plant| !unmet.contains(plant));
    let fails = |plant, is_planted: bool, seed| fails(is_planted.then_some(plant), seed);
    let search = weir_plant::Search { starts, seeds_max: SEEDS_MAX };
    match weir_plant::find_all(plants, search, fails) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs the campaign, or plants bugs.
pub(crate) fn run_campaign(args: &CrashArgs) -> ExitCode {
    if let Some(starts) = args.plants {
        #[cfg(feature = "planted")]
        return find_plants(starts.max(1));
        #[cfg(not(feature = "planted"))]
        {
            eprintln!("--plants {starts} needs the feature `planted`");
            return ExitCode::from(2);
        }
    }
    let CrashArgs { recoveries: wanted, operations, seed: first_seed, .. } = *args;
    let mut total = Tally::default();
    let mut seed = first_seed;
    while total.recoveries < wanted {
        let level = level_of(seed);
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
    if total.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
