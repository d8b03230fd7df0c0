//! What goes into statistics by interval and what comes out: plain values.

use weir_types::{InstrumentId, Nanos, Price, Qty, TradingState};

use crate::book::{BestBidOffer, BestChange, Change};
use crate::update::{Action, TradeFlags, Update, Venue};

/// Billionths: what relative spreads are counted in.
const BILLION: u128 = 1_000_000_000;

/// The best bid and offer by price and quantity. A side without one has size and price zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// The highest bid, in 10^-9.
    pub bid_px: Price,
    /// All that is bid for there, in the feed's units.
    pub bid_sz: Qty,
    /// The lowest offer, in 10^-9.
    pub ask_px: Price,
    /// All that is offered there.
    pub ask_sz: Qty,
}

impl From<&BestBidOffer> for Quote {
    fn from(best: &BestBidOffer) -> Quote {
        let BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, .. } = *best;
        Quote { bid_px, bid_sz, ask_px, ask_sz }
    }
}

impl Quote {
    /// The bid; `None` when there is none.
    #[must_use]
    pub fn bid(&self) -> Option<(Price, Qty)> {
        (!self.bid_sz.is_zero()).then_some((self.bid_px, self.bid_sz))
    }

    /// The offer; `None` when there is none.
    #[must_use]
    pub fn ask(&self) -> Option<(Price, Qty)> {
        (!self.ask_sz.is_zero()).then_some((self.ask_px, self.ask_sz))
    }

    /// Bid and offer where both are there and the bid is not above the offer.
    #[must_use]
    pub fn market(&self) -> Option<Market> {
        let ((bid, _), (ask, _)) = (self.bid()?, self.ask()?);
        let (bid, ask) = (i128::from(bid.0), i128::from(ask.0));
        let spread = u64::try_from(ask - bid).ok()?;
        let relative = u128::try_from(bid + ask).ok().filter(|sum| *sum > 0).map(|sum| {
            // Half of the sum is the middle; u64 times 2 * 10^9 fits.
            let billionths = u128::from(spread) * 2 * BILLION / sum;
            u64::try_from(billionths).unwrap_or(u64::MAX)
        });
        Some(Market { spread, sum: bid + ask, relative })
    }
}

/// A bid and an offer that is not below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Market {
    /// Offer less bid, in 10^-9.
    pub spread: u64,
    /// Bid and offer together: twice the middle, in 10^-9.
    pub sum: i128,
    /// The spread by the middle, in billionths, rounded down, at most 2^64 - 1; `None` where the
    /// middle is not above zero.
    pub relative: Option<u64>,
}

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderAct {
    /// It came to rest.
    Add,
    /// It traded.
    Execute,
    /// It got smaller.
    Reduce,
    /// It is gone.
    Delete,
    /// Another took its place.
    Replace,
    /// It has another price or quantity.
    Modify,
}

/// An order or a trade of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The channel that it came by.
    pub channel: u16,
    /// What happened to an order.
    pub order: Option<OrderAct>,
    /// A trade that counts for the volume.
    pub is_trade: bool,
    /// A trade is undone.
    pub is_break: bool,
    /// The number of the source's message.
    pub sequence: u64,
    /// When it happened by the venue's clock.
    pub ts_event: Nanos,
    /// By so much orders came to rest or grew.
    pub added: Qty,
    /// By so much orders are gone or shrank.
    pub removed: Qty,
    /// What traded.
    pub traded: Qty,
}

impl Activity {
    /// What an update, by what the books said of it, is for statistics; `None` when it is neither
    /// an order nor a trade, or nobody knows whose.
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

/// The best bid and offer of an instrument is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The channel that it came by.
    pub channel: u16,
    /// Nothing that was missed before can be in it: it does not follow from what stood before.
    pub is_whole: bool,
    /// How the instrument trades, as far as it is known: for who was not told before.
    pub state: Option<TradingState>,
    /// The number of the source's message.
    pub sequence: u64,
    /// When it happened by the venue's clock.
    pub ts_event: Nanos,
    /// What it is.
    pub quote: Quote,
}

