//! `weir-sim run --seeds A..B`: runs seeds and prints one line; a seed that broke a rule is told.
//! `weir-sim run --seed N`: replays one. Exit status 1 when a rule was broken.

use std::ops::Range;
use std::process::ExitCode;

use weir_sim::campaign::{run_seed, run_seeds};

const USAGE: &str = "usage: weir-sim run --seeds A..B | weir-sim run --seed N";

fn seeds_of(arguments: &[String]) -> Option<Range<u64>> {
    let number = |text: &str| text.replace('_', "").parse::<u64>().ok();
    match arguments {
        [run, flag, seed] if run == "run" && flag == "--seed" => {
            let seed = number(seed)?;
            Some(seed..seed + 1)
        }
        [run, flag, seeds] if run == "run" && flag == "--seeds" => {
            let (from, to) = seeds.split_once("..")?;
            Some(number(from)?..number(to)?)
        }
        [] => Some(1..1_001),
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(seeds) = seeds_of(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if seeds.end == seeds.start + 1 {
        let outcome = run_seed(seeds.start, None);
        println!("seed {} trace {:016x} {:?}", seeds.start, outcome.trace_hash, outcome.tally);
    }
    let report = run_seeds(seeds, |seed, outcome| {
        if let Some(violation) = &outcome.violation {
            eprintln!("seed {seed}: {violation}");
        }
    });
    println!("{}", report.to_json());
    ExitCode::from(u8::from(!report.violations.is_empty()))
}
