//! CTS' trades of the day as laid out in bytes (see [`super::message`]).

use crate::layout::layouts;

layouts! {
    big;

    /// A trade of whole shares.
    LongTrade {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// The flag of a held trade, reported late.
        held_trade_indicator: [u8; 1],
        /// The day's consolidated prices that the trade sets: `A` (none) to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// The day's prices of its venue that the trade sets.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade of fractional shares.
    FractionalLongTrade {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// The flag of a held trade, reported late.
        held_trade_indicator: [u8; 1],
        /// The day's consolidated prices that the trade sets: `A` (none) to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// The day's prices of its venue that the trade sets.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade of whole shares, with narrow fields.
    ShortTrade {
        /// The symbol of the security.
        security_symbol: [u8; 5],
        /// Sale condition 1.
        sale_condition_1: [u8; 1],
        /// Sale condition category.
        sale_condition_category: [u8; 1],
        /// The price.
        trade_price: u16,
        /// Shares.
        trade_volume: u16,
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The day's consolidated prices that the trade sets: `A` (none) to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// The day's prices of its venue that the trade sets.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade of fractional shares, with narrow fields.
    FractionalShortTrade {
        /// The symbol of the security.
        security_symbol: [u8; 5],
        /// Sale condition 1.
        sale_condition_1: [u8; 1],
        /// Sale condition category.
        sale_condition_category: [u8; 1],
        /// The price.
        trade_price: u16,
        /// Shares, with six decimals.
        fractional_trade_volume: u32,
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The day's consolidated prices that the trade sets: `A` (none) to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// The day's prices of its venue that the trade sets.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A correction of a trade of the day, in whole shares.
    TradeCorrection {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// The venue's number of the original trade.
        original_participant_reference_number: i64,
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
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant ID.
        consolidated_last_participant_id: [u8; 1],
        /// Consolidated last price.
        consolidated_last_price: i64,
        /// Consolidated high price.
        consolidated_high_price: i64,
        /// Consolidated low price.
        consolidated_low_price: i64,
        /// Consolidated total volume.
        consolidated_total_volume: u32,
        /// Consolidated tick.
        consolidated_tick: [u8; 1],
        /// Participant previous close price date.
        participant_previous_close_price_date: u32,
        /// Participant last price.
        participant_last_price: i64,
        /// Participant high price.
        participant_high_price: i64,
        /// Participant low price.
        participant_low_price: i64,
        /// Participant open price.
        participant_open_price: i64,
        /// Participant total volume.
        participant_total_volume: u32,
        /// Participant tick.
        participant_tick: [u8; 1],
    }

    /// A correction of a trade of the day, in fractional shares.
    FractionalTradeCorrection {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// The venue's number of the original trade.
        original_participant_reference_number: i64,
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
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant ID.
        consolidated_last_participant_id: [u8; 1],
        /// Consolidated last price.
        consolidated_last_price: i64,
        /// Consolidated high price.
        consolidated_high_price: i64,
        /// Consolidated low price.
        consolidated_low_price: i64,
        /// Consolidated fractional total volume.
        consolidated_fractional_total_volume: u64,
        /// Consolidated tick.
        consolidated_tick: [u8; 1],
        /// Participant previous close price date.
        participant_previous_close_price_date: u32,
        /// Participant last price.
        participant_last_price: i64,
        /// Participant high price.
        participant_high_price: i64,
        /// Participant low price.
        participant_low_price: i64,
        /// Participant open price.
        participant_open_price: i64,
        /// Participant fractional total volume.
        participant_fractional_total_volume: u64,
        /// Participant tick.
        participant_tick: [u8; 1],
    }

    /// A cancel or error of a trade of the day, in whole shares.
    TradeCancelError {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The venue's number of the original trade.
        original_participant_reference_number: i64,
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// `1` for a cancel, `2` for an error.
        cancel_error_action: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant ID.
        consolidated_last_participant_id: [u8; 1],
        /// Consolidated last price.
        consolidated_last_price: i64,
        /// Consolidated high price.
        consolidated_high_price: i64,
        /// Consolidated low price.
        consolidated_low_price: i64,
        /// Consolidated total volume.
        consolidated_total_volume: u32,
        /// Consolidated tick.
        consolidated_tick: [u8; 1],
        /// Participant previous close price date.
        participant_previous_close_price_date: u32,
        /// Participant last price.
        participant_last_price: i64,
        /// Participant high price.
        participant_high_price: i64,
        /// Participant low price.
        participant_low_price: i64,
        /// Participant open price.
        participant_open_price: i64,
        /// Participant total volume.
        participant_total_volume: u32,
        /// Participant tick.
        participant_tick: [u8; 1],
    }

    /// A cancel or error of a trade of the day, in fractional shares.
    FractionalTradeCancelError {
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
        /// The facility that reported a FINRA trade.
        trade_reporting_facility_id: [u8; 1],
        /// The venue's number of the original trade.
        original_participant_reference_number: i64,
        /// The time at FINRA's facility: seconds.
        timestamp_2_seconds: u32,
        /// The nanoseconds of that time.
        timestamp_2_nanoseconds: u32,
        /// `1` for a cancel, `2` for an error.
        cancel_error_action: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant ID.
        consolidated_last_participant_id: [u8; 1],
        /// Consolidated last price.
        consolidated_last_price: i64,
        /// Consolidated high price.
        consolidated_high_price: i64,
        /// Consolidated low price.
        consolidated_low_price: i64,
        /// Consolidated fractional total volume.
        consolidated_fractional_total_volume: u64,
        /// Consolidated tick.
        consolidated_tick: [u8; 1],
        /// Participant previous close price date.
        participant_previous_close_price_date: u32,
        /// Participant last price.
        participant_last_price: i64,
        /// Participant high price.
        participant_high_price: i64,
        /// Participant low price.
        participant_low_price: i64,
        /// Participant open price.
        participant_open_price: i64,
        /// Participant fractional total volume.
        participant_fractional_total_volume: u64,
        /// Participant tick.
        participant_tick: [u8; 1],
    }

    /// The trading status of a security.
    TradingStatus {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Last price.
        last_price: i64,
        /// High indication price upper limit price band.
        high_indication_price_upper_limit_price_band: i64,
        /// Low indication price lower limit price band.
        low_indication_price_lower_limit_price_band: i64,
        /// Buy volume.
        buy_volume: u32,
        /// Sell volume.
        sell_volume: u32,
        /// Security status.
        security_status: [u8; 1],
        /// Halt reason.
        halt_reason: [u8; 1],
        /// The short-sale restriction.
        short_sale_restriction_indicator: [u8; 1],
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// The financial status of the issuer.
        financial_status_indicator: [u8; 1],
        /// LULD indicator.
        luld_indicator: [u8; 1],
    }
}