impl Quoted {
    /// What an update, by what the books said of it, is for statistics; `None` when it leaves
    /// prices and quantities of the best bid and offer as they were.
    #[must_use]
    pub fn of(
        (channel, state): (u16, Option<TradingState>),
        update: &Update,
        change: &Change,
    ) -> Option<Quoted> {
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
        Some(Quoted {
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

/// How an instrument trades is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Whose; zero for all that are known.
    pub instrument_id: InstrumentId,
    /// The channel that it came by.
    pub channel: u16,
    /// How it trades.
    pub state: TradingState,
    /// The number of the source's message.
    pub sequence: u64,
    /// When it happened by the venue's clock.
    pub ts_event: Nanos,
}

impl Called {
    /// What an update, by what the books said of it, is for statistics.
    #[must_use]
    pub fn of(channel: u16, update: &Update, change: &Change) -> Option<Called> {
        let &Update { sequence, ts_event, .. } = update;
        let instrument_id = change.instrument_id;
        change.status.map(|state| Called { instrument_id, channel, state, sequence, ts_event })
    }
}

/// A snapshot is whole: an instrument's book as it is from now on. No change of it: what lies
/// between what was known before and this was not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookStated {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// The channel that it is of.
    pub channel: u16,
    /// How it trades, where that is known.
    pub state: Option<TradingState>,
    /// Its best bid and offer.
    pub quote: Quote,
}

/// What became of all books of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voided {
    /// The source says that they are empty.
    Emptied,
    /// What they hold is given up for a snapshot that is under way, or that failed.
    GivenUp,
    /// Another session begins.
    NewSession,
}

/// An instrument's interval. Prices and spreads in 10^-9, quantities in the feed's units, durations
/// in nanoseconds of the venue's clock. Counts of quantities stand at 2^64 - 1 where they would be
/// more.
///
/// `two_sided`, `crossed`, `one_sided` and `empty` add up to the time over which the quote was
/// known, which is less than the interval where that was learnt, or forgotten, within it, or the
/// feed was silent for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalStatistics {
    /// Whose.
    pub instrument_id: InstrumentId,
    /// Where the interval begins.
    pub start: Nanos,
    /// The numbers of the first and the last message that counted here; `None` when nothing
    /// happened.
    pub sequences: Option<(u64, u64)>,
    /// The quote that stood when the interval began, or else the first that was heard of in it;
    /// `None` when none was.
    pub first: Option<Quote>,
    /// The quote that stood when it ended; `None` when it was not known.
    pub last: Option<Quote>,
    /// Times that price or quantity of the best bid or offer became another.
    pub quote_changes: u64,
    /// Of them those in which a price did, or a side came or went.
    pub price_changes: u64,
    /// With bid and offer, the bid not above the offer.
    pub two_sided: u64,
    /// Of it with both at the same price.
    pub locked: u64,
    /// With the bid above the offer.
    pub crossed: u64,
    /// With a bid or an offer alone.
    pub one_sided: u64,
    /// Without either.
    pub empty: u64,
    /// The smallest spread of the quotes that stood or came, however short, with a bid not above
    /// the offer.
    pub spread_min: Option<u64>,
    /// The largest.
    pub spread_max: Option<u64>,
    /// The sum over `two_sided` of spread times duration.
    pub spread_time: u128,
    /// The same of the spread by the middle, in billionths, each rounded down; `None` when a middle
    /// was not above zero.
    pub relative_time: Option<u128>,
    /// The same of bid and offer together, which is twice the middle.
    pub sum_time: i128,
    /// The same of the bid's quantity.
    pub bid_size_time: u128,
    /// The same of the offer's.
    pub ask_size_time: u128,
    /// Times that the middle was another than the one known before, with a bid not above the offer.
    pub mid_changes: u64,
    /// The sum over them of the square of by how much bid and offer together changed, in 10^-18:
    /// four times the sum of squared moves of the middle. `None` where it does not fit.
    pub sum_moves_squared: Option<u128>,
    /// Trading continuously.
    pub trading: u64,
    /// Before an auction: quotes or orders alone are taken.
    pub auction: u64,
    /// Paused by a rule of volatility.
    pub paused: u64,
    /// Halted.
    pub halted: u64,
    /// Closed, or not open yet.
    pub closed: u64,
    /// Orders that came.
    pub adds: u64,
    /// Executions of orders that rest.
    pub executions: u64,
    /// Orders that got smaller.
    pub reductions: u64,
    /// Orders that were taken out.
    pub deletions: u64,
    /// Orders whose place another took.
    pub replacements: u64,
    /// Orders with another price or quantity.
    pub modifications: u64,
    /// What came to rest, and by how much orders grew.
    pub added: Qty,
    /// What of resting orders traded.
    pub executed: Qty,
    /// What of resting orders went without trading.
    pub cancelled: Qty,
    /// Trades that count for the volume.
    pub trades: u64,
    /// What they traded.
    pub volume: Qty,
    /// Trades that were undone.
    pub breaks: u64,
    /// What was told with a time from before `start`.
    pub late_count: u64,
    /// False when the session ended, or the feed fell silent, before the interval was over.
    pub is_complete: bool,
    /// False when quote or trading state may have been others than is said here, since messages
    /// were missed, in this interval or before it, and the instrument's book was not had anew.
    pub is_certain: bool,
    /// Messages were missed that may have counted here.
    pub has_gap: bool,
}
