//! The stores of all sources and the streams that feed them, including the node's own partition:
//! the part of the delivery agent's cycle before its readers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use weir_delivery::{Desk, OrderStore};
use weir_io::{Disk, ThreadDisk};
use weir_types::{Nanos, PartitionId, Reason};
use weir_wire::frame::{Framing, next_frame};
use weir_wire::ingest::{SOURCE_FRAME_LEN_MAX, SourceBatch};

use super::figures::IngestFigures;
use super::following::FollowOutcome;
use super::handoff::{IngestPort, IngestRequest, StoreRequest};
use super::source_store::{SnapshotProgress, SourceStore, SourceStoreParts};
use crate::plant::{self, Plant};
use crate::replica::{ReplicaFigures, UpdatePort};
use crate::stores::snapshots::{SnapshotOutcome, SnapshotPort};

/// The number of requests taken in one cycle.
const REQUESTS_MAX: usize = 8;

/// The stores of all sources.
pub struct SourceStores<D: Disk = ThreadDisk> {
    pub(super) source_stores: Vec<SourceStore<D>>,
    port: Option<IngestPort>,
    /// The ring of a replica's updates, if this node follows another, and its figures.
    updates: Option<(UpdatePort, Arc<ReplicaFigures>)>,
    /// The ring to the writer of snapshots, if any, and the index of the store whose snapshot is
    /// under way.
    snapshots: Option<SnapshotPort>,
    snapshot_of: Option<usize>,
    figures: Arc<IngestFigures>,
}

impl<D: Disk> SourceStores<D> {
    /// Returns the stores of all sources, served over `port`.
    #[must_use]
    pub fn new(
        source_stores: Vec<SourceStoreParts<D>>,
        port: Option<IngestPort>,
        updates: Option<(UpdatePort, Arc<ReplicaFigures>)>,
        snapshots: Option<SnapshotPort>,
        figures: Arc<IngestFigures>,
    ) -> SourceStores<D> {
        let source_stores = source_stores.into_iter().map(SourceStore::new).collect();
        let snapshot_of = None;
        let source_stores =
            SourceStores { source_stores, port, updates, snapshots, snapshot_of, figures };
        source_stores.publish();
        source_stores
    }

    /// Returns the readers' desk of a source.
    ///
    /// # Errors
    /// [`Reason::UnknownSource`]; [`Reason::PartitionAway`] until its core has sent all orders.
    pub fn desk_of(&mut self, source: PartitionId) -> Result<&mut Desk, Reason> {
        let source_store =
            self.source_stores.iter_mut().find(|source_store| source_store.source() == source);
        let source_store = source_store.ok_or(Reason::UnknownSource)?;
        if source_store.stream.is_whole() {
            source_store.may_have_readers = true;
            Ok(&mut source_store.desk)
        } else {
            Err(Reason::PartitionAway)
        }
    }

    /// Returns all readers' desks.
    pub fn desks(&mut self) -> impl Iterator<Item = &mut Desk> {
        self.source_stores.iter_mut().map(|source_store| &mut source_store.desk)
    }

    /// Returns the readers' desks, to serve pages from. Readers of a source of which a full resend
    /// has begun are turned away first: they would be told of orders that are void, by tokens of
    /// the new epoch.
    pub fn serving_desks(&mut self) -> impl Iterator<Item = &mut Desk> {
        self.source_stores.iter_mut().map(|source_store| {
            source_store.turn_readers_away();
            &mut source_store.desk
        })
    }

    /// Returns all readers' desks, read-only.
    pub fn desks_ref(&self) -> impl ExactSizeIterator<Item = &Desk> {
        self.source_stores.iter().map(|source_store| &source_store.desk)
    }

    /// Returns the stores of the partitions that trade here.
    pub fn own_stores(&mut self) -> impl Iterator<Item = &mut SourceStore<D>> {
        self.source_stores.iter_mut().filter(|source_store| source_store.own.is_some())
    }

    /// Returns the same, read-only.
    pub fn own_stores_ref(&self) -> impl Iterator<Item = &SourceStore<D>> {
        self.source_stores.iter().filter(|source_store| source_store.own.is_some())
    }

    /// Returns a source's store.
    #[must_use]
    pub fn store_of(&self, source: PartitionId) -> Option<&OrderStore> {
        let source_store =
            self.source_stores.iter().find(|source_store| source_store.source() == source);
        source_store.map(|source_store| source_store.desk.store())
    }

    /// Returns true when replicas wait for the next events of a partition that trades here.
    #[must_use]
    pub fn is_own_followed(&self) -> bool {
        self.own_stores_ref().any(|source_store| source_store.followers.count() > 0)
    }

