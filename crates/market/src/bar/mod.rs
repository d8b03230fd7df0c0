//! Bars: the trades of an instrument over an interval, a number of trades or a volume.
//!
//! Pure: timestamped trades come in, closed bars go out through a callback; no clock, no file.
//! Nothing is allocated once every instrument has traded.
//!
//! Rules (`builder.rs`, and [`Bar`] for each field):
//!
//! | trade | open, close | high, low | volume, turnover, count, ticks |
//! | --- | --- | --- | --- |
//! | without flags | yes | yes | yes |
//! | `NOT_LAST` | no | yes | yes |
//! | `NOT_HIGH_LOW` | yes | no | yes |
//! | `NOT_VOLUME` | yes | yes | no |
//! | all three | ignored | | |
//!
//! * Trades are taken in the feed's order, and each belongs wholly to one bar. A bar by volume ends
//!   with the trade that fills it, so it may hold more than its volume, however large that trade
//!   is. Hence no trade makes more than one bar, and sums over bars are sums over trades.
//! * An interval without trades makes no bar.
//! * A trade earlier than the first interval still open (reported late, or a clock that went back)
//!   counts in that interval and in its `late_count`. An instrument's bars by time never go back
//!   and never share a start.
//! * Undoing a trade of an open bar takes it out of the bar: the bar is rebuilt from its trades if
//!   all of them are remembered; else the prices and ends that the trade may have set stay, and
//!   `is_range_certain` turns false. A bar that loses its last trade is dropped. For a closed bar,
//!   a [`Correction`] reports the trade to take out.
//! * A gap ([`BarBuilder::mark_gap`]) sets `has_gap` on each bar that may lack trades.

mod builder;
mod kind;
mod memory;
mod record;

pub use builder::{BarBuilder, BarBuilderConfig, BarCounts};
pub use kind::{BarKind, BarKindError};
pub use record::{Bar, BarBreak, BarEvent, BarTrade, Correction};
