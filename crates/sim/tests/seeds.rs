//! The simulation's own promises: seeds hold, replay, and find every planted bug.

use std::process::Command;

use weir_sim::campaign::{run_seed, run_seeds};
use weir_sim::day::{self, run_day};
use weir_sim::plant::{Front, Plant};

/// The number of seeds within which a planted bug must be found.
const SEEDS_MAX: u64 = 400;

#[test]
fn no_seed_breaks_a_rule_and_every_fault_is_met() {
    let report = run_seeds(Front::Crowd, 1..301, |_, _| {});
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let total = report.total;
    for (what, count) in [
        ("self-stops", total.self_stops),
        ("recovery crashes", total.recovery_crashes),
        ("lost tails", total.lost_tails),
        ("snapshots", total.snapshots),
        ("refusals", total.refused),
        ("refused tokens", total.resyncs),
        ("truncations", total.truncations),
        ("changes of many instruments", total.changes_of_many),
        ("schedules of many instruments", total.schedules_of_many),
        ("spells without descriptors", total.spells.descriptors),
        ("stalls", total.spells.stalls),
        ("spells without room", total.spells.full),
    ] {
        assert!(count > 0, "no {what} in {} seeds", report.seeds);
    }
    println!("{}", report.to_json());
}

#[test]
fn every_client_is_told_its_own_reports_once_and_in_order() {
    let report = run_seeds(Front::Gateway, 1..301, |_, _| {});
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let (total, gate) = (report.total, report.total.gate);
    for (what, count) in [
        ("crashes", total.crashes),
        ("lost tails", total.lost_tails),
        ("copies", gate.copies),
        ("logons to a session elsewhere", gate.taken),
        ("logons with lost events", gate.other_histories),
        ("copies that were lost", gate.other_copies),
        ("slow sessions", gate.slow),
        ("silent sessions", gate.silent),
        ("replaced keys", gate.keys_replaced),
        ("takeovers", gate.takeovers),
        ("clients that were told of a takeover", gate.taken_over),
        ("sessions that were taken back", gate.taken_back),
        ("sessions that moved to another connection", gate.moved),
        ("blocked writes", gate.blocked_writes),
        ("orders that went with their session", gate.lost_orders),
        ("old records from files", gate.old_records),
        ("steps of the wall clock", total.clock_steps),
        ("requests beyond a rate", gate.throttled),
        ("strangers that made place", gate.evicted),
        ("spells without descriptors", total.spells.descriptors),
        ("stalls", total.spells.stalls),
        ("spells without room", total.spells.full),
        ("requests that a full log refused", gate.refused),
        ("messages that waited for room in a ring", gate.waited),
        ("accepts without a descriptor", gate.failed_accepts),
        ("truncations", total.truncations),
        ("changes of many instruments", total.changes_of_many),
        ("schedules of many instruments", total.schedules_of_many),
        ("events past the retention", gate.past_retention),
        ("checkpoints", gate.checkpoints),
        ("starts with a checkpoint", gate.checkpoint_starts),
        ("starts at which the checkpoints' disk failed", gate.failed_checkpoint_starts),
        ("starts that found a checkpoint of lost events", gate.lost_checkpoints),
        ("looks at events held for a checkpoint", gate.held_for_checkpoints),
        ("sessions of lost events without a retained one", gate.bare_trails),
    ] {
        assert!(count > 0, "no {what} in {} seeds", report.seeds);
    }
    println!("{}", report.to_json());
}

#[test]
fn a_short_day_breaks_no_rule_and_nothing_grows_in_it() {
    let report = run_day(day::SHORT, 1, None);
    assert_eq!(report.outcome.violation, None);
    let (total, ends) = (report.outcome.tally, report.ends);
    for (what, count) in [
        ("kills", ends.kills),
        ("losses of power", ends.power_losses),
        ("clean stops", ends.clean_stops),
        ("spells", total.spells.descriptors + total.spells.stalls + total.spells.full),
        ("steps of the wall clock", total.clock_steps),
        ("truncations", total.truncations),
        ("checkpoints", total.gate.checkpoints),
        ("lost connections", total.gate.lost_connections),
        ("copies", total.gate.copies),
    ] {
        assert!(count > 0, "no {what}");
    }
    assert!(total.commands > 5_000 && report.sample_count > 200, "{}", report.to_json());
    println!("{}", report.to_json());
}

#[test]
fn seeds_that_once_showed_a_fault_stay_clean() {
    let seeds: [(Front, &[u64]); 2] = [
        (Front::Crowd, &[358, 1191, 4970, 5040]),
        (
            Front::Gateway,
            &[
                15, 25, 221, 824, 2113, 42826, 100_592, 110_213, 111_667, 504_888, 551_083,
                552_793, 553_604, 804_280, 1_045_386,
            ],
        ),
    ];
    for (front, seeds) in seeds {
        for seed in seeds.iter().copied() {
            assert_eq!(run_seed(front, seed, None).violation, None, "{front:?}, seed {seed}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_trace_again_and_in_another_process() {
    let fronts = [("run", Front::Crowd), ("gate", Front::Gateway)];
    for (seed, (word, front)) in (1..9).flat_map(|seed| fronts.map(|front| (seed, front))) {
        let (first, second) = (run_seed(front, seed, None), run_seed(front, seed, None));
        assert_eq!(first, second, "seed {seed}");
        let seed_text = seed.to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_weir-sim"))
            .args([word, "--seed", &seed_text])
            .output()
            .expect("the binary runs");
        let said = String::from_utf8(output.stdout).expect("it says text");
        let trace = format!("seed {seed} trace {:016x} ", first.trace_hash);
        assert!(said.starts_with(&trace), "{said} is not {trace}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    for plant in Plant::ALL {
        let found = (1..=SEEDS_MAX).find_map(|seed| {
            run_seed(plant.front(), seed, Some(plant)).violation.map(|violation| (seed, violation))
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        println!("{plant:?}: found by seed {seed}: {violation}");
    }
}

#[test]
fn bugs_that_only_make_things_grow_break_no_rule_of_a_short_run() {
    for plant in [Plant::TruncationIgnored, Plant::SnapshotsCease] {
        for seed in 1..31 {
            let outcome = run_seed(Front::Gateway, seed, Some(plant));
            assert_eq!(outcome.violation, None, "{plant:?}, seed {seed}");
        }
    }
}

#[cfg(feature = "planted")]
#[test]
fn the_day_finds_planted_bugs_that_leave_files() {
    use weir_partition::plant::Plant as InPartition;
    for (plant, series) in [
        (Plant::InPartition(InPartition::SnapshotsNeverPruned), "snapshots"),
        (Plant::InPartition(InPartition::CheckpointsNeverPruned), "checkpoints"),
    ] {
        assert_eq!(plant.front(), Front::Day);
        let report = run_day(day::SHORT, 1, Some(plant));
        let grown = report.judged.iter().filter(|judged| !judged.is_flat());
        let grown: Vec<_> = grown.map(|judged| judged.what).collect();
        println!("{plant:?}: {:?}", report.outcome.violation);
        assert!(grown.contains(&series), "{plant:?}: {grown:?}");
    }
}
