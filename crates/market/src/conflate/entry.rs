//! What goes through both stages of conflation: one change, or several that were merged.

use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

use crate::update::{TradeFlags, TradingState, Update, Venue};

/// What a change is of. Each kind of an instrument is wanted, kept and merged for itself.
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
    /// How many there are.
    pub const COUNT: usize = 6;
    /// All, in the order of their numbers.
    pub const ALL: [Kind; Kind::COUNT] =
        [Kind::Bbo, Kind::Book, Kind::Statistics, Kind::Status, Kind::Trades, Kind::Orders];

    /// True where a newer one says all that an older one said, so that they can be merged.
    #[must_use]
    pub const fn is_state(self) -> bool {
        !matches!(self, Kind::Trades | Kind::Orders)
    }

    /// True where changes may wait for the timer. A status never does.
    #[must_use]
    pub const fn may_wait(self) -> bool {
        matches!(self, Kind::Bbo | Kind::Book | Kind::Statistics)
    }
}

/// The best bid and offer. A side without a quote has size zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bbo {
    /// The bid, in 10^-9.
    pub bid_px: Price,
    /// What is bid for.
    pub bid_sz: Qty,
    /// The offer, in 10^-9.
    pub ask_px: Price,
    /// What is offered.
    pub ask_sz: Qty,
}

/// How an instrument trades, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// How.
    pub state: TradingState,
    /// Why, in the feed's own code, padded with spaces.
    pub reason: [u8; 4],
}

/// A trade or the break of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// At, in 10^-9.
    pub price: Price,
    /// So much.
    pub size: Qty,
    /// The feed's number of it; zero when it has none.
    pub match_id: u64,
    /// Where.
    pub venue: Venue,
    /// The side that took liquidity, where the feed says.
    pub aggressor: Option<Side>,
    /// What it counts for.
    pub flags: TradeFlags,
    /// It undoes the trade of this number.
    pub is_break: bool,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The best bid and offer is this.
    Bbo(Bbo),
    /// The levels changed: read them from the book when the message is written.
    Book,
    /// The statistics changed: read them when the message is written.
    Statistics,
    /// The trading state is this.
    Status(Status),
    /// A trade.
    Trade(Trade),
    /// A change of one order.
    Order(Update),
    /// Changes of orders follow from here: read all orders when the message is written.
    OrdersSnapshot,
    /// So many messages of this kind were lost as [`Merged::change_count`] says, of the sequence
    /// numbers that it says: a queue was full.
    Gap(Kind),
}

impl Body {
    /// What it is of.
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

/// Where and when a change came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The source's number of it.
    pub sequence: u64,
    /// When it happened by the source's clock.
    pub ts_event: Nanos,
    /// When it was received.
    pub ts_recv: Nanos,
}

/// The changes that an entry stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many: 1 when nothing was merged, 0 for a state that was told because somebody asked.
    /// Stays at its highest value when there are more.
    pub change_count: u32,
    /// The source's number of the oldest.
    pub first_sequence: u64,
    /// The source's number of the newest.
    pub last_sequence: u64,
    /// When the oldest happened by the source's clock: the age of what is said, with
    /// [`Merged::ts_recv`]. No measure of age where `change_count` is zero.
    pub ts_event: Nanos,
    /// When the oldest was received.
    pub ts_recv: Nanos,
}

impl Merged {
    /// One change.
    #[must_use]
    pub const fn one(stamp: Stamp) -> Merged {
        Merged { change_count: 1, ..Merged::none(stamp) }
    }

    /// A state without a change.
    #[must_use]
    pub const fn none(stamp: Stamp) -> Merged {
        Merged {
            change_count: 0,
            first_sequence: stamp.sequence,
            last_sequence: stamp.sequence,
            ts_event: stamp.ts_event,
            ts_recv: stamp.ts_recv,
        }
    }

    /// These and then those.
    #[must_use]
    pub fn and(self, later: Merged) -> Merged {
        match (self.change_count, later.change_count) {
            (0, _) => later,
            (_, 0) => self,
            (before, after) => Merged {
                change_count: before.saturating_add(after),
                last_sequence: later.last_sequence,
                ..self
            },
        }
    }

    /// How many changes nobody was told of for themselves.
    #[must_use]
    pub const fn merged_count(&self) -> u32 {
        self.change_count.saturating_sub(1)
    }
}

/// What goes through the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The state was asked for: the first that a new subscription gets of an instrument.
    pub is_snapshot: bool,
    /// The changes that it stands for.
    pub merged: Merged,
    /// What it says.
    pub body: Body,
}

impl Entry {
    /// One change of an instrument.
    #[must_use]
    pub const fn change(instrument_id: InstrumentId, stamp: Stamp, body: Body) -> Entry {
        Entry { instrument_id, is_snapshot: false, merged: Merged::one(stamp), body }
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
        let both = Merged::one(at(3)).and(Merged::one(at(7)));
        assert_eq!((both.change_count, both.merged_count()), (2, 1));
        assert_eq!((both.first_sequence, both.last_sequence), (3, 7));
        assert_eq!((both.ts_event, both.ts_recv), (Nanos(30), Nanos(35)));
    }

    #[test]
    fn a_state_without_a_change_adds_nothing_to_changes() {
        let one = Merged::one(at(3));
        assert_eq!(one.and(Merged::none(at(9))), one);
        assert_eq!(Merged::none(at(1)).and(one), one);
        assert_eq!(Merged::none(at(1)).merged_count(), 0);
    }

    #[test]
    fn the_count_of_merged_changes_stops_at_its_highest() {
        let many = Merged { change_count: u32::MAX, ..Merged::one(at(1)) };
        assert_eq!(many.and(Merged::one(at(2))).change_count, u32::MAX);
    }

    #[test]
    fn an_entry_fits_three_cache_lines() {
        assert!(size_of::<Entry>() <= 192, "{} bytes", size_of::<Entry>());
        assert!(size_of::<Bbo>() <= 40);
    }
}
