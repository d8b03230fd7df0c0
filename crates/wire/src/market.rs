//! Market data: the messages of subscribers and those to them.
//!
//! `docs/protocols/market-data.md` specifies their meaning. Prices are mantissas with the exponent
//! of [`MarketInstrument`].

use core::fmt;

use weir_types::{
    AnySide, Cash, FeedState, InstrumentId, MarketContent, MarketPolicy, Nanos, OrderAction,
    PhaseCause, Price, Qty, Reason, SessionId, Side, TradingState,
};

use crate::field::{Field, write_flags};
use crate::message::messages;

/// The longest pattern of a subscription in bytes: a symbol and a star.
pub const PATTERN_LEN_MAX: usize = 25;
/// The longest symbol in bytes.
pub const MARKET_SYMBOL_LEN_MAX: usize = 24;
/// The most levels or orders in one message; further ones follow in the next message.
pub const MARKET_GROUP_COUNT_MAX: usize = 1_000;

/// Flags of a message of market data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarketFlags(pub u8);

impl MarketFlags {
    /// The message is a snapshot: the first that a subscription gets of an instrument.
    pub const SNAPSHOT: MarketFlags = MarketFlags(1);
    /// Messages of the source are lost: the data may be wrong until the feed is live again.
    pub const STALE: MarketFlags = MarketFlags(2);
    /// The next message continues this one.
    pub const MORE: MarketFlags = MarketFlags(4);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: MarketFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets of flags.
    #[must_use]
    pub const fn with(self, other: MarketFlags) -> MarketFlags {
        MarketFlags(self.0 | other.0)
    }
}

impl Field for MarketFlags {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "marketFlags";

    fn from_wire(wire: u8) -> Option<Self> {
        (wire & !7 == 0).then_some(MarketFlags(wire))
    }

    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: &[&str] = &["snapshot", "stale", "more"];
        write_flags(self.0, NAMES, f)
    }
}

/// The statistics that a trade counts for, and its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradeConditions(pub u8);

impl TradeConditions {
    /// Does not change the last price.
    pub const NOT_LAST: TradeConditions = TradeConditions(1);
    /// Does not change the highest and lowest.
    pub const NOT_HIGH_LOW: TradeConditions = TradeConditions(2);
    /// Does not count for the volume.
    pub const NOT_VOLUME: TradeConditions = TradeConditions(4);
    /// An auction trade.
    pub const AUCTION: TradeConditions = TradeConditions(8);
    /// A trade before the market opened or after it closed.
    pub const EXTENDED_HOURS: TradeConditions = TradeConditions(16);
    /// A trade of fewer shares than a round lot.
    pub const ODD_LOT: TradeConditions = TradeConditions(32);
    /// The trade of this number is cancelled.
    pub const BROKEN: TradeConditions = TradeConditions(64);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: TradeConditions) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets of flags.
    #[must_use]
    pub const fn with(self, other: TradeConditions) -> TradeConditions {
        TradeConditions(self.0 | other.0)
    }
}

impl Field for TradeConditions {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "tradeConditions";

    fn from_wire(wire: u8) -> Option<Self> {
        (wire & !127 == 0).then_some(TradeConditions(wire))
    }

    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: &[&str] =
            &["notLast", "notHighLow", "notVolume", "auction", "extendedHours", "oddLot", "broken"];
        write_flags(self.0, NAMES, f)
    }
}

/// Flags of the statistics: the prices that exist, and the message's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsFlags(pub u8);

impl StatisticsFlags {
    /// The message is a snapshot.
    pub const SNAPSHOT: StatisticsFlags = StatisticsFlags(1);
    /// Messages of the source are lost: the data may be wrong.
    pub const STALE: StatisticsFlags = StatisticsFlags(2);
    /// There is a first price.
    pub const OPEN: StatisticsFlags = StatisticsFlags(4);
    /// There is a highest price.
    pub const HIGH: StatisticsFlags = StatisticsFlags(8);
    /// There is a lowest price.
    pub const LOW: StatisticsFlags = StatisticsFlags(16);
    /// There is a last price.
    pub const LAST: StatisticsFlags = StatisticsFlags(32);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: StatisticsFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets of flags.
    #[must_use]
    pub const fn with(self, other: StatisticsFlags) -> StatisticsFlags {
        StatisticsFlags(self.0 | other.0)
    }
}

