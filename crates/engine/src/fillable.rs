//! The quantity that an order would trade at once, computed for fill-or-kill and minimum quantities
//! before the order becomes a record. Walks the book exactly as matching would and changes nothing.

use weir_types::{Price, Qty, SelfTradePrevention, Side};
use weir_wire::order_entry::NewOrder;

use crate::account::{Account, cash_need};
use crate::engine::Engine;
use crate::entry::pays_as_it_goes;
use crate::index::{NIL, Slot};
use crate::instrument::reaches;
use crate::order::Order;
use crate::plant::{self, Plant};

/// The hidden rest of an iceberg after the slices passed so far.
#[derive(Clone, Copy)]
pub(crate) struct Hidden {
    qty: Qty,
    display_qty: Qty,
    is_own: bool,
}

/// The next step of the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkOutcome {
    On,
    /// Enough was traded.
    Enough,
    /// Matching would end here with too little traded.
    Short,
}

/// An order on its walk over the book.
struct Walk {
    side: Side,
    self_trade_prevention: SelfTradePrevention,
    at_once: Qty,
    open: Qty,
    traded: Qty,
    /// The account's cash as the walk leaves it.
    purse: Account,
    is_paying: bool,
}

impl Engine {
    /// Returns true if at least `at_once` of the order would trade against the current book. The
    /// account's own orders end the walk or are skipped as self-trade prevention says, collars end
    /// it, icebergs show slice after slice, and a market order needs the cash for every fill.
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
        let mut end = WalkOutcome::Short;
        for level in self.instruments[instrument].side(m.side.opposite()).best_first() {
            let price = self.levels[level].price;
            if !reaches(m.side, limit, price) {
                break;
            }
            let is_allowed = collar.allows(price) || plant::is(Plant::FillOrKillIgnoresCollars);
            let step = self.walk_level(level, account, is_allowed, &mut walk, &mut hidden);
            if step != WalkOutcome::On {
                end = step;
                break;
            }
        }
        self.hidden = hidden;
        end == WalkOutcome::Enough
    }

    fn walk_level(
        &self,
        level: Slot,
        account: Slot,
        is_allowed: bool,
        walk: &mut Walk,
        hidden: &mut Vec<Hidden>,
    ) -> WalkOutcome {
        hidden.clear();
        let price = self.levels[level].price;
        let mut maker = self.levels[level].head;
        while maker != NIL {
            let resting = &self.orders[maker];
            let is_own = resting.account == account;
            maker = resting.level_next;
            if is_own && walk.self_trade_prevention != SelfTradePrevention::None {
                match walk.meet_own(resting, price) {
                    WalkOutcome::On => continue,
                    end => return end,
                }
            }
            if !is_allowed {
                return WalkOutcome::Short;
            }
            let step = walk.fill(price, resting.shown(), is_own);
            if step != WalkOutcome::On {
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
    /// Handles an own order at the head of the queue.
    fn meet_own(&mut self, resting: &Order, price: Price) -> WalkOutcome {
        let qty = match self.self_trade_prevention {
            SelfTradePrevention::CancelOldest => resting.leaves_qty,
            SelfTradePrevention::Decrement if resting.leaves_qty < self.open => {
                self.open -= resting.leaves_qty;
                resting.leaves_qty
            }
            _ => return WalkOutcome::Short,
        };
        self.get_back(price, qty);
        WalkOutcome::On
    }

    /// Trades with a resting order that shows `shown`.
    fn fill(&mut self, price: Price, shown: Qty, is_own: bool) -> WalkOutcome {
        let qty = self.open.min(shown);
        if !self.pay(price, qty, is_own) {
            return WalkOutcome::Short;
        }
        self.open -= qty;
        self.traded += qty;
        if self.traded >= self.at_once {
            return WalkOutcome::Enough;
        }
        if self.open.is_zero() { WalkOutcome::Short } else { WalkOutcome::On }
    }

    /// Trades the slices behind a level's shown ones, alternating between the icebergs until all
    /// are used up. Rounds in which each shows a whole slice and the walk surely continues are
    /// computed in one step, since an iceberg may have any number of slices.
    fn fill_hidden(&mut self, price: Price, hidden: &mut Vec<Hidden>) -> WalkOutcome {
        if !self.is_paying {
            // Slicing makes no difference to the sum.
            let qty = hidden.iter().fold(Qty::ZERO, |sum, iceberg| sum + iceberg.qty);
            return if qty.is_zero() { WalkOutcome::On } else { self.fill(price, qty, false) };
        }
        while !hidden.is_empty() {
            let round_count = self.whole_rounds(price, hidden);
            for iceberg in hidden.iter_mut() {
                let qty = Qty(iceberg.display_qty.0 * round_count);
                self.book(price, qty, iceberg.is_own);
                self.open -= qty;
                self.traded += qty;
                iceberg.qty -= qty;
            }
            for iceberg in hidden.iter_mut() {
                let slice = iceberg.display_qty.min(iceberg.qty);
                match self.fill(price, slice, iceberg.is_own) {
                    WalkOutcome::On => iceberg.qty -= slice,
                    end => return end,
                }
            }
            hidden.retain(|iceberg| !iceberg.qty.is_zero());
        }
        WalkOutcome::On
    }

    /// Returns the number of rounds that leave a rest of every iceberg and of the order, do not
    /// trade enough, and can be paid: the round after them is the first with a decision.
    fn whole_rounds(&self, price: Price, hidden: &[Hidden]) -> u64 {
        let (mut lots, mut spent, mut most) = (0, 0, 0);
        let mut round_count = u128::MAX;
        for iceberg in hidden {
            let slice = u128::from(iceberg.display_qty.0);
            round_count = round_count.min((u128::from(iceberg.qty.0) - 1) / slice);
            lots += slice;
            most = most.max(spent + slice);
            // A payment to the own account must be covered, and returns at once.
            spent += if iceberg.is_own { 0 } else { slice };
        }
        let wanted = self.open.min(self.at_once - self.traded);
        round_count = round_count.min((u128::from(wanted.0) - 1) / lots);
        if let Some(payable) = self.payable_lots(price) {
            round_count = round_count.min(match payable.checked_sub(most) {
                None => 0,
                Some(_) if spent == 0 => round_count,
                Some(spare) => spare / spent + 1,
            });
        }
        u64::try_from(round_count).expect("no more rounds than lots")
    }

    /// Returns the number of lots that the purse can pay at a price; `None` where they cost
    /// nothing.
    fn payable_lots(&self, price: Price) -> Option<u128> {
        let each = cash_need(self.side, price, Qty(1)).0;
        (each > 0).then(|| self.purse.spendable().max(0).unsigned_abs() / each.unsigned_abs())
    }

    /// Ends the reservation of an own resting order for `qty`.
    fn get_back(&mut self, price: Price, qty: Qty) {
        self.purse.reserved -= cash_need(self.side.opposite(), price, qty);
    }

    /// Pays for a fill; returns false when the cash is insufficient.
    fn pay(&mut self, price: Price, qty: Qty, is_own: bool) -> bool {
        if !self.is_paying {
            return true;
        }
        if self.purse.check_cash(cash_need(self.side, price, qty)).is_err() {
            return false;
        }
        self.book(price, qty, is_own);
        true
    }

    /// Moves the cash of a paid fill.
    fn book(&mut self, price: Price, qty: Qty, is_own: bool) {
        if is_own {
            // The payment returns to the same account, and the resting side's reservation ends.
            return self.get_back(price, qty);
        }
        match self.side {
            Side::Buy => self.purse.cash -= price.notional(qty),
            Side::Sell => self.purse.cash += price.notional(qty),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{AccountId, Cash};

    use super::*;
    use crate::live::LiveOrders;

    /// Trades the hidden slices one at a time, as the reference for [`Walk::fill_hidden`].
    fn fill_one_by_one(walk: &mut Walk, price: Price, hidden: &mut Vec<Hidden>) -> WalkOutcome {
        while !hidden.is_empty() {
            for iceberg in hidden.iter_mut() {
                let slice = iceberg.display_qty.min(iceberg.qty);
                match walk.fill(price, slice, iceberg.is_own) {
                    WalkOutcome::On => iceberg.qty -= slice,
                    end => return end,
                }
            }
            hidden.retain(|iceberg| !iceberg.qty.is_zero());
        }
        WalkOutcome::On
    }

    fn walk(side: Side, at_once: u64, open: u64, cash: i128, is_unlimited: bool) -> Walk {
        let purse = Account {
            cash: Cash(cash),
            reserved: Cash(100),
            account_id: AccountId(1),
            firm: 0,
            live: LiveOrders::new(0, 1),
            is_unlimited,
            is_killed: false,
            is_in_debt: false,
        };
        Walk {
            side,
            self_trade_prevention: SelfTradePrevention::None,
            at_once: Qty(at_once),
            open: Qty(open),
            traded: Qty::ZERO,
            purse,
            is_paying: true,
        }
    }

    fn outcome(step: WalkOutcome, walk: &Walk) -> (u8, Qty, Qty, Cash, Cash) {
        (step as u8, walk.open, walk.traded, walk.purse.cash, walk.purse.reserved)
    }

    #[test]
    fn rounds_reckoned_at_once_come_to_what_single_slices_do() {
        let mut draw = 1_u64;
        let mut next = |count: u64| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draw >> 33) % count
        };
        let (mut enough_count, mut short_count) = (0, 0);
        for _ in 0..20_000 {
            let iceberg = |next: &mut dyn FnMut(u64) -> u64| Hidden {
                qty: Qty(next(60) + 1),
                display_qty: Qty(next(7) + 1),
                is_own: next(4) == 0,
            };
            let hidden: Vec<_> = (0..=next(4)).map(|_| iceberg(&mut next)).collect();
            let side = if next(2) == 0 { Side::Buy } else { Side::Sell };
            let price = Price([3, 3, 0, -3, -3][next(5) as usize]);
            let (open, cash) = (next(150) + 1, i128::from(next(600)));
            let make = || walk(side, open.min(90), open, cash, false);
            let (mut fast, mut slow) = (make(), make());
            let got = fast.fill_hidden(price, &mut hidden.clone());
            let want = fill_one_by_one(&mut slow, price, &mut hidden.clone());
            assert_eq!(outcome(got, &fast), outcome(want, &slow), "{open} {cash} {price}");
            enough_count += u32::from(want == WalkOutcome::Enough);
            short_count += u32::from(want == WalkOutcome::Short);
        }
        assert!(enough_count > 1_000 && short_count > 1_000, "{enough_count} {short_count}");
    }

    #[test]
    fn a_trillion_slices_take_no_longer_than_one() {
        let iceberg = Hidden { qty: Qty(1 << 40), display_qty: Qty(1), is_own: false };
        let mut walk = walk(Side::Buy, 1 << 40, 1 << 40, 0, true);
        let end = walk.fill_hidden(Price(i64::MAX), &mut vec![iceberg; 3]);
        assert!(end == WalkOutcome::Short, "the purse ends it");
        assert_eq!(walk.traded.0, ((1_u128 << 96) - 100).div_euclid((1 << 63) - 1) as u64);
    }
}
