//! The decoder of DBN: turns records into updates.
//!
//! | record | update |
//! | --- | --- |
//! | `mbo` | `A` `Add`, `M` `Modify`, `C` `Reduce`, `R` `Clear`, `T` `Trade`; `F` and `N` nothing |
//! | `mbp-1`, `tbbo` | `Trade` for `T`; `Quote`; `Consolidated` where the best changed |
//! | `bbo-1s`, `bbo-1m` | `Quote`, `Consolidated` |
//! | `mbp-10` | `Trade` for `T`; a `Level` for each that changed |
//! | `trades` | `Trade` |
//! | `status` | `Status` |
//! | `statistics` | `DayPrice` for opening, lowest, highest and closing price |
//! | `definition`, symbol mapping | a definition |

use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use super::Dbn;
use super::orders::OrderKey;
use super::record::{
    BidAsk, InstrumentDef, LEVELS, Mbo, RecordHeader, Stat, Status, SymbolMapping, Trade,
    UNDEF_PRICE, flag, rtype,
};
use crate::instrument::SymbolText;
use crate::update::{Action, PriceKind, TradeFlags, TradingState, Update, Venue};
use crate::{Context, FeedError, UpdateSink};

/// The instrument, sequence number and time of an update.
#[derive(Clone, Copy)]
struct UpdateHeader {
    id: InstrumentId,
    sequence: u64,
    ts_event: Nanos,
}

impl UpdateHeader {
    fn update(self, action: Action) -> Update {
        let UpdateHeader { id: instrument_id, sequence, ts_event } = self;
        Update { instrument_id, sequence, ts_event, action }
    }
}

impl Dbn {
    /// Decodes a record.
    pub(super) fn record(
        &mut self,
        context: &Context,
        record: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let (len, header_len) = (record.len(), RecordHeader::LEN);
        let short = FeedError::ShortPacket { len, header_len };
        let header = RecordHeader::read(record).ok_or(short)?;
        let body = &record[RecordHeader::LEN..];
        if self.says_it_again(&header) {
            return Ok(());
        }
        match header.rtype {
            rtype::MBO => {
                self.order(context, &header, read(&header, body, Mbo::LEN, Mbo::read)?, sink)
            }
            rtype::MBP_0 => {
                let trade = self.trade(&header, body)?;
                self.tell(context, &header, sink, [Some(trade)]);
                Ok(())
            }
            rtype::MBP_1 | rtype::BBO_1S | rtype::BBO_1M => {
                self.quote(context, &header, body, sink)
            }
            rtype::MBP_10 => self.ten_levels(context, &header, body, sink),
            rtype::STATUS => {
                let status = read(&header, body, Status::LEN, Status::read)?;
                let state = trading_state(status.action);
                let state = state.map_err(|value| wrong(&header, "action", u64::from(value)))?;
                let reason = digits(status.reason);
                let cause = PhaseCause::Unknown;
                let action = state.map(|state| Action::Status { state, reason, cause });
                self.tell(context, &header, sink, [action]);
                Ok(())
            }
            rtype::STATISTICS => {
                let action = day_price(&read(&header, body, Stat::LEN, Stat::read)?);
                self.tell(context, &header, sink, [action]);
                Ok(())
            }
            rtype::INSTRUMENT_DEF => {
                let def = read(&header, body, InstrumentDef::LEN, InstrumentDef::read)?;
                let symbol = symbol(&header, &def.raw_symbol)?;
                self.name(header.instrument_id, symbol, def.min_lot_size_round_lot, sink);
                Ok(())
            }
            rtype::SYMBOL_MAPPING => {
                let mapping = read(&header, body, SymbolMapping::LEN, SymbolMapping::read)?;
                let symbol = symbol(&header, &mapping.stype_out_symbol)?;
                self.name(header.instrument_id, symbol, 0, sink);
                Ok(())
            }
            kind if rtype::PASSED_OVER.contains(&kind) => Ok(()),
            kind => Err(FeedError::UnknownType { kind: [kind, 0] }),
        }
    }

    /// Returns true when another type of records already provides the same book or trades: in a
    /// file with several types, the first one builds an instrument's book.
    fn says_it_again(&mut self, header: &RecordHeader) -> bool {
        let has_trades = |kind: u8| !matches!(kind, rtype::BBO_1S | rtype::BBO_1M);
        match header.rtype {
            rtype::MBP_0 => self.known_or_new(header.instrument_id).source.is_some_and(has_trades),
            // Records of all instruments build no book.
            rtype::MBO if header.instrument_id == 0 => false,
            kind @ (rtype::MBO | rtype::MBP_1 | rtype::MBP_10 | rtype::BBO_1S | rtype::BBO_1M) => {
                let known = self.known_or_new(header.instrument_id);
                *known.source.get_or_insert(kind) != kind
            }
            _ => false,
        }
    }

