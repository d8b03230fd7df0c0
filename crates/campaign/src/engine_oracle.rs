//! `engine-oracle`: drives the fast and the naive engine with random commands and stops at the
//! first difference.
//!
//! After each command it checks events, digests, deadlines and every invariant. It restores a
//! snapshot now and then and restarts every 4,000 commands. It prints one line; with `--tally` also
//! the counts of commands and events. At a difference it removes steps as long as a difference
//! remains, prints the remaining ones, both sides' events and the seed, and exits with 1. With the
//! feature `planted`, `--plant` plants one bug and prints the remaining steps, and `--plants`
//! plants each in turn, with the commands of up to five seeds; the exit code is 0 when all were
//! found.

use std::process::ExitCode;

use weir_engine::script::{
    Duel, DuelOp, DuelSetting, Script, StepLimits, Tally, attempt, find_difference,
    readable_command, shrink,
};
use weir_types::PartitionId;

/// The number of commands between two restarts.
const ROUND_LEN: u64 = 4_000;
/// The number of bytes given to a script at a time.
const CHUNK_LEN: usize = 1 << 14;
/// The maximum number of attempts to remove steps.
const SHRINK_TRIES: u32 = 1_500;
/// The seeds that are tried in turn until a planted bug is found.
#[cfg(feature = "planted")]
const PLANT_SEEDS_MAX: usize = 5;

/// SplitMix64: good enough to draw commands, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Options of `weir-campaign engine-oracle`.
#[derive(Debug, clap::Args)]
pub(crate) struct OracleArgs {
    /// Commands to play.
    #[arg(default_value = "1000000", value_parser = number)]
    count: u64,
    /// Seed of the commands.
    #[arg(default_value_t = 1)]
    seed: u64,
    /// Also print the counts of commands and events.
    #[arg(long = "tally")]
    has_tally: bool,
    /// Plant this bug and print the steps that show it; needs the feature `planted`.
    #[arg(long, value_name = "NAME", conflicts_with = "plants")]
    plant: Option<String>,
    /// Plant each bug in turn; needs the feature `planted`.
    #[arg(long)]
    plants: bool,
}

/// Reads a number, which may have underscores between its digits.
fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.replace('_', "").parse()
}

/// A round that ended with a difference.
struct Found {
    setting: DuelSetting,
    steps: Vec<DuelOp>,
    text: String,
}

/// Plays `count` commands to a fresh pair; returns the number played and the difference, if any.
fn round(count: u64, random: &mut Random, tally: &mut Tally) -> (u64, Option<Found>) {
    let mut bytes = vec![0; CHUNK_LEN];
    let (partition_id, mut script) = match random.next() % 16 {
        0 => (PartitionId(0), Script::for_control(&[])),
        _ => (PartitionId(1), Script::new(&[])),
    };
    let setting = DuelSetting { partition_id, steps: StepLimits::drawn(random.next()) };
    let mut duel = Duel::new(setting);
    let mut steps = Vec::new();
    let mut played = 0;
    let restore_every = 50 + random.next() % 500;
    while played < count {
        random.fill(&mut bytes);
        let mut part = script.continued(&bytes);
        while played < count && !part.is_over() {
            let command = part.command();
            steps.push(DuelOp::Apply(part.now(), command));
            played += 1;
            if played.is_multiple_of(restore_every) {
                steps.push(DuelOp::Restore);
            }
            let first_new = steps.len() - if played.is_multiple_of(restore_every) { 2 } else { 1 };
            for at in first_new..steps.len() {
                if let Err(text) = attempt(&mut duel, &steps[at]) {
                    steps.truncate(at + 1);
                    return (played, Some(Found { setting, steps, text }));
                }
            }
            part.hear(duel.events());
        }
        script = part.continued(&[]);
    }
    tally.merge(duel.tally());
    (played, None)
}

/// Runs rounds until `count` commands are played or a difference is found.
fn campaign(count: u64, seed: u64, tally: &mut Tally) -> (u64, Option<Found>) {
    let mut random = Random(seed);
    let mut total = 0;
    while total < count {
        let part = ROUND_LEN.min(count - total);
        let (played, found) = round(part, &mut random, tally);
        total += played;
        if found.is_some() {
            return (total, found);
        }
    }
    (total, None)
}

