//! OPRA's messages as laid out in bytes, big-endian.
//!
//! Source: OPRA Pillar Output Specification 6.2; the series mapping is from 6.3. A message has no
//! length field: its category and, for a quote, its indicator determine the length.

use crate::FeedError;
use crate::layout::{kinds, layouts};

layouts! {
    big;

    /// The header of every message.
    MessageHeader {
        /// The participant (venue) of the message.
        participant_id: [u8; 1],
        /// The category of the message.
        message_category: [u8; 1],
        /// The type of the message within its category.
        message_type: [u8; 1],
        /// The effect of a quote on the best bid and offer ([`super::sides_of`]).
        message_indicator: [u8; 1],
        /// OPRA's number of the message.
        transaction_id: u32,
        /// The venue's number of the message.
        participant_reference_number: u32,
    }

    /// A trade, or a cancel of one.
    LastSale {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// The expiration month: `A` to `L` calls of January to December, `M` to `X` puts.
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The denominator code ([`super::series::decimals`]).
        strike_price_denominator_code: [u8; 1],
        /// The strike price.
        strike_price: u32,
        /// The number of contracts.
        volume: u32,
        /// The denominator code.
        premium_price_denominator_code: [u8; 1],
        /// The price.
        premium_price: i32,
        /// The venue's number of the trade.
        trade_identifier: u32,
        /// Not used.
        reserved_4: [u8; 4],
    }

    /// The open interest of a series.
    OpenInterest {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// The expiration month, as in [`LastSale`].
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The denominator code.
        strike_price_denominator_code: [u8; 1],
        /// The strike price.
        strike_price: u32,
        /// The number of open contracts.
        open_interest_volume: u32,
    }

    /// The summary of a series' day.
    EndOfDaySummary {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// The expiration month, as in [`LastSale`].
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The denominator code.
        strike_price_denominator_code: [u8; 1],
        /// The strike price.
        strike_price: u32,
        /// The number of contracts traded.
        volume: u32,
        /// The number of open contracts.
        open_interest_volume: u32,
        /// The denominator code of the prices.
        premium_price_denominator_code: [u8; 1],
        /// The first price.
        open_price: i32,
        /// The highest price.
        high_price: i32,
        /// The lowest price.
        low_price: i32,
        /// The last price.
        last_price: i32,
        /// The change from the previous day.
        net_change: i32,
        /// The denominator code of the underlying's price.
        underlying_price_denominator_code: [u8; 1],
        /// The underlying's price.
        underlying_price: i64,
        /// The bid.
        bid_price: i32,
        /// The offer.
        offer_price: i32,
    }

    /// A venue's quote, with full-width fields.
    LongQuote {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// The expiration month, as in [`LastSale`].
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The denominator code.
        strike_price_denominator_code: [u8; 1],
        /// The strike price.
        strike_price: u32,
        /// The denominator code of bid and offer.
        premium_price_denominator_code: [u8; 1],
        /// The bid.
        bid_price: i32,
        /// Contracts bid.
        bid_size: u32,
        /// The offer.
        offer_price: i32,
        /// Contracts offered.
        offer_size: u32,
    }

    /// A venue's quote, with narrow fields: the strike has one decimal, prices have two.
    ShortQuote {
        /// The root of the series.
        security_symbol: [u8; 4],
        /// The expiration month, as in [`LastSale`].
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The strike price.
        strike_price: u16,
        /// The bid.
        bid_price: u16,
        /// Contracts bid.
        bid_size: u16,
        /// The offer.
        offer_price: u16,
        /// Contracts offered.
        offer_size: u16,
    }

    /// The best of one side, appended to a quote.
    Appendage {
        /// The venue.
        participant_id: [u8; 1],
        /// The denominator code.
        denominator_code: [u8; 1],
        /// The price.
        price: i32,
        /// The number of contracts.
        size: u32,
    }

    /// The head of a text message, with the length of the text.
    Administrative {
        /// Length of the text in bytes.
        message_data_length: u16,
    }

    /// A point in the day; the header says which.
    Control {}

    /// The value of an index, or its bid and offer.
    UnderlyingValue {
        /// The index.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// The denominator code.
        index_value_denominator_code: [u8; 1],
        /// The value, or the bid.
        index_value: i32,
        /// The offer in a message of type `I`, else unused.
        offer_index_value: i32,
    }

    /// The line on which a series is sent.
    SeriesMapping {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// The expiration month, as in [`LastSale`].
        expiration_month: [u8; 1],
        /// The expiration day, 1 to 31.
        expiration_day: u8,
        /// The expiration year, as years since 2000.
        expiration_year: u8,
        /// The denominator code.
        strike_price_denominator_code: [u8; 1],
        /// The strike price.
        strike_price: u32,
        /// The number of the multicast line.
        multicast_line_number: u16,
        /// Not used.
        reserved_128: [u8; 128],
    }
}

kinds! {
    /// A message after its header. A kind is the message's category and a space.
    Message {
        /// `a`.
        LastSale = b"a ",
        /// `d`.
        OpenInterest = b"d ",
        /// `f`.
        EndOfDaySummary = b"f ",
        /// `k`.
        LongQuote = b"k ",
        /// `q`.
        ShortQuote = b"q ",
        /// `C`.
        Administrative = b"C ",
        /// `H`.
        Control = b"H ",
        /// `Y`.
        UnderlyingValue = b"Y ",
        /// `R`.
        SeriesMapping = b"R ",
    }
}
