//! CQS' quotes as laid out in bytes (see [`super::message`]).

use crate::layout::layouts;

layouts! {
    big;

    /// A venue's quote, with full-width fields.
    LongQuote {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Quote condition.
        quote_condition: [u8; 1],
        /// Security status indicator.
        security_status_indicator: [u8; 1],
        /// Bid price.
        bid_price: i64,
        /// Bid size.
        bid_size: u32,
        /// Offer price.
        offer_price: i64,
        /// Offer size.
        offer_size: u32,
        /// Retail interest indicator.
        retail_interest_indicator: [u8; 1],
        /// Settlement condition.
        settlement_condition: [u8; 1],
        /// Market condition.
        market_condition: [u8; 1],
        /// FINRA market maker ID.
        finra_market_maker_id: [u8; 4],
        /// FINRA BBO indicator.
        finra_bbo_indicator: [u8; 1],
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
        /// SIP generated message identifier.
        sip_generated_message_identifier: [u8; 1],
        /// LULD indicator.
        luld_indicator: [u8; 1],
        /// National BBO LULD indicator.
        national_bbo_luld_indicator: [u8; 1],
        /// National BBO indicator.
        national_bbo_indicator: [u8; 1],
    }

    /// A quote of FINRA's facility with the best bid and offer among its members.
    SpecialLongQuote {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// `0` for a security eligible for CTA, else a kind of bond.
        instrument_type: [u8; 1],
        /// Quote condition.
        quote_condition: [u8; 1],
        /// Security status indicator.
        security_status_indicator: [u8; 1],
        /// Bid price.
        bid_price: i64,
        /// Bid size.
        bid_size: u32,
        /// Offer price.
        offer_price: i64,
        /// Offer size.
        offer_size: u32,
        /// Retail interest indicator.
        retail_interest_indicator: [u8; 1],
        /// Settlement condition.
        settlement_condition: [u8; 1],
        /// Market condition.
        market_condition: [u8; 1],
        /// FINRA market maker ID.
        finra_market_maker_id: [u8; 4],
        /// FINRA best bid quote condition.
        finra_best_bid_quote_condition: [u8; 1],
        /// FINRA best bid price.
        finra_best_bid_price: i64,
        /// FINRA best bid size.
        finra_best_bid_size: u32,
        /// FINRA best bid market maker ID.
        finra_best_bid_market_maker_id: [u8; 4],
        /// FINRA best offer quote condition.
        finra_best_offer_quote_condition: [u8; 1],
        /// FINRA best offer price.
        finra_best_offer_price: i64,
        /// FINRA best offer size.
        finra_best_offer_size: u32,
        /// FINRA best offer market maker ID.
        finra_best_offer_market_maker_id: [u8; 4],
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
        /// SIP generated message identifier.
        sip_generated_message_identifier: [u8; 1],
        /// FINRA BBO LULD indicator.
        finra_bbo_luld_indicator: [u8; 1],
        /// National BBO LULD indicator.
        national_bbo_luld_indicator: [u8; 1],
        /// National BBO indicator.
        national_bbo_indicator: [u8; 1],
    }

    /// A venue's quote, with narrow fields.
    ShortQuote {
        /// The symbol of the security.
        security_symbol: [u8; 5],
        /// Bid price.
        bid_price: u16,
        /// Bid size.
        bid_size: u16,
        /// Offer price.
        offer_price: u16,
        /// Offer size.
        offer_size: u16,
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// National BBO indicator.
        national_bbo_indicator: [u8; 1],
    }

    /// A short quote with a wide symbol.
    WideShortQuote {
        /// The symbol of the security.
        security_symbol: [u8; 11],
        /// Bid price.
        bid_price: u16,
        /// Bid size.
        bid_size: u16,
        /// Offer price.
        offer_price: u16,
        /// Offer size.
        offer_size: u16,
        /// The primary listing market.
        primary_listing_market_participant_id: [u8; 1],
        /// National BBO indicator.
        national_bbo_indicator: [u8; 1],
    }

    /// The best of one side, appended to a quote.
    LongAppendage {
        /// Best participant ID.
        best_participant_id: [u8; 1],
        /// Best quote condition.
        best_quote_condition: [u8; 1],
        /// Best price.
        best_price: i64,
        /// Best size.
        best_size: u32,
        /// FINRA best market maker ID.
        finra_best_market_maker_id: [u8; 4],
    }

    /// The best of one side, with narrow fields.
    ShortAppendage {
        /// Best participant ID.
        best_participant_id: [u8; 1],
        /// Best price.
        best_price: u16,
        /// Best size.
        best_size: u16,
    }
}
