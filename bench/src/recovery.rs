//! `weir-bench recovery`: the start of a partition with millions of live orders, from a snapshot
//! and a tail of commands, and the memory of that state.
//!
//! Each part is a process of its own, so that its memory is the part's own. `prepare` creates the
//! input: a command log, a snapshot of the live orders, commands of the mix after it, and a
//! snapshot of the same accounts without orders as the base for memory. `restore` loads a snapshot.
//! `rebuild` does the work of a starting node: opens the log, loads the snapshot, applies the tail
//! and writes the tail's events, which the event log lacks. `positions` loads a position in each of
//! 100 instruments for each account, and trades on them. The files are put out of the system's
//! cache before each start, as they are after a power loss.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use rustix::fs::{Advice, fadvise, syncfs};
use serde_json::{Value, json};
use weir_engine::{Engine, EngineConfig};
use weir_io::{RealDisk, RealDiskConfig, SyncStrategy, ThreadDisk};
use weir_log::snapshot::SnapshotStore;
use weir_log::{Append, Batch, Durability, EmbeddedLog, LogConfig, Push, SequencedLog};
use weir_partition::engine_limits::LimitsAtStart;
use weir_partition::recovery::{Sources, rebuild};
use weir_partition::shadow::put_state;
use weir_types::{Nanos, PartitionId, Position};
use weir_wire::{Command, Event};

use crate::engine::mix::Mix;
use crate::programs;

const PARTITION: PartitionId = PartitionId(1);
const LOG_ID: u128 = 0x5eed;
const EVENT_SEGMENT_BYTES: u64 = 64 << 20;
/// The number of commands that share a batch and its log time.
const BATCH_LEN: usize = 1_000;
const INSTRUMENTS: u32 = 100;

/// Options of `weir-bench recovery`.
#[derive(Debug, clap::Args)]
pub struct RecoveryArgs {
    /// Live orders of the snapshot.
    #[arg(default_value = "10000000", value_parser = programs::number::<u32>)]
    orders: u32,
    /// Commands after it.
    #[arg(default_value = "1000000", value_parser = programs::number::<u32>)]
    tail: u32,
    /// Accounts with a position in each instrument.
    #[arg(default_value = "1000000", value_parser = programs::number::<u32>)]
    accounts: u32,
}

/// Options of a part.
#[derive(Debug, clap::Args)]
pub struct PartArgs {
    #[command(subcommand)]
    part: Part,
}

/// A part, in a process of its own.
#[derive(Debug, clap::Subcommand)]
enum Part {
    Prepare { dir: PathBuf, orders: u32, tail: u32 },
    Restore { dir: PathBuf, orders: u32, tail: u32, which: String },
    Rebuild { dir: PathBuf, orders: u32, tail: u32 },
    Positions { accounts: u32, trades: u32 },
}

/// Runs a part.
///
/// # Errors
/// The disk fails, or the state is not the prepared one.
pub fn run_part(args: PartArgs) -> anyhow::Result<()> {
    match args.part {
        Part::Prepare { dir, orders, tail } => prepare(&Plan { dir, orders, tail }),
        Part::Restore { dir, orders, tail, which } => restore(&Plan { dir, orders, tail }, &which),
        Part::Rebuild { dir, orders, tail } => rebuild_all(&Plan { dir, orders, tail }),
        Part::Positions { accounts, trades } => positions(accounts, trades),
    }
}

