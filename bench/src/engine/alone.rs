//! `weir-bench engine-alone`: throughput, latency, allocations and memory of the engine.
//!
//! The synthetic mix is adds, cancels, replaces and crosses at 45/40/5/10 over 100 instruments and
//! a million accounts. A flow file holds recorded commands, each a little-endian u32 length and a
//! log entry's bytes. Throughput and latency are measured in separate passes, so that clock reads
//! do not disturb the throughput, which is per second of this thread's processor time. Latency is
//! per operation in time-stamp-counter ticks, minus the cost of reading the counter.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use weir_engine::{Engine, EngineConfig, Memory};
use weir_types::{Nanos, PartitionId, Position};
use weir_wire::{Command, Event};

use super::mix::Mix;
use super::timing::{Latency, Spent, Ticks, time_spent};
use crate::memory::allocation_count;
use crate::programs::number;

/// Commands built before each timed stretch, so that building them is not timed.
const BLOCK_LEN: usize = 1_000;

struct Run {
    engine: Engine,
    position: u64,
}

impl Run {
    fn new(config: EngineConfig) -> Run {
        Run { engine: Engine::new(config), position: 0 }
    }

    #[inline]
    fn apply(&mut self, command: &Command, encoded: &mut Vec<u8>) {
        self.position += 1;
        let (position, time) = (Position(self.position), Nanos(self.position));
        self.engine.apply(position, time, command, &mut |event: &Event| {
            event.encode(encoded);
        });
    }
}

/// The figures of one stream of commands.
struct Figures {
    operations: u64,
    per_second: f64,
    per_second_wall: f64,
    latency: Latency,
    allocations_per_operation: f64,
    event_bytes_per_operation: f64,
}

/// Appends the next commands, up to the given number; receives the records of the previous ones.
type Source<'a> = dyn FnMut(&mut Run, &mut Vec<Command>, usize, &[u8]) + 'a;

/// Times `operations` commands from `next`, encoding event records like the event log.
fn measure(run: &mut Run, operations: usize, next: &mut Source<'_>) -> Figures {
    let mut encoded = Vec::with_capacity(64 << 20);
    let mut block = Vec::with_capacity(BLOCK_LEN);
    let (mut spent, mut done) = (Spent::default(), 0);
    let (mut event_bytes, mut allocations) = (0, 0);
    while done < operations {
        block.clear();
        next(run, &mut block, BLOCK_LEN.min(operations - done), &encoded);
        encoded.clear();
        if block.is_empty() {
            break;
        }
        let before = allocation_count();
        spent += time_spent(|| {
            for (at, command) in block.iter().enumerate() {
                run.engine.prefetch(&block[at + 1..]);
                run.apply(command, &mut encoded);
            }
        });
        allocations += allocation_count() - before;
        event_bytes += encoded.len();
        black_box(&encoded);
        done += block.len();
    }
    let mut ticks = Ticks::new(operations);
    let mut timed = 0;
    while timed < operations {
        block.clear();
        next(run, &mut block, BLOCK_LEN.min(operations - timed), &encoded);
        encoded.clear();
        if block.is_empty() {
            break;
        }
        for (at, command) in block.iter().enumerate() {
            ticks.time(|| {
                run.engine.prefetch(&block[at + 1..]);
                run.apply(command, &mut encoded);
            });
        }
        timed += block.len();
    }
    Figures {
        operations: done as u64,
        per_second: done as f64 / spent.processor,
        per_second_wall: done as f64 / spent.wall,
        latency: ticks.latency(),
        allocations_per_operation: allocations as f64 / done as f64,
        event_bytes_per_operation: event_bytes as f64 / done as f64,
    }
}

fn bench_config() -> EngineConfig {
    EngineConfig {
        positions_max: 1 << 22,
        memory: Memory::Ahead,
        ..EngineConfig::new(PartitionId(1))
    }
}

/// Plays the mix's reference data and money, then its standing orders.
fn furnish(run: &mut Run, mix: &mut Mix, standing: usize) {
    let mut sink = Vec::new();
    for command in mix.opening() {
        run.apply(&command, &mut sink);
        sink.clear();
    }
    for _ in 0..standing {
        let command = mix.add();
        run.apply(&command, &mut sink);
        mix.hear(&sink);
        sink.clear();
    }
}

