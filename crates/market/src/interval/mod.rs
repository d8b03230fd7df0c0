//! Statistics by interval: quotes, orders and trades of an instrument, over each interval of a
//! fixed length.
//!
//! Pure: updates with the books' changes come in, closed intervals go out through a callback; no
//! clock, no file, no float. The output holds sums over time and durations, whose ratios are exact;
//! the reader computes the means. Nothing is allocated once every instrument has appeared.
//!
//! Rules (`builder.rs`, and [`IntervalStatistics`] for each field):
//!
//! * Time is the venue's. An instrument's own time never goes back: an event earlier than a
//!   previous one counts as if it happened just then, and in `late_count` if its interval was over.
//! * An instrument's interval ends with its first event in a later interval, or when another
//!   instrument's time is `lateness` past its end.
//! * The state at the end of an interval is the state at the beginning of the next. So a resting
//!   quote yields statistics for each interval it rests in. An interval in which an instrument had
//!   no event and no quote, and was neither halted nor paused, yields none.
//! * While the whole feed is silent for longer than `silence`, time does not pass: the state may
//!   have changed unseen, and a gap of the clock must not yield statistics for each of its
//!   intervals.
//! * Gaps mark the statistics that they may affect: see `has_gap` and `is_certain`.

mod builder;
mod instrument_state;
mod record;

pub use builder::{IntervalBuilder, IntervalConfig, IntervalCounts};
pub use record::{
    Activity, BookStatement, ChannelReset, IntervalStatistics, Market, OrderAct, Quote,
    QuoteChange, StateChange,
};
