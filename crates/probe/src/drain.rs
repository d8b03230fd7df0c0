//! The drain: the only reader of a host's probe rings.
//!
//! In each duty cycle it empties the rings, joins the stamps of each order, decomposes complete
//! orders into histograms, re-anchors the clock when due and, on request, writes every record to a
//! capture file. It is off the order path: when it is late, rings drop records and count them, but
//! no order ever waits for it.
//!
//! INVARIANT: every record taken from a ring is counted once: as a stamp of an order in progress,
//! or of a complete, disordered or abandoned one, as a duplicate, as unknown, or as stolen time.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::capture::CaptureWriter;
use crate::clock::{AnchorOutcome, Calibration, ClockHealth, ClockWriter, Tsc};
use crate::histogram::{Histogram, HistogramReader, Snapshot};
use crate::point::{Measure, Point, PointSet};
use crate::ring::{CODE_STOLEN, Consumer, Record};
use crate::trace::{AddOutcome, Stamps, Traces};

/// The number of records taken from a ring before the drain looks for one further behind.
const CHUNK: usize = 64;

/// The options of a drain; the default suits a host with both gateways and partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOptions {
    /// The points that this host stamps; an order with all of them is complete.
    pub points: PointSet,
    /// The maximum number of orders in progress, 128 bytes each; a power of two of at least 64.
    pub traces_max: usize,
    /// The time after which an incomplete order is abandoned, ns.
    pub timeout_ns: u64,
    /// The approximate maximum of records taken in one duty cycle.
    pub records_max: usize,
    /// Time between anchors of the clock, ns.
    pub anchor_interval_ns: u64,
    /// Length of the rotating interval, ns.
    pub interval_ns: u64,
    /// The distance by which a stamp may precede its predecessor and still count as simultaneous,
    /// ns.
    pub slack_ns: u64,
}

impl Default for DrainOptions {
    fn default() -> DrainOptions {
        DrainOptions {
            points: PointSet::ALL,
            traces_max: 1 << 16,
            timeout_ns: 2_000_000_000,
            records_max: 1 << 16,
            anchor_interval_ns: 100_000_000,
            interval_ns: 1_000_000_000,
            slack_ns: 200,
        }
    }
}

/// The counters of a drain since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainCounts {
    /// Records taken from rings.
    pub records: u64,
    /// Complete orders, decomposed into histograms.
    pub complete: u64,
    /// Orders abandoned with a point missing, by age or for lack of room.
    pub incomplete: u64,
    /// Orders whose stamps contradict one another; not in the histograms.
    pub disordered: u64,
    /// Stamps moved up to their predecessor, by less than the slack.
    pub moved: u64,
    /// Second stamps of a point of an order.
    pub duplicates: u64,
    /// Records with an unknown code or without an identifier.
    pub unknown: u64,
    /// Records of time stolen by the platform.
    pub stolen: u64,
    /// Records that rings dropped because they were full.
    pub dropped: u64,
    /// Orders in progress.
    pub pending: u64,
}

/// A set of histograms, one per measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    snapshots: Vec<Snapshot>,
}

impl Latencies {
    fn empty() -> Latencies {
        Latencies { snapshots: vec![Snapshot::default(); Measure::COUNT] }
    }

    fn since(&self, earlier: &Latencies) -> Latencies {
        let pairs = self.snapshots.iter().zip(&earlier.snapshots);
        Latencies { snapshots: pairs.map(|(now, then)| now.since(then)).collect() }
    }

    /// Returns the histogram of a measure, ns.
    #[must_use]
    pub fn of(&self, measure: Measure) -> &Snapshot {
        &self.snapshots[measure.index()]
    }
}

/// A drain's figures at one moment.
#[derive(Clone, Debug)]
pub struct DrainReport {
    /// Since the start.
    pub total: Latencies,
    /// Over the last whole interval.
    pub interval: Arc<Latencies>,
    /// Counters since the start.
    pub counts: DrainCounts,
    /// Records dropped, by ring.
    pub dropped: Vec<(String, u64)>,
    /// The clock.
    pub clock: ClockHealth,
}

struct RingReader {
    name: String,
    consumer: Consumer,
    /// The number of dropped records last written to the capture.
    dropped_captured: u64,
}

