//! Instruments with their books, stops and parked orders, and firms.

use weir_types::{FirmId, OrdType, Phase, PhaseOrigin, Price, Qty, Reason, Side};
use weir_wire::reference::DefineInstrument;

use crate::book::BookSide;
use crate::groups::ChangeKey;
use crate::index::Slot;
use crate::live::LiveOrders;
use crate::order::{Order, OrderLocation};
use crate::plant::{self, Plant};
use crate::references::PriceBases;

/// An instrument's definition, phase, prices and queues of live orders.
pub(crate) struct Instrument {
    pub(crate) definition: DefineInstrument,
    pub(crate) phase: Phase,
    /// The phase to which a resume goes back: the one before the halt, or closed after a close in
    /// it. INVARIANT: there is one while the phase is halted, and while an operator's halt holds.
    pub(crate) resume_to: Option<Phase>,
    /// True from an operator's halt until an operator lifts it: scheduled changes but a close leave
    /// the instrument alone. INVARIANT: the phase is halted or closed then.
    pub(crate) is_held: bool,
    /// The last change of the phase or of `is_held`; `None` while they are the definition's, and
    /// behind a snapshot of a version without it.
    pub(crate) origin: Option<PhaseOrigin>,
    /// The price of the last trade that was not busted, or the one that an operator set since;
    /// `None` before the first.
    pub(crate) last_price: Option<Price>,
    /// The price of the last uncrossing with a trade that was not busted, or the one that an
    /// operator set since.
    pub(crate) uncrossed_price: Option<Price>,
    /// The price of the session's last trade that was not busted: the one that stops see.
    pub(crate) session_price: Option<Price>,
    /// True from a close until a phase with entry: the next one begins a session.
    pub(crate) is_session_over: bool,
    /// The prices of trades that are not retained.
    pub(crate) bases: PriceBases,
    /// The number of its trades that are retained, busted ones included.
    pub(crate) retained_count: u32,
    /// The lowest and highest price of the trades since stops were last checked. INVARIANT: `None`
    /// between commands, except in a volatility call that began by an interruption.
    pub(crate) traded: Option<(Price, Price)>,
    pub(crate) bids: BookSide,
    pub(crate) asks: BookSide,
    /// Market orders of a call, in one level, ahead of every limit.
    market_bids: BookSide,
    market_asks: BookSide,
    /// The best is the lowest stop price.
    buy_stops: BookSide,
    /// The best is the highest stop price.
    sell_stops: BookSide,
    /// At-the-close orders before the closing call, in one level.
    parked: BookSide,
    /// Lots moved in by transfers minus lots moved out.
    pub(crate) transferred_in: i128,
    /// The last change of many instruments that was made in it, or that it has nothing to do with:
    /// behind all in an instrument of another partition.
    pub(crate) changed_by: ChangeKey,
    /// The key behind which the changes of its group cover it.
    pub(crate) joined_at: ChangeKey,
}

impl Instrument {
    pub(crate) fn new(definition: DefineInstrument) -> Instrument {
        let is_halted = definition.phase == Phase::Halted;
        Instrument {
            definition,
            phase: definition.phase,
            // One that was never open goes back to closed.
            resume_to: is_halted.then_some(Phase::Closed),
            is_held: is_halted,
            origin: None,
            last_price: None,
            uncrossed_price: None,
            session_price: None,
            is_session_over: false,
            bases: PriceBases::default(),
            retained_count: 0,
            traded: None,
            bids: BookSide::new(Side::Buy),
            asks: BookSide::new(Side::Sell),
            market_bids: BookSide::new(Side::Buy),
            market_asks: BookSide::new(Side::Sell),
            buy_stops: BookSide::new(Side::Sell),
            sell_stops: BookSide::new(Side::Buy),
            parked: BookSide::new(Side::Buy),
            transferred_in: 0,
            changed_by: ChangeKey::LAST,
            joined_at: ChangeKey::LAST,
        }
    }

    /// Sets the phase, and records or ends a halt. `is_asked` is true for an operator's change.
    ///
    /// | to | a resume goes back to | an operator's halt holds |
    /// | --- | --- | --- |
    /// | halted | the phase before | if it is one, or if one held |
    /// | closed | closed, if an operator's halt holds | if it held |
    /// | other | | no |
    pub(crate) fn enter(&mut self, to: Phase, is_asked: bool) {
        match to {
            Phase::Halted => {
                self.resume_to = Some(self.phase);
                self.is_held |= is_asked && !plant::is(Plant::HaltNotHeld);
            }
            Phase::Closed => {
                self.resume_to = self.is_held.then_some(Phase::Closed);
                self.is_session_over = true;
            }
            _ => (self.resume_to, self.is_held) = (None, false),
        }
        self.phase = to;
    }

