//! One order's stamps: collected until complete, then taken apart.
//!
//! [`Stamps::decompose`] turns raw counters into nanoseconds since the first stamp and only then
//! takes differences, so that whatever the rounding the segments add up to the whole exactly.
//! `Traces` is the bounded table of orders under way; it never grows and never blocks: what does
//! not fit pushes out the oldest of its neighbours, and that is counted.
//!
//! INVARIANT: between an order's home slot and the slot it lies in no slot is empty, and the two
//! are less than `PROBE_MAX` apart.

use crate::clock::{Calibration, Tsc};
use crate::point::{Measure, Point, PointSet};
use crate::ring::TraceId;

/// Slots looked at for one order.
const PROBE_MAX: usize = 32;

/// The stamps of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamps {
    seen: PointSet,
    tsc: [Tsc; Point::COUNT],
}

/// What became of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stamped {
    /// It is the first of its point.
    First,
    /// The point has one already; that one stays.
    Duplicate,
}

impl Stamps {
    /// Adds a stamp.
    pub fn stamp(&mut self, point: Point, tsc: Tsc) -> Stamped {
        if self.seen.has(point) {
            return Stamped::Duplicate;
        }
        self.seen = self.seen.with(point);
        self.tsc[point.index()] = tsc;
        Stamped::First
    }

    /// The points stamped so far.
    #[must_use]
    pub fn seen(&self) -> PointSet {
        self.seen
    }

    /// Takes the order's time apart over the stamped points of `points`.
    ///
    /// A stamp at most `slack_ticks` before its predecessor is moved up to it: reads of the counter
    /// on two cores may swap by some 10 ns. None if one lies further back: then the counters of
    /// two cores disagree, or a point was stamped in the wrong place.
    #[must_use]
    pub fn decompose(
        &self,
        points: PointSet,
        slack_ticks: u64,
        calibration: &Calibration,
    ) -> Option<Decomposition> {
        let mut decomposition = Decomposition::default();
        let mut origin = None;
        let mut latest = Tsc::ZERO;
        for point in Point::ALL {
            if !self.seen.has(point) || !points.has(point) {
                continue;
            }
            let mut tsc = self.tsc[point.index()];
            let first = *origin.get_or_insert(tsc);
            if tsc < latest {
                if latest.ticks_since(tsc) > slack_ticks {
                    return None;
                }
                decomposition.moved += 1;
                tsc = latest;
            }
            latest = tsc;
            decomposition.seen = decomposition.seen.with(point);
            decomposition.offset_ns[point.index()] =
                calibration.ticks_to_ns(tsc.ticks_since(first));
        }
        Some(decomposition)
    }
}

/// An order's time, taken apart: nanoseconds from its first stamp to each other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decomposition {
    seen: PointSet,
    offset_ns: [u64; Point::COUNT],
    moved: u32,
}

impl Decomposition {
    /// The duration, ns; none if one of its ends was not stamped.
    #[inline]
    #[must_use]
    pub fn duration_ns(&self, measure: Measure) -> Option<u64> {
        let (start, end) = measure.ends();
        if !self.seen.has(start) || !self.seen.has(end) {
            return None;
        }
        Some(self.offset_ns[end.index()] - self.offset_ns[start.index()])
    }

    /// How many stamps had to be moved up to their predecessor.
    #[must_use]
    pub fn moved(&self) -> u32 {
        self.moved
    }
}

/// An order under way. Two lines, so that neighbours share none.
#[derive(Clone, Copy, Default)]
#[repr(C, align(128))]
struct Entry {
    /// [`TraceId::NONE`] in an empty slot.
    trace: TraceId,
    /// The earliest stamp so far: the order's age.
    born: Tsc,
    stamps: Stamps,
}

/// What a stamp did to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Added {
    /// The order waits for more.
    Pending,
    /// The order has every point that is waited for, and has left the table.
    Complete(Stamps),
    /// The point was stamped before.
    Duplicate,
}

/// Orders under way, by trace identifier.
pub(crate) struct Traces {
    slots: Box<[Entry]>,
    complete: PointSet,
    live: usize,
    evicted: u64,
    sweep_at: usize,
}

impl Traces {
    /// A table of `slot_count` slots, a power of two of at least 64.
    pub(crate) fn new(slot_count: usize, complete: PointSet) -> Traces {
        assert!(slot_count.is_power_of_two() && slot_count >= 2 * PROBE_MAX, "{slot_count} slots");
        assert!(complete != PointSet::EMPTY, "an order without points is never complete");
        let slots = vec![Entry::default(); slot_count].into_boxed_slice();
        Traces { slots, complete, live: 0, evicted: 0, sweep_at: 0 }
    }

