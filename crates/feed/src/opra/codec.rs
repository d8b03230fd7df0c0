//! The decoder of OPRA: turns messages into updates.

use weir_types::{InstrumentId, Price, Qty};

use super::message::{
    Appendage, EndOfDaySummary, LastSale, LongQuote, Message, MessageHeader, ShortQuote,
};
use super::series::{self, Series};
use super::{Opra, SideChange, sides_of};
use crate::instrument::Definition;
use crate::national::{Best, Change, quote_of};
use crate::update::{Action, PriceKind, SystemEvent, TradeFlags, Update, Venue};
use crate::{Context, FeedError, UpdateSink};

/// The kind of a message, for error reports.
#[derive(Clone, Copy)]
struct Kind([u8; 2]);

impl Kind {
    fn fault(self, field: &'static str, value: u64) -> FeedError {
        FeedError::Field { kind: self.0, field, value }
    }

    fn price(self, code: [u8; 1], number: i32) -> Result<Price, FeedError> {
        series::price(code[0], i64::from(number))
            .ok_or(self.fault("denominator code", u64::from(code[0])))
    }

    fn series(
        self,
        root: [u8; 5],
        expiration: [u8; 3],
        code: [u8; 1],
        strike: u32,
    ) -> Result<Series, FeedError> {
        Series::new(root, expiration, code[0], strike)
            .filter(Series::has_name)
            .ok_or(self.fault("series", u64::from(strike)))
    }
}

/// A quote of either form, with its numbers converted.
struct Quote {
    series: Series,
    bid: Best,
    ask: Best,
}

fn long_quote(kind: Kind, venue: Venue, it: &LongQuote) -> Result<Quote, FeedError> {
    let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
    let (code, premium) = (it.strike_price_denominator_code, it.premium_price_denominator_code);
    let side = |price, size: u32| {
        Ok(Best { venue, price: kind.price(premium, price)?, size: Qty(u64::from(size)) })
    };
    Ok(Quote {
        series: kind.series(it.security_symbol, expiration, code, it.strike_price)?,
        bid: side(it.bid_price, it.bid_size)?,
        ask: side(it.offer_price, it.offer_size)?,
    })
}

fn short_quote(kind: Kind, venue: Venue, it: &ShortQuote) -> Result<Quote, FeedError> {
    let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
    let [a, b, c, d] = it.security_symbol;
    let side = |price: u16, size: u16| Best {
        venue,
        price: Price(i64::from(price) * 10_000_000),
        size: Qty(u64::from(size)),
    };
    Ok(Quote {
        series: kind.series([a, b, c, d, b' '], expiration, *b"A", u32::from(it.strike_price))?,
        bid: side(it.bid_price, it.bid_size),
        ask: side(it.offer_price, it.offer_size),
    })
}

/// Returns the series of a quote; `None` for any other message.
pub(super) fn quoted(message: &[u8]) -> Option<Series> {
    let header = MessageHeader::read(message)?;
    let body = &message[MessageHeader::LEN..];
    match header.message_category {
        [b'q'] => {
            let it = ShortQuote::read(body)?;
            let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
            let [a, b, c, d] = it.security_symbol;
            Series::new([a, b, c, d, b' '], expiration, b'A', u32::from(it.strike_price))
        }
        [b'k'] => {
            let it = LongQuote::read(body)?;
            let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
            let [code] = it.strike_price_denominator_code;
            Series::new(it.security_symbol, expiration, code, it.strike_price)
        }
        _ => None,
    }
}

/// Sets sizes to zero that cannot be traded against: those of a quote not eligible for the best bid
/// and offer, and of a side that is not firm.
fn without_what_is_not_firm(header: &MessageHeader, quote: &mut Quote) {
    let counts_for_neither = sides_of(header.message_indicator[0]).is_none();
    let [kind] = header.message_type;
    if counts_for_neither || kind == b'Y' {
        quote.bid.size = Qty::ZERO;
    }
    if counts_for_neither || kind == b'X' {
        quote.ask.size = Qty::ZERO;
    }
}

fn changes(kind: Kind, indicator: u8, mut rest: &[u8]) -> Result<[Change; 2], FeedError> {
    let mut changes = [Change::Same; 2];
    let Some(sides) = sides_of(indicator) else {
        let known = matches!(indicator, b' ');
        return if known { Ok(changes) } else { Err(kind.fault("indicator", indicator.into())) };
    };
    for (change, side) in changes.iter_mut().zip(sides) {
        *change = match side {
            SideChange::Same => Change::Same,
            SideChange::Quote => Change::Quote,
            SideChange::Gone => Change::Gone,
            SideChange::Appendage => {
                let (len, want) = (rest.len(), Appendage::LEN);
                let it =
                    Appendage::read(rest).ok_or(FeedError::Length { kind: kind.0, len, want })?;
                rest = &rest[want..];
                Change::Appended(Best {
                    venue: Venue(it.participant_id[0]),
                    price: kind.price(it.denominator_code, it.price)?,
                    size: Qty(u64::from(it.size)),
                })
            }
        };
    }
    Ok(changes)
}