/// Runs the benchmark in the temporary directory.
///
/// # Errors
/// A part fails.
pub fn run(args: &RecoveryArgs) -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    let dir = work.path().to_str().context("the temporary directory's name is not UTF-8")?;
    let [orders, tail, accounts] = [args.orders, args.tail, args.accounts].map(|n| n.to_string());
    let prepared = part(&["prepare", dir, &orders, &tail])?;
    forget(work.path())?;
    let base = part(&["restore", dir, &orders, &tail, "base"])?;
    forget(work.path())?;
    let full = part(&["restore", dir, &orders, &tail, "full"])?;
    forget(work.path())?;
    let start = part(&["rebuild", dir, &orders, &tail])?;
    for used in ["commands", "events", "base", "snapshots"] {
        std::fs::remove_dir_all(work.path().join(used))?;
    }
    let positions = part(&["positions", &accounts, &tail])?;
    let number = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let live_orders = number(&full, "/live_orders");
    let grown = number(&full, "/resident_bytes") - number(&base, "/resident_bytes");
    let of_parts = number(&full, "/read_and_verify/on_core") + number(&full, "/restore/on_core");
    let on_core = number(&start, "/whole/on_core");
    let round = |value: f64, unit: f64| (value * unit).round() / unit;
    let line = json!({
        "bench": "recovery",
        "live_orders": full["live_orders"],
        "tail": prepared["tail"],
        "snapshot_bytes": prepared["snapshot_bytes"],
        "seconds": start["whole"]["seconds"],
        "seconds_on_core": start["whole"]["on_core"],
        "tail_seconds_on_core": round(on_core - of_parts, 1e3),
        "bytes_per_live_order": round(grown / live_orders, 10.0),
        "bytes_per_open_position": positions["bytes_per_open_position"],
        "base": base, "full": full, "start": start, "positions": positions,
    });
    println!("{line}");
    Ok(())
}

/// Runs a part in a process of its own; returns its line.
fn part(words: &[&str]) -> anyhow::Result<Value> {
    let output = programs::this()?.arg("recovery-part").args(words).output()?;
    let (line, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.success(), "{}: {errors}", words[0]);
    println!("{}: {}", words[0], line.trim_end());
    serde_json::from_str(&line).with_context(|| words[0].to_owned())
}

