//! `weir backup` and `weir restore`: a copy of a node's directory, and a node made of one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use weir_engine::RULES_VERSION;
use weir_io::{Clock, SystemClock, ThreadDisk};
use weir_log::{RecoveryReport, last_of_other_rules};
use weir_node::backup::manifest::Manifest;
use weir_node::backup::restore::{RestoredLog, restore};
use weir_node::backup::stored::StoredBackup;
use weir_node::backup::take::{BackupOutcome, Key, LogSource, NodeFiles, back_up};
use weir_node::backup::{BROKER_DIR, BackupError, LogKind};
use weir_partition::dirs::{ORDER_STORE, PAST_ENDS, PartitionDirs, trading_partition_of};
use weir_runtime::civil;
use weir_types::{PartitionId, Position};

use super::renamed::{self, Renamed};

/// The key that seals delivery tokens: without it followers begin again.
const TOKEN_KEY: &str = "token.key";
/// The first operator's key: whoever has it may do anything.
const OPERATOR_KEY: &str = "operator.key";

/// Options of `weir backup`.
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// The node's directory; the node may be running.
    #[arg(long, value_name = "DIR", env = "WEIR_DIR", default_value = "weir-data")]
    dir: PathBuf,
    /// The backup's directory; files of an earlier backup in it are not copied again.
    #[arg(long, value_name = "TARGET")]
    to: PathBuf,
    /// Also copy the first operator's key.
    #[arg(long)]
    with_operator_key: bool,
    /// The directory of durable subscriptions, where it is not `broker` in the node's own.
    #[arg(long, value_name = "DIR")]
    subscriptions_dir: Option<PathBuf>,
    /// Leave durable subscriptions out.
    #[arg(long, conflicts_with = "subscriptions_dir")]
    without_subscriptions: bool,
    #[arg(long, hide = true, value_parser = renamed::to("--subscriptions-dir"))]
    broker_dir: Option<Renamed>,
    #[arg(long, hide = true, num_args = 0, default_missing_value = "",
          value_parser = renamed::to("--without-subscriptions"))]
    without_broker: Option<Renamed>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Options of `weir restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The backup.
    #[arg(long, value_name = "TARGET")]
    from: PathBuf,
    /// The directory to be made; it must be empty or not there.
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    dir: Option<PathBuf>,
    /// Only check the backup: every byte, as a restore does first.
    #[arg(long, conflicts_with = "dir")]
    check: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `weir backup`.
///
/// # Errors
/// When the node's files or the target cannot be used; the text names file and offset.
pub fn run_backup(args: &BackupArgs) -> anyhow::Result<()> {
    keep_private();
    if !args.dir.is_dir() {
        bail!("{} is not there", args.dir.display());
    }
    let logs = logs_in(&args.dir)?;
    if logs.is_empty() {
        bail!("{} holds no node", args.dir.display());
    }
    let mut keys = Vec::new();
    keys.extend(key_in(&args.dir, TOKEN_KEY)?);
    if args.with_operator_key {
        keys.extend(key_in(&args.dir, OPERATOR_KEY)?);
    }
    let node = NodeFiles { logs, broker: broker_of(args)?, keys };
    let mut target = ThreadDisk::open(&args.to, None)?;
    let taken = back_up(node, &mut target, SystemClock.now())
        .with_context(|| format!("no backup in {}", args.to.display()))?;
    for note in &taken.notes {
        eprintln!("weir: {note}");
    }
    tell_taken(args, &taken);
    Ok(())
}

/// Keys are among what is written: it is for its owner only.
fn keep_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// The directory of durable subscriptions; none where there is none.
fn broker_of(args: &BackupArgs) -> anyhow::Result<Option<ThreadDisk>> {
    let dir = args.subscriptions_dir.clone().unwrap_or_else(|| args.dir.join(BROKER_DIR));
    if args.without_subscriptions || (args.subscriptions_dir.is_none() && !dir.is_dir()) {
        return Ok(None);
    }
    if !dir.is_dir() {
        bail!("{} is not there", dir.display());
    }
    Ok(Some(ThreadDisk::open(&dir, None)?))
}

/// The partitions and sources that a node's directory holds, or has place files of.
fn logs_in(dir: &Path) -> anyhow::Result<Vec<LogSource<ThreadDisk>>> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let name = entry?.file_name();
        let Some((kind, partition_id)) = name.to_str().and_then(log_of) else { continue };
        if logs
            .iter()
            .any(|log: &LogSource<_>| (log.kind, log.partition_id) == (kind, partition_id))
        {
            // A partition elsewhere, by its place file, and an empty directory of its name.
            continue;
        }
        let root = match kind {
            LogKind::Partition => PartitionDirs::find(dir, partition_id)?.root().to_owned(),
            LogKind::Source => dir.join(&name),
        };
        let (log, snapshots) = (root.join(kind.log()), root.join("snapshots"));
        // Opening makes what is missing, and a backup changes nothing.
        if !log.is_dir() {
            bail!("{} is not there", log.display());
        }
        let is_partition = kind == LogKind::Partition;
        let store = root.join(ORDER_STORE);
        let open = |dir: PathBuf| dir.is_dir().then(|| ThreadDisk::open(&dir, None)).transpose();
        logs.push(LogSource {
            kind,
            partition_id,
            commands: ThreadDisk::open(&log, None)?,
            snapshots: open(snapshots)?,
            store: if is_partition { open(store)? } else { None },
            past_ends: if is_partition { file_in(&root, PAST_ENDS)? } else { None },
        });
    }
    Ok(logs)
}

/// The log of a directory of that name, or of a partition's place file.
fn log_of(name: &str) -> Option<(LogKind, PartitionId)> {
    if let Some(id) = trading_partition_of(name) {
        return Some((LogKind::Partition, id));
    }
    let number = |prefix| name.strip_prefix(prefix)?.parse().ok().map(PartitionId);
    let found = match number("source-") {
        Some(id) => (LogKind::Source, id),
        None => (LogKind::Partition, PartitionId(0)),
    };
    (found.0.dir(found.1) == name).then_some(found)
}

fn key_in(dir: &Path, name: &str) -> anyhow::Result<Option<Key>> {
    Ok(file_in(dir, name)?.map(|bytes| Key { name: name.to_owned(), bytes }))
}

fn file_in(dir: &Path, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
    match std::fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("cannot read {}", dir.join(name).display()))
        }
    }
}

fn time_of(nanos: u64) -> String {
    civil::utc(weir_types::Nanos(nanos))
}

fn logs_json(manifest: &Manifest, kind: LogKind) -> Vec<Value> {
    let row = |copy: &weir_node::backup::manifest::PartitionCopy| {
        json!({"partition": copy.partition, "log_id": copy.log_id, "epoch": copy.epoch,
               "first": copy.first_position, "last": copy.last_position,
               "last_log_time": copy.last_log_time, "segments": copy.segments.len(),
               "snapshot": copy.snapshot.as_ref().map(|snapshot| snapshot.position),
               "order_store_event": copy.store.as_ref().map(|snapshot| snapshot.position)})
    };
    manifest.logs(kind).iter().map(row).collect()
}

fn print_logs(manifest: &Manifest) {
    let copies = LogKind::ALL.map(|kind| manifest.logs(kind).iter().map(move |copy| (kind, copy)));
    for (kind, copy) in copies.into_iter().flatten() {
        let snapshot = match &copy.snapshot {
            Some(snapshot) => format!("snapshot of {}", snapshot.position),
            None => "no snapshot".to_owned(),
        };
        println!(
            "{:<12} positions {} to {}, the last of {}, epoch {}, {snapshot}",
            kind.dir(PartitionId(copy.partition)),
            copy.first_position,
            copy.last_position,
            time_of(copy.last_log_time),
            copy.epoch,
        );
    }
    if !manifest.broker.is_empty() {
        println!("{BROKER_DIR:<12} {} files", manifest.broker.len());
    }
}

fn tell_taken(args: &BackupArgs, taken: &BackupOutcome) {
    let (files, bytes, kept) = (taken.files_copied, taken.bytes_copied, taken.files_kept);
    if args.json {
        println!(
            "{}",
            json!({"taken_at": taken.manifest.taken_at, "files_copied": files,
                   "bytes_copied": bytes, "files_kept": kept,
                   "partitions": logs_json(&taken.manifest, LogKind::Partition),
                   "sources": logs_json(&taken.manifest, LogKind::Source),
                   "subscription_files": taken.manifest.broker.len()})
        );
        return;
    }
    print_logs(&taken.manifest);
    println!(
        "backed up to {} at {}: {files} files with {bytes} bytes copied, {kept} there before",
        args.to.display(),
        time_of(taken.manifest.taken_at),
    );
}

/// Runs `weir restore`.
///
/// # Errors
/// When the backup is not whole, or the directory not empty; the text names file and offset.
pub fn run_restore(args: &RestoreArgs) -> anyhow::Result<()> {
    keep_private();
    if !args.from.is_dir() {
        bail!("{} is not there", args.from.display());
    }
    let from = || format!("the backup in {}", args.from.display());
    let mut stored = StoredBackup::open(ThreadDisk::open(&args.from, None)?).with_context(from)?;
    stored.check().with_context(from)?;
    let Some(dir) = &args.dir else {
        tell_checked(args, stored.manifest());
        return Ok(());
    };
    refuse_sub_directories(dir)?;
    let restored = restore(&mut stored, |sub| open_sub(dir, sub), SystemClock.now())
        .with_context(|| format!("nothing restored in {}", dir.display()))?;
    tell_restored(args, stored.manifest(), &restored);
    Ok(())
}

/// Refuses a directory with entries, which a flat directory's list does not show.
fn refuse_sub_directories(dir: &Path) -> anyhow::Result<()> {
    let Ok(mut entries) = std::fs::read_dir(dir) else { return Ok(()) };
    if let Some(found) = entries.next() {
        let found = found?.file_name().to_string_lossy().into_owned();
        let place = dir.display().to_string();
        return Err(BackupError::NotEmpty { place, found }.into());
    }
    Ok(())
}

/// Opens a directory of the node to be.
fn open_sub(dir: &Path, sub: &str) -> Result<ThreadDisk, BackupError> {
    let path = dir.join(sub);
    let place = path.display().to_string();
    ThreadDisk::open(&path, None).map_err(|source| BackupError::Disk { place, source })
}

fn tell_checked(args: &RestoreArgs, manifest: &Manifest) {
    if args.json {
        println!(
            "{}",
            json!({"taken_at": manifest.taken_at, "files": manifest.files().count(),
                   "partitions": logs_json(manifest, LogKind::Partition),
                   "sources": logs_json(manifest, LogKind::Source),
                   "subscription_files": manifest.broker.len()})
        );
        return;
    }
    print_logs(manifest);
    println!(
        "the backup of {} is whole: {} files",
        time_of(manifest.taken_at),
        manifest.files().count()
    );
}

/// Returns a note when this program cannot start the restored partition.
fn rules_note(manifest: &Manifest, restored: &RestoredLog) -> Option<String> {
    let RecoveryReport { rules, positions, .. } = &restored.report;
    let (last, found) = last_of_other_rules(rules, Position(positions.end), RULES_VERSION)?;
    let mut copies = manifest.logs(restored.kind).iter();
    let copy = copies.find(|copy| copy.partition == restored.partition_id.0)?;
    let snapshot = copy.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
    (snapshot < last.0).then(|| {
        format!(
            "{}: the commands up to position {last} were executed by version {found} of the \
             engine's rules, and this program has version {RULES_VERSION}: start the directory \
             with the program that wrote the backup, and stop it in order",
            restored.kind.dir(restored.partition_id)
        )
    })
}

fn tell_restored(args: &RestoreArgs, manifest: &Manifest, restored: &[RestoredLog]) {
    let dir = args.dir.as_deref().unwrap_or(Path::new(""));
    for restored in restored.iter().filter(|restored| restored.kind == LogKind::Partition) {
        if let Some(note) = rules_note(manifest, restored) {
            eprintln!("weir: {note}");
        }
    }
    if args.json {
        let row = |restored: &RestoredLog| {
            json!({"partition": restored.partition_id.0,
                   "first": restored.report.positions.start,
                   "last": restored.report.positions.end - 1,
                   "last_log_time": restored.last_log_time.0,
                   "epoch": restored.report.epoch.0,
                   "rules": restored.report.rules.last().map(|since| since.rules)})
        };
        let rows = |kind| -> Vec<Value> {
            restored.iter().filter(|restored| restored.kind == kind).map(row).collect()
        };
        println!(
            "{}",
            json!({"taken_at": manifest.taken_at, "partitions": rows(LogKind::Partition),
                   "sources": rows(LogKind::Source), "subscription_files": manifest.broker.len()})
        );
        return;
    }
    for restored in restored {
        let positions = &restored.report.positions;
        println!(
            "{:<12} positions {} to {}, the last of {}; it goes on in epoch {}",
            restored.kind.dir(restored.partition_id),
            positions.start,
            positions.end - 1,
            time_of(restored.last_log_time.0),
            restored.report.epoch,
        );
    }
    println!(
        "restored to {} what was backed up at {}; what came after that is lost",
        dir.display(),
        time_of(manifest.taken_at),
    );
}
