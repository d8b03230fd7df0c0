//! The ring: what changed, in order, with each record at its latest place only.
//!
//! Places only grow, so a ring is appended to and needs no tree. A record's change kills its old
//! entry and appends a new one: O(1). A dead entry holds the distance to a later one, and walks
//! shorten these distances, so that a page costs its rows and not the changes that it jumps over.
//! Dead entries are swept a few per append, in place:
//!
//! ```text
//! 0 .. write   swept: in order, live unless killed since
//! write .. read   the gap: nothing
//! read .. len   not swept yet: in order, all later than what is swept
//! ```
//! INVARIANT: a distance in the swept part never leads past `write`, because the sweep may put a
//! live entry there next.

use weir_types::{Rec, Seq};

use crate::chunk::Chunked;

/// A place in a source's history: the pair that only grows. The default is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The change's number.
    pub seq: Seq,
    /// The record's number.
    pub rec: Rec,
}

impl Place {
    /// Before the first change: what a reader without a token has seen.
    pub const START: Place = Place { seq: Seq(0), rec: Rec(0) };

    /// The place of `rec`'s change `seq`.
    #[must_use]
    pub const fn new(seq: Seq, rec: Rec) -> Place {
        Place { seq, rec }
    }
}

/// Dead entries beyond the number of live ones at which a sweep begins.
const DEAD_SLACK: u32 = 8;
/// Entries looked at per append while a sweep runs. A sweep must end before the entries appended
/// meanwhile call for the next one: two would do, four keeps the ring short.
const SWEEP_STEPS: u32 = 4;

/// A change in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) slot: u32,
    /// Zero while live; else how far ahead to look for the next live entry.
    skip: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Ring {
    entries: Chunked<Entry>,
    write: u32,
    read: u32,
    live_count: u32,
    is_sweeping: bool,
    newest: Place,
    /// The latest place that was removed for good: who has seen less may have missed it.
    floor: Place,
}

impl Ring {
    pub(crate) fn new(floor: Place) -> Ring {
        Ring {
            entries: Chunked::new(),
            write: 0,
            read: 0,
            live_count: 0,
            is_sweeping: false,
            newest: Place::START,
            floor,
        }
    }

    pub(crate) fn newest(&self) -> Place {
        self.newest
    }

    pub(crate) fn floor(&self) -> Place {
        self.floor
    }

    pub(crate) fn raise_floor(&mut self, to: Place) {
        self.floor = self.floor.max(to);
    }

    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    /// Appends a change and returns its position. Two entries may share a place: a record and the
    /// mark of what it was before.
    #[inline]
    pub(crate) fn append(&mut self, place: Place, slot: u32) -> u32 {
        assert!(place >= self.newest, "{place:?} after {:?}: places never fall", self.newest);
        self.newest = place;
        self.live_count += 1;
        self.entries.push(Entry { place, slot, skip: 0 })
    }

    /// Marks the entry at `position` dead: its record has a later place, or none any more.
    #[inline]
    pub(crate) fn kill(&mut self, position: u32) {
        let entry = self.entries.get_mut(position);
        assert!(entry.skip == 0, "the entry at {position} is dead already");
        entry.skip = 1;
        self.live_count -= 1;
        if self.live_count == 0 {
            self.entries.truncate(0);
            (self.write, self.read, self.is_sweeping) = (0, 0, false);
        }
    }

    fn dead_count(&self) -> u32 {
        self.entries.len() - (self.read - self.write) - self.live_count
    }

    /// Sweeps a few entries if there is something to sweep; `moved` hears the new position of each
    /// slot whose entry moved.
    #[inline]
    pub(crate) fn sweep(&mut self, mut moved: impl FnMut(u32, u32)) {
        if !self.is_sweeping {
            if self.dead_count() <= self.live_count + DEAD_SLACK {
                return;
            }
            (self.write, self.read, self.is_sweeping) = (0, 0, true);
        }
        for _ in 0..SWEEP_STEPS {
            if self.read == self.entries.len() {
                self.entries.truncate(self.write);
                (self.write, self.read, self.is_sweeping) = (0, 0, false);
                return;
            }
            let entry = *self.entries.get(self.read);
            if entry.skip > 0 {
                self.read = (self.read + entry.skip).min(self.entries.len());
                continue;
            }
            if self.write < self.read {
                *self.entries.get_mut(self.write) = entry;
                moved(entry.slot, self.write);
            }
            self.write += 1;
            self.read += 1;
        }
    }