    fn home(&self, trace: TraceId) -> usize {
        // Fibonacci hashing: identifiers are consecutive, and runs of several sources must not
        // pile up.
        let spread = trace.get().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & (self.slots.len() - 1)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    pub(crate) fn add(&mut self, trace: TraceId, point: Point, tsc: Tsc) -> Added {
        let slot = self.slot_of(trace, tsc);
        let entry = &mut self.slots[slot];
        entry.born = entry.born.min(tsc);
        if entry.stamps.stamp(point, tsc) == Stamped::Duplicate {
            return Added::Duplicate;
        }
        if !entry.stamps.seen().covers(self.complete) {
            return Added::Pending;
        }
        let stamps = entry.stamps;
        self.remove(slot);
        Added::Complete(stamps)
    }

    /// The order's slot; a new one, if need be in place of the oldest neighbour.
    fn slot_of(&mut self, trace: TraceId, tsc: Tsc) -> usize {
        let mut slot = self.home(trace);
        let mut oldest = slot;
        for _ in 0..PROBE_MAX {
            let entry = &self.slots[slot];
            if entry.trace == trace {
                return slot;
            }
            if !entry.trace.is_some() {
                self.live += 1;
                self.slots[slot] = Entry { trace, born: tsc, stamps: Stamps::default() };
                return slot;
            }
            if entry.born < self.slots[oldest].born {
                oldest = slot;
            }
            slot = self.next(slot);
        }
        self.evicted += 1;
        self.slots[oldest] = Entry { trace, born: tsc, stamps: Stamps::default() };
        oldest
    }

    /// Empties a slot and closes the gap: followers that may move nearer to their home do.
    fn remove(&mut self, slot: usize) {
        let mask = self.slots.len() - 1;
        let mut gap = slot;
        let mut follower = self.next(slot);
        // In a full table no slot is empty: once around is enough.
        while follower != slot && self.slots[follower].trace.is_some() {
            let home = self.home(self.slots[follower].trace);
            let from_home = follower.wrapping_sub(home) & mask;
            let from_gap = follower.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.slots[gap] = self.slots[follower];
                gap = follower;
            }
            follower = self.next(follower);
        }
        self.slots[gap] = Entry::default();
        self.live -= 1;
    }