/// The figures that the drain's thread changes together and others copy. The lock is held for a few
/// hundred nanoseconds per duty cycle, off the order path.
#[derive(Debug)]
struct Published {
    interval: Arc<Latencies>,
    counts: DrainCounts,
    dropped: Vec<(String, u64)>,
    clock: ClockHealth,
}

/// The reader of a host's rings; one thread owns it.
pub struct Drain {
    options: DrainOptions,
    clock: ClockWriter,
    sources: Vec<RingReader>,
    sink: Sink,
    capture: Option<CaptureWriter>,
    capture_error: Option<io::Error>,
    readers: Vec<HistogramReader>,
    at_interval_start: Latencies,
    published: Arc<Mutex<Published>>,
    anchored_at: Tsc,
    interval_began: Tsc,
    swept_at: Tsc,
}

impl Drain {
    /// Creates a drain without rings. It takes ownership of the clock; readers may be taken before
    /// or after.
    ///
    /// # Panics
    ///
    /// Panics if `traces_max` is not a power of two of at least 64 or there are no points.
    #[must_use]
    pub fn new(clock: ClockWriter, options: DrainOptions) -> Drain {
        let sink = Sink::new(&options, &clock);
        let readers = sink.times.histograms.iter().map(Histogram::reader).collect();
        let published = Published {
            interval: Arc::new(Latencies::empty()),
            counts: DrainCounts::default(),
            dropped: Vec::new(),
            clock: clock.health(),
        };
        Drain {
            options,
            clock,
            sources: Vec::new(),
            sink,
            capture: None,
            capture_error: None,
            readers,
            at_interval_start: Latencies::empty(),
            published: Arc::new(Mutex::new(published)),
            anchored_at: Tsc::ZERO,
            interval_began: Tsc::ZERO,
            swept_at: Tsc::ZERO,
        }
    }

    /// Adds a ring, named after its thread.
    pub fn add_ring(&mut self, name: &str, consumer: Consumer) {
        let source = RingReader { name: name.to_owned(), consumer, dropped_captured: 0 };
        self.sources.push(source);
        let ring = self.sources.len() - 1;
        self.captured(|capture| capture.ring(ring_number(ring), name));
    }

    /// Empties the rings once. Returns the number of records.
    pub fn do_work(&mut self) -> usize {
        self.do_work_at(Tsc::now())
    }

    /// Does the work of [`Drain::do_work`] at a given time, for simulated clocks.
    pub fn do_work_at(&mut self, now: Tsc) -> usize {
        self.reanchor_if_due(now);
        let records = self.poll_rings();
        // Only a drain that has caught up abandons orders.
        if records < self.options.records_max {
            self.sweep(now);
        }
        self.rotate_if_due(now);
        self.publish();
        records
    }

    /// Takes the records that the rings held at the beginning, a chunk at a time from the ring that
    /// is furthest behind. The stamps of one order thus arrive close together, and the orders in
    /// progress are few enough to stay in the cache.
    fn poll_rings(&mut self) -> usize {
        for source in &mut self.sources {
            source.consumer.look();
        }
        let mut records = 0;
        while records < self.options.records_max {
            let times = self.sources.iter().map(|source| source.consumer.next_tsc());
            let next = times.zip(0..).filter_map(|(tsc, ring)| Some((tsc?, ring))).min();
            let Some((_, ring)) = next else { break };
            records += self.poll_ring(ring);
        }
        records
    }

    fn poll_ring(&mut self, ring: usize) -> usize {
        let RingReader { consumer, dropped_captured, .. } = &mut self.sources[ring];
        let sink = &mut self.sink;
        let number = ring_number(ring);
        let Some(capture) = &mut self.capture else {
            return consumer.take_seen(CHUNK, |record| sink.take(record));
        };
        let records = consumer.take_seen(CHUNK, |record| {
            capture.add(record);
            sink.take(record);
        });
        let dropped = consumer.dropped();
        let lost_more = dropped != *dropped_captured;
        *dropped_captured = dropped;
        self.captured(|capture| {
            capture.end_records(number)?;
            if lost_more { capture.loss(number, dropped) } else { Ok(()) }
        });
        records
    }

