//! `weir-bench delivery-cold`: the effect of readers of the archive on readers of the store.
//!
//! The desk, the sender and the archive's agent are the node's own, with the same shares of the
//! processor for their two threads; sockets are left out. The store takes ten changes every 200 µs
//! and serves a reader at its head, which sends queries at fixed times (open loop: latencies count
//! from the due time of each query). Pairs of runs, in alternating order, measure this reader alone
//! and next to readers that go through the day from its start. Then each kind of token is read
//! alone. [`archive`] measures the archive without the node.

pub mod archive;
mod flow;
mod rig;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use weir_node::node::DELIVERY_SHARE;
use weir_types::PartitionId;

use self::rig::Rig;
use crate::roundtrip::{WorkDir, median_with_interval};

pub(super) const SOURCE: PartitionId = PartitionId(1);
/// The time between two queries of the reader at the head.
const TICK: Duration = Duration::from_micros(200);
/// The number of changes between two queries.
const CHANGES: u32 = 10;
/// The connection of the reader at the head; those of archive readers follow.
const HOT: u64 = 1;

/// Options of `weir-bench cold`.
#[derive(Debug, clap::Args)]
pub struct ColdArgs {
    /// Changes of the day.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Size of each order's attributes in bytes.
    #[arg(long, default_value_t = 150)]
    attributes: usize,
    /// Ended orders that the store retains.
    #[arg(long, default_value_t = 200_000)]
    kept: u32,
    /// Pairs of a run without archive readers and one with them.
    #[arg(long, default_value_t = 15)]
    pairs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Archive readers.
    #[arg(long, default_value_t = 4)]
    readers: u64,
    /// Entries per second that all archive readers together may scan.
    #[arg(long, default_value_t = 1_300_000)]
    pace: u64,
}

/// An archive reader, which goes through the day and starts again.
struct Cold {
    from: Vec<u8>,
    firm: u32,
}