    fn tell<const N: usize>(
        &mut self,
        context: &Context,
        header: &RecordHeader,
        sink: &mut impl UpdateSink,
        actions: [Option<Action>; N],
    ) {
        if actions.iter().all(Option::is_none) {
            return;
        }
        let id = self.instrument(header.instrument_id, sink).id;
        let place =
            UpdateHeader { id, sequence: context.sequence, ts_event: Nanos(header.ts_event) };
        actions.into_iter().flatten().for_each(|action| sink.update(place.update(action)));
    }

    fn order(
        &mut self,
        context: &Context,
        header: &RecordHeader,
        mbo: Mbo,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        check_flags(header, mbo.flags)?;
        self.check_publisher(header)?;
        let (order_id, size) = (mbo.order_id, Qty(u64::from(mbo.size)));
        let key = OrderKey { instrument_id: header.instrument_id, order_id };
        let action = match mbo.action {
            b'A' => {
                let action = Action::Add {
                    order_id,
                    side: side(header, mbo.side)?,
                    price: price(header, mbo.price)?,
                    size,
                };
                self.orders.set(key, mbo.size);
                action
            }
            b'M' => {
                let price = price(header, mbo.price)?;
                let before = self.orders.set(key, mbo.size);
                // At another price it loses its priority, regardless of this flag.
                let keeps_priority = before.is_none_or(|before| mbo.size <= before);
                Action::Modify { order_id, price, size, keeps_priority }
            }
            b'C' => {
                self.orders.reduce(key, mbo.size);
                Action::Reduce { order_id, size }
            }
            b'R' => {
                self.orders.clear(header.instrument_id);
                return self.clear(context, header, sink);
            }
            b'T' => print(header, mbo.side, mbo.price, mbo.size)?,
            // Other records report the trade, and the order's remaining size.
            b'F' | b'N' => return Ok(()),
            other => return Err(wrong(header, "action", u64::from(other))),
        };
        self.tell(context, header, sink, [Some(action)]);
        Ok(())
    }

    /// Clears the orders and levels of an instrument, or of all instruments when the record names
    /// none.
    fn clear(
        &mut self,
        context: &Context,
        header: &RecordHeader,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        if header.instrument_id == 0 {
            let ts_event = Nanos(header.ts_event);
            let place = UpdateHeader { id: InstrumentId(0), sequence: context.sequence, ts_event };
            sink.update(place.update(Action::Clear));
        } else {
            self.tell(context, header, sink, [Some(Action::Clear)]);
        }
        Ok(())
    }

    fn trade(&self, header: &RecordHeader, body: &[u8]) -> Result<Action, FeedError> {
        let trade = read(header, body, Trade::LEN, Trade::read)?;
        print(header, trade.side, trade.price, trade.size)
    }

    fn quote(
        &mut self,
        context: &Context,
        header: &RecordHeader,
        body: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let head = read(header, body, Trade::LEN, Trade::read)?;
        let best = read(header, &body[Trade::LEN..], BidAsk::LEN, BidAsk::read)?;
        check_flags(header, head.flags & flag::MAYBE_BAD_BOOK)?;
        let trade = trade_of(header, &head)?;
        let side = |price, size| match price {
            UNDEF_PRICE => (Price(0), Qty(0)),
            price => (Price(price), Qty(u64::from(size))),
        };
        let (bid_px, bid_sz) = side(best.bid_px, best.bid_sz);
        let (ask_px, ask_sz) = side(best.ask_px, best.ask_sz);
        let venue = venue(header);
        let quote = Action::Quote { venue, bid_px, bid_sz, ask_px, ask_sz };
        let id = self.instrument(header.instrument_id, sink).id;
        let best = self.best.update(id, &quote);
        self.tell(context, header, sink, [trade, Some(quote), best]);
        Ok(())
    }

    fn ten_levels(
        &mut self,
        context: &Context,
        header: &RecordHeader,
        body: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let head = read(header, body, Trade::LEN, Trade::read)?;
        let mut rest = &body[Trade::LEN..];
        let mut shown =
            [BidAsk { bid_px: 0, ask_px: 0, bid_sz: 0, ask_sz: 0, bid_ct: 0, ask_ct: 0 }; LEVELS];
        for level in &mut shown {
            *level = read(header, rest, BidAsk::LEN, BidAsk::read)?;
            rest = &rest[BidAsk::LEN..];
        }
        check_flags(header, head.flags & flag::MAYBE_BAD_BOOK)?;
        let trade = trade_of(header, &head)?;
        self.check_publisher(header)?;
        self.tell(context, header, sink, [trade]);
        let known = self.instrument(header.instrument_id, sink);
        let (sequence, ts_event) = (context.sequence, Nanos(header.ts_event));
        let place = UpdateHeader { id: known.id, sequence, ts_event };
        let levels = known.levels.get_or_insert_default();
        if head.action == b'R' {
            levels.clear();
            sink.update(place.update(Action::Clear));
        }
        levels.show(&shown, |action| sink.update(place.update(action)));
        Ok(())
    }

