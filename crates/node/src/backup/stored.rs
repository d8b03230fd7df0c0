//! Reads a backup, and checks every byte of it against its manifest and for consistency.
//!
//! Reads only and takes no lock: a backup may be on a read-only medium.

use weir_io::{Disk, DiskErrorKind};
use weir_log::{Juncture, LogError, SegmentKind, check_segment, decode_snapshot};
use weir_types::PartitionId;

use super::manifest::{
    LogPointRecord, Manifest, PartitionCopy, SegmentCopy, SnapshotCopy, StoredFile,
};
use super::{BackupError, LogKind, read_file};

/// A backup with a sound manifest.
pub struct StoredBackup<D> {
    disk: D,
    manifest: Manifest,
}

impl<D: Disk> StoredBackup<D> {
    /// Opens the backup in a directory.
    ///
    /// # Errors
    /// When there is none, or its manifest is damaged or newer.
    pub fn open(mut disk: D) -> Result<StoredBackup<D>, BackupError> {
        let manifest = Manifest::read(&mut disk, "the backup")?.ok_or(BackupError::NoManifest)?;
        Ok(StoredBackup { disk, manifest })
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks all files: lengths, checksums, links from segment to segment, hashes.
    ///
    /// # Errors
    /// The first fault, with its file and, if known, its offset.
    pub fn check(&mut self) -> Result<(), BackupError> {
        let manifest = self.manifest.clone();
        for kind in LogKind::ALL {
            for copy in manifest.logs(kind) {
                self.check_log(kind, copy)?;
            }
        }
        for file in manifest.broker.iter().chain(&manifest.keys) {
            self.read(file)?;
        }
        Ok(())
    }

    fn check_log(&mut self, kind: LogKind, copy: &PartitionCopy) -> Result<(), BackupError> {
        let Some(first) = copy.segments.first() else {
            let place = kind.dir(PartitionId(copy.partition));
            return Err(BackupError::NoLog { place });
        };
        let mut next = LogPointRecord { position: copy.first_position, ..first.begins.clone() };
        for segment in &copy.segments {
            self.read_segment(copy, segment)?;
            ensure(segment.begins == next, &segment.file, || {
                format!("it begins at frame {} instead of {}", segment.begins.frame, next.frame)
            })?;
            next = segment.ends.clone();
        }
        let last = copy.segments.last().unwrap_or(first);
        let told = (copy.last_position + 1, copy.epoch);
        ensure(told == (next.position, next.epoch), &last.file, || {
            format!("the log does not end at position {} as the manifest says", told.0 - 1)
        })?;
        for snapshot in copy.snapshot.iter().chain(&copy.store) {
            self.read_snapshot(copy, snapshot)?;
        }
        if let Some(file) = &copy.past_ends {
            self.read(file)?;
        }
        let reached = copy.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        ensure(reached < next.position && copy.first_position <= reached + 1, &last.file, || {
            format!(
                "the log from position {} and the snapshot of {reached} do not meet",
                copy.first_position
            )
        })
    }

    /// Reads a file and checks its length against the manifest.
    fn read_unhashed(&mut self, file: &StoredFile) -> Result<Vec<u8>, BackupError> {
        let name = file.stored.clone();
        let bytes = read_file(&mut self.disk, &name).map_err(|error| match error.kind {
            DiskErrorKind::NotFound => BackupError::Missing { file: name.clone() },
            _ => BackupError::disk("the backup")(error),
        })?;
        let (found, expected) = (bytes.len() as u64, file.bytes);
        if found != expected {
            return Err(BackupError::Length { file: name, expected, found });
        }
        Ok(bytes)
    }

    /// Reads a file and checks that it is the one that was copied.
    ///
    /// # Errors
    /// When it is not.
    pub fn read(&mut self, file: &StoredFile) -> Result<Vec<u8>, BackupError> {
        let bytes = self.read_unhashed(file)?;
        check_hash(file, &bytes)?;
        Ok(bytes)
    }

    /// Reads a segment and checks that it is sound and the one that was copied.
    ///
    /// # Errors
    /// When it is not. Frames are checked first, since their error names the offset.
    pub fn read_segment(
        &mut self,
        copy: &PartitionCopy,
        segment: &SegmentCopy,
    ) -> Result<Vec<u8>, BackupError> {
        let file = &segment.file;
        let bytes = self.read_unhashed(file)?;
        let stored = &file.stored;
        let unsound = |source| BackupError::Segment { file: stored.clone(), source };
        let check = check_segment(&file.name, &bytes, SegmentKind::Command).map_err(unsound)?;
        // A backup must have no torn tail.
        if let Some(damage) = check.damage(&file.name, u64::MAX) {
            return Err(unsound(damage));
        }
        if check.end != file.bytes {
            return Err(unsound(LogError::Damaged {
                file: file.name.clone(),
                offset: check.end,
                fault: weir_log::frame::Fault::Hole,
                frame: check.next.frame,
                position: check.next.position,
                synced_frame: check.synced_frame,
            }));
        }
        check_hash(file, &bytes)?;
        let own = (format!("{:032x}", check.header.log_id), check.header.partition.0);
        ensure(own == (copy.log_id.clone(), copy.partition), file, || {
            "it is of another log or partition".to_owned()
        })?;
        let ends = (
            LogPointRecord::from(Juncture::of_header(&check.header)),
            LogPointRecord::from(check.next),
        );
        ensure(ends == (segment.begins.clone(), segment.ends.clone()), file, || {
            "it does not begin and end where the manifest says".to_owned()
        })?;
        Ok(bytes)
    }

    /// Reads a snapshot and checks that it is sound and the one that was copied.
    ///
    /// # Errors
    /// When it is not. Blocks are checked first, since their error names the offset.
    pub fn read_snapshot(
        &mut self,
        copy: &PartitionCopy,
        snapshot: &SnapshotCopy,
    ) -> Result<Vec<u8>, BackupError> {
        let file = &snapshot.file;
        let bytes = self.read_unhashed(file)?;
        let stored = &file.stored;
        let (header, _) = decode_snapshot(&bytes)
            .map_err(|fault| BackupError::Snapshot { file: stored.clone(), fault })?;
        check_hash(file, &bytes)?;
        let own = (format!("{:032x}", header.log_id), header.partition, header.position.0);
        ensure(own == (copy.log_id.clone(), copy.partition, snapshot.position), file, || {
            "it is of another log, partition or position".to_owned()
        })?;
        Ok(bytes)
    }
}

fn check_hash(file: &StoredFile, bytes: &[u8]) -> Result<(), BackupError> {
    let found = blake3::hash(bytes).to_hex().to_string();
    if found == file.blake3 {
        return Ok(());
    }
    Err(BackupError::Hash { file: file.stored.clone(), found })
}

fn ensure(
    holds: bool,
    file: &StoredFile,
    what: impl FnOnce() -> String,
) -> Result<(), BackupError> {
    if holds {
        return Ok(());
    }
    Err(BackupError::Contradiction { file: file.stored.clone(), what: what() })
}
