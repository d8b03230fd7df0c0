//! The messages that subscribers to market data send and those that they receive, one type each.

use weir_types::SessionId;

use crate::frame::{RawMessage, put_frame, put_frame_with, put_message};
use crate::group::{Group, put_data, put_group_header, take_data, take_group};
use crate::market::{
    MARKET_GROUP_COUNT_MAX, MARKET_SYMBOL_LEN_MAX, MarketChannel, MarketEnded, MarketGap,
    MarketInstrument, MarketLevel, MarketLevels, MarketOrder, MarketOrders, MarketQuote,
    MarketRestingOrder, MarketStatistics, MarketStatus, MarketSubscribed, MarketTrade,
    PATTERN_LEN_MAX, SetMarketInterval, SubscribeMarket, UnsubscribeMarket,
};
use crate::message::{DecodeError, Message};

/// A message that a subscriber to market data may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketRequest<'a> {
    /// Subscribes to the instruments of a pattern: at most [`PATTERN_LEN_MAX`] bytes.
    Subscribe(SubscribeMarket, &'a [u8]),
    /// Ends a subscription.
    Unsubscribe(UnsubscribeMarket),
    /// Changes a subscription's interval.
    SetInterval(SetMarketInterval),
}

/// A message that a subscriber to market data may receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarketMessage<'a> {
    /// A subscription is active.
    Subscribed(MarketSubscribed),
    /// A subscription has ended, or was refused.
    Ended(MarketEnded),
    /// An instrument, with its symbol: at most [`MARKET_SYMBOL_LEN_MAX`] bytes.
    Instrument(MarketInstrument, &'a [u8]),
    /// The state of a source's channel.
    Channel(MarketChannel),
    /// The best bid and offer.
    Quote(MarketQuote),
    /// The levels of a book.
    Levels(MarketLevels, Group<'a, MarketLevel>),
    /// The statistics of a day.
    Statistics(MarketStatistics),
    /// A trading state.
    Status(MarketStatus),
    /// A trade.
    Trade(MarketTrade),
    /// A change of an order.
    Order(MarketOrder),
    /// All orders of a book.
    Orders(MarketOrders, Group<'a, MarketRestingOrder>),
    /// Messages are lost.
    Gap(MarketGap),
}

fn data_of<'a, M: Message>(
    raw: &RawMessage<'a>,
    field: &'static str,
    len_max: usize,
) -> Result<&'a [u8], DecodeError> {
    let (data, rest) = take_data(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    if data.len() > len_max {
        return Err(tail_out_of_range::<M>(field));
    }
    Ok(data)
}

fn group_of<'a, M: Message, E: Message>(
    raw: &RawMessage<'a>,
    field: &'static str,
) -> Result<Group<'a, E>, DecodeError> {
    let (group, rest) = take_group(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    if group.len() > MARKET_GROUP_COUNT_MAX {
        return Err(tail_out_of_range::<M>(field));
    }
    Ok(group)
}

/// The out-of-range error of the data behind the block of `M`: its index is one past the last
/// field.
fn tail_out_of_range<M: Message>(field: &'static str) -> DecodeError {
    let index = u16::try_from(M::FIELDS.len() + 1).expect("no message has 65,535 fields");
    DecodeError::FieldOutOfRange { message: M::NAME, field, index }
}

impl<'a> MarketRequest<'a> {
    /// Decodes a subscriber's message; `None` when the template is none of these.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(raw: &RawMessage<'a>) -> Option<Result<MarketRequest<'a>, DecodeError>> {
        Some(match raw.template_id {
            SubscribeMarket::TEMPLATE_ID => raw.decode().and_then(|message| {
                let pattern = data_of::<SubscribeMarket>(raw, "pattern", PATTERN_LEN_MAX)?;
                Ok(MarketRequest::Subscribe(message, pattern))
            }),
            UnsubscribeMarket::TEMPLATE_ID => raw.decode_whole().map(MarketRequest::Unsubscribe),
            SetMarketInterval::TEMPLATE_ID => raw.decode_whole().map(MarketRequest::SetInterval),
            _ => return None,
        })
    }

    /// Appends the message's frame.
    ///
    /// # Panics
    /// When the pattern has more than 65,535 bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            MarketRequest::Subscribe(message, pattern) => {
                put_frame_with(out, |out| {
                    put_message(message, out);
                    put_data(pattern, out);
                });
            }
            MarketRequest::Unsubscribe(message) => put_frame(message, out),
            MarketRequest::SetInterval(message) => put_frame(message, out),
        }
    }
}

