//! OPRA's messages as they lie in their bytes, most significant first.
//!
//! Source: OPRA Pillar Output Specification 6.2; the series mapping is of 6.3. A message has no
//! length of its own: its category and, of a quote, its indicator tell it.

use crate::feed::FeedError;
use crate::feed::layout::{kinds, layouts};

layouts! {
    big;

    /// What every message begins with.
    MessageHeader {
        /// Whose message it is.
        participant_id: [u8; 1],
        /// What it is about.
        message_category: [u8; 1],
        /// What it says, by category.
        message_type: [u8; 1],
        /// Of quotes: what they do to the best bid and offer ([`super::sides_of`]).
        message_indicator: [u8; 1],
        /// OPRA's number of it.
        transaction_id: u32,
        /// The venue's number of it.
        participant_reference_number: u32,
    }

    /// A trade, or what becomes of one.
    LastSale {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// `A` to `L` calls of January to December, `M` to `X` puts.
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// How many decimals ([`super::series::decimals`]).
        strike_price_denominator_code: [u8; 1],
        /// The strike.
        strike_price: u32,
        /// Contracts.
        volume: u32,
        /// How many decimals.
        premium_price_denominator_code: [u8; 1],
        /// The price.
        premium_price: i32,
        /// The venue's number of the trade.
        trade_identifier: u32,
        /// Not used.
        reserved_4: [u8; 4],
    }

    /// Open contracts.
    OpenInterest {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// As in [`LastSale`].
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// How many decimals.
        strike_price_denominator_code: [u8; 1],
        /// The strike.
        strike_price: u32,
        /// Contracts.
        open_interest_volume: u32,
    }

    /// A series' day.
    EndOfDaySummary {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// As in [`LastSale`].
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// How many decimals.
        strike_price_denominator_code: [u8; 1],
        /// The strike.
        strike_price: u32,
        /// Contracts traded.
        volume: u32,
        /// Contracts open.
        open_interest_volume: u32,
        /// How many decimals the prices have.
        premium_price_denominator_code: [u8; 1],
        /// The first.
        open_price: i32,
        /// The highest.
        high_price: i32,
        /// The lowest.
        low_price: i32,
        /// The last.
        last_price: i32,
        /// Against the day before.
        net_change: i32,
        /// How many decimals the underlying's price has.
        underlying_price_denominator_code: [u8; 1],
        /// The underlying's price.
        underlying_price: i64,
        /// The bid.
        bid_price: i32,
        /// The offer.
        offer_price: i32,
    }

    /// A venue's quote, in full.
    LongQuote {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// As in [`LastSale`].
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// How many decimals.
        strike_price_denominator_code: [u8; 1],
        /// The strike.
        strike_price: u32,
        /// How many decimals bid and offer have.
        premium_price_denominator_code: [u8; 1],
        /// The bid.
        bid_price: i32,
        /// Contracts bid for.
        bid_size: u32,
        /// The offer.
        offer_price: i32,
        /// Contracts offered.
        offer_size: u32,
    }

    /// A venue's quote where small numbers do: the strike has one decimal, prices have two.
    ShortQuote {
        /// The root of the series.
        security_symbol: [u8; 4],
        /// As in [`LastSale`].
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// The strike.
        strike_price: u16,
        /// The bid.
        bid_price: u16,
        /// Contracts bid for.
        bid_size: u16,
        /// The offer.
        offer_price: u16,
        /// Contracts offered.
        offer_size: u16,
    }

    /// The best of one side, after a quote.
    Appendage {
        /// Whose.
        participant_id: [u8; 1],
        /// How many decimals.
        denominator_code: [u8; 1],
        /// The price.
        price: i32,
        /// Contracts.
        size: u32,
    }

    /// Text, of which this is the length.
    Administrative {
        /// Bytes that follow.
        message_data_length: u16,
    }

    /// A point in the day; all of it is in the header.
    Control {}

    /// An index's value, or its bid and offer.
    UnderlyingValue {
        /// The index.
        security_symbol: [u8; 5],
        /// Not used.
        reserved: u8,
        /// How many decimals.
        index_value_denominator_code: [u8; 1],
        /// The value, or its bid.
        index_value: i32,
        /// Of type `I` the offer, else not used.
        offer_index_value: i32,
    }

    /// On which line a series is sent.
    SeriesMapping {
        /// The root of the series.
        security_symbol: [u8; 5],
        /// As in [`LastSale`].
        expiration_month: [u8; 1],
        /// 1 to 31.
        expiration_day: u8,
        /// Years since 2000.
        expiration_year: u8,
        /// How many decimals.
        strike_price_denominator_code: [u8; 1],
        /// The strike.
        strike_price: u32,
        /// The line.
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
