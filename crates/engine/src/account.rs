//! Accounts and their cash, and the pre-trade check: an order's possible cost is reserved at entry,
//! released when the order ends, and settled as it trades.
//!
//! INVARIANT: an account's `reserved` is the sum of [`cash_need`] of price and leaves over its live
//! orders that reserve: limits, stop-limits, and market orders in a call's book or parked for one.
//! No check lets a limited account reserve more than it has. One in debt, by a forced bust or from
//! a time when it was unlimited, is below that and reserves nothing more.

use weir_types::{AccountId, Cash, Price, Qty, Reason, Side};

use crate::config::{CASH_LIMIT, POSITION_LIMIT};
use crate::engine::Engine;
use crate::index::Slot;
use crate::live::LiveOrders;
use crate::plant::{self, Plant};

/// An account's definition and its cash in this partition. A row is one cache line, because the
/// rows that an order names are scattered.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Account {
    /// All cash, including the reserved part.
    pub(crate) cash: Cash,
    pub(crate) reserved: Cash,
    pub(crate) account_id: AccountId,
    pub(crate) firm: Slot,
    pub(crate) live: LiveOrders,
    pub(crate) is_unlimited: bool,
    pub(crate) is_killed: bool,
    /// True while it is limited and owes cash or lots.
    pub(crate) is_in_debt: bool,
}

const _: () = assert!(size_of::<Account>() == 64, "a cache line");

/// Returns the highest cost of trading `qty` at `price` for the side: buyers pay positive prices,
/// sellers negative ones, including the lowest price of all.
#[inline]
pub(crate) fn cash_need(side: Side, price: Price, qty: Qty) -> Cash {
    let price = match side {
        Side::Buy => price.0.max(0),
        Side::Sell => price.0.min(0),
    };
    // At most 2^63 times less than 2^64, and unsigned: a single multiplication.
    Cash((u128::from(price.unsigned_abs()) * u128::from(qty.0)).cast_signed())
}

/// The cash and lots that an order reserves.
#[derive(Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) account: Slot,
    pub(crate) instrument: Slot,
    pub(crate) side: Side,
    pub(crate) qty: Qty,
    pub(crate) cash: Cash,
}

/// Converts lots to the signed number of positions. Quantities are at most 2^40 by definition.
#[inline(always)]
pub(crate) fn lots(qty: Qty) -> i64 {
    i64::try_from(qty.0).expect("an order's quantity is at most 2^40")
}

impl Account {
    /// Checks that the account can spare `need` more.
    #[inline(always)]
    pub(crate) fn check_cash(&self, need: Cash) -> Result<(), Reason> {
        if need.0 <= 0 {
            return Ok(());
        }
        let free_after = self.cash.0 - self.reserved.0 - need.0;
        if self.is_unlimited {
            return if free_after < -CASH_LIMIT { Err(Reason::LimitReached) } else { Ok(()) };
        }
        let is_let_through = plant::is(Plant::DebtorTrades) && self.is_in_debt;
        if free_after < 0 && !is_let_through { Err(Reason::InsufficientCash) } else { Ok(()) }
    }

    /// Checks that the account can be charged `need` more, where it may owe it.
    pub(crate) fn check_debt(&self, need: Cash) -> Result<(), Reason> {
        Account { is_unlimited: true, ..*self }.check_cash(need)
    }

    /// Returns the highest need that the cash check accepts.
    pub(crate) fn spendable(&self) -> i128 {
        self.cash.0 - self.reserved.0 + if self.is_unlimited { CASH_LIMIT } else { 0 }
    }
}

impl Engine {
    /// Checks that the account can spare `need` more, if the partition checks risk.
    #[inline]
    pub(crate) fn check_cash(&self, account: Slot, need: Cash) -> Result<(), Reason> {
        if self.config.has_risk { self.accounts[account].check_cash(need) } else { Ok(()) }
    }

    /// Checks that none of the account's balances is below its reserved part; only such an account
    /// can be made limited. Scans every position.
    pub(crate) fn check_no_debt(&self, account: Slot) -> Result<(), Reason> {
        let row = &self.accounts[account];
        if row.cash.0 < row.reserved.0 {
            return Err(Reason::InsufficientCash);
        }
        let mut own = self.positions.unordered().filter(|(of, _, _)| *of == account);
        let is_short = own.any(|(_, _, position)| position.total < position.reserved);
        if is_short { Err(Reason::InsufficientPosition) } else { Ok(()) }
    }

