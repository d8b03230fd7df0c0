//! `weir-bench market-books`: the cost of an update of the books, in nanoseconds, over 1, 100 and
//! 8,000 instruments, and with a million resting orders, one at a time and in batches with
//! prefetching.
//!
//! The flow is generated between stretches of 65,536 updates, so that its generation is not timed
//! and it does not fill memory. Each setting has three figures, each from its own pass: the mean
//! over stretches, batches of 64 timed together, and single updates timed one by one (minus the
//! cost of the clock itself).
//!
//! `Prepared` is the seam for a codec: its contents are made before the clock starts, and `play` is
//! timed. It holds updates; with the bytes of a feed it would hold those, and decode them.

use std::hint::black_box;
use std::time::Instant;

use weir_feed::Update;
use weir_market::book::Anomaly;
use weir_market::{Books, BooksConfig};
use weir_types::InstrumentId;

use super::flow::{Flow, Shape};
use crate::memory::allocation_count;

/// Updates generated, then played, at a time.
const STRETCH: usize = 1 << 16;
/// Updates timed together and applied together.
const BATCH: usize = 64;

/// A stretch of updates, made before the clock starts.
struct Prepared {
    updates: Vec<Update>,
}

/// The way in which a stretch is played.
#[derive(Clone, Copy, PartialEq)]
enum How {
    OneByOne,
    Batches,
}

impl Prepared {
    fn make(&mut self, flow: &mut Flow) {
        self.updates.clear();
        self.updates.extend((0..STRETCH).map(|_| flow.next()));
    }

    /// Plays a range of updates and counts changes of the best bid and offer.
    #[inline]
    fn play(&self, from: std::ops::Range<usize>, how: How, books: &mut Books) -> u64 {
        let updates = &self.updates[from];
        let mut changed = 0;
        match how {
            How::OneByOne => {
                for update in updates {
                    changed += u64::from(black_box(books.apply(update)).best.is_some());
                }
            }
            How::Batches => books.apply_all(updates, |_, change| {
                changed += u64::from(black_box(change).best.is_some());
            }),
        }
        changed
    }
}

/// The cost of an update in nanoseconds.
#[derive(Default)]
struct Figures {
    mean: f64,
    batch: [f64; 3],
    single: [f64; 3],
    best_changes_percent: f64,
    allocations: u64,
}

/// Returns the 50th, 99th and 99.9th percentile.
fn percentiles(mut samples: Vec<u32>, divisor: f64, less: u32) -> [f64; 3] {
    samples.sort_unstable();
    [500, 990, 999].map(|per_mille| {
        let at = (samples.len() * per_mille / 1_000).min(samples.len() - 1);
        f64::from(samples[at].saturating_sub(less)) / divisor
    })
}

