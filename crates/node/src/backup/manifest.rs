//! The manifest of a backup: its files, their contents, and the positions up to which they reach.
//!
//! The file is JSON, a line feed, and a last line with the BLAKE3 hash of all bytes before it. That
//! line's position and meaning are the same in all formats: a newer format is refused as newer only
//! when the file is intact.

use serde::{Deserialize, Serialize};
use weir_io::{Disk, DiskErrorKind};
use weir_log::Juncture;
use weir_types::{Epoch, Position};

use super::{BackupError, LogKind, read_file, write_file};

/// The manifest's name.
pub const NAME: &str = "MANIFEST";
/// The format that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 3;
/// The format of a backup with partitions only, which older programs read too.
const PLAIN_FORMAT: u32 = 1;
/// The format of a backup with sources or a broker, without order stores.
const SOURCES_FORMAT: u32 = 2;
/// The beginning of the last line.
const HASH_WORD: &[u8] = b"blake3 ";

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`], 2 for a backup without an order store, 1 for one without sources and a broker.
    pub format: u32,
    /// The time at which it was finished, in nanoseconds since the Unix epoch.
    pub taken_at: u64,
    /// The version of the program that took it.
    pub program: String,
    /// The partitions, the control partition first.
    pub partitions: Vec<PartitionCopy>,
    /// Outside cores' sources: their logs of batches, and snapshots of their stores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PartitionCopy>,
    /// The broker's files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broker: Vec<StoredFile>,
    /// Files of the node's directory itself.
    pub keys: Vec<StoredFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFile {
    /// The file's name in the node's directory.
    pub name: String,
    /// The file's name in the backup.
    pub stored: String,
    /// Its length in the backup, in bytes.
    pub bytes: u64,
    /// Its BLAKE3 hash.
    pub blake3: String,
}

/// A partition in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionCopy {
    /// Its number; 0 is the control partition.
    pub partition: u16,
    /// Its log's identity.
    pub log_id: String,
    /// The epoch at the last position.
    pub epoch: u32,
    /// The first position held.
    pub first_position: u64,
    /// The last position; the one before `first_position` when there is none.
    pub last_position: u64,
    /// The log time of the last batch, in nanoseconds since the Unix epoch.
    pub last_log_time: u64,
    /// The command log's segments, oldest first.
    pub segments: Vec<SegmentCopy>,
    /// The newest sound snapshot, if there was one.
    pub snapshot: Option<SnapshotCopy>,
    /// A snapshot of the partition's order store, by the number of its last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<SnapshotCopy>,
    /// The ends of the partition's past epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past_ends: Option<StoredFile>,
}

/// A segment in a backup: its sound frames, without the zeros behind them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentCopy {
    /// The file.
    pub file: StoredFile,
    /// The length of the node's file in bytes, zeros included.
    pub segment_bytes: u64,
    /// The log point at which it begins.
    pub begins: LogPointRecord,
    /// The log point at which it ends.
    pub ends: LogPointRecord,
}

/// A snapshot in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCopy {
    /// The file.
    pub file: StoredFile,
    /// The position up to which it holds all entries.
    pub position: u64,
}

/// A point in a log's history, between two frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPointRecord {
    /// The number of the next frame.
    pub frame: u64,
    /// The next position.
    pub position: u64,
    /// The hash link that the next frame carries.
    pub link: String,
    /// The epoch.
    pub epoch: u32,
}

impl From<Juncture> for LogPointRecord {
    fn from(at: Juncture) -> LogPointRecord {
        let link = format!("{:016x}", at.link);
        LogPointRecord { frame: at.frame, position: at.position.0, link, epoch: at.epoch.0 }
    }
}

impl PartitionCopy {
    /// Returns the epoch at the last position.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Returns the last position.
    #[must_use]
    pub fn last(&self) -> Position {
        Position(self.last_position)
    }

    /// Returns all its files.
    pub fn files(&self) -> impl Iterator<Item = &StoredFile> {
        let snapshots = self.snapshot.iter().chain(&self.store);
        let others = snapshots.map(|snapshot| &snapshot.file).chain(&self.past_ends);
        self.segments.iter().map(|segment| &segment.file).chain(others)
    }
}

impl Manifest {
    /// Returns all its files.
    pub fn files(&self) -> impl Iterator<Item = &StoredFile> {
        let logs = self.partitions.iter().chain(&self.sources);
        logs.flat_map(PartitionCopy::files).chain(&self.broker).chain(&self.keys)
    }

    /// Returns the copies of one kind of log.
    #[must_use]
    pub fn logs(&self, kind: LogKind) -> &[PartitionCopy] {
        match kind {
            LogKind::Partition => &self.partitions,
            LogKind::Source => &self.sources,
        }
    }

    /// Sets the oldest format that can express the contents.
    pub(super) fn with_format(self) -> Manifest {
        let has_store = |copy: &PartitionCopy| copy.store.is_some() || copy.past_ends.is_some();
        let is_plain = self.sources.is_empty() && self.broker.is_empty();
        let format = match (self.partitions.iter().any(has_store), is_plain) {
            (true, _) => FORMAT,
            (false, true) => PLAIN_FORMAT,
            (false, false) => SOURCES_FORMAT,
        };
        Manifest { format, ..self }
    }

    /// Encodes the manifest.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("text and numbers become JSON");
        bytes.push(b'\n');
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(HASH_WORD);
        bytes.extend_from_slice(hash.to_hex().as_bytes());
        bytes.push(b'\n');
        bytes
    }

    /// Decodes a manifest.
    ///
    /// # Errors
    /// [`BackupError::DamagedManifest`], [`BackupError::NewerManifest`].
    pub fn decode(bytes: &[u8]) -> Result<Manifest, BackupError> {
        #[derive(Deserialize)]
        struct AnyFormat {
            format: u32,
        }
        let damaged = |what: &str| BackupError::DamagedManifest { what: what.to_owned() };
        let line = HASH_WORD.len() + 2 * blake3::OUT_LEN + 1;
        let at = bytes.len().checked_sub(line).ok_or_else(|| damaged("it is too short"))?;
        let (text, last) = bytes.split_at(at);
        let mut expected = HASH_WORD.to_vec();
        expected.extend_from_slice(blake3::hash(text).to_hex().as_bytes());
        expected.push(b'\n');
        if last != expected {
            return Err(damaged("its bytes are not those that its last line is the hash of"));
        }
        let any: AnyFormat = serde_json::from_slice(text).map_err(|e| damaged(&e.to_string()))?;
        if any.format > FORMAT {
            return Err(BackupError::NewerManifest { version: any.format, known: FORMAT });
        }
        let manifest: Manifest =
            serde_json::from_slice(text).map_err(|e| damaged(&e.to_string()))?;
        manifest.check_names()?;
        Ok(manifest)
    }

    /// Checks that no name leads out of a directory, whatever program wrote it.
    fn check_names(&self) -> Result<(), BackupError> {
        let is_plain = |name: &str| {
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
        };
        match self.files().find(|file| !is_plain(&file.name) || !is_plain(&file.stored)) {
            None => Ok(()),
            Some(file) => {
                let what = format!("{:?} is no plain name", file.name);
                Err(BackupError::DamagedManifest { what })
            }
        }
    }

    /// Reads the manifest of a directory; `None` when there is none.
    ///
    /// # Errors
    /// When it is damaged or newer, or the disk fails.
    pub fn read<D: Disk>(disk: &mut D, place: &str) -> Result<Option<Manifest>, BackupError> {
        match read_file(disk, NAME) {
            Ok(bytes) => Manifest::decode(&bytes).map(Some),
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::disk(place)(error)),
        }
    }

    /// Writes this manifest to a directory whose files are all synced, names included.
    ///
    /// # Errors
    /// When the disk is full or fails: the previous manifest is then still there.
    pub fn write<D: Disk>(&self, disk: &mut D) -> Result<(), weir_io::DiskError> {
        let bytes = self.encode();
        write_file(disk, NAME, &bytes, bytes.len() as u64)?;
        disk.sync_dir()
    }
}
