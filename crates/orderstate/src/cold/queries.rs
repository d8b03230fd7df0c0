//! Answers queries: a page from the archive, with the token that continues after it.

use std::sync::atomic::Ordering;

use weir_cold::plant::{self, Plant};
use weir_cold::{ColdError, ColdPage, Filter, PageLimits};
use weir_delivery::page::{PageHead, RowsPage, put_rows_page};
use weir_delivery::{OlderAnswer, OlderAsk, OlderPage, SourceCursor};
use weir_io::Disk;
use weir_types::{ChangeId, Nanos, Reason};

use super::agent::ColdAgent;

/// The interval in nanoseconds at which a segment may be closed early for a waiting reader.
pub const CLOSE_EVERY: u64 = 50_000_000;
/// The maximum number of entries scanned for one page: some milliseconds.
const SCAN_MAX: u32 = 131_072;
/// The maximum number of blocks read for one page.
const BLOCKS_MAX: u32 = 64;

impl<D: Disk> ColdAgent<D> {
    /// Returns the answer and the number of entries scanned; `None` when it is not available yet.
    pub(super) fn answer(
        &mut self,
        ask: &OlderAsk,
        told_to: ChangeId,
        now: Nanos,
    ) -> Option<(OlderAnswer, u32)> {
        let after = ask.at.change_id;
        // The store is in an epoch that the archive has not begun, or has completed a full resend
        // that the archive has not received.
        if ask.at.epoch > self.archive.epoch() || self.archive.fed() < told_to {
            return self.is_resting(now).then(|| (self.not_now(), 0));
        }
        if let Err(resync) = self.archive.check(ask.at.epoch, after) {
            return Some((self.refused(resync.reason()), 0));
        }
        let page = match self.page(ask, after) {
            Ok(page) => page,
            Err(error) => return Some((self.failed(&error, now), 0)),
        };
        let floor = ask.floor;
        if page.is_cut || page.next >= floor {
            return Some((self.made(ask, &page, now), page.scan_count));
        }
        if plant::is(Plant::SeamSkipped) {
            let page = ColdPage { next: floor, ..page };
            return Some((self.made(ask, &page, now), page.scan_count));
        }
        // The store has discarded changes that are in no segment yet.
        if self.archive.fed() < floor {
            return match self.is_behind() {
                // Changes wait until those before them are in a segment.
                true if self.is_resting(now) => Some((self.not_now(), page.scan_count)),
                true => None,
                // The changes were never sent: the next batch begins behind them.
                false => Some((self.refused(Reason::ResyncFloor), page.scan_count)),
            };
        }
        if now.since(self.closed_at).0 < CLOSE_EVERY {
            return None;
        }
        self.closed_at = now;
        if let Err(error) = self.archive.close() {
            return Some((self.failed(&error, now), page.scan_count));
        }
        match self.page(ask, after) {
            Ok(page) => Some((self.made(ask, &page, now), page.scan_count)),
            Err(error) => Some((self.failed(&error, now), 0)),
        }
    }

    fn page(&mut self, ask: &OlderAsk, after: ChangeId) -> Result<ColdPage, ColdError> {
        let all = weir_delivery::Filter::ALL;
        let asked = if plant::is(Plant::FilterDropped) { &all } else { ask.scope.filter() };
        let filter = Filter {
            firm_id: asked.firm_id,
            account_id: asked.account_id,
            instrument_id: asked.instrument_id,
            live_only: asked.live_only,
        };
        let limits = PageLimits {
            rows_max: ask.limits.rows_max,
            bytes_max: ask.limits.bytes_max,
            scan_max: SCAN_MAX,
            blocks_max: BLOCKS_MAX,
        };
        self.rows.clear();
        self.archive.page(after, &filter, &limits, &mut self.rows)
    }

    fn made(&mut self, ask: &OlderAsk, page: &ColdPage, now: Nanos) -> OlderAnswer {
        // Rows with later changes were omitted, whether or not those are in a segment yet.
        let seen = ask.at.seen.max(self.archive.fed().seq);
        let next = SourceCursor { change_id: page.next, seen, ..ask.at };
        let mut cursors = vec![next];
        cursors.extend_from_slice(&ask.elsewhere);
        self.token.clear();
        self.sealer.seal(&ask.scope, &cursors, &mut self.token);
        let rows = RowsPage {
            row_count: page.row_count,
            merged_count: page.merged_count,
            oldest_transact_time: page.oldest_transact_time,
            is_partial: page.is_partial,
            rows: &self.rows,
        };
        let mut frames = Vec::with_capacity(self.rows.len() + 512);
        let served_time = self.wall.wall_at(now);
        let head = PageHead { served_time, ..ask.head };
        put_rows_page(&head, &rows, &self.token, &mut frames);
        let figures = &self.figures;
        figures.counters.pages.fetch_add(1, Ordering::Relaxed);
        figures.counters.rows.fetch_add(u64::from(page.row_count), Ordering::Relaxed);
        figures.counters.entries_examined.fetch_add(u64::from(page.scan_count), Ordering::Relaxed);
        OlderAnswer::Page(OlderPage {
            next,
            row_count: page.row_count,
            byte_count: self.rows.len() as u64,
            credit_left: head.credit_left,
            frames,
        })
    }

    fn refused(&self, reason: Reason) -> OlderAnswer {
        self.figures.counters.resyncs.fetch_add(1, Ordering::Relaxed);
        OlderAnswer::Refused(reason)
    }

    fn failed(&mut self, error: &ColdError, now: Nanos) -> OlderAnswer {
        self.on_trouble(error, now);
        if matches!(error, ColdError::Segment(error) if error.is_lost()) {
            return self.refused(Reason::ResyncFloor);
        }
        self.not_now()
    }

    fn not_now(&self) -> OlderAnswer {
        self.figures.counters.not_now.fetch_add(1, Ordering::Relaxed);
        OlderAnswer::NotNow
    }
}
