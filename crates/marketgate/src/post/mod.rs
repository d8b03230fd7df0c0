//! Post-processing: records and aggregates market data, away from the latency-critical path.
//!
//! - [`audit`]: files with every datagram received.
//! - [`Bars`]: bars of trades, in tables.
//! - [`Statistics`]: quotes and trades of instruments by interval, in a table.
//! - [`PostProcessor`]: runs all of these on its own thread, fed by rings that never block a
//!   sender. It may fall behind: [`PostFigures`] reports it, and input without room in a ring
//!   appears as a gap in the files.
//!
//! Nothing here depends on the source of datagrams and trades.

pub mod audit;
mod bars;
mod config;
mod events;
mod moment;
mod names;
mod processor;
mod statistics;
mod storage;
mod table;

pub use bars::{Bars, BarsFigures};
pub use config::{AuditSection, BarsSection, NamedKind, PostSection, StatisticsSection, WhenFull};
pub use events::{EventFigures, EventSelection, PostEvent, PostReceiver, PostSender, post_events};
pub use processor::{PostFigures, PostProcessor, PostSenders, PostWatch};
pub use statistics::{Statistics, StatisticsFigures};
pub use storage::{FileSystem, Storage, StoredFile};
pub use table::TableFigures;

#[cfg(test)]
mod tests;
