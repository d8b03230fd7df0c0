//! The errors of a log.
//!
//! Each names the file and, where there is one, the offset. No error is recovered from by guessing:
//! the caller refuses to start, or aborts.

use thiserror::Error;
use weir_io::{DiskError, DiskErrorKind};
use weir_types::{PartitionId, Position};

use crate::frame::Fault;

/// The reason that a log cannot be opened, read or continued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// Bytes known to have been synced are damaged.
    #[error(
        "{file} is damaged at offset {offset} ({fault:?}): frame {frame}, position {position} on; \
         frames up to {synced_frame} were synced, so this is no torn tail"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the first damaged byte, or of its frame.
        offset: u64,
        /// The fault found there.
        fault: Fault,
        /// The number of the frame expected there.
        frame: u64,
        /// The position expected at the start of that frame.
        position: Position,
        /// The highest frame known to have been synced.
        synced_frame: u64,
    },
    /// A segment's header is unsound, although it was synced before the file got its name.
    #[error("{file} is damaged in its header (offset 0)")]
    DamagedHeader {
        /// The file.
        file: String,
    },
    /// A segment is missing.
    #[error("before {file} a segment is missing: frame {frame} is in none")]
    MissingSegment {
        /// The file after the gap.
        file: String,
        /// The first frame that is missing.
        frame: u64,
    },
    /// A log that is in use has no segment in its directory: somebody has moved its files.
    #[error("the log's directory has no segment of it")]
    NoSegment,
    /// The format is newer than this program.
    #[error("{file} has format version {version}; this program reads up to {known}")]
    NewerFormat {
        /// The file.
        file: String,
        /// The file's format version.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The file belongs to another log, kind or partition.
    #[error("{file} does not belong here: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// The mismatch.
        what: String,
    },
    /// The log belongs to another partition than the configured one.
    #[error("the log is partition {found}'s, the configuration says {wanted}")]
    OtherPartition {
        /// The partition of the log.
        found: PartitionId,
        /// The configured partition.
        wanted: PartitionId,
    },
    /// The requested position is no longer, or not yet, in the log.
    #[error("position {wanted} is not in the log, which holds {first} to {last}")]
    NotRetained {
        /// The requested position.
        wanted: Position,
        /// The first retained position.
        first: Position,
        /// The last retained position, as far as the reader knows it.
        last: Position,
    },
    /// A write or a sync failed while the log was running. The process must abort.
    #[error("the log cannot go on, abort: {0}")]
    Fatal(DiskError),
    /// The disk failed outside the data path.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LogError {
    /// Returns true when the process must abort rather than handle the error.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, LogError::Fatal(_))
    }

    /// Returns true when the disk has no room for what was appended; what is written stays sound.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        matches!(self, LogError::Disk(error) if error.kind == DiskErrorKind::Full)
    }
}