    fn reanchor_if_due(&mut self, now: Tsc) {
        let interval = self.sink.times.calibration.ns_to_ticks(self.options.anchor_interval_ns);
        if now.ticks_since(self.anchored_at) < interval {
            return;
        }
        self.anchored_at = now;
        if let AnchorOutcome::Applied(anchor) = self.clock.reanchor() {
            self.sink.times.recalibrate(self.clock.calibration());
            self.captured(|capture| capture.anchor(&anchor));
        }
    }

    /// Looks for orders to abandon, at a pace that covers the whole table once per timeout.
    fn sweep(&mut self, now: Tsc) {
        let timeout = self.sink.times.calibration.ns_to_ticks(self.options.timeout_ns).max(1);
        let slots = self.sink.traces.entries_to_sweep() as u128;
        let due = u128::from(now.ticks_since(self.swept_at)) * slots / u128::from(timeout);
        if due > 0 {
            self.swept_at = now;
            let limit = Tsc(now.0.saturating_sub(timeout));
            self.sink.expired += self.sink.traces.expire(due.min(slots) as usize, limit);
        }
    }

    fn rotate_if_due(&mut self, now: Tsc) {
        let length = self.sink.times.calibration.ns_to_ticks(self.options.interval_ns);
        if now.ticks_since(self.interval_began) < length {
            return;
        }
        self.interval_began = now;
        let total = latencies(&self.readers);
        let interval = Arc::new(total.since(&self.at_interval_start));
        self.at_interval_start = total;
        self.lock().interval = interval;
    }

