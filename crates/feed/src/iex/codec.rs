//! The decoder of IEX's feeds: turns messages into updates.
//!
//! Two messages together determine whether a security trades: its trading status and IEX's own
//! halt. The decoder stores both and reports the combined state. A sender that begins again states
//! both anew, so that those of before are forgotten.

use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use super::message::{
    AuctionInformation, Message, OfficialPrice, OperationalHaltStatus, PriceLevelUpdate,
    SecurityDirectory, SystemEvent, TradeReport, TradingStatus,
};
use super::{Iex, message};
use crate::instrument::{Definition, SymbolText};
use crate::plant::{self, Plant};
use crate::update::{
    Action, AuctionKind, PriceKind, SystemEvent as Event, TradeFlags, TradingState, Update, Venue,
};
use crate::{Context, FeedError, UpdateSink};

/// The reason reported with IEX's own halt.
const OPERATIONAL: [u8; 4] = *b"IEX ";

/// The trading condition of a security, by the messages of one run of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Condition {
    run: u64,
    trading: Option<(TradingState, [u8; 4])>,
    is_halted_by_iex: bool,
}

impl Condition {
    fn action(self) -> Option<Action> {
        let halt = self.is_halted_by_iex.then_some((TradingState::Halted, OPERATIONAL));
        let (state, reason) = halt.or(self.trading)?;
        Some(Action::Status { state, reason, cause: PhaseCause::Unknown })
    }
}

/// Returns the error for an unknown code in a field of a message of type `message_type`.
fn unknown(message_type: [u8; 1], field: &'static str, value: u8) -> FeedError {
    FeedError::Field { kind: [message_type[0], b' '], field, value: u64::from(value) }
}

/// Converts a price from IEX's 10^-4 to 10^-9.
fn price(message_type: [u8; 1], price: i64) -> Result<Price, FeedError> {
    price.checked_mul(100_000).map(Price).ok_or(FeedError::Field {
        kind: [message_type[0], b' '],
        field: "price",
        value: price.cast_unsigned(),
    })
}

fn qty(shares: u32) -> Qty {
    Qty(u64::from(shares))
}

/// Returns the flags of a trade. TOPS 1.66, appendix A: extended-hours and odd-lot trades count for
/// volume only.
fn trade_flags(conditions: u8) -> TradeFlags {
    let mut flags = TradeFlags::default();
    for (bit, meaning) in [
        (0x40, TradeFlags::EXTENDED_HOURS),
        (0x20, TradeFlags::ODD_LOT),
        (0x08, TradeFlags::AUCTION),
    ] {
        if conditions & bit != 0 {
            flags = flags.with(meaning);
        }
    }
    if conditions & 0x60 != 0 {
        flags = flags.with(TradeFlags::NOT_LAST).with(TradeFlags::NOT_HIGH_LOW);
    }
    flags
}

fn side_of(message_type: [u8; 1], side: u8) -> Result<Side, FeedError> {
    match side {
        b'8' => Ok(Side::Buy),
        b'5' => Ok(Side::Sell),
        other => Err(unknown(message_type, "side", other)),
    }
}

impl Iex {
    pub(super) fn decode_message(
        &mut self,
        context: &Context,
        message: &Message,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        match message {
            Message::SystemEvent(message) => return system(context, message, sink),
            Message::SecurityDirectory(message) => return self.directory(message, sink),
            Message::TradingStatus(message) => return self.status(context, message, sink),
            Message::OperationalHaltStatus(message) => return self.halt(context, message, sink),
            _ => {}
        }
        let Some((symbol, timestamp, action)) = action_of(message)? else { return Ok(()) };
        let instrument_id = self.number_of(symbol, sink)?;
        let ts_event = Nanos(timestamp);
        sink.update(Update { instrument_id, sequence: context.sequence, ts_event, action });
        Ok(())
    }

    /// Returns the number of a symbol; defines a new symbol in `sink`.
    fn number_of(
        &mut self,
        symbol: [u8; 8],
        sink: &mut impl UpdateSink,
    ) -> Result<InstrumentId, FeedError> {
        let (number, is_new) = self.register(symbol)?;
        if is_new {
            let symbol = *self.symbols.name_of(number).expect("it was registered");
            sink.define(&Definition {
                instrument_id: number,
                symbol,
                round_lot: Qty::ZERO,
                previous_close: None,
            });
        }
        Ok(number)
    }

    fn register(&mut self, symbol: [u8; 8]) -> Result<(InstrumentId, bool), FeedError> {
        let text = SymbolText::new(&symbol).ok_or(FeedError::Field {
            kind: *b"  ",
            field: "symbol",
            value: u64::from_be_bytes(symbol),
        })?;
        let (number, is_new) = self.symbols.number_of(text);
        if is_new {
            self.conditions.push(Condition::default());
        }
        Ok((number, is_new))
    }

