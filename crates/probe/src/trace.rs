//! One order's stamps: collected until complete, then decomposed into durations.
//!
//! [`Stamps::decompose`] converts raw counters to nanoseconds since the first stamp and only then
//! takes differences, so that the segments add up to the whole exactly, with any rounding. `Traces`
//! is the bounded table of orders in progress. It never grows and never blocks: when it is full, a
//! new order evicts the oldest of a few others, and that is counted. The slot freed last is reused
//! first, so that the part in use stays in the cache however large the table is.
//!
//! INVARIANT: a slot below `fresh` is on exactly one list: its order's chain, or the free list.

use crate::clock::{Calibration, Tsc};
use crate::point::{Measure, Point, PointSet};
use crate::ring::TraceId;

/// The number of orders compared when the oldest of them is evicted.
const EVICT_LOOKS: usize = 32;

/// The stamps of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamps {
    seen: PointSet,
    tsc: [Tsc; Point::COUNT],
}

/// The outcome of adding a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StampOutcome {
    /// The stamp is the first of its point.
    First,
    /// The point already has a stamp, which stays.
    Duplicate,
}

impl Stamps {
    /// Adds a stamp.
    pub fn stamp(&mut self, point: Point, tsc: Tsc) -> StampOutcome {
        if self.seen.has(point) {
            return StampOutcome::Duplicate;
        }
        self.seen = self.seen.with(point);
        self.tsc[point.index()] = tsc;
        StampOutcome::First
    }

    /// Removes all stamps. Their times stay in memory but are never read.
    fn clear(&mut self) {
        self.seen = PointSet::EMPTY;
    }

    /// Returns the points stamped so far.
    #[must_use]
    pub fn seen(&self) -> PointSet {
        self.seen
    }

    /// Decomposes the order's time over the stamped points of `points`.
    ///
    /// A stamp at most `slack_ticks` before its predecessor is moved up to it, because reads of the
    /// counter on two cores may swap by some 10 ns. Returns `None` if a stamp is further back: then
    /// the counters of two cores disagree, or a point was stamped in the wrong place.
    #[must_use]
    pub fn decompose(
        &self,
        points: PointSet,
        slack_ticks: u64,
        calibration: &Calibration,
    ) -> Option<Decomposition> {
        let seen = self.seen.and(points);
        let mut offset_ns = [0; Point::COUNT];
        let mut moved = 0;
        let mut origin = None;
        let mut latest = Tsc::ZERO;
        for (index, point) in Point::ALL.into_iter().enumerate() {
            if !seen.has(point) {
                continue;
            }
            let mut tsc = self.tsc[index];
            let first = *origin.get_or_insert(tsc);
            if tsc < latest {
                if latest.ticks_since(tsc) > slack_ticks {
                    return None;
                }
                moved += 1;
                tsc = latest;
            }
            latest = tsc;
            offset_ns[index] = calibration.ticks_to_ns(tsc.ticks_since(first));
        }
        Some(Decomposition { seen, offset_ns, moved })
    }
}

/// An order's decomposed time: nanoseconds from its first stamp to each other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decomposition {
    seen: PointSet,
    offset_ns: [u64; Point::COUNT],
    moved: u32,
}

impl Decomposition {
    /// Returns the duration, ns; `None` if one of its ends was not stamped.
    #[inline]
    #[must_use]
    pub fn duration_ns(&self, measure: Measure) -> Option<u64> {
        let (start, end) = measure.ends();
        if !self.seen.has(start) || !self.seen.has(end) {
            return None;
        }
        Some(self.offset_ns[end.index()] - self.offset_ns[start.index()])
    }

    /// Returns the number of stamps that were moved up to their predecessor.
    #[must_use]
    pub fn moved(&self) -> u32 {
        self.moved
    }
}

/// The index that means "no slot".
const NONE: u32 = u32::MAX;

/// An order in progress. Two cache lines, so that neighbours share none.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct TraceSlot {
    /// [`TraceId::NONE`] in a free slot.
    trace: TraceId,
    /// The earliest stamp so far; the order's age counts from it.
    born: Tsc,
    /// The next slot of the chain, or of the free list.
    next: u32,
    stamps: Stamps,
}

/// The result of adding a stamp to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum AddOutcome<'a> {
    /// The order waits for more stamps.
    Pending,
    /// The order has all required points and has left the table.
    Complete(&'a Stamps),
    /// The point was stamped before.
    Duplicate,
}

