//! `weir-bench delivery-store`: updates, pages and empty polls per second of the order store, of a
//! plain store of one map and four trees, and of Tarantool, all on the same work in alternation.
//!
//! One run for each number of orders, with rows of 161 bytes plus the attributes at the same index
//! of the second list. Three secondary keys: firm, account and instrument.

mod machine;
mod sides;
mod work;

use sides::{Ours, Plain, Side, Tarantool};
use weir_delivery::{Kinds, row_len};
use work::Pattern;

use crate::rounds::{Rounds, Spent};

/// Options of `weir-bench delivery-store`.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// Orders of each run.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "200000")]
    orders: Vec<u64>,
    /// Bytes of attributes of each run; with 439 a row has 600 bytes.
    #[arg(long, value_name = "LEN,LEN", value_delimiter = ',', default_value = "439")]
    attributes: Vec<usize>,
    /// Rounds, each with every side.
    #[arg(long, default_value_t = 15)]
    rounds: u64,
    /// Updates of a round.
    #[arg(long, default_value_t = 50_000)]
    updates: u64,
    /// Tarantool's script and a directory for its files.
    #[arg(long, num_args = 2, value_names = ["SCRIPT", "DIR"])]
    tarantool: Option<Vec<String>>,
}

/// Rates of one kind of work, by side, and the ratios of our rate to the others' in the same round.
#[derive(Default)]
struct Figures {
    /// Ours, plain, Tarantool, Tarantool with prepared tuples; per second of wall time and of
    /// processor time.
    rates: [[Rounds; 2]; 4],
    ratios: [[Rounds; 2]; 4],
}

impl Figures {
    fn take(&mut self, round: &[Option<Spent>; 4]) {
        let ours = round[0].expect("ours is always there").rates();
        for (side, spent) in round.iter().enumerate() {
            let Some(spent) = spent else { continue };
            for (clock, rate) in spent.rates().into_iter().enumerate() {
                self.rates[side][clock].push(rate);
                self.ratios[side][clock].push(ours[clock] / rate);
            }
        }
    }

    fn json(&self) -> String {
        const SIDES: [&str; 4] = ["store", "plain", "tarantool", "tarantool_tuples"];
        let mut parts = Vec::new();
        for (side, name) in SIDES.into_iter().enumerate() {
            let [wall, cpu] = &self.rates[side];
            parts.push(format!("\"{name}_per_s\":{}", wall.json(0)));
            parts.push(format!("\"{name}_per_cpu_s\":{}", cpu.json(0)));
            if side > 0 {
                let [wall, cpu] = &self.ratios[side];
                parts.push(format!("\"store_to_{name}\":{}", wall.json(2)));
                parts.push(format!("\"store_to_{name}_cpu\":{}", cpu.json(2)));
            }
        }
        format!("{{{}}}", parts.join(","))
    }
}

struct Sides {
    ours: Ours,
    plain: Plain,
    tarantool: Option<Tarantool>,
}

impl Sides {
    /// Runs one round: each side once, starting with another one each time.
    fn round(&mut self, turn: u64, work: &dyn Fn(&mut dyn Side) -> Spent) -> [Option<Spent>; 4] {
        let mut round = [None; 4];
        for offset in 0..4 {
            let which = ((turn + offset) % 4) as usize;
            round[which] = match (which, &mut self.tarantool) {
                (0, _) => Some(work(&mut self.ours)),
                (1, _) => Some(work(&mut self.plain)),
                (_, None) => None,
                (which, Some(peer)) => Some(work(peer.with_tuples(which == 3))),
            };
        }
        round
    }

    fn figures(&mut self, rounds: u64, work: impl Fn(&mut dyn Side, u64) -> Spent) -> String {
        let mut figures = Figures::default();
        for turn in 0..rounds {
            let round = self.round(turn, &|side| work(side, turn + 1));
            figures.take(&round);
        }
        figures.json()
    }
}

