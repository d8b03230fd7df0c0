//! CTS' trades of the day as they lie in their bytes ([`super::message`]).

use crate::feed::layout::layouts;

layouts! {
    big;

    /// A trade of whole shares.
    LongTrade {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Four categories of conditions, a space for none in each.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares.
        trade_volume: u32,
        /// Days until delivery, of a seller's sale.
        sellers_sale_days: u8,
        /// Whether the price was guaranteed.
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// Whether short sales are restricted.
        short_sale_restriction_indicator: [u8; 1],
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Whether the trade was reported late while held.
        held_trade_indicator: [u8; 1],
        /// Which of the day's consolidated prices it is: `A` none to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// Which of the day's prices of its venue it is.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade.
    FractionalLongTrade {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Four categories of conditions, a space for none in each.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares, with six decimals.
        fractional_trade_volume: u64,
        /// Days until delivery, of a seller's sale.
        sellers_sale_days: u8,
        /// Whether the price was guaranteed.
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// Whether short sales are restricted.
        short_sale_restriction_indicator: [u8; 1],
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Whether the trade was reported late while held.
        held_trade_indicator: [u8; 1],
        /// Which of the day's consolidated prices it is: `A` none to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// Which of the day's prices of its venue it is.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade of whole shares where small numbers do.
    ShortTrade {
        /// The security.
        security_symbol: [u8; 5],
        /// Sale condition 1.
        sale_condition_1: [u8; 1],
        /// Sale condition category.
        sale_condition_category: [u8; 1],
        /// The price.
        trade_price: u16,
        /// Shares.
        trade_volume: u16,
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// Which of the day's consolidated prices it is: `A` none to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// Which of the day's prices of its venue it is.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade where small numbers do.
    FractionalShortTrade {
        /// The security.
        security_symbol: [u8; 5],
        /// Sale condition 1.
        sale_condition_1: [u8; 1],
        /// Sale condition category.
        sale_condition_category: [u8; 1],
        /// The price.
        trade_price: u16,
        /// Shares, with six decimals.
        fractional_trade_volume: u32,
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// Which of the day's consolidated prices it is: `A` none to `H`.
        consolidated_high_low_last_indicator: [u8; 1],
        /// Which of the day's prices of its venue it is.
        participant_open_high_low_last_indicator: [u8; 1],
    }

    /// A trade of the day was another.
    TradeCorrection {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
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
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// The venue's number of the trade.
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
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant id.
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

    /// A trade of the day was another.
    FractionalTradeCorrection {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
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
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// The venue's number of the trade.
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
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant id.
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

    /// A trade of the day was none.
    TradeCancelError {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Four categories of conditions, a space for none in each.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares.
        trade_volume: u32,
        /// Days until delivery, of a seller's sale.
        sellers_sale_days: u8,
        /// Whether the price was guaranteed.
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// The venue's number of the trade.
        original_participant_reference_number: i64,
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// `1` cancelled, `2` an error.
        cancel_error_action: [u8; 1],
        /// Whether short sales are restricted.
        short_sale_restriction_indicator: [u8; 1],
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant id.
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

    /// A trade of the day was none.
    FractionalTradeCancelError {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Four categories of conditions, a space for none in each.
        sale_condition: [u8; 4],
        /// The price.
        trade_price: i64,
        /// Shares, with six decimals.
        fractional_trade_volume: u64,
        /// Days until delivery, of a seller's sale.
        sellers_sale_days: u8,
        /// Whether the price was guaranteed.
        stop_stock_indicator: [u8; 1],
        /// `1` when exempt from the trade-through rule.
        trade_through_exempt_indicator: [u8; 1],
        /// Which facility reported, of FINRA's trades.
        trade_reporting_facility_id: [u8; 1],
        /// The venue's number of the trade.
        original_participant_reference_number: i64,
        /// When FINRA's facility had it: seconds.
        timestamp_2_seconds: u32,
        /// And nanoseconds.
        timestamp_2_nanoseconds: u32,
        /// `1` cancelled, `2` an error.
        cancel_error_action: [u8; 1],
        /// Whether short sales are restricted.
        short_sale_restriction_indicator: [u8; 1],
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Consolidated previous close price date.
        consolidated_previous_close_price_date: u32,
        /// Consolidated last participant id.
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

    /// How a security trades.
    TradingStatus {
        /// The security.
        security_symbol: [u8; 11],
        /// `0` eligible for CTA, else a kind of bond.
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
        /// Whether short sales are restricted.
        short_sale_restriction_indicator: [u8; 1],
        /// Where the security is listed.
        primary_listing_market_participant_id: [u8; 1],
        /// The issuer's standing.
        financial_status_indicator: [u8; 1],
        /// Luld indicator.
        luld_indicator: [u8; 1],
    }
}
