//! The shadow's end of an archive: it asks for the segments that could go, and lets those go that
//! are stored.
//!
//! An archive that fails holds them, for nothing is to be lost. With a limit on the bytes that
//! wait, the oldest go without a copy once more wait, and the archive has a gap from then on.

use weir_log::{RetainedSegment, SegmentKind};
use weir_types::{Nanos, Position};

use super::ArchivePlaces;
use crate::plant::{self, Plant};
use crate::retention::{START_PAUSE, Surplus};

/// The shadow's end of an archive.
#[derive(Debug)]
pub struct ArchiveGate {
    places: ArchivePlaces,
    wait_bytes_max: Option<u64>,
    /// The time from which segments may go without a copy: a start gives the archive's thread some
    /// to find those that it has.
    may_give_up_at: Option<Nanos>,
    /// The positions before which segments went without a copy.
    given_up: [Position; 2],
}

/// The part of a log that an archive lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Segments that end before this position may go.
    pub upto: Position,
    /// The bytes that wait for the archive.
    pub waiting_bytes: u64,
    /// The bytes that go without a copy, and did not before.
    pub lost_bytes: u64,
}

impl ArchiveGate {
    /// Returns the gate of an archive. Without `wait_bytes_max` no segment goes that is not stored.
    #[must_use]
    pub fn new(places: ArchivePlaces, wait_bytes_max: Option<u64>) -> ArchiveGate {
        let given_up = [Position::NONE; 2];
        ArchiveGate { places, wait_bytes_max, may_give_up_at: None, given_up }
    }

    /// Asks for the segments of a log that may go by limits and readers, and returns the part of
    /// them that the archive lets go. `now` is the time of the monotonic clock.
    pub(crate) fn pass(&mut self, log: LogAtGate<'_>, now: Nanos) -> Passed {
        let LogAtGate { kind, segments, free } = log;
        let pause_ends = Nanos(now.0.saturating_add(START_PAUSE.0));
        let may_give_up = now >= *self.may_give_up_at.get_or_insert(pause_ends)
            || plant::is(Plant::ArchiveGivenUpAtOnce);
        self.places.want(kind, free.before);
        let stored = self.places.stored(kind);
        if plant::is(Plant::RemovedUnstored) || stored > free.before {
            return Passed { upto: free.before, waiting_bytes: 0, lost_bytes: 0 };
        }
        if stored == free.before {
            let upto = last_whole(segments, stored);
            return Passed { upto, waiting_bytes: 0, lost_bytes: 0 };
        }
        let waits = |segment: &RetainedSegment| {
            segment.first_position >= stored && segment.first_position < free.before
        };
        let waiting = segments.iter().filter(|segment| waits(segment));
        let mut passed = Passed {
            upto: last_whole(segments, stored),
            waiting_bytes: waiting.map(|segment| segment.bytes).sum(),
            lost_bytes: 0,
        };
        let Some(max) = self.wait_bytes_max.filter(|_| may_give_up) else { return passed };
        let given_up = &mut self.given_up[usize::from(kind == SegmentKind::Event)];
        for pair in segments.windows(2).filter(|pair| waits(&pair[0])) {
            if passed.waiting_bytes <= max {
                break;
            }
            passed.upto = pair[1].first_position;
            passed.waiting_bytes -= pair[0].bytes;
            if passed.upto > *given_up {
                *given_up = passed.upto;
                passed.lost_bytes += pair[0].bytes;
            }
        }
        passed
    }
}

/// A log at a look at the retention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogAtGate<'a> {
    pub(crate) kind: SegmentKind,
    pub(crate) segments: &'a [RetainedSegment],
    /// The part that may go by limits and readers.
    pub(crate) free: Surplus,
}

/// Returns the position up to which segments may go when the oldest one that is not stored begins
/// at `stored`. One that has only marks begins where the next one does; both stay then.
fn last_whole(segments: &[RetainedSegment], stored: Position) -> Position {
    let sharing = segments.iter().filter(|segment| segment.first_position == stored).count();
    if sharing > 1 && !plant::is(Plant::ArchiveMarksUncounted) {
        Position(stored.0 - 1)
    } else {
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_with_marks_alone_stays_until_the_archive_has_passed_it() {
        let segment = |first| RetainedSegment {
            first_position: Position(first),
            bytes: 100,
            log_time_before: Nanos(0),
        };
        // The second one has no entry, so that the third begins where it does.
        let segments = [1, 10, 10, 20].map(segment);
        let places = ArchivePlaces::default();
        let mut gate = ArchiveGate::new(places.clone(), None);
        let kind = SegmentKind::Command;
        let free = Surplus { before: Position(10), bytes: 0, held_bytes: 0 };
        let upto = |gate: &mut ArchiveGate| {
            gate.pass(LogAtGate { kind, segments: &segments, free }, Nanos(0)).upto
        };
        assert_eq!(upto(&mut gate), Position(0));
        places.tell_stored(kind, Position(10));
        assert_eq!(upto(&mut gate), Position(9), "nobody knows whether the second one is stored");
        places.tell_stored(kind, Position(20));
        assert_eq!(upto(&mut gate), Position(10));
    }

    #[test]
    fn nothing_is_given_up_before_the_archive_could_say_what_it_has() {
        let segment = |first| RetainedSegment {
            first_position: Position(first),
            bytes: 100,
            log_time_before: Nanos(0),
        };
        let segments = [1, 10, 20, 30].map(segment);
        let mut gate = ArchiveGate::new(ArchivePlaces::default(), Some(150));
        let kind = SegmentKind::Event;
        let free = Surplus { before: Position(30), bytes: 0, held_bytes: 0 };
        let mut pass = |at| gate.pass(LogAtGate { kind, segments: &segments, free }, Nanos(at));
        for at in [1, START_PAUSE.0] {
            let passed = Passed { upto: Position(0), waiting_bytes: 300, lost_bytes: 0 };
            assert_eq!(pass(at), passed, "at {at}");
        }
        let passed = Passed { upto: Position(20), waiting_bytes: 100, lost_bytes: 200 };
        assert_eq!(pass(1 + START_PAUSE.0), passed);
        assert_eq!(pass(2 + START_PAUSE.0), Passed { lost_bytes: 0, ..passed }, "counted once");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bugs_of_the_gate_are_found() {
        let tests: [(Plant, fn()); 2] = [
            (
                Plant::ArchiveMarksUncounted,
                a_segment_with_marks_alone_stays_until_the_archive_has_passed_it,
            ),
            (
                Plant::ArchiveGivenUpAtOnce,
                nothing_is_given_up_before_the_archive_could_say_what_it_has,
            ),
        ];
        for (plant, test) in tests {
            assert!(plant::is_found(plant, test), "{plant:?}");
        }
    }
}
