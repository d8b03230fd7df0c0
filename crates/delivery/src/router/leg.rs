//! A reader's part in one source: where it is there, what has come for it, what it has asked.
//!
//! ```text
//! ──── given to the reader ────┤ at ├──── rows: come, not given yet ────┤ end ├──── not come ──►
//! ```
//! INVARIANT: a question is always asked from `at`, so that its answer takes the place of the rows
//! that are there and no order is in them twice. When `at` moves, the question is given up.

use weir_types::{Epoch, Nanos, PartitionId};

use super::backend::BackendId;
use super::rows::Rows;
use crate::ring::Place;
use crate::token::SourcePlace;

/// A question that a backend has not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) correlation_id: u64,
    pub(super) backend: BackendId,
    /// The backend's, when it was asked: what was asked before it failed or went is in vain.
    pub(super) generation: u32,
    /// When it is in vain.
    pub(super) answer_by: Nanos,
    /// When to look for a backend that is further; `None` while this one is far enough.
    pub(super) recheck_at: Option<Nanos>,
    /// The master's word counts, whatever its epoch.
    pub(super) is_forced: bool,
    /// It says what the store is to have reached.
    pub(super) has_min: bool,
}

/// How a source stands for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The backend that it is with has not said anything yet.
    Unknown,
    /// It has had the newest state; what comes is live.
    Online,
    /// There is more to read at once.
    More,
    /// Nobody who can be asked has reached the reader's place.
    Behind,
    /// There is nobody to ask.
    Away,
}

#[derive(Debug)]
pub(super) struct Leg {
    pub(super) at: SourcePlace,
    pub(super) rows: Rows,
    pub(super) end: SourcePlace,
    pub(super) asking: Option<Asking>,
    /// The backend that it was asked of last.
    pub(super) backend: Option<BackendId>,
    pub(super) standing: Standing,
    /// Since when nobody knows the epoch of `at`.
    pub(super) lost_since: Option<Nanos>,
    /// What a store is to have reached before its word counts.
    pub(super) min: Option<SourcePlace>,
}

impl Leg {
    pub(super) fn new(at: SourcePlace) -> Leg {
        Leg {
            at,
            rows: Rows::default(),
            end: at,
            asking: None,
            backend: None,
            standing: Standing::Unknown,
            lost_since: None,
            min: None,
        }
    }

    /// How far a store is to be to be asked: the reader's place, or what it is to have reached.
    pub(super) fn wanted_place(&self) -> SourcePlace {
        match self.min {
            Some(min) if (min.epoch, min.place) > (self.at.epoch, self.at.place) => min,
            _ => self.at,
        }
    }

    /// At the beginning of a source.
    pub(super) fn at_start(source: PartitionId) -> Leg {
        Leg::new(SourcePlace::new(source, Epoch(0), Place::START))
    }

    pub(super) fn source(&self) -> PartitionId {
        self.at.source
    }

    /// True when the reader hears of this source, or would if anything happened.
    pub(super) fn is_present(&self) -> bool {
        !matches!(self.standing, Standing::Away | Standing::Behind)
    }

    /// True when it is known whether there is something to read, or that nobody can tell.
    pub(super) fn is_settled(&self) -> bool {
        self.standing != Standing::Unknown
    }

    /// Where the reader is once it was given the first `count` rows.
    pub(super) fn place_after(&self, count: usize) -> SourcePlace {
        match count {
            0 => self.at,
            count if count == self.rows.len() => self.end,
            count => SourcePlace { place: self.rows.as_slice()[count - 1].place, ..self.end },
        }
    }

    /// Moves the reader past its first `count` rows; the question that is given up by that, if any.
    pub(super) fn give(&mut self, count: usize) -> Option<Asking> {
        if count == 0 {
            return None;
        }
        self.at = self.place_after(count);
        self.rows.skip(count);
        self.asking.take()
    }

    /// Forgets what has come and was not given.
    pub(super) fn drop_rows(&mut self) -> usize {
        let count = self.rows.len();
        self.rows.clear();
        self.end = self.at;
        if self.standing != Standing::Away {
            self.standing = Standing::Unknown;
        }
        count
    }

    /// When to look at it again if nothing comes.
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