/// Returns bytes per live order and per open position, from the growth of the process as they are
/// added.
fn memory_figures() -> (f64, f64) {
    const COUNT: usize = 1_000_000;
    let config = EngineConfig {
        positions_max: COUNT as u32,
        orders_max: COUNT as u32,
        memory: Memory::AsFilled,
        ..bench_config()
    };
    let mut mix = Mix::new(7);
    let mut run = Run::new(config);
    let mut sink = Vec::with_capacity(1 << 20);
    for command in mix.reference_data().into_iter().chain(mix.fill_answers()) {
        run.apply(&command, &mut sink);
        sink.clear();
    }
    let before = resident_bytes();
    for at in 0..COUNT {
        let command = mix.open_position(at as u32);
        run.apply(&command, &mut sink);
        sink.clear();
    }
    let positions = resident_bytes() - before;
    assert_eq!(run.engine.open_position_count(), COUNT);
    let before = resident_bytes();
    for at in 0..COUNT {
        let command = mix.resting_sell(at as u32);
        run.apply(&command, &mut sink);
        sink.clear();
    }
    let orders = resident_bytes() - before;
    assert_eq!(run.engine.live_order_count() as usize, COUNT);
    (orders as f64 / COUNT as f64, positions as f64 / COUNT as f64)
}

/// Options of `weir-bench engine-alone`.
#[derive(Debug, clap::Args)]
pub struct AloneArgs {
    /// Operations of the mix.
    #[arg(default_value = "5000000", value_parser = number::<usize>)]
    operations: usize,
    /// A file of `weir log export`: the recorded flow.
    flow: Option<PathBuf>,
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has this file");
    let pages = statm.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    pages.expect("its second field is a number") * 4096
}

/// Runs the benchmark.
///
/// # Panics
/// If the flow cannot be read, or the engine makes or loses cash.
pub fn run(args: &AloneArgs) -> anyhow::Result<()> {
    let operations = args.operations;
    let standing = 500_000;
    let mut mix = Mix::new(1);
    let mut run = Run::new(bench_config());
    furnish(&mut run, &mut mix, standing);
    let mut next = |_: &mut Run, block: &mut Vec<Command>, count: usize, records: &[u8]| {
        mix.hear(records);
        mix.block(block, count);
    };
    // Until every session's ring of answers and every table has its final size.
    measure(&mut run, operations.min(3_000_000), &mut next);
    let synthetic = measure(&mut run, operations, &mut next);
    let live = run.engine.live_order_count();
    let digest = run.engine.digest();
    assert!(run.engine.totals().is_conserved());
    drop(run);
    let flow = args.flow.as_deref().map(flow_figures);
    let (order_bytes, position_bytes) = memory_figures();
    print_line(&synthetic, flow.as_ref(), &Rest { live, digest, order_bytes, position_bytes });
    Ok(())
}

/// Plays the recorded flow twice, for throughput and for latency, each on a fresh engine.
fn flow_figures(path: &Path) -> Figures {
    let commands = super::flow::read(path);
    let mut at = 0;
    let mut run = Run::new(bench_config());
    let length = commands.len();
    measure(&mut run, length, &mut |run, block, count, _| {
        if at == length {
            // The second pass starts the recording again.
            *run = Run::new(bench_config());
            at = 0;
        }
        let end = (at + count).min(length);
        block.extend_from_slice(&commands[at..end]);
        at = end;
    })
}

struct Rest {
    live: u32,
    digest: u64,
    order_bytes: f64,
    position_bytes: f64,
}

fn figures_json(figures: &Figures) -> String {
    let Latency { p50, p99, p999, max } = figures.latency;
    format!(
        "{{\"operations\":{},\"operations_per_second\":{:.0},\
         \"operations_per_wall_second\":{:.0},\
         \"p50_ns\":{p50:.0},\"p99_ns\":{p99:.0},\"p99_9_ns\":{p999:.0},\"max_ns\":{max:.0},\
         \"allocations_per_operation\":{:.6},\"event_bytes_per_operation\":{:.0}}}",
        figures.operations,
        figures.per_second,
        figures.per_second_wall,
        figures.allocations_per_operation,
        figures.event_bytes_per_operation
    )
}

fn print_line(synthetic: &Figures, flow: Option<&Figures>, rest: &Rest) {
    println!(
        "{{\"bench\":\"engine\",\
         \"mix\":\"45/40/5/10 adds/cancels/replaces/crosses, 100 instruments, 1000000 accounts\",\
         \"live_orders\":{},\"synthetic\":{},\"flow\":{},\
         \"bytes_per_live_order\":{:.0},\"bytes_per_open_position\":{:.0},\
         \"digest\":\"{:016x}\"}}",
        rest.live,
        figures_json(synthetic),
        flow.map_or("null".to_owned(), figures_json),
        rest.order_bytes,
        rest.position_bytes,
        rest.digest,
    );
}