    /// Returns the limit orders of a side.
    #[inline]
    pub(crate) fn side(&self, side: Side) -> &BookSide {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    /// Returns the market orders of a side.
    pub(crate) fn markets(&self, side: Side) -> &BookSide {
        match side {
            Side::Buy => &self.market_bids,
            Side::Sell => &self.market_asks,
        }
    }

    /// Returns the stops of a side.
    #[inline]
    pub(crate) fn stops(&self, side: Side) -> &BookSide {
        match side {
            Side::Buy => &self.buy_stops,
            Side::Sell => &self.sell_stops,
        }
    }

    /// Returns the parked orders.
    pub(crate) fn parked(&self) -> &BookSide {
        &self.parked
    }

    /// Returns all queues, in their order in a snapshot.
    pub(crate) fn queues(&self) -> [&BookSide; 7] {
        [
            &self.market_bids,
            &self.bids,
            &self.market_asks,
            &self.asks,
            &self.buy_stops,
            &self.sell_stops,
            &self.parked,
        ]
    }

    /// Returns the queue of an order by its place, and the order's price in it.
    #[inline]
    pub(crate) fn queue_mut(&mut self, order: &Order) -> (&mut BookSide, Price) {
        if order.place != OrderLocation::Book || order.ord_type != OrdType::Limit {
            return self.other_queue_mut(order);
        }
        match order.side {
            Side::Buy => (&mut self.bids, order.price),
            Side::Sell => (&mut self.asks, order.price),
        }
    }

    /// Returns the queue of an order that is not a limit in the book.
    #[cold]
    fn other_queue_mut(&mut self, order: &Order) -> (&mut BookSide, Price) {
        match (order.place, order.side) {
            (OrderLocation::Book, Side::Buy) => (&mut self.market_bids, Price(0)),
            (OrderLocation::Book, Side::Sell) => (&mut self.market_asks, Price(0)),
            (OrderLocation::Stop, Side::Buy) => (&mut self.buy_stops, order.stop_px),
            (OrderLocation::Stop, Side::Sell) => (&mut self.sell_stops, order.stop_px),
            (OrderLocation::Parked, _) => (&mut self.parked, Price(0)),
            (OrderLocation::None, _) => {
                unreachable!("an order stands somewhere before it is moved")
            }
        }
    }

    /// Returns the price of the last uncrossing, or an operator's, otherwise the defined one;
    /// `None` for zero.
    pub(crate) fn static_reference(&self) -> Option<Price> {
        let price = self.uncrossed_price.unwrap_or(self.definition.reference_price);
        (price != Price(0)).then_some(price)
    }

    /// Returns the last price, or the static reference before the first trade.
    pub(crate) fn reference(&self) -> Option<Price> {
        self.last_price.or_else(|| self.static_reference())
    }

    /// Returns the worst price at which a market order of `side` may trade.
    #[inline]
    pub(crate) fn bound(&self, side: Side) -> Price {
        match side {
            Side::Buy => self.definition.price_max,
            Side::Sell => self.definition.price_min,
        }
    }

    /// Checks that a limit order may have this price.
    #[inline(always)]
    pub(crate) fn check_price(&self, price: Price) -> Result<(), Reason> {
        let d = &self.definition;
        let is_fine =
            price >= d.price_min && price <= d.price_max && is_multiple(price.0, d.tick_size.0);
        if is_fine { Ok(()) } else { Err(Reason::InvalidPrice) }
    }

    /// Returns true if a quantity consists of whole lots.
    #[inline]
    pub(crate) fn is_on_lot(&self, qty: Qty) -> bool {
        let lot_size = self.definition.lot_size.0;
        lot_size == 1 || qty.0.is_multiple_of(lot_size)
    }

    /// Checks that an order may have this quantity.
    #[inline(always)]
    pub(crate) fn check_qty(&self, qty: Qty) -> Result<(), Reason> {
        let is_fine = !qty.is_zero() && qty <= self.definition.order_qty_max && self.is_on_lot(qty);
        if is_fine { Ok(()) } else { Err(Reason::InvalidQty) }
    }

    /// Returns true if an order of `side` at `price` would trade at once.
    #[inline]
    pub(crate) fn would_cross(&self, side: Side, price: Price) -> bool {
        self.side(side.opposite()).best_price().is_some_and(|best| reaches(side, price, best))
    }
}

/// Returns true if orders are collected for an uncrossing.
#[inline]
pub(crate) fn is_call(phase: Phase) -> bool {
    matches!(phase, Phase::OpeningCall | Phase::VolatilityCall | Phase::ClosingCall)
}

/// Returns true if orders may be entered and replaced.
#[inline]
pub(crate) fn takes_entry(phase: Phase) -> bool {
    phase == Phase::Continuous || is_call(phase)
}

/// Returns true if a limit of `side` accepts a trade at `price`.
#[inline(always)]
pub(crate) fn reaches(side: Side, limit: Price, price: Price) -> bool {
    match side {
        Side::Buy => price <= limit,
        Side::Sell => price >= limit,
    }
}

#[inline(always)]
fn is_multiple(price: i64, tick_size: i64) -> bool {
    // Most ticks are one; a 64-bit division costs as much as finding the level.
    tick_size == 1 || price % tick_size == 0
}

/// A firm's definition.
pub(crate) struct Firm {
    pub(crate) firm_id: FirmId,
    pub(crate) is_killed: bool,
    pub(crate) live: LiveOrders,
    /// Its sessions, in order of definition.
    pub(crate) sessions: Vec<Slot>,
}
