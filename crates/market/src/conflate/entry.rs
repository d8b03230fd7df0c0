//! Entries of both stages of conflation: one change, or several merged ones.

use weir_feed::update::{TradeFlags, TradingState, Update, Venue};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

/// The kind of a change. Interest, queues and merging are separate for each kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The best bid and offer.
    Bbo = 0,
    /// The price levels: depth N and all levels.
    Book = 1,
    /// The day's statistics.
    Statistics = 2,
    /// The trading state.
    Status = 3,
    /// Trades and their breaks.
    Trades = 4,
    /// The book order by order.
    Orders = 5,
}

impl Kind {
    /// The number of kinds.
    pub const COUNT: usize = 6;
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; Kind::COUNT] =
        [Kind::Bbo, Kind::Book, Kind::Statistics, Kind::Status, Kind::Trades, Kind::Orders];

    /// Returns true where a newer change supersedes an older one, so that they can be merged.
    #[must_use]
    pub const fn is_state(self) -> bool {
        !matches!(self, Kind::Trades | Kind::Orders)
    }

    /// Returns true where changes may wait for the timer. A status never does.
    #[must_use]
    pub const fn may_wait(self) -> bool {
        matches!(self, Kind::Bbo | Kind::Book | Kind::Statistics)
    }
}

/// The best bid and offer. An empty side has size zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bbo {
    /// The bid, in 10^-9.
    pub bid_px: Price,
    /// The quantity bid.
    pub bid_sz: Qty,
    /// The offer, in 10^-9.
    pub ask_px: Price,
    /// The quantity offered.
    pub ask_sz: Qty,
}

/// The trading state of an instrument, its reason and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The trading state.
    pub state: TradingState,
    /// The reason, in the feed's own code, padded with spaces.
    pub reason: [u8; 4],
    /// The cause, of the feed of a Weir node; else unknown.
    pub cause: PhaseCause,
}

/// A trade or a trade break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The price, in 10^-9.
    pub price: Price,
    /// The quantity.
    pub size: Qty,
    /// The feed's number of the trade; zero when it has none.
    pub match_id: u64,
    /// The venue of the trade.
    pub venue: Venue,
    /// The side that took liquidity, where the feed reports it.
    pub aggressor: Option<Side>,
    /// Flags of the trade: the statistics it does not count for, and its kind.
    pub flags: TradeFlags,
    /// True for the break of the trade with this number.
    pub is_break: bool,
}

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The new best bid and offer.
    Bbo(Bbo),
    /// A change of the levels; the writer of the message reads them from the book.
    Book,
    /// A change of the statistics; the writer of the message reads them.
    Statistics,
    /// The new trading state.
    Status(Status),
    /// A trade.
    Trade(Trade),
    /// A change of one order.
    Order(Update),
    /// The start of a stream of order changes; the writer of the message reads all orders from the
    /// book.
    OrdersSnapshot,
    /// Messages of this kind were lost because a queue was full: [`MergedChanges::change_count`] of
    /// them, in its range of sequence numbers.
    Gap(Kind),
}

impl Body {
    /// Returns the kind of the content.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Body::Bbo(_) => Kind::Bbo,
            Body::Book => Kind::Book,
            Body::Statistics => Kind::Statistics,
            Body::Status(_) => Kind::Status,
            Body::Trade(_) => Kind::Trades,
            Body::Order(_) | Body::OrdersSnapshot => Kind::Orders,
            Body::Gap(kind) => *kind,
        }
    }
}

/// The origin of a change: its sequence number and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The source's sequence number.
    pub sequence: u64,
    /// The time of the change by the source's clock.
    pub ts_event: Nanos,
    /// The receive time.
    pub ts_recv: Nanos,
}

/// The changes merged into an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedChanges {
    /// The number of changes: 1 when nothing was merged, 0 for a state sent on request. Saturates.
    pub change_count: u32,
    /// The source's sequence number of the oldest change.
    pub first_sequence: u64,
    /// The source's sequence number of the newest change.
    pub last_sequence: u64,
    /// The time of the oldest change by the source's clock. With [`MergedChanges::ts_recv`] it
    /// gives the age of the entry, except where `change_count` is zero.
    pub ts_event: Nanos,
    /// The receive time of the oldest change.
    pub ts_recv: Nanos,
}

impl MergedChanges {
    /// Returns the record of one change.
    #[must_use]
    pub const fn one(stamp: Stamp) -> MergedChanges {
        MergedChanges { change_count: 1, ..MergedChanges::none(stamp) }
    }

    /// Returns the record of a state without a change.
    #[must_use]
    pub const fn none(stamp: Stamp) -> MergedChanges {
        MergedChanges {
            change_count: 0,
            first_sequence: stamp.sequence,
            last_sequence: stamp.sequence,
            ts_event: stamp.ts_event,
            ts_recv: stamp.ts_recv,
        }
    }

    /// Returns these changes followed by later ones.
    #[must_use]
    pub fn and(self, later: MergedChanges) -> MergedChanges {
        match (self.change_count, later.change_count) {
            (0, _) => later,
            (_, 0) => self,
            (before, after) => MergedChanges {
                change_count: before.saturating_add(after),
                last_sequence: later.last_sequence,
                ..self
            },
        }
    }

    /// Returns the number of changes that were not sent individually.
    #[must_use]
    pub const fn merged_count(&self) -> u32 {
        self.change_count.saturating_sub(1)
    }
}

/// An entry that passes through the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// True for a requested state: the first that a new subscription receives of an instrument.
    pub is_snapshot: bool,
    /// The changes that the entry represents.
    pub merged: MergedChanges,
    /// The content.
    pub body: Body,
}

impl Entry {
    /// Returns the entry of one change of an instrument.
    #[must_use]
    pub const fn change(instrument_id: InstrumentId, stamp: Stamp, body: Body) -> Entry {
        Entry { instrument_id, is_snapshot: false, merged: MergedChanges::one(stamp), body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(sequence: u64) -> Stamp {
        Stamp { sequence, ts_event: Nanos(sequence * 10), ts_recv: Nanos(sequence * 10 + 5) }
    }

    #[test]
    fn what_is_merged_keeps_the_oldest_times_and_both_ends() {
        let both = MergedChanges::one(at(3)).and(MergedChanges::one(at(7)));
        assert_eq!((both.change_count, both.merged_count()), (2, 1));
        assert_eq!((both.first_sequence, both.last_sequence), (3, 7));
        assert_eq!((both.ts_event, both.ts_recv), (Nanos(30), Nanos(35)));
    }

    #[test]
    fn a_state_without_a_change_adds_nothing_to_changes() {
        let one = MergedChanges::one(at(3));
        assert_eq!(one.and(MergedChanges::none(at(9))), one);
        assert_eq!(MergedChanges::none(at(1)).and(one), one);
        assert_eq!(MergedChanges::none(at(1)).merged_count(), 0);
    }

    #[test]
    fn the_count_of_merged_changes_stops_at_its_highest() {
        let many = MergedChanges { change_count: u32::MAX, ..MergedChanges::one(at(1)) };
        assert_eq!(many.and(MergedChanges::one(at(2))).change_count, u32::MAX);
    }

    #[test]
    fn an_entry_fits_three_cache_lines() {
        assert!(size_of::<Entry>() <= 192, "{} bytes", size_of::<Entry>());
        assert!(size_of::<Bbo>() <= 40);
    }
}