    fn publish(&self) {
        let mut counts = self.sink.counts();
        let dropped = self.sources.iter().map(|source| source.consumer.dropped());
        counts.dropped = dropped.clone().sum();
        let clock = self.clock.health();
        let mut published = self.lock();
        published.counts = counts;
        published.clock = clock;
        if published.dropped.len() != self.sources.len() {
            published.dropped =
                self.sources.iter().map(|source| (source.name.clone(), 0)).collect();
        }
        for (slot, dropped) in published.dropped.iter_mut().zip(dropped) {
            slot.1 = dropped;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Published> {
        // Plain numbers are valid whichever thread panicked.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to write every record to `out`, which should be buffered.
    ///
    /// # Errors
    ///
    /// Fails when the header cannot be written; nothing is captured then.
    pub fn capture_to(&mut self, out: Box<dyn io::Write + Send>) -> io::Result<()> {
        let calibration = self.clock.calibration();
        let start_unix_ns = calibration.unix_ns(Tsc::now());
        let mut capture = CaptureWriter::begin(out, &calibration, start_unix_ns)?;
        for (ring, source) in self.sources.iter_mut().enumerate() {
            capture.ring(ring_number(ring), &source.name)?;
            source.dropped_captured = source.consumer.dropped();
            capture.loss(ring_number(ring), source.dropped_captured)?;
        }
        self.anchored_at = Tsc::ZERO; // The next cycle begins the capture with an anchor.
        self.capture = Some(capture);
        self.capture_error = None;
        Ok(())
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// Fails when the file does, now or in the write that ended the capture.
    pub fn end_capture(&mut self) -> io::Result<()> {
        if let Some(mut capture) = self.capture.take() {
            if let AnchorOutcome::Applied(anchor) = self.clock.reanchor() {
                capture.anchor(&anchor)?;
            }
            capture.flush()?;
        }
        self.capture_error.take().map_or(Ok(()), Err)
    }

    /// Returns true while records are captured; false after a write has failed.
    #[must_use]
    pub fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Writes to the capture, if there is one. A failed write ends the capture and its error is
    /// kept: losing the capture must not stop the histograms.
    fn captured(&mut self, write: impl FnOnce(&mut CaptureWriter) -> io::Result<()>) {
        let Some(capture) = &mut self.capture else { return };
        if let Err(error) = write(capture) {
            self.capture = None;
            self.capture_error = Some(error);
        }
    }

    /// Empties the rings for good and abandons all orders in progress. Call it after the last
    /// recorder is gone.
    pub fn finish(&mut self) -> DrainReport {
        while self.do_work() > 0 {}
        let slots = self.sink.traces.entries_to_sweep();
        while self.sink.traces.live() > 0 {
            self.sink.expired += self.sink.traces.expire(slots, Tsc(u64::MAX));
        }
        self.publish();
        self.reader().report()
    }

    /// Returns a reader for other threads.
    #[must_use]
    pub fn reader(&self) -> DrainReader {
        DrainReader { histograms: self.readers.clone(), published: Arc::clone(&self.published) }
    }

    /// Returns the drain's clock.
    #[must_use]
    pub fn clock(&self) -> &ClockWriter {
        &self.clock
    }
}

impl std::fmt::Debug for Drain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drain").field("rings", &self.sources.len()).finish_non_exhaustive()
    }
}

/// Reads a drain's figures from any thread.
#[derive(Clone, Debug)]
pub struct DrainReader {
    histograms: Vec<HistogramReader>,
    published: Arc<Mutex<Published>>,
}

impl DrainReader {
    /// Returns all figures; takes about 50 µs, mostly for copying histograms.
    #[must_use]
    pub fn report(&self) -> DrainReport {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let interval = Arc::clone(&published.interval);
        let (counts, clock) = (published.counts, published.clock);
        let dropped = published.dropped.clone();
        drop(published);
        DrainReport { total: latencies(&self.histograms), interval, counts, dropped, clock }
    }
}

fn latencies(readers: &[HistogramReader]) -> Latencies {
    Latencies { snapshots: readers.iter().map(HistogramReader::snapshot).collect() }
}

fn ring_number(ring: usize) -> u32 {
    u32::try_from(ring).expect("a host has fewer than 2^32 threads")
}

/// The destination of records: the table of orders, then the histograms.
struct Sink {
    traces: Traces,
    times: Times,
    expired: u64,
}

impl Sink {
    fn new(options: &DrainOptions, clock: &ClockWriter) -> Sink {
        let times = Times {
            points: options.points,
            slack_ns: options.slack_ns,
            slack_ticks: clock.calibration().ns_to_ticks(options.slack_ns),
            calibration: clock.calibration(),
            histograms: (0..Measure::COUNT).map(|_| Histogram::new()).collect(),
            counts: DrainCounts::default(),
        };
        Sink { traces: Traces::new(options.traces_max, options.points), times, expired: 0 }
    }

    #[inline]
    fn take(&mut self, record: Record) {
        let counts = &mut self.times.counts;
        counts.records += 1;
        let code = record.code();
        if code == CODE_STOLEN {
            counts.stolen += 1;
            return;
        }
        let (Some(point), true) = (Point::from_code(code), record.trace().is_some()) else {
            counts.unknown += 1;
            return;
        };
        match self.traces.add(record.trace(), point, record.tsc) {
            AddOutcome::Pending => (),
            AddOutcome::Duplicate => counts.duplicates += 1,
            AddOutcome::Complete(stamps) => self.times.count(stamps),
        }
    }

    fn counts(&self) -> DrainCounts {
        DrainCounts {
            incomplete: self.expired + self.traces.evicted(),
            pending: self.traces.live() as u64,
            ..self.times.counts
        }
    }
}

/// The histograms of complete orders.
struct Times {
    points: PointSet,
    slack_ns: u64,
    slack_ticks: u64,
    calibration: Calibration,
    histograms: Vec<Histogram>,
    counts: DrainCounts,
}

impl Times {
    fn recalibrate(&mut self, calibration: Calibration) {
        self.calibration = calibration;
        self.slack_ticks = calibration.ns_to_ticks(self.slack_ns);
    }

    fn count(&mut self, stamps: &Stamps) {
        let parts = stamps.decompose(self.points, self.slack_ticks, &self.calibration);
        let Some(parts) = parts else {
            self.counts.disordered += 1;
            return;
        };
        self.counts.complete += 1;
        self.counts.moved += u64::from(parts.moved());
        for (measure, histogram) in Measure::ALL.into_iter().zip(&mut self.histograms) {
            if let Some(duration_ns) = parts.duration_ns(measure) {
                histogram.record(duration_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::SharedFile;
    use crate::capture::{CaptureDecoder, Frame};
    use crate::ring::{Producer, TraceId, heap_ring};

    /// Returns a drain on a clock with one tick per nanosecond.
    fn drain(options: DrainOptions) -> Drain {
        Drain::new(ClockWriter::simulated(1_000_000_000, 0), options)
    }

    fn small() -> DrainOptions {
        DrainOptions { traces_max: 1 << 12, ..DrainOptions::default() }
    }

    fn ring(drain: &mut Drain, name: &str) -> Producer {
        let (producer, consumer) = heap_ring(1 << 12).expect("a power of two");
        drain.add_ring(name, consumer);
        producer
    }

    fn id(number: u64) -> TraceId {
        TraceId::new(number).expect("small")
    }

    /// Returns the stamps of order `number`, whose segment k lasts `number + 100 k`.
    fn stamps(number: u64) -> [Tsc; Point::COUNT] {
        let mut at = 1_000_000 + number * 10_000;
        let mut stamps = [Tsc(at); Point::COUNT];
        for segment in 0..Measure::SEGMENT_COUNT {
            at += number + 100 * segment as u64;
            stamps[segment + 1] = Tsc(at);
        }
        stamps
    }

    #[test]
    fn orders_over_several_rings_come_together_however_the_rings_are_emptied() {
        const ORDERS: u64 = 300;
        let mut drain = drain(small());
        let mut gateway = ring(&mut drain, "gateway");
        let mut partition = ring(&mut drain, "partition");
        let mut reply = ring(&mut drain, "reply");
        for number in 1..=ORDERS {
            for point in Point::ALL {
                let producer = match point {
                    Point::Ingress | Point::T0 => &mut gateway,
                    Point::T1 | Point::T2 | Point::T3 | Point::T4 | Point::T5 => &mut partition,
                    _ => &mut reply,
                };
                producer.push(Record::at(id(number), point, stamps(number)[point.index()]));
                // Duty cycles split orders at changing points.
                if (number * 7 + point.index() as u64).is_multiple_of(11) {
                    drain.do_work_at(stamps(number)[point.index()]);
                }
            }
        }
        let report = drain.finish();
        assert_eq!(report.counts.complete, ORDERS);
        assert_eq!(report.counts.records, ORDERS * Point::COUNT as u64);
        assert_eq!((report.counts.incomplete, report.counts.pending), (0, 0));
        let sum = |measure| report.total.of(measure).sum_ns();
        let segments: u64 = Measure::segments().iter().map(|segment| sum(*segment)).sum();
        assert_eq!(segments, sum(Measure::Server), "segments add up to the whole");
        let numbers = ORDERS * (ORDERS + 1) / 2;
        assert_eq!(sum(Measure::MATCHER), numbers + 500 * ORDERS);
        assert_eq!(sum(Measure::DoorToDoor), 7 * numbers + 2_800 * ORDERS);
        assert_eq!(report.total.of(Measure::Out).max_ns(), ORDERS + 800);
    }

    #[test]
    fn an_order_without_a_point_is_given_up_after_the_timeout_and_no_earlier() {
        let options = DrainOptions { timeout_ns: 1_000_000, ..small() };
        let mut drain = drain(options);
        let mut producer = ring(&mut drain, "gateway");
        producer.push(Record::at(id(1), Point::T0, Tsc(5_000_000)));
        for now in [5_000_001, 5_500_000, 5_900_000] {
            drain.do_work_at(Tsc(now));
            assert_eq!(drain.reader().report().counts.pending, 1, "at {now}");
        }
        for now in (6_000_000..8_000_000).step_by(100_000) {
            drain.do_work_at(Tsc(now));
        }
        let counts = drain.reader().report().counts;
        assert_eq!((counts.pending, counts.incomplete, counts.complete), (0, 1, 0));
    }

    #[test]
    fn every_record_is_counted_for_what_it_is() {
        let mut drain = drain(small());
        let mut producer = ring(&mut drain, "odd");
        producer.push(Record { word: id(5).get() << 8 | 77, tsc: Tsc(9) });
        producer.push(Record::at(TraceId::NONE, Point::T0, Tsc(9)));
        producer.push(Record::stolen(1_000, Tsc(9)));
        producer.push(Record::at(id(1), Point::T0, Tsc(9)));
        producer.push(Record::at(id(1), Point::T0, Tsc(10)));
        for point in Point::ALL {
            // Each stamp precedes the last by more than the slack.
            producer.push(Record::at(id(2), point, Tsc(90_000 - 1_000 * point.index() as u64)));
        }
        assert_eq!(drain.do_work_at(Tsc(100)), 15);
        let counts = drain.reader().report().counts;
        let expected = DrainCounts {
            records: 15,
            disordered: 1,
            duplicates: 1,
            unknown: 2,
            stolen: 1,
            pending: 1,
            ..DrainCounts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn the_interval_holds_what_came_in_it() {
        let options = DrainOptions { interval_ns: 1_000, ..small() };
        let mut drain = drain(options);
        let mut producer = ring(&mut drain, "all");
        let reader = drain.reader();
        for (number, now) in [(1, 10_000), (2, 10_500), (3, 11_200)] {
            for point in Point::ALL {
                producer.push(Record::at(id(number), point, stamps(number)[point.index()]));
            }
            drain.do_work_at(Tsc(now));
        }
        let report = reader.report();
        assert_eq!(report.total.of(Measure::Server).count(), 3);
        // The first cycle began an interval; orders 2 and 3 fall into the one that has just ended.
        assert_eq!(report.interval.of(Measure::Server).count(), 2);
        drain.do_work_at(Tsc(12_300));
        assert!(reader.report().interval.of(Measure::Server).is_empty());
    }

    #[test]
    fn a_full_ring_is_reported_by_name() {
        let mut drain = drain(small());
        let (mut producer, consumer) = heap_ring(4).expect("a power of two");
        drain.add_ring("small", consumer);
        let _other = ring(&mut drain, "other");
        for number in 1..=10 {
            producer.push(Record::at(id(number), Point::T0, Tsc(number)));
        }
        drain.do_work_at(Tsc(100));
        let report = drain.reader().report();
        assert_eq!(report.counts.dropped, 6);
        assert_eq!(report.dropped, [("small".to_owned(), 6), ("other".to_owned(), 0)]);
    }

    #[test]
    fn a_capture_holds_every_record_and_what_was_lost() {
        let mut drain = drain(small());
        let (mut producer, consumer) = heap_ring(8).expect("a power of two");
        drain.add_ring("early", consumer);
        let file = SharedFile::default();
        drain.capture_to(Box::new(file.clone())).unwrap();
        let mut late = ring(&mut drain, "late");
        for number in 1..=10 {
            producer.push(Record::at(id(number), Point::T0, Tsc(number)));
        }
        late.push(Record::stolen(55, Tsc(3)));
        drain.do_work_at(Tsc(100));
        drain.end_capture().unwrap();
        let bytes = file.bytes();
        let frames: Vec<_> = CaptureDecoder::new(&bytes).unwrap().map(Result::unwrap).collect();
        let records_of = |wanted: u32| {
            let mut found: Vec<Record> = Vec::new();
            for frame in &frames {
                match *frame {
                    Frame::Records { ring, records } if ring == wanted => found.extend(records),
                    _ => (),
                }
            }
            found
        };
        assert!(frames.contains(&Frame::Ring { ring: 0, name: "early" }));
        assert!(frames.contains(&Frame::Ring { ring: 1, name: "late" }));
        assert!(frames.contains(&Frame::Loss { ring: 0, dropped: 2 }));
        assert_eq!(records_of(0).len(), 8);
        assert_eq!(records_of(1), [Record::stolen(55, Tsc(3))]);
    }

    struct FullDisk;

    impl io::Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The header fits, nothing more.
            if bytes.len() <= 8 { Ok(bytes.len()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_capture_that_fails_ends_and_says_why_and_the_histograms_go_on() {
        let mut drain = drain(small());
        let mut producer = ring(&mut drain, "x");
        drain.capture_to(Box::new(FullDisk)).unwrap();
        for point in Point::ALL {
            producer.push(Record::at(id(1), point, stamps(1)[point.index()]));
        }
        drain.do_work_at(Tsc(100));
        assert!(!drain.is_capturing());
        assert_eq!(drain.reader().report().counts.complete, 1);
        let error = drain.end_capture().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
