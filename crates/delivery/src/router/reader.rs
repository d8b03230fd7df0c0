//! A fetch that waits at a router, and the time at which its page is due.
//!
//! The rules are those of the [desk](crate::desk), over the rows of all sources together:
//!
//! ```text
//! a fetch waits until                                          | and gets
//! -------------------------------------------------------------+---------------------------------
//! `rows_min` rows are there, the page is full, or some source  | a page
//!   has more rows than those that are there                    |
//! one row is there and `wait_max` since the fetch is over      | a page of the rows that are there
//! `rows_min` is zero and each source has answered, or          | a page, even without rows
//!   `wait_max` and the settle wait are over                    |
//! no row is there, it has no token, `wait_max` is over and     | an empty page
//!   each source has answered or is away                        |
//! no row is there and the idle wait is over                    | an empty page with the next token
//! ```
//! It never waits for a source that has no rows, or for one that is away. A fetch with a
//! `min_token` first waits until a store of each source that the token names has reached it, even
//! if the source is away, and is refused if that takes longer than the fetch allows.

use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::delivery::FetchOrders;

use super::RouterConfig;
use super::leg::{Leg, LegStatus};
use crate::credit::Credit;
use crate::filter::{Entitlement, Scope};
use crate::page::PageHead;
use crate::token::SourceCursor;

/// The terms of a reader's fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) entitlement: Entitlement,
    /// Only this source's orders; none for all.
    pub(super) source_id: PartitionId,
    pub(super) rows_max: u32,
    pub(super) bytes_max: u32,
    pub(super) rows_min: u32,
    pub(super) wait: Nanos,
}

impl Terms {
    pub(super) fn new(
        fetch: &FetchOrders,
        entitlement: Entitlement,
        config: &RouterConfig,
    ) -> Terms {
        let or_max = |asked: u32, max: u32| if asked == 0 { max } else { asked.min(max) };
        let rows_max = or_max(fetch.rows_max, config.page_rows_max).max(1);
        let wait = match fetch.wait_max_us {
            0 => config.wait_default,
            us => Nanos(u64::from(us) * 1_000).min(config.wait_max),
        };
        Terms {
            entitlement,
            source_id: fetch.source_id,
            rows_max,
            bytes_max: or_max(fetch.bytes_max, config.page_bytes_max),
            rows_min: fetch.rows_min.min(rows_max),
            wait,
        }
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: u64,
    pub(super) head: PageHead,
    pub(super) scope: Option<Scope>,
    pub(super) refusal: Option<Reason>,
    /// Its refusal is for now alone, and its token as valid as before.
    pub(super) is_turned_away: bool,
    pub(super) terms: Terms,
    pub(super) credit: Credit,
    /// It came without a token and has had no page yet.
    pub(super) is_fresh: bool,
    /// True when its last page had SOURCE_AWAY.
    pub(super) is_told_away: bool,
    /// The time at which the wait for its next page began.
    pub(super) waiting_since: Nanos,
    /// The time until which its place is kept after its last page.
    pub(super) lingers_until: Option<Nanos>,
    /// One leg for each source, in the sources' order.
    pub(super) legs: Vec<Leg>,
    /// The time by which all sources must have reached the fetch's `min_token`.
    pub(super) min_until: Nanos,
    /// Places in sources that are not known here, or not asked for: handed on unchanged.
    pub(super) carried: Vec<SourceCursor>,
}

/// The next event that a reader is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A page, now.
    Page,
    /// Nothing before this time.
    At(Nanos),
    /// Removal: its place is no longer kept.
    Gone,
}

impl Terms {
    /// True when the fetch is for this source's orders.
    pub(super) fn is_about(&self, source: PartitionId) -> bool {
        self.source_id.is_none() || self.source_id == source
    }
}

impl Reader {
    pub(super) fn is_lingering(&self) -> bool {
        self.lingers_until.is_some()
    }

    /// True for the session's fetch of this number, until it has had its last page.
    pub(super) fn is_fetch(&self, session_id: SessionId, correlation_id: u64) -> bool {
        let head = &self.head;
        let is_same = (head.session_id, head.correlation_id) == (session_id, correlation_id);
        is_same && !self.is_lingering()
    }

