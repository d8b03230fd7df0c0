//! The stamping end of the probes, held by each thread on the order path.
//!
//! A stamp is one counter read and one 16-byte store. A disabled recorder reads no counter and
//! answers [`Tsc::ZERO`]; with the crate's feature `off` every recorder is compiled to that.

use crate::clock::Tsc;
use crate::point::Point;
use crate::ring::{Producer, Record, TraceId};

/// Stamps the points that one thread passes.
///
/// A point is stamped at most once per order; a later stamp of the same point is counted as a
/// duplicate by the drain and ignored.
#[derive(Debug)]
pub struct Recorder {
    producer: Option<Producer>,
}

impl Recorder {
    /// Creates a recorder that writes into the ring.
    #[must_use]
    pub fn new(producer: Producer) -> Recorder {
        Recorder { producer: Some(producer) }
    }

    /// Creates a recorder that does nothing.
    #[must_use]
    pub const fn disabled() -> Recorder {
        Recorder { producer: None }
    }

    /// Returns true if the recorder stamps at all.
    #[inline(always)]
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        cfg!(not(feature = "off")) && self.producer.is_some()
    }

    /// Stamps the point now. Returns the reading, so that a message can carry it too;
    /// [`Tsc::ZERO`] when disabled. [`TraceId::NONE`] is stamped but not stored.
    #[inline(always)]
    pub fn record(&mut self, trace: TraceId, point: Point) -> Tsc {
        if !self.is_enabled() {
            return Tsc::ZERO;
        }
        let tsc = Tsc::now();
        self.record_at(trace, point, tsc);
        tsc
    }

    /// Stores a reading taken earlier, such as the ingress of an order whose partition is only now
    /// known. Do not store readings of orders that the gateway itself refuses: the drain would wait
    /// for their other points.
    #[inline(always)]
    pub fn record_at(&mut self, trace: TraceId, point: Point, tsc: Tsc) {
        if !self.is_enabled() || !trace.is_some() {
            return;
        }
        if let Some(producer) = &mut self.producer {
            producer.push(Record::at(trace, point, tsc));
        }
    }

    /// Returns the time for stamps shared by several orders, [`Tsc::ZERO`] when disabled.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Tsc {
        if self.is_enabled() { Tsc::now() } else { Tsc::ZERO }
    }

    /// Records that the platform held this core for `lost_ns` until `tsc`.
    pub fn record_stolen(&mut self, lost_ns: u64, tsc: Tsc) {
        if let (true, Some(producer)) = (self.is_enabled(), &mut self.producer) {
            producer.push(Record::stolen(lost_ns, tsc));
        }
    }
}

#[cfg(all(test, not(loom), not(feature = "off")))]
mod tests {
    use super::*;
    use crate::ring::heap_ring;

    #[test]
    fn a_stamp_is_stored_with_the_reading_that_is_returned() {
        let (producer, mut consumer) = heap_ring(8).unwrap();
        let mut recorder = Recorder::new(producer);
        let trace = TraceId::new(3).unwrap();
        let tsc = recorder.record(trace, Point::T1);
        recorder.record_at(trace, Point::Ingress, Tsc(5));
        let mut seen = Vec::new();
        consumer.poll(8, |record| seen.push(record));
        let expected =
            [Record::at(trace, Point::T1, tsc), Record::at(trace, Point::Ingress, Tsc(5))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_untraced_order_is_stamped_but_not_stored() {
        let (producer, mut consumer) = heap_ring(8).unwrap();
        let mut recorder = Recorder::new(producer);
        assert_ne!(recorder.record(TraceId::NONE, Point::T1), Tsc::ZERO);
        assert_eq!(consumer.poll(8, |_| ()), 0);
    }

    #[test]
    fn a_disabled_recorder_stamps_nothing() {
        let mut recorder = Recorder::disabled();
        assert!(!recorder.is_enabled());
        assert_eq!(recorder.record(TraceId::new(1).unwrap(), Point::T1), Tsc::ZERO);
        assert_eq!(recorder.now(), Tsc::ZERO);
    }
}

#[cfg(all(test, not(loom), feature = "off"))]
mod tests_off {
    use super::*;
    use crate::ring::heap_ring;

    #[test]
    fn with_probes_compiled_out_no_recorder_stamps() {
        let (producer, mut consumer) = heap_ring(8).unwrap();
        let mut recorder = Recorder::new(producer);
        assert_eq!(recorder.record(TraceId::new(1).unwrap(), Point::T1), Tsc::ZERO);
        recorder.record_stolen(5, Tsc(6));
        assert_eq!(consumer.poll(8, |_| ()), 0);
    }
}
