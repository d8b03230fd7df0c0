//! The sequenced log of a partition, its snapshots, and the event log that views read.
//!
//! [`SequencedLog`] is the interface for the rest of Weir; [`EmbeddedLog`] implements it in one
//! directory of segment files. Entries are opaque bytes. Opening a log checks it and repairs a torn
//! tail by the tables in [`recovery`]; damage to synced bytes is an error that names file and
//! offset. `docs/protocols/log-format.md` argues the format byte by byte.

pub mod api;
pub mod batch;
pub mod check;
pub mod embedded;
pub mod error;
pub mod event_log;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod plant;
pub mod reader;
pub mod recovery;
pub mod segment;
pub mod snapshot;
pub mod tail;

pub use api::{Append, Poll, SequencedLog};
pub use batch::{BATCH_BYTES_MAX, Batch, Push};
pub use check::{Juncture, SegmentCheck, check_header, check_segment};
pub use embedded::open::FoundLog;
pub use embedded::{EmbeddedLog, LogConfig};
pub use error::LogError;
pub use event_log::{
    EventAppend, EventLog, EventLogConfig, EventLogReport, FoundEvents, read_events,
};
pub use reader::{Entry, LogReader, RetainedSegment, retained_segments};
pub use recovery::{CutTail, EpochReason, Inspection, RecoveryReport, inspect};
pub use segment::{
    EpochEnd, RULES_FIRST, RulesSince, SegmentHeader, SegmentKind, last_of_other_rules,
};
pub use snapshot::{
    SkippedSnapshot, Snapshot, SnapshotFault, SnapshotHeader, SnapshotPart, SnapshotStore,
    decode_snapshot,
};
pub use tail::{
    EpochChange, EpochCursor, Seek, TailConfig, TailHandle, TailRead, TailReader, TailWriter, tail,
    tail_in,
};
pub use weir_types::Durability;
