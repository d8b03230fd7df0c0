//! Backups of a node's directory, and their restore.
//!
//! A backup is one flat directory. Its files are copies of data that the node never changes once
//! written, each with its contents' hash in its name; `MANIFEST` lists the files that belong
//! together and is written last, under a temporary name first. So however a backup ends, the target
//! is either unchanged or the whole new backup. `docs/protocols/log-format.md` explains the format.
//!
//! * [`manifest`]: the manifest of a backup. [`take`]: copies, while the node may run; [`broker`]:
//!   the files of durable subscriptions.
//! * [`stored`]: reads a backup and checks every byte of it. [`restore`]: restores a node from it.
//!
//! Invariants: a file is checked before it is copied and before it is restored; no file that the
//! newest manifest names is changed or removed.

pub mod broker;
pub mod manifest;
pub mod restore;
pub mod stored;
pub mod take;

use thiserror::Error;
use weir_io::{Access, Disk, DiskError};
use weir_log::{LogError, SnapshotFault};
use weir_partition::dirs::partition_dir;
use weir_types::{PartitionId, Position};

/// The name of a file while it is being written. Ignored after a crash.
pub(crate) const PART: &str = "copy.part";

/// The number of bytes written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The reason why a backup or restore failed.
#[derive(Debug, Error)]
pub enum BackupError {
    /// A disk failed, or is full.
    #[error("{place}: {source}")]
    Disk {
        /// The directory.
        place: String,
        /// The disk's error.
        source: DiskError,
    },
    /// A log is damaged, newer or foreign; the error names file and offset.
    #[error("{place}: {source}")]
    Log {
        /// The directory.
        place: String,
        /// The log's error.
        source: LogError,
    },
    /// There is no log to copy.
    #[error("{place} holds no log")]
    NoLog {
        /// The directory.
        place: String,
    },
    /// The log begins late and no snapshot reaches its beginning.
    #[error("{place}: the log begins at position {first} and no sound snapshot reaches it")]
    Unreachable {
        /// The directory.
        place: String,
        /// The log's first position.
        first: Position,
    },
    /// The node changed its files faster than they could be copied.
    #[error("{file} was gone in each of {tries} tries; try again when the node is less busy")]
    Unsteady {
        /// A missing file.
        file: String,
        /// The number of tries.
        tries: u32,
    },
    /// The node wrote to the broker's files all the time.
    #[error(
        "the broker's files changed in each of {tries} looks; try again, or without the broker"
    )]
    BusyBroker {
        /// The number of passes over the files.
        tries: u32,
    },
    /// There is no manifest: no backup was ever finished here.
    #[error("there is no {} here: not a backup, or one that was never finished", manifest::NAME)]
    NoManifest,
    /// The manifest is not as it was written.
    #[error("{} is damaged: {what}", manifest::NAME)]
    DamagedManifest {
        /// The fault.
        what: String,
    },
    /// A newer program wrote the backup.
    #[error("{} has format {version}; this program reads up to {known}", manifest::NAME)]
    NewerManifest {
        /// Its format.
        version: u32,
        /// The newest that this program reads.
        known: u32,
    },
    /// The target holds a backup of another node.
    #[error("the target holds {place} of the log {theirs}, not of {ours}: choose another")]
    OtherNode {
        /// The directory whose log differs.
        place: String,
        /// The log in the backup.
        theirs: String,
        /// The node's log.
        ours: String,
    },
    /// The target holds files that are no backup's.
    #[error("the target is no backup and holds other files, such as {found}: choose another")]
    Foreign {
        /// One of them.
        found: String,
    },
    /// A file of the backup is missing.
    #[error("{file} is missing")]
    Missing {
        /// The file.
        file: String,
    },
    /// A file of the backup has lost or gained bytes.
    #[error("{file} has {found} bytes instead of {expected}")]
    Length {
        /// The file.
        file: String,
        /// The length in the manifest.
        expected: u64,
        /// The length found.
        found: u64,
    },
    /// A file of the backup is sound by itself but not the one that was copied.
    #[error("{file} is not what was copied: its BLAKE3 hash, from offset 0 on, is {found}")]
    Hash {
        /// The file.
        file: String,
        /// Its hash.
        found: String,
    },
    /// A segment of the backup is not sound.
    #[error("{file}: {source}")]
    Segment {
        /// The file.
        file: String,
        /// The fault and its location.
        source: LogError,
    },
    /// A snapshot of the backup is not sound.
    #[error("{file}: {fault}")]
    Snapshot {
        /// The file.
        file: String,
        /// The fault and its location.
        fault: SnapshotFault,
    },
    /// The files are sound but do not fit together as the manifest states.
    #[error("{file}: {what}")]
    Contradiction {
        /// The file.
        file: String,
        /// The contradiction.
        what: String,
    },
    /// The target of a restore must be empty.
    #[error("{place} is not empty: it holds {found}")]
    NotEmpty {
        /// The directory.
        place: String,
        /// One of its entries.
        found: String,
    },
    /// A restored log did not open as expected.
    #[error("{place}: the restored log {what}")]
    Reopened {
        /// The log's directory.
        place: String,
        /// The unexpected result.
        what: String,
    },
}

