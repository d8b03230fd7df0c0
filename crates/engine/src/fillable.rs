//! What an order would trade at once: asked for fill-or-kill and minimum quantities before the
//! order becomes a record. Walks the book exactly as matching would and changes nothing.

use weir_types::{Price, Qty, SelfTradePrevention, Side};
use weir_wire::order_entry::NewOrder;

use crate::account::{Account, cash_need};
use crate::engine::Engine;
use crate::entry::pays_as_it_goes;
use crate::index::{NIL, Slot};
use crate::instrument::reaches;
use crate::order::Order;
use crate::plant::{self, Plant};

/// What an iceberg would show after the slices met so far.
#[derive(Clone, Copy)]
pub(crate) struct Hidden {
    qty: Qty,
    display_qty: Qty,
    is_own: bool,
}

/// Whether the walk goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    On,
    /// Enough has traded.
    Enough,
    /// Matching would end here, with too little traded.
    Short,
}

/// An order on its walk over the book.
struct Walk {
    side: Side,
    self_trade_prevention: SelfTradePrevention,
    at_once: Qty,
    open: Qty,
    traded: Qty,
    /// The account's cash as the walk would leave it.
    purse: Account,
    is_paying: bool,
}

impl Engine {
    /// Whether at least `at_once` of the order would trade against the book as it stands: own
    /// orders end the walk or are stepped over as self-trade prevention has it, collars end it,
    /// icebergs show slice after slice, and what pays as it goes needs the cash for every fill.
    pub(crate) fn can_fill(
        &mut self,
        account: Slot,
        instrument: Slot,
        m: &NewOrder,
        at_once: Qty,
    ) -> bool {
        let mut hidden = core::mem::take(&mut self.hidden);
        let mut walk = Walk {
            side: m.side,
            self_trade_prevention: m.self_trade_prevention,
            at_once,
            open: m.order_qty,
            traded: Qty::ZERO,
            purse: self.accounts[account],
            is_paying: self.config.has_risk && pays_as_it_goes(m.ord_type),
        };
        let limit = self.limit_of(instrument, m.ord_type, m.side, m.price);
        let collar = self.instruments[instrument].collar();
        let mut end = Step::Short;
        for level in self.instruments[instrument].side(m.side.opposite()).best_first() {
            let price = self.levels[level].price;
            if !reaches(m.side, limit, price) {
                break;
            }
            let is_allowed = collar.allows(price) || plant::is(Plant::FillOrKillIgnoresCollars);
            let step = self.walk_level(level, account, is_allowed, &mut walk, &mut hidden);
            if step != Step::On {
                end = step;
                break;
            }
        }
        self.hidden = hidden;
        end == Step::Enough
    }

    fn walk_level(
        &self,
        level: Slot,
        account: Slot,
        is_allowed: bool,
        walk: &mut Walk,
        hidden: &mut Vec<Hidden>,
    ) -> Step {
        hidden.clear();
        let price = self.levels[level].price;
        let mut maker = self.levels[level].head;
        while maker != NIL {
            let resting = &self.orders[maker];
            let is_own = resting.account == account;
            maker = resting.level_next;
            if is_own && walk.self_trade_prevention != SelfTradePrevention::None {
                match walk.meet_own(resting, price) {
                    Step::On => continue,
                    end => return end,
                }
            }
            if !is_allowed {
                return Step::Short;
            }
            let step = walk.fill(price, resting.shown(), is_own);
            if step != Step::On {
                return step;
            }
            let qty = resting.leaves_qty - resting.shown();
            if !qty.is_zero() {
                hidden.push(Hidden { qty, display_qty: resting.display_qty, is_own });
            }
        }
        walk.fill_hidden(price, hidden)
    }
}

impl Walk {
    /// An own order is at the head.
    fn meet_own(&mut self, resting: &Order, price: Price) -> Step {
        let qty = match self.self_trade_prevention {
            SelfTradePrevention::CancelOldest => resting.leaves_qty,
            SelfTradePrevention::Decrement if resting.leaves_qty < self.open => {
                self.open -= resting.leaves_qty;
                resting.leaves_qty
            }
            _ => return Step::Short,
        };
        self.get_back(price, qty);
        Step::On
    }

    /// A trade with a resting order that shows `shown`.
    fn fill(&mut self, price: Price, shown: Qty, is_own: bool) -> Step {
        let qty = self.open.min(shown);
        if !self.pay(price, qty, is_own) {
            return Step::Short;
        }
        self.open -= qty;
        self.traded += qty;
        if self.traded >= self.at_once {
            return Step::Enough;
        }
        if self.open.is_zero() { Step::Short } else { Step::On }
    }

    /// The slices behind those that a level shows, in turn until nothing is left of any.
    fn fill_hidden(&mut self, price: Price, hidden: &mut Vec<Hidden>) -> Step {
        if !self.is_paying {
            // How it is sliced makes no difference to the sum.
            let qty = hidden.iter().fold(Qty::ZERO, |sum, iceberg| sum + iceberg.qty);
            return if qty.is_zero() { Step::On } else { self.fill(price, qty, false) };
        }
        while !hidden.is_empty() {
            for iceberg in hidden.iter_mut() {
                let slice = iceberg.display_qty.min(iceberg.qty);
                match self.fill(price, slice, iceberg.is_own) {
                    Step::On => iceberg.qty -= slice,
                    end => return end,
                }
            }
            hidden.retain(|iceberg| !iceberg.qty.is_zero());
        }
        Step::On
    }

    /// Ends the reservation of an own resting order for `qty`.
    fn get_back(&mut self, price: Price, qty: Qty) {
        self.purse.reserved -= cash_need(self.side.opposite(), price, qty);
    }

    /// Pays a fill; false when it cannot.
    fn pay(&mut self, price: Price, qty: Qty, is_own: bool) -> bool {
        if !self.is_paying {
            return true;
        }
        if self.purse.check_cash(cash_need(self.side, price, qty)).is_err() {
            return false;
        }
        if is_own {
            // What leaves the account comes back to it, and the resting side's reservation ends.
            self.get_back(price, qty);
            return true;
        }
        match self.side {
            Side::Buy => self.purse.cash -= price.notional(qty),
            Side::Sell => self.purse.cash += price.notional(qty),
        }
        true
    }
}
