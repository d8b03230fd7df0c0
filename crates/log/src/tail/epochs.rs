//! The epochs of a tail's log, and a reader's cursor in them.
//!
//! The tail is created with the epochs that ended before; its writer ends later ones. A reader
//! tells its user of each end once, in order with the records:
//!
//! ```text
//! the epoch ended                | its end is told before
//! -------------------------------+-----------------------------------------------------------
//! before the tail was created    | the first record behind its surviving part; at the latest
//!                                | the first record that the tail was created for
//! while the tail is written      | the first record of the next epoch
//! the same, and took back        | the reader's next record, which is the first of the next
//! records that the reader has    | epoch again
//! ```
//!
//! INVARIANT: ends are told in the order of their epochs, with the surviving parts of that time.

use std::fmt;
use std::sync::{OnceLock, PoisonError};

use weir_types::{Epoch, Epochs, Position};

use super::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Shared};
use crate::segment::EpochEnd;

/// The change from an epoch to the next one, told between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct EpochChange {
    /// The ended epoch, and the position up to which it survives.
    pub ended: EpochEnd,
    /// The epoch that follows; later changes may end it at the same place.
    pub next: Epoch,
    /// The first number that is assigned again: the oldest retained record behind the end.
    pub first_again: u64,
    /// The number of records from there on that this reader returned before. They are void.
    pub taken_back: u64,
}

/// The end of the current epoch, as the writer declares it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochEnding {
    /// The position up to which the epoch is valid.
    pub(super) last_valid: Position,
    /// The epoch that follows.
    pub(super) next: Epoch,
    /// The first number that is assigned again.
    pub(super) first_again: u64,
}

/// The epochs of a tail, for its writer and its readers.
#[derive(Debug)]
pub(super) struct TailEpochs {
    /// The number of epochs that the writer has ended.
    changes: AtomicU64,
    /// The newest record that a reader has waited for in the files.
    wanted_in_files: AtomicU64,
    on_want: OnWant,
    table: Mutex<Table>,
}

/// A call at a reader's wait for a newer record than any before.
pub type WantCall = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct OnWant(OnceLock<WantCall>);

impl fmt::Debug for OnWant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnWant").field(&self.0.get().is_some()).finish()
    }
}

#[derive(Clone, Debug)]
struct Table {
    epochs: Epochs<Position>,
    /// For each ended epoch a record number that is behind its surviving part, in ascending order.
    behind: Vec<u64>,
    /// The ring of the current numbers.
    ring: Arc<Shared>,
}

