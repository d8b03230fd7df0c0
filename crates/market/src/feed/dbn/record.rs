//! The records of DBN version 3 as they lie in their bytes, least significant first, as far as
//! they are read here. What a later version or `ts_out` puts behind them is passed over.
//!
//! Source: Databento Binary Encoding, version 3 (crate `dbn` 0.73, modules `record`, `enums`).
//! Prices are in 10^-9, times in nanoseconds since the Unix epoch.

use crate::feed::layout::layouts;

layouts! {
    little;

    /// What every record begins with.
    RecordHeader {
        /// The record's length in words of four bytes, this one included.
        length: u8,
        /// Its type, one of [`rtype`].
        rtype: u8,
        /// Who published it: a venue's dataset.
        publisher_id: u16,
        /// The instrument, by the dataset's number.
        instrument_id: u32,
        /// When it happened by the venue's clock.
        ts_event: u64,
    }

    /// An order (`mbo`).
    Mbo {
        /// The venue's number of it.
        order_id: u64,
        /// Its price; `i64::MAX`: none.
        price: i64,
        /// Its size, or what was taken of it.
        size: u32,
        /// See [`flag`].
        flags: u8,
        /// The venue's channel.
        channel_id: u8,
        /// `A` added, `M` modified, `C` cancelled, `R` all are gone, `T` an incoming order traded,
        /// `F` a resting one, `N` nothing.
        action: u8,
        /// `B`, `A`, or `N` for none.
        side: u8,
        /// When the publisher's datagram came to Databento.
        ts_recv: u64,
    }

    /// A trade (`trades`), and the beginning of a book by levels (`mbp-1`, `tbbo`, `mbp-10`).
    Trade {
        /// Its price, or that of what changed.
        price: i64,
        /// Its size.
        size: u32,
        /// As an order's; `T` for a trade.
        action: u8,
        /// The side of the incoming order, or of what changed.
        side: u8,
        /// See [`flag`].
        flags: u8,
        /// The level that changed.
        depth: u8,
        /// When the publisher's datagram came to Databento.
        ts_recv: u64,
        /// Between the venue's sending and that.
        ts_in_delta: i32,
        /// The venue's number of the message.
        sequence: u32,
    }

    /// A level of both sides; the best where there is one alone.
    BidAsk {
        /// The bid; `i64::MAX`: none.
        bid_px: i64,
        /// The offer.
        ask_px: i64,
        /// Its size.
        bid_sz: u32,
        /// Its size.
        ask_sz: u32,
        /// Its orders.
        bid_ct: u32,
        /// Its orders.
        ask_ct: u32,
    }

    /// How an instrument trades (`status`).
    Status {
        /// When the publisher's datagram came to Databento.
        ts_recv: u64,
        /// See [`trading_state`](super::decode).
        action: u16,
        /// Why.
        reason: u16,
    }

    /// A figure of the day (`statistics`).
    Stat {
        /// When the publisher's datagram came to Databento.
        ts_recv: u64,
        /// What time it is about.
        ts_ref: u64,
        /// Its price; `i64::MAX`: none.
        price: i64,
        /// Its quantity.
        quantity: i64,
        /// The venue's number of the message.
        sequence: u32,
        /// Between the venue's sending and `ts_recv`.
        ts_in_delta: i32,
        /// Which: 1 opening price, 4 lowest, 5 highest, 11 closing price; others are not read.
        stat_type: u16,
        /// The venue's channel.
        channel_id: u16,
        /// 1 new, 2 taken back.
        update_action: u8,
    }

    /// What an instrument is (`definition`), as far as it is read.
    InstrumentDef {
        /// Times, prices and sizes before the lot.
        before_lot: [u8; 152],
        /// Shares of a round lot.
        min_lot_size_round_lot: i32,
        /// Numbers and dates between the lot and the name.
        before_symbol: [u8; 66],
        /// The venue's name of it, ending with a zero.
        raw_symbol: [u8; 71],
    }

    /// Which number stands for which symbol.
    SymbolMapping {
        /// Of which kind the symbol is that was asked for.
        stype_in: u8,
        /// The symbol that was asked for, ending with a zero.
        stype_in_symbol: [u8; 71],
        /// Of which kind the symbol is that it stands for.
        stype_out: u8,
        /// The symbol that it stands for, ending with a zero.
        stype_out_symbol: [u8; 71],
        /// From when on.
        start_ts: u64,
        /// Until when.
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
    /// How an instrument trades.
    pub const STATUS: u8 = 0x12;
    /// What an instrument is.
    pub const INSTRUMENT_DEF: u8 = 0x13;
    /// Which number stands for which symbol.
    pub const SYMBOL_MAPPING: u8 = 0x16;
    /// A figure of the day.
    pub const STATISTICS: u8 = 0x18;
    /// An order.
    pub const MBO: u8 = 0xa0;
    /// The best bid and offer each second.
    pub const BBO_1S: u8 = 0xc3;
    /// The best bid and offer each minute.
    pub const BBO_1M: u8 = 0xc4;

    /// Types that are known and say nothing of a book: bars, imbalances, errors and words of the
    /// sender, and what several publishers come to.
    pub const PASSED_OVER: [u8; 13] =
        [0x11, 0x14, 0x15, 0x17, 0x20, 0x21, 0x22, 0x23, 0x24, 0xb1, 0xc0, 0xc1, 0xc2];
}

/// Flags of records.
pub mod flag {
    /// The best of a side and no order.
    pub const TOB: u8 = 1 << 6;
    /// A level and no order.
    pub const MBP: u8 = 1 << 4;
    /// The sender has lost some of what came before.
    pub const MAYBE_BAD_BOOK: u8 = 1 << 2;
}

/// No price.
pub const UNDEF_PRICE: i64 = i64::MAX;
/// Levels of a record of [`rtype::MBP_10`].
pub const LEVELS: usize = 10;
