//! Market data: subscriptions, and what they are told.
//!
//! What the messages mean is told in `docs/protocols/market-data.md`. Prices are mantissas of the
//! exponent that [`MarketInstrument`] says.

use core::fmt;

use weir_types::{
    AnySide, Cash, FeedState, InstrumentId, MarketContent, MarketPolicy, Nanos, OrderAction, Price,
    Qty, Reason, SessionId, Side, TradingState,
};

use crate::field::{Field, write_flags};
use crate::message::messages;

/// The longest pattern of a subscription in bytes: a symbol and a star.
pub const PATTERN_LEN_MAX: usize = 25;
/// The longest symbol in bytes.
pub const MARKET_SYMBOL_LEN_MAX: usize = 24;
/// The most levels or orders in one message: what there is beyond goes on in the next.
pub const MARKET_GROUP_COUNT_MAX: usize = 1_000;

/// Flags of a message of market data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarketFlags(pub u8);

impl MarketFlags {
    /// The state was asked for, not changed: the first that a subscription gets of an instrument.
    pub const SNAPSHOT: MarketFlags = MarketFlags(1);
    /// Messages of the source are lost: what is said may be wrong until the feed is live.
    pub const STALE: MarketFlags = MarketFlags(2);
    /// The next message goes on with the same.
    pub const MORE: MarketFlags = MarketFlags(4);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: MarketFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
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

/// What a trade counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TradeConditions(pub u8);

impl TradeConditions {
    /// Does not change the last price.
    pub const NOT_LAST: TradeConditions = TradeConditions(1);
    /// Does not change the highest and lowest.
    pub const NOT_HIGH_LOW: TradeConditions = TradeConditions(2);
    /// Does not count for the volume.
    pub const NOT_VOLUME: TradeConditions = TradeConditions(4);
    /// An auction's.
    pub const AUCTION: TradeConditions = TradeConditions(8);
    /// Before the market opened, or after it closed.
    pub const EXTENDED_HOURS: TradeConditions = TradeConditions(16);
    /// Of fewer shares than a round lot.
    pub const ODD_LOT: TradeConditions = TradeConditions(32);
    /// The trade of this number is undone.
    pub const BROKEN: TradeConditions = TradeConditions(64);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: TradeConditions) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
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

/// Which statistics there are, and how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsFlags(pub u8);

impl StatisticsFlags {
    /// The state was asked for, not changed.
    pub const SNAPSHOT: StatisticsFlags = StatisticsFlags(1);
    /// Messages of the source are lost: what is said may be wrong.
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

    /// These and those.
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

/// Why an instrument does not trade: the source's own code, padded with spaces; any bytes are one.
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
    /// Subscribes to market data. Which instruments follows as a data field: a symbol, the
    /// beginning of symbols and a star, or a star for all.
    SubscribeMarket = 110 {
        /// How far a price has to be from the one last sent, in 10^-9, for a quote not to wait for
        /// the interval; zero: not judged so.
        urgent_move: u64,
        /// The least time between two messages of an instrument where nothing is urgent; zero: as
        /// often as there is room.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// What the session calls the subscription from now on.
        handle: u32,
        /// The same in millionths of the price last sent; zero: not judged so.
        urgent_move_ppm: u32,
        /// Messages that are queued at most, beside one for each instrument; zero for the gateway's
        /// own limit.
        queue_len_max: u32,
        /// Levels of each side, of depth alone; else zero.
        depth: u16,
        /// What of the instruments.
        content: MarketContent,
        /// What happens when it does not keep up.
        policy: MarketPolicy,
    }

    /// Ends a subscription to market data. Nothing of it comes behind the answer.
    UnsubscribeMarket = 111 {
        /// The session.
        session_id: SessionId,
        /// Which.
        handle: u32,
    }

    /// Gives a subscription to market data another interval, from now on.
    SetMarketInterval = 112 {
        /// The least time between two messages of an instrument where nothing is urgent.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which.
        handle: u32,
    }

    /// A subscription to market data stands, or stands as asked from now on.
    MarketSubscribed = 113 {
        /// Its interval.
        interval: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which.
        handle: u32,
        /// Messages that are queued at most.
        queue_len_max: u32,
    }

    /// A subscription to market data has ended, or was refused.
    MarketEnded = 114 {
        /// The session.
        session_id: SessionId,
        /// Which.
        handle: u32,
        /// Why.
        reason: Reason,
    }

    /// An instrument, before the first message that names it. Its symbol follows as a data field.
    MarketInstrument = 115 {
        /// Shares of a round lot; zero when the source does not say.
        round_lot: Qty,
        /// The price of the day before; zero when the source does not say.
        previous_close: Price,
        /// The session.
        session_id: SessionId,
        /// Its number, until it is said anew.
        instrument_id: InstrumentId,
        /// The decimal exponent of all its prices.
        price_exponent: i8,
    }

