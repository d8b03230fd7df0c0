//! Writes messages to subscribers as frames.

use weir_feed::line::State;
use weir_feed::{Action, Definition, PRICE_EXPONENT};
use weir_market::conflate::{Body, BookView, Entry, MergedChanges, Message};
use weir_types::{
    AnySide, FeedState, InstrumentId, Nanos, OrderAction, Price, Qty, SessionId, Side,
};
use weir_wire::frame::put_frame;
use weir_wire::market::{
    MARKET_GROUP_COUNT_MAX, MarketChannel, MarketFlags, MarketGap, MarketInstrument, MarketLevel,
    MarketLevels, MarketOrder, MarketOrders, MarketQuote, MarketRestingOrder, MarketStatistics,
    MarketStatus, MarketTrade, StatisticsFlags, StatusReason, TradeConditions,
};
use weir_wire::market_dialogue::{MarketMessage, put_market_group};

use super::flush_slot::ChannelIndex;
use super::mirror::Mirror;

/// The recipient of a message, and the sending time.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The recipient's session.
    pub session_id: SessionId,
    /// The recipient's handle of the subscription.
    pub handle: u32,
    /// The sending time, by the wall clock.
    pub sent_at: Nanos,
}

/// Buffers for the levels and orders of groups; reused, so that no message allocates.
#[derive(Debug, Default)]
pub struct Drafts {
    levels: Vec<MarketLevel>,
    orders: Vec<MarketRestingOrder>,
}

/// Appends a message.
pub fn put_message(
    to: Address,
    message: &Message,
    mirror: &Mirror,
    drafts: &mut Drafts,
    out: &mut Vec<u8>,
) {
    let entry = &message.entry;
    let flags = flags_of(entry, mirror);
    match entry.body {
        Body::Bbo(best) => {
            let MergedChanges { change_count, first_sequence, last_sequence, ts_event, ts_recv } =
                entry.merged;
            let quote = MarketQuote {
                first_sequence,
                last_sequence,
                event_time: ts_event,
                receive_time: ts_recv,
                sending_time: to.sent_at,
                bid_px: best.bid_px,
                bid_size: best.bid_sz,
                ask_px: best.ask_px,
                ask_size: best.ask_sz,
                session_id: to.session_id,
                handle: to.handle,
                instrument_id: entry.instrument_id,
                change_count,
                flags,
            };
            put_frame(&quote, out);
        }
        Body::Book => {
            put_levels(&Outgoing { to, entry, flags, mirror }, message.depth, drafts, out);
        }
        Body::Statistics => put_frame(&statistics(to, entry, mirror), out),
        Body::Status(_) => put_frame(&status(to, entry, flags), out),
        Body::Trade(_) => put_frame(&trade(to, entry, flags), out),
        Body::Order(_) => put_frame(&order(to, entry, flags), out),
        Body::OrdersSnapshot => put_orders(&Outgoing { to, entry, flags, mirror }, drafts, out),
        Body::Gap(_) => put_frame(&gap(to, entry), out),
    }
}

/// Appends the definition of an instrument, which precedes the first message about it.
pub(super) fn put_instrument(to: Address, definition: &Definition, out: &mut Vec<u8>) {
    let instrument = MarketInstrument {
        round_lot: definition.round_lot,
        previous_close: definition.previous_close.unwrap_or(Price(0)),
        session_id: to.session_id,
        instrument_id: definition.instrument_id,
        price_exponent: PRICE_EXPONENT,
    };
    MarketMessage::Instrument(instrument, definition.symbol.as_str().as_bytes()).put(out);
}

/// Appends the state of a channel.
pub(super) fn put_channel(
    session_id: SessionId,
    wall: Nanos,
    channel: ChannelIndex,
    state: State,
    out: &mut Vec<u8>,
) {
    let channel = MarketChannel {
        sending_time: wall,
        session_id,
        channel: u32::from(channel),
        state: match state {
            State::Waiting => FeedState::Waiting,
            State::Live => FeedState::Live,
            State::Gap => FeedState::Gap,
            State::Stale => FeedState::Stale,
            State::Recovering => FeedState::Recovering,
            State::Ended => FeedState::Ended,
        },
    };
    put_frame(&channel, out);
}

fn flags_of(entry: &Entry, mirror: &Mirror) -> MarketFlags {
    let mut flags = MarketFlags::default();
    if entry.is_snapshot {
        flags = flags.with(MarketFlags::SNAPSHOT);
    }
    if mirror.is_stale(entry.instrument_id) {
        flags = flags.with(MarketFlags::STALE);
    }
    flags
}

/// A message whose content is read from the mirror: its recipient, its entry, and its flags.
struct Outgoing<'a> {
    to: Address,
    entry: &'a Entry,
    flags: MarketFlags,
    mirror: &'a Mirror,
}

