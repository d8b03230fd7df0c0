//! The probe ring: one thread stamps, one drain reads, and neither ever waits for the other.
//!
//! A record is 16 bytes: `trace id << 8 | code`, then the counter. The producer writes both words
//! and publishes its index; when the ring is full the record is dropped and counted. The consumer
//! copies published records and frees their slots.
//!
//! INVARIANT: `tail <= head <= tail + capacity`; only the producer writes head and dropped, only
//! the consumer writes tail; neither writes slots in `tail..head`.

use std::ptr::NonNull;

use thiserror::Error;

use crate::clock::Tsc;
use crate::memory::Memory;
use crate::point::Point;
use crate::sync::{Arc, AtomicU64, Ordering};

/// The default number of records in a ring: 4 MiB, a third of a second of a thread that stamps five
/// points on each of 156,000 orders a second.
pub const RING_RECORDS_DEFAULT: u64 = 1 << 18;
/// The maximum number of records in a ring: 16 GiB.
pub const RING_RECORDS_MAX: u64 = 1 << 30;

/// The code of a record of stolen time, see [`Record::stolen`].
pub const CODE_STOLEN: u8 = 0xF0;

/// The identifier that joins the stamps of one order; 56 bits, 0 means "not traced".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TraceId(u64);

impl TraceId {
    /// Not traced: a recorder stamps but stores nothing.
    pub const NONE: TraceId = TraceId(0);
    /// The largest identifier.
    pub const MAX: TraceId = TraceId((1 << 56) - 1);

