//! A reader's leg in one source: its place, the rows received for it, its outstanding request.
//!
//! ```text
//! ──── served to the reader ───┤ at ├── rows: received, not served yet ──┤ end ├── to come ──►
//! ```
//! INVARIANT: a request always starts from `at`, so that its answer replaces the rows that are
//! there and no order is in them twice. When `at` moves, the request is given up.

use weir_types::{ChangeId, Epoch, Nanos, PartitionId};

use super::backend::BackendId;
use super::rows::Rows;
use crate::token::SourceCursor;

/// A request that a backend has not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) correlation_id: u64,
    pub(super) backend: BackendId,
    /// The backend's generation at the time of the request: a request of an older one gets no
    /// answer.
    pub(super) generation: u32,
    /// The time at which the backend counts as silent, if it has answered no other since.
    pub(super) answer_by: Nanos,
    /// The time at which the request is given up although it has.
    pub(super) slow_until: Nanos,
    /// The backend's answers before the request, or when it was last looked at.
    pub(super) answers_before: u64,
    /// The time at which to look for a more advanced backend; `None` while this one is far enough.
    pub(super) recheck_at: Option<Nanos>,
    /// The master's answer is decisive, whatever its epoch.
    pub(super) is_forced: bool,
    /// The request names a place that the store must have reached.
    pub(super) has_min: bool,
}

/// The status of a source for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LegStatus {
    /// The leg's backend has not answered yet.
    Unknown,
    /// The reader has had the newest state; new rows are live.
    Online,
    /// There is more to read at once.
    More,
    /// No backend that can be asked has reached the reader's place.
    Behind,
    /// There is no backend that can be asked.
    Away,
}

#[derive(Debug)]
pub(super) struct Leg {
    pub(super) at: SourceCursor,
    pub(super) rows: Rows,
    pub(super) end: SourceCursor,
    pub(super) asking: Option<PendingRequest>,
    /// The backend of the last request.
    pub(super) backend: Option<BackendId>,
    /// The backend that took too long with it.
    pub(super) avoided: Option<BackendId>,
    pub(super) standing: LegStatus,
    /// The time since which no backend knows the epoch of `at`.
    pub(super) lost_since: Option<Nanos>,
    /// The place that a store must have reached before its answer counts.
    pub(super) min: Option<SourceCursor>,
}

impl Leg {
    pub(super) fn new(at: SourceCursor) -> Leg {
        Leg {
            at,
            rows: Rows::default(),
            end: at,
            asking: None,
            backend: None,
            avoided: None,
            standing: LegStatus::Unknown,
            lost_since: None,
            min: None,
        }
    }

    /// Returns the place that a store should have reached: the reader's, or that of its
    /// `min_token`.
    pub(super) fn wanted_cursor(&self) -> SourceCursor {
        match self.min {
            Some(min) if (min.epoch, min.change_id) > (self.at.epoch, self.at.change_id) => min,
            _ => self.at,
        }
    }

    /// Returns a leg at the beginning of a source.
    pub(super) fn at_start(source: PartitionId) -> Leg {
        Leg::new(SourceCursor::new(source, Epoch(0), ChangeId::START))
    }

    pub(super) fn source(&self) -> PartitionId {
        self.at.source
    }

    /// True when the reader gets rows of this source, or would if there were any.
    pub(super) fn is_present(&self) -> bool {
        !matches!(self.standing, LegStatus::Away | LegStatus::Behind)
    }

    /// True when the source has answered, or no backend can answer.
    pub(super) fn is_settled(&self) -> bool {
        self.standing != LegStatus::Unknown
    }

    /// Returns the reader's place once it was served the first `count` rows.
    pub(super) fn cursor_after(&self, count: usize) -> SourceCursor {
        match count {
            0 => self.at,
            count if count == self.rows.len() => self.end,
            count => {
                SourceCursor { change_id: self.rows.as_slice()[count - 1].change_id, ..self.end }
            }
        }
    }

    /// Moves the reader past its first `count` rows; returns the request that this gives up, if
    /// any.
    pub(super) fn give(&mut self, count: usize) -> Option<PendingRequest> {
        if count == 0 {
            return None;
        }
        self.at = self.cursor_after(count);
        self.rows.skip(count);
        self.asking.take()
    }

    /// Drops the rows that were received and not served.
    pub(super) fn drop_rows(&mut self) -> usize {
        let count = self.rows.len();
        self.rows.clear();
        self.end = self.at;
        if self.standing != LegStatus::Away {
            self.standing = LegStatus::Unknown;
        }
        count
    }

    /// Returns the time of the next visit if nothing is received.
    pub(super) fn deadline(&self, epoch_wait: Nanos) -> Option<Nanos> {
        match (&self.asking, self.lost_since) {
            (Some(asking), _) => {
                Some(asking.recheck_at.map_or(asking.answer_by, |at| at.min(asking.answer_by)))
            }
            (None, Some(since)) => Some(Nanos(since.0.saturating_add(epoch_wait.0))),
            (None, None) => None,
        }
    }
}
