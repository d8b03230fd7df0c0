//! What the update stage tells the flush threads.
//!
//! An entry of the priority queue goes with what it needs of the book, so that a flush thread has
//! a book of its own for what somebody wants, and none for the rest: levels that changed since the
//! last entry, or all; all orders where order by order begins; the day's statistics.

use weir_feed::line::State;
use weir_feed::{Definition, Update};
use weir_market::conflate::{DayStatistics, Entry};
use weir_types::Nanos;

use crate::receiver::ChannelKey;
use super::stages::Trace;

/// A channel, by the order in which channels were first heard of.
pub type ChannelIndex = u16;

/// What a slot says.
#[derive(Clone, Debug, Default)]
pub enum What {
    /// Nothing yet.
    #[default]
    Nothing,
    /// An entry of the priority queue; [`Told::updates`] come before it.
    Entry(Entry),
    /// An instrument is known.
    Define(Definition),
    /// A channel is in another state.
    Channel(ChannelKey, State),
    /// A channel's numbers begin anew.
    NewSession,
}

/// A slot of the ring. Its vectors keep their memory.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// What it says.
    pub what: What,
    /// Of which channel.
    pub channel: ChannelIndex,
    /// When it was told, by the update stage's clock.
    pub told_at: Nanos,
    /// Of an entry that says what is timed: its times.
    pub trace: Option<Trace>,
    /// Levels or orders as updates: what the entry's book needs to be as the entry says.
    pub updates: Vec<Update>,
    /// Of an entry of statistics: the day's.
    pub statistics: DayStatistics,
}

impl Told {
    /// Begins anew, with the memory that there is.
    pub fn begin(&mut self, now: Nanos) {
        self.updates.clear();
        self.told_at = now;
        self.trace = None;
        self.what = What::Nothing;
    }
}
