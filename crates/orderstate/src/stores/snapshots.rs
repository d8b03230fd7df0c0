//! Writes snapshots of stores to disk: the store's thread encodes one chunk at a time, a separate
//! thread writes them.
//!
//! The store keeps ingesting changes meanwhile. A snapshot gets its name when its last chunk is
//! written and the log has committed its contents; then the log may drop entries before the older
//! of the retained snapshots. INVARIANT: one snapshot is under way at a time; a full ring delays
//! the next chunk and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_io::{DiskError, ThreadDisk};
use weir_log::{SnapshotPart, SnapshotStore};
use weir_runtime::{Agent, Wake};
use weir_types::{Nanos, PartitionId, Position};

use super::journal::sync_log;

/// The number of pieces that wait to be written: some 4 MiB.
const PIECES_MAX: usize = 64;
/// The number of snapshots kept per store.
const KEEP: usize = 2;
/// The interval in nanoseconds at which the ring is polled without a wake-up.
const LOOK_INTERVAL: u64 = 100_000_000;

/// A command for the writer.
#[derive(Debug)]
pub enum Piece {
    /// Begins a snapshot of a source's store at this position.
    Begin(PartitionId, Position),
    /// The next bytes of its state.
    Bytes(Vec<u8>),
    /// Ends the snapshot: all bytes are sent, and the log has committed them.
    End,
    /// Discards the snapshot.
    GiveUp,
}

/// The outcome of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOutcome {
    /// The store's source.
    pub source: PartitionId,
    /// The oldest snapshot that is kept; `None` when this one could not be written.
    pub oldest_kept: Option<Position>,
}

/// Counters for other threads to read.
#[derive(Debug, Default)]
pub struct SnapshotFigures {
    /// Snapshots written.
    pub written: AtomicU64,
    /// Snapshots that could not be written, or were given up for lack of memory.
    pub failed: AtomicU64,
}

/// The store's end.
pub struct SnapshotPort {
    /// Pieces to the writer.
    pub pieces: Producer<Piece>,
    /// The snapshots' outcomes.
    pub written: Consumer<SnapshotOutcome>,
    /// The writer's thread.
    pub wake: Wake,
    /// The counters.
    pub figures: Arc<SnapshotFigures>,
}

/// The snapshot directory of a source's store.
pub struct StoreSnapshots {
    /// The store's source.
    pub source: PartitionId,
    /// The snapshots.
    pub snapshots: SnapshotStore<ThreadDisk>,
    /// The directory of its log; `None` for the node's own partition, whose store can be rebuilt
    /// from its events.
    pub log: Option<ThreadDisk>,
}

/// The agent that writes snapshots.
pub struct SnapshotWriter {
    stores: Vec<StoreSnapshots>,
    pieces: Consumer<Piece>,
    written: Producer<SnapshotOutcome>,
    /// The store's thread, and the writer's own.
    wake: Wake,
    own_wake: Wake,
    /// The snapshot under way: the store's index, and its file; no file after a failure.
    current: Option<(usize, Option<SnapshotPart>)>,
    figures: Arc<SnapshotFigures>,
}

/// Creates both ends for these stores. `wake` wakes the writer's thread, `store` the stores'.
#[must_use]
pub fn store_to_writer(
    stores: Vec<StoreSnapshots>,
    wake: Wake,
    store: Wake,
) -> (SnapshotPort, SnapshotWriter) {
    let (pieces, from_store) = RingBuffer::new(PIECES_MAX);
    let (written, from_writer) = RingBuffer::new(4);
    let figures = Arc::new(SnapshotFigures::default());
    let own_wake = wake.clone();
    let port = SnapshotPort { pieces, written: from_writer, wake, figures: figures.clone() };
    let (pieces, wake, current) = (from_store, store, None);
    (port, SnapshotWriter { stores, pieces, written, wake, own_wake, current, figures })
}

impl SnapshotWriter {
    /// Returns the waker of its thread.
    #[must_use]
    pub fn wake(&self) -> Wake {
        self.own_wake.clone()
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Begin(source, at) => {
                let index = self.stores.iter().position(|store| store.source == source);
                let index = index.expect("the stores are those that there are");
                let part = self.stores[index].snapshots.begin(at);
                self.current = Some((index, self.told(index, part)));
            }
            Piece::Bytes(bytes) => self.put(&bytes),
            Piece::End => self.finish(),
            Piece::GiveUp => {
                if let Some((index, Some(part))) = self.current.take() {
                    self.stores[index].snapshots.give_up(part);
                }
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let Some((index, Some(part))) = &mut self.current else { return };
        let (index, store) = (*index, &mut self.stores[*index].snapshots);
        let put = store.put(part, bytes);
        if put.is_err()
            && let Some((_, Some(part))) = self.current.take()
        {
            store.give_up(part);
            self.current = Some((index, None));
        }
        self.told(index, put);
    }

    fn finish(&mut self) {
        let Some((index, part)) = self.current.take() else { return };
        let StoreSnapshots { source, snapshots, log } = &mut self.stores[index];
        let source = *source;
        let mut synced = || log.as_mut().map_or(Ok(()), sync_log);
        let finished = part.map(|part| match synced() {
            Ok(()) => snapshots.finish(part),
            Err(error) => {
                snapshots.give_up(part);
                Err(error)
            }
        });
        let is_written = finished.is_some_and(|finished| self.told(index, finished).is_some());
        let oldest_kept = if is_written { self.prune(index) } else { None };
        let figures = &self.figures;
        let figure = if is_written { &figures.written } else { &figures.failed };
        figure.fetch_add(1, Ordering::Relaxed);
        let told = self.written.push(SnapshotOutcome { source, oldest_kept });
        assert!(told.is_ok(), "one snapshot is under way at a time");
        self.wake.wake();
    }

    /// Removes old snapshots; returns the oldest one kept, `None` when the disk does not say.
    fn prune(&mut self, index: usize) -> Option<Position> {
        let StoreSnapshots { source, snapshots, .. } = &mut self.stores[index];
        match snapshots.prune(KEEP) {
            Ok(oldest_kept) => oldest_kept,
            Err(error) => {
                let source = *source;
                tracing::error!(%source, %error, "old snapshots of a store stay");
                // They need the events from the oldest on.
                snapshots.list().ok().and_then(|positions| positions.first().copied())
            }
        }
    }

    /// Reports an error; the log is then kept for as long as needed.
    fn told<T>(&self, index: usize, what: Result<T, DiskError>) -> Option<T> {
        let source = self.stores[index].source;
        what.inspect_err(|error| tracing::error!(%source, %error, "no snapshot of a store")).ok()
    }
}

impl Agent for SnapshotWriter {
    fn name(&self) -> &'static str {
        "store-snapshots"
    }

    fn do_work(&mut self, _now: Nanos) -> usize {
        let mut done = 0;
        while let Ok(piece) = self.pieces.pop() {
            self.take(piece);
            done += 1;
            if done == PIECES_MAX / 2 {
                break;
            }
        }
        if done > 0 {
            self.wake.wake();
        }
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(now.0 + LOOK_INTERVAL))
    }
}