    /// The position of the first entry, live or dead, later than `place`.
    pub(crate) fn position_after(&self, place: Place) -> u32 {
        if place >= self.newest {
            return self.entries.len();
        }
        // The swept part and the rest are each in order, and the first is before the second.
        if self.write > 0 && self.entries.get(self.write - 1).place > place {
            return self.partition_point(0, self.write, place);
        }
        self.partition_point(self.read, self.entries.len(), place)
    }

    fn partition_point(&self, mut low: u32, mut high: u32, place: Place) -> u32 {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entries.get(middle).place > place {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The first live entry at or after `position`, and its position.
    #[inline]
    pub(crate) fn next_live(&mut self, position: u32) -> Option<(u32, Entry)> {
        let mut from = position;
        if from < self.write {
            from = self.walk(from, self.write);
            if from < self.write {
                return Some((from, *self.entries.get(from)));
            }
        }
        let end = self.entries.len();
        let found = self.walk(from.max(self.read), end);
        (found < end).then(|| (found, *self.entries.get(found)))
    }

    /// Follows distances from `start` to a live entry or to `end`, and shortens those on the way.
    fn walk(&mut self, start: u32, end: u32) -> u32 {
        let mut found = start;
        while found < end {
            match self.entries.get(found).skip {
                0 => break,
                skip => found = (found + skip).min(end),
            }
        }
        let mut at = start;
        while at < found {
            let entry = self.entries.get_mut(at);
            let next = at + entry.skip;
            entry.skip = found - at;
            at = next;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(seq: u64) -> Place {
        Place::new(Seq(seq), Rec(1))
    }

    /// A ring and the position of each slot's entry.
    struct Bench {
        ring: Ring,
        positions: Vec<u32>,
        seq: u64,
    }

    impl Bench {
        fn of(slots: u32) -> Bench {
            let mut bench = Bench { ring: Ring::new(Place::START), positions: Vec::new(), seq: 0 };
            for slot in 0..slots {
                bench.seq += 1;
                bench.positions.push(bench.ring.append(place(bench.seq), slot));
            }
            bench
        }

        fn touch(&mut self, slot: u32) {
            self.seq += 1;
            self.ring.kill(self.positions[slot as usize]);
            self.positions[slot as usize] = self.ring.append(place(self.seq), slot);
            let positions = &mut self.positions;
            self.ring.sweep(|slot, position| positions[slot as usize] = position);
        }

        fn walk_from(&mut self, after: Place) -> Vec<(u64, u32)> {
            let mut seen = Vec::new();
            let mut position = self.ring.position_after(after);
            while let Some((at, entry)) = self.ring.next_live(position) {
                seen.push((entry.place.seq.0, entry.slot));
                position = at + 1;
            }
            seen
        }
    }

    #[test]
    fn a_walk_sees_each_slot_once_at_its_latest_place_in_order() {
        let mut bench = Bench::of(50);
        let mut latest: Vec<u64> = (1..=50).collect();
        let mut random = 12_345u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = (random >> 33) as u32 % 50;
            bench.touch(slot);
            latest[slot as usize] = bench.seq;
            if random >> 60 == 0 {
                let after = bench.seq.saturating_sub((random >> 20) % 70);
                let mut want: Vec<(u64, u32)> = latest.iter().copied().zip(0..).collect();
                want.retain(|(seq, _)| *seq > after);
                want.sort_unstable();
                assert_eq!(bench.walk_from(Place::new(Seq(after), Rec(u64::MAX))), want);
            }
        }
    }

    #[test]
    fn a_ring_stays_short_however_often_its_records_change() {
        let mut bench = Bench::of(1_000);
        for turn in 0..200_000u32 {
            bench.touch(turn.wrapping_mul(7_919) % 1_000);
            assert!(bench.ring.entries.len() < 4_000, "{} entries", bench.ring.entries.len());
        }
    }

    #[test]
    fn one_hot_record_leaves_no_trail_that_a_walk_must_follow() {
        let mut bench = Bench::of(100);
        for _ in 0..80 {
            bench.touch(50);
        }
        assert_eq!(bench.walk_from(place(49)).first(), Some(&(50, 49)));
        let position = bench.ring.position_after(place(100));
        let (found, _) = bench.ring.next_live(position).unwrap();
        assert_eq!(bench.ring.entries.get(position).skip, found - position);
    }

    #[test]
    fn a_ring_that_lost_all_entries_starts_anew() {
        let mut bench = Bench::of(3);
        for slot in 0..3 {
            bench.ring.kill(bench.positions[slot]);
        }
        assert_eq!(bench.ring.live_count(), 0);
        assert_eq!(bench.walk_from(Place::START), []);
        assert_eq!(bench.ring.append(place(9), 7), 0);
        assert_eq!(bench.walk_from(place(8)), [(9, 7)]);
    }
}
