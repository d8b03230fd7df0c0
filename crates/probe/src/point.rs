//! The points at which an order is stamped and the spans between them.
//!
//! This is the only definition of the stamps' meaning. A record carries a point's code, so codes
//! are never reused or renumbered: capture files outlive a version.
//!
//! INVARIANT: the nine segments follow one another without gap or overlap, from `Ingress` to
//! `Egress`; their durations therefore add up to the server's latency exactly (see `trace`).

/// A place on an order's path at which it is stamped, in the order of passing.
///
/// In a single process the same points are at the hand-offs between threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Point {
    /// The order's first byte was read from the client's socket.
    Ingress = 0,
    /// The gateway hands the order to its partition.
    T0 = 1,
    /// The order arrives at the partition's host.
    T1 = 2,
    /// The order reaches the sequencer.
    T2 = 3,
    /// The order is sequenced and committed at the log's durability.
    T3 = 4,
    /// The engine takes the order.
    T4 = 5,
    /// The order is matched: the engine has decided its outcome.
    T5 = 6,
    /// The answer leaves the partition's host.
    T6 = 7,
    /// The answer is back at the gateway.
    T7 = 8,
    /// The answer's last byte was written to the client's socket.
    Egress = 9,
}

impl Point {
    /// The number of points.
    pub const COUNT: usize = 10;

    /// All points, in the order in which an order passes them.
    pub const ALL: [Point; Point::COUNT] = [
        Point::Ingress,
        Point::T0,
        Point::T1,
        Point::T2,
        Point::T3,
        Point::T4,
        Point::T5,
        Point::T6,
        Point::T7,
        Point::Egress,
    ];

    /// Returns the code in a record, 0 to 9.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the point with this code, or `None` for an unassigned code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Point> {
        Point::ALL.get(usize::from(code)).copied()
    }

    /// Returns the index in arrays of [`Point::COUNT`] elements.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A set of points, such as those that one host stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PointSet(u16);

impl PointSet {
    /// No point.
    pub const EMPTY: PointSet = PointSet(0);
    /// All points: gateway and partition share a host.
    pub const ALL: PointSet = PointSet((1 << Point::COUNT) - 1);
    /// The points of a gateway's host when its partitions are on other hosts.
    pub const GATEWAY: PointSet =
        PointSet::EMPTY.with(Point::Ingress).with(Point::T0).with(Point::T7).with(Point::Egress);
    /// The points of a partition's host when its gateways are on other hosts.
    pub const PARTITION: PointSet = PointSet(PointSet::ALL.0 & !PointSet::GATEWAY.0);

    /// Returns the set with one more point.
    #[must_use]
    pub const fn with(self, point: Point) -> PointSet {
        PointSet(self.0 | (1 << point as u16))
    }

    /// Returns true if the point is in the set.
    #[must_use]
    pub const fn has(self, point: Point) -> bool {
        self.0 & (1 << point as u16) != 0
    }

    /// Returns the points that are in both sets.
    #[must_use]
    pub const fn and(self, other: PointSet) -> PointSet {
        PointSet(self.0 & other.0)
    }

    /// Returns true if every point of `other` is in this set.
    #[must_use]
    pub const fn covers(self, other: PointSet) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A measured span of an order's path.
///
/// The first nine are the successive segments; the last two are latencies over several segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Measure {
    /// Ingress to t0: decoding, checking and routing at the gateway.
    In = 0,
    /// t0 to t1: the network to the partition.
    T1 = 1,
    /// t1 to t2: the hand-off to the sequencer.
    T2 = 2,
    /// t2 to t3: sequencing, replication, commit.
    T3 = 3,
    /// t3 to t4: the queue before the engine.
    T4 = 4,
    /// t4 to t5: the match.
    T5 = 5,
    /// t5 to t6: the hand-off of the answer.
    T6 = 6,
    /// t6 to t7: the network back to the gateway.
    T7 = 7,
    /// t7 to egress: encoding and writing at the gateway.
    Out = 8,
    /// t0 to t7, door to door.
    DoorToDoor = 9,
    /// Ingress to egress: the part of the client's end-to-end latency that the server can see.
    Server = 10,
}

impl Measure {
    /// The number of measures.
    pub const COUNT: usize = 11;
    /// The number of segments among them; they come first in [`Measure::ALL`].
    pub const SEGMENT_COUNT: usize = 9;
    /// The matcher's latency, t4 to t5: both a segment and a named latency.
    pub const MATCHER: Measure = Measure::T5;

    /// All measures: the segments in order, then the latencies.
    pub const ALL: [Measure; Measure::COUNT] = [
        Measure::In,
        Measure::T1,
        Measure::T2,
        Measure::T3,
        Measure::T4,
        Measure::T5,
        Measure::T6,
        Measure::T7,
        Measure::Out,
        Measure::DoorToDoor,
        Measure::Server,
    ];

    /// Returns the nine segments in order; together they make up [`Measure::Server`].
    #[must_use]
    pub fn segments() -> &'static [Measure] {
        &Measure::ALL[..Measure::SEGMENT_COUNT]
    }

    /// Returns the first and the last point of the span.
    #[must_use]
    pub const fn ends(self) -> (Point, Point) {
        match self {
            Measure::DoorToDoor => (Point::T0, Point::T7),
            Measure::Server => (Point::Ingress, Point::Egress),
            segment => (Point::ALL[segment as usize], Point::ALL[segment as usize + 1]),
        }
    }

    /// Returns the name in metrics, reports and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Measure::In => "in",
            Measure::T1 => "t1",
            Measure::T2 => "t2",
            Measure::T3 => "t3",
            Measure::T4 => "t4",
            Measure::T5 => "t5",
            Measure::T6 => "t6",
            Measure::T7 => "t7",
            Measure::Out => "out",
            Measure::DoorToDoor => "door_to_door",
            Measure::Server => "server",
        }
    }

    /// Returns the index in arrays of [`Measure::COUNT`] elements.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_code_names_its_point_and_no_other_code_names_one() {
        for (index, point) in Point::ALL.into_iter().enumerate() {
            assert_eq!(point.index(), index);
            assert_eq!(Point::from_code(point.code()), Some(point));
        }
        for code in Point::COUNT as u8..=u8::MAX {
            assert_eq!(Point::from_code(code), None, "code {code}");
        }
    }

    #[test]
    fn segments_follow_one_another_from_ingress_to_egress() {
        let mut at = Point::Ingress;
        for segment in Measure::segments() {
            let (start, end) = segment.ends();
            assert_eq!(start, at, "{}", segment.name());
            at = end;
        }
        assert_eq!(at, Point::Egress);
        assert_eq!(Measure::Server.ends(), (Point::Ingress, at));
        assert_eq!(Measure::DoorToDoor.ends(), (Measure::T1.ends().0, Measure::T7.ends().1));
        assert_eq!(Measure::MATCHER.ends(), (Point::T4, Point::T5));
    }

    #[test]
    fn two_hosts_together_see_every_point_once() {
        for point in Point::ALL {
            assert!(PointSet::GATEWAY.has(point) != PointSet::PARTITION.has(point), "{point:?}");
        }
        assert!(PointSet::ALL.covers(PointSet::GATEWAY));
        assert!(!PointSet::GATEWAY.covers(PointSet::ALL));
        assert!(PointSet::GATEWAY.covers(PointSet::EMPTY));
    }
}
