//! The history: a thread that reads old records for the gateway, whose own thread never waits for a
//! disk.
//!
//! The gateway asks for the records that a reader lacks and that are no longer in memory; the
//! history answers with a page of them as soon as the first is there. A request waits as long as
//! the shadow has not written its first record, and holds up no other meanwhile. A reader's new
//! request takes the place of its last one. The requests of the gateway's own reader, on which all
//! sessions depend, come first.
//!
//! INVARIANT: a page's records are in the order of the request, without a gap between them, and a
//! page without a record says that the first one is deleted.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::{Agent, Wake};
use weir_types::Nanos;

use crate::event_reader::{EventReader, PastEvents, PastRead};
use crate::past_records::PastRecords;

/// The capacity of both rings. A reader has at most one request under way.
const RING_LEN: usize = 1_024;
/// The maximum number of records in a page.
pub const PAGE_RECORDS_MAX: usize = 128;
/// The number of bytes after which a page takes no further record.
const PAGE_BYTES: usize = 64 * 1024;
/// The number of records between the first and the last one of a page after which it takes no
/// further one: sparse records lie far apart in the files, and others wait for their pages.
const PAGE_SPAN: u64 = 100_000;
/// The pause in nanoseconds before requests are tried again whose records are not in the files yet:
/// 2 ms.
const RETRY_INTERVAL: u64 = 2_000_000;

/// The records that a reader lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// All records from this one on.
    From(u64),
    /// These records, in ascending order; never empty.
    These(Vec<u64>),
}

/// A request for old records.
#[derive(Clone, Debug)]
pub struct HistoryRequest<K> {
    /// The reader that they are for.
    pub reader: K,
    /// The index of the partition among those of the history.
    pub port: usize,
    /// The request's number, which its page repeats.
    pub number: u64,
    /// True when it goes before the others.
    pub is_urgent: bool,
    /// The records.
    pub lacking: Lacking,
}

