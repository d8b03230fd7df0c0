//! Bounds of live orders: one count each per session, account and firm, so that no participant
//! takes all places of a partition.
//!
//! INVARIANT: between commands each count is the number of live orders of its owner. An order
//! counts from its first rest to its end; one that never rests is never counted.

use weir_types::Reason;

use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::index::Slot;
use crate::order::Order;
use crate::plant::{self, Plant};

/// The live orders of one owner.
#[derive(Clone, Copy)]
pub(crate) struct LiveOrders {
    count: u32,
    /// The limit in effect.
    count_max: u32,
    /// The limit by definition; zero for the partition's default.
    defined_max: u32,
}

impl LiveOrders {
    /// Returns no orders; `default_max` is the limit where the definition has none.
    pub(crate) fn new(defined_max: u32, default_max: u32) -> LiveOrders {
        let mut live = LiveOrders { count: 0, count_max: 0, defined_max };
        live.bound(defined_max, default_max);
        live
    }

    /// Changes the limit. Orders beyond a lower one stay.
    pub(crate) fn bound(&mut self, defined_max: u32, default_max: u32) {
        self.defined_max = defined_max;
        self.count_max = if defined_max == 0 { default_max } else { defined_max };
    }

    pub(crate) fn defined_max(&self) -> u32 {
        self.defined_max
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.count >= self.count_max
    }
}

impl EngineConfig {
    pub(crate) fn live_of_session(&self, defined_max: u32) -> LiveOrders {
        LiveOrders::new(defined_max, self.orders_per_session_max)
    }

    pub(crate) fn live_of_account(&self, defined_max: u32) -> LiveOrders {
        LiveOrders::new(defined_max, self.orders_per_account_max)
    }

    pub(crate) fn live_of_firm(&self, defined_max: u32) -> LiveOrders {
        LiveOrders::new(defined_max, self.orders_per_firm_max)
    }
}

impl Engine {
    /// Checks that the session, the account and the firm may have one more live order.
    #[inline(always)]
    pub(crate) fn check_live(&self, session: Slot, account: Slot) -> Result<(), Reason> {
        let row = &self.sessions[session];
        if row.live.is_full() {
            return Err(Reason::TooManySessionOrders);
        }
        if self.accounts[account].live.is_full() {
            return Err(Reason::TooManyAccountOrders);
        }
        if self.firms[row.firm].live.is_full() {
            return Err(Reason::TooManyFirmOrders);
        }
        Ok(())
    }

    /// Counts an order that starts to rest.
    #[inline(always)]
    pub(crate) fn count_in(&mut self, session: Slot, account: Slot) {
        let row = &mut self.sessions[session];
        row.live.count += 1;
        let firm = row.firm;
        self.accounts[account].live.count += 1;
        self.firms[firm].live.count += 1;
    }

    /// Discounts an order that ends.
    #[inline(always)]
    pub(crate) fn count_out(&mut self, order: &Order) {
        let row = &mut self.sessions[order.session];
        row.live.count -= 1;
        let firm = row.firm;
        self.accounts[order.account].live.count -= 1;
        if !plant::is(Plant::FirmCountKept) {
            self.firms[firm].live.count -= 1;
        }
    }

    /// Returns an owner whose count differs from its live orders; there must be none. Visits every
    /// order.
    pub(crate) fn miscounted(&self) -> Option<String> {
        let mut accounts = vec![0; self.accounts.rows().len()];
        let mut firms = vec![0; self.firms.rows().len()];
        for session in self.sessions.rows() {
            let mut slots = Vec::new();
            session.collect_orders(&self.orders, &mut slots);
            if session.live.count as usize != slots.len() {
                return Some(format!("session {}: {}", session.session_id, session.live.count));
            }
            for slot in slots {
                accounts[self.orders[slot].account as usize] += 1;
                firms[session.firm as usize] += 1;
            }
        }
        let account = self.accounts.rows().iter().zip(accounts).find_map(|(row, count)| {
            (row.live.count != count).then(|| format!("account {}: {}", row.account_id, count))
        });
        let firm = self.firms.rows().iter().zip(firms).find_map(|(row, count)| {
            (row.live.count != count).then(|| format!("firm {}: {}", row.firm_id, count))
        });
        account.or(firm)
    }
}
