//! Restores a node's directory from a backup.
//!
//! ```text
//! check all ─► mark the directory as unfinished ─► copy ─► begin an epoch in each log ─► unmark
//! ```
//!
//! The mark is synced before any other file exists and removed after all others are synced, and a
//! node does not start in a marked directory: the remains of an interrupted restore cannot be
//! mistaken for a node.
//!
//! Clients may have received events from after the backup. So each log continues in an epoch that
//! no other copy of it can have reached: one counted in seconds since 2026, which exceeds every
//! epoch that the lost history, or another restore of the same backup, may have begun.

use weir_io::{Access, Disk};
use weir_log::{EmbeddedLog, EpochReason, LogConfig, RecoveryReport, SequencedLog};
use weir_partition::dirs::{ORDER_STORE, RESTORE_UNFINISHED};
use weir_types::{Epoch, Nanos, PartitionId};

use super::manifest::{Manifest, PartitionCopy, StoredFile};
use super::stored::StoredBackup;
use super::{BROKER_DIR, BackupError, LogKind, write_file};

/// 2026-01-01T00:00:00Z in seconds since the Unix epoch.
const FIRST_SECOND: u64 = 1_767_225_600;

/// Returns the epoch of a restore at `now`; equal for two restores within one second.
#[must_use]
pub fn epoch_at(now: Nanos) -> Epoch {
    let seconds = (now.0 / 1_000_000_000).saturating_sub(FIRST_SECOND);
    // A log's epochs stay below 2^31: that is 68 years.
    Epoch(u32::try_from(seconds).unwrap_or(u32::MAX).min((1 << 31) - 1))
}

/// The restored log of a partition or source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredLog {
    /// The kind of the log.
    pub kind: LogKind,
    /// The partition or source.
    pub partition_id: PartitionId,
    /// The recovery's report: the log's state and its new epoch.
    pub report: RecoveryReport,
    /// The log time of its last batch.
    pub last_log_time: Nanos,
}

/// Restores a node from a backup that was entirely [checked](Stored::check). `open` opens a
/// directory of the node by its path within it (empty for the node's own) and creates it if
/// missing. On return, the contents of those directories survive a power loss.
///
/// # Errors
/// [`BackupError`]; the node's directory then has the mark of an unfinished restore, or is as empty
/// as before.
pub fn restore<S: Disk, D: Disk>(
    stored: &mut StoredBackup<S>,
    mut open: impl FnMut(&str) -> Result<D, BackupError>,
    now: Nanos,
) -> Result<Vec<RestoredLog>, BackupError> {
    let mut root = open("")?;
    root.lock().map_err(BackupError::disk("the node's directory"))?;
    refuse_contents(&mut root, "the node's directory")?;
    let manifest = stored.manifest().clone();
    mark(&mut root).map_err(BackupError::disk("the node's directory"))?;
    let epoch = epoch_at(now);
    let mut restored = Vec::new();
    for kind in LogKind::ALL {
        for copy in manifest.logs(kind) {
            restored.push(restore_log(stored, kind, copy, &mut open, epoch)?);
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
    // The keys' names first: a power loss must not produce a node without them.
    root.sync_dir()?;
    root.remove(RESTORE_UNFINISHED)?;
    root.sync_dir()
}

fn put_keys<S: Disk, D: Disk>(
    stored: &mut StoredBackup<S>,
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
    stored: &mut StoredBackup<S>,
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
    stored: &mut StoredBackup<S>,
    kind: LogKind,
    copy: &PartitionCopy,
    open: &mut impl FnMut(&str) -> Result<D, BackupError>,
    epoch: Epoch,
) -> Result<RestoredLog, BackupError> {
    let partition_id = PartitionId(copy.partition);
    let dir = kind.dir(partition_id);
    let place = format!("{dir}/{}", kind.log());
    let snapshots = [("snapshots", &copy.snapshot), (ORDER_STORE, &copy.store)];
    for (name, snapshot) in snapshots {
        let Some(snapshot) = snapshot else { continue };
        let bytes = stored.read_snapshot(copy, snapshot)?;
        put_file(&snapshot.file, &bytes, &format!("{dir}/{name}"), open)?;
    }
    if let Some(file) = &copy.past_ends {
        let bytes = stored.read(file)?;
        put_file(file, &bytes, &dir, open)?;
    }
    let mut disk = open(&place)?;
    refuse_contents(&mut disk, &place)?;
    for (index, segment) in copy.segments.iter().enumerate() {
        let bytes = stored.read_segment(copy, segment)?;
        // The newest segment is appended to: its zeros are restored.
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
    Ok(RestoredLog { kind, partition_id, report, last_log_time })
}

/// Writes the one file of a directory of the node.
fn put_file<D: Disk>(
    file: &StoredFile,
    bytes: &[u8],
    place: &str,
    open: &mut impl FnMut(&str) -> Result<D, BackupError>,
) -> Result<(), BackupError> {
    let mut disk = open(place)?;
    refuse_contents(&mut disk, place)?;
    write_file(&mut disk, &file.name, bytes, file.bytes)
        .and_then(|()| disk.sync_dir())
        .map_err(BackupError::disk(place))
}

/// Checks that the log opened with exactly the backup's contents, in an epoch of its own.
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

/// Returns true when a directory has the mark of an unfinished restore.
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
