//! The stores of all sources and the streams that feed them, including the node's own partition:
//! the part of the delivery agent's cycle before its readers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use weir_delivery::{Desk, OrderStore};
use weir_types::{Nanos, PartitionId, Reason};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::{SOURCE_FRAME_LEN_MAX, SourceBatch};

use super::feed::{Feed, FeedParts, SnapshotGoes};
use super::figures::IngestFigures;
use super::following::Follows;
use super::handoff::{Asked, IngestPort, IngestRequest};
use crate::replica::{ReplicaFigures, UpdatePort};
use crate::stores::OWN;
use crate::stores::snapshots::{SnapshotPort, Written};

/// The number of requests taken in one cycle.
const REQUESTS_MAX: usize = 8;

/// The feeds of all sources.
pub struct Feeds {
    pub(super) feeds: Vec<Feed>,
    port: Option<IngestPort>,
    /// A batch whose source cannot take it yet.
    held: Option<IngestRequest>,
    /// The ring of a replica's updates, if this node follows another, and its figures.
    updates: Option<(UpdatePort, Arc<ReplicaFigures>)>,
    /// The ring to the writer of snapshots, if any, and the index of the feed whose snapshot is
    /// under way.
    snapshots: Option<SnapshotPort>,
    snapshot_of: Option<usize>,
    figures: Arc<IngestFigures>,
}

impl Feeds {
    /// Returns the feeds of all sources, served over `port`.
    #[must_use]
    pub fn new(
        feeds: Vec<FeedParts>,
        port: Option<IngestPort>,
        updates: Option<(UpdatePort, Arc<ReplicaFigures>)>,
        snapshots: Option<SnapshotPort>,
        figures: Arc<IngestFigures>,
    ) -> Feeds {
        let feeds = feeds.into_iter().map(Feed::new).collect();
        let (held, snapshot_of) = (None, None);
        let feeds = Feeds { feeds, port, held, updates, snapshots, snapshot_of, figures };
        feeds.publish();
        feeds
    }

    /// Returns the readers' desk of a source.
    ///
    /// # Errors
    /// [`Reason::UnknownSource`]; [`Reason::PartitionAway`] until its core has sent all orders.
    pub fn desk_of(&mut self, source: PartitionId) -> Result<&mut Desk, Reason> {
        let feed = self.feeds.iter_mut().find(|feed| feed.source() == source);
        let feed = feed.ok_or(Reason::UnknownSource)?;
        if feed.stream.is_whole() { Ok(&mut feed.desk) } else { Err(Reason::PartitionAway) }
    }

    /// Returns all readers' desks.
    pub fn desks(&mut self) -> impl Iterator<Item = &mut Desk> {
        self.feeds.iter_mut().map(|feed| &mut feed.desk)
    }

    /// Returns all readers' desks, read-only.
    pub fn desks_ref(&self) -> impl ExactSizeIterator<Item = &Desk> {
        self.feeds.iter().map(|feed| &feed.desk)
    }

    /// Returns the feed of the node's own partition, where it trades.
    pub fn own(&mut self) -> Option<&mut Feed> {
        self.feeds.iter_mut().find(|feed| feed.own.is_some())
    }

    /// Returns the store of partition 1, its own or followed.
    #[must_use]
    pub fn first_store(&self) -> Option<&OrderStore> {
        let feed = self.feeds.iter().find(|feed| feed.source() == OWN);
        feed.map(|feed| feed.desk.store())
    }

    /// Returns true when replicas wait for the next events of the node's own partition.
    #[must_use]
    pub fn is_own_followed(&self) -> bool {
        self.feeds.iter().any(|feed| feed.own.is_some() && feed.followers.count() > 0)
    }

