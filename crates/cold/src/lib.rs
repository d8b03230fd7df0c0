//! Cold order state: what the order store let go, from compressed files, by the same places.
//!
//! An [`Archive`] follows one source beside its order store. It keeps the latest state per interval
//! of each record in segments, merges and retires them, and answers "what changed after this
//! place?" for places below the store's floor, page by page as the store would, until the reader is
//! at a place from which the store goes on.
//!
//! Nothing but [`service`] knows a thread or a clock. The disk is the seam of `weir-io` and blocks,
//! so an archive has a thread of its own. Store and archive do not know each other: [`Place`],
//! [`Filter`] and the like mean the same as there.
//!
//! * [`archive`]: feeding, closing, retiring, epochs.
//! * [`reader`]: what a page is and how it is found.
//! * [`segment`]: the format, on `docs/protocols/cold-format.md` byte by byte.
//! * [`entry`]: a change, and what a page must know of it.
//! * [`pace`]: how much of the machine cold reads may take.
//! * [`plant`]: bugs to put in on purpose.
//! * [`service`]: an archive on a thread of its own, behind a bounded queue.

pub mod archive;
mod block;
mod columns;
pub mod entry;
mod merge;
mod newest;
mod open;
pub mod pace;
mod place;
pub mod plant;
pub mod reader;
pub mod segment;
pub mod service;
mod writer;

pub use archive::{
    Archive, ColdConfig, ColdError, ColdFigures, OpenReport, Resync, Worked, remove_unknown,
};
pub use entry::{Batch, Change, ChangeError, HISTORY_LEN, ROW_LEN, Standing};
pub use pace::Pace;
pub use place::{Filter, Keys, Place};
pub use reader::{ColdPage, PAGE_ROWS_MAX, PageLimits};
pub use segment::{FORMAT_VERSION, Fault, Header, Segment};
pub use service::{Answer, ColdService, Refused, ServiceConfig};
pub use writer::SegmentError;