impl BackupError {
    fn disk(place: &str) -> impl FnOnce(DiskError) -> BackupError {
        move |source| BackupError::Disk { place: place.to_owned(), source }
    }

    fn log(place: &str) -> impl FnOnce(LogError) -> BackupError {
        move |source| BackupError::Log { place: place.to_owned(), source }
    }
}

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// A partition's commands.
    Partition,
    /// An outside core's batches.
    Source,
}

impl LogKind {
    /// All kinds.
    pub const ALL: [LogKind; 2] = [LogKind::Partition, LogKind::Source];

    /// Returns the directory of a partition or source, by its number.
    #[must_use]
    pub fn dir(self, id: PartitionId) -> String {
        match self {
            LogKind::Partition => partition_dir(id),
            LogKind::Source => format!("source-{id}"),
        }
    }

    /// Returns the directory of its log within that.
    #[must_use]
    pub const fn log(self) -> &'static str {
        match self {
            LogKind::Partition => "commands",
            LogKind::Source => "batches",
        }
    }
}

/// The directory of durable subscriptions within the node's own.
pub const BROKER_DIR: &str = "broker";

/// Reads a whole file.
fn read_file<D: Disk>(disk: &mut D, name: &str) -> Result<Vec<u8>, DiskError> {
    let file = disk.open(name, Access::Read)?;
    let read = disk.len(file).and_then(|len| {
        let mut bytes = vec![0; usize::try_from(len).expect("a file fits in memory")];
        let taken = disk.read(file, 0, &mut bytes)?;
        bytes.truncate(taken);
        Ok(bytes)
    });
    disk.close(file);
    read
}

/// Writes a file and its zeros up to `len` under a temporary name, syncs it and renames it. The
/// name survives a power loss only after the directory is synced.
fn write_file<D: Disk>(disk: &mut D, name: &str, bytes: &[u8], len: u64) -> Result<(), DiskError> {
    let file = disk.create(PART)?;
    let written = write_all(disk, file, bytes, len).and_then(|()| disk.sync(file));
    disk.close(file);
    if let Err(error) = written {
        // No manifest names the part, so a failure to remove it is irrelevant.
        let _ = disk.remove(PART);
        return Err(error);
    }
    disk.rename(PART, name)
}

fn write_all<D: Disk>(
    disk: &mut D,
    file: weir_io::FileId,
    bytes: &[u8],
    len: u64,
) -> Result<(), DiskError> {
    let mut at = 0;
    for chunk in bytes.chunks(WRITE_BYTES) {
        disk.write_all(file, at, chunk)?;
        at += chunk.len() as u64;
    }
    let zeros = vec![0; WRITE_BYTES];
    while at < len {
        let left = usize::try_from(len - at).unwrap_or(WRITE_BYTES).min(WRITE_BYTES);
        disk.write_all(file, at, &zeros[..left])?;
        at += left as u64;
    }
    Ok(())
}
