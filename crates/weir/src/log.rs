//! `weir log`: looks into the logs of a node's directory, running or stopped, and into the archive
//! of the segments that they have removed. It only reads, but for `weir log restore`, which puts
//! those segments back.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::json;
use weir_engine::{Engine, EngineConfig, EngineLimits, RULES_VERSION};
use weir_io::{Disk, DiskErrorKind, ThreadDisk};
use weir_log::snapshot::SnapshotStore;
use weir_log::{Inspection, LogError, LogReader, RulesSince, SegmentKind, last_of_other_rules};
use weir_node::engine_memory::machine_memory;
use weir_partition::archive;
use weir_partition::archive::store::{read_header, segment_names};
use weir_partition::archive::whole::{WholeLog, put_back};
use weir_partition::dirs::{PartitionDirs, partitions_in};
use weir_partition::engine_limits::{TooLittleMemory, check_memory};
use weir_partition::shadow::state_in;
use weir_types::{PartitionId, Position};
use weir_wire::{Command, Event};

use super::log_dump;

/// Options of `weir log`.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LogCommand {
    /// Show each log: segments, positions, epochs.
    #[command(alias = "info")]
    Inspect(Where),
    /// Print entries, one a line: columns, or with --json the fields by their names.
    Dump(DumpArgs),
    /// Write a command log's entries to a file, each behind its length (u32, little-endian): what
    /// the engine's benchmark plays.
    Export(ExportArgs),
    /// Read a command log from its beginning, check every checksum and link, apply it to a new
    /// engine, compare each snapshot's whole state on the way and print the digest. A log whose
    /// beginning is past the retention is applied to the oldest snapshot; with --archive, from
    /// position 1 on, and a gap between archive and log is an error.
    Verify(VerifyArgs),
    /// Put the archive's segments back into the command log of a node that is stopped: it can then
    /// be replayed from position 1.
    Restore(RestoreArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct Where {
    /// The node's directory.
    #[arg(long, value_name = "DIR", env = "WEIR_DIR", default_value = "weir-data")]
    dir: PathBuf,
    /// The partition; 0 is the control log. Without it, the directory's trading partition; of
    /// several, inspect, verify and restore take each.
    #[arg(long)]
    partition: Option<u16>,
    /// The archive of the partition's logs ([retention] archive): it is read as their beginning.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Where {
    /// Returns the partitions that are meant, one at least.
    fn partition_ids(&self) -> anyhow::Result<Vec<PartitionId>> {
        if let Some(id) = self.partition {
            return Ok(vec![PartitionId(id)]);
        }
        let dir = self.dir.display();
        anyhow::ensure!(self.dir.is_dir(), "{dir} is not there");
        let found = partitions_in(&self.dir).with_context(|| format!("cannot read {dir}"))?;
        anyhow::ensure!(!found.is_empty(), "{dir} holds no trading partition: give --partition");
        Ok(found)
    }

    /// Returns the partition that is meant.
    fn partition_id(&self) -> anyhow::Result<PartitionId> {
        match self.partition_ids()?[..] {
            [one] => Ok(one),
            [..] => bail!("{} holds several partitions: give --partition", self.dir.display()),
        }
    }

    /// Runs a command in each partition that is meant, in all of several even if it fails in one.
    fn in_each(&self, run: impl Fn(&Where) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let ids = self.partition_ids()?;
        let of = |id: PartitionId| Where { partition: Some(id.0), ..self.clone() };
        if let [only] = ids[..] {
            return run(&of(only));
        }
        let mut failed = Vec::new();
        for id in ids {
            if !self.json {
                println!("partition {id}");
            }
            if let Err(error) = run(&of(id)) {
                eprintln!("weir: partition {id}: {error:#}");
                failed.push(id.to_string());
            }
        }
        anyhow::ensure!(failed.is_empty(), "it failed in partition {}", failed.join(", "));
        Ok(())
    }

    fn dirs(&self) -> anyhow::Result<PartitionDirs> {
        Ok(PartitionDirs::find(&self.dir, self.partition_id()?)?)
    }
}

#[derive(Clone, Debug, clap::Args)]
struct DumpArgs {
    #[command(flatten)]
    at: Where,
    /// The event log instead of the command log.
    #[arg(long)]
    events: bool,
    /// The first entry.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of entries.
    #[arg(long, default_value_t = u64::MAX)]
    limit: u64,
}

#[derive(Clone, Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    at: Where,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Debug, clap::Args)]
struct VerifyArgs {
    #[command(flatten)]
    at: Where,
    /// The last entry to be applied: to compare two logs of which one goes on.
    #[arg(long, default_value_t = u64::MAX)]
    to: u64,
}

#[derive(Clone, Debug, clap::Args)]
struct RestoreArgs {
    #[command(flatten)]
    at: Where,
}

/// Runs `weir log`.
///
/// # Errors
/// When a log is missing or damaged; the text names file and offset.
pub fn run(args: LogArgs) -> anyhow::Result<()> {
    match args.command {
        LogCommand::Inspect(at) => at.in_each(inspect),
        LogCommand::Dump(args) => dump(&args),
        LogCommand::Export(args) => export(&args),
        // The last entry of several logs is not one number.
        LogCommand::Verify(args) if args.to == u64::MAX => {
            args.at.in_each(|at| verify(at, u64::MAX))
        }
        LogCommand::Verify(args) => verify(&args.at, args.to),
        LogCommand::Restore(args) => args.at.in_each(restore),
    }
}

/// A log's files, and those of its archive.
type LogFiles = WholeLog<ThreadDisk, ThreadDisk>;

/// A log of a partition, and the archive that has its beginning.
#[derive(Clone, Debug)]
struct LogAt {
    path: PathBuf,
    kind: SegmentKind,
    archive: Option<PathBuf>,
}

impl LogAt {
    fn commands(at: &Where, dirs: &PartitionDirs) -> LogAt {
        let (path, kind) = (dirs.commands(), SegmentKind::Command);
        LogAt { path, kind, archive: at.archive.clone() }
    }

    fn events(at: &Where, dirs: &PartitionDirs) -> LogAt {
        LogAt { path: dirs.events(), kind: SegmentKind::Event, ..LogAt::commands(at, dirs) }
    }

    fn files(&self) -> anyhow::Result<LogFiles> {
        let name = || format!("the log in {}", self.path.display());
        anyhow::ensure!(self.path.is_dir(), "{} is not there", self.path.display());
        let mut log = ThreadDisk::open(&self.path, None)?;
        let archive = self.archive_disk(&mut log).with_context(name)?;
        WholeLog::open(log, archive, self.kind).with_context(name)
    }

    /// Opens the log's directory in the archive; `None` when no segment of it was removed yet.
    fn archive_disk(&self, log: &mut ThreadDisk) -> anyhow::Result<Option<ThreadDisk>> {
        let Some(root) = &self.archive else { return Ok(None) };
        anyhow::ensure!(root.is_dir(), "the archive {} is not there", root.display());
        let names = segment_names(log, self.kind)?;
        let Some(oldest) = names.first() else { return Ok(None) };
        let header = read_header(log, oldest, self.kind)?;
        let dir = archive::dir_of(root, header.log_id);
        if !dir.is_dir() && header.first_frame == 1 {
            return Ok(None);
        }
        anyhow::ensure!(dir.is_dir(), "the archive has no {}", dir.display());
        Ok(Some(ThreadDisk::open(&dir, None)?))
    }

    fn open(&self, from: u64) -> anyhow::Result<LogReader<LogFiles>> {
        LogReader::open(self.files()?, self.kind, Position(from))
            .with_context(|| format!("cannot read the log in {}", self.path.display()))
    }
}

/// Returns the log's state; none where the log begins with nothing. Refuses damage: a reader that
/// came to the end of what it understands cannot tell a log's end from a place that was spoiled.
fn inspected(log: &LogAt) -> anyhow::Result<Option<Inspection>> {
    let mut before = None;
    loop {
        let mut disk = log.files()?;
        let error = match weir_log::inspect(&mut disk, log.kind) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let place = match &error {
            // How much is known to be synced may rise meanwhile.
            LogError::Damaged { file, offset, .. } => format!("{file} {offset}"),
            other => other.to_string(),
        };
        // A log in use may have changed while it was read; damage is there again.
        if before.replace(place.clone()) == Some(place) {
            return Err(error).with_context(|| format!("the log in {}", log.path.display()));
        }
    }
}

fn inspect(at: &Where) -> anyhow::Result<()> {
    let (dirs, partition) = (at.dirs()?, at.partition_id()?.0);
    for (name, log) in
        [("commands", LogAt::commands(at, &dirs)), ("events", LogAt::events(at, &dirs))]
    {
        let kind = log.kind;
        let mut reader = log.open(0)?;
        let first = reader.next_position();
        let (mut entries, mut bytes, mut epoch) = (0u64, 0u64, 0);
        while let Some(entry) = reader.next_entry()? {
            entries += 1;
            bytes += entry.bytes.len() as u64;
            epoch = entry.epoch.0;
        }
        let rules = inspected(&log)?.map_or(Vec::new(), |found| found.rules);
        let log_id = format!("{:032x}", reader.segment().log_id);
        if at.json {
            let mut line = json!({"log": name, "partition": partition, "log_id": log_id,
                                  "first": first.0,
                                  "entries": entries, "entry_bytes": bytes, "epoch": epoch});
            if kind == SegmentKind::Command {
                let row = |since: &RulesSince| json!({"from": since.from.0, "rules": since.rules});
                line["rules"] = rules.iter().map(row).collect();
            }
            println!("{line}");
        } else {
            let rules =
                if kind == SegmentKind::Command { rules_text(&rules) } else { String::new() };
            println!(
                "{name:<9} log {log_id}  first {first}  entries {entries}  \
                 bytes {bytes}  epoch {epoch}{rules}"
            );
        }
    }
    let mut disk = ThreadDisk::open(&dirs.snapshots(), None)?;
    for name in disk.list().unwrap_or_default() {
        if at.json {
            let line = json!({"log": "snapshots", "partition": partition, "snapshot": name});
            println!("{line}");
        } else {
            println!("snapshot  {name}");
        }
    }
    Ok(())
}

/// Returns the versions of rules, as a column: the newest, and from where each later one holds.
fn rules_text(rules: &[RulesSince]) -> String {
    let texts = rules.iter().enumerate().map(|(index, since)| match index {
        0 => format!("  rules {}", since.rules),
        _ => format!(", from {} on {}", since.from, since.rules),
    });
    texts.collect()
}

fn dump(args: &DumpArgs) -> anyhow::Result<()> {
    let dirs = args.at.dirs()?;
    let of = if args.events { LogAt::events } else { LogAt::commands };
    let log = of(&args.at, &dirs);
    let mut reader = log.open(args.from)?;
    if !args.at.json {
        println!("{}", log_dump::heading());
    }
    for _ in 0..args.limit {
        let Some(entry) = reader.next_entry()? else {
            return inspected(&log).map(drop);
        };
        println!("{}", log_dump::line(&entry, args.at.json)?);
    }
    Ok(())
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let log = LogAt::commands(&args.at, &args.at.dirs()?);
    let mut reader = log.open(0)?;
    let file = std::fs::File::create(&args.out)
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    let mut out = std::io::BufWriter::new(file);
    let mut entries = 0u64;
    while let Some(entry) = reader.next_entry()? {
        let length = u32::try_from(entry.bytes.len())?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(entry.bytes)?;
        entries += 1;
    }
    out.flush()?;
    inspected(&log)?;
    if args.at.json {
        println!("{}", json!({"file": args.out.display().to_string(), "entries": entries}));
    } else {
        println!("{}: {entries} entries", args.out.display());
    }
    Ok(())
}

/// A snapshot on the disk, by the hash of the engine's state that it holds.
struct SnapshotHash {
    position: Position,
    event_count: u64,
    state: u64,
}

/// The snapshots of a log, oldest first; what of them cannot be read is said, for it is passed over
/// at a start too.
fn snapshots(
    dir: &Path,
    log_id: u128,
    partition_id: PartitionId,
) -> anyhow::Result<Vec<SnapshotHash>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut store = SnapshotStore::new(ThreadDisk::open(dir, None)?, log_id, partition_id);
    let mut told = Vec::new();
    for position in store.list()? {
        let bytes = match store.load(position) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(fault)) => {
                eprintln!("the snapshot at position {position} is passed over: {fault}");
                continue;
            }
            // A running node prunes old ones.
            Err(error) if error.kind == DiskErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let (event_count, state) = state_in(&bytes)
            .with_context(|| format!("the snapshot at position {position} is too short"))?;
        told.push(SnapshotHash { position, event_count, state: Engine::state_hash_of(state) });
    }
    Ok(told)
}

