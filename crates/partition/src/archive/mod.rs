//! The archive of a partition's logs: segments that retention removes, compressed, on another disk
//! if the operator names one.
//!
//! ```text
//! shadow ── wants ──► archive's thread: read, check, compress, read back, sync, name
//!    ◄── stored up to ──'
//! removes segments up to there
//! ```
//!
//! * [`store`]: the files. [`agent`]: the thread that writes them. [`gate`]: the shadow's end,
//!   which lets no segment go that is not stored. [`whole`]: an archive and its log read as one.
//!
//! A file's name says which segment it holds and the history up to its end, so a segment has the
//! same name each time it is stored, and logs that went apart (a restored backup) share a directory
//! and no file. Nothing else is kept: a start looks at the files.
//!
//! INVARIANT: a file has its final name only after its bytes were read back and synced, and a
//! position counts as stored only after that name was.

pub mod agent;
pub mod gate;
pub mod store;
#[cfg(test)]
mod tests;
pub mod whole;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use weir_io::DiskError;
use weir_log::{LogError, SegmentKind};
use weir_types::Position;

/// The name under which the status shows what the archive holds.
pub const ARCHIVE: &str = "archive";

/// The logs of a partition.
pub const KINDS: [SegmentKind; 2] = [SegmentKind::Command, SegmentKind::Event];

/// The settings of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// The directory; each log has one of its own in it.
    pub dir: PathBuf,
    /// The bytes of each log that wait for the archive at most; without it all wait.
    pub wait_bytes_max: Option<u64>,
}

/// Returns the directory of a log's files in the archive's.
#[must_use]
pub fn dir_of(archive: &Path, log_id: u128) -> PathBuf {
    archive.join(format!("{log_id:032x}"))
}

/// The reason why a segment cannot be stored or read.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// A disk failed, or the archive's is full.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log cannot be read, or is damaged.
    #[error("the log: {0}")]
    Log(#[source] LogError),
    /// The copy is not what was written.
    #[error("the copy of {segment} reads back as other bytes than the log's")]
    Unlike {
        /// The segment.
        segment: String,
    },
    /// A file of the archive is damaged.
    #[error("{file} in the archive is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// The fault.
        reason: String,
    },
    /// Segments between the archive's and the log's are missing.
    #[error(
        "the archive has a gap: entries up to position {last} (frame {frame}) are in no file of it \
         that the log goes on from"
    )]
    Gap {
        /// The last missing entry.
        last: Position,
        /// The last missing frame.
        frame: u64,
    },
}

/// The places of both logs in their archive. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ArchivePlaces(Arc<[LogPlaces; 2]>);

#[derive(Debug, Default)]
struct LogPlaces {
    wanted: AtomicU64,
    stored: AtomicU64,
}

impl ArchivePlaces {
    fn of(&self, kind: SegmentKind) -> &LogPlaces {
        match kind {
            SegmentKind::Command => &self.0[0],
            SegmentKind::Event => &self.0[1],
        }
    }

    /// Asks for all segments that end before a position.
    pub fn want(&self, kind: SegmentKind, before: Position) {
        // SYNC: a number alone, read by `wanted`.
        self.of(kind).wanted.fetch_max(before.0, Ordering::Relaxed);
    }

    /// Returns the position before which all segments are asked for.
    #[must_use]
    pub fn wanted(&self, kind: SegmentKind) -> Position {
        // SYNC: written by `want`.
        Position(self.of(kind).wanted.load(Ordering::Relaxed))
    }

    /// Publishes the first position of the oldest segment that is not stored.
    pub fn tell_stored(&self, kind: SegmentKind, before: Position) {
        // SYNC: pairs with `stored`: the files behind the number are synced.
        self.of(kind).stored.fetch_max(before.0, Ordering::Release);
    }

    /// Returns the first position of the oldest segment that is not stored; zero while the
    /// archive's thread has not looked.
    #[must_use]
    pub fn stored(&self, kind: SegmentKind) -> Position {
        // SYNC: pairs with `tell_stored`.
        Position(self.of(kind).stored.load(Ordering::Acquire))
    }
}