    /// The condition of a security, by the messages of this run of numbers.
    fn condition_of(&mut self, number: InstrumentId) -> &mut Condition {
        let condition = &mut self.conditions[number.0 as usize - 1];
        if condition.run != self.run && !plant::is(Plant::ConditionOutlivesRun) {
            *condition = Condition { run: self.run, ..Condition::default() };
        }
        condition
    }

    fn directory(
        &mut self,
        message: &SecurityDirectory,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let close = price(message.message_type, message.adjusted_poc_price)?;
        let (instrument_id, _) = self.register(message.symbol)?;
        let symbol = *self.symbols.name_of(instrument_id).expect("it was registered");
        let round_lot = qty(message.round_lot_size);
        let previous_close = (close != Price(0)).then_some(close);
        sink.define(&Definition { instrument_id, symbol, round_lot, previous_close });
        Ok(())
    }

    fn status(
        &mut self,
        context: &Context,
        message: &TradingStatus,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let state = match message.trading_status {
            [b'H'] => TradingState::Halted,
            [b'O'] => TradingState::Auction,
            [b'P'] => TradingState::Paused,
            [b'T'] => TradingState::Trading,
            [other] => return Err(unknown(message.message_type, "trading status", other)),
        };
        let number = self.number_of(message.symbol, sink)?;
        let condition = self.condition_of(number);
        condition.trading = Some((state, message.reason));
        tell(context, number, message.timestamp, condition.action(), sink);
        Ok(())
    }

    fn halt(
        &mut self,
        context: &Context,
        message: &OperationalHaltStatus,
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        let is_halted = match message.operational_halt_status {
            [b'O'] => true,
            [b'N'] => false,
            [other] => return Err(unknown(message.message_type, "operational halt", other)),
        };
        let number = self.number_of(message.symbol, sink)?;
        let condition = self.condition_of(number);
        condition.is_halted_by_iex = is_halted;
        tell(context, number, message.timestamp, condition.action(), sink);
        Ok(())
    }
}

fn tell(
    context: &Context,
    instrument_id: InstrumentId,
    timestamp: u64,
    action: Option<Action>,
    sink: &mut impl UpdateSink,
) {
    let Some(action) = action else { return };
    let (sequence, ts_event) = (context.sequence, Nanos(timestamp));
    sink.update(Update { instrument_id, sequence, ts_event, action });
}

fn system(
    context: &Context,
    message: &SystemEvent,
    sink: &mut impl UpdateSink,
) -> Result<(), FeedError> {
    let event = match message.system_event {
        [b'O'] => Event::StartOfMessages,
        [b'S'] => Event::StartOfSystemHours,
        [b'R'] => Event::StartOfMarketHours,
        [b'M'] => Event::EndOfMarketHours,
        [b'E'] => Event::EndOfSystemHours,
        [b'C'] => Event::EndOfMessages,
        [other] => return Err(unknown(message.message_type, "system event", other)),
    };
    let action = Some(Action::System(event));
    tell(context, InstrumentId(0), message.timestamp, action, sink);
    Ok(())
}

/// Returns the update that a message makes to one security; `None` for a message without one.
fn action_of(message: &Message) -> Result<Option<([u8; 8], u64, Action)>, FeedError> {
    Ok(match message {
        Message::PriceLevelUpdate(it) => Some((it.symbol, it.timestamp, level(it)?)),
        Message::QuoteUpdate(it) => Some((it.symbol, it.timestamp, quote(it)?)),
        Message::TradeReport(it) => Some((it.symbol, it.timestamp, trade(it)?)),
        Message::OfficialPrice(it) => Some((it.symbol, it.timestamp, official(it)?)),
        Message::AuctionInformation(it) => Some((it.symbol, it.timestamp, auction(it)?)),
        Message::TradeBreak(it) => {
            let (size, price) = (qty(it.size), price(it.message_type, it.price)?);
            let action = Action::TradeBreak { match_id: it.trade_id, size, price };
            Some((it.symbol, it.timestamp, action))
        }
        Message::AddOrder(_)
        | Message::OrderModify(_)
        | Message::OrderDelete(_)
        | Message::OrderExecuted(_)
        | Message::ClearBook(_) => order_action(message)?,
        _ => None,
    })
}

