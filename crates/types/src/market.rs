//! Enumerations of market data: contents, policies and states.

use crate::codes::codes;

codes! {
    /// The content of a subscription to market data.
    MarketContent {
        /// The best bid and offer.
        Bbo = 1,
        /// The best price levels of each side.
        Depth = 2,
        /// All price levels.
        Levels = 3,
        /// The individual orders of the book.
        Orders = 4,
        /// Trades.
        Trades = 5,
        /// The day's statistics.
        Statistics = 6,
        /// The trading state.
        Status = 7,
    }

    /// The policy for a subscription to market data that does not keep up.
    MarketPolicy {
        /// Queued messages are delivered first and in full; messages that arrived while the queue
        /// was full are dropped.
        Keep = 1,
        /// At most one message per instrument and interval, with the latest state.
        Conflate = 2,
        /// Queued messages are dropped in favour of new ones, and the drop is reported as a gap.
        SkipAndNotify = 3,
        /// No message is dropped: the session is disconnected instead.
        Disconnect = 4,
    }

    /// An instrument's trading state.
    TradingState {
        /// Continuous trading.
        Trading = 1,
        /// Quotes only, before the instrument opens again.
        Quoting = 2,
        /// Orders are collected for an auction.
        Auction = 3,
        /// Paused by a volatility rule.
        Paused = 4,
        /// Halted.
        Halted = 5,
        /// Closed, or not open yet.
        Closed = 6,
    }

    /// The state of a feed's channel.
    FeedState {
        /// Nothing was received yet.
        Waiting = 1,
        /// All messages were passed on.
        Live = 2,
        /// Messages are missing and later ones are held back.
        Gap = 3,
        /// Messages are lost and later ones are passed on: books may be wrong.
        Stale = 4,
        /// All messages are held back until a snapshot arrives.
        Recovering = 5,
        /// All messages of the session were passed on.
        Ended = 6,
    }

    /// The change of an order in a book.
    OrderAction {
        /// The order rests in the book.
        Add = 1,
        /// The order traded; the rest keeps its place.
        Execute = 2,
        /// The order's quantity was reduced by the stated quantity.
        Reduce = 3,
        /// The order left the book.
        Delete = 4,
        /// A new order replaced it, at the end of its price's queue.
        Replace = 5,
        /// The order has a new price or quantity under the same number, at the end of the queue.
        Modify = 6,
        /// The order has a new quantity under the same number and keeps its place.
        ModifyInPlace = 7,
        /// All orders of the instrument left the book.
        Clear = 8,
    }

    /// A side that may be unknown.
    AnySide {
        /// Unknown.
        Unknown = b'0',
        /// Buy.
        Buy = b'1',
        /// Sell.
        Sell = b'2',
    }
}
