//! Debts: cash or lots of a limited account that are below zero, less reservations.
//!
//! Only a forced bust makes one. It stands until transfers, trades and ended orders have paid it.
//! Until then the checks of cash and lots refuse orders that would reserve more of the same; orders
//! that were there before stay.
//!
//! INVARIANT: between commands `debtors` has exactly the debts of limited accounts, and an account
//! is `is_in_debt` while it has one there.

use std::collections::BTreeSet;

use weir_types::{AccountId, InstrumentId};

use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::plant::{self, Plant};

/// A debt of a limited account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Debt {
    /// The account.
    pub account_id: AccountId,
    /// The instrument of the lots that it owes; none for cash.
    pub instrument_id: InstrumentId,
    /// Lots, or cash in price units times lots; above zero.
    pub amount: u128,
}

/// The debts of limited accounts.
#[derive(Default)]
pub(crate) struct Debtors {
    /// The account and the instrument of each; [`NIL`] for cash.
    rows: BTreeSet<(Slot, Slot)>,
    account_count: usize,
    /// The number of rows that were added or removed.
    changes: u64,
}

impl Engine {
    /// Returns the debts of limited accounts, by account in order of definition.
    pub fn debts(&self) -> impl Iterator<Item = Debt> + '_ {
        self.debtors.rows.iter().map(move |(account, instrument)| Debt {
            account_id: self.accounts[*account].account_id,
            instrument_id: match *instrument {
                NIL => InstrumentId::NONE,
                slot => self.instruments[slot].definition.instrument_id,
            },
            amount: self.owed(*account, *instrument).cast_unsigned(),
        })
    }

    /// Returns the number of limited accounts with a debt.
    #[must_use]
    pub fn debtor_count(&self) -> usize {
        self.debtors.account_count
    }

    /// Returns the number of debts that began or ended since this engine was made. It affects no
    /// event and no digest.
    #[must_use]
    pub fn debt_changes(&self) -> u64 {
        self.debtors.changes
    }

    /// Returns the lots of an instrument, or with [`NIL`] the cash, that a limited account owes;
    /// zero for none.
    pub(crate) fn owed(&self, account: Slot, instrument: Slot) -> i128 {
        let row = &self.accounts[account];
        let free = match instrument {
            _ if row.is_unlimited => 0,
            NIL => row.cash.0 - row.reserved.0,
            slot => {
                let position = self.positions.get(account, slot);
                i128::from(position.total) - i128::from(position.reserved)
            }
        };
        (-free).max(0)
    }

    /// Records the debts of an account behind a forced bust in an instrument.
    pub(crate) fn note_debts(&mut self, account: Slot, instrument: Slot) {
        for of in [NIL, instrument] {
            if self.owed(account, of) > 0 {
                self.add_debt(account, of);
            }
        }
    }

    fn add_debt(&mut self, account: Slot, instrument: Slot) {
        self.debtors.changes += u64::from(self.debtors.rows.insert((account, instrument)));
        let row = &mut self.accounts[account];
        self.debtors.account_count += usize::from(!row.is_in_debt);
        row.is_in_debt = true;
    }

    /// Removes the debts of an account, in cash and in an instrument, that are paid.
    #[cold]
    pub(crate) fn forget_paid(&mut self, account: Slot, instrument: Slot) {
        for of in [NIL, instrument] {
            if self.owed(account, of) == 0 {
                self.debtors.changes += u64::from(self.debtors.rows.remove(&(account, of)));
            }
        }
        self.close_if_paid(account);
    }

    /// Removes the debts of an account that has become unlimited.
    pub(crate) fn forget_debts(&mut self, account: Slot) {
        let before = self.debtors.rows.len();
        self.debtors.rows.retain(|(of, _)| *of != account);
        self.debtors.changes += (before - self.debtors.rows.len()) as u64;
        self.close_if_paid(account);
    }

    fn close_if_paid(&mut self, account: Slot) {
        let has_debt = self.debtors.rows.range((account, 0)..=(account, NIL)).next().is_some();
        let row = &mut self.accounts[account];
        if row.is_in_debt && !has_debt {
            row.is_in_debt = false;
            self.debtors.account_count -= 1;
        }
    }

    /// Records the debts that follow from a snapshot's balances.
    pub(crate) fn find_debts(&mut self) {
        if plant::is(Plant::SnapshotForgetsDebt) {
            return;
        }
        for (account, instrument) in self.owing() {
            self.add_debt(account, instrument);
        }
    }

    /// Returns all debts of limited accounts. Scans every account and position.
    fn owing(&self) -> BTreeSet<(Slot, Slot)> {
        let cash = (0..).zip(self.accounts.rows()).map(|(account, _)| (account, NIL));
        let lots = self.positions.unordered().map(|(account, instrument, _)| (account, instrument));
        cash.chain(lots).filter(|(account, of)| self.owed(*account, *of) > 0).collect()
    }

    /// Returns a limited account that owes something without a recorded debt, or the other way
    /// round; there must be none. Scans every account and position.
    pub(crate) fn overdrawn_account(&self) -> Option<AccountId> {
        let owing = self.owing();
        let is_marked = |account: Slot| owing.range((account, 0)..=(account, NIL)).next().is_some();
        let mismarked = (0..)
            .zip(self.accounts.rows())
            .find(|(account, row)| row.is_in_debt != is_marked(*account));
        let account = match owing.symmetric_difference(&self.debtors.rows).next() {
            Some((account, _)) => *account,
            None => mismarked?.0,
        };
        Some(self.accounts[account].account_id)
    }
}