/// Returns the update of a DEEP+ message to the book.
fn order_action(message: &Message) -> Result<Option<([u8; 8], u64, Action)>, FeedError> {
    Ok(match message {
        Message::AddOrder(it) => {
            let side = side_of(it.message_type, it.side[0])?;
            let (price, size) = (price(it.message_type, it.price)?, qty(it.size));
            let action = Action::Add { order_id: it.order_id, side, price, size };
            Some((it.symbol, it.timestamp, action))
        }
        Message::OrderModify(it) => {
            let (price, size) = (price(it.message_type, it.price)?, qty(it.size));
            let (order_id, keeps_priority) = (it.order_id_reference, it.modify_flags & 1 != 0);
            let action = Action::Modify { order_id, price, size, keeps_priority };
            Some((it.symbol, it.timestamp, action))
        }
        Message::OrderDelete(it) => {
            let action = Action::Delete { order_id: it.order_id_reference };
            Some((it.symbol, it.timestamp, action))
        }
        Message::OrderExecuted(it) => {
            let action = Action::Execute {
                order_id: it.order_id_reference,
                size: qty(it.size),
                price: Some(price(it.message_type, it.price)?),
                match_id: it.trade_id,
                is_printable: true,
            };
            Some((it.symbol, it.timestamp, action))
        }
        Message::ClearBook(it) => Some((it.symbol, it.timestamp, Action::Clear)),
        _ => None,
    })
}

fn level(message: &PriceLevelUpdate) -> Result<Action, FeedError> {
    if message.event_flags > 1 {
        return Err(unknown(message.message_type, "event flags", message.event_flags));
    }
    Ok(Action::Level {
        side: side_of(message.message_type, message.message_type[0])?,
        price: price(message.message_type, message.price)?,
        size: qty(message.size),
        order_count: 0,
        is_last: message.event_flags == 1,
    })
}

fn quote(message: &message::QuoteUpdate) -> Result<Action, FeedError> {
    Ok(Action::Quote {
        venue: Venue::default(),
        bid_px: price(message.message_type, message.bid_price)?,
        bid_sz: qty(message.bid_size),
        ask_px: price(message.message_type, message.ask_price)?,
        ask_sz: qty(message.ask_size),
    })
}

fn trade(message: &TradeReport) -> Result<Action, FeedError> {
    Ok(Action::Trade {
        venue: Venue::default(),
        aggressor: None,
        price: price(message.message_type, message.price)?,
        size: qty(message.size),
        match_id: message.trade_id,
        flags: trade_flags(message.sale_condition_flags),
    })
}

fn official(message: &OfficialPrice) -> Result<Action, FeedError> {
    let kind = match message.price_type {
        [b'Q'] => PriceKind::Open,
        [b'M'] => PriceKind::Close,
        [other] => return Err(unknown(message.message_type, "price type", other)),
    };
    Ok(Action::DayPrice { kind, price: price(message.message_type, message.official_price)? })
}

fn auction(message: &AuctionInformation) -> Result<Action, FeedError> {
    let kind = match message.auction_type {
        [b'O'] => AuctionKind::Opening,
        [b'C'] => AuctionKind::Closing,
        [b'I' | b'H' | b'V'] => AuctionKind::Halt,
        [other] => return Err(unknown(message.message_type, "auction type", other)),
    };
    let side = match message.imbalance_side {
        [b'B'] => Some(Side::Buy),
        [b'S'] => Some(Side::Sell),
        [b'N'] => None,
        [other] => return Err(unknown(message.message_type, "imbalance side", other)),
    };
    Ok(Action::Auction {
        kind,
        price: price(message.message_type, message.indicative_clearing_price)?,
        paired: qty(message.paired_shares),
        imbalance: qty(message.imbalance_shares),
        side,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iex::Protocol;
    use crate::{CollectedUpdates, Feed as _};

    fn told(feed: &mut Iex, message: &[u8]) -> Vec<Action> {
        let context = Context { sequence: 1, channel: 1, ts_send: Nanos(0) };
        let mut told = CollectedUpdates::default();
        feed.decode(&context, message, &mut told).expect("it is understood");
        told.updates.iter().map(|update| update.action).collect()
    }

    #[test]
    fn a_halt_of_before_a_restart_says_nothing_about_the_state_behind_it() {
        let halt = [&b"OO"[..], &[0; 8], b"WEIR    "].concat();
        let trading = [&b"HT"[..], &[0; 8], b"WEIR    ", b"    "].concat();
        let cause = PhaseCause::Unknown;
        let halted = Action::Status { state: TradingState::Halted, reason: OPERATIONAL, cause };
        let open = Action::Status { state: TradingState::Trading, reason: *b"    ", cause };
        let mut feed = Iex::new(Protocol::Deep);
        feed.of_run(1);
        assert_eq!(told(&mut feed, &halt), [halted]);
        assert_eq!(told(&mut feed, &trading), [halted]);
        feed.of_run(2);
        assert_eq!(told(&mut feed, &trading), [open]);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_condition_that_outlives_its_run_is_found() {
        plant::set(Some(Plant::ConditionOutlivesRun));
        let test = a_halt_of_before_a_restart_says_nothing_about_the_state_behind_it;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }
}