impl<'a> MarketMessage<'a> {
    /// Decodes a message to a subscriber; `None` when the template is none of these.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(raw: &RawMessage<'a>) -> Option<Result<MarketMessage<'a>, DecodeError>> {
        Some(match raw.template_id {
            MarketQuote::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Quote),
            MarketTrade::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Trade),
            MarketOrder::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Order),
            MarketLevels::TEMPLATE_ID => raw.decode().and_then(|message| {
                let levels = group_of::<MarketLevels, _>(raw, "levels")?;
                Ok(MarketMessage::Levels(message, levels))
            }),
            MarketOrders::TEMPLATE_ID => raw.decode().and_then(|message| {
                let orders = group_of::<MarketOrders, _>(raw, "orders")?;
                Ok(MarketMessage::Orders(message, orders))
            }),
            MarketStatistics::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Statistics),
            MarketStatus::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Status),
            MarketGap::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Gap),
            MarketChannel::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Channel),
            MarketInstrument::TEMPLATE_ID => raw.decode().and_then(|message| {
                let symbol = data_of::<MarketInstrument>(raw, "symbol", MARKET_SYMBOL_LEN_MAX)?;
                Ok(MarketMessage::Instrument(message, symbol))
            }),
            MarketSubscribed::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Subscribed),
            MarketEnded::TEMPLATE_ID => raw.decode_whole().map(MarketMessage::Ended),
            _ => return None,
        })
    }

    /// The session that it names.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        match self {
            MarketMessage::Subscribed(m) => m.session_id,
            MarketMessage::Ended(m) => m.session_id,
            MarketMessage::Instrument(m, _) => m.session_id,
            MarketMessage::Channel(m) => m.session_id,
            MarketMessage::Quote(m) => m.session_id,
            MarketMessage::Levels(m, _) => m.session_id,
            MarketMessage::Statistics(m) => m.session_id,
            MarketMessage::Status(m) => m.session_id,
            MarketMessage::Trade(m) => m.session_id,
            MarketMessage::Order(m) => m.session_id,
            MarketMessage::Orders(m, _) => m.session_id,
            MarketMessage::Gap(m) => m.session_id,
        }
    }

    /// Appends the message's frame.
    ///
    /// # Panics
    /// When a symbol has more than 65,535 bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            MarketMessage::Subscribed(message) => put_frame(message, out),
            MarketMessage::Ended(message) => put_frame(message, out),
            MarketMessage::Instrument(message, symbol) => {
                put_frame_with(out, |out| {
                    put_message(message, out);
                    put_data(symbol, out);
                });
            }
            MarketMessage::Channel(message) => put_frame(message, out),
            MarketMessage::Quote(message) => put_frame(message, out),
            MarketMessage::Levels(message, levels) => put_frame_with(out, |out| {
                put_message(message, out);
                levels.put(out);
            }),
            MarketMessage::Statistics(message) => put_frame(message, out),
            MarketMessage::Status(message) => put_frame(message, out),
            MarketMessage::Trade(message) => put_frame(message, out),
            MarketMessage::Order(message) => put_frame(message, out),
            MarketMessage::Orders(message, orders) => put_frame_with(out, |out| {
                put_message(message, out);
                orders.put(out);
            }),
            MarketMessage::Gap(message) => put_frame(message, out),
        }
    }
}

/// Appends the frame of a message followed by a group of at most [`MARKET_GROUP_COUNT_MAX`]
/// entries.
///
/// # Panics
/// When there are more.
pub fn put_market_group<M: Message, E: Message>(
    message: &M,
    entries: impl ExactSizeIterator<Item = E>,
    out: &mut Vec<u8>,
) {
    let count = entries.len();
    assert!(count <= MARKET_GROUP_COUNT_MAX, "{count} entries");
    put_frame_with(out, |out| {
        put_message(message, out);
        put_group_header::<E>(count, out);
        for entry in entries {
            entry.encode_block(out);
        }
    });
}
