//! What can be wrong with a log.
//!
//! Each error names the file and, where there is one, the offset. None is recovered from by
//! guessing: the caller refuses to start, or aborts.

use thiserror::Error;
use weir_io::DiskError;
use weir_types::{PartitionId, Position};

use crate::frame::Fault;

/// Why a log cannot be opened, read or continued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// What was known to be on the medium is no longer whole.
    #[error(
        "{file} is damaged at offset {offset} ({fault:?}): frame {frame}, position {position} on; \
         frames up to {synced_frame} were synced, so this is no torn tail"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the first byte that is not as it was written, or of its frame.
        offset: u64,
        /// What is wrong there.
        fault: Fault,
        /// The number of the frame that should stand there.
        frame: u64,
        /// The position that it should begin with.
        position: Position,
        /// The highest frame known to have been synced.
        synced_frame: u64,
    },
    /// A segment's header, which is synced before the file gets its name, is not sound.
    #[error("{file} is damaged in its header (offset 0)")]
    DamagedHeader {
        /// The file.
        file: String,
    },
    /// A segment that must be there is not.
    #[error("before {file} a segment is missing: frame {frame} is in none")]
    MissingSegment {
        /// The file in front of which one is missing.
        file: String,
        /// The first frame that is missing.
        frame: u64,
    },
    /// Written by a newer program.
    #[error("{file} has format version {version}; this program reads up to {known}")]
    NewerFormat {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
        /// The newest that this program reads.
        known: u32,
    },
    /// A file of another log, kind or partition.
    #[error("{file} does not belong here: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// How it is foreign.
        what: String,
    },
    /// The log of another partition than the configuration says.
    #[error("the log is partition {found}'s, the configuration says {wanted}")]
    OtherPartition {
        /// The partition whose log it is.
        found: PartitionId,
        /// The one configured.
        wanted: PartitionId,
    },
    /// The wanted position is no longer, or not yet, in the log.
    #[error("position {wanted} is not in the log, which holds {first} to {last}")]
    NotRetained {
        /// What was asked for.
        wanted: Position,
        /// The first position held.
        first: Position,
        /// The last.
        last: Position,
    },
    /// A write or a sync failed while the log ran. The process must abort.
    #[error("the log cannot go on, abort: {0}")]
    Fatal(DiskError),
    /// The disk failed outside the data path.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LogError {
    /// True when the process must abort rather than handle it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, LogError::Fatal(_))
    }
}
