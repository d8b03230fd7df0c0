//! Cold order state: the changes below the order store's floor, read from compressed files by the
//! same change ids.
//!
//! An [`Archive`] follows one source next to its order store. It keeps the latest state per
//! interval of each record in segments, merges and retires them, and serves readers whose cursor is
//! below the store's floor, page by page as the store would, until the reader is at a change id
//! from which the store goes on.
//!
//! The disk is the seam of `weir-io` and blocks, so an archive belongs on a thread of its own; the
//! caller provides the thread and the time. Store and archive do not depend on each other:
//! [`Filter`] and the like have the same meaning in both.
//!
//! * [`archive`]: feeding, closing, retiring, epochs.
//! * [`reader`]: pages and the search for their rows.
//! * [`segment`]: the file format, byte by byte in `docs/protocols/cold-format.md`.
//! * [`entry`]: a change, and the metadata that pages need.
//! * [`pace`]: the limit on the processor time of cold reads.
//! * [`plant`]: bugs to plant on purpose.

pub mod archive;
mod block;
mod columns;
pub mod entry;
mod filter;
mod merge;
mod merge_progress;
mod newest;
mod open;
pub mod pace;
pub mod plant;
pub mod reader;
pub mod segment;
mod served;
mod writer;

pub use archive::{
    ASIDE_SUFFIX, Archive, ColdConfig, ColdError, ColdFigures, OpenReport, Resync, WorkOutcome,
    has_segments_upto, set_aside_unknown,
};
pub use entry::{Batch, Change, ChangeError, EntryKind, HISTORY_LEN, ROW_LEN};
pub use filter::{Filter, Keys};
pub use pace::Pace;
pub use reader::{ColdPage, PAGE_ROWS_MAX, PageLimits};
pub use segment::{FORMAT_VERSION, Fault, Header, Segment};
pub use writer::SegmentError;
