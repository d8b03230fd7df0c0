//! Updates: the common form of every feed's messages.
//!
//! A codec turns each message into a few updates; books, statistics and conflation see nothing else
//! of a feed. An update is a small plain value that is copied through rings.

pub use weir_types::TradingState;
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

/// The content of a message for one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The instrument; zero when the update concerns the whole channel.
    pub instrument_id: InstrumentId,
    /// The sequence number of the source's message in its channel and session, from 1.
    pub sequence: u64,
    /// The time of the event by the venue's clock, since the Unix epoch. For feeds that send only
    /// the time of day, it counts from the midnight of the venue's day unless the codec knows the
    /// day.
    pub ts_event: Nanos,
    /// The action.
    pub action: Action,
}

/// A market centre of a feed with several, by the feed's own code: the participant letters of OPRA,
/// CTA and UTP. Zero for a feed of one venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Venue(pub u8);

/// An event of a feed. Prices are in 10^-9, quantities in the feed's units (shares, contracts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new order rests in the book.
    Add {
        /// The feed's number of the order.
        order_id: u64,
        /// The side.
        side: Side,
        /// The price.
        price: Price,
        /// The displayed quantity.
        size: Qty,
    },
    /// A resting order traded. Its remainder keeps its priority.
    Execute {
        /// The order.
        order_id: u64,
        /// The traded quantity.
        size: Qty,
        /// The price of the trade where it differs from the order's.
        price: Option<Price>,
        /// The feed's number of the trade; zero when it has none.
        match_id: u64,
        /// False when the trade is also reported elsewhere (in a cross): its volume counts once.
        is_printable: bool,
    },
    /// A resting order was reduced without trading.
    Reduce {
        /// The order.
        order_id: u64,
        /// The quantity removed.
        size: Qty,
    },
    /// A resting order was deleted.
    Delete {
        /// The order.
        order_id: u64,
    },
    /// A new order replaced another, on the same side, at the end of its price's queue.
    Replace {
        /// The replaced order.
        order_id: u64,
        /// The new order.
        new_order_id: u64,
        /// The new price.
        price: Price,
        /// The new displayed quantity.
        size: Qty,
    },
    /// The price or quantity of a resting order changed; it keeps its number.
    Modify {
        /// The order.
        order_id: u64,
        /// The new price.
        price: Price,
        /// The new displayed quantity.
        size: Qty,
        /// True when it keeps its priority; never when its price changed.
        keeps_priority: bool,
    },
    /// The new state of a price level, in a book by price.
    Level {
        /// The side.
        side: Side,
        /// The price.
        price: Price,
        /// The total resting quantity; zero removes the level.
        size: Qty,
        /// The number of resting orders; zero when the feed does not report it.
        order_count: u32,
        /// True for the last update of a group: only then is the book consistent.
        is_last: bool,
    },
    /// One venue's new best bid and offer. An empty side has size zero.
    Quote {
        /// The venue.
        venue: Venue,
        /// The bid.
        bid_px: Price,
        /// The quantity bid.
        bid_sz: Qty,
        /// The offer.
        ask_px: Price,
        /// The quantity offered.
        ask_sz: Qty,
    },
    /// The best bid and offer over all venues, as stated by the feed itself.
    Consolidated {
        /// The venue of the bid.
        bid_venue: Venue,
        /// The venue of the offer.
        ask_venue: Venue,
        /// The bid.
        bid_px: Price,
        /// The quantity bid.
        bid_sz: Qty,
        /// The offer.
        ask_px: Price,
        /// The quantity offered.
        ask_sz: Qty,
    },
    /// A trade that is not the execution of an order in the book: against a hidden order, in a
    /// cross, or of a feed without orders.
    Trade {
        /// The venue.
        venue: Venue,
        /// The side that took liquidity, where the feed reports it.
        aggressor: Option<Side>,
        /// The price.
        price: Price,
        /// The quantity.
        size: Qty,
        /// The feed's number of the trade; zero when it has none.
        match_id: u64,
        /// Flags of the trade: the statistics it does not count for, and its kind.
        flags: TradeFlags,
    },
    /// A trade was broken.
    TradeBreak {
        /// The trade.
        match_id: u64,
        /// The traded quantity where the feed gives it, else zero.
        size: Qty,
        /// The price of the trade where the feed gives it, else zero.
        price: Price,
    },
    /// A change of the instrument's trading state.
    Status {
        /// The new state.
        state: TradingState,
        /// The reason, in the feed's own code, padded with spaces.
        reason: [u8; 4],
        /// The cause, of the feed of a Weir node; else unknown.
        cause: PhaseCause,
    },
    /// The indicative result of a coming auction.
    Auction {
        /// The auction.
        kind: AuctionKind,
        /// The price at which the most would trade; zero for none.
        price: Price,
        /// The quantity that would trade at that price.
        paired: Qty,
        /// The quantity that would be left over.
        imbalance: Qty,
        /// The side of the surplus; `None` without one.
        side: Option<Side>,
    },
    /// An official price of the day.
    DayPrice {
        /// The kind of price.
        kind: PriceKind,
        /// The price.
        price: Price,
    },
    /// All orders and levels of the instrument are gone; of all instruments, when the update
    /// concerns the channel.
    Clear,
    /// A point in the venue's day.
    System(SystemEvent),
}

/// A point in a venue's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemEvent {
    /// The first message of a day.
    StartOfMessages,
    /// Order entry opens.
    StartOfSystemHours,
    /// The market opens.
    StartOfMarketHours,
    /// The market closes.
    EndOfMarketHours,
    /// Order entry closes.
    EndOfSystemHours,
    /// The last message of a day.
    EndOfMessages,
}

/// The kind of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuctionKind {
    /// The opening auction.
    Opening,
    /// The closing auction.
    Closing,
    /// The auction after a halt, of an initial offering, or after a volatility pause.
    Halt,
}

/// The kind of a price of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceKind {
    /// The official opening price.
    Open,
    /// The official closing price.
    Close,
    /// The highest price.
    High,
    /// The lowest price.
    Low,
}

/// Flags of a trade: the statistics it does not count for, and its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradeFlags(pub u8);

impl TradeFlags {
    /// The trade does not change the last price.
    pub const NOT_LAST: TradeFlags = TradeFlags(1);
    /// The trade does not change the highest and lowest price.
    pub const NOT_HIGH_LOW: TradeFlags = TradeFlags(2);
    /// The trade does not count for the volume.
    pub const NOT_VOLUME: TradeFlags = TradeFlags(4);
    /// The trade was made in an auction.
    pub const AUCTION: TradeFlags = TradeFlags(8);
    /// The trade was made before the market opened or after it closed.
    pub const EXTENDED_HOURS: TradeFlags = TradeFlags(16);
    /// The trade was of fewer shares than a round lot.
    pub const ODD_LOT: TradeFlags = TradeFlags(32);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: TradeFlags) -> TradeFlags {
        TradeFlags(self.0 | other.0)
    }

    /// Returns true when all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: TradeFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_fits_two_cache_lines_with_room_for_a_ring() {
        assert!(size_of::<Update>() <= 80, "{} bytes", size_of::<Update>());
    }
}