    /// Returns the number of rows that have come, over all sources.
    pub(super) fn held_count(&self) -> u64 {
        self.legs.iter().map(|leg| leg.rows.len() as u64).sum()
    }

    pub(super) fn fill_deadline(&self) -> Nanos {
        Nanos(self.waiting_since.0.saturating_add(self.terms.wait.0))
    }

    fn after(&self, span: Nanos) -> Nanos {
        Nanos(self.waiting_since.0.saturating_add(span.max(self.terms.wait).0))
    }

    /// Refuses it for now: it may ask again with the same token.
    pub(super) fn turn_away(&mut self, reason: Reason) {
        self.is_turned_away |= self.refusal.is_none();
        self.refusal.get_or_insert(reason);
    }

    /// True when it is sent nothing until it has more credit.
    pub(super) fn stands_still(&self) -> bool {
        self.credit.is_spent() && self.refusal.is_none()
    }

    /// True when some source has not reached the fetch's `min_token`.
    pub(super) fn waits_for_min(&self) -> bool {
        self.legs.iter().any(|leg| leg.min.is_some())
    }

    /// Returns the next event, by the table above.
    pub(super) fn due(&self, config: &RouterConfig, now: Nanos) -> Due {
        if let Some(until) = self.lingers_until {
            return if until <= now { Due::Gone } else { Due::At(until) };
        }
        if self.waits_for_min() {
            return Due::At(self.min_until);
        }
        let page_or_at = |time: Nanos| if time <= now { Due::Page } else { Due::At(time) };
        let held_count = self.held_count();
        if held_count > 0 {
            let has_more = |leg: &Leg| !leg.rows.is_empty() && leg.standing != LegStatus::Online;
            let rows_min = self.terms.rows_min.min(self.page_terms().rows_max);
            let is_enough = held_count >= u64::from(rows_min);
            if is_enough || self.is_full() || self.legs.iter().any(has_more) {
                return Due::Page;
            }
            return page_or_at(self.fill_deadline());
        }
        let is_settled = self.legs.iter().all(Leg::is_settled);
        match (self.terms.rows_min, is_settled) {
            (0, true) => Due::Page,
            (0, false) => page_or_at(self.after(config.settle_wait)),
            (_, true) if self.is_fresh => page_or_at(self.fill_deadline()),
            _ => page_or_at(self.after(config.idle_wait)),
        }
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.legs.iter().map(|leg| leg.rows.byte_len(leg.rows.len())).sum();
        bytes as u64 >= u64::from(self.page_terms().bytes_max)
    }

    /// Returns the limits of its next page, from its terms and its credit.
    pub(super) fn page_terms(&self) -> Terms {
        let (rows_max, bytes_max) = self.credit.bound(self.terms.rows_max, self.terms.bytes_max);
        Terms { rows_max, bytes_max, ..self.terms }
    }

    /// Returns the rows and bytes to request from a source: a whole page's if few are expected, a
    /// share of a page if there is much to read from every source.
    pub(super) fn share(&self, leg: &Leg) -> (u32, u32) {
        let Terms { rows_max, bytes_max, .. } = self.page_terms();
        if leg.standing == LegStatus::Online {
            return (rows_max, bytes_max);
        }
        let is_reading = |leg: &&Leg| !matches!(leg.standing, LegStatus::Online | LegStatus::Away);
        let count = self.legs.iter().filter(is_reading).count().max(1);
        let count = u32::try_from(count).expect("sources are few");
        (rows_max.div_ceil(count), bytes_max.div_ceil(count).max(1))
    }

    /// Returns the time of the next visit to its legs if nothing is received.
    pub(super) fn legs_deadline(&self, config: &RouterConfig) -> Option<Nanos> {
        self.legs.iter().filter_map(|leg| leg.deadline(config.epoch_wait)).min()
    }

    /// Begins the wait for the next page.
    pub(super) fn go_on(&mut self, now: Nanos) {
        self.is_fresh = false;
        self.waiting_since = now;
        // Only the first page may be empty on request: credit is not spent on empty pages.
        self.terms.rows_min = self.terms.rows_min.max(1);
    }
}
