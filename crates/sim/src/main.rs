//! The command line of the simulation.
//!
//! `weir-sim run --seeds A..B` runs seeds, reports each seed that broke a rule, and prints one
//! line. `weir-sim run --seed N` replays one. `weir-sim gate` does the same with the gateway and
//! its clients in front of the partition. The exit status is 1 when a rule was broken.
//! `weir-sim day [--hours H] [--seed N]` runs one seed for so many hours of simulated time, 24 by
//! default, and fails also if something grows that must not.
//! `weir-sim plants [STARTS] [NAMES]` plants each bug, or those with one of the names, and counts
//! the seeds needed to find it, from several starts; with the feature `planted`, also the bugs in
//! the parts.

use std::ops::Range;
use std::process::ExitCode;

use weir_plant::{Search, find_all};
use weir_sim::campaign::{fails, run_seed, run_seeds};
use weir_sim::day::run_day;
use weir_sim::plant::{Front, Plant};
use weir_types::Nanos;

const USAGE: &str = "usage: weir-sim run|gate --seeds A..B | weir-sim run|gate --seed N \
                     | weir-sim day [--hours H] [--seed N] | weir-sim plants [STARTS] [NAMES]";
/// The hours of a day.
const HOURS: f64 = 24.0;
const HOUR_NS: f64 = 3.6e12;
/// The number of seeds within which a planted bug must be found.
const SEEDS_MAX: u64 = 400;

fn is_front(word: &str) -> bool {
    ["run", "gate"].contains(&word)
}

fn seeds_of(arguments: &[String]) -> Option<Range<u64>> {
    let number = |text: &str| text.replace('_', "").parse::<u64>().ok();
    match arguments {
        [front, flag, seed] if is_front(front) && flag == "--seed" => {
            let seed = number(seed)?;
            Some(seed..seed + 1)
        }
        [front, flag, seeds] if is_front(front) && flag == "--seeds" => {
            let (from, to) = seeds.split_once("..")?;
            Some(number(from)?..number(to)?)
        }
        [] => Some(1..1_001),
        _ => None,
    }
}

/// The time and the seed of a day.
fn day_of(mut arguments: &[String]) -> Option<(Nanos, u64)> {
    let (mut hours, mut seed) = (HOURS, 1);
    while let [flag, value, rest @ ..] = arguments {
        match flag.as_str() {
            "--hours" => hours = value.parse().ok().filter(|hours| *hours > 0.0)?,
            "--seed" => seed = value.parse().ok()?,
            _ => return None,
        }
        arguments = rest;
    }
    arguments.is_empty().then_some((Nanos((hours * HOUR_NS) as u64), seed))
}

fn live_a_day(time: Nanos, seed: u64) -> ExitCode {
    let report = run_day(time, seed, None);
    for series in &report.judged {
        eprintln!("{series}");
    }
    if let Some(violation) = &report.outcome.violation {
        eprintln!("seed {seed}: {violation}");
    }
    println!("{}", report.to_json());
    ExitCode::from(u8::from(report.outcome.violation.is_some()))
}

fn find_plants(arguments: &[String]) -> ExitCode {
    let starts = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(5);
    let names = arguments.get(1..).unwrap_or_default();
    let is_asked_for = |plant: &Plant| {
        let own = format!("{plant:?}");
        names.is_empty() || names.iter().any(|name| own.contains(name))
    };
    let search = Search { starts: std::cmp::max(starts, 1), seeds_max: SEEDS_MAX };
    let are_found = find_all(Plant::all().into_iter().filter(is_asked_for), search, fails);
    ExitCode::from(u8::from(!are_found))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, rest @ ..] = &arguments[..]
        && word == "day"
        && let Some((time, seed)) = day_of(rest)
    {
        return live_a_day(time, seed);
    }
    if arguments.first().is_some_and(|word| word == "plants") {
        return find_plants(&arguments[1..]);
    }
    let Some(seeds) = seeds_of(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let is_gate = arguments.first().is_some_and(|word| word == "gate");
    let front = if is_gate { Front::Gateway } else { Front::Crowd };
    if seeds.end == seeds.start + 1 {
        let outcome = run_seed(front, seeds.start, None);
        println!("seed {} trace {:016x} {:?}", seeds.start, outcome.trace_hash, outcome.tally);
    }
    let report = run_seeds(front, seeds, |seed, outcome| {
        if let Some(violation) = &outcome.violation {
            eprintln!("seed {seed}: {violation}");
        }
    });
    println!("{}", report.to_json());
    ExitCode::from(u8::from(!report.violations.is_empty()))
}
