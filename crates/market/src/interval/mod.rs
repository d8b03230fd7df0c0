//! Statistics by interval: how an instrument was quoted and traded, over each interval of a fixed
//! length that it was known in.
//!
//! Pure: what books say of updates comes in, closed intervals go out through a callback; no clock,
//! no file, no float. Means are left to whoever reads: sums over time and durations go out, whose
//! ratios are exact. Nothing is allocated once every instrument was heard of.
//!
//! Rules (`builder.rs`, and [`IntervalStatistics`] for each field):
//!
//! * Time is the venue's. An instrument's own time never goes back: what happened earlier than what
//!   was heard of it before counts as if it had happened just then, and in `late_count` where its
//!   interval was over.
//! * An instrument's interval ends with the first thing that happens to it in a later one, or when
//!   another instrument's time is `lateness` past its end.
//! * What stands when an interval ends stands when the next one begins. So a quote that rests makes
//!   a statistic of each interval that it rests in; an interval in which nothing happened to an
//!   instrument, nobody quoted it and it was neither halted nor paused makes none.
//! * While the whole feed is silent for longer than `silence`, time does not pass: nobody knows
//!   whether what stood then stands still, and no gap of a clock makes a statistic for each of its
//!   intervals.
//! * What was missed marks what may lack it: see `has_gap` and `is_certain`.

mod builder;
mod place;
mod record;

pub use builder::{IntervalBuilder, IntervalConfig, IntervalCounts};
pub use record::{
    Activity, BookStated, Called, IntervalStatistics, Market, OrderAct, Quote, Quoted, Voided,
};