    /// Checks that the account can deliver or receive `qty` more lots.
    #[inline(always)]
    pub(crate) fn check_position(
        &self,
        account: Slot,
        instrument: Slot,
        side: Side,
        qty: Qty,
    ) -> Result<(), Reason> {
        if !self.config.has_risk {
            return Ok(());
        }
        self.check_lots(account, instrument, side, qty)
    }

    fn check_lots(
        &self,
        account: Slot,
        instrument: Slot,
        side: Side,
        qty: Qty,
    ) -> Result<(), Reason> {
        let position = self.positions.get(account, instrument);
        if position.is_empty() && self.positions.is_full_for(account, instrument) {
            return Err(Reason::LimitReached);
        }
        let qty = i128::from(qty.0);
        match side {
            Side::Buy => {
                let most = i128::from(position.total) + i128::from(position.open_buy) + qty;
                if most > POSITION_LIMIT { Err(Reason::LimitReached) } else { Ok(()) }
            }
            Side::Sell => {
                let least = i128::from(position.total) - i128::from(position.reserved) - qty;
                if least < 0 && !self.accounts[account].is_unlimited {
                    return Err(Reason::InsufficientPosition);
                }
                if least < -POSITION_LIMIT { Err(Reason::LimitReached) } else { Ok(()) }
            }
        }
    }

    /// Reserves the means of an accepted order.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, holding: Holding) {
        if self.config.has_risk {
            self.reserve_means(holding);
        }
    }

    fn reserve_means(&mut self, holding: Holding) {
        self.accounts[holding.account].reserved += holding.cash;
        let lots = lots(holding.qty);
        self.positions.update(holding.account, holding.instrument, |position| match holding.side {
            Side::Buy => position.open_buy += lots,
            Side::Sell => position.reserved += lots,
        });
    }

    /// Releases reserved means.
    #[inline(always)]
    pub(crate) fn release(&mut self, holding: Holding) {
        if self.config.has_risk {
            self.release_means(holding);
        }
    }

    fn release_means(&mut self, holding: Holding) {
        self.accounts[holding.account].reserved -= holding.cash;
        let lots = lots(holding.qty);
        self.positions.update(holding.account, holding.instrument, |position| match holding.side {
            Side::Buy => position.open_buy -= lots,
            Side::Sell => position.reserved -= lots,
        });
        if self.accounts[holding.account].is_in_debt {
            self.forget_paid(holding.account, holding.instrument);
        }
    }

    /// Settles one side of a trade in cash and lots; `holding` is the reservation for it.
    #[inline(always)]
    pub(crate) fn settle(&mut self, holding: Holding, price: Price) {
        if self.config.has_risk {
            self.settle_means(holding, price);
        }
    }

    fn settle_means(&mut self, holding: Holding, price: Price) {
        let account = &mut self.accounts[holding.account];
        account.reserved -= holding.cash;
        let cost = price.notional(holding.qty);
        match holding.side {
            Side::Buy => account.cash -= cost,
            Side::Sell => account.cash += cost,
        }
        let lots = lots(holding.qty);
        self.positions.update(holding.account, holding.instrument, |position| match holding.side {
            Side::Buy => {
                position.open_buy -= lots;
                position.total += lots;
            }
            Side::Sell => {
                position.reserved -= lots;
                position.total -= lots;
            }
        });
        if self.accounts[holding.account].is_in_debt {
            self.forget_paid(holding.account, holding.instrument);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cash_is_needed_in_full_at_the_edges_of_the_domain() {
        let rows = [
            (Side::Buy, i64::MAX, i128::from(i64::MAX)),
            (Side::Buy, i64::MIN, 0),
            (Side::Sell, i64::MAX, 0),
            (Side::Sell, i64::MIN, 1 << 63),
            (Side::Sell, -1, 1),
            (Side::Buy, 0, 0),
        ];
        for (side, price, each) in rows {
            for qty in [1, 1 << 40, u64::MAX] {
                let need = cash_need(side, Price(price), Qty(qty));
                assert_eq!(need.0, each * i128::from(qty), "{side:?} {price} {qty}");
            }
        }
    }
}