/// Returns the engine of the oldest snapshot from which a log goes on that begins at `first`, and
/// the number of its events.
fn oldest_base(
    store: &mut SnapshotStore<ThreadDisk>,
    told: &[SnapshotHash],
    first: Position,
    partition_id: PartitionId,
) -> anyhow::Result<(Engine, u64)> {
    let none = || {
        format!(
            "the log begins at position {first}, and no snapshot from which it goes on is sound"
        )
    };
    let oldest = told.iter().find(|told| told.position.next() >= first).with_context(none)?;
    let bytes = store.load(oldest.position)?.map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let (event_count, state) = state_in(&bytes).with_context(none)?;
    if let Some(limits) = Engine::limits_in(state) {
        check_memory(&limits, machine_memory())
            .with_context(|| format!("the snapshot at position {}", oldest.position))?;
    }
    Ok((Engine::restore(EngineConfig::new(partition_id), state)?, event_count))
}

/// Checks that the machine has the memory for the limits that a command sets.
fn check_limits(command: &Command) -> Result<(), TooLittleMemory> {
    match command {
        Command::SetLimits(limits) => check_memory(&EngineLimits::from(limits), machine_memory()),
        _ => Ok(()),
    }
}

/// Compares a replay at the snapshot's position with the snapshot's state.
fn compare(told: &SnapshotHash, engine: &Engine, events: u64) -> anyhow::Result<()> {
    let state = engine.state_hash();
    anyhow::ensure!(
        (told.state, told.event_count) == (state, events),
        "the snapshot at position {} is not what the log says: state {:016x} after {} events, the \
         log gives {state:016x} after {events}",
        told.position,
        told.state,
        told.event_count
    );
    Ok(())
}

