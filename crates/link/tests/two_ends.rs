//! Both ends of the link against a slow model of the rest: gateways, a partition, clients, and a
//! network that cuts connections.

mod model;

use model::{Tally, World};

const STEPS: u64 = 400;

/// Names the seed of a run that fails.
struct OfSeed(u64);

impl Drop for OfSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn run(seed: u64) -> World {
    let _seed = OfSeed(seed);
    let mut world = World::new(seed);
    world.run(STEPS);
    world
}

#[test]
fn the_rules_hold_through_cuts_and_kills() {
    let seeds =
        std::env::var("WEIR_LINK_SEEDS").map_or(300, |text| text.parse().expect("a number"));
    let mut sum = Tally::default();
    let first = std::env::var("WEIR_LINK_SEED").map_or(0, |text| text.parse().expect("a number"));
    for seed in first..first + seeds {
        let tally = run(seed).tally;
        sum.answers += tally.answers;
        sum.cuts += tally.cuts;
        sum.kills += tally.kills;
        sum.losses += tally.losses;
        sum.moves += tally.moves;
        sum.continued += tally.continued;
        sum.epochs += tally.epochs;
        sum.lapses += tally.lapses;
        sum.revoked += tally.revoked;
    }
    println!("{sum:?}");
    let Tally { answers, cuts, kills, losses, moves, continued, epochs, lapses, revoked } = sum;
    let each = [answers, cuts, kills, losses, moves, continued, epochs, lapses, revoked];
    assert!(each.iter().all(|count| *count > 0), "something never happened: {sum:?}");
}

#[cfg(feature = "planted")]
#[test]
fn each_planted_bug_of_the_model_is_found() {
    use weir_link::plant::{self, Plant};
    // Those of `lies.rs`, `moves.rs` and `gateway.rs`.
    let of_lies = [
        Plant::UnboundCommandTaken,
        Plant::SealIgnored,
        Plant::LowerGenerationBinds,
        Plant::MoveForgotten,
        Plant::PulsesDeferred,
    ];
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for planted in Plant::ALL.iter().filter(|one| !of_lies.contains(one)) {
        plant::set(Some(*planted));
        let found = (0..2_000).find(|seed| std::panic::catch_unwind(|| run(*seed)).is_err());
        plant::set(None);
        match found {
            Some(seed) => eprintln!("{planted:?}: seed {seed}"),
            None => missed.push(*planted),
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "not found: {missed:?}");
}
