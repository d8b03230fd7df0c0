//! Enumerations of market data: what is asked of it, what it says.

use crate::codes::codes;

codes! {
    /// What a subscription to market data is to.
    MarketContent {
        /// The best bid and offer.
        Bbo = 1,
        /// The best levels of each side.
        Depth = 2,
        /// All levels.
        Levels = 3,
        /// The book order by order.
        Orders = 4,
        /// Trades.
        Trades = 5,
        /// The day's statistics.
        Statistics = 6,
        /// The trading state.
        Status = 7,
    }

    /// What happens to a subscription to market data that does not keep up.
    MarketPolicy {
        /// What was queued comes first, complete; what came when there was no room is missing after
        /// it.
        Keep = 1,
        /// One message for each instrument with the latest state, within the interval at most once.
        Conflate = 2,
        /// What was queued is given up for what is new, and told as a gap.
        SkipAndNotify = 3,
        /// All or nothing: the session is ended.
        Disconnect = 4,
    }

    /// How an instrument trades.
    TradingState {
        /// Continuously.
        Trading = 1,
        /// Quotes only: before it opens again.
        Quoting = 2,
        /// Orders are taken for an auction.
        Auction = 3,
        /// Paused by a rule of volatility.
        Paused = 4,
        /// Halted.
        Halted = 5,
        /// Closed, or not open yet.
        Closed = 6,
    }

    /// How a channel of a feed stands.
    FeedState {
        /// Nothing was heard of it.
        Waiting = 1,
        /// All there is was handed on.
        Live = 2,
        /// Messages are missing, later ones wait.
        Gap = 3,
        /// Messages are lost, newer ones are handed on: books may be wrong.
        Stale = 4,
        /// All that comes waits for a snapshot.
        Recovering = 5,
        /// All of the session was handed on.
        Ended = 6,
    }

    /// What happened to an order of a book.
    OrderAction {
        /// It rests.
        Add = 1,
        /// It traded; what is left stays at its place.
        Execute = 2,
        /// It got smaller by so much.
        Reduce = 3,
        /// It is gone.
        Delete = 4,
        /// Another took its place, at the end of its price's queue.
        Replace = 5,
        /// It has another price or quantity under the same number, at the end of the queue.
        Modify = 6,
        /// It has another quantity under the same number and keeps its place.
        ModifyInPlace = 7,
        /// All orders of the instrument are gone.
        Clear = 8,
    }

    /// A side, where it is known.
    AnySide {
        /// It is not known.
        Unknown = b'0',
        /// Buys.
        Buy = b'1',
        /// Sells.
        Sell = b'2',
    }
}
