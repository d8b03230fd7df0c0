//! Post-processing: what is kept of market data, away from the path that hands it on.
//!
//! * [`audit`]: every datagram that came, in files.
//! * [`Bars`]: bars of trades, in tables.
//! * [`Statistics`]: how instruments were quoted and traded by interval, in a table.
//! * [`PostProcessor`]: all of it, on a thread of its own, fed by rings that never make a sender
//!   wait. It may fall behind; then it says so ([`PostFigures`]), and what found no room stands in
//!   its files as a gap.
//!
//! Nothing here knows where datagrams and trades come from.

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
pub use events::{EventFigures, PostEvent, PostReceiver, PostSender, Wants, post_events};
pub use processor::{PostFigures, PostProcessor, PostSenders, PostWatch};
pub use statistics::{Statistics, StatisticsFigures};
pub use storage::{FileSystem, Storage, StoredFile};
pub use table::TableFigures;

#[cfg(test)]
mod tests;
