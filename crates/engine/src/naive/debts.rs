//! The naive engine's debts, each summed anew.

use weir_types::{AccountId, InstrumentId, Reason, Side};
use weir_wire::order_entry::NewOrder;

use super::{NaiveEngine, Order, TradingRule};
use crate::debt::Debt;

impl NaiveEngine {
    /// Returns the same as [`Engine::debts`](crate::Engine::debts), in order of account and
    /// instrument.
    #[must_use]
    pub fn debts(&self) -> Vec<Debt> {
        let mut debts = Vec::new();
        for account_id in self.accounts.keys().copied() {
            let cash = (InstrumentId(0), self.owed_cash(account_id));
            let ids = self.instruments.keys();
            let lots = ids.map(|id| (*id, self.owed_lots(account_id, *id)));
            for (instrument_id, owed) in std::iter::once(cash).chain(lots) {
                if owed > 0 {
                    let amount = owed.cast_unsigned();
                    debts.push(Debt { account_id, instrument_id, amount });
                }
            }
        }
        debts
    }

    /// Returns the cash that is not reserved; negative where it is owed.
    pub(super) fn spare_cash(&self, account_id: AccountId) -> i128 {
        let reserved: i128 = self.orders_of_account(account_id).map(Order::reserved_cash).sum();
        self.accounts[&account_id].cash - reserved
    }

    /// Returns the cash that a limited account owes.
    pub(super) fn owed_cash(&self, account_id: AccountId) -> i128 {
        match self.accounts[&account_id].is_unlimited {
            true => 0,
            false => (-self.spare_cash(account_id)).max(0),
        }
    }

    /// Returns the lots that a limited account owes.
    pub(super) fn owed_lots(&self, account_id: AccountId, id: InstrumentId) -> i128 {
        let spare = self.held(account_id, id) - self.open_lots(account_id, id, Side::Sell);
        if self.accounts[&account_id].is_unlimited { 0 } else { (-spare).max(0) }
    }

    /// Notes that an order was refused since its account is in debt.
    pub(super) fn note_debtor(&mut self, m: &NewOrder, reason: Reason) {
        let owed = match reason {
            Reason::InsufficientCash => self.owed_cash(m.account_id),
            Reason::InsufficientPosition => self.owed_lots(m.account_id, m.instrument_id),
            _ => 0,
        };
        if owed > 0 {
            self.rules.push(TradingRule::DebtorRefused);
        }
    }
}
