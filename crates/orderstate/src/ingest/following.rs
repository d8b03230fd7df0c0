//! A followed source of another node: ingests the master's entries, a bounded amount per cycle.

use weir_delivery::OrderStore;
use weir_delivery::replay::ReplayError;
use weir_types::{Nanos, Position, Reason};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;
use weir_wire::replica::FollowState;

use super::followers::History;
use super::source_store::SourceStore;
use crate::replica::{FollowFigures, Update, UpdateData};
use crate::stores::StoreReport;
use crate::stores::tail::EntryTail;

/// The number of bytes of entries ingested in one cycle, beyond a single entry.
const TAKE_LEN: usize = 64 * 1024;

/// The state of a followed source.
#[derive(Debug, Default)]
pub(super) struct FollowedSource {
    /// Entries to be ingested, and the offset already reached.
    pending: Option<(Vec<u8>, usize)>,
    /// The master's last reported state.
    state: Option<FollowState>,
    position: Position,
    figures: FollowFigures,
}

/// The outcome of ingesting pending entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowOutcome {
    /// Nothing is pending.
    Idle,
    /// More is pending.
    More,
    /// It waits for room, or for the end of a sweep.
    Waits,
    /// The entries do not continue the store: a snapshot is needed.
    Broken,
}

impl SourceStore {
    /// Takes the master's update, after all earlier ones are ingested: a store at once, entries
    /// over several cycles. Returns the store that was replaced, if any.
    pub(super) fn update(&mut self, update: Update, now: Nanos) -> Option<OrderStore> {
        let following = self.following.as_mut()?;
        let Update { state, what } = update;
        let mut old = None;
        following.figures.heard_at = now;
        following.state = Some(state);
        match what {
            UpdateData::Store(made) => {
                let (store, stream) = *made;
                following.position = Position(state.position);
                following.pending = None;
                following.figures.snapshots += 1;
                old = Some(self.desk.replace_store(store));
                self.stream = stream;
                self.tail = EntryTail::new(Position(state.position));
                let history = History { high: state.history_high, low: state.history_low };
                self.followers.begin_history(history, self.desk.store_mut());
            }
            UpdateData::Entries(frames) => {
                following.pending = (!frames.is_empty()).then_some((frames, 0));
            }
        }
        self.look_whether_even(now);
        old
    }

    /// Returns true when the next update can be taken.
    pub(super) fn may_update(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.pending.is_none())
    }

    fn look_whether_even(&mut self, now: Nanos) {
        let Some(following) = &mut self.following else { return };
        let head = following.state.map(|state| state.head_position);
        if following.pending.is_none() && head == Some(following.position.0) {
            following.figures.caught_up_at = now;
        }
    }

    /// Ingests entries, up to one cycle's limit.
    pub(super) fn take_pending(&mut self, now: Nanos) -> FollowOutcome {
        let Some(following) = &mut self.following else { return FollowOutcome::Idle };
        let Some((frames, mut at)) = following.pending.take() else { return FollowOutcome::Idle };
        let begun = at;
        let mut follows = FollowOutcome::Idle;
        while at < frames.len() {
            if self.stream.is_sweeping() {
                follows = FollowOutcome::Waits;
                break;
            }
            if at - begun >= TAKE_LEN {
                follows = FollowOutcome::More;
                break;
            }
            let Framing::Frame { len, .. } = next_frame(&frames[at..], SOURCE_FRAME_LEN_MAX) else {
                unreachable!("the follower took whole frames");
            };
            let entry = &frames[at..at + len];
            match self.stream.replay(entry, self.desk.store_mut()) {
                Ok(()) if self.stream.is_log() => {
                    let last = Position(self.stream.next_batch_no().0 - 1);
                    self.tail.push_at(last, entry.to_vec());
                }
                Ok(()) => self.tail.push(entry.to_vec()),
                Err(ReplayError::Refused(Reason::StoreFull)) => {
                    following.figures.full_waits += 1;
                    follows = FollowOutcome::Waits;
                    break;
                }
                Err(error) => {
                    let source = self.stream.source();
                    tracing::error!(%source, %error, "a followed source is taken over anew");
                    return FollowOutcome::Broken;
                }
            }
            at += len;
            following.position = self.tail.last();
            following.figures.entries += 1;
        }
        if at < frames.len() {
            following.pending = Some((frames, at));
        }
        self.look_whether_even(now);
        follows
    }

    /// Returns its figures, if it is followed.
    pub(super) fn follow_figures(&self) -> Option<FollowFigures> {
        let following = self.following.as_ref()?;
        let state = following.state.as_ref();
        let store = self.desk.store();
        let seq = store.head().seq;
        Some(FollowFigures {
            position: following.position.0,
            head_position: state.map_or(0, |state| state.head_position),
            seqs: (seq, state.map_or(seq, |state| state.head_seq)),
            is_whole: self.stream.is_whole(),
            store: StoreReport::of(store),
            ..following.figures
        })
    }
}