/// Returns the words for commands that cannot be applied, because other rules executed them.
fn rules_note(last: Position, found: u32) -> String {
    format!(
        "the commands up to position {last} were executed by version {found} of the engine's \
         rules, and this program has version {RULES_VERSION}: verify them with the program that \
         wrote them"
    )
}

/// The archive's share of a partition's logs.
struct Archived {
    /// The segments of both logs that the archive has and the logs have not.
    segments: usize,
    /// The first event: a later one than the first where an event log was begun anew.
    events_from: u64,
}

/// Checks that archive and event log are one log too.
fn verify_archive(at: &Where, dirs: &PartitionDirs) -> anyhow::Result<Archived> {
    let (commands, events) = (LogAt::commands(at, dirs), LogAt::events(at, dirs));
    let segments = commands.files()?.archived_count() + events.files()?.archived_count();
    let found = inspected(&events)?;
    Ok(Archived { segments, events_from: found.map_or(1, |found| found.positions.start) })
}

fn restore(at: &Where) -> anyhow::Result<()> {
    let log = LogAt::commands(at, &at.dirs()?);
    anyhow::ensure!(log.archive.is_some(), "give the archive with --archive");
    anyhow::ensure!(log.path.is_dir(), "{} is not there", log.path.display());
    let mut disk = ThreadDisk::open(&log.path, None)?;
    let segments = match log.archive_disk(&mut disk)? {
        Some(mut archive) => put_back(&mut disk, &mut archive, log.kind)?,
        None => 0,
    };
    if at.json {
        println!("{}", json!({"partition": at.partition_id()?.0, "segments": segments}));
    } else {
        println!("{segments} segments are back in {}", log.path.display());
    }
    Ok(())
}

