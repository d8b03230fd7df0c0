//! The credit of a subscription: the rows and bytes of rows that it may still be sent. It comes
//! with the fetch, and the reader adds to it. Pages are counted separately, in the page's own
//! header.
//!
//! A page has at most the rows and bytes that are left, except that a byte left is good for one row
//! of any size. A subscription without credit stays at its place; it costs nothing and later gets
//! the latest state.

use weir_wire::delivery::{AddCredit, FetchOrders};

/// Credit in rows and bytes; each may be unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    rows: Option<u64>,
    bytes: Option<u64>,
}

impl Credit {
    /// Unlimited credit.
    pub const UNBOUNDED: Credit = Credit { rows: None, bytes: None };

    /// Returns the credit of a fetch: zero means unlimited.
    #[must_use]
    pub fn of(fetch: &FetchOrders) -> Credit {
        let bounded = |count: u32| (count > 0).then_some(u64::from(count));
        Credit { rows: bounded(fetch.credit_rows), bytes: bounded(fetch.credit_bytes) }
    }

    /// True when no credit is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.rows == Some(0) || self.bytes == Some(0)
    }

    /// Returns the rows and bytes of a page, limited by the credit left.
    #[must_use]
    pub fn bound(&self, rows_max: u32, bytes_max: u32) -> (u32, u32) {
        let least = |left: Option<u64>, max: u32| {
            left.map_or(max, |left| u32::try_from(left).unwrap_or(u32::MAX).min(max))
        };
        (least(self.rows, rows_max), least(self.bytes, bytes_max))
    }

    /// Deducts a page that was sent.
    pub fn spend(&mut self, rows: u32, bytes: u64) {
        let less = |left: Option<u64>, by: u64| left.map(|left| left.saturating_sub(by));
        (self.rows, self.bytes) = (less(self.rows, u64::from(rows)), less(self.bytes, bytes));
    }

    /// Adds to the limited parts; the unlimited ones stay so.
    pub fn add(&mut self, more: &AddCredit) {
        let sum = |left: Option<u64>, by: u32| left.map(|left| left.saturating_add(by.into()));
        (self.rows, self.bytes) = (sum(self.rows, more.rows), sum(self.bytes, more.bytes));
    }
}