/// Prints the fewest steps that show the difference, and the difference.
fn print_found(found: Found, seed: u64, total: u64) {
    println!("difference after {total} commands of seed {seed}: {}", found.text);
    let step_count = found.steps.len();
    // Otherwise a difference that only the whole campaign shows would be lost silently.
    if find_difference(found.setting, &found.steps).is_none() {
        println!("its round of {step_count} steps alone does not show it");
        return;
    }
    let (steps, difference) = shrink(found.setting, found.steps, SHRINK_TRIES);
    println!("{} of {step_count} steps show one:", steps.len());
    for (number, step) in (1..).zip(&steps) {
        match step {
            DuelOp::Apply(time, command) => {
                println!("  {number}: at {time}: {}", readable_command(command));
            }
            DuelOp::Restore => println!("  {number}: restore from a snapshot"),
        }
    }
    if let Some(difference) = difference {
        println!("at step {}: {}", difference.at + 1, difference.text);
    }
}

fn compare(options: &OracleArgs) -> ExitCode {
    let started = std::time::Instant::now();
    let mut tally = Tally::default();
    let (total, found) = campaign(options.count, options.seed, &mut tally);
    if let Some(found) = found {
        print_found(found, options.seed, total);
        return ExitCode::FAILURE;
    }
    if options.has_tally {
        for (group, kind, count) in tally.iter() {
            println!("{group}\t{kind}\t{count}");
        }
    }
    let reasons: Vec<String> = (tally.iter())
        .filter(|(group, _, _)| *group == "reason")
        .map(|(_, reason, count)| format!("\"{reason}\":{count}"))
        .collect();
    println!(
        "{{\"campaign\":\"engine_oracle\",\"seed\":{},\"commands\":{total},\"accepted\":{},\
         \"refused\":{},\"trades\":{},\"uncrossings\":{},\"reasons\":{{{}}},\"differences\":0,\
         \"seconds\":{:.1}}}",
        options.seed,
        tally.of("accepted", "request"),
        tally.of("refused", "request"),
        tally.of("order event", "Trade") / 2,
        tally.of("event", "Uncrossed with trades"),
        reasons.join(","),
        started.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}

/// The bugs that scripts are not known to reach: directed tests of the engine find them.
#[cfg(feature = "planted")]
const UNMET: [weir_engine::plant::Plant; 3] = [
    weir_engine::plant::Plant::NewMemberTakesPart,
    weir_engine::plant::Plant::SnapshotForgetsChanged,
    weir_engine::plant::Plant::SnapshotForgetsList,
];

/// Plays commands from the seed on, and from the seeds behind it, until a planted bug is found;
/// returns the number of all commands, the last seed, and the difference.
#[cfg(feature = "planted")]
fn find_planted(options: &OracleArgs) -> (u64, u64, Option<Found>) {
    let (mut played, mut last) = (0, options.seed);
    for seed in (options.seed..).take(PLANT_SEEDS_MAX) {
        let (total, found) = campaign(options.count, seed, &mut Tally::default());
        (played, last) = (played + total, seed);
        if found.is_some() {
            return (played, last, found);
        }
    }
    (played, last, None)
}

/// Plants each bug and prints the number of commands needed to find it.
#[cfg(feature = "planted")]
fn run_planted(options: &OracleArgs, plants: &[weir_engine::plant::Plant]) -> ExitCode {
    let mut missed_count = 0;
    for plant in plants {
        weir_engine::plant::set(Some(*plant));
        let (total, seed, found) = find_planted(options);
        match found {
            Some(found) if plants.len() == 1 => print_found(found, seed, total),
            Some(found) => {
                let (steps, _) = shrink(found.setting, found.steps, SHRINK_TRIES);
                let text = found.text.lines().next().unwrap_or_default();
                println!(
                    "{plant:?}: found after {total} commands, {} suffice: {text}",
                    steps.len()
                );
            }
            None => {
                missed_count += 1;
                println!("{plant:?}: NOT FOUND in {total} commands");
            }
        }
    }
    if missed_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the campaign, or plants bugs.
pub(crate) fn run(options: &OracleArgs) -> ExitCode {
    // An engine's panic is caught and reported as a difference.
    std::panic::set_hook(Box::new(|_| {}));
    if options.plant.is_none() && !options.plants {
        return compare(options);
    }
    #[cfg(feature = "planted")]
    {
        let all = weir_engine::plant::Plant::ALL.iter().copied();
        let name = options.plant.as_deref();
        let plants: Vec<_> = all
            .filter(|plant| match name {
                Some(name) => format!("{plant:?}") == name,
                None => !UNMET.contains(plant),
            })
            .collect();
        if !plants.is_empty() {
            return run_planted(options, &plants);
        }
        eprintln!("no bug is named {}", name.unwrap_or_default());
    }
    #[cfg(not(feature = "planted"))]
    eprintln!("build with --features planted");
    ExitCode::from(2)
}
