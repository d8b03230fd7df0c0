//! `weir-bench log`: append-to-commit latency at level `disk`: the sync thread and io_uring
//! compared with a bare loop of write + fdatasync, in interleaved rounds on one file system; and
//! the cost of an append.
//!
//! `--dir` must lie on the disk to be measured. `--load` keeps one core busy meanwhile. A variant
//! is a strategy and a way of waiting for its completion: `sleep` in the kernel, `yield` the core
//! between polls, `spin` for up to 200 µs and then sleep, or take `turns`: yield while no other
//! thread wants the core, else sleep. `ratios` divides io_uring's round medians by the thread's,
//! pair by pair, and gives the median ratio with its 95 % interval.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_io::{Disk, RealDisk, RealDiskConfig, SyncStrategy, Turn, Turns};
use weir_log::{Append, Batch, Durability, EmbeddedLog, LogConfig, Push, SequencedLog};
use weir_types::{Nanos, PartitionId};

const ENTRY: [u8; 128] = [0x5a; 128];
/// The number of bytes of one append: frame header, entry prefix and entry.
const FRAME: usize = 64 + 8 + 128;
const IN_FLIGHT: [usize; 2] = [1, 64];

/// The way of waiting for the end of a sync.
#[derive(Clone, Copy)]
enum Waiting {
    Sleep,
    Yield,
    Spin,
    Turns,
}

/// The time for which `Spin` spins.
const SPIN: std::time::Duration = std::time::Duration::from_micros(200);

#[derive(Clone, Copy)]
enum Variant {
    Bare,
    Log { strategy: SyncStrategy, waiting: Waiting },
}

const VARIANTS: [(&str, Variant); 9] = [
    ("bare", Variant::Bare),
    ("thread_sleep", variant(SyncStrategy::Thread, Waiting::Sleep)),
    ("io_uring_sleep", variant(SyncStrategy::Uring, Waiting::Sleep)),
    ("thread_yield", variant(SyncStrategy::Thread, Waiting::Yield)),
    ("io_uring_yield", variant(SyncStrategy::Uring, Waiting::Yield)),
    ("thread_spin", variant(SyncStrategy::Thread, Waiting::Spin)),
    ("io_uring_spin", variant(SyncStrategy::Uring, Waiting::Spin)),
    ("thread_turns", variant(SyncStrategy::Thread, Waiting::Turns)),
    ("io_uring_turns", variant(SyncStrategy::Uring, Waiting::Turns)),
];

const fn variant(strategy: SyncStrategy, waiting: Waiting) -> Variant {
    Variant::Log { strategy, waiting }
}

/// Options of `weir-bench log`.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// A directory on the disk to be measured.
    #[arg(long, default_value = ".")]
    dir: String,
    /// Rounds, each with every variant.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Samples of a variant in a round.
    #[arg(long, default_value_t = 400)]
    samples: usize,
    /// Keep one core busy meanwhile.
    #[arg(long)]
    load: bool,
}

/// Returns the latencies in nanoseconds of a bare loop: `group` entries to a write, each write
/// synced.
fn bare(dir: &Path, group: usize, samples: usize) -> Vec<u64> {
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
    let file = options.open(dir.join("bare")).expect("a file in the directory");
    let bytes = vec![0x5a; FRAME * group];
    // Filled in advance, like the log's segments, so that a sync has no metadata to write.
    let ahead = vec![0; FRAME * (samples + group)];
    file.write_all_at(&ahead, 0).expect("room on the disk");
    file.sync_all().expect("a sync");
    let mut latencies = Vec::with_capacity(samples);
    let mut offset = 0;
    while latencies.len() < samples {
        let start = Instant::now();
        file.write_all_at(&bytes, offset).expect("room on the disk");
        file.sync_data().expect("a sync");
        let took = start.elapsed().as_nanos() as u64;
        latencies.extend(std::iter::repeat_n(took, group));
        offset += bytes.len() as u64;
    }
    latencies
}