fn put_levels(of: &Outgoing<'_>, depth: usize, drafts: &mut Drafts, out: &mut Vec<u8>) {
    let Outgoing { to, entry, flags, mirror } = *of;
    let levels = &mut drafts.levels;
    levels.clear();
    for side in [Side::Buy, Side::Sell] {
        mirror.levels(entry.instrument_id, side, depth, &mut |price, size, order_count| {
            levels.push(MarketLevel { price, size, order_count, side });
        });
    }
    let merged = entry.merged;
    in_pieces(&drafts.levels, |piece, has_more| {
        let message = MarketLevels {
            first_sequence: merged.first_sequence,
            last_sequence: merged.last_sequence,
            event_time: merged.ts_event,
            receive_time: merged.ts_recv,
            sending_time: to.sent_at,
            session_id: to.session_id,
            handle: to.handle,
            instrument_id: entry.instrument_id,
            change_count: merged.change_count,
            flags: if has_more { flags.with(MarketFlags::MORE) } else { flags },
        };
        put_market_group(&message, piece.iter().copied(), out);
    });
}

fn put_orders(of: &Outgoing<'_>, drafts: &mut Drafts, out: &mut Vec<u8>) {
    let Outgoing { to, entry, flags, mirror } = *of;
    let id = entry.instrument_id;
    drafts.orders.clear();
    for side in [Side::Buy, Side::Sell] {
        drafts.orders.extend(mirror.orders(id, side).map(|order| {
            let (order_id, price, size) = (order.order_id, order.price, order.size);
            MarketRestingOrder { order_id, price, size, side }
        }));
    }
    // The orders are as of the last change that the flush thread received, not of the entry.
    let as_of = mirror.last_change(id);
    in_pieces(&drafts.orders, |piece, has_more| {
        let message = MarketOrders {
            first_sequence: as_of.sequence,
            last_sequence: as_of.sequence,
            event_time: as_of.ts_event,
            receive_time: as_of.ts_recv,
            sending_time: to.sent_at,
            session_id: to.session_id,
            handle: to.handle,
            instrument_id: id,
            flags: if has_more { flags.with(MarketFlags::MORE) } else { flags },
        };
        put_market_group(&message, piece.iter().copied(), out);
    });
}

/// Splits a list into pieces that fit a message, at least one; the flag is true if another follows.
fn in_pieces<T>(all: &[T], mut put: impl FnMut(&[T], bool)) {
    if all.is_empty() {
        put(&[], false);
    }
    let mut pieces = all.chunks(MARKET_GROUP_COUNT_MAX).peekable();
    while let Some(piece) = pieces.next() {
        put(piece, pieces.peek().is_some());
    }
}

fn statistics(to: Address, entry: &Entry, mirror: &Mirror) -> MarketStatistics {
    let day = mirror.statistics(entry.instrument_id);
    let merged = entry.merged;
    let mut flags = StatisticsFlags::default();
    let marks = [
        (entry.is_snapshot, StatisticsFlags::SNAPSHOT),
        (mirror.is_stale(entry.instrument_id), StatisticsFlags::STALE),
        (day.open.is_some(), StatisticsFlags::OPEN),
        (day.high.is_some(), StatisticsFlags::HIGH),
        (day.low.is_some(), StatisticsFlags::LOW),
        (day.last.is_some(), StatisticsFlags::LAST),
    ];
    for (_, mark) in marks.into_iter().filter(|(is_set, _)| *is_set) {
        flags = flags.with(mark);
    }
    let or_zero = |price: Option<Price>| price.unwrap_or(Price(0));
    MarketStatistics {
        first_sequence: merged.first_sequence,
        last_sequence: merged.last_sequence,
        event_time: merged.ts_event,
        receive_time: merged.ts_recv,
        sending_time: to.sent_at,
        open_px: or_zero(day.open),
        high_px: or_zero(day.high),
        low_px: or_zero(day.low),
        last_px: or_zero(day.last),
        volume: day.volume,
        turnover: day.turnover,
        trade_count: day.trade_count,
        session_id: to.session_id,
        handle: to.handle,
        instrument_id: entry.instrument_id,
        change_count: merged.change_count,
        flags,
    }
}

fn status(to: Address, entry: &Entry, flags: MarketFlags) -> MarketStatus {
    let Body::Status(status) = entry.body else { unreachable!("the caller looked") };
    let merged = entry.merged;
    MarketStatus {
        first_sequence: merged.first_sequence,
        last_sequence: merged.last_sequence,
        event_time: merged.ts_event,
        receive_time: merged.ts_recv,
        sending_time: to.sent_at,
        session_id: to.session_id,
        handle: to.handle,
        instrument_id: entry.instrument_id,
        change_count: merged.change_count,
        status_reason: StatusReason(status.reason),
        state: status.state,
        flags,
        cause: status.cause,
    }
}

