//! The records of DBN version 3 as laid out in bytes, little-endian, as far as they are read here.
//! Bytes that a later version or `ts_out` appends are ignored.
//!
//! Source: Databento Binary Encoding, version 3 (crate `dbn` 0.73, modules `record`, `enums`).
//! Prices are in 10^-9, times in nanoseconds since the Unix epoch.

use crate::layout::layouts;

layouts! {
    little;

    /// The header of every record.
    RecordHeader {
        /// The record's length in words of four bytes, including the header.
        length: u8,
        /// Its type, one of [`rtype`].
        rtype: u8,
        /// The publisher: a venue's dataset.
        publisher_id: u16,
        /// The instrument, by the dataset's number.
        instrument_id: u32,
        /// The event time by the venue's clock.
        ts_event: u64,
    }

    /// An order (`mbo`).
    Mbo {
        /// The venue's number of the order.
        order_id: u64,
        /// Its price; `i64::MAX`: none.
        price: i64,
        /// Its size, or the quantity cancelled.
        size: u32,
        /// The flags, of [`flag`].
        flags: u8,
        /// The venue's channel.
        channel_id: u8,
        /// `A` added, `M` modified, `C` cancelled, `R` all cleared, `T` trade of an incoming order,
        /// `F` fill of a resting order, `N` none.
        action: u8,
        /// `B`, `A`, or `N` for none.
        side: u8,
        /// The time at which Databento received the publisher's datagram.
        ts_recv: u64,
    }

    /// A trade (`trades`), and the head of a record of levels (`mbp-1`, `tbbo`, `mbp-10`).
    Trade {
        /// The price of the trade or of the change.
        price: i64,
        /// The size of the trade or of the change.
        size: u32,
        /// The action, as in [`Mbo`]; `T` for a trade.
        action: u8,
        /// The side of the incoming order, or of the change.
        side: u8,
        /// The flags, of [`flag`].
        flags: u8,
        /// The level that changed.
        depth: u8,
        /// The time at which Databento received the publisher's datagram.
        ts_recv: u64,
        /// The time from the venue's sending to `ts_recv`.
        ts_in_delta: i32,
        /// The venue's number of the message.
        sequence: u32,
    }

    /// A level of both sides; the best one in a record with one level.
    BidAsk {
        /// The bid; `i64::MAX`: none.
        bid_px: i64,
        /// The offer.
        ask_px: i64,
        /// The size of the bid.
        bid_sz: u32,
        /// The size of the offer.
        ask_sz: u32,
        /// Orders at the bid.
        bid_ct: u32,
        /// Orders at the offer.
        ask_ct: u32,
    }

    /// The trading status of an instrument (`status`).
    Status {
        /// The time at which Databento received the publisher's datagram.
        ts_recv: u64,
        /// The action, translated by [`trading_state`](super::decode).
        action: u16,
        /// The reason of the status.
        reason: u16,
    }

    /// A statistic of the day (`statistics`).
    Stat {
        /// The time at which Databento received the publisher's datagram.
        ts_recv: u64,
        /// The time that the statistic refers to.
        ts_ref: u64,
        /// Its price; `i64::MAX`: none.
        price: i64,
        /// Its quantity.
        quantity: i64,
        /// The venue's number of the message.
        sequence: u32,
        /// The time from the venue's sending to `ts_recv`.
        ts_in_delta: i32,
        /// The type: 1 opening price, 4 lowest, 5 highest, 11 closing price; others are not read.
        stat_type: u16,
        /// The venue's channel.
        channel_id: u16,
        /// 1 for a new statistic, 2 for a deleted one.
        update_action: u8,
    }

    /// The definition of an instrument (`definition`), as far as it is read.
    InstrumentDef {
        /// Times, prices and sizes ahead of the lot.
        before_lot: [u8; 152],
        /// Shares of a round lot.
        min_lot_size_round_lot: i32,
        /// Numbers and dates between the lot and the symbol.
        before_symbol: [u8; 66],
        /// The venue's symbol, terminated by a zero.
        raw_symbol: [u8; 71],
    }

    /// The mapping of an instrument number to a symbol.
    SymbolMapping {
        /// The type of the requested symbol.
        stype_in: u8,
        /// The requested symbol, terminated by a zero.
        stype_in_symbol: [u8; 71],
        /// The type of the symbol it maps to.
        stype_out: u8,
        /// The symbol it maps to, terminated by a zero.
        stype_out_symbol: [u8; 71],
        /// The start of the mapping.
        start_ts: u64,
        /// The end of the mapping.
        end_ts: u64,
    }
}

/// Types of records.
pub mod rtype {
    /// A trade.
    pub const MBP_0: u8 = 0x00;
    /// The best bid and offer, or a trade with them.
    pub const MBP_1: u8 = 0x01;
    /// Ten levels.
    pub const MBP_10: u8 = 0x0a;
    /// A trading status.
    pub const STATUS: u8 = 0x12;
    /// A definition of an instrument.
    pub const INSTRUMENT_DEF: u8 = 0x13;
    /// A symbol mapping.
    pub const SYMBOL_MAPPING: u8 = 0x16;
    /// A statistic of the day.
    pub const STATISTICS: u8 = 0x18;
    /// An order.
    pub const MBO: u8 = 0xa0;
    /// The best bid and offer each second.
    pub const BBO_1S: u8 = 0xc3;
    /// The best bid and offer each minute.
    pub const BBO_1M: u8 = 0xc4;

    /// Types that are known and ignored, because they update no book: bars, imbalances, errors and
    /// system messages of the sender, and consolidations of several publishers.
    pub const PASSED_OVER: [u8; 13] =
        [0x11, 0x14, 0x15, 0x17, 0x20, 0x21, 0x22, 0x23, 0x24, 0xb1, 0xc0, 0xc1, 0xc2];
}

/// Flags of records.
pub mod flag {
    /// The best of a side, not an order.
    pub const TOB: u8 = 1 << 6;
    /// A level, not an order.
    pub const MBP: u8 = 1 << 4;
    /// The sender has lost earlier messages.
    pub const MAYBE_BAD_BOOK: u8 = 1 << 2;
}

/// No price.
pub const UNDEF_PRICE: i64 = i64::MAX;
/// Levels of a record of [`rtype::MBP_10`].
pub const LEVELS: usize = 10;
