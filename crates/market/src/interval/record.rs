//! Plain values: the input and output of statistics by interval.

use weir_feed::update::{Action, TradeFlags, Update, Venue};
use weir_types::{InstrumentId, Nanos, Price, Qty, TradingState};

use crate::book::{BestBidOffer, BestChange, Change};

/// Billionths, the unit of relative spreads.
const BILLION: u128 = 1_000_000_000;

/// The best bid and offer by price and quantity. An empty side has size and price zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// The highest bid, in 10^-9.
    pub bid_px: Price,
    /// The total quantity bid at that price, in the feed's units.
    pub bid_sz: Qty,
    /// The lowest offer, in 10^-9.
    pub ask_px: Price,
    /// The total quantity offered at that price.
    pub ask_sz: Qty,
}

impl From<&BestBidOffer> for Quote {
    fn from(best: &BestBidOffer) -> Quote {
        let BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, .. } = *best;
        Quote { bid_px, bid_sz, ask_px, ask_sz }
    }
}

impl Quote {
    /// Returns the bid, if there is one.
    #[must_use]
    pub fn bid(&self) -> Option<(Price, Qty)> {
        (!self.bid_sz.is_zero()).then_some((self.bid_px, self.bid_sz))
    }

    /// Returns the offer, if there is one.
    #[must_use]
    pub fn ask(&self) -> Option<(Price, Qty)> {
        (!self.ask_sz.is_zero()).then_some((self.ask_px, self.ask_sz))
    }

    /// Returns the two-sided market, if both sides exist and the bid is not above the offer.
    #[must_use]
    pub fn market(&self) -> Option<Market> {
        let ((bid, _), (ask, _)) = (self.bid()?, self.ask()?);
        let (bid, ask) = (i128::from(bid.0), i128::from(ask.0));
        let spread = u64::try_from(ask - bid).ok()?;
        let relative = u128::try_from(bid + ask).ok().filter(|sum| *sum > 0).map(|sum| {
            // The mid price is half of the sum; a u64 times 2 * 10^9 fits.
            let billionths = u128::from(spread) * 2 * BILLION / sum;
            u64::try_from(billionths).unwrap_or(u64::MAX)
        });
        Some(Market { spread, sum: bid + ask, relative })
    }
}

/// A bid and an offer not below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Market {
    /// Offer minus bid, in 10^-9.
    pub spread: u64,
    /// Bid plus offer: twice the mid price, in 10^-9.
    pub sum: i128,
    /// The spread relative to the mid price, in billionths, rounded down, at most 2^64 - 1; `None`
    /// where the mid price is not above zero.
    pub relative: Option<u64>,
}

/// An action on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderAct {
    /// The order was added.
    Add,
    /// The order traded.
    Execute,
    /// The order was reduced.
    Reduce,
    /// The order was deleted.
    Delete,
    /// The order was replaced by another.
    Replace,
    /// The price or quantity of the order changed.
    Modify,
}

/// An action on an order, or a trade, of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The channel of the message.
    pub channel: u16,
    /// The action on an order, if any.
    pub order: Option<OrderAct>,
    /// True for a trade that counts for the volume.
    pub is_trade: bool,
    /// True for a trade break.
    pub is_break: bool,
    /// The sequence number of the source's message.
    pub sequence: u64,
    /// The time of the event by the venue's clock.
    pub ts_event: Nanos,
    /// The quantity added by new or grown orders.
    pub added: Qty,
    /// The quantity removed from resting orders.
    pub removed: Qty,
    /// The traded quantity.
    pub traded: Qty,
}

impl Activity {
    /// Returns the activity of an update, from the change that the books reported; `None` when it
    /// is neither an order nor a trade, or its instrument is unknown.
    #[must_use]
    pub fn of(channel: u16, update: &Update, change: &Change) -> Option<Activity> {
        let order = match update.action {
            Action::Add { .. } => Some(OrderAct::Add),
            Action::Execute { .. } => Some(OrderAct::Execute),
            Action::Reduce { .. } => Some(OrderAct::Reduce),
            Action::Delete { .. } => Some(OrderAct::Delete),
            Action::Replace { .. } => Some(OrderAct::Replace),
            Action::Modify { .. } => Some(OrderAct::Modify),
            _ => None,
        };
        let trade = change.trade.filter(|trade| !trade.flags.contains(TradeFlags::NOT_VOLUME));
        let (is_trade, is_break) = (trade.is_some(), change.has_trade_break);
        let is_some = order.is_some() || is_trade || is_break;
        (is_some && change.instrument_id != InstrumentId(0)).then_some(Activity {
            instrument_id: change.instrument_id,
            channel,
            order,
            is_trade,
            is_break,
            sequence: update.sequence,
            ts_event: update.ts_event,
            added: change.added,
            removed: change.removed,
            traded: trade.map_or(Qty::ZERO, |trade| trade.size),
        })
    }
}

/// A change of the best bid and offer of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteChange {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The channel of the message.
    pub channel: u16,
    /// True when the quote does not depend on earlier messages, so that earlier gaps cannot affect
    /// it.
    pub is_whole: bool,
    /// The trading state, as far as known, for a builder that missed its change.
    pub state: Option<TradingState>,
    /// The sequence number of the source's message.
    pub sequence: u64,
    /// The time of the change by the venue's clock.
    pub ts_event: Nanos,
    /// The new best bid and offer.
    pub quote: Quote,
}