    /// How a channel of the source stands: said after logon and when it changes.
    MarketChannel = 116 {
        /// When this was written.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The channel.
        channel: u32,
        /// How it stands.
        state: FeedState,
    }

    /// The best bid and offer. A side without a quote has quantity zero.
    MarketQuote = 117 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The bid.
        bid_px: Price,
        /// What is bid for.
        bid_size: Qty,
        /// The offer.
        ask_px: Price,
        /// What is offered.
        ask_size: Qty,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// Changes that were merged into it: 1 when it stands for one alone, 0 when the state was
        /// asked for.
        change_count: u32,
        /// How it stands.
        flags: MarketFlags,
    }

    /// The levels of a book as they are now; a group of [`MarketLevel`] follows, bids first and
    /// each side from the best on. All that is not in it is gone.
    MarketLevels = 118 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// Changes that were merged into it: 1 when it stands for one alone, 0 when the state was
        /// asked for.
        change_count: u32,
        /// How it stands.
        flags: MarketFlags,
    }

    /// An entry of a group: a price level of a book.
    MarketLevel = 0 {
        /// The price.
        price: Price,
        /// What rests there.
        size: Qty,
        /// Orders that rest there; zero when the source does not say.
        order_count: u32,
        /// The side.
        side: Side,
    }

    /// The statistics of an instrument's day. The volume-weighted average price is the turnover by
    /// the volume.
    MarketStatistics = 119 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The first price.
        open_px: Price,
        /// The highest.
        high_px: Price,
        /// The lowest.
        low_px: Price,
        /// The last.
        last_px: Price,
        /// What traded.
        volume: Qty,
        /// Prices times quantities.
        turnover: Cash,
        /// How many trades.
        trade_count: u64,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// Changes that were merged into it: 1 when it stands for one alone, 0 when the state was
        /// asked for.
        change_count: u32,
        /// Which there are.
        flags: StatisticsFlags,
    }

    /// The trading state of an instrument.
    MarketStatus = 120 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// Changes that were merged into it: 1 when it stands for one alone, 0 when the state was
        /// asked for.
        change_count: u32,
        /// Why, in the source's own code.
        status_reason: StatusReason,
        /// How it trades.
        state: TradingState,
        /// How it stands.
        flags: MarketFlags,
    }

    /// A trade, or that one is undone.
    MarketTrade = 121 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// At.
        last_px: Price,
        /// So much.
        last_qty: Qty,
        /// The source's number of it; zero when it has none.
        match_id: u64,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// Where, by the source's own letter; zero for a source of one venue.
        venue: u8,
        /// The side that took liquidity.
        aggressor: AnySide,
        /// What it counts for.
        conditions: TradeConditions,
        /// How it stands.
        flags: MarketFlags,
    }

    /// A change of one order of a book.
    MarketOrder = 122 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The source's number of it.
        order_id: u64,
        /// Of a replaced order the number of the one that took its place; else zero.
        new_order_id: u64,
        /// Its price; of an execution the trade's where it is not the order's, else zero.
        price: Price,
        /// What rests, traded or was taken away.
        size: Qty,
        /// Of an execution the source's number of the trade; else zero.
        match_id: u64,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// What happened.
        action: OrderAction,
        /// The side of an order that is added.
        side: AnySide,
        /// How it stands.
        flags: MarketFlags,
    }

    /// All orders of a book as they are now: changes follow from here. A group of
    /// [`MarketRestingOrder`] follows, bids first and each side in the order in which they trade.
    MarketOrders = 123 {
        /// The source's number of the oldest change in it.
        first_sequence: u64,
        /// The source's number of the newest.
        last_sequence: u64,
        /// When the oldest happened by the source's clock.
        event_time: Nanos,
        /// When the oldest was received.
        receive_time: Nanos,
        /// When this was written.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
        /// How it stands.
        flags: MarketFlags,
    }

    /// An entry of a group: an order that rests in a book.
    MarketRestingOrder = 0 {
        /// The source's number of it.
        order_id: u64,
        /// Its price.
        price: Price,
        /// What rests of it.
        size: Qty,
        /// Its side.
        side: Side,
    }

    /// Messages of a subscription are lost: its queue was full.
    MarketGap = 124 {
        /// How many.
        lost_count: u64,
        /// The source's number of the first.
        first_sequence: u64,
        /// The source's number of the last.
        last_sequence: u64,
        /// When this was written.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// The instrument.
        instrument_id: InstrumentId,
    }
}