/// Puts the files of a directory and of those below it out of the system's cache.
fn forget(dir: &Path) -> anyhow::Result<()> {
    syncfs(std::fs::File::open(dir)?)?;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            fadvise(std::fs::File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// The directory and the size of the state to recover.
struct Plan {
    dir: PathBuf,
    orders: u32,
    tail: u32,
}

impl Plan {
    fn engine(&self) -> EngineConfig {
        EngineConfig {
            orders_max: self.orders + self.tail,
            positions_max: 1 << 22,
            ..EngineConfig::new(PARTITION)
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

fn open_disk(path: &Path) -> anyhow::Result<RealDisk> {
    let config =
        RealDiskConfig { path: path.to_owned(), strategy: SyncStrategy::default(), wake: None };
    Ok(RealDisk::open(config)?.0)
}

fn log_config() -> LogConfig {
    LogConfig { durability: Durability::Memory, ..LogConfig::new(PARTITION, LOG_ID) }
}

/// Reads a value of this process's status, in bytes.
fn status_bytes(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).context("no such value")?;
    let kib = line.split_whitespace().nth(1).context("no number")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// The seconds that this thread has run, and that it has waited for a busy core.
fn thread_seconds() -> anyhow::Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let mut nanos = text.split_whitespace().map(str::parse::<f64>);
    let (ran, waited) = (nanos.next().context("empty")??, nanos.next().context("too short")??);
    Ok((ran * 1e-9, waited * 1e-9))
}

/// Measures a section of work.
struct Watch {
    start: Instant,
    ran: f64,
    waited: f64,
}

impl Watch {
    fn start() -> anyhow::Result<Watch> {
        let (ran, waited) = thread_seconds()?;
        Ok(Watch { start: Instant::now(), ran, waited })
    }

    /// The seconds by the clock, on the core, and waiting for a core used by other programs.
    fn json(&self) -> anyhow::Result<String> {
        let wall = self.start.elapsed().as_secs_f64();
        let (ran, waited) = thread_seconds()?;
        Ok(format!(
            "{{\"seconds\":{wall:.3},\"on_core\":{:.3},\"waited_for_core\":{:.3}}}",
            ran - self.ran,
            waited - self.waited
        ))
    }
}

fn memory_json() -> anyhow::Result<String> {
    let (resident, peak) = (status_bytes("VmRSS:")?, status_bytes("VmHWM:")?);
    Ok(format!("\"resident_bytes\":{resident},\"peak_resident_bytes\":{peak}"))
}

/// An engine and the log of its commands.
struct Writing {
    engine: Engine,
    log: EmbeddedLog<RealDisk>,
    event_count: u64,
    events: Vec<u8>,
}

impl Writing {
    /// Logs and applies commands; leaves their events' records in `events`.
    fn play(&mut self, commands: &[Command]) -> anyhow::Result<()> {
        self.events.clear();
        let (mut batch, mut entry) = (Batch::new(), Vec::new());
        for commands in commands.chunks(BATCH_LEN) {
            batch.clear();
            for command in commands {
                entry.clear();
                command.encode(&mut entry);
                anyhow::ensure!(batch.push(&entry) == Push::Taken, "a batch has room");
            }
            let log_time = Nanos(self.log.last_log_time().0 + 1);
            let first = loop {
                match self.log.append(self.log.epoch(), log_time, &batch) {
                    Append::At { first } => break first,
                    Append::Busy => self.log.flush_blocking()?,
                    other => anyhow::bail!("the log says {other:?}"),
                }
            };
            self.log.do_work(log_time)?;
            for (position, command) in (first.0..).zip(commands) {
                let (count, events) = (&mut self.event_count, &mut self.events);
                self.engine.apply(Position(position), log_time, command, &mut |event: &Event| {
                    *count += 1;
                    event.encode(events);
                });
            }
        }
        Ok(())
    }

    fn write_snapshot(&self, dir: &Path) -> anyhow::Result<u64> {
        let mut state = Vec::new();
        put_state(&self.engine, self.event_count, &mut state);
        let disk = ThreadDisk::open(dir, None)?;
        SnapshotStore::new(disk, LOG_ID, PARTITION).write(self.engine.position(), &state)?;
        Ok(state.len() as u64)
    }
}

fn prepare(plan: &Plan) -> anyhow::Result<()> {
    let (log, _) = EmbeddedLog::open(log_config(), open_disk(&plan.path("commands"))?)?;
    let engine = Engine::new(plan.engine());
    let mut run = Writing { engine, log, event_count: 0, events: Vec::new() };
    let mut mix = Mix::new(1);
    let mut block: Vec<Command> = mix.opening();
    run.play(&block)?;
    run.write_snapshot(&plan.path("base"))?;
    while run.engine.live_order_count() < plan.orders {
        let lacking = plan.orders - run.engine.live_order_count();
        block.clear();
        block.extend((0..lacking.min(10_000)).map(|_| mix.add()));
        run.play(&block)?;
        mix.hear(&run.events);
    }
    let snapshot_at = run.engine.position();
    let snapshot_bytes = run.write_snapshot(&plan.path("snapshots"))?;
    let mut left = plan.tail as usize;
    while left > 0 {
        block.clear();
        mix.block(&mut block, left.min(10_000));
        left -= block.len();
        run.play(&block)?;
        mix.hear(&run.events);
    }
    run.log.flush_blocking()?;
    run.log.truncate(snapshot_at.next());
    while !run.log.is_trimmed() {
        run.log.do_work(run.log.last_log_time())?;
    }
    run.log.close()?;
    std::fs::write(plan.path("digest"), run.engine.digest().to_string())?;
    println!(
        "{{\"snapshot_orders\":{},\"snapshot_bytes\":{snapshot_bytes},\"tail\":{},\
         \"live_orders\":{},\"open_positions\":{},{}}}",
        plan.orders,
        plan.tail,
        run.engine.live_order_count(),
        run.engine.open_position_count(),
        memory_json()?
    );
    Ok(())
}

/// Loads a snapshot like recovery, and prints the times of its parts.
fn restore(plan: &Plan, which: &str) -> anyhow::Result<()> {
    let dir = match which {
        "base" => plan.path("base"),
        "full" => plan.path("snapshots"),
        other => anyhow::bail!("unknown snapshot {other:?}"),
    };
    let mut store = SnapshotStore::new(ThreadDisk::open(&dir, None)?, LOG_ID, PARTITION);
    let watch = Watch::start()?;
    let (snapshot, skipped) = store.load_newest(Position(u64::MAX))?;
    anyhow::ensure!(skipped.is_empty(), "passed over: {skipped:?}");
    let snapshot = snapshot.context("no snapshot")?;
    let read = watch.json()?;
    let (_, state) = snapshot.bytes.split_first_chunk::<8>().context("too short")?;
    let watch = Watch::start()?;
    let engine = Engine::restore(plan.engine(), state)?;
    let restored = watch.json()?;
    drop(snapshot);
    let expected = if which == "full" { plan.orders } else { 0 };
    anyhow::ensure!(engine.live_order_count() == expected, "another number of orders");
    println!(
        "{{\"read_and_verify\":{read},\"restore\":{restored},\
         \"live_orders\":{},\"open_positions\":{},{}}}",
        engine.live_order_count(),
        engine.open_position_count(),
        memory_json()?
    );
    Ok(())
}

/// Runs a complete start.
fn rebuild_all(plan: &Plan) -> anyhow::Result<()> {
    let watch = Watch::start()?;
    let rebuilt = rebuild(Sources {
        log: log_config(),
        event_segment_bytes: EVENT_SEGMENT_BYTES,
        engine: plan.engine(),
        limits: LimitsAtStart::default(),
        commands: open_disk(&plan.path("commands"))?,
        events: open_disk(&plan.path("events"))?,
        snapshots: ThreadDisk::open(&plan.path("snapshots"), None)?,
    })?;
    let whole = watch.json()?;
    let digest = std::fs::read_to_string(plan.path("digest"))?;
    anyhow::ensure!(digest == rebuilt.engine.digest().to_string(), "another digest");
    println!(
        "{{\"whole\":{whole},\"live_orders\":{},\"events\":{},\"digest\":\"{:016x}\",\
         \"notes\":{},{}}}",
        rebuilt.engine.live_order_count(),
        rebuilt.event_count,
        rebuilt.engine.digest(),
        rebuilt.notes.len(),
        memory_json()?
    );
    Ok(())
}

/// Gives each account a position in each instrument, then trades on them. Times are those of this
/// thread on its core.
fn positions(accounts: u32, trades: u32) -> anyhow::Result<()> {
    let count = accounts * INSTRUMENTS;
    let config = EngineConfig { positions_max: count, ..EngineConfig::new(PARTITION) };
    let mut engine = Engine::new(config);
    let mut mix = Mix::new(1);
    let mut position = 0;
    let mut records = Vec::new();
    let mut play = |engine: &mut Engine, block: &[Command], records: &mut Vec<u8>| {
        records.clear();
        let (before, _) = thread_seconds()?;
        for (at, command) in block.iter().enumerate() {
            position += 1;
            engine.prefetch(&block[at + 1..]);
            let time = Nanos(position);
            engine.apply(Position(position), time, command, &mut |event: &Event| {
                event.encode(records);
            });
        }
        anyhow::Ok(thread_seconds()?.0 - before)
    };
    play(&mut engine, &mix.reference_data(), &mut records)?;
    play(&mut engine, &mix.fill_answers(), &mut records)?;
    records = Vec::with_capacity(64 << 20);
    let before = status_bytes("VmRSS:")?;
    let mut block = Vec::new();
    let mut loaded = 0.0;
    for instrument in 1..=INSTRUMENTS {
        for first in (1..=accounts).step_by(10_000) {
            let last = accounts.min(first + 9_999);
            block.clear();
            block.extend((first..=last).map(|account| mix.load_position(account, instrument)));
            loaded += play(&mut engine, &block, &mut records)?;
        }
    }
    anyhow::ensure!(engine.open_position_count() == count as usize, "another number of positions");
    let after = status_bytes("VmRSS:")?;
    let (mut traded, mut left) = (0.0, trades as usize);
    while left > 0 {
        block.clear();
        mix.block(&mut block, left.min(10_000));
        left -= block.len();
        traded += play(&mut engine, &block, &mut records)?;
        mix.hear(&records);
    }
    anyhow::ensure!(engine.totals().is_conserved(), "cash or lots were made or lost");
    println!(
        "{{\"open_positions\":{count},\"load_seconds_on_core\":{loaded:.3},\
         \"loads_per_second\":{:.0},\"bytes_per_open_position\":{:.1},\
         \"mix_operations\":{trades},\"mix_operations_per_second\":{:.0},{}}}",
        f64::from(count) / loaded,
        (after - before) as f64 / f64::from(count),
        f64::from(trades) / traded,
        memory_json()?
    );
    Ok(())
}