fn open_log(dir: &Path, strategy: SyncStrategy, level: Durability) -> EmbeddedLog<RealDisk> {
    let config = RealDiskConfig { path: dir.to_owned(), strategy, wake: None };
    let (disk, note) = RealDisk::open(config).expect("a directory");
    assert!(note.is_none(), "{}", note.unwrap_or_default());
    let mut config = LogConfig::new(PartitionId(1), 1);
    config.durability = level;
    config.segment_bytes = 16 << 20;
    let (mut log, _) = EmbeddedLog::open(config, disk).expect("a new log");
    // Lets the next segment be prepared, which is not part of the measurement.
    for _ in 0..200 {
        log.do_work(Nanos(0)).expect("a working disk");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    log
}

fn append<D: Disk>(log: &mut EmbeddedLog<D>, batch: &Batch) {
    let time = Nanos(log.last_log_time().0 + 1);
    let appended = log.append(log.epoch(), time, batch);
    assert!(matches!(appended, Append::At { .. }), "append said {appended:?}");
}

/// Returns the latencies in nanoseconds from append to commit, with `in_flight` uncommitted batches
/// of one entry.
fn through_log(
    log: &mut EmbeddedLog<RealDisk>,
    in_flight: usize,
    samples: usize,
    waiting: Waiting,
) -> Vec<u64> {
    let mut batch = Batch::new();
    assert_eq!(batch.push(&ENTRY), Push::Taken);
    let mut latencies = Vec::with_capacity(samples);
    let mut started = std::collections::VecDeque::with_capacity(in_flight);
    let mut committed = log.committed();
    let mut busy_since = Instant::now();
    let mut turns = Turns::default();
    while latencies.len() < samples {
        while started.len() < in_flight {
            started.push_back(Instant::now());
            append(log, &batch);
        }
        if log.do_work(Nanos(0)).expect("a working disk") == 0 {
            match waiting {
                Waiting::Yield => std::thread::yield_now(),
                Waiting::Spin if busy_since.elapsed() < SPIN => std::hint::spin_loop(),
                Waiting::Turns => {
                    if turns.take() == Turn::Park {
                        log.wait();
                    }
                }
                Waiting::Sleep | Waiting::Spin => log.wait(),
            }
        } else {
            busy_since = Instant::now();
        }
        let now = Instant::now();
        while committed < log.committed() {
            committed = committed.next();
            let start: Instant = started.pop_front().expect("an append for each commit");
            latencies.push((now - start).as_nanos() as u64);
        }
    }
    while !log.is_idle() {
        log.do_work(Nanos(0)).expect("a working disk");
    }
    latencies
}

/// Returns the cost in nanoseconds of an append at level `memory`, each value the mean of 64,
/// without the deferred write.
fn append_cost(dir: &Path) -> Vec<u64> {
    let mut log = open_log(dir, SyncStrategy::Thread, Durability::Memory);
    let mut batch = Batch::new();
    assert_eq!(batch.push(&ENTRY), Push::Taken);
    let mut costs = Vec::new();
    for _ in 0..2_000 {
        let start = Instant::now();
        for _ in 0..64 {
            batch.clear();
            assert_eq!(batch.push(&ENTRY), Push::Taken);
            append(&mut log, &batch);
        }
        costs.push(start.elapsed().as_nanos() as u64 / 64);
        while !log.is_idle() {
            log.do_work(Nanos(0)).expect("a working disk");
        }
    }
    log.close().expect("a working disk");
    costs
}

fn quantiles(mut values: Vec<u64>) -> String {
    values.sort_unstable();
    let at = |parts: usize| values[(values.len() - 1) * parts / 1_000];
    format!(
        "{{\"p50\":{},\"p90\":{},\"p99\":{},\"p999\":{},\"max\":{},\"samples\":{}}}",
        at(500),
        at(900),
        at(990),
        at(999),
        at(1_000),
        values.len()
    )
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Formats the median of the rounds' medians, and their spread, which shows a noisy machine.
fn medians(rounds: &[Vec<u64>]) -> String {
    let mut medians: Vec<u64> = rounds.iter().map(|round| median(round)).collect();
    medians.sort_unstable();
    let (first, last) = (medians[0], medians[medians.len() - 1]);
    format!("{{\"min\":{first},\"median\":{},\"max\":{last}}}", medians[medians.len() / 2])
}

/// Formats the median of the rounds' ratios, and the order statistics around it that contain the
/// true median with 95 % confidence.
fn ratio(ours: &[Vec<u64>], theirs: &[Vec<u64>]) -> String {
    let mut ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| median(ours) as f64 / median(theirs) as f64)
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let count = ratios.len() as f64;
    let outside = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    let (low, high) = (ratios[outside], ratios[ratios.len() - 1 - outside]);
    format!("{{\"median\":{:.3},\"ci95\":[{low:.3},{high:.3}]}}", ratios[ratios.len() / 2])
}

/// Formats io_uring's ratio to the thread for each way of waiting and each depth; variants are in
/// pairs.
fn ratios(results: &[Vec<Vec<Vec<u64>>>]) -> String {
    let mut parts = Vec::new();
    for at in (1..VARIANTS.len()).step_by(2) {
        let waiting = VARIANTS[at].0.trim_start_matches("thread_");
        for (group, in_flight) in IN_FLIGHT.iter().enumerate() {
            let ratio = ratio(&results[at + 1][group], &results[at][group]);
            parts.push(format!("\"{waiting}_{in_flight}\":{ratio}"));
        }
    }
    parts.join(",")
}

/// Runs the benchmark.
///
/// # Panics
/// If the disk fails.
pub fn run(settings: &LogArgs) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(&settings.dir).expect("a directory on the disk that is meant");
    let path = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).expect("a directory on the disk that is meant");
        path
    };
    let stop = Arc::new(AtomicBool::new(false));
    let busy = settings.load.then(|| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    });
    let open = |name: &str, strategy| open_log(&path(name), strategy, Durability::Disk);
    let mut logs: Vec<Option<EmbeddedLog<RealDisk>>> = VARIANTS
        .iter()
        .map(|(name, variant)| match variant {
            Variant::Bare => None,
            Variant::Log { strategy, .. } => Some(open(name, *strategy)),
        })
        .collect();
    let mut results = vec![vec![Vec::new(); IN_FLIGHT.len()]; VARIANTS.len()];
    for round in 0..settings.rounds {
        for turn in 0..VARIANTS.len() {
            // Each round begins with another variant, so that none always follows the same one.
            let at = (turn + round) % VARIANTS.len();
            for (group, in_flight) in IN_FLIGHT.iter().enumerate() {
                let samples = settings.samples * if *in_flight == 1 { 1 } else { 8 };
                let latencies = match (VARIANTS[at].1, &mut logs[at]) {
                    (Variant::Log { waiting, .. }, Some(log)) => {
                        through_log(log, *in_flight, samples, waiting)
                    }
                    _ => bare(&path("bare"), *in_flight, samples),
                };
                results[at][group].push(latencies);
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    if let Some(busy) = busy {
        busy.join().expect("the busy thread only spins");
    }
    let mut parts = Vec::new();
    for ((name, _), groups) in VARIANTS.iter().zip(&results) {
        for (in_flight, rounds) in IN_FLIGHT.iter().zip(groups) {
            let all = quantiles(rounds.iter().flatten().copied().collect());
            let medians = medians(rounds);
            parts.push(format!("\"{name}_{in_flight}\":{{\"ns\":{all},\"round_p50\":{medians}}}"));
        }
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{{\"bench\":\"log\",\"durability\":\"disk\",\"entry_bytes\":{},\"rounds\":{},\
         \"loaded\":{},\
         \"cores\":{cores},\"kernel\":\"{}\",{},\"ratios\":{{{}}},\
         \"append_memory_ns\":{}}}",
        ENTRY.len(),
        settings.rounds,
        settings.load,
        kernel.trim(),
        parts.join(","),
        ratios(&results),
        quantiles(append_cost(&path("append"))),
    );
    Ok(())
}