    /// Returns the earliest of the stores' deadlines.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.source_stores.iter().filter_map(SourceStore::next_deadline).min()
    }

    /// Processes requests and updates, up to one cycle's limit; returns the amount of work done.
    pub fn work(&mut self, now: Nanos) -> usize {
        if self.port.is_none() && self.updates.is_none() {
            return self.snapshot();
        }
        let mut done = 0;
        for source_store in &mut self.source_stores {
            done += source_store.tend(now);
            done += usize::from(source_store.guard(|source| source.feed_cold(now)).is_err());
        }
        done += self.take_updates();
        done += self.take_requests(now);
        if let Some(port) = &mut self.port {
            done += self
                .source_stores
                .iter_mut()
                .map(|source_store| source_store.settle(now, port))
                .sum::<usize>();
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

    /// Hands the master's updates to their sources, which ingest them in order; returns the amount
    /// of work done.
    fn take_updates(&mut self) -> usize {
        let Some((port, _)) = &mut self.updates else { return 0 };
        let mut done = 0;
        while let Ok(update) = port.updates.pop() {
            let source = update.state.source_id;
            let source_store =
                self.source_stores.iter_mut().find(|source_store| source_store.source() == source);
            source_store.expect("the follower knows the sources").push_update(update);
            done += 1;
        }
        for source_store in &mut self.source_stores {
            match source_store.follow_on() {
                FollowOutcome::Idle | FollowOutcome::Waits => {}
                FollowOutcome::More => done += 1,
                FollowOutcome::Replaced(old) => {
                    // If the ring is full, the old store is freed here.
                    drop(port.retired.push(*old));
                    done += 1;
                }
                // A full ring already contains this source.
                FollowOutcome::Broken => drop(port.broken.push(source_store.source())),
            }
        }
        if done > 0 {
            port.wake.wake();
        }
        done
    }

    /// Takes requests, as many as a cycle may: those that waited, and then new ones; returns their
    /// number.
    fn take_requests(&mut self, now: Nanos) -> usize {
        let waited = self.source_stores.iter_mut();
        let mut done =
            waited.map(|source_store| source_store.take_waiting(REQUESTS_MAX, now)).sum();
        for _ in 0..REQUESTS_MAX {
            let has_waiting = || self.source_stores.iter().any(SourceStore::has_waiting);
            if plant::is(Plant::FullSourceStopsAll) && has_waiting() {
                break;
            }
            let Some(request) = self.port.as_mut().and_then(|port| port.requests.pop().ok()) else {
                break;
            };
            self.hand_out(request, now);
            done += 1;
        }
        done
    }

    /// Hands a request to its source, and the end of a connection to all.
    fn hand_out(&mut self, request: IngestRequest, now: Nanos) {
        let source = match &request.what {
            StoreRequest::Gone => {
                let all = self.source_stores.iter_mut();
                return all.for_each(|source_store| source_store.forget(request.connection, now));
            }
            StoreRequest::Follow(follow) => follow.source_id,
            StoreRequest::Open(open) => open.source_id,
            StoreRequest::Reset(reset) => reset.source_id,
            StoreRequest::Batch(frame) => source_of(frame),
        };
        self.feed(source).take(request, now);
    }

    fn feed(&mut self, source: PartitionId) -> &mut SourceStore<D> {
        let source_store =
            self.source_stores.iter_mut().find(|source_store| source_store.source() == source);
        source_store.expect("the ingest agent knows the sources")
    }

    /// Advances the snapshot under way, or begins one when due; returns the amount of work done.
    fn snapshot(&mut self) -> usize {
        let Some(port) = &mut self.snapshots else { return 0 };
        if let Ok(SnapshotOutcome { source, oldest_kept }) = port.written.pop() {
            let source_store =
                self.source_stores.iter_mut().find(|source_store| source_store.source() == source);
            if let (Some(source_store), Some(oldest)) = (source_store, oldest_kept) {
                source_store.cut_log(oldest);
            }
            self.snapshot_of = None;
            return 1;
        }
        if let Some(index) = self.snapshot_of {
            let goes = self.source_stores[index].go_on_with_snapshot(port);
            if goes == SnapshotProgress::GivenUp {
                port.figures.failed.fetch_add(1, Ordering::Relaxed);
                self.snapshot_of = None;
            }
            return usize::from(goes == SnapshotProgress::On);
        }
        self.snapshot_of = self
            .source_stores
            .iter_mut()
            .position(|source_store| source_store.begin_snapshot(port));
        usize::from(self.snapshot_of.is_some())
    }

    /// Closes the logs when the node stops: ingested entries are on the medium on return.
    pub fn close(&mut self) {
        self.source_stores.iter_mut().for_each(SourceStore::close);
    }

    /// Publishes the stores' figures.
    pub fn publish(&self) {
        let mut sources = self.figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let fed = self.source_stores.iter();
        let fed = fed
            .filter(|source_store| source_store.following.is_none() && source_store.own.is_none());
        *sources = fed.map(SourceStore::figures).collect();
        sources.sort_by_key(|source| source.source);
        if let Some((_, figures)) = &self.updates {
            let mut sources = figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let followed = |source_store: &SourceStore<D>| {
                Some((source_store.source(), source_store.follow_figures()?))
            };
            *sources = self.source_stores.iter().filter_map(followed).collect();
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

#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod tests;
