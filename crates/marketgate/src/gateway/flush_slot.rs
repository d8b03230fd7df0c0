//! The slots of the ring from the update stage to the flush threads.
//!
//! An entry of the priority queue carries the book data that its message needs, so that a flush
//! thread keeps books of wanted instruments only: levels changed since the last entry, or all
//! levels; all orders at the start of an order stream; the day's statistics.

use weir_feed::line::State;
use weir_feed::{Definition, Update};
use weir_market::conflate::{DayStatistics, Entry};
use weir_types::Nanos;

use super::stages::Trace;
use crate::receiver::ChannelKey;

/// The index of a channel, in order of first appearance.
pub type ChannelIndex = u16;

/// The content of a slot.
#[derive(Clone, Debug, Default)]
pub enum FlushContent {
    /// An unused slot.
    #[default]
    Nothing,
    /// An entry of the priority queue; [`FlushSlot::updates`] apply before it.
    Entry(Entry),
    /// The definition of an instrument.
    Define(Definition),
    /// A new state of a channel.
    Channel(ChannelKey, State),
    /// A new session: the channel's sequence numbers restart.
    NewSession,
    /// Wishes of a flush thread have been taken: so many of the thread with this number since the
    /// start. The entries behind it are from behind these wishes.
    Wished(u16, u64),
}

/// A slot of the ring. Its vectors keep their memory.
#[derive(Clone, Debug, Default)]
pub struct FlushSlot {
    /// The content.
    pub what: FlushContent,
    /// The channel of the content.
    pub channel: ChannelIndex,
    /// The time at which the slot was written, by the update stage's clock.
    pub told_at: Nanos,
    /// The times of the timed message that the entry contains, if any.
    pub trace: Option<Trace>,
    /// Levels or orders as updates, which bring the book to the state of the entry.
    pub updates: Vec<Update>,
    /// The day's statistics, for an entry of statistics.
    pub statistics: DayStatistics,
}

impl FlushSlot {
    /// Clears the slot but keeps its memory.
    pub fn begin(&mut self, now: Nanos) {
        self.updates.clear();
        self.told_at = now;
        self.trace = None;
        self.what = FlushContent::Nothing;
    }
}