impl TailEpochs {
    /// Returns the epochs of a tail that begins with record `first`.
    pub(super) fn new(epochs: Epochs<Position>, first: u64, ring: Arc<Shared>) -> TailEpochs {
        let behind = vec![first; epochs.ended().len()];
        let (changes, wanted_in_files) = (AtomicU64::new(0), AtomicU64::new(0));
        let table = Mutex::new(Table { epochs, behind, ring });
        TailEpochs { changes, wanted_in_files, on_want: OnWant::default(), table }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the current epoch. Called before the first record of the next one is published.
    pub(super) fn end(&self, end: EpochEnding, ring: &Arc<Shared>) {
        let EpochEnding { last_valid, next, first_again } = end;
        let mut table = self.table();
        table.epochs.end(last_valid, next);
        table.behind.iter_mut().for_each(|behind| *behind = first_again.min(*behind));
        table.behind.push(first_again);
        table.ring = Arc::clone(ring);
        // SYNC: pairs with the load in `changes`; a reader that sees a record of the next epoch
        // sees this count too, because the record is published after it.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of epochs that the writer has ended.
    pub(super) fn changes(&self) -> u64 {
        // SYNC: pairs with the addition in `end`.
        self.changes.load(Ordering::Acquire)
    }

    pub(super) fn want_in_files(&self, record: u64) {
        // SYNC: a number alone; it orders nothing.
        let before = self.wanted_in_files.fetch_max(record, Ordering::Relaxed);
        if let Some(call) = self.on_want.0.get().filter(|_| record > before) {
            call();
        }
    }

    pub(super) fn on_want(&self, call: WantCall) {
        let is_first = self.on_want.0.set(call).is_ok();
        assert!(is_first, "files have one writer");
    }

    pub(super) fn wanted_in_files(&self) -> u64 {
        // SYNC: a number alone; it orders nothing.
        self.wanted_in_files.load(Ordering::Relaxed)
    }

    pub(super) fn ring(&self) -> Arc<Shared> {
        Arc::clone(&self.table().ring)
    }

    pub(super) fn epochs(&self) -> Epochs<Position> {
        self.table().epochs.clone()
    }
}

/// A reader's cursor in the epochs of its records.
#[derive(Clone, Debug)]
pub struct EpochCursor {
    /// The tail's epochs; none for records without a tail.
    tail: Option<Arc<TailEpochs>>,
    /// The number of changes of the tail that are taken over.
    changes: u64,
    epochs: Epochs<Position>,
    behind: Vec<u64>,
    /// The number of ended epochs that were told.
    told: usize,
}

impl EpochCursor {
    /// Returns the cursor of a reader of records without a tail. All ended epochs lie before record
    /// `first_behind`.
    #[must_use]
    pub fn new(epochs: Epochs<Position>, first_behind: u64) -> EpochCursor {
        let behind = vec![first_behind; epochs.ended().len()];
        EpochCursor { tail: None, changes: 0, epochs, behind, told: 0 }
    }

    pub(super) fn of_tail(tail: &Arc<TailEpochs>) -> EpochCursor {
        // A change in between is taken over again, which changes nothing.
        let changes = tail.changes();
        let table = tail.table().clone();
        let tail = Some(Arc::clone(tail));
        EpochCursor { tail, changes, epochs: table.epochs, behind: table.behind, told: 0 }
    }

    /// Takes over the epochs that the tail's writer has ended since; true when there are any. The
    /// records that were read and not yet used may be void then.
    pub fn refresh(&mut self) -> bool {
        let Some(tail) = self.tail.as_ref().filter(|tail| tail.changes() != self.changes) else {
            return false;
        };
        *self = EpochCursor { told: self.told, ..EpochCursor::of_tail(tail) };
        true
    }

    /// Continues in `epoch`: the user knows the ends of the epochs before.
    pub fn skip_to(&mut self, epoch: Epoch) {
        let known = self.epochs.ended();
        self.told = known.partition_point(|(ended, _)| *ended < epoch);
    }

    /// Returns the epoch of the records until the next end.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs.epoch(self.told)
    }

    /// Returns the epochs as they are known now, those that are not told included.
    #[must_use]
    pub fn epochs(&self) -> &Epochs<Position> {
        &self.epochs
    }

    /// Returns true when all ended epochs were told.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.told == self.behind.len()
    }

    /// Returns the next end if it lies before record `next`, as far as the number alone shows it.
    pub fn pass(&mut self, next: u64) -> Option<EpochChange> {
        let first_again = *self.behind.get(self.told)?;
        (first_again <= next).then(|| self.tell(first_again, next))
    }

    /// Returns the next end if it lies before record `next`, whose command is at `position`.
    pub fn pass_before(&mut self, next: u64, position: Position) -> Option<EpochChange> {
        let (_, survives_to) = *self.epochs.ended().get(self.told)?;
        if survives_to < position { Some(self.tell(next, next)) } else { self.pass(next) }
    }

    fn tell(&mut self, first_again: u64, next: u64) -> EpochChange {
        let (epoch, last_valid) = self.epochs.ended()[self.told];
        self.told += 1;
        EpochChange {
            ended: EpochEnd { epoch, last_valid },
            next: self.epoch(),
            first_again,
            taken_back: next - first_again,
        }
    }
}