    /// Looks at the next `slots` slots and removes what was born before `limit`; returns how many.
    pub(crate) fn expire(&mut self, slots: usize, limit: Tsc) -> u64 {
        let mut expired = 0;
        for _ in 0..slots.min(self.slots.len()) {
            // A follower may move into the emptied slot: look again.
            while self.slots[self.sweep_at].trace.is_some()
                && self.slots[self.sweep_at].born < limit
            {
                self.remove(self.sweep_at);
                expired += 1;
            }
            self.sweep_at = self.next(self.sweep_at);
        }
        expired
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Orders under way.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Orders pushed out by others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn stamps(tsc: [u64; Point::COUNT]) -> Stamps {
        let mut stamps = Stamps::default();
        for point in Point::ALL {
            assert_eq!(stamps.stamp(point, Tsc(tsc[point.index()])), Stamped::First);
        }
        stamps
    }

    fn calibration() -> Calibration {
        Calibration::with_rate(2_596_123_457, Tsc::ZERO, 0)
    }

    #[test]
    fn a_stamp_just_before_its_predecessor_is_moved_and_one_far_before_is_refused() {
        let swapped = stamps([100, 200, 300, 295, 400, 500, 600, 700, 800, 900]);
        let decomposition = swapped.decompose(PointSet::ALL, 10, &calibration()).unwrap();
        assert_eq!(decomposition.moved(), 1);
        assert_eq!(decomposition.duration_ns(Measure::T2), Some(0));
        assert_eq!(swapped.decompose(PointSet::ALL, 4, &calibration()), None);
    }

    #[test]
    fn a_host_of_partitions_measures_its_own_segments_only() {
        let mut partial = Stamps::default();
        for point in Point::ALL.into_iter().filter(|point| PointSet::PARTITION.has(*point)) {
            let _ = partial.stamp(point, Tsc(1_000 * (1 + point.index() as u64)));
        }
        let parts = partial.decompose(PointSet::PARTITION, 0, &calibration()).unwrap();
        for measure in Measure::ALL {
            let own = matches!(
                measure,
                Measure::T2 | Measure::T3 | Measure::T4 | Measure::T5 | Measure::T6
            );
            assert_eq!(parts.duration_ns(measure).is_some(), own, "{}", measure.name());
        }
    }

    #[test]
    fn a_second_stamp_of_a_point_is_a_duplicate_and_the_first_stays() {
        let mut traces = Traces::new(64, PointSet::GATEWAY);
        let id = TraceId::new(9).unwrap();
        assert_eq!(traces.add(id, Point::Ingress, Tsc(5)), Added::Pending);
        assert_eq!(traces.add(id, Point::Ingress, Tsc(6)), Added::Duplicate);
        assert_eq!(traces.add(id, Point::T0, Tsc(7)), Added::Pending);
        assert_eq!(traces.add(id, Point::T7, Tsc(8)), Added::Pending);
        let Added::Complete(stamps) = traces.add(id, Point::Egress, Tsc(9)) else {
            panic!("every point of a gateway was stamped");
        };
        assert_eq!(stamps.tsc[Point::Ingress.index()], Tsc(5));
        assert_eq!(traces.live(), 0);
    }

    #[test]
    fn a_full_table_pushes_out_the_oldest_neighbour_and_counts_it() {
        let mut traces = Traces::new(64, PointSet::ALL);
        for number in 1..=1_000_u64 {
            let id = TraceId::new(number).unwrap();
            assert_eq!(traces.add(id, Point::T0, Tsc(number)), Added::Pending);
        }
        assert!(traces.live() <= 64);
        assert_eq!(traces.live() as u64 + traces.evicted(), 1_000);
        let newest = TraceId::new(1_000).unwrap();
        assert_eq!(traces.add(newest, Point::T0, Tsc(1)), Added::Duplicate);
    }

    #[test]
    fn orders_that_wait_too_long_expire() {
        let mut traces = Traces::new(64, PointSet::ALL);
        for number in 1..=40_u64 {
            let _ = traces.add(TraceId::new(number).unwrap(), Point::T0, Tsc(number));
        }
        // The sweep passes the end of the table, where a moved follower may escape one round.
        let expired = traces.expire(64, Tsc(31)) + traces.expire(64, Tsc(31));
        assert_eq!(expired, 30);
        assert_eq!(traces.live(), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn segments_add_up_to_the_server_s_latency_exactly(
            hz in 1_000_000_u64..10_000_000_000,
            start in 0_u64..1 << 60,
            steps in prop::array::uniform9(prop_oneof![0_u64..100, 0_u64..10_000_000_000]),
        ) {
            let mut tsc = [start; Point::COUNT];
            for (index, step) in steps.iter().enumerate() {
                tsc[index + 1] = tsc[index] + step;
            }
            let calibration = Calibration::with_rate(hz, Tsc::ZERO, 0);
            let parts = stamps(tsc).decompose(PointSet::ALL, 0, &calibration)
                .expect("stamps in order");
            let of = |measure: Measure| parts.duration_ns(measure).expect("all points");
            let sum: u64 = Measure::segments().iter().map(|segment| of(*segment)).sum();
            prop_assert_eq!(sum, of(Measure::Server));
            let inner: u64 = Measure::segments()[1..8].iter().map(|segment| of(*segment)).sum();
            prop_assert_eq!(inner, of(Measure::DoorToDoor));
        }

        #[test]
        fn the_table_answers_like_a_map_while_it_has_room(
            steps in prop::collection::vec((1_u64..40, 0_usize..4), 0..300),
        ) {
            let points = [Point::Ingress, Point::T0, Point::T7, Point::Egress];
            let mut traces = Traces::new(1 << 10, PointSet::GATEWAY);
            let mut model: HashMap<u64, Stamps> = HashMap::new();
            for (number, point) in steps {
                let (id, point) = (TraceId::new(number).expect("small"), points[point]);
                let tsc = Tsc(number * 10 + point.index() as u64);
                let entry = model.entry(number).or_default();
                let expected = match entry.stamp(point, tsc) {
                    Stamped::Duplicate => Added::Duplicate,
                    Stamped::First if entry.seen() == PointSet::GATEWAY => {
                        Added::Complete(model.remove(&number).expect("just stamped"))
                    }
                    Stamped::First => Added::Pending,
                };
                prop_assert_eq!(traces.add(id, point, tsc), expected);
                prop_assert_eq!(traces.live(), model.len());
            }
            prop_assert_eq!(traces.evicted(), 0);
        }
    }
}
