//! The state of an instrument besides its book, as the update stage and post-processing see it.

use weir_market::conflate::{Stamp, Status};

use super::flush_slot::ChannelIndex;

/// The state of an instrument besides its book.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InstrumentState {
    pub is_known: bool,
    pub channel: ChannelIndex,
    pub last_change: Stamp,
    pub status: Option<Status>,
}
