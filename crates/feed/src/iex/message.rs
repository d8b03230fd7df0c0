//! The messages of IEX's feeds as laid out in bytes, little-endian.
//!
//! Sources: IEX DEEP Specification 1.08, IEX DEEP+ Specification 1.04, IEX TOPS Specification 1.66.
//! Prices are in 10^-4, times in nanoseconds since the Unix epoch. A message may grow at its end:
//! bytes after the fields known here are ignored.

use crate::FeedError;
use crate::layout::{kinds, layouts};

layouts! {
    little;

    /// A point in the day of the whole market.
    SystemEvent {
        /// The message type.
        message_type: [u8; 1],
        /// `O` start of messages, `S` of system hours, `R` of regular market hours; `M` end of
        /// regular market hours, `E` of system hours, `C` of messages.
        system_event: [u8; 1],
        /// The time of the event.
        timestamp: u64,
    }

    /// A security that trades on the day.
    SecurityDirectory {
        /// The message type.
        message_type: [u8; 1],
        /// 0x80 a test security, 0x40 when issued, 0x20 an exchange-traded product.
        security_directory_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of shares.
        round_lot_size: u32,
        /// The previous day's close, adjusted for corporate actions.
        adjusted_poc_price: i64,
        /// The tier of limit up-limit down: 0 none, 1, 2.
        luld_tier: u8,
    }

    /// The trading status of a security.
    TradingStatus {
        /// The message type.
        message_type: [u8; 1],
        /// `H` halted, `O` orders are accepted after a halt, `P` paused with orders accepted,
        /// `T` trading.
        trading_status: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The reason.
        reason: [u8; 4],
    }

    /// Retail interest beyond the displayed quote.
    RetailLiquidityIndicator {
        /// The message type.
        message_type: [u8; 1],
        /// A space for none, `A` buy, `B` sell, `C` both.
        retail_liquidity_indicator: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
    }

    /// IEX's own halt of a security.
    OperationalHaltStatus {
        /// The message type.
        message_type: [u8; 1],
        /// `O` halted, `N` not.
        operational_halt_status: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
    }

    /// The restriction of short sales (Rule 201).
    ShortSalePriceTestStatus {
        /// The message type.
        message_type: [u8; 1],
        /// 1 when it is in effect, else 0.
        short_sale_price_test_status: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The reason.
        detail: [u8; 1],
    }

    /// The opening or closing of a security is complete.
    SecurityEvent {
        /// The message type.
        message_type: [u8; 1],
        /// `O` opening, `C` closing.
        security_event: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
    }

    /// The resting quantity at a price (DEEP).
    PriceLevelUpdate {
        /// `8` buy, `5` sell.
        message_type: [u8; 1],
        /// 1 at the end of an event, 0 inside it.
        event_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of shares.
        size: u32,
        /// The price.
        price: i64,
    }

    /// The best bid and offer (TOPS).
    QuoteUpdate {
        /// The message type.
        message_type: [u8; 1],
        /// 0x80 not available for trading, 0x40 outside regular market hours.
        quote_update_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// Shares bid; zero for no bid.
        bid_size: u32,
        /// The bid.
        bid_price: i64,
        /// The offer.
        ask_price: i64,
        /// Shares offered; zero for no offer.
        ask_size: u32,
    }

    /// A trade (DEEP, TOPS), or one against an order that is not displayed (DEEP+).
    TradeReport {
        /// The message type.
        message_type: [u8; 1],
        /// 0x80 intermarket sweep, 0x40 extended hours, 0x20 odd lot, 0x10 exempt from the
        /// trade-through rule, 0x08 single-price cross.
        sale_condition_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of shares.
        size: u32,
        /// The price.
        price: i64,
        /// The number of the trade.
        trade_id: u64,
    }

    /// An official opening or closing price.
    OfficialPrice {
        /// The message type.
        message_type: [u8; 1],
        /// `Q` opening, `M` closing.
        price_type: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The price.
        official_price: i64,
    }

    /// The break of a trade of the same day.
    TradeBreak {
        /// The message type.
        message_type: [u8; 1],
        /// The flags of the trade.
        sale_condition_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// Shares of the trade.
        size: u32,
        /// The price of the trade.
        price: i64,
        /// The number of the trade.
        trade_id: u64,
    }

    /// The indicative result of an auction.
    AuctionInformation {
        /// The message type.
        message_type: [u8; 1],
        /// `O` opening, `C` closing, `I` initial offering, `H` halt, `V` volatility.
        auction_type: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// Shares paired at the reference price.
        paired_shares: u32,
        /// The price that clears the most shares inside the quote.
        reference_price: i64,
        /// The price that clears the most shares of the auction and continuous books together.
        indicative_clearing_price: i64,
        /// Unpaired shares at the reference price.
        imbalance_shares: u32,
        /// `B` buy, `S` sell, `N` none.
        imbalance_side: [u8; 1],
        /// Extensions of the auction so far.
        extension_number: u8,
        /// The scheduled time of the auction: seconds since the Unix epoch.
        scheduled_auction_time: u32,
        /// The price that clears the most shares of the auction book alone.
        auction_book_clearing_price: i64,
        /// The price on which the collar is based.
        collar_reference_price: i64,
        /// The lower end of the collar.
        lower_auction_collar: i64,
        /// The upper end of the collar.
        upper_auction_collar: i64,
    }

    /// A new displayed order (DEEP+).
    AddOrder {
        /// The message type.
        message_type: [u8; 1],
        /// `8` buy, `5` sell.
        side: [u8; 1],
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of the order.
        order_id: u64,
        /// The number of shares.
        size: u32,
        /// The price.
        price: i64,
    }

    /// A modification of a displayed order (DEEP+).
    OrderModify {
        /// The message type.
        message_type: [u8; 1],
        /// 0x01 when the order keeps its priority.
        modify_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of the order.
        order_id_reference: u64,
        /// The new number of shares.
        size: u32,
        /// The new price.
        price: i64,
    }

    /// A deletion of a displayed order (DEEP+).
    OrderDelete {
        /// The message type.
        message_type: [u8; 1],
        /// Not used.
        reserved: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of the order.
        order_id_reference: u64,
    }

    /// An execution of a displayed order (DEEP+).
    OrderExecuted {
        /// The message type.
        message_type: [u8; 1],
        /// The flags, as in [`TradeReport`].
        sale_condition_flags: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
        /// The number of the order.
        order_id_reference: u64,
        /// The number of shares traded.
        size: u32,
        /// The price.
        price: i64,
        /// The number of the trade.
        trade_id: u64,
    }

    /// A deletion of all orders of a security (DEEP+).
    ClearBook {
        /// The message type.
        message_type: [u8; 1],
        /// Not used.
        reserved: u8,
        /// The time of the event.
        timestamp: u64,
        /// The symbol of the security.
        symbol: [u8; 8],
    }
}

kinds! {
    /// A message of any of IEX's feeds. A kind is the message's type and a space.
    Message {
        /// `S`.
        SystemEvent = b"S ",
        /// `D`.
        SecurityDirectory = b"D ",
        /// `H`.
        TradingStatus = b"H ",
        /// `I`.
        RetailLiquidityIndicator = b"I ",
        /// `O`.
        OperationalHaltStatus = b"O ",
        /// `P`.
        ShortSalePriceTestStatus = b"P ",
        /// `E`.
        SecurityEvent = b"E ",
        /// `8` and `5`.
        PriceLevelUpdate = b"8 " | b"5 ",
        /// `Q`.
        QuoteUpdate = b"Q ",
        /// `T`.
        TradeReport = b"T ",
        /// `X`.
        OfficialPrice = b"X ",
        /// `B`.
        TradeBreak = b"B ",
        /// `A`.
        AuctionInformation = b"A ",
        /// `a`.
        AddOrder = b"a ",
        /// `M`.
        OrderModify = b"M ",
        /// `R`.
        OrderDelete = b"R ",
        /// `L`.
        OrderExecuted = b"L ",
        /// `C`.
        ClearBook = b"C ",
    }
}