    /// Returns the identifier, or `None` if it does not fit 56 bits.
    #[must_use]
    pub const fn new(id: u64) -> Option<TraceId> {
        if id <= TraceId::MAX.0 { Some(TraceId(id)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns true if it identifies an order.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Generates trace identifiers: 16 bits of source, 40 bits of counter.
///
/// Each gateway thread has one; the source keeps the identifiers of all gateways of a system apart.
#[derive(Debug)]
pub struct TraceIds {
    source: u64,
    next: u64,
}

impl TraceIds {
    const COUNTER_BITS: u32 = 40;

    /// Creates the generator for this source; its first identifier ends in 1.
    #[must_use]
    pub const fn new(source: u16) -> TraceIds {
        TraceIds { source: (source as u64) << TraceIds::COUNTER_BITS, next: 1 }
    }

    /// Returns the next identifier. After 10^12 the counter starts again: no order lives that long.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator would promise an Option")]
    pub fn next(&mut self) -> TraceId {
        let id = TraceId(self.source | self.next);
        self.next = if self.next >> TraceIds::COUNTER_BITS == 0
            && self.next + 1 < 1 << TraceIds::COUNTER_BITS
        {
            self.next + 1
        } else {
            1
        };
        id
    }
}

/// One stamp: the order, the point and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// `trace id << 8 | code`.
    pub word: u64,
    /// The raw counter.
    pub tsc: Tsc,
}

impl Record {
    /// Creates the stamp of an order at a point.
    #[inline]
    #[must_use]
    pub const fn at(trace: TraceId, point: Point, tsc: Tsc) -> Record {
        Record { word: trace.0 << 8 | point.code() as u64, tsc }
    }

    /// Creates the record that the platform held a core for `lost_ns` (capped at 2^56 - 1) until
    /// `tsc`.
    #[must_use]
    pub const fn stolen(lost_ns: u64, tsc: Tsc) -> Record {
        let lost_ns = if lost_ns > TraceId::MAX.0 { TraceId::MAX.0 } else { lost_ns };
        Record { word: lost_ns << 8 | CODE_STOLEN as u64, tsc }
    }

    /// Returns the order; for a record of [`CODE_STOLEN`], the nanoseconds lost.
    #[inline]
    #[must_use]
    pub const fn trace(&self) -> TraceId {
        TraceId(self.word >> 8)
    }

    /// Returns the code: a point's, or [`CODE_STOLEN`].
    #[inline]
    #[must_use]
    pub const fn code(&self) -> u8 {
        (self.word & 0xFF) as u8
    }
}

/// The reason that a ring could not be created or opened.
#[derive(Debug, Error)]
pub enum RingError {
    /// The capacity is not a power of two, or beyond [`RING_RECORDS_MAX`].
    #[error("a ring holds a power of two of records, at most 2^30, not {capacity}")]
    Capacity {
        /// The requested number of records.
        capacity: u64,
    },
    /// The file would be longer than the system can address.
    #[error("a ring file of {bytes} bytes is too long")]
    TooLong {
        /// The requested number of bytes.
        bytes: u64,
    },
    /// The name is empty or not a plain file name.
    #[error("{name:?} is not a plain name for a ring")]
    Name {
        /// The requested name.
        name: String,
    },
    /// The file is not a complete probe ring.
    #[error("the file is not a probe ring")]
    NotARing,
    /// The system's error.
    #[error("ring file: {0}")]
    Io(#[from] std::io::Error),
}

/// Creates a ring in this process's own memory.
///
/// # Errors
///
/// Returns [`RingError::Capacity`] for an invalid capacity.
pub fn heap_ring(capacity: u64) -> Result<(Producer, Consumer), RingError> {
    check_capacity(capacity)?;
    Ok(ends(Memory::heap(capacity)))
}

pub(crate) fn check_capacity(capacity: u64) -> Result<(), RingError> {
    if capacity.is_power_of_two() && capacity <= RING_RECORDS_MAX {
        Ok(())
    } else {
        Err(RingError::Capacity { capacity })
    }
}

pub(crate) fn ends(memory: Memory) -> (Producer, Consumer) {
    let memory = Arc::new(memory);
    let producer = Producer {
        slots: memory.slots(),
        mask: memory.capacity() - 1,
        head: 0,
        tail_seen: 0,
        memory: Arc::clone(&memory),
    };
    (producer, Consumer { tail: 0, head_seen: 0, memory })
}

/// The writing end of a ring, owned by one thread.
pub struct Producer {
    slots: NonNull<AtomicU64>,
    mask: u64,
    head: u64,
    /// The consumer's index as last seen; it can only have grown since.
    tail_seen: u64,
    memory: Arc<Memory>,
}

// SAFETY: `slots` points into `memory`, which is Send and Sync and lives as long.
unsafe impl Send for Producer {}

impl Producer {
    /// Writes and publishes a record; drops and counts it if the ring is full. Publishing each
    /// record at once costs nothing measurable compared with the counter read.
    #[inline(always)]
    pub fn push(&mut self, record: Record) {
        if self.head.wrapping_sub(self.tail_seen) > self.mask && !self.look_for_room() {
            return;
        }
        self.write(record);
        self.head = self.head.wrapping_add(1);
        // SYNC: pairs with the acquire load of `head` in `Consumer::look`: the index carries the
        // two words of the record.
        self.memory.control().producer.head.store(self.head, Ordering::Release);
    }

    #[inline(always)]
    fn write(&mut self, record: Record) {
        let index = (self.head & self.mask) as usize * 2;
        // SAFETY: the masked index is below the capacity and there are two words per record.
        let (word, tsc) =
            unsafe { (self.slots.add(index).as_ref(), self.slots.add(index + 1).as_ref()) };
        // SYNC: published by the release store of `head` in `push`; the consumer freed the slot
        // before `tail_seen` passed it.
        word.store(record.word, Ordering::Relaxed);
        tsc.store(record.tsc.0, Ordering::Relaxed);
    }

    /// Reloads the consumer's index; counts a dropped record if the ring really is full.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        let control = self.memory.control();
        // SYNC: pairs with the release store of `tail` in `Consumer::take_seen`: the consumer has
        // read the slots that it freed.
        self.tail_seen = control.consumer.tail.load(Ordering::Acquire);
        if self.head.wrapping_sub(self.tail_seen) <= self.mask {
            return true;
        }
        // SYNC: a counter with a single writer; readers need no order.
        let dropped = control.producer.dropped.load(Ordering::Relaxed);
        control.producer.dropped.store(dropped.wrapping_add(1), Ordering::Relaxed);
        false
    }
}

/// The reading end of a ring, owned by the drain.
pub struct Consumer {
    tail: u64,
    /// The producer's index as last seen; it can only have grown since.
    head_seen: u64,
    memory: Arc<Memory>,
}

impl Consumer {
    #[cfg(not(loom))]
    pub(crate) fn over(memory: Memory) -> Consumer {
        // SYNC: the previous reader is gone; this pairs with its last release store.
        let tail = memory.control().consumer.tail.load(Ordering::Acquire);
        Consumer { tail, head_seen: tail, memory: Arc::new(memory) }
    }

    /// Passes every published record, at most `records_max` of them, to `take`; returns their
    /// number.
    ///
    /// # Panics
    ///
    /// Panics if the indices are corrupt because another writer overwrote the ring.
    pub fn poll(&mut self, records_max: usize, take: impl FnMut(Record)) -> usize {
        self.look();
        self.take_seen(records_max, take)
    }

    /// Reloads the producer's index.
    ///
    /// # Panics
    ///
    /// As [`Consumer::poll`].
    pub fn look(&mut self) {
        // SYNC: pairs with the release store of `head` in `Producer::push`.
        self.head_seen = self.memory.control().producer.head.load(Ordering::Acquire);
        let published = self.head_seen.wrapping_sub(self.tail);
        assert!(published <= self.memory.capacity(), "probe ring corrupt: {published} published");
    }

    /// Returns the time of the next record among those seen by the last [`Consumer::look`].
    #[must_use]
    pub fn next_tsc(&self) -> Option<Tsc> {
        (self.tail != self.head_seen).then(|| self.read().tsc)
    }

    /// Passes records like [`Consumer::poll`], of those seen by the last [`Consumer::look`].
    pub fn take_seen(&mut self, records_max: usize, mut take: impl FnMut(Record)) -> usize {
        let count = self.head_seen.wrapping_sub(self.tail).min(records_max as u64);
        for _ in 0..count {
            take(self.read());
            self.tail = self.tail.wrapping_add(1);
        }
        if count > 0 {
            // SYNC: pairs with the acquire load of `tail` in `Producer::look_for_room`.
            self.memory.control().consumer.tail.store(self.tail, Ordering::Release);
        }
        count as usize
    }

    fn read(&self) -> Record {
        let index = (self.tail & (self.memory.capacity() - 1)) as usize * 2;
        let slots = self.memory.slots();
        // SAFETY: the masked index is below the capacity and there are two words per record.
        let (word, tsc) = unsafe { (slots.add(index).as_ref(), slots.add(index + 1).as_ref()) };
        // SYNC: the acquire load of `head` in `look` made both words visible.
        Record { word: word.load(Ordering::Relaxed), tsc: Tsc(tsc.load(Ordering::Relaxed)) }
    }

    /// Returns the number of records dropped since the ring's creation because it was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        // SYNC: a counter with a single writer; no order needed.
        self.memory.control().producer.dropped.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of records in the ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.memory.capacity()
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("head", &self.head).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("tail", &self.tail).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn stamp(number: u64) -> Record {
        let trace = TraceId::new(number).expect("small");
        Record::at(trace, Point::T3, Tsc(number * 3))
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let (mut producer, mut consumer) = heap_ring(8).unwrap();
        for number in 1..=5 {
            producer.push(stamp(number));
        }
        let mut seen = Vec::new();
        assert_eq!(consumer.poll(3, |record| seen.push(record)), 3);
        assert_eq!(consumer.poll(100, |record| seen.push(record)), 2);
        assert_eq!(consumer.poll(100, |_| panic!("the ring is empty")), 0);
        assert_eq!(seen, (1..=5).map(stamp).collect::<Vec<_>>());
        assert_eq!(seen[0].trace(), TraceId(1));
        assert_eq!(seen[0].code(), Point::T3.code());
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on_when_read() {
        let (mut producer, mut consumer) = heap_ring(4).unwrap();
        for number in 1..=7 {
            producer.push(stamp(number));
        }
        assert_eq!(consumer.dropped(), 3);
        assert_eq!(consumer.poll(1, |record| assert_eq!(record, stamp(1))), 1);
        producer.push(stamp(8));
        producer.push(stamp(9));
        assert_eq!(consumer.dropped(), 4);
        let mut seen = Vec::new();
        consumer.poll(100, |record| seen.push(record.trace().get()));
        assert_eq!(seen, [2, 3, 4, 8]);
    }

    #[test]
    fn a_fast_producer_and_a_slow_consumer_account_for_every_record() {
        const SENT: u64 = if cfg!(miri) { 500 } else { 300_000 };
        let (mut producer, mut consumer) = heap_ring(64).unwrap();
        let writer = thread::spawn(move || {
            for number in 1..=SENT {
                producer.push(stamp(number));
                if number % 50 == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut last = 0;
        let mut check = |record: Record| {
            let number = record.trace().get();
            assert!(number > last, "{number} after {last}");
            assert_eq!(record, stamp(number), "torn record");
            last = number;
        };
        let mut received = 0;
        while !writer.is_finished() {
            received += consumer.poll(usize::MAX, &mut check) as u64;
            thread::yield_now();
        }
        // Only the join guarantees that the writer's last records are visible.
        writer.join().unwrap();
        received += consumer.poll(usize::MAX, &mut check) as u64;
        assert_eq!(received + consumer.dropped(), SENT);
    }

    #[test]
    fn capacities_that_are_no_power_of_two_are_refused() {
        for capacity in [0, 3, 1000, RING_RECORDS_MAX * 2] {
            assert!(matches!(heap_ring(capacity), Err(RingError::Capacity { .. })), "{capacity}");
        }
        assert_eq!(heap_ring(1).unwrap().1.capacity(), 1);
    }

    #[test]
    fn trace_ids_of_two_sources_differ_and_start_anew_after_the_last() {
        let mut first = TraceIds::new(0);
        let mut second = TraceIds::new(u16::MAX);
        assert_eq!(first.next().get(), 1);
        assert_eq!(first.next().get(), 2);
        assert_ne!(second.next(), TraceId(1));
        assert!(second.next() <= TraceId::MAX);
        first.next = (1 << TraceIds::COUNTER_BITS) - 1;
        assert_eq!(first.next().get(), (1 << TraceIds::COUNTER_BITS) - 1);
        assert_eq!(first.next().get(), 1);
        assert_eq!(TraceId::new(1 << 56), None);
    }

    #[test]
    fn a_theft_longer_than_a_record_holds_is_cut() {
        let record = Record::stolen(u64::MAX, Tsc(5));
        assert_eq!(record.code(), CODE_STOLEN);
        assert_eq!(record.trace(), TraceId::MAX);
        assert_eq!(Record::stolen(77, Tsc(5)).trace().get(), 77);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p weir-probe --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    fn stamp(number: u64) -> Record {
        Record { word: number << 8 | 1, tsc: Tsc(number) }
    }

    #[test]
    fn loom_every_record_is_received_whole_and_in_order_or_counted_as_dropped() {
        loom::model(|| {
            let (mut producer, mut consumer) = ends(Memory::heap(2));
            let writer = loom::thread::spawn(move || {
                for number in 1..=3 {
                    producer.push(stamp(number));
                }
            });
            let mut last = 0;
            let mut received = 0;
            let mut take = |record: Record| {
                assert!(record.tsc.0 > last);
                assert_eq!(record, stamp(record.tsc.0));
                last = record.tsc.0;
                received += 1;
            };
            consumer.poll(1, &mut take);
            consumer.poll(2, &mut take);
            writer.join().unwrap();
            consumer.poll(2, &mut take);
            assert_eq!(received + consumer.dropped(), 3);
        });
    }
}