fn trade(to: Address, entry: &Entry, flags: MarketFlags) -> MarketTrade {
    let Body::Trade(trade) = entry.body else { unreachable!("the caller looked") };
    let merged = entry.merged;
    let mut conditions = TradeConditions(trade.flags.0 & (TradeConditions::BROKEN.0 - 1));
    if trade.is_break {
        conditions = conditions.with(TradeConditions::BROKEN);
    }
    MarketTrade {
        first_sequence: merged.first_sequence,
        last_sequence: merged.last_sequence,
        event_time: merged.ts_event,
        receive_time: merged.ts_recv,
        sending_time: to.sent_at,
        last_px: trade.price,
        last_qty: trade.size,
        match_id: trade.match_id,
        session_id: to.session_id,
        handle: to.handle,
        instrument_id: entry.instrument_id,
        venue: trade.venue.0,
        aggressor: any_side(trade.aggressor),
        conditions,
        flags,
    }
}

/// The fields of an order message for a change of an order.
#[derive(Clone, Copy, Debug)]
struct OrderChange {
    action: OrderAction,
    order_id: u64,
    new_order_id: u64,
    side: Option<Side>,
    price: Price,
    size: Qty,
    match_id: u64,
}

impl OrderChange {
    fn of(action: &Action) -> OrderChange {
        let none = OrderChange {
            action: OrderAction::Clear,
            order_id: 0,
            new_order_id: 0,
            side: None,
            price: Price(0),
            size: Qty(0),
            match_id: 0,
        };
        match *action {
            Action::Add { order_id, side, price, size } => {
                let (action, side) = (OrderAction::Add, Some(side));
                OrderChange { action, order_id, side, price, size, ..none }
            }
            Action::Execute { order_id, size, price, match_id, .. } => {
                let price = price.unwrap_or(Price(0));
                OrderChange {
                    action: OrderAction::Execute,
                    order_id,
                    size,
                    price,
                    match_id,
                    ..none
                }
            }
            Action::Reduce { order_id, size } => {
                OrderChange { action: OrderAction::Reduce, order_id, size, ..none }
            }
            Action::Delete { order_id } => {
                OrderChange { action: OrderAction::Delete, order_id, ..none }
            }
            Action::Replace { order_id, new_order_id, price, size } => {
                let action = OrderAction::Replace;
                OrderChange { action, order_id, new_order_id, price, size, ..none }
            }
            Action::Modify { order_id, price, size, keeps_priority } => {
                let in_place = OrderAction::ModifyInPlace;
                let action = if keeps_priority { in_place } else { OrderAction::Modify };
                OrderChange { action, order_id, price, size, ..none }
            }
            _ => none,
        }
    }
}

fn order(to: Address, entry: &Entry, flags: MarketFlags) -> MarketOrder {
    let Body::Order(update) = entry.body else { unreachable!("the caller looked") };
    let change = OrderChange::of(&update.action);
    let merged = entry.merged;
    MarketOrder {
        first_sequence: merged.first_sequence,
        last_sequence: merged.last_sequence,
        event_time: merged.ts_event,
        receive_time: merged.ts_recv,
        sending_time: to.sent_at,
        order_id: change.order_id,
        new_order_id: change.new_order_id,
        price: change.price,
        size: change.size,
        match_id: change.match_id,
        session_id: to.session_id,
        handle: to.handle,
        instrument_id: entry.instrument_id,
        action: change.action,
        side: any_side(change.side),
        flags,
    }
}

fn gap(to: Address, entry: &Entry) -> MarketGap {
    MarketGap {
        lost_count: u64::from(entry.merged.change_count),
        first_sequence: entry.merged.first_sequence,
        last_sequence: entry.merged.last_sequence,
        sending_time: to.sent_at,
        session_id: to.session_id,
        handle: to.handle,
        instrument_id: entry.instrument_id,
    }
}

fn any_side(side: Option<Side>) -> AnySide {
    match side {
        None => AnySide::Unknown,
        Some(Side::Buy) => AnySide::Buy,
        Some(Side::Sell) => AnySide::Sell,
    }
}

/// Returns the instrument that the recipient must know before the message.
pub(super) const fn instrument_of(message: &Message) -> InstrumentId {
    message.entry.instrument_id
}

#[cfg(test)]
mod tests {
    use weir_feed::TradingState;
    use weir_market::conflate::{Stamp, Status};
    use weir_types::PhaseCause;

    use super::*;

    #[test]
    fn a_status_has_the_state_the_reason_and_the_cause_of_its_entry() {
        let state = TradingState::Halted;
        for (reason, cause) in [(*b"HALO", PhaseCause::Operator), (*b"T1  ", PhaseCause::Unknown)] {
            let body = Body::Status(Status { state, reason, cause });
            let entry = Entry::change(InstrumentId(5), Stamp::default(), body);
            let to = Address { session_id: SessionId(11), handle: 7, sent_at: Nanos(3) };
            let told = status(to, &entry, MarketFlags::SNAPSHOT);
            assert_eq!((told.state, told.cause), (state, cause));
            assert_eq!(told.status_reason, StatusReason(reason));
        }
    }
}