    /// Returns the earliest of the feeds' deadlines.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.feeds.iter().filter_map(Feed::next_deadline).min()
    }

    /// Processes requests and updates, up to one cycle's limit; returns the amount of work done.
    pub fn work(&mut self, now: Nanos) -> usize {
        if self.port.is_none() && self.updates.is_none() {
            return self.snapshot();
        }
        let mut done = 0;
        for feed in &mut self.feeds {
            done += feed.tend(now);
            feed.feed_cold(now);
        }
        done += self.take_updates(now);
        for _ in 0..REQUESTS_MAX {
            let Some(request) = self.next_request() else { break };
            self.take(request, now);
            done += 1;
        }
        if let Some(port) = &mut self.port {
            done += self.feeds.iter_mut().map(|feed| feed.settle(now, port)).sum::<usize>();
            if done > 0 {
                port.wake.wake();
            }
        }
        done += self.snapshot();
        if done > 0 {
            self.publish();
        }
        done
    }

    /// Ingests pending updates from the master, and takes the next one; returns the amount of work
    /// done.
    fn take_updates(&mut self, now: Nanos) -> usize {
        let Some((port, _)) = &mut self.updates else { return 0 };
        let mut done = 0;
        for feed in &mut self.feeds {
            match feed.take_pending(now) {
                Follows::Idle | Follows::Waits => {}
                Follows::More => done += 1,
                // A full ring already contains this source.
                Follows::Broken => drop(port.broken.push(feed.source())),
            }
        }
        let waits = |feed: &Feed| feed.following.is_some() && !feed.may_update();
        if self.feeds.iter().any(waits) {
            return done;
        }
        if let Ok(update) = port.updates.pop() {
            let source = update.state.source_id;
            let feed = self.feeds.iter_mut().find(|feed| feed.source() == source);
            let old = feed.expect("the follower knows the sources").update(update, now);
            if let Some(old) = old {
                // If the ring is full, the old store is freed here.
                drop(port.retired.push(old));
            }
            port.wake.wake();
            done += 1;
        }
        done
    }

    /// Returns the next request, if it can be processed now.
    fn next_request(&mut self) -> Option<IngestRequest> {
        let port = self.port.as_mut()?;
        let request = self.held.take().or_else(|| port.requests.pop().ok())?;
        let is_batch = matches!(request.what, Asked::Batch(_));
        let is_gone = matches!(request.what, Asked::Gone);
        let must_wait = |feed: &Feed| {
            let is_fed = feed.following.is_none();
            is_fed && (feed.must_wait() || is_batch && feed.stream.is_sweeping())
        };
        if !is_gone && self.feeds.iter().any(must_wait) {
            self.held = Some(request);
            return None;
        }
        Some(request)
    }

    fn take(&mut self, request: IngestRequest, now: Nanos) {
        let connection = request.connection;
        match request.what {
            Asked::Gone => self.feeds.iter_mut().for_each(|feed| feed.forget(connection)),
            Asked::Follow(follow) => {
                self.feed(follow.source_id).follow(connection, follow, now);
            }
            Asked::Open(open) => self.feed(open.source_id).open(connection, &open, now),
            Asked::Batch(frame) => {
                let feed = self.feed(source_of(&frame));
                feed.batch(connection, frame, now);
                // Sent now, since the next batch may end as many orders as the store retains.
                feed.feed_cold(now);
            }
        }
    }

    fn feed(&mut self, source: PartitionId) -> &mut Feed {
        let feed = self.feeds.iter_mut().find(|feed| feed.source() == source);
        feed.expect("the ingest agent knows the sources")
    }

    /// Advances the snapshot under way, or begins one when due; returns the amount of work done.
    fn snapshot(&mut self) -> usize {
        let Some(port) = &mut self.snapshots else { return 0 };
        if let Ok(Written { source, oldest_kept }) = port.written.pop() {
            let feed = self.feeds.iter_mut().find(|feed| feed.source() == source);
            if let (Some(feed), Some(oldest)) = (feed, oldest_kept) {
                feed.cut_log(oldest);
            }
            self.snapshot_of = None;
            return 1;
        }
        if let Some(index) = self.snapshot_of {
            let goes = self.feeds[index].go_on_with_snapshot(port);
            if goes == SnapshotGoes::GivenUp {
                port.figures.failed.fetch_add(1, Ordering::Relaxed);
                self.snapshot_of = None;
            }
            return usize::from(goes == SnapshotGoes::On);
        }
        self.snapshot_of = self.feeds.iter_mut().position(|feed| feed.begin_snapshot(port));
        usize::from(self.snapshot_of.is_some())
    }

    /// Closes the logs when the node stops: ingested entries are on the medium on return.
    pub fn close(&mut self) {
        self.feeds.iter_mut().for_each(Feed::close);
    }

    /// Publishes the stores' figures.
    pub fn publish(&self) {
        let mut sources = self.figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let fed = self.feeds.iter();
        let fed = fed.filter(|feed| feed.following.is_none() && feed.own.is_none());
        *sources = fed.map(Feed::figures).collect();
        sources.sort_by_key(|source| source.source);
        if let Some((_, figures)) = &self.updates {
            let mut sources = figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let followed = |feed: &Feed| Some((feed.source(), feed.follow_figures()?));
            *sources = self.feeds.iter().filter_map(followed).collect();
        }
    }
}

/// Returns the source of a batch's frame, which the ingest agent has already decoded.
fn source_of(frame: &[u8]) -> PartitionId {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(frame, SOURCE_FRAME_LEN_MAX) else {
        unreachable!("the ingest agent hands whole frames on");
    };
    let batch: SourceBatch = raw.decode().expect("the ingest agent has decoded it");
    batch.source_id
}
