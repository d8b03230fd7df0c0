//! The delivery agent's side of the list of readers: a limited part of the work in each cycle, so
//! that a listing delays no reader.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_delivery::{Lag, WaitingFetch};
use weir_types::PartitionId;

use crate::ingest::SourceStores;
use crate::merged::MergedReaders;
use crate::reader_list::{LISTED_MAX, ListTimes, ListedReader, ReaderList};

/// The number of seats visited in one cycle.
const SEATS_A_CYCLE: usize = 1_024;

/// A reader, ordered by its lag.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    changes: u64,
    desk: usize,
    seat: usize,
    waiting: WaitingFetch,
}

impl Ord for Found {
    fn cmp(&self, other: &Found) -> std::cmp::Ordering {
        (self.changes, self.desk, self.seat).cmp(&(other.changes, other.desk, other.seat))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Found) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A list being built.
#[derive(Debug)]
struct ListBuilder {
    number: u64,
    /// The next desk and seat to visit; beyond the last desk it measures the readers found.
    desk: usize,
    seat: usize,
    waiting: usize,
    /// A heap with the least lagging reader on top, which is replaced first.
    found: BinaryHeap<Reverse<Found>>,
    readers: Vec<ListedReader>,
}

/// The readers of a node.
pub struct ListedReaders<'a> {
    /// Those of one source each.
    pub source_stores: &'a mut SourceStores,
    /// Those of all partitions, where there are several.
    pub merged: Option<&'a MergedReaders>,
}

/// The delivery agent's side of the list.
#[derive(Debug, Default)]
pub struct ReaderLister {
    done: u64,
    builder: Option<ListBuilder>,
}

impl ReaderLister {
    /// Executes a part of the requested list at a time and the wall clock then; returns true when
    /// there was work.
    pub fn step(
        &mut self,
        list: &ReaderList,
        readers: ListedReaders<'_>,
        times: ListTimes,
    ) -> bool {
        let asked = list.asked();
        if self.builder.is_none() && asked == self.done {
            return false;
        }
        let mut builder = self.builder.take().unwrap_or_else(|| ListBuilder::new(asked));
        if builder.step(readers, times) {
            self.builder = Some(builder);
            return true;
        }
        self.done = builder.number;
        // They were measured in ascending order of lag.
        builder.readers.reverse();
        let ListBuilder { number, waiting, readers, .. } = builder;
        list.publish(number, waiting, readers);
        true
    }
}

impl ListBuilder {
    fn new(number: u64) -> ListBuilder {
        let (found, readers) = (BinaryHeap::new(), Vec::new());
        ListBuilder { number, desk: 0, seat: 0, waiting: 0, found, readers }
    }

    /// Visits some seats, or measures one reader; returns false when the list is complete.
    fn step(&mut self, readers: ListedReaders<'_>, times: ListTimes) -> bool {
        let ListedReaders { source_stores, merged } = readers;
        if let Some(desk) = source_stores.desks_ref().nth(self.desk) {
            self.look(|seat, sink| desk.list(seat, SEATS_A_CYCLE, &mut |one| sink(one)));
            return true;
        }
        let is_behind_desks = self.desk == source_stores.desks_ref().count();
        if let Some(all) = merged.filter(|_| is_behind_desks) {
            self.look(|seat, sink| all.list_paused(seat, SEATS_A_CYCLE, &mut |one| sink(one)));
            return true;
        }
        let Some(Reverse(found)) = self.found.pop() else { return false };
        if let Some(desk) = source_stores.desks().nth(found.desk)
            && let Some(lag) = desk.lag(&found.waiting)
        {
            let source = desk.store().source();
            let mut waiting = found.waiting;
            let number = waiting.correlation_id;
            let behind = merged.and_then(|all| all.fetch_behind(waiting.connection, number));
            (waiting.connection, waiting.correlation_id) =
                behind.unwrap_or((waiting.connection, number));
            self.readers.push(ListedReader::of(source, &waiting, &lag, times));
        } else if found.desk >= source_stores.desks_ref().count() {
            let (source, lag) = (PartitionId::NONE, Lag::default());
            self.readers.push(ListedReader::of(source, &found.waiting, &lag, times));
        }
        true
    }

    /// Visits some seats of a desk, or behind all desks those of the readers of all partitions.
    fn look(&mut self, list: impl FnOnce(usize, &mut dyn FnMut(WaitingFetch)) -> Option<usize>) {
        let (at, found, waiting) = (self.desk, &mut self.found, &mut self.waiting);
        let next = list(self.seat, &mut |one| {
            *waiting += 1;
            let (changes, seat) = (one.changes, one.seat);
            found.push(Reverse(Found { changes, desk: at, seat, waiting: one }));
            if found.len() > LISTED_MAX {
                found.pop();
            }
        });
        (self.desk, self.seat) = next.map_or((at + 1, 0), |seat| (at, seat));
    }
}
