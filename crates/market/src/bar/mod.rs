//! Bars: what traded in an instrument over a time, a number of trades or a volume.
//!
//! Pure: trades with their times come in, bars that are closed go out through a callback; no clock,
//! no file. Nothing is allocated once every instrument has traded.
//!
//! Rules (`builder.rs`, and [`Bar`] for each field):
//!
//! | trade | open, close | high, low | volume, turnover, count, ticks |
//! | --- | --- | --- | --- |
//! | without flags | yes | yes | yes |
//! | `NOT_LAST` | no | yes | yes |
//! | `NOT_HIGH_LOW` | yes | no | yes |
//! | `NOT_VOLUME` | yes | yes | no |
//! | all three | passed over | | |
//!
//! * Trades are taken in the feed's order, and each belongs to one bar, whole: a bar by volume ends
//!   with the trade that fills it and may so hold more than its volume, however large that trade
//!   is. So no trade makes more than one bar, and sums of bars are sums of trades.
//! * An interval without trades makes no bar.
//! * A trade whose time lies before the first interval that is open yet (reported late, or a clock
//!   that went back) counts in that one and in its `late_count`. An instrument's bars by time
//!   never go back and never share a beginning.
//! * A trade that is undone while its bar is open is as if it had never been: the bar is made anew
//!   from its trades as long as all of them are remembered, else prices and ends stay where they
//!   may have come from it and `is_range_certain` turns false. A bar that loses its last trade is
//!   none. Of a bar that is closed, a [`Correction`] tells what is to be taken out.
//! * Messages that were missed ([`BarBuilder::mark_gap`]) mark each bar that may lack trades of
//!   them: `has_gap`.

mod builder;
mod kind;
mod memory;
mod record;

pub use builder::{BarBuilder, BarBuilderConfig, BarCounts};
pub use kind::{BarKind, BarKindError};
pub use record::{Bar, BarBreak, BarEvent, BarTrade, Correction};