impl QuoteChange {
    /// Returns the quote change of an update, from the change that the books reported; `None` when
    /// prices and quantities of the best bid and offer stay the same.
    #[must_use]
    pub fn of(
        channel: u16,
        state: Option<TradingState>,
        update: &Update,
        change: &Change,
    ) -> Option<QuoteChange> {
        if change.instrument_id == InstrumentId(0) {
            return None;
        }
        let is_cleared = change.is_cleared;
        let is_stated = matches!(update.action, Action::Quote { venue: Venue(0), .. });
        let quote = match &change.best {
            Some(BestChange { old, new }) => {
                let (old, new) = (Quote::from(old), Quote::from(new));
                (is_cleared || is_stated || old != new).then_some(new)?
            }
            None => is_cleared.then(Quote::default)?,
        };
        Some(QuoteChange {
            instrument_id: change.instrument_id,
            channel,
            is_whole: is_cleared || is_stated,
            state,
            sequence: update.sequence,
            ts_event: update.ts_event,
            quote,
        })
    }
}

/// A change of an instrument's trading state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The instrument; zero for all known ones.
    pub instrument_id: InstrumentId,
    /// The channel of the message.
    pub channel: u16,
    /// The new trading state.
    pub state: TradingState,
    /// The sequence number of the source's message.
    pub sequence: u64,
    /// The time of the change by the venue's clock.
    pub ts_event: Nanos,
}

impl StateChange {
    /// Returns the state change of an update, from the change that the books reported.
    #[must_use]
    pub fn of(channel: u16, update: &Update, change: &Change) -> Option<StateChange> {
        let &Update { sequence, ts_event, .. } = update;
        let instrument_id = change.instrument_id;
        change.status.map(|state| StateChange { instrument_id, channel, state, sequence, ts_event })
    }
}

/// An instrument's book from a complete snapshot. It is no change of the book: events between the
/// previous state and the snapshot were not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookStatement {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The channel of the instrument.
    pub channel: u16,
    /// The trading state, where known.
    pub state: Option<TradingState>,
    /// The best bid and offer.
    pub quote: Quote,
}

/// A change of all books of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelReset {
    /// The source states that they are empty.
    Emptied,
    /// Their contents are discarded for a snapshot that is under way or has failed.
    GivenUp,
    /// A new session begins.
    NewSession,
}

/// The statistics of an instrument's interval. Prices and spreads in 10^-9, quantities in the
/// feed's units, durations in nanoseconds of the venue's clock. Sums of quantities saturate at 2^64
/// - 1.
///
/// `two_sided`, `crossed`, `one_sided` and `empty` add up to the time over which the quote was
/// known. That is less than the interval when the quote became known or unknown within it, or when
/// the feed was silent for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalStatistics {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The start of the interval.
    pub start: Nanos,
    /// The sequence numbers of the first and the last message counted; `None` without any.
    pub sequences: Option<(u64, u64)>,
    /// The quote at the start of the interval, or else the first one within it; `None` without any.
    pub first: Option<Quote>,
    /// The quote at the end; `None` when unknown.
    pub last: Option<Quote>,
    /// Changes of price or quantity of the best bid or offer.
    pub quote_changes: u64,
    /// Quote changes in which a price changed, or a side appeared or disappeared.
    pub price_changes: u64,
    /// The time with a bid and an offer, the bid not above the offer.
    pub two_sided: u64,
    /// The part of `two_sided` with both at the same price.
    pub locked: u64,
    /// The time with the bid above the offer.
    pub crossed: u64,
    /// The time with only a bid or only an offer.
    pub one_sided: u64,
    /// The time with neither.
    pub empty: u64,
    /// The smallest spread of all quotes with a bid not above the offer, however short-lived.
    pub spread_min: Option<u64>,
    /// The largest such spread.
    pub spread_max: Option<u64>,
    /// The sum over `two_sided` of spread times duration.
    pub spread_time: u128,
    /// The sum over `two_sided` of relative spread times duration, in billionths, each spread
    /// rounded down; `None` when a mid price was not above zero.
    pub relative_time: Option<u128>,
    /// The sum over `two_sided` of bid plus offer (twice the mid price) times duration.
    pub sum_time: i128,
    /// The sum over `two_sided` of the bid's quantity times duration.
    pub bid_size_time: u128,
    /// The sum over `two_sided` of the offer's quantity times duration.
    pub ask_size_time: u128,
    /// Changes of the mid price from the previous known one, with a bid not above the offer.
    pub mid_changes: u64,
    /// The sum over `mid_changes` of the squared change of bid plus offer, in 10^-18: four times
    /// the sum of squared moves of the mid price. `None` on overflow.
    pub sum_moves_squared: Option<u128>,
    /// The time in continuous trading.
    pub trading: u64,
    /// The time before an auction, when only quotes or orders are accepted.
    pub auction: u64,
    /// The time paused by a volatility rule.
    pub paused: u64,
    /// The time halted.
    pub halted: u64,
    /// The time closed, or before the open.
    pub closed: u64,
    /// Orders added.
    pub adds: u64,
    /// Executions of resting orders.
    pub executions: u64,
    /// Orders reduced.
    pub reductions: u64,
    /// Orders deleted.
    pub deletions: u64,
    /// Orders replaced.
    pub replacements: u64,
    /// Orders whose price or quantity changed.
    pub modifications: u64,
    /// The quantity added by new or grown orders.
    pub added: Qty,
    /// The quantity of resting orders that traded.
    pub executed: Qty,
    /// The quantity of resting orders removed without trading.
    pub cancelled: Qty,
    /// Trades that count for the volume.
    pub trades: u64,
    /// The traded quantity.
    pub volume: Qty,
    /// Trades that were undone.
    pub breaks: u64,
    /// Events reported with a time before `start`.
    pub late_count: u64,
    /// False when the session ended, or the feed fell silent, before the interval was over.
    pub is_complete: bool,
    /// False when missed messages, in this interval or earlier, may have changed the quote or
    /// trading state, and the instrument's book was not refreshed since.
    pub is_certain: bool,
    /// True when missed messages may have counted here.
    pub has_gap: bool,
}
