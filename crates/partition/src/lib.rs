//! A trading partition at work: the agent that sequences, commits and executes commands, its
//! recovery, the shadow engine that writes event log files and snapshots, and the readers of its
//! events.
//!
//! * [`agent`]: the duty cycle; [`log_time`]: its stamps; `outbox`: the publication of its events.
//!   [`recovery`]: rebuilds a running partition from files, [`closing_log`]: its command log;
//!   [`engine_limits`]: the limits of its engine; [`dirs`]: the paths of those files; [`places`]:
//!   directories elsewhere; [`formats`]: a check of all headers before any log is opened.
//! * [`handoff`]: the rings between a partition and the sources of its commands; `take_order`: the
//!   order in which it takes them. [`control_import`]: the source that imports the control log's
//!   definitions.
//! * [`shadow`], [`shadow_agent`]: the engine behind the partition that takes its snapshots.
//!   [`retention`]: the parts of both logs that may go; [`holds`]: the events that are needed.
//!   [`archive`]: the segments that go, on another disk.
//! * [`event_reader`]: a view's cursor in the events, in memory or in the files ([`event_files`]);
//!   [`history`]: the thread that reads files for a reader that must not wait, and hands over
//!   [`past_records`]. [`lineage`]: the epochs of a partition and the surviving part of each.
//!   [`stage_clock`]: stage stamps as times. [`plant`]: planted bugs.
//! * [`event_index`]: the events of each session ([`stream`]) and firm ([`record_index`]), as a
//!   gateway needs them, from the heads of records ([`event_record`]); [`checkpoint`]: an index
//!   on disk. [`placeholder`]: the records that a gateway process does not get.
//!
//! INVARIANT: no reader of a partition's events can make the partition wait.

pub mod agent;
pub mod archive;
pub mod checkpoint;
pub mod closing_log;
pub mod control_import;
pub mod dirs;
pub mod engine_limits;
pub mod event_files;
pub mod event_index;
pub mod event_reader;
pub mod event_record;
pub mod formats;
pub mod handoff;
pub mod history;
pub mod holds;
pub mod lineage;
pub mod log_time;
mod outbox;
pub mod past_records;
pub mod placeholder;
pub mod places;
pub mod plant;
pub mod record_index;
pub mod recovery;
pub mod retention;
pub mod shadow;
pub mod shadow_agent;
pub mod stage_clock;
pub mod stream;
mod take_order;
#[cfg(test)]
mod test_firm;
mod tick_pace;

pub use agent::{Partition, PartitionCounts, PartitionFigures, PartitionParts};
