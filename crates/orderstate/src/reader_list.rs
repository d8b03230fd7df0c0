//! A list of waiting readers for operators: requested by the HTTP side, built by the delivery agent
//! in bounded parts per cycle, so that it delays no reader.
//!
//! Requests during the building of a list get the next one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_delivery::{Filter, Lag, WaitCause, WaitingFetch};
use weir_types::{Nanos, PartitionId};

/// The maximum number of readers in a list: those that are the furthest behind.
pub const LISTED_MAX: usize = 256;

/// Requests for lists, and the last list built.
#[derive(Debug, Default)]
pub struct ReaderList {
    /// The number of the last list requested.
    asked: AtomicU64,
    made: Mutex<Made>,
}

#[derive(Clone, Debug, Default)]
struct Made {
    number: u64,
    waiting: usize,
    readers: Vec<ListedReader>,
}

/// The answer of `GET /readers`.
#[derive(Clone, Debug, Serialize)]
pub struct ReadersReport {
    /// The number of waiting queries, listed or not.
    pub waiting: usize,
    /// The furthest behind first, [`LISTED_MAX`] at most.
    pub readers: Vec<ListedReader>,
}

/// A query that waits at a source. One for all of a node's partitions waits at each, if there are
/// several; while it waits for its reader, at none.
#[derive(Clone, Debug, Serialize)]
pub struct ListedReader {
    /// The source of the orders; zero for a query for several that waits at none.
    pub source: u16,
    /// The reader's session.
    pub session: u32,
    /// The reader's connection, by the node's internal number.
    pub connection: u64,
    /// The query's number on the connection.
    pub question: u64,
    /// The firm of the filter; zero for all.
    pub firm: u32,
    /// The account of the filter; zero for all.
    pub account: u32,
    /// The instrument of the filter; zero for all.
    pub instrument: u32,
    /// The condition it waits for: `rows`, `min-token`, `older` pages from archive files, or its
    /// `reader`.
    pub waits_for: &'static str,
    /// The time it has waited, in milliseconds.
    pub waits_ms: u64,
    /// The remaining credit, in pages.
    pub credit: u32,
    /// Changes of the whole store since its cursor: an upper limit of its lag.
    pub changes: u64,
    /// Rows that match its filter and have not been sent.
    pub lag_rows: u32,
    /// The bytes of these rows.
    pub lag_bytes: u32,
    /// True when there are more rows than were counted.
    pub lag_is_more: bool,
    /// The age of the oldest of these rows, in microseconds; zero when there is none.
    pub lag_us: u64,
    /// Pages of this source sent to its connection.
    pub pages: u64,
    /// Rows in them.
    pub rows: u64,
    /// Changes merged into these rows.
    pub merged: u64,
}

impl ReaderList {
    /// The number of the last list that was requested.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Publishes a list.
    pub(crate) fn publish(&self, number: u64, waiting: usize, readers: Vec<ListedReader>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        *made = Made { number, waiting, readers };
    }

    /// Requests a list that is built from now on; returns its number.
    pub fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a list with this number or a later one, once it exists.
    #[must_use]
    pub fn made(&self, number: u64) -> Option<ReadersReport> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        (made.number >= number)
            .then(|| ReadersReport { waiting: made.waiting, readers: made.readers.clone() })
    }
}

/// The time of a list, and the wall clock then.
#[derive(Clone, Copy, Debug)]
pub struct ListTimes {
    /// The time of the duty cycle.
    pub now: Nanos,
    /// The wall clock.
    pub wall: Nanos,
}

impl ListedReader {
    pub(crate) fn of(
        source: PartitionId,
        waiting: &WaitingFetch,
        lag: &Lag,
        times: ListTimes,
    ) -> ListedReader {
        let ListTimes { now, wall } = times;
        let filter = waiting.filter.unwrap_or(Filter::ALL);
        ListedReader {
            source: source.0,
            session: waiting.session_id.0,
            connection: waiting.connection,
            question: waiting.correlation_id,
            firm: filter.firm_id.0,
            account: filter.account_id.0,
            instrument: filter.instrument_id.0,
            waits_for: match waiting.waits_for {
                WaitCause::Rows => "rows",
                WaitCause::MinToken => "min-token",
                WaitCause::Older => "older",
                WaitCause::Reader => "reader",
            },
            waits_ms: now.since(waiting.since).0 / 1_000_000,
            credit: waiting.credit_left,
            changes: waiting.changes,
            lag_rows: lag.rows,
            lag_bytes: lag.bytes,
            lag_is_more: lag.is_more,
            lag_us: match lag.rows {
                0 => 0,
                _ => wall.since(lag.oldest_transact_time).0 / 1_000,
            },
            pages: waiting.served.pages,
            rows: waiting.served.rows,
            merged: waiting.served.merged,
        }
    }
}
