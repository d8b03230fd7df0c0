//! What a subscription may still be sent: rows and bytes of rows, given with its question and added
//! to as its reader takes them. Pages are counted beside it, by the page's own header.
//!
//! A page has no more than is left, but for one row that is larger than the bytes that are: who has
//! a byte left gets a row. A subscription without credit stands still at its place; it costs
//! nothing and is sent what is then the latest.

use weir_wire::delivery::{AddCredit, FetchOrders};

/// Credit in rows and bytes; each may be without a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    rows: Option<u64>,
    bytes: Option<u64>,
}

impl Credit {
    /// As much as there is.
    pub const UNBOUNDED: Credit = Credit { rows: None, bytes: None };

    /// What a question comes with: zero is without a bound.
    #[must_use]
    pub fn of(fetch: &FetchOrders) -> Credit {
        let bounded = |count: u32| (count > 0).then_some(u64::from(count));
        Credit { rows: bounded(fetch.credit_rows), bytes: bounded(fetch.credit_bytes) }
    }

    /// Whether there is none left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.rows == Some(0) || self.bytes == Some(0)
    }

    /// Rows and bytes of a page that may have so many by other limits.
    #[must_use]
    pub fn bound(&self, (rows_max, bytes_max): (u32, u32)) -> (u32, u32) {
        let least = |left: Option<u64>, max: u32| {
            left.map_or(max, |left| u32::try_from(left).unwrap_or(u32::MAX).min(max))
        };
        (least(self.rows, rows_max), least(self.bytes, bytes_max))
    }

    /// A page was sent.
    pub fn spend(&mut self, rows: u32, bytes: u64) {
        let less = |left: Option<u64>, by: u64| left.map(|left| left.saturating_sub(by));
        (self.rows, self.bytes) = (less(self.rows, u64::from(rows)), less(self.bytes, bytes));
    }

    /// More of what is bounded; what is not stays so.
    pub fn add(&mut self, more: &AddCredit) {
        let sum = |left: Option<u64>, by: u32| left.map(|left| left.saturating_add(by.into()));
        (self.rows, self.bytes) = (sum(self.rows, more.rows), sum(self.bytes, more.bytes));
    }
}