fn nanos(start: Instant) -> u32 {
    u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

fn clock_overhead() -> u32 {
    let mut samples: Vec<u32> = (0..10_000).map(|_| nanos(Instant::now())).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn measure(shape: Shape, how: How, update_count: usize) -> Figures {
    let orders = u32::try_from(shape.live_orders + shape.live_orders / 8).expect("it fits");
    let config = BooksConfig {
        orders,
        instruments: shape.instruments,
        levels_per_side: 64,
        ..BooksConfig::default()
    };
    let (mut books, mut flow) = (Books::new(&config), Flow::new(shape));
    for instrument in 1..=shape.instruments {
        assert!(books.define(InstrumentId(instrument)), "there is room");
    }
    let mut stretch = Prepared { updates: Vec::with_capacity(STRETCH) };
    loop {
        stretch.updates.clear();
        flow.fill(&mut stretch.updates, STRETCH);
        if stretch.updates.is_empty() {
            break;
        }
        books.apply_all(&stretch.updates, |_, _| {});
    }
    let mut figures = Figures::default();
    let rounds = update_count.div_ceil(STRETCH);
    for _ in 0..rounds.div_ceil(2) {
        stretch.make(&mut flow);
        stretch.play(0..STRETCH, how, &mut books);
    }
    let mut batches = Vec::with_capacity(rounds * STRETCH / BATCH);
    let mut singles = Vec::with_capacity(rounds * STRETCH);
    let (mut total, mut changed) = (0, 0);
    let before = allocation_count();
    for _ in 0..rounds {
        stretch.make(&mut flow);
        let start = Instant::now();
        changed += stretch.play(0..STRETCH, how, &mut books);
        total += u64::from(nanos(start));
        stretch.make(&mut flow);
        for at in (0..STRETCH).step_by(BATCH) {
            let start = Instant::now();
            stretch.play(at..at + BATCH, how, &mut books);
            batches.push(nanos(start));
        }
        if how == How::OneByOne {
            stretch.make(&mut flow);
            for at in 0..STRETCH {
                let start = Instant::now();
                stretch.play(at..at + 1, how, &mut books);
                singles.push(nanos(start));
            }
        }
    }
    figures.allocations = allocation_count() - before;
    check(&books, shape);
    let count = (rounds * STRETCH) as f64;
    figures.mean = total as f64 / count;
    figures.best_changes_percent = changed as f64 * 100.0 / count;
    figures.batch = percentiles(batches, BATCH as f64, 0);
    if how == How::OneByOne {
        figures.single = percentiles(singles, 1.0, clock_overhead());
    }
    figures
}

/// Checks that the books understood the flow: a figure is valid only then.
fn check(books: &Books, shape: Shape) {
    assert_eq!(books.anomalies().total(), 0, "the flow fits together");
    assert_eq!(books.anomalies().of(Anomaly::UnknownOrder), 0);
    let live = books.order_count() as usize;
    assert!(live.abs_diff(shape.live_orders) < shape.live_orders / 8 + 100, "{live} orders rest");
}

fn json(shape: Shape, how: How, figures: &Figures) -> String {
    let Figures { mean, batch, single, best_changes_percent, allocations } = figures;
    let (instruments, live, recent) =
        (shape.instruments, shape.live_orders, shape.recent_of_ten * 10);
    let how = if how == How::OneByOne { "one" } else { "batch" };
    let list = |of: &[f64; 3]| format!("[{:.1},{:.1},{:.1}]", of[0], of[1], of[2]);
    format!(
        "{{\"instruments\":{instruments},\"live_orders\":{live},\"recent_percent\":{recent},\
         \"apply\":\"{how}\",\"mean_ns\":{mean:.1},\"batch_p50_p99_p999_ns\":{},\
         \"single_p50_p99_p999_ns\":{},\"best_changes_percent\":{best_changes_percent:.1},\
         \"allocations\":{allocations}}}",
        list(batch),
        list(single),
    )
}

/// Options of `weir-bench market-books`.
#[derive(Debug, clap::Args)]
pub struct BooksArgs {
    /// Updates of a run.
    #[arg(default_value_t = 4_000_000)]
    updates: usize,
}

/// Runs the benchmark.
pub fn run(args: &BooksArgs) -> anyhow::Result<()> {
    let updates = args.updates;
    let mut lines = Vec::new();
    println!("ns per update: mean | batches of {BATCH}: p50 p99 p99.9 | single: p50 p99 p99.9");
    for (instruments, live_orders, recent_of_ten) in [
        (1, 2_000, 7),
        (100, 50_000, 7),
        (8_000, 400_000, 7),
        (8_000, 400_000, 0),
        (8_000, 1_000_000, 7),
        (8_000, 1_000_000, 0),
    ] {
        let shape = Shape { instruments, live_orders, recent_of_ten };
        for how in [How::OneByOne, How::Batches] {
            let figures = measure(shape, how, updates);
            let Figures { mean, batch, single, allocations, .. } = &figures;
            let name = if how == How::OneByOne { "one by one" } else { "batches" };
            println!(
                "{instruments:>5} instruments, {live_orders:>7} orders, {recent_of_ten}/10 recent, \
                 {name:<10}: {mean:6.1} | {batch:6.1?} | {single:6.1?} | {allocations} allocations"
            );
            lines.push(json(shape, how, &figures));
        }
    }
    println!("{{\"bench\":\"market-books\",\"updates\":{updates},\"runs\":[{}]}}", lines.join(","));
    Ok(())
}
