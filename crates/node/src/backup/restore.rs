//! Makes a node's directory of a backup.
//!
//! ```text
//! check all ─► mark the directory as unfinished ─► copy ─► begin an epoch in each log ─► unmark
//! ```
//!
//! The mark is synced before anything else is there and removed after all else is synced, and a
//! node does not start in a directory that has it: what an interrupted restore leaves cannot be
//! taken for a node.
//!
//! Clients may have been told of what came after the backup. So each log goes on in an epoch that
//! no other copy of it can have reached: one counted in seconds since 2026, which leaves behind
//! all that the lost history may have begun, and all that another restore of the same backup did.

use weir_io::{Access, Disk};
use weir_log::{EmbeddedLog, EpochReason, LogConfig, RecoveryReport, SequencedLog};
use weir_partition::dirs::RESTORE_UNFINISHED;
use weir_types::{Epoch, Nanos, PartitionId};

use super::manifest::{Manifest, PartitionCopy};
use super::stored::Stored;
use super::{BROKER_DIR, BackupError, LogKind, write_file};

/// 2026-01-01T00:00:00Z in seconds since the Unix epoch.
const FIRST_SECOND: u64 = 1_767_225_600;

/// The epoch of what is restored at `now`; of two restores in one second, the same.
#[must_use]
pub fn epoch_at(now: Nanos) -> Epoch {
    let seconds = (now.0 / 1_000_000_000).saturating_sub(FIRST_SECOND);
    // A log's epochs stay below 2^31: there are 68 years until then.
    Epoch(u32::try_from(seconds).unwrap_or(u32::MAX).min((1 << 31) - 1))
}

/// What was restored of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What it is of.
    pub kind: LogKind,
    /// Which.
    pub partition_id: PartitionId,
    /// How its log was found and in which epoch it goes on.
    pub report: RecoveryReport,
    /// The log time of its last batch.
    pub last_log_time: Nanos,
}

/// Makes a node of a backup, all of which was [checked](Stored::check): `open` opens a directory of
/// the node by its path in it, the node's own for an empty one, and makes it where it is missing.
/// When it returns, what is in those directories survives a power loss.
///
/// # Errors
/// [`BackupError`]; the node's directory then has the mark that it is unfinished, or is as empty as
/// before.
pub fn restore<S: Disk, D: Disk>(
    stored: &mut Stored<S>,
    mut open: impl FnMut(&str) -> Result<D, BackupError>,
    now: Nanos,
) -> Result<Vec<Restored>, BackupError> {
    let mut root = open("")?;
    root.lock().map_err(BackupError::disk("the node's directory"))?;
    refuse_contents(&mut root, "the node's directory")?;
    let manifest = stored.manifest().clone();
    mark(&mut root).map_err(BackupError::disk("the node's directory"))?;
    let epoch = epoch_at(now);
    let mut restored = Vec::new();
    for kind in LogKind::ALL {
        for copy in manifest.logs(kind) {
            restored.push(restore_log(stored, (kind, copy), &mut open, epoch)?);
        }
    }
    restore_broker(stored, &manifest, &mut open)?;
    put_keys(stored, &manifest, &mut root)?;
    unmark(&mut root).map_err(BackupError::disk("the node's directory"))?;
    Ok(restored)
}

fn refuse_contents<D: Disk>(disk: &mut D, place: &str) -> Result<(), BackupError> {
    let names = disk.list().map_err(BackupError::disk(place))?;
    match names.into_iter().next() {
        None => Ok(()),
        Some(found) => Err(BackupError::NotEmpty { place: place.to_owned(), found }),
    }
}

fn mark<D: Disk>(root: &mut D) -> Result<(), weir_io::DiskError> {
    let text =
        b"A restore is under way here or was interrupted. Remove the directory, begin anew.\n";
    let file = root.create(RESTORE_UNFINISHED)?;
    let written = root.write_all(file, 0, text).and_then(|()| root.sync(file));
    root.close(file);
    written?;
    root.sync_dir()
}

fn unmark<D: Disk>(root: &mut D) -> Result<(), weir_io::DiskError> {
    // The keys' names first: no power loss may bring a node without them.
    root.sync_dir()?;
    root.remove(RESTORE_UNFINISHED)?;
    root.sync_dir()
}

