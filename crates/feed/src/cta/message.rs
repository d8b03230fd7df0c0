//! The messages of CTA's feeds CQS and CTS as laid out in bytes, big-endian.
//!
//! Sources: CQS Output Specification 2.10a, CTS Output Specification 2.11b, and versions 1.91 and
//! 2.9 where they differ. Long prices have six decimals, short ones two; volumes called fractional
//! have six decimals. The modules [`super::quote`], [`super::trade`] and [`super::other_days`] hold
//! the layouts of quotes and trades.

use super::other_days::*;
use super::quote::*;
use super::trade::*;
use crate::FeedError;
use crate::layout::{kinds, layouts};

layouts! {
    big;

    /// The header of every message, after its length.
    MessageHeader {
        /// The category of the message.
        message_category: [u8; 1],
        /// The type of the message within its category.
        message_type: [u8; 1],
        /// The participant (venue) of the message.
        participant_id: [u8; 1],
        /// The time of the venue's message: seconds since the Unix epoch.
        timestamp_1_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_1_nanoseconds: u32,
        /// The number of the message among those of one event.
        message_id: u8,
        /// The transaction number assigned by CTA.
        transaction_id: u32,
        /// The reference number assigned by the venue.
        participant_reference_number: i64,
    }

    /// The price collar of an auction.
    AuctionStatus {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Auction collar reference price.
        auction_collar_reference_price: i64,
        /// Auction collar upper threshold price.
        auction_collar_upper_threshold_price: i64,
        /// Auction collar lower threshold price.
        auction_collar_lower_threshold_price: i64,
        /// Number of extensions.
        number_of_extensions: u8,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
    }

    /// The reference data of a security for the day.
    SymbolReference {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// Prior security symbol.
        prior_security_symbol: [u8; 11],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// Primary listing market previous closing price.
        primary_listing_market_previous_closing_price: i64,
        /// Consolidated closing price.
        consolidated_closing_price: i64,
        /// Round lot size.
        round_lot_size: u16,
        /// Minimum price increment indicator.
        minimum_price_increment_indicator: u8,
        /// The tier of limit up-limit down.
        luld_tier: [u8; 1],
        /// The leverage ratio of the product, with six decimals.
        luld_leverage_ratio: u32,
        /// The flag of a test symbol.
        test: [u8; 1],
        /// The flag of a new issue.
        ipo: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// Halt reason.
        halt_reason: [u8; 1],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
    }

    /// The index values at which the whole market halts.
    MarketWideDeclineLevels {
        /// MWCB level 1.
        mwcb_level_1: i64,
        /// MWCB level 2.
        mwcb_level_2: i64,
        /// MWCB level 3.
        mwcb_level_3: i64,
        /// Not used.
        reserved: [u8; 1],
    }

    /// A halt of the whole market.
    MarketWideStatus {
        /// Market wide circuit breaker level indicator.
        market_wide_circuit_breaker_level_indicator: [u8; 1],
        /// Not used.
        reserved: [u8; 1],
    }

    /// The head of a list of venue volumes, with their number.
    ApproximateVolumes {
        /// Number of participants.
        number_of_participants: u8,
    }

    /// The volume of one venue.
    ParticipantVolume {
        /// The venue.
        participant_id: [u8; 1],
        /// Trade total volume.
        trade_total_volume: u64,
    }

    /// The market's number of trades and their value.
    ApproximateTotals {
        /// Total trades.
        total_trades: u32,
        /// Dollar value.
        dollar_value: u64,
    }

    /// The volumes of the crossing sessions.
    CrossingSessions {
        /// Crossing session I total trades volume.
        crossing_session_i_total_trades_volume: u64,
        /// Crossing session II dollar value.
        crossing_session_ii_dollar_value: u64,
        /// Crossing session II total trades volume.
        crossing_session_ii_total_trades_volume: u64,
    }

    /// The value of an index.
    Index {
        /// Index symbol.
        index_symbol: [u8; 11],
        /// Index value.
        index_value: i64,
    }

    /// The bid and offer of an index.
    IndexQuote {
        /// Index symbol.
        index_symbol: [u8; 11],
        /// Bid index value.
        bid_index_value: i64,
        /// Offer index value.
        offer_index_value: i64,
    }

    /// A point in the day; the header says which.
    Marker {
    }
}

kinds! {
    /// A message after its header. A kind is the message's category and type.
    Message {
        /// `QL`.
        LongQuote = b"QL",
        /// `QS`.
        SpecialLongQuote = b"QS",
        /// `QQ`.
        ShortQuote = b"QQ",
        /// `QQ` with a wide symbol; [`super::parse`] recognises it by its length.
        WideShortQuote = b"Qq",
        /// `QA`, `TA`.
        AuctionStatus = b"QA" | b"TA",
        /// `TL`.
        LongTrade = b"TL",
        /// `TR`.
        FractionalLongTrade = b"TR",
        /// `TT`.
        ShortTrade = b"TT",
        /// `TH`.
        FractionalShortTrade = b"TH",
        /// `TC`.
        TradeCorrection = b"TC",
        /// `TO`.
        FractionalTradeCorrection = b"TO",
        /// `TX`.
        TradeCancelError = b"TX",
        /// `TE`.
        FractionalTradeCancelError = b"TE",
        /// `TS`.
        TradingStatus = b"TS",
        /// `PT`.
        PriorDayTrade = b"PT",
        /// `PR`.
        FractionalPriorDayTrade = b"PR",
        /// `PC`.
        PriorDayTradeCorrection = b"PC",
        /// `PO`.
        FractionalPriorDayTradeCorrection = b"PO",
        /// `PX`.
        PriorDayTradeCancelError = b"PX",
        /// `PE`.
        FractionalPriorDayTradeCancelError = b"PE",
        /// `SA`.
        ConsolidatedStartOfDaySummary = b"SA",
        /// `SB`.
        ParticipantStartOfDaySummary = b"SB",
        /// `SC`.
        ConsolidatedEndOfDaySummary = b"SC",
        /// `ST`.
        FractionalConsolidatedEndOfDaySummary = b"ST",
        /// `SD`.
        ParticipantEndOfDaySummary = b"SD",
        /// `SP`.
        FractionalParticipantEndOfDaySummary = b"SP",
        /// `AS`.
        SymbolReference = b"AS",
        /// `MK`.
        MarketWideDeclineLevels = b"MK",
        /// `ML`.
        MarketWideStatus = b"ML",
        /// `MN`, `MV`.
        ApproximateVolumes = b"MN" | b"MV",
        /// `MO`.
        ApproximateTotals = b"MO",
        /// `MP`.
        CrossingSessions = b"MP",
        /// `II`.
        Index = b"II",
        /// `IQ`.
        IndexQuote = b"IQ",
        /// All of category `C`, and all others of `A`.
        Marker = [b'C', _] | [b'A', _],
    }
}
