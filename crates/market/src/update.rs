//! The one form that every feed's messages take.
//!
//! A codec turns each message into at most a few updates; books, statistics and conflation know
//! nothing else of a feed. An update is a small plain value: it goes through rings by copy.

use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

/// What a message says about one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Whose; zero when it is about the whole channel.
    pub instrument_id: InstrumentId,
    /// The number of the source's message in its channel and session, from 1.
    pub sequence: u64,
    /// When it happened by the venue's clock, since the Unix epoch; for feeds that send the time of
    /// day only, since the midnight of the venue's day unless the codec was told the day.
    pub ts_event: Nanos,
    /// What happened.
    pub action: Action,
}

/// A market centre of a feed that carries several, by the feed's own code: OPRA's, CTA's and UTP's
/// participant letters. Zero for a feed of one venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Venue(pub u8);

/// What happened. Prices are in 10^-9, quantities in the feed's units (shares, contracts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An order rests in the book.
    Add {
        /// The feed's number of it.
        order_id: u64,
        /// Its side.
        side: Side,
        /// Its price.
        price: Price,
        /// Its displayed quantity.
        size: Qty,
    },
    /// A resting order traded. What is left of it stays at its place.
    Execute {
        /// The order.
        order_id: u64,
        /// What traded of it.
        size: Qty,
        /// The trade's price where it is not the order's.
        price: Option<Price>,
        /// The feed's number of the trade; zero when it has none.
        match_id: u64,
        /// False when the trade is reported once more elsewhere (a cross): volume counts once.
        is_printable: bool,
    },
    /// A resting order got smaller by so much without trading.
    Reduce {
        /// The order.
        order_id: u64,
        /// By so much.
        size: Qty,
    },
    /// A resting order is gone.
    Delete {
        /// The order.
        order_id: u64,
    },
    /// An order took the place of another, on the same side, at the end of its price's queue.
    Replace {
        /// The order that is gone.
        order_id: u64,
        /// The order that rests now.
        new_order_id: u64,
        /// Its price.
        price: Price,
        /// Its displayed quantity.
        size: Qty,
    },
    /// A resting order has another price or quantity under the same number.
    Modify {
        /// The order.
        order_id: u64,
        /// Its price now.
        price: Price,
        /// Its displayed quantity now.
        size: Qty,
        /// It keeps its place in the queue; never when its price changed.
        keeps_priority: bool,
    },
    /// A price level of a book by price: what rests there now.
    Level {
        /// The side.
        side: Side,
        /// The price.
        price: Price,
        /// All that rests there; zero removes the level.
        size: Qty,
        /// Orders that rest there; zero when the feed does not say.
        order_count: u32,
        /// The last of a group: only now is the book as it was at one moment.
        is_last: bool,
    },
    /// One venue's best bid and offer; replaces what it was. A side without a quote has size zero.
    Quote {
        /// Whose.
        venue: Venue,
        /// The bid.
        bid_px: Price,
        /// What is bid for.
        bid_sz: Qty,
        /// The offer.
        ask_px: Price,
        /// What is offered.
        ask_sz: Qty,
    },
    /// The best bid and offer over all venues as the feed itself states it.
    Consolidated {
        /// Whose bid it is.
        bid_venue: Venue,
        /// Whose offer it is.
        ask_venue: Venue,
        /// The bid.
        bid_px: Price,
        /// What is bid for.
        bid_sz: Qty,
        /// The offer.
        ask_px: Price,
        /// What is offered.
        ask_sz: Qty,
    },
    /// A trade that is not the execution of an order in the book: hidden, crossed, or of a feed
    /// without orders.
    Trade {
        /// Where.
        venue: Venue,
        /// The side that took liquidity, where the feed says.
        aggressor: Option<Side>,
        /// At.
        price: Price,
        /// So much.
        size: Qty,
        /// The feed's number of it; zero when it has none.
        match_id: u64,
        /// What it counts for.
        flags: TradeFlags,
    },
    /// A trade is undone.
    TradeBreak {
        /// The trade.
        match_id: u64,
        /// What it had traded, where the feed says, else zero.
        size: Qty,
        /// At which price, where the feed says, else zero.
        price: Price,
    },
    /// The instrument trades, or not.
    Status {
        /// How.
        state: TradingState,
        /// Why, in the feed's own code, padded with spaces.
        reason: [u8; 4],
    },
    /// An indication of an auction to come.
    Auction {
        /// Which.
        kind: AuctionKind,
        /// The price at which most would trade; zero when there is none.
        price: Price,
        /// What would trade there.
        paired: Qty,
        /// What would be left over.
        imbalance: Qty,
        /// On which side; `None` when nothing would be.
        side: Option<Side>,
    },
    /// A price of the day.
    DayPrice {
        /// Which.
        kind: PriceKind,
        /// The price.
        price: Price,
    },
    /// All orders and levels of the instrument are gone, or of all when it is about the channel.
    Clear,
    /// The venue's day goes on.
    System(SystemEvent),
}

/// How an instrument trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TradingState {
    /// Continuously.
    Trading,
    /// Quotes only: before it opens again.
    Quoting,
    /// Orders are taken for an auction.
    Auction,
    /// Paused by a rule of volatility.
    Paused,
    /// Halted.
    Halted,
    /// Closed, or not open yet.
    Closed,
}

/// A point in a venue's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemEvent {
    /// The first message of a day.
    StartOfMessages,
    /// Orders are taken.
    StartOfSystemHours,
    /// The market opens.
    StartOfMarketHours,
    /// The market closes.
    EndOfMarketHours,
    /// No orders are taken any more.
    EndOfSystemHours,
    /// The last message of a day.
    EndOfMessages,
}

/// Which auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuctionKind {
    /// The opening.
    Opening,
    /// The closing.
    Closing,
    /// After a halt, an initial offering, or volatility.
    Halt,
}

/// Which price of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceKind {
    /// The official opening price.
    Open,
    /// The official closing price.
    Close,
    /// The highest.
    High,
    /// The lowest.
    Low,
}

/// What a trade counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradeFlags(pub u8);

impl TradeFlags {
    /// Does not change the last price.
    pub const NOT_LAST: TradeFlags = TradeFlags(1);
    /// Does not change the highest and lowest.
    pub const NOT_HIGH_LOW: TradeFlags = TradeFlags(2);
    /// Does not count for the volume.
    pub const NOT_VOLUME: TradeFlags = TradeFlags(4);
    /// An auction's.
    pub const AUCTION: TradeFlags = TradeFlags(8);
    /// Before the market opened, or after it closed.
    pub const EXTENDED_HOURS: TradeFlags = TradeFlags(16);
    /// Of fewer shares than a round lot.
    pub const ODD_LOT: TradeFlags = TradeFlags(32);

    /// These and those.
    #[must_use]
    pub const fn with(self, other: TradeFlags) -> TradeFlags {
        TradeFlags(self.0 | other.0)
    }

    /// True when all of `other` are set.
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