fn put_keys<S: Disk, D: Disk>(
    stored: &mut Stored<S>,
    manifest: &Manifest,
    root: &mut D,
) -> Result<(), BackupError> {
    for key in &manifest.keys {
        let bytes = stored.read(key)?;
        write_file(root, &key.name, &bytes, key.bytes)
            .map_err(BackupError::disk("the node's directory"))?;
    }
    Ok(())
}

fn restore_broker<S: Disk, D: Disk>(
    stored: &mut Stored<S>,
    manifest: &Manifest,
    open: &mut impl FnMut(&str) -> Result<D, BackupError>,
) -> Result<(), BackupError> {
    if manifest.broker.is_empty() {
        return Ok(());
    }
    let mut disk = open(BROKER_DIR)?;
    refuse_contents(&mut disk, BROKER_DIR)?;
    for file in &manifest.broker {
        let bytes = stored.read(file)?;
        write_file(&mut disk, &file.name, &bytes, file.bytes)
            .map_err(BackupError::disk(BROKER_DIR))?;
    }
    disk.sync_dir().map_err(BackupError::disk(BROKER_DIR))
}

fn restore_log<S: Disk, D: Disk>(
    stored: &mut Stored<S>,
    (kind, copy): (LogKind, &PartitionCopy),
    open: &mut impl FnMut(&str) -> Result<D, BackupError>,
    epoch: Epoch,
) -> Result<Restored, BackupError> {
    let partition_id = PartitionId(copy.partition);
    let dir = kind.dir(partition_id);
    let place = format!("{dir}/{}", kind.log());
    if let Some(snapshot) = &copy.snapshot {
        let bytes = stored.read_snapshot(copy, snapshot)?;
        let place = format!("{dir}/snapshots");
        let mut disk = open(&place)?;
        refuse_contents(&mut disk, &place)?;
        write_file(&mut disk, &snapshot.file.name, &bytes, snapshot.file.bytes)
            .and_then(|()| disk.sync_dir())
            .map_err(BackupError::disk(&place))?;
    }
    let mut disk = open(&place)?;
    refuse_contents(&mut disk, &place)?;
    for (index, segment) in copy.segments.iter().enumerate() {
        let bytes = stored.read_segment(copy, segment)?;
        // The newest one is written on: it gets its zeros back.
        let is_newest = index + 1 == copy.segments.len();
        let len = if is_newest { segment.segment_bytes } else { segment.file.bytes };
        write_file(&mut disk, &segment.file.name, &bytes, len)
            .map_err(BackupError::disk(&place))?;
    }
    disk.sync_dir().map_err(BackupError::disk(&place))?;
    let segment_bytes = copy.segments.last().map_or(0, |segment| segment.segment_bytes);
    let config = LogConfig { segment_bytes, ..LogConfig::new(partition_id, 0) };
    let (mut log, report) =
        EmbeddedLog::open_restored(config, disk, epoch).map_err(BackupError::log(&place))?;
    check_reopened(copy, &report, &place)?;
    let last_log_time = log.last_log_time();
    log.close().map_err(BackupError::log(&place))?;
    Ok(Restored { kind, partition_id, report, last_log_time })
}

/// The log opened as the whole of what the backup holds, in an epoch of its own.
fn check_reopened(
    copy: &PartitionCopy,
    report: &RecoveryReport,
    place: &str,
) -> Result<(), BackupError> {
    let wanted = copy.first_position..copy.last_position + 1;
    let is_whole = report.cut.is_none() && report.positions == wanted;
    let has_begun = report.new_epoch == Some(EpochReason::Restored) && report.epoch > copy.epoch();
    if is_whole && has_begun {
        return Ok(());
    }
    let what = format!("opens as {report:?}");
    Err(BackupError::Reopened { place: place.to_owned(), what })
}

/// True when a directory has the mark of a restore that did not end.
///
/// # Errors
/// When the disk fails.
pub fn is_unfinished<D: Disk>(disk: &mut D) -> Result<bool, weir_io::DiskError> {
    match disk.open(RESTORE_UNFINISHED, Access::Read) {
        Ok(file) => {
            disk.close(file);
            Ok(true)
        }
        Err(error) if error.kind == weir_io::DiskErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