/// Returns the flags of a trade: late reports do not change the last price, compressions no price
/// at all.
fn trade_flags(message_type: u8) -> TradeFlags {
    match message_type {
        b'B' | b'H' => TradeFlags::NOT_LAST,
        b'u' => TradeFlags::NOT_LAST.with(TradeFlags::NOT_HIGH_LOW),
        b'v' => TradeFlags::EXTENDED_HOURS,
        _ => TradeFlags::default(),
    }
}

impl Opra {
    pub(super) fn decode_message(
        &mut self,
        context: &Context,
        header: &MessageHeader,
        message: &Message,
        rest: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let kind = Kind([header.message_category[0], header.message_type[0]]);
        let venue = Venue(header.participant_id[0]);
        match message {
            Message::LongQuote(it) => {
                let quote = long_quote(kind, venue, it)?;
                self.quote(context, header, quote, rest, sink)
            }
            Message::ShortQuote(it) => {
                let quote = short_quote(kind, venue, it)?;
                self.quote(context, header, quote, rest, sink)
            }
            Message::LastSale(it) => self.last_sale(context, header, it, sink),
            Message::EndOfDaySummary(it) => self.summary(context, kind, it, sink),
            Message::Control(_) => {
                control(context, header.message_type[0], sink);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn quote(
        &mut self,
        context: &Context,
        header: &MessageHeader,
        mut quote: Quote,
        rest: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let kind = Kind([header.message_category[0], header.message_type[0]]);
        let changes = changes(kind, header.message_indicator[0], rest)?;
        without_what_is_not_firm(header, &mut quote);
        let instrument_id = self.number_of(&quote.series, sink);
        let venue = Venue(header.participant_id[0]);
        tell(context, instrument_id, quote_of(venue, quote.bid, quote.ask), sink);
        if let Some(action) = self.bests.apply(instrument_id, [quote.bid, quote.ask], changes) {
            tell(context, instrument_id, action, sink);
        }
        Ok(())
    }

    fn last_sale(
        &mut self,
        context: &Context,
        header: &MessageHeader,
        it: &LastSale,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let [message_type] = header.message_type;
        let kind = Kind([header.message_category[0], message_type]);
        let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
        let code = it.strike_price_denominator_code;
        let series = kind.series(it.security_symbol, expiration, code, it.strike_price)?;
        let price = kind.price(it.premium_price_denominator_code, it.premium_price)?;
        let (size, match_id) = (Qty(u64::from(it.volume)), u64::from(it.trade_identifier));
        let action = match message_type {
            b'A' | b'C' | b'E' | b'G' => Action::TradeBreak { match_id, size, price },
            _ => Action::Trade {
                venue: Venue(header.participant_id[0]),
                aggressor: None,
                price,
                size,
                match_id,
                flags: trade_flags(message_type),
            },
        };
        let instrument_id = self.number_of(&series, sink);
        tell(context, instrument_id, action, sink);
        Ok(())
    }

    fn summary(
        &mut self,
        context: &Context,
        kind: Kind,
        it: &EndOfDaySummary,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let expiration = [it.expiration_month[0], it.expiration_day, it.expiration_year];
        let code = it.strike_price_denominator_code;
        let series = kind.series(it.security_symbol, expiration, code, it.strike_price)?;
        let mut prices = [Price(0); 4];
        let numbers = [it.open_price, it.high_price, it.low_price, it.last_price];
        for (price, number) in prices.iter_mut().zip(numbers) {
            *price = kind.price(it.premium_price_denominator_code, number)?;
        }
        let instrument_id = self.number_of(&series, sink);
        let kinds = [PriceKind::Open, PriceKind::High, PriceKind::Low, PriceKind::Close];
        for (kind, price) in kinds.into_iter().zip(prices).filter(|(_, price)| *price != Price(0)) {
            tell(context, instrument_id, Action::DayPrice { kind, price }, sink);
        }
        Ok(())
    }

    fn number_of(&mut self, series: &Series, sink: &mut impl UpdateSink) -> InstrumentId {
        let (instrument_id, name) = self.series.number_of(series).expect("it has a name");
        if let Some(symbol) = name {
            let (round_lot, previous_close) = (Qty::ZERO, None);
            sink.define(&Definition { instrument_id, symbol, round_lot, previous_close });
        }
        instrument_id
    }
}

fn tell(
    context: &Context,
    instrument_id: InstrumentId,
    action: Action,
    sink: &mut impl UpdateSink,
) {
    let (sequence, ts_event) = (context.sequence, context.ts_send);
    sink.update(Update { instrument_id, sequence, ts_event, action });
}

fn control(context: &Context, message_type: u8, sink: &mut impl UpdateSink) {
    let event = match message_type {
        b'C' => SystemEvent::StartOfMessages,
        b'H' => SystemEvent::EndOfMarketHours,
        b'J' => SystemEvent::EndOfMessages,
        _ => return,
    };
    tell(context, InstrumentId(0), Action::System(event), sink);
}
