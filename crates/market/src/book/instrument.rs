//! An instrument's book, split into the fields that every update reads and those read rarely.

use weir_feed::update::TradingState;
use weir_types::{InstrumentId, Side};

use super::anomaly::Anomaly;
use super::arena::{Arena, Level};
use super::change::{BestBidOffer, BestChange, BookLevel, Change, LevelChange};
use super::ladder::{Ladder, price_of, rank_of};
use super::statistics::Statistics;
use super::trades::Serial;

/// The form of an instrument's book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BookKind {
    /// No updates yet.
    #[default]
    Empty,
    /// Single orders, each with its position in the queue of its price.
    ByOrder,
    /// Price levels, each with its resting quantity.
    ByPrice,
    /// The best bid and offer as stated by the feed.
    Quotes,
}

/// The fields that an update reads when it leaves the best bid and offer unchanged: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Top {
    /// The best bid and offer, as last reported.
    pub(crate) best: BestBidOffer,
    pub(crate) id: InstrumentId,
    /// The number of the last gap from which the instrument is repaired.
    pub(crate) repaired: u32,
    pub(crate) kind: BookKind,
    pub(crate) state: Option<TradingState>,
    pub(crate) is_suspect: bool,
    pub(crate) is_crossed: bool,
    /// True within a group of updates by price: `best` is the state before the group.
    pub(crate) is_pending: bool,
}

/// An instrument's book: its top and both sides.
#[derive(Clone, Debug)]
pub(crate) struct Instrument {
    pub(crate) top: Top,
    ladders: [Ladder; 2],
}

/// An instrument's rarely read state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cold {
    pub(crate) statistics: Statistics,
    pub(crate) last_trade: Serial,
}

/// Both sides.
pub(crate) const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

impl Instrument {
    pub(crate) fn new(id: InstrumentId, levels_per_side: usize) -> Instrument {
        Instrument {
            top: Top {
                best: BestBidOffer::default(),
                id,
                repaired: 0,
                kind: BookKind::Empty,
                state: None,
                is_suspect: false,
                is_crossed: false,
                is_pending: false,
            },
            ladders: [(); 2].map(|()| Ladder::with_capacity(levels_per_side)),
        }
    }

    #[inline]
    pub(crate) fn ladder(&self, side: Side) -> &Ladder {
        &self.ladders[usize::from(side == Side::Sell)]
    }

    #[inline]
    pub(crate) fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
        &mut self.ladders[usize::from(side == Side::Sell)]
    }

    /// Returns true when the book is of this kind, or was empty and now becomes so.
    #[inline]
    pub(crate) fn is_or_becomes(&mut self, kind: BookKind) -> bool {
        if self.top.kind == BookKind::Empty {
            self.top.kind = kind;
        }
        self.top.kind == kind
    }

    /// Resets the book to empty.
    pub(crate) fn clear(&mut self) {
        self.ladders.iter_mut().for_each(Ladder::clear);
        let top = &mut self.top;
        (top.best, top.kind) = (BestBidOffer::default(), BookKind::Empty);
        (top.is_suspect, top.is_crossed, top.is_pending) = (false, false, false);
    }

    /// Returns the best resting level of a side.
    #[inline]
    fn best_of(&self, side: Side, levels: &Arena<Level>) -> Option<BookLevel> {
        self.ladder(side).best().map(|rung| book_level(levels.get(rung.level)))
    }

    /// Returns false only when a better price than this one was the best of its side.
    #[inline]
    fn may_be_best(&self, touched: &LevelChange) -> bool {
        let rank = rank_of(touched.side, touched.level.price);
        let best = &self.top.best;
        let (price, size) = match touched.side {
            Side::Buy => (best.bid_px, best.bid_sz),
            Side::Sell => (best.ask_px, best.ask_sz),
        };
        size.is_zero() || rank >= rank_of(touched.side, price)
    }

    /// Recomputes the best bid and offer after the levels touched by a change.
    #[inline]
    pub(crate) fn settle(&mut self, levels: &Arena<Level>, change: &mut Change) {
        let mut new = self.top.best;
        let mut is_touched = false;
        for touched in change.levels() {
            if self.may_be_best(touched) {
                new.set(touched.side, self.best_of(touched.side, levels));
                is_touched = true;
            }
        }
        if is_touched {
            self.tell(new, change);
        }
    }

    /// Recomputes the best bid and offer after a group of updates.
    pub(crate) fn settle_all(&mut self, levels: &Arena<Level>, change: &mut Change) {
        let mut new = BestBidOffer::default();
        for side in SIDES {
            new.set(side, self.best_of(side, levels));
        }
        self.tell(new, change);
    }

    /// Sets the best bid and offer, and reports it in the change if it differs.
    #[inline]
    pub(crate) fn tell(&mut self, new: BestBidOffer, change: &mut Change) {
        let old = self.top.best;
        if new == old {
            return;
        }
        self.top.best = new;
        change.best = Some(BestChange { old, new });
        // Quotes of several venues may legitimately cross.
        let is_crossed = new.is_crossed() && self.top.kind != BookKind::Quotes;
        let is_continuous = self.top.state == Some(TradingState::Trading);
        if is_crossed && !self.top.is_crossed && is_continuous {
            change.anomalies.insert(Anomaly::Crossed);
        }
        self.top.is_crossed = is_crossed;
    }
}

/// Returns a level in its public form.
#[inline]
pub(crate) fn book_level(level: &Level) -> BookLevel {
    let side = side_of(level);
    BookLevel {
        price: price_of(side, level.rank),
        size: weir_types::Qty(level.size),
        order_count: level.count,
    }
}

/// Returns the side of a level.
#[inline]
pub(crate) fn side_of(level: &Level) -> Side {
    if level.is_sell { Side::Sell } else { Side::Buy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_update_looks_at_is_one_cache_line() {
        assert_eq!((size_of::<Top>(), align_of::<Top>()), (64, 64));
        assert_eq!(size_of::<Instrument>(), 128);
    }
}