fn compare(config: &StoreArgs, orders: u64, attributes: usize) -> String {
    let row_bytes = row_len(attributes);
    let tarantool = config.tarantool.as_deref().map(|words| {
        let (script, dir) = (&words[0], &words[1]);
        let memory = (orders * (row_bytes as u64 + 500)).max(1 << 30);
        // The row's own fields take about fifty of its bytes.
        let dir = format!("{dir}/{orders}");
        std::fs::create_dir_all(&dir).expect("a directory for Tarantool");
        Tarantool::start(script, &dir, row_bytes - 50, memory).expect("Tarantool starts")
    });
    let (ours, plain) = (Ours::new(attributes), Plain::new(attributes));
    let mut sides = Sides { ours, plain, tarantool };
    eprintln!("{orders} orders of {row_bytes} bytes: loading");
    let load = [
        Some(sides.ours.load(orders)),
        Some(sides.plain.load(orders)),
        sides.tarantool.as_mut().map(|peer| peer.load(orders)),
        None,
    ];
    let mut inserts = Figures::default();
    inserts.take(&load);
    let (rounds, updates) = (config.rounds, config.updates);
    let pages = updates / 25;
    // Pages start from random places while the newest rows are of any order; after hot updates the
    // newest rows are a few orders over and over, as followers at the head read them.
    let update = |sides: &mut Sides, pattern: Pattern| {
        eprintln!("{orders} orders: updates {}", pattern.name());
        sides.figures(rounds, |side, seed| side.update(pattern, updates, seed))
    };
    let rand = update(&mut sides, Pattern::Rand);
    eprintln!("{orders} orders: pages");
    let all = sides.figures(rounds, |side, seed| side.page(false, pages, seed));
    let firm = sides.figures(rounds, |side, seed| side.page(true, pages, seed));
    let hot = update(&mut sides, Pattern::Hot);
    let newest = sides.figures(rounds, |side, seed| side.page(false, pages, seed));
    let polls = sides.figures(rounds, |side, _| side.poll(updates));
    let peer_bytes = sides.tarantool.as_mut().map_or(0, Side::memory);
    let (ours_memory, inserts) = (sides.ours.memory_json(), inserts.json());
    // Frees the memory before two more stores of as many orders.
    drop(sides);
    let apply = apply_rates(config, orders, attributes);
    let machine = machine::memory_json(orders, row_bytes, rounds);
    format!(
        "{{\"orders\":{orders},\"row_bytes\":{row_bytes},\"inserts\":{inserts},\
         \"updates_rand\":{rand},\"updates_hot\":{hot},\"rows_of_all\":{all},\
         \"rows_of_firm\":{firm},\"rows_of_newest\":{newest},\"empty_polls\":{polls},\
         \"apply\":{apply},\"memory\":{ours_memory},\
         \"machine\":{machine},\"tarantool_arena_bytes\":{peer_bytes}}}"
    )
}

/// Measures the updates of replicas: without indexes, and with all of them.
fn apply_rates(config: &StoreArgs, orders: u64, attributes: usize) -> String {
    eprintln!("{orders} orders: updates of replicas");
    let mut replicas = [Kinds::NONE, Kinds::FULL].map(|kinds| {
        let mut replica = Ours::with_kinds(attributes, kinds);
        let _ = replica.load(orders);
        replica
    });
    let mut rates: [[Rounds; 2]; 2] = Default::default();
    let mut ratios: [Rounds; 2] = Default::default();
    for turn in 0..config.rounds {
        let mut round = [[0.0; 2]; 2];
        for offset in 0..2 {
            let which = ((turn + offset) % 2) as usize;
            let spent = replicas[which].update(Pattern::BOTH[0], config.updates, turn + 1);
            round[which] = spent.rates();
        }
        for clock in 0..2 {
            rates[0][clock].push(round[0][clock]);
            rates[1][clock].push(round[1][clock]);
            ratios[clock].push(round[0][clock] / round[1][clock]);
        }
    }
    let [[bare, bare_cpu], [full, full_cpu]] = &rates;
    format!(
        "{{\"unindexed_per_s\":{},\"unindexed_per_cpu_s\":{},\"indexed_per_s\":{},\
         \"indexed_per_cpu_s\":{},\"unindexed_to_indexed\":{},\"unindexed_to_indexed_cpu\":{}}}",
        bare.json(0),
        bare_cpu.json(0),
        full.json(0),
        full_cpu.json(0),
        ratios[0].json(2),
        ratios[1].json(2)
    )
}

/// Runs the benchmark.
///
/// # Panics
/// If the two lists differ in length, or Tarantool does not start.
pub fn run(config: &StoreArgs) -> anyhow::Result<()> {
    assert_eq!(config.orders.len(), config.attributes.len(), "as many of one as of the other");
    let runs: Vec<String> = config
        .orders
        .iter()
        .zip(&config.attributes)
        .map(|(orders, attributes)| compare(config, *orders, *attributes))
        .collect();
    println!(
        "{{\"keys\":[\"firm\",\"account\",\"instrument\"],\"page_rows\":{},\"rounds\":{},\
         \"round_updates\":{},\"tarantool\":{},\"runs\":[{}]}}",
        sides::PAGE_ROWS,
        config.rounds,
        config.updates,
        config.tarantool.is_some(),
        runs.join(",")
    );
    Ok(())
}