impl<K> HistoryRequest<K> {
    fn first(&self) -> u64 {
        match &self.lacking {
            Lacking::From(first) => *first,
            Lacking::These(numbers) => numbers.first().copied().unwrap_or_default(),
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct HistoryPage<K> {
    /// The reader that it is for.
    pub reader: K,
    /// The index of the partition.
    pub port: usize,
    /// The number of the request that it answers.
    pub number: u64,
    /// The records; none when the first one is deleted.
    pub records: PastRecords,
    /// The number of ended epochs at which they were read. Records that were read before a later
    /// end may be void.
    pub epoch_changes: u64,
}

/// The gateway's end towards the history.
pub struct HistoryPort<K> {
    requests: Producer<HistoryRequest<K>>,
    pages: Consumer<HistoryPage<K>>,
    wake: Wake,
}

impl<K> HistoryPort<K> {
    /// Sends a request; false when there is no room for it now.
    #[must_use]
    pub fn ask(&mut self, request: HistoryRequest<K>) -> bool {
        let is_sent = self.requests.push(request).is_ok();
        if is_sent {
            self.wake.wake();
        }
        is_sent
    }

    /// Returns the next page.
    pub fn next_page(&mut self) -> Option<HistoryPage<K>> {
        self.pages.pop().ok()
    }
}

/// The history's end towards a gateway.
pub struct HistoryEnd<K> {
    requests: Consumer<HistoryRequest<K>>,
    pages: Producer<HistoryPage<K>>,
    gateway: Wake,
}

impl<K> HistoryEnd<K> {
    /// Returns the next request, if there is room for its page.
    pub fn next_request(&mut self) -> Option<HistoryRequest<K>> {
        if self.pages.is_full() { None } else { self.requests.pop().ok() }
    }

    /// Hands a page to the gateway; gives it back when there is no room for it now.
    ///
    /// # Errors
    /// The page.
    pub fn answer(&mut self, page: HistoryPage<K>) -> Result<(), HistoryPage<K>> {
        let rtrb::PushError::Full(page) = match self.pages.push(page) {
            Ok(()) => {
                self.gateway.wake();
                return Ok(());
            }
            Err(full) => full,
        };
        Err(page)
    }
}

/// Connects a gateway with a history of another kind. `wake` is that of the history's thread,
/// `gateway` that of the gateway's.
#[must_use]
pub fn history_ends<K>(wake: Wake, gateway: Wake) -> (HistoryPort<K>, HistoryEnd<K>) {
    let (ask, requests) = RingBuffer::new(RING_LEN);
    let (answer, pages) = RingBuffer::new(RING_LEN);
    (HistoryPort { requests: ask, pages, wake }, HistoryEnd { requests, pages: answer, gateway })
}

/// The agent of the history's thread.
pub struct History<K> {
    partitions: Vec<PastEvents>,
    requests: Consumer<HistoryRequest<K>>,
    pages: Producer<HistoryPage<K>>,
    gateway: Wake,
    /// The requests to be tried, in the order in which they came.
    untried: VecDeque<HistoryRequest<K>>,
    /// The requests whose first record was not there.
    waiting: VecDeque<HistoryRequest<K>>,
    /// For each partition the lowest record that was not there at the last try: later ones are not
    /// there either, and are not looked for.
    missing_from: Vec<u64>,
    retry_at: Nanos,
    record: Vec<u8>,
}

/// Connects a gateway with the history of its partitions. `wake` is that of the history's thread,
/// `gateway` that of the gateway's.
pub fn link<'a, K>(
    partitions: impl IntoIterator<Item = &'a EventReader>,
    wake: Wake,
    gateway: Wake,
) -> (HistoryPort<K>, History<K>) {
    let (ask, requests) = RingBuffer::new(RING_LEN);
    let (answer, pages) = RingBuffer::new(RING_LEN);
    let partitions: Vec<_> = partitions.into_iter().map(EventReader::past).collect();
    let history = History {
        missing_from: vec![u64::MAX; partitions.len()],
        partitions,
        requests,
        pages: answer,
        gateway,
        untried: VecDeque::new(),
        waiting: VecDeque::new(),
        retry_at: Nanos(0),
        record: Vec::with_capacity(1024),
    };
    (HistoryPort { requests: ask, pages, wake }, history)
}

impl<K: PartialEq> History<K> {
    /// Takes new requests; a reader has one.
    fn take_requests(&mut self) {
        while let Ok(request) = self.requests.pop() {
            let is_older =
                |one: &HistoryRequest<K>| one.reader == request.reader && one.port == request.port;
            self.untried.retain(|one| !is_older(one));
            self.waiting.retain(|one| !is_older(one));
            if request.is_urgent {
                self.untried.push_front(request);
            } else {
                self.untried.push_back(request);
            }
        }
    }

    /// Tries the waiting requests again.
    fn retry(&mut self) {
        self.missing_from.fill(u64::MAX);
        while let Some(request) = self.waiting.pop_front() {
            if request.is_urgent {
                self.untried.push_front(request);
            } else {
                self.untried.push_back(request);
            }
        }
    }

    /// Answers a request, or lets it wait; returns the number of records read.
    fn try_one(&mut self, request: HistoryRequest<K>) -> usize {
        if request.first() >= self.missing_from[request.port] {
            self.waiting.push_back(request);
            return 0;
        }
        let events = &mut self.partitions[request.port];
        let epoch_changes = events.epoch_changes();
        let Some(records) = read_page(events, &request.lacking, &mut self.record) else {
            self.missing_from[request.port] = request.first();
            self.waiting.push_back(request);
            return 0;
        };
        let HistoryRequest { reader, port, number, .. } = request;
        let count = records.len();
        let pushed = self.pages.push(HistoryPage { reader, port, number, records, epoch_changes });
        assert!(pushed.is_ok(), "there was room for a page");
        self.gateway.wake();
        count.max(1)
    }
}

/// Reads a page of records; `None` when the first one is not there yet. No record when it is
/// deleted.
fn read_page(
    events: &mut PastEvents,
    lacking: &Lacking,
    record: &mut Vec<u8>,
) -> Option<PastRecords> {
    let mut records = PastRecords::default();
    for index in 0..PAGE_RECORDS_MAX {
        let wanted = match lacking {
            Lacking::From(first) => first + index as u64,
            Lacking::These(numbers) => match numbers.get(index) {
                Some(number) => *number,
                None => break,
            },
        };
        let is_far = records.first().is_some_and(|first| wanted - first > PAGE_SPAN);
        if is_far || records.bytes_len() >= PAGE_BYTES {
            break;
        }
        match events.read_at(wanted, record) {
            PastRead::Found => records.push(wanted, record),
            PastRead::Deleted => break,
            PastRead::Missing if records.is_empty() => return None,
            PastRead::Missing => break,
        }
    }
    Some(records)
}

impl<K: PartialEq + Send> Agent for History<K> {
    fn name(&self) -> &'static str {
        "history"
    }

    /// Makes at most one page.
    fn do_work(&mut self, now: Nanos) -> usize {
        self.take_requests();
        if now >= self.retry_at {
            self.retry();
            self.retry_at = Nanos(now.0 + RETRY_INTERVAL);
        }
        while !self.pages.is_full()
            && let Some(request) = self.untried.pop_front()
        {
            let done = self.try_one(request);
            if done > 0 {
                return done;
            }
        }
        0
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        let has_work = !self.waiting.is_empty() || !self.untried.is_empty();
        has_work.then_some(self.retry_at)
    }
}

#[cfg(test)]
mod tests;