    /// Refuses orders and levels of a second publisher: they would form another book.
    fn check_publisher(&mut self, header: &RecordHeader) -> Result<(), FeedError> {
        let known = self.known_or_new(header.instrument_id);
        let first = *known.publisher.get_or_insert(header.publisher_id);
        if first == header.publisher_id {
            return Ok(());
        }
        Err(wrong(header, "publisher_id", u64::from(header.publisher_id)))
    }
}

/// Reads a part of a record after its header.
fn read<T>(
    header: &RecordHeader,
    body: &[u8],
    want: usize,
    layout: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, FeedError> {
    let wrong = FeedError::Length { kind: [header.rtype, 0], len: body.len(), want };
    layout(body).ok_or(wrong)
}

fn wrong(header: &RecordHeader, field: &'static str, value: u64) -> FeedError {
    FeedError::Field { kind: [header.rtype, 0], field, value }
}

/// Refuses records that are no order, or that follow a loss at the sender.
fn check_flags(header: &RecordHeader, flags: u8) -> Result<(), FeedError> {
    let bad = flags & (flag::TOB | flag::MBP | flag::MAYBE_BAD_BOOK);
    if bad == 0 { Ok(()) } else { Err(wrong(header, "flags", u64::from(bad))) }
}

fn price(header: &RecordHeader, price: i64) -> Result<Price, FeedError> {
    if price == UNDEF_PRICE {
        return Err(wrong(header, "price", price.cast_unsigned()));
    }
    Ok(Price(price))
}

fn side(header: &RecordHeader, code: u8) -> Result<Side, FeedError> {
    match code {
        b'B' => Ok(Side::Buy),
        b'A' => Ok(Side::Sell),
        other => Err(wrong(header, "side", u64::from(other))),
    }
}

/// Returns a dataset's publisher as a venue; zero when its number does not fit.
fn venue(header: &RecordHeader) -> Venue {
    Venue(u8::try_from(header.publisher_id).unwrap_or(0))
}

/// Returns a trade, from the side of the incoming order, price and size.
fn print(header: &RecordHeader, code: u8, px: i64, size: u32) -> Result<Action, FeedError> {
    let aggressor = if code == b'N' { None } else { Some(side(header, code)?) };
    Ok(Action::Trade {
        venue: venue(header),
        aggressor,
        price: price(header, px)?,
        size: Qty(u64::from(size)),
        match_id: 0,
        flags: TradeFlags::default(),
    })
}

/// Returns the trade of a record that also has levels, if it is one.
fn trade_of(header: &RecordHeader, head: &Trade) -> Result<Option<Action>, FeedError> {
    // The records of each second or minute repeat the last trade's price.
    let is_trade = head.action == b'T' && !matches!(header.rtype, rtype::BBO_1S | rtype::BBO_1M);
    if is_trade { print(header, head.side, head.price, head.size).map(Some) } else { Ok(None) }
}

/// Returns the trading state of a status action; `None` for an action that is no state.
fn trading_state(action: u16) -> Result<Option<TradingState>, u16> {
    Ok(Some(match action {
        // Pre-open, auction calls, indications, pre-close.
        1..=6 | 11 => TradingState::Quoting,
        7 => TradingState::Trading,
        9 => TradingState::Paused,
        // Halted, suspended, closed, post-close, not available.
        8 | 10 | 12 | 13 | 15 => TradingState::Halted,
        0 | 14 => return Ok(None),
        other => return Err(other),
    }))
}

/// Returns the last four digits of a reason, padded with spaces.
fn digits(reason: u16) -> [u8; 4] {
    let (mut text, mut rest) = ([b' '; 4], reason % 10_000);
    let len = rest.checked_ilog10().unwrap_or(0) as usize;
    for at in (0..=len).rev() {
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

/// Returns the price of the day in a statistic that is new and has a price.
fn day_price(stat: &Stat) -> Option<Action> {
    let kind = match stat.stat_type {
        1 => PriceKind::Open,
        4 => PriceKind::Low,
        5 => PriceKind::High,
        11 => PriceKind::Close,
        _ => return None,
    };
    let is_there = stat.update_action == 1 && stat.price != UNDEF_PRICE;
    is_there.then_some(Action::DayPrice { kind, price: Price(stat.price) })
}

fn symbol(header: &RecordHeader, text: &[u8]) -> Result<SymbolText, FeedError> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let refused = wrong(header, "symbol", end as u64);
    SymbolText::new(&text[..end]).ok_or(refused)
}