/// Orders in progress, by trace identifier.
pub(crate) struct Traces {
    /// The first slot of each chain; consecutive identifiers have consecutive chains.
    chains: Box<[u32]>,
    slots: Box<[TraceSlot]>,
    /// The index of the first slot that was never used.
    fresh: usize,
    /// The slot that was freed last.
    free: u32,
    complete: PointSet,
    live: usize,
    evicted: u64,
    sweep_at: usize,
    /// The slot stamped last: the next stamp is often of the same order.
    last: u32,
}

impl Traces {
    /// Creates a table of `slots_max` slots, a power of two of at least 64.
    pub(crate) fn new(slots_max: usize, complete: PointSet) -> Traces {
        let fits = slots_max.is_power_of_two() && (64..=1 << 31).contains(&slots_max);
        assert!(fits, "{slots_max} slots");
        assert!(complete != PointSet::EMPTY, "an order without points is never complete");
        let empty = TraceSlot {
            trace: TraceId::NONE,
            born: Tsc::ZERO,
            next: NONE,
            stamps: Stamps::default(),
        };
        Traces {
            chains: vec![NONE; slots_max].into_boxed_slice(),
            slots: vec![empty; slots_max].into_boxed_slice(),
            fresh: 0,
            free: NONE,
            complete,
            live: 0,
            evicted: 0,
            sweep_at: 0,
            last: 0,
        }
    }

    fn chain(&self, trace: TraceId) -> usize {
        // A source's identifiers are consecutive and share the bits from 40 up; this spreads the
        // sources over the table.
        let source = (trace.get() >> 40).wrapping_mul(0x9E37_79B9);
        trace.get().wrapping_add(source) as usize & (self.chains.len() - 1)
    }