impl Field for StatisticsFlags {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "statisticsFlags";

    fn from_wire(wire: u8) -> Option<Self> {
        (wire & !63 == 0).then_some(StatisticsFlags(wire))
    }

    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: &[&str] = &["snapshot", "stale", "open", "high", "low", "last"];
        write_flags(self.0, NAMES, f)
    }
}

/// The reason of a trading state: the source's own code, padded with spaces; any bytes are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusReason(pub [u8; 4]);

impl Field for StatusReason {
    type Wire = [u8; 4];
    const SCHEMA_TYPE: &'static str = "statusReason";

    fn from_wire(wire: [u8; 4]) -> Option<Self> {
        Some(StatusReason(wire))
    }

    fn to_wire(self) -> [u8; 4] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|byte| !matches!(byte, b' ' | 0)).map_or(0, |at| at + 1);
        for byte in &self.0[..end] {
            let is_plain = byte.is_ascii_graphic() || *byte == b' ';
            fmt::Write::write_char(f, if is_plain { *byte as char } else { '?' })?;
        }
        Ok(())
    }
}

messages! {
    /// Subscribes to market data. The instruments follow as a data field: a symbol, a symbol's
    /// prefix and a star, or a star for all.
    SubscribeMarket = 110 {
        /// The distance from the last price sent, in 10^-9, from which a quote is urgent and does
        /// not wait for the interval; zero switches this criterion off.
        urgent_move: u64,
        /// The least time between two messages of an instrument unless one is urgent; zero: no
        /// conflation by time, only by back-pressure.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// The handle that the session gives the subscription.
        handle: u32,
        /// As `urgent_move`, in millionths of the last price sent; zero switches it off.
        urgent_move_ppm: u32,
        /// The limit of queued messages, in addition to one per instrument; zero for the gateway's
        /// own limit.
        queue_len_max: u32,
        /// Levels of each side, for depth only; else zero.
        depth: u16,
        /// The content: quotes, depth, trades, ...
        content: MarketContent,
        /// The policy for a subscriber that does not keep up.
        policy: MarketPolicy,
    }

    /// Ends a subscription to market data. Nothing of it comes after the answer.
    UnsubscribeMarket = 111 {
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
    }

    /// Changes the interval of a subscription to market data.
    SetMarketInterval = 112 {
        /// The least time between two messages of an instrument unless one is urgent.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
    }

    /// A subscription to market data is active, or its change is in force.
    MarketSubscribed = 113 {
        /// Its interval.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The limit of queued messages.
        queue_len_max: u32,
    }

    /// A subscription to market data has ended, or was refused.
    MarketEnded = 114 {
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The reason.
        reason: Reason,
        /// For `TooManySessionSlots` and `TooManySlots`, the slots that there would be with the
        /// subscription; else zero.
        slots_needed: u32,
        /// For these, the most slots that there may be; else zero.
        slots_max: u32,
    }

    /// An instrument, sent before the first message that refers to it. Its symbol follows as a data
    /// field.
    MarketInstrument = 115 {
        /// Shares of a round lot; zero if the source does not provide it.
        round_lot: Qty,
        /// The previous day's closing price; zero if the source does not provide it.
        previous_close: Price,
        /// The session.
        session_id: SessionId,
        /// The instrument's number, until a later `MarketInstrument` replaces it.
        instrument_id: InstrumentId,
        /// The decimal exponent of all its prices.
        price_exponent: i8,
    }

    /// The state of a source's channel: sent after logon and on each change.
    MarketChannel = 116 {
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The channel.
        channel: u32,
        /// The channel's state.
        state: FeedState,
    }

    /// The best bid and offer. A side without a quote has quantity zero.
    MarketQuote = 117 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The bid.
        bid_px: Price,
        /// The bid's size.
        bid_size: Qty,
        /// The offer.
        ask_px: Price,
        /// The offer's size.
        ask_size: Qty,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The number of changes merged into it: 1 for a single change, 0 for a snapshot.
        change_count: u32,
        /// The message's flags.
        flags: MarketFlags,
    }

    /// The current levels of a book; a group of [`MarketLevel`] follows, bids first, each side from
    /// the best level on. It replaces all levels sent before.
    MarketLevels = 118 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The number of changes merged into it: 1 for a single change, 0 for a snapshot.
        change_count: u32,
        /// The message's flags.
        flags: MarketFlags,
    }

    /// An entry of a group: a price level of a book.
    MarketLevel = 0 {
        /// The price.
        price: Price,
        /// The quantity resting at the price.
        size: Qty,
        /// The number of orders resting at the price; zero if the source does not provide it.
        order_count: u32,
        /// The side.
        side: Side,
    }

    /// The statistics of an instrument's day. The volume-weighted average price is the turnover
    /// divided by the volume.
    MarketStatistics = 119 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The first price.
        open_px: Price,
        /// The highest.
        high_px: Price,
        /// The lowest.
        low_px: Price,
        /// The last.
        last_px: Price,
        /// The quantity traded.
        volume: Qty,
        /// The sum of price times quantity over the trades.
        turnover: Cash,
        /// The number of trades.
        trade_count: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The number of changes merged into it: 1 for a single change, 0 for a snapshot.
        change_count: u32,
        /// The prices that exist, and the message's flags.
        flags: StatisticsFlags,
    }

    /// The trading state of an instrument.
    MarketStatus = 120 from 62 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The number of changes merged into it: 1 for a single change, 0 for a snapshot.
        change_count: u32,
        /// The reason, as the source's own code.
        status_reason: StatusReason,
        /// The trading state.
        state: TradingState,
        /// The message's flags.
        flags: MarketFlags,
        /// The cause of the state, where the source is a Weir node; else unknown.
        cause: PhaseCause,
    }

    /// A trade, or the cancellation of one.
    MarketTrade = 121 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The trade's price.
        last_px: Price,
        /// The trade's quantity.
        last_qty: Qty,
        /// The source's trade number; zero for none.
        match_id: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The venue, by the source's own letter; zero for a source of one venue.
        venue: u8,
        /// The side that took liquidity.
        aggressor: AnySide,
        /// The statistics it counts for, and its kind.
        conditions: TradeConditions,
        /// The message's flags.
        flags: MarketFlags,
    }

    /// A change of one order of a book.
    MarketOrder = 122 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The source's order number.
        order_id: u64,
        /// For a replace, the number of the new order; else zero.
        new_order_id: u64,
        /// The order's price; for an execution, the trade's price if it differs from the order's,
        /// else zero.
        price: Price,
        /// The quantity that rests, traded or was removed.
        size: Qty,
        /// For an execution, the source's trade number; else zero.
        match_id: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The kind of change.
        action: OrderAction,
        /// The side of an added order.
        side: AnySide,
        /// The message's flags.
        flags: MarketFlags,
    }

    /// All orders of a book as a snapshot; changes follow from here. A group of
    /// [`MarketRestingOrder`] follows, bids first, each side in the order of execution priority.
    MarketOrders = 123 {
        /// The source's sequence number of the oldest change in the message.
        first_sequence: u64,
        /// The source's sequence number of the newest change.
        last_sequence: u64,
        /// The source's time of the oldest change.
        event_time: Nanos,
        /// The time at which the oldest change was received.
        receive_time: Nanos,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The message's flags.
        flags: MarketFlags,
    }

    /// An entry of a group: an order that rests in a book.
    MarketRestingOrder = 0 {
        /// The source's order number.
        order_id: u64,
        /// Its price.
        price: Price,
        /// The quantity that rests.
        size: Qty,
        /// Its side.
        side: Side,
    }

    /// Messages of a subscription are lost: its queue was full.
    MarketGap = 124 {
        /// The number of lost messages.
        lost_count: u64,
        /// The source's sequence number of the first.
        first_sequence: u64,
        /// The source's sequence number of the last.
        last_sequence: u64,
        /// The time at which the node wrote this message.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
    }
}
