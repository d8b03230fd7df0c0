//! A followed source of another node: ingests the master's updates, a bounded amount per cycle. A
//! source whose store is full lets its own updates wait, and nobody else's.

use std::collections::VecDeque;

use weir_delivery::OrderStore;
use weir_delivery::replay::ReplayError;
use weir_io::{Disk, monotonic_now};
use weir_types::{Position, Reason};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;
use weir_wire::replica::FollowState;

use super::followers::History;
use super::source_store::SourceStore;
use crate::replica::{FollowFigures, Update, UpdateData, UpdateTicket};
use crate::stores::StoreReport;
use crate::stores::tail::EntryTail;

/// The number of bytes of entries ingested in one cycle, beyond a single entry.
const TAKE_LEN: usize = 64 * 1024;

/// The state of a followed source.
#[derive(Debug)]
pub(super) struct FollowedSource {
    /// Updates behind the pending one. The follower bounds their number.
    queue: VecDeque<Update>,
    /// Entries to be ingested.
    pending: Option<Pending>,
    /// The master's last reported state.
    state: Option<FollowState>,
    position: Position,
    /// True from an entry that did not continue the store until the next snapshot: entries that
    /// were under way meanwhile do not continue it either.
    is_broken: bool,
    figures: FollowFigures,
}

impl Default for FollowedSource {
    fn default() -> FollowedSource {
        FollowedSource {
            queue: VecDeque::new(),
            pending: None,
            state: None,
            position: Position::NONE,
            is_broken: false,
            // Until it has caught up, it lags since now.
            figures: FollowFigures { caught_up_at: monotonic_now(), ..FollowFigures::default() },
        }
    }
}

/// Entries being ingested.
#[derive(Debug)]
struct Pending {
    frames: Vec<u8>,
    /// The offset already reached.
    at: usize,
    /// Tells the follower that the update is still under way.
    _ticket: UpdateTicket,
}

/// The outcome of ingesting updates.
#[derive(Debug)]
pub(super) enum FollowOutcome {
    /// Nothing is pending.
    Idle,
    /// A snapshot's store replaced this one.
    Replaced(Box<OrderStore>),
    /// More is pending.
    More,
    /// It waits for room, or for the end of a sweep.
    Waits,
    /// The entries do not continue the store: a snapshot is needed.
    Broken,
}

impl<D: Disk> SourceStore<D> {
    /// Queues the master's update behind the earlier ones.
    pub(super) fn push_update(&mut self, update: Update) {
        let following = self.following.as_mut().expect("the follower knows its sources");
        following.queue.push_back(update);
    }

    /// Ingests updates, up to one cycle's limit.
    pub(super) fn follow_on(&mut self) -> FollowOutcome {
        let Some(following) = &mut self.following else { return FollowOutcome::Idle };
        if following.pending.is_none()
            && let Some(update) = following.queue.pop_front()
            && let Some(old) = self.begin(update)
        {
            return FollowOutcome::Replaced(Box::new(old));
        }
        self.take_pending()
    }

    /// Begins with an update: takes over a store at once, entries from the next step on. Returns
    /// the store that was replaced, if any.
    fn begin(&mut self, update: Update) -> Option<OrderStore> {
        let following = self.following.as_mut()?;
        let Update { state, what, ticket } = update;
        let mut old = None;
        following.figures.heard_at = monotonic_now();
        following.state = Some(state);
        match what {
            UpdateData::Store(made) => {
                let (store, stream) = *made;
                following.is_broken = false;
                following.position = Position(state.position);
                following.figures.snapshots += 1;
                old = Some(self.desk.replace_store(store));
                self.stream = stream;
                self.tail = EntryTail::new(Position(state.position));
                let history = History { high: state.history_high, low: state.history_low };
                self.followers.begin_history(history, self.desk.store_mut());
            }
            UpdateData::Entries(frames) => {
                let pending = Pending { frames, at: 0, _ticket: ticket };
                let is_next = !following.is_broken && !pending.frames.is_empty();
                following.pending = is_next.then_some(pending);
            }
        }
        self.look_whether_even();
        old
    }

    fn look_whether_even(&mut self) {
        let Some(following) = &mut self.following else { return };
        let head = following.state.map(|state| state.head_position);
        let is_even = head == Some(following.position.0) && !following.is_broken;
        if following.pending.is_none() && is_even {
            following.figures.caught_up_at = monotonic_now();
        }
    }

    /// Ingests entries, up to one cycle's limit.
    fn take_pending(&mut self) -> FollowOutcome {
        let Some(following) = &mut self.following else { return FollowOutcome::Idle };
        let Some(mut pending) = following.pending.take() else { return FollowOutcome::Idle };
        let Pending { frames, at, .. } = &mut pending;
        let mut follows = FollowOutcome::Idle;
        let begun = *at;
        while *at < frames.len() {
            if self.stream.is_sweeping() {
                follows = FollowOutcome::Waits;
                break;
            }
            if *at - begun >= TAKE_LEN {
                follows = FollowOutcome::More;
                break;
            }
            let Framing::Frame { len, .. } = next_frame(&frames[*at..], SOURCE_FRAME_LEN_MAX)
            else {
                unreachable!("the follower took whole frames");
            };
            let entry = &frames[*at..*at + len];
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
                    following.is_broken = true;
                    return FollowOutcome::Broken;
                }
            }
            *at += len;
            following.position = self.tail.last();
            following.figures.entries += 1;
        }
        if *at < frames.len() {
            following.pending = Some(pending);
        }
        self.look_whether_even();
        follows
    }

    /// Returns its figures, if it is followed.
    pub(super) fn follow_figures(&self) -> Option<FollowFigures> {
        let following = self.following.as_ref()?;
        let state = following.state.as_ref();
        let store = self.desk.store();
        let seq = store.complete_to().seq;
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