    pub(crate) fn add(&mut self, trace: TraceId, point: Point, tsc: Tsc) -> AddOutcome<'_> {
        let at = if self.slots[self.last as usize].trace == trace {
            self.last
        } else {
            let chain = self.chain(trace);
            let found = self.find(chain, trace);
            found.unwrap_or_else(|| self.insert(chain, trace, tsc))
        };
        self.last = at;
        let slot = &mut self.slots[at as usize];
        slot.born = slot.born.min(tsc);
        if slot.stamps.stamp(point, tsc) == StampOutcome::Duplicate {
            return AddOutcome::Duplicate;
        }
        if !slot.stamps.seen().covers(self.complete) {
            return AddOutcome::Pending;
        }
        self.remove(at);
        // Only the next order overwrites the stamps.
        AddOutcome::Complete(&self.slots[at as usize].stamps)
    }

    fn find(&self, chain: usize, trace: TraceId) -> Option<u32> {
        let mut at = self.chains[chain];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.trace == trace {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Returns a slot for a new order, preferably the one freed last: it is in the cache.
    fn insert(&mut self, chain: usize, trace: TraceId, tsc: Tsc) -> u32 {
        if self.free == NONE && self.fresh == self.slots.len() {
            self.evict();
        }
        let at = if self.free == NONE {
            self.fresh += 1;
            self.fresh as u32 - 1
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            at
        };
        let next = std::mem::replace(&mut self.chains[chain], at);
        let slot = &mut self.slots[at as usize];
        (slot.trace, slot.born, slot.next) = (trace, tsc, next);
        slot.stamps.clear();
        self.live += 1;
        at
    }

    /// Evicts the oldest of the orders that the sweep would look at next.
    fn evict(&mut self) {
        let mask = self.slots.len() - 1;
        let looked_at = (0..EVICT_LOOKS).map(|step| (self.sweep_at + step) & mask);
        let oldest = looked_at.min_by_key(|at| self.slots[*at].born);
        self.sweep_at = (self.sweep_at + EVICT_LOOKS) & mask;
        self.remove(oldest.expect("it looks at some") as u32);
        self.evicted += 1;
    }

    /// Removes an order from its chain and frees its slot.
    fn remove(&mut self, at: u32) {
        let TraceSlot { trace, next, .. } = self.slots[at as usize];
        let chain = self.chain(trace);
        let mut before = self.chains[chain];
        if before == at {
            self.chains[chain] = next;
        } else {
            while self.slots[before as usize].next != at {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
        }
        let slot = &mut self.slots[at as usize];
        slot.trace = TraceId::NONE;
        slot.next = self.free;
        self.free = at;
        self.live -= 1;
    }

    /// Checks the next `looks` slots, each at most once, and removes the orders born before
    /// `limit`; returns their number. Never used slots are skipped.
    pub(crate) fn expire(&mut self, looks: usize, limit: Tsc) -> u64 {
        let mut expired = 0;
        for _ in 0..looks.min(self.fresh) {
            if self.sweep_at >= self.fresh {
                self.sweep_at = 0;
            }
            let slot = &self.slots[self.sweep_at];
            if slot.trace.is_some() && slot.born < limit {
                self.remove(self.sweep_at as u32);
                expired += 1;
            }
            self.sweep_at += 1;
        }
        expired
    }

    /// Returns the number of slots that a sweep checks.
    pub(crate) fn entries_to_sweep(&self) -> usize {
        self.fresh
    }

    /// Returns the number of orders in progress.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns the number of evicted orders.
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
            assert_eq!(stamps.stamp(point, Tsc(tsc[point.index()])), StampOutcome::First);
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
        assert_eq!(traces.add(id, Point::Ingress, Tsc(5)), AddOutcome::Pending);
        assert_eq!(traces.add(id, Point::Ingress, Tsc(6)), AddOutcome::Duplicate);
        assert_eq!(traces.add(id, Point::T0, Tsc(7)), AddOutcome::Pending);
        assert_eq!(traces.add(id, Point::T7, Tsc(8)), AddOutcome::Pending);
        let AddOutcome::Complete(stamps) = traces.add(id, Point::Egress, Tsc(9)) else {
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
            assert_eq!(traces.add(id, Point::T0, Tsc(number)), AddOutcome::Pending);
        }
        assert!(traces.live() <= 64);
        assert_eq!(traces.live() as u64 + traces.evicted(), 1_000);
        let newest = TraceId::new(1_000).unwrap();
        assert_eq!(traces.add(newest, Point::T0, Tsc(1)), AddOutcome::Duplicate);
    }

    #[test]
    fn orders_that_wait_too_long_expire() {
        let mut traces = Traces::new(64, PointSet::ALL);
        for number in 1..=40_u64 {
            let _ = traces.add(TraceId::new(number).unwrap(), Point::T0, Tsc(number));
        }
        assert_eq!(traces.expire(64, Tsc(31)), 30);
        assert_eq!(traces.live(), 10);
    }

    #[test]
    fn a_given_back_entry_is_taken_first_and_the_rest_of_the_table_stays_untouched() {
        let mut traces = Traces::new(1 << 10, PointSet::GATEWAY);
        for number in 1..=5_000_u64 {
            let id = TraceId::new(number).unwrap();
            for point in [Point::Ingress, Point::T0, Point::T7, Point::Egress] {
                let _ = traces.add(id, point, Tsc(number));
            }
        }
        assert_eq!((traces.live(), traces.evicted(), traces.entries_to_sweep()), (0, 0, 1));
    }

    #[test]
    fn identifiers_that_share_a_chain_are_kept_apart() {
        let mut traces = Traces::new(64, PointSet::GATEWAY);
        let id = |number: u64| TraceId::new(number).unwrap();
        for number in [1, 65, 129, 193] {
            assert_eq!(traces.add(id(number), Point::T0, Tsc(number)), AddOutcome::Pending);
        }
        // From the middle, the end and the head of the chain.
        for number in [129, 1, 193] {
            assert_eq!(traces.add(id(number), Point::Ingress, Tsc(number)), AddOutcome::Pending);
            assert_eq!(traces.add(id(number), Point::T7, Tsc(number)), AddOutcome::Pending);
            let done = traces.add(id(number), Point::Egress, Tsc(number));
            assert!(matches!(done, AddOutcome::Complete(_)), "{number}");
        }
        assert_eq!(traces.live(), 1);
        assert_eq!(traces.add(id(65), Point::T0, Tsc(1)), AddOutcome::Duplicate);
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
                let slot = model.entry(number).or_default();
                let stamped = slot.stamp(point, tsc);
                let expected = *slot;
                let is_complete = expected.seen() == PointSet::GATEWAY;
                match traces.add(id, point, tsc) {
                    AddOutcome::Duplicate => prop_assert_eq!(stamped, StampOutcome::Duplicate),
                    AddOutcome::Pending => {
                        prop_assert_eq!(stamped, StampOutcome::First);
                        prop_assert!(!is_complete);
                    }
                    AddOutcome::Complete(stamps) => {
                        prop_assert!(is_complete && stamped == StampOutcome::First);
                        for point in Point::ALL.into_iter().filter(|p| expected.seen().has(*p)) {
                            let index = point.index();
                            prop_assert_eq!(stamps.tsc[index], expected.tsc[index]);
                        }
                        model.remove(&number);
                    }
                }
                prop_assert_eq!(traces.live(), model.len());
            }
            prop_assert_eq!(traces.evicted(), 0);
        }
    }
}