/// The figures of one run.
struct Served {
    latencies: Histogram<u64>,
    rows_per_second: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// A directory that cannot be created, or a disk failure.
pub fn run(args: ColdArgs) -> anyhow::Result<()> {
    let dir = WorkDir::create(None)?;
    let (mut rig, wake) = Rig::new(&args, dir.path())?;
    rig.fill(1_000);
    let mut head = follow(&mut rig, Vec::new(), 0);
    let (morning, mut noon) = (head.clone(), head.clone());
    let of_large = follow(&mut rig, Vec::new(), flow::FIRM_LARGE);
    let of_small = follow(&mut rig, Vec::new(), flow::FIRM_SMALL);
    let begun = Instant::now();
    while rig.seq() < args.rows {
        // The reader at the head stays there: it never falls behind the store's retention.
        rig.fill(u64::from(args.kept / 4).max(1));
        head = follow(&mut rig, head, 0);
        if rig.seq() <= args.rows / 2 {
            noon.clone_from(&head);
        }
    }
    println!("{:.0} changes a second fed", args.rows as f64 / begun.elapsed().as_secs_f64());
    let mut thread = rig.start(wake)?;
    // This thread has the share of the store's thread from here on.
    weir_probe::thread::ask_for(DELIVERY_SHARE)?;
    let all = Cold { from: morning, firm: 0 };
    let mut alone_by_token = serde_json::Map::new();
    let large = Cold { from: of_large, firm: flow::FIRM_LARGE };
    let small = Cold { from: of_small, firm: flow::FIRM_SMALL };
    for (name, cold) in [
        ("morning", &all),
        ("noon", &Cold { from: noon, firm: 0 }),
        ("10 %", &large),
        ("0.5 %", &small),
    ] {
        let served = serve(&mut rig, &args, Some(cold), &mut head);
        println!("{name}: {:.0} rows/s", served.rows_per_second);
        alone_by_token.insert(name.to_owned(), json!(served.rows_per_second.round()));
    }
    let pairs = pairs(&mut rig, &args, &all, &mut head);
    thread.ask_to_stop();
    anyhow::ensure!(thread.join().is_ok(), "the thread of the archive panicked");
    let report = rig.figures.report(SOURCE);
    let result = json!({
        "name": "delivery-cold", "rows": args.rows, "attributes": args.attributes,
        "bytes_a_row": report.archive.file_bytes as f64 / report.archive.entries.max(1) as f64,
        "pace": args.pace, "readers": args.readers, "rows_per_s_by_token": alone_by_token,
        "pairs": args.pairs, "hot_over_cold": pairs,
        "holes": report.archive.holes, "not_now": report.counts.not_now,
    });
    println!("{result}");
    Ok(())
}

fn pairs(rig: &mut Rig, args: &ColdArgs, cold: &Cold, head: &mut Vec<u8>) -> Value {
    let (mut ratios, mut medians, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..args.pairs {
        let first = (pair % 2 == 0).then(|| serve(rig, args, None, head));
        let beside = serve(rig, args, Some(cold), head);
        let alone = first.unwrap_or_else(|| serve(rig, args, None, head));
        let at = |served: &Served, quantile| served.latencies.value_at_quantile(quantile) as f64;
        println!(
            "pair {pair}: p50 {} and {} ns, p99 {} and {} ns alone and beside; {:.0} rows/s",
            at(&alone, 0.5),
            at(&beside, 0.5),
            at(&alone, 0.99),
            at(&beside, 0.99),
            beside.rows_per_second,
        );
        ratios.push(at(&beside, 0.99) / at(&alone, 0.99));
        medians.push(at(&beside, 0.5) / at(&alone, 0.5));
        rates.push(beside.rows_per_second);
    }
    json!({
        "p99_ratio": median_with_interval(&mut ratios).json(),
        "p50_ratio": median_with_interval(&mut medians).json(),
        "cold_rows_per_s": median_with_interval(&mut rates).json(),
    })
}

/// Reads from a token until the reader is online; returns the last token.
fn follow(rig: &mut Rig, mut token: Vec<u8>, firm: u32) -> Vec<u8> {
    loop {
        rig.ask(HOT, &token, 0, firm);
        let got = std::iter::repeat_with(|| rig.cycle()).flatten().next();
        let got = got.expect("the desk answers");
        token = got.token;
        if got.is_online {
            return token;
        }
    }
}

/// Serves the reader at the head for one run, with or without archive readers.
fn serve(rig: &mut Rig, args: &ColdArgs, cold: Option<&Cold>, head: &mut Vec<u8>) -> Served {
    let mut latencies = Histogram::new(3).expect("three digits");
    let before = rig.figures.counters.rows.load(Ordering::Relaxed);
    for reader in cold.iter().flat_map(|_| 0..args.readers) {
        let cold = cold.expect("there are readers");
        rig.ask(HOT + 1 + reader, &cold.from, 0, cold.firm);
    }
    let (start, count) = (Instant::now(), (args.seconds / TICK.as_secs_f64()) as u32);
    for tick in 0..count {
        let due = TICK * tick;
        while let Some(rest) = due.checked_sub(start.elapsed()) {
            // Like the agent, which is woken when pages arrive.
            let came = take(rig, cold, &mut None);
            if !came && rest > Duration::from_micros(80) {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        (0..CHANGES).for_each(|_| rig.change());
        rig.ask(HOT, head, 50, 0);
        let mut next = None;
        while next.is_none() {
            take(rig, cold, &mut next);
        }
        *head = next.expect("it came");
        let late = u64::try_from((start.elapsed() - due).as_nanos()).expect("seconds");
        latencies.record(late).expect("it grows");
    }
    let rows = rig.figures.counters.rows.load(Ordering::Relaxed) - before;
    let rows_per_second = rows as f64 / start.elapsed().as_secs_f64();
    (0..args.readers).for_each(|reader| rig.desk.drop_connection(HOT + 1 + reader));
    Served { latencies, rows_per_second }
}

/// Takes the pages that arrived: stores the next token of the reader at the head, and repeats the
/// query of archive readers. Returns true if any arrived.
fn take(rig: &mut Rig, cold: Option<&Cold>, head: &mut Option<Vec<u8>>) -> bool {
    let came = rig.cycle();
    let some = !came.is_empty();
    for got in came {
        if got.connection == HOT {
            *head = Some(got.token);
            continue;
        }
        let Some(cold) = cold else { continue };
        // An archive reader that has reached the store starts its day again.
        let again = got.is_online || got.row_count == 0;
        let token = if again { &cold.from } else { &got.token };
        rig.ask(got.connection, token, 0, cold.firm);
    }
    some
}
