//! The readers that wait at a desk, the pages that each was served, and its lag, for operators.
//!
//! A listing visits every seat, and a reader's lag takes the selection of a page, so both are done
//! in parts that a caller spreads over its cycles.

use weir_types::{Nanos, SessionId};

use super::{BelowFloorState, Desk, Reader};
use crate::filter::Filter;
use crate::page::PageLimits;

/// Entries that a lag visits at most.
const LAG_SCAN_MAX: u32 = 4_096;
/// Rows that a lag counts at most.
const LAG_ROWS_MAX: u32 = 4_096;

/// Counts of the pages served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages.
    pub pages: u64,
    /// Rows in them.
    pub rows: u64,
    /// Changes that the rows stand for besides their own; pages from an archive are not counted
    /// here.
    pub merged: u64,
}

impl PageCounts {
    pub(super) fn add(&mut self, more: PageCounts) {
        self.pages += more.pages;
        self.rows += more.rows;
        self.merged += more.merged;
    }
}

/// The thing that a fetch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// Rows, or the end of its wait.
    Rows,
    /// The store, to reach its `min_token`.
    MinToken,
    /// Pages from an archive.
    Older,
    /// Its connection, which takes no data, or more credit.
    Reader,
}

/// A fetch that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingFetch {
    /// Its seat, until it leaves.
    pub seat: usize,
    /// Its connection, by the caller's number.
    pub connection: u64,
    /// Its session.
    pub session_id: SessionId,
    /// Its number on the connection.
    pub correlation_id: u64,
    /// Its effective filter; none if it is about to be refused.
    pub filter: Option<Filter>,
    /// The thing that it waits for.
    pub waits_for: WaitCause,
    /// The time at which the wait began.
    pub since: Nanos,
    /// Pages that it may still be sent.
    pub credit_left: u32,
    /// Changes of the whole store since its place, whether they match its filter or not: an upper
    /// bound.
    pub changes: u64,
    /// Counts of the pages that this desk served its connection.
    pub served: PageCounts,
}

/// The rows that match a reader's filter and have not been served to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Rows.
    pub rows: u32,
    /// Their bytes.
    pub bytes: u32,
    /// True when there are more than were counted.
    pub is_more: bool,
    /// The time of the oldest change among them; zero if there is none.
    pub oldest_transact_time: Nanos,
}

impl Desk {
    /// Lists the fetches on `count` seats from `seat` on. Returns the seat to go on at, `None` at
    /// the end. Fetches come and go between calls.
    pub fn list(
        &self,
        seat: usize,
        count: usize,
        sink: &mut impl FnMut(WaitingFetch),
    ) -> Option<usize> {
        let end = seat.saturating_add(count).min(self.readers.len());
        for at in seat..end {
            if let Some(reader) = &self.readers[at] {
                sink(self.waiting(at, reader));
            }
        }
        (end < self.readers.len()).then_some(end)
    }

    fn waiting(&self, seat: usize, reader: &Reader) -> WaitingFetch {
        let mut served = self
            .by_connection
            .get(&reader.connection)
            .map_or_else(PageCounts::default, |seats| seats.served);
        served.add(reader.served);
        let waits_for = match &reader.below {
            _ if reader.is_paused => WaitCause::Reader,
            _ if reader.min.is_some() => WaitCause::MinToken,
            BelowFloorState::No => WaitCause::Rows,
            _ => WaitCause::Older,
        };
        WaitingFetch {
            seat,
            connection: reader.connection,
            session_id: reader.head.session_id,
            correlation_id: reader.head.correlation_id,
            filter: reader.scope.map(|scope| *scope.filter()),
            waits_for,
            since: reader.waiting_since,
            credit_left: reader.head.credit_left,
            changes: self.store.head().seq.0.saturating_sub(reader.after.seq.0),
            served,
        }
    }

    /// Counts the rows that a listed fetch has not been served yet, within a bounded number of
    /// entries; `None` if it is no longer there. Below the floor it counts the rows that the store
    /// still has.
    pub fn lag(&mut self, waiting: &WaitingFetch) -> Option<Lag> {
        let reader = self.readers.get(waiting.seat)?.as_ref()?;
        let is_same = reader.connection == waiting.connection
            && reader.head.correlation_id == waiting.correlation_id;
        let scope = reader.scope.filter(|_| is_same)?;
        let is_below = !matches!(reader.below, BelowFloorState::No);
        let limits =
            PageLimits { rows_max: LAG_ROWS_MAX, bytes_max: u32::MAX, scan_max: LAG_SCAN_MAX };
        let query = reader.query(&scope, &limits);
        let page = self.store.select_from(&query, &mut self.selection);
        Some(Lag {
            rows: page.row_count,
            bytes: page.byte_count,
            is_more: page.is_cut || is_below,
            oldest_transact_time: page.oldest_transact_time,
        })
    }
}
