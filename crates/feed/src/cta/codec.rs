//! The decoder of CQS and CTS: turns messages into updates.

use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty};

use super::message::{Message, MessageHeader, SymbolReference};
use super::quote::{LongAppendage, ShortAppendage};
use super::{Cta, CtaFeed, SideChange, sides_of};
use crate::instrument::{Definition, SymbolText};
use crate::national::{Best, Change, quote_of};
use crate::update::{Action, PriceKind, SystemEvent, TradeFlags, TradingState, Update, Venue};
use crate::{Context, FeedError, UpdateSink, national};

/// One whole share in CTS' unit.
const SHARE: u64 = 1_000_000;

/// A message being decoded for a sink.
pub(super) struct Decoder<'a, S> {
    pub(super) feed: &'a mut Cta,
    pub(super) context: &'a Context,
    pub(super) header: &'a MessageHeader,
    pub(super) kind: [u8; 2],
    pub(super) sink: &'a mut S,
}

/// Converts whole shares to CTS' unit.
fn shares(whole: u32) -> Qty {
    Qty(u64::from(whole) * SHARE)
}

/// Converts a price of two decimals to 10^-9.
fn short_price(price: u16) -> Price {
    Price(i64::from(price) * 10_000_000)
}

impl<S: UpdateSink> Decoder<'_, S> {
    pub(super) fn decode(mut self, message: &Message, rest: &[u8]) -> Result<(), FeedError> {
        match message {
            Message::LongQuote(it) => {
                let quote = [(it.bid_price, it.bid_size), (it.offer_price, it.offer_size)];
                self.long_quote(&it.security_symbol, quote, it.national_bbo_indicator[0], rest)
            }
            Message::SpecialLongQuote(it) => {
                let quote = [(it.bid_price, it.bid_size), (it.offer_price, it.offer_size)];
                self.long_quote(&it.security_symbol, quote, it.national_bbo_indicator[0], rest)
            }
            Message::ShortQuote(it) => {
                let quote = [(it.bid_price, it.bid_size), (it.offer_price, it.offer_size)];
                self.short_quote(&it.security_symbol, quote, it.national_bbo_indicator[0], rest)
            }
            Message::WideShortQuote(it) => {
                let quote = [(it.bid_price, it.bid_size), (it.offer_price, it.offer_size)];
                self.short_quote(&it.security_symbol, quote, it.national_bbo_indicator[0], rest)
            }
            Message::LongTrade(_)
            | Message::FractionalLongTrade(_)
            | Message::ShortTrade(_)
            | Message::FractionalShortTrade(_) => self.trade(message),
            Message::TradeCorrection(_) | Message::FractionalTradeCorrection(_) => {
                self.correction(message)
            }
            Message::TradeCancelError(_) | Message::FractionalTradeCancelError(_) => {
                self.cancel(message)
            }
            _ => self.of_the_day(message),
        }
    }

    fn of_the_day(mut self, message: &Message) -> Result<(), FeedError> {
        match message {
            Message::TradingStatus(it) => {
                self.status(&it.security_symbol, it.security_status[0], it.halt_reason[0])
            }
            Message::SymbolReference(it) => self.reference(it),
            Message::ConsolidatedStartOfDaySummary(it) => {
                let close = self.price("previous close", it.previous_close_price)?;
                self.define(&it.security_symbol, Qty::ZERO, close)
            }
            Message::ConsolidatedEndOfDaySummary(it) => {
                self.summary(&it.security_symbol, [it.high_price, it.low_price, it.last_price])
            }
            Message::FractionalConsolidatedEndOfDaySummary(it) => {
                self.summary(&it.security_symbol, [it.high_price, it.low_price, it.last_price])
            }
            Message::MarketWideStatus(it) => {
                self.market_wide(it.market_wide_circuit_breaker_level_indicator[0])
            }
            Message::Marker(_) => {
                match &self.kind {
                    b"CA" => self.system(SystemEvent::StartOfMessages),
                    b"CZ" => self.system(SystemEvent::EndOfMessages),
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fault(&self, field: &'static str, value: u64) -> FeedError {
        FeedError::Field { kind: self.kind, field, value }
    }

    /// Converts a price of six decimals to 10^-9.
    fn price(&self, field: &'static str, price: i64) -> Result<Price, FeedError> {
        price.checked_mul(1_000).map(Price).ok_or(self.fault(field, price.cast_unsigned()))
    }

    fn venue(&self) -> Venue {
        Venue(self.header.participant_id[0])
    }

    /// Returns the venue's number of the message, which names the trade.
    fn match_id(&self) -> u64 {
        self.header.participant_reference_number.cast_unsigned()
    }

    fn symbol(&self, text: &[u8]) -> Result<SymbolText, FeedError> {
        SymbolText::new(text).ok_or_else(|| self.fault("symbol", u64::from(text[0])))
    }

    /// Returns the number of a symbol; defines a new symbol in the sink.
    fn number_of(&mut self, text: &[u8]) -> Result<InstrumentId, FeedError> {
        let symbol = self.symbol(text)?;
        let (instrument_id, is_new) = self.feed.symbols.number_of(symbol);
        if is_new {
            let (round_lot, previous_close) = (Qty::ZERO, None);
            self.sink.define(&Definition { instrument_id, symbol, round_lot, previous_close });
        }
        Ok(instrument_id)
    }

    fn tell(&mut self, instrument_id: InstrumentId, action: Action) {
        let header = self.header;
        let nanos = national::nanos(header.timestamp_1_seconds, header.timestamp_1_nanoseconds);
        let (sequence, ts_event) = (self.context.sequence, Nanos(nanos));
        self.sink.update(Update { instrument_id, sequence, ts_event, action });
    }

    fn system(&mut self, event: SystemEvent) {
        self.tell(InstrumentId(0), Action::System(event));
    }

    fn long_quote(
        &mut self,
        symbol: &[u8],
        quote: [(i64, u32); 2],
        indicator: u8,
        rest: &[u8],
    ) -> Result<(), FeedError> {
        let [(bid, bid_size), (offer, offer_size)] = quote;
        let bid = self.best(self.price("bid price", bid)?, bid_size);
        let ask = self.best(self.price("offer price", offer)?, offer_size);
        self.quote(symbol, [bid, ask], indicator, rest)
    }

    fn short_quote(
        &mut self,
        symbol: &[u8],
        quote: [(u16, u16); 2],
        indicator: u8,
        rest: &[u8],
    ) -> Result<(), FeedError> {
        let sides = quote.map(|(price, size)| self.best(short_price(price), u32::from(size)));
        self.quote(symbol, sides, indicator, rest)
    }

    fn best(&self, price: Price, size: u32) -> Best {
        Best { venue: self.venue(), price, size: Qty(u64::from(size)) }
    }

    fn quote(
        &mut self,
        symbol: &[u8],
        mut sides: [Best; 2],
        indicator: u8,
        rest: &[u8],
    ) -> Result<(), FeedError> {
        let changes = self.changes(indicator, rest)?;
        if sides_of(indicator).is_none() {
            // A quote that is not eligible for the best bid and offer cannot be traded against.
            sides[0].size = Qty::ZERO;
            sides[1].size = Qty::ZERO;
        }
        let instrument_id = self.number_of(symbol)?;
        self.tell(instrument_id, quote_of(self.venue(), sides[0], sides[1]));
        if let Some(action) = self.feed.bests.apply(instrument_id, sides, changes) {
            self.tell(instrument_id, action);
        }
        Ok(())
    }

    fn changes(&self, indicator: u8, mut rest: &[u8]) -> Result<[Change; 2], FeedError> {
        let mut changes = [Change::Same; 2];
        let Some(sides) = sides_of(indicator) else {
            return match indicator {
                b' ' => Ok(changes),
                _ => Err(self.fault("national BBO indicator", u64::from(indicator))),
            };
        };
        for (change, side) in changes.iter_mut().zip(sides) {
            let want = side.appendage_len();
            let appendage = rest.split_at_checked(want).ok_or(FeedError::Length {
                kind: self.kind,
                len: rest.len(),
                want,
            })?;
            rest = appendage.1;
            *change = match side {
                SideChange::Same => Change::Same,
                SideChange::Quote => Change::Quote,
                SideChange::Gone => Change::Gone,
                SideChange::Short => {
                    let it = ShortAppendage::read(appendage.0).expect("it is as long");
                    Change::Appended(Best {
                        venue: Venue(it.best_participant_id[0]),
                        price: short_price(it.best_price),
                        size: Qty(u64::from(it.best_size)),
                    })
                }
                SideChange::Long => {
                    let it = LongAppendage::read(appendage.0).expect("it is as long");
                    Change::Appended(Best {
                        venue: Venue(it.best_participant_id[0]),
                        price: self.price("best price", it.best_price)?,
                        size: Qty(u64::from(it.best_size)),
                    })
                }
            };
        }
        Ok(changes)
    }

    fn trade(&mut self, message: &Message) -> Result<(), FeedError> {
        let (symbol, price, size, conditions, indicator) = match message {
            Message::LongTrade(it) => (
                &it.security_symbol[..],
                self.price("trade price", it.trade_price)?,
                shares(it.trade_volume),
                it.sale_condition,
                it.consolidated_high_low_last_indicator[0],
            ),
            Message::FractionalLongTrade(it) => (
                &it.security_symbol[..],
                self.price("trade price", it.trade_price)?,
                Qty(it.fractional_trade_volume),
                it.sale_condition,
                it.consolidated_high_low_last_indicator[0],
            ),
            Message::ShortTrade(it) => (
                &it.security_symbol[..],
                short_price(it.trade_price),
                shares(u32::from(it.trade_volume)),
                [it.sale_condition_1[0], b' ', b' ', b' '],
                it.consolidated_high_low_last_indicator[0],
            ),
            Message::FractionalShortTrade(it) => (
                &it.security_symbol[..],
                short_price(it.trade_price),
                Qty(u64::from(it.fractional_trade_volume)),
                [it.sale_condition_1[0], b' ', b' ', b' '],
                it.consolidated_high_low_last_indicator[0],
            ),
            _ => return Ok(()),
        };
        let mut flags = trade_flags(conditions);
        if !matches!(indicator, b'D'..=b'G') {
            flags = flags.with(TradeFlags::NOT_LAST);
        }
        self.traded(symbol, price, size, flags)
    }

    fn traded(
        &mut self,
        symbol: &[u8],
        price: Price,
        size: Qty,
        flags: TradeFlags,
    ) -> Result<(), FeedError> {
        let (venue, match_id) = (self.venue(), self.match_id());
        let instrument_id = self.number_of(symbol)?;
        let action = Action::Trade { venue, aggressor: None, price, size, match_id, flags };
        self.tell(instrument_id, action);
        Ok(())
    }

    fn broken(
        &mut self,
        symbol: &[u8],
        match_id: i64,
        price: Price,
        size: Qty,
    ) -> Result<(), FeedError> {
        let instrument_id = self.number_of(symbol)?;
        let match_id = match_id.cast_unsigned();
        self.tell(instrument_id, Action::TradeBreak { match_id, size, price });
        Ok(())
    }

    /// Translates a correction into the break of the original trade and a new trade.
    fn correction(&mut self, message: &Message) -> Result<(), FeedError> {
        let (symbol, original, before, after, conditions) = match message {
            Message::TradeCorrection(it) => (
                it.security_symbol,
                it.original_participant_reference_number,
                (it.original_trade_price, shares(it.original_trade_volume)),
                (it.corrected_trade_price, shares(it.corrected_trade_volume)),
                it.corrected_sale_condition,
            ),
            Message::FractionalTradeCorrection(it) => (
                it.security_symbol,
                it.original_participant_reference_number,
                (it.original_trade_price, Qty(it.original_fractional_trade_volume)),
                (it.corrected_trade_price, Qty(it.corrected_fractional_trade_volume)),
                it.corrected_sale_condition,
            ),
            _ => return Ok(()),
        };
        let original_price = self.price("original trade price", before.0)?;
        let price = self.price("corrected trade price", after.0)?;
        self.broken(&symbol, original, original_price, before.1)?;
        // The corrected trade may no longer be the last one.
        let flags = trade_flags(conditions).with(TradeFlags::NOT_LAST);
        self.traded(&symbol, price, after.1, flags)
    }

    fn cancel(&mut self, message: &Message) -> Result<(), FeedError> {
        let (symbol, original, price, size) = match message {
            Message::TradeCancelError(it) => (
                it.security_symbol,
                it.original_participant_reference_number,
                it.trade_price,
                shares(it.trade_volume),
            ),
            Message::FractionalTradeCancelError(it) => (
                it.security_symbol,
                it.original_participant_reference_number,
                it.trade_price,
                Qty(it.fractional_trade_volume),
            ),
            _ => return Ok(()),
        };
        let price = self.price("trade price", price)?;
        self.broken(&symbol, original, price, size)
    }

    fn status(&mut self, symbol: &[u8], status: u8, halt: u8) -> Result<(), FeedError> {
        let state = match (status, halt) {
            (b'2', b'M') => TradingState::Paused,
            (b'2', _) => TradingState::Halted,
            (b'3', _) => TradingState::Trading,
            // Indications, imbalances and price bands leave the trading state unchanged.
            _ => return Ok(()),
        };
        let instrument_id = self.number_of(symbol)?;
        let (reason, cause) = ([halt, b' ', b' ', b' '], PhaseCause::Unknown);
        self.tell(instrument_id, Action::Status { state, reason, cause });
        Ok(())
    }

    fn market_wide(&mut self, level: u8) -> Result<(), FeedError> {
        match level {
            b'1'..=b'3' => {
                let (state, reason) = (TradingState::Halted, [b'M', b'W', b'C', level]);
                let cause = PhaseCause::Unknown;
                self.tell(InstrumentId(0), Action::Status { state, reason, cause });
                Ok(())
            }
            b' ' => Ok(()),
            other => Err(self.fault("circuit breaker level", u64::from(other))),
        }
    }

    fn define(&mut self, text: &[u8], round_lot: Qty, close: Price) -> Result<(), FeedError> {
        let symbol = self.symbol(text)?;
        let (instrument_id, _) = self.feed.symbols.number_of(symbol);
        let previous_close = (close != Price(0)).then_some(close);
        self.sink.define(&Definition { instrument_id, symbol, round_lot, previous_close });
        Ok(())
    }

    fn reference(&mut self, it: &SymbolReference) -> Result<(), FeedError> {
        let close =
            self.price("previous close", it.primary_listing_market_previous_closing_price)?;
        let lot = u32::from(it.round_lot_size);
        let is_trades = self.feed.feed == CtaFeed::Trades;
        let round_lot = if is_trades { shares(lot) } else { Qty(u64::from(lot)) };
        self.define(&it.security_symbol, round_lot, close)
    }

    fn summary(&mut self, symbol: &[u8], prices: [i64; 3]) -> Result<(), FeedError> {
        let mut scaled = [Price(0); 3];
        for (scaled, price) in scaled.iter_mut().zip(prices) {
            *scaled = self.price("price of the day", price)?;
        }
        let instrument_id = self.number_of(symbol)?;
        let kinds = [PriceKind::High, PriceKind::Low, PriceKind::Close];
        for (kind, price) in kinds.into_iter().zip(scaled).filter(|(_, price)| *price != Price(0)) {
            self.tell(instrument_id, Action::DayPrice { kind, price });
        }
        Ok(())
    }
}

/// Returns the flags of a trade from its conditions: one in a short message, else four.
fn trade_flags(conditions: [u8; 4]) -> TradeFlags {
    conditions.into_iter().fold(TradeFlags::default(), |flags, condition| {
        let extended = TradeFlags::EXTENDED_HOURS.with(TradeFlags::NOT_HIGH_LOW);
        let official = TradeFlags::NOT_HIGH_LOW.with(TradeFlags::NOT_VOLUME);
        flags.with(match condition {
            b'T' | b'U' => extended,
            b'I' => TradeFlags::ODD_LOT.with(TradeFlags::NOT_HIGH_LOW),
            b'O' | b'5' | b'6' | b'X' => TradeFlags::AUCTION,
            b'M' | b'Q' => official,
            b'9' => TradeFlags::NOT_VOLUME,
            b'B' | b'C' | b'H' | b'N' | b'R' | b'V' | b'7' => TradeFlags::NOT_HIGH_LOW,
            _ => TradeFlags::default(),
        })
    })
}