fn verify(at: &Where, to: u64) -> anyhow::Result<()> {
    let partition_id = at.partition_id()?;
    let dirs = PartitionDirs::find(&at.dir, partition_id)?;
    let log = LogAt::commands(at, &dirs);
    let mut reader = log.open(0)?;
    let log_id = reader.segment().log_id;
    let told = snapshots(&dirs.snapshots(), log_id, partition_id)?;
    let found = inspected(&log)?;
    let other = found.and_then(|found| {
        last_of_other_rules(&found.rules, Position(found.positions.end), RULES_VERSION)
    });
    let own = other.map_or(Position(1), |(last, _)| last.next());
    let (mut engine, mut events) = match reader.next_position().max(own) {
        Position(1) => (Engine::new(EngineConfig::new(partition_id)), 0),
        first => {
            let disk = ThreadDisk::open(&dirs.snapshots(), None)?;
            let mut store = SnapshotStore::new(disk, log_id, partition_id);
            let base = oldest_base(&mut store, &told, first, partition_id);
            match other {
                Some((last, found)) => base.with_context(|| rules_note(last, found))?,
                None => base?,
            }
        }
    };
    let base = engine.position();
    let (mut due, mut compared) = (told.iter().filter(|t| t.position > base).peekable(), 0u64);
    while reader.next_position().0 <= to {
        let Some(entry) = reader.next_entry()? else {
            inspected(&log)?;
            break;
        };
        let command = Command::decode(entry.bytes)
            .with_context(|| format!("entry {} is no command", entry.position))?;
        if entry.position <= base {
            // Its checksum and link are sound; the snapshot has its effect.
            continue;
        }
        check_limits(&command).with_context(|| format!("entry {}", entry.position))?;
        engine.apply(entry.position, entry.log_time, &command, &mut |_: &Event| events += 1);
        if let Some(told) = due.next_if(|told| told.position == entry.position) {
            compare(told, &engine, events)?;
            compared += 1;
        }
    }
    let (position, digest, state) = (engine.position(), engine.digest(), engine.state_hash());
    let archived = at.archive.as_ref().map(|_| verify_archive(at, &dirs)).transpose()?;
    if at.json {
        let mut line = json!({"partition": partition_id.0, "from_snapshot": base.0,
                   "position": position.0, "events": events,
                   "digest": format!("{digest:016x}"), "state": format!("{state:016x}"),
                   "snapshots": compared, "live_orders": engine.live_order_count()});
        if let Some(archived) = archived {
            line["archived_segments"] = archived.segments.into();
            line["events_from"] = archived.events_from.into();
        }
        println!("{line}");
    } else {
        if let Some(Archived { segments, events_from }) = archived {
            println!("archive and logs are whole: {segments} segments, events from {events_from}");
        }
        println!(
            "verified{} {position} commands: {events} events, {} live orders, \
             digest {digest:016x}, state {state:016x}; {compared} snapshots are the same",
            if base.is_none() { String::new() } else { format!(" from the snapshot of {base} on") },
            engine.live_order_count()
        );
    }
    Ok(())
}
