//! CTS' trades of prior days and summaries of days, as laid out in bytes (see [`super::message`]).

use crate::layout::layouts;

layouts! {
    big;

    /// A trade of a prior day, in whole shares.
    PriorDayTrade {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// The conditions in four categories; a space stands for none.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares.
        trade_volume: u32,
        /// Days until delivery, for a seller's sale.
        sellers_sale_days: u8,
        /// The flag of a guaranteed price (stopped stock).
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Prior day trade seconds.
        prior_day_trade_seconds: u32,
        /// Prior day trade nanoseconds.
        prior_day_trade_nanoseconds: u32,
    }

    /// A trade of a prior day, in fractional shares.
    FractionalPriorDayTrade {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// The conditions in four categories; a space stands for none.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares, with six decimals.
        fractional_trade_volume: u64,
        /// Days until delivery, for a seller's sale.
        sellers_sale_days: u8,
        /// The flag of a guaranteed price (stopped stock).
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Prior day trade seconds.
        prior_day_trade_seconds: u32,
        /// Prior day trade nanoseconds.
        prior_day_trade_nanoseconds: u32,
    }

    /// A correction of a trade of a prior day, in whole shares.
    PriorDayTradeCorrection {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Corrected sale condition.
        corrected_sale_condition: [u8; 4],
        /// Corrected trade price.
        corrected_trade_price: i64,
        /// Corrected trade volume.
        corrected_trade_volume: u32,
        /// Corrected sellers sale days.
        corrected_sellers_sale_days: u8,
        /// Corrected stop stock indicator.
        corrected_stop_stock_indicator: [u8; 1],
        /// Corrected trade through exempt indicator.
        corrected_trade_through_exempt_indicator: [u8; 1],
        /// Corrected short sale restriction indicator.
        corrected_short_sale_restriction_indicator: [u8; 1],
        /// Corrected prior day trade seconds.
        corrected_prior_day_trade_seconds: u32,
        /// Corrected prior day trade nanoseconds.
        corrected_prior_day_trade_nanoseconds: u32,
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Original sale condition.
        original_sale_condition: [u8; 4],
        /// Original trade price.
        original_trade_price: i64,
        /// Original trade volume.
        original_trade_volume: u32,
        /// Original sellers sale days.
        original_sellers_sale_days: u8,
        /// Original stop stock indicator.
        original_stop_stock_indicator: [u8; 1],
        /// Original trade through exempt indicator.
        original_trade_through_exempt_indicator: [u8; 1],
        /// Original short sale restriction indicator.
        original_short_sale_restriction_indicator: [u8; 1],
        /// Original prior day trade seconds.
        original_prior_day_trade_seconds: u32,
        /// Original prior day trade nanoseconds.
        original_prior_day_trade_nanoseconds: u32,
    }

    /// A correction of a trade of a prior day, in fractional shares.
    FractionalPriorDayTradeCorrection {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Corrected sale condition.
        corrected_sale_condition: [u8; 4],
        /// Corrected trade price.
        corrected_trade_price: i64,
        /// Corrected fractional trade volume.
        corrected_fractional_trade_volume: u64,
        /// Corrected sellers sale days.
        corrected_sellers_sale_days: u8,
        /// Corrected stop stock indicator.
        corrected_stop_stock_indicator: [u8; 1],
        /// Corrected trade through exempt indicator.
        corrected_trade_through_exempt_indicator: [u8; 1],
        /// Corrected short sale restriction indicator.
        corrected_short_sale_restriction_indicator: [u8; 1],
        /// Corrected prior day trade seconds.
        corrected_prior_day_trade_seconds: u32,
        /// Corrected prior day trade nanoseconds.
        corrected_prior_day_trade_nanoseconds: u32,
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Original sale condition.
        original_sale_condition: [u8; 4],
        /// Original trade price.
        original_trade_price: i64,
        /// Original fractional trade volume.
        original_fractional_trade_volume: u64,
        /// Original sellers sale days.
        original_sellers_sale_days: u8,
        /// Original stop stock indicator.
        original_stop_stock_indicator: [u8; 1],
        /// Original trade through exempt indicator.
        original_trade_through_exempt_indicator: [u8; 1],
        /// Original short sale restriction indicator.
        original_short_sale_restriction_indicator: [u8; 1],
        /// Original prior day trade seconds.
        original_prior_day_trade_seconds: u32,
        /// Original prior day trade nanoseconds.
        original_prior_day_trade_nanoseconds: u32,
    }

    /// A cancel or error of a trade of a prior day, in whole shares.
    PriorDayTradeCancelError {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// The conditions in four categories; a space stands for none.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares.
        trade_volume: u32,
        /// Days until delivery, for a seller's sale.
        sellers_sale_days: u8,
        /// The flag of a guaranteed price (stopped stock).
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Prior day trade seconds.
        prior_day_trade_seconds: u32,
        /// Prior day trade nanoseconds.
        prior_day_trade_nanoseconds: u32,
        /// `1` for a cancel, `2` for an error.
        cancel_error_action: [u8; 1],
    }

    /// A cancel or error of a trade of a prior day, in fractional shares.
    FractionalPriorDayTradeCancelError {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// The conditions in four categories; a space stands for none.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares, with six decimals.
        fractional_trade_volume: u64,
        /// Days until delivery, for a seller's sale.
        sellers_sale_days: u8,
        /// The flag of a guaranteed price (stopped stock).
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// Prior day trade seconds.
        prior_day_trade_seconds: u32,
        /// Prior day trade nanoseconds.
        prior_day_trade_nanoseconds: u32,
        /// `1` for a cancel, `2` for an error.
        cancel_error_action: [u8; 1],
    }

    /// The summary of a security's previous day.
    ConsolidatedStartOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Summary participant ID.
        summary_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Previous close price.
        previous_close_price: i64,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Number of participants.
        number_of_participants: u8,
    }

    /// The summary of a security's previous day at a venue.
    ParticipantStartOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Summary participant ID.
        summary_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Previous close price.
        previous_close_price: i64,
    }

    /// The summary of a security's day, in whole shares.
    ConsolidatedEndOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Last participant ID.
        last_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Last price.
        last_price: i64,
        /// High price.
        high_price: i64,
        /// Low price.
        low_price: i64,
        /// Total volume.
        total_volume: u64,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Number of participants.
        number_of_participants: u8,
    }

    /// The summary of a security's day, in fractional shares.
    FractionalConsolidatedEndOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Last participant ID.
        last_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Last price.
        last_price: i64,
        /// High price.
        high_price: i64,
        /// Low price.
        low_price: i64,
        /// Fractional total volume.
        fractional_total_volume: u64,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Number of participants.
        number_of_participants: u8,
    }

    /// The summary of a security's day at a venue, in whole shares.
    ParticipantEndOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Summary participant ID.
        summary_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Last price.
        last_price: i64,
        /// High price.
        high_price: i64,
        /// Low price.
        low_price: i64,
        /// Open price.
        open_price: i64,
        /// Total volume.
        total_volume: u64,
        /// Tick.
        tick: [u8; 1],
    }

    /// The summary of a security's day at a venue, in fractional shares.
    FractionalParticipantEndOfDaySummary {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Summary participant ID.
        summary_participant_id: [u8; 1],
        /// Previous close price date.
        previous_close_price_date: u32,
        /// Last price.
        last_price: i64,
        /// High price.
        high_price: i64,
        /// Low price.
        low_price: i64,
        /// Open price.
        open_price: i64,
        /// Fractional total volume.
        fractional_total_volume: u64,
        /// Tick.
        tick: [u8; 1],
    }
}
