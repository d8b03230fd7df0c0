//! The ring: a list of changes in order, with each record at its latest change only.
//!
//! Change ids only grow, so a ring is appended to and needs no tree. A record's change clears the
//! bit of its old entry and appends a new one: O(1). Dead entries keep their place, so that a
//! cursor is found by bisection; a walk passes any number of them in a few words of the bitmap, so
//! a page costs its rows and not the changes that it skips. A sweep removes dead entries in place,
//! a few steps per append:
//!
//! ```text
//! 0 .. write   swept: in order, live unless killed since
//! write .. read   the gap: nothing
//! read .. len   not swept yet: in order, all later than what is swept
//! ```
//! INVARIANT: no position in the gap has a bit.

use weir_types::ChangeId;

use crate::bits::Bits;
use crate::chunk::ChunkedArray;

/// Dead entries per live one at which a sweep begins. A sweep moves all live entries, with a memory
/// access for each: longer rings need fewer sweeps.
const DEAD_PER_LIVE: u32 = 2;
/// Dead entries allowed beyond those.
const DEAD_SLACK: u32 = 8;
/// Live entries moved per append while a sweep runs. A sweep must end before the entries appended
/// meanwhile call for the next one: two would be enough, four keeps the ring shorter.
pub(crate) const SWEEP_STEPS: u32 = 4;

/// A change in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) change_id: ChangeId,
    pub(crate) slot: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Ring {
    entries: ChunkedArray<Entry>,
    live: Bits,
    write: u32,
    read: u32,
    live_count: u32,
    is_sweeping: bool,
    newest: ChangeId,
    /// The latest change id that was removed for good: a reader at an earlier one may have missed
    /// it.
    floor: ChangeId,
    /// The sum of the hashes of the live orders in it, modulo 2^64.
    digest: u64,
}

impl Ring {
    pub(crate) fn new(floor: ChangeId) -> Ring {
        Ring {
            entries: ChunkedArray::new(),
            live: Bits::default(),
            write: 0,
            read: 0,
            live_count: 0,
            is_sweeping: false,
            newest: ChangeId::START,
            floor,
            digest: 0,
        }
    }

    pub(crate) fn newest(&self) -> ChangeId {
        self.newest
    }

    pub(crate) fn floor(&self) -> ChangeId {
        self.floor
    }

    pub(crate) fn raise_floor(&mut self, to: ChangeId) {
        self.floor = self.floor.max(to);
    }

    pub(crate) fn set_floor(&mut self, to: ChangeId) {
        self.floor = to;
    }

    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Subtracts `out` from the digest and adds `into`.
    #[inline]
    pub(crate) fn rehash(&mut self, out: u64, into: u64) {
        self.digest = self.digest.wrapping_sub(out).wrapping_add(into);
    }

    /// Appends a change and returns its position. Two entries may share a place: a record and the
    /// mark of its former keys.
    #[inline]
    pub(crate) fn append(&mut self, change_id: ChangeId, slot: u32) -> u32 {
        assert!(
            change_id >= self.newest,
            "{change_id:?} after {:?}: change ids never fall",
            self.newest
        );
        self.newest = change_id;
        self.live_count += 1;
        let position = self.entries.push(Entry { change_id, slot });
        self.live.set(position);
        position
    }

    /// Marks the entry at `position` dead: its record has a later place, or was removed.
    #[inline]
    pub(crate) fn kill(&mut self, position: u32) {
        assert!(self.live.clear(position), "the entry at {position} is dead already");
        self.live_count -= 1;
        if self.live_count == 0 {
            self.entries.truncate(0);
            (self.write, self.read, self.is_sweeping) = (0, 0, false);
        }
    }

    fn dead_count(&self) -> u32 {
        self.entries.len() - (self.read - self.write) - self.live_count
    }

    /// True when a sweep is due: there are two dead entries per live one, or one per four when
    /// memory `is_short`.
    #[inline]
    pub(crate) fn is_due(&self, is_short: bool) -> bool {
        let live = self.live_count;
        let dead = if is_short { live / 4 } else { live.saturating_mul(DEAD_PER_LIVE) };
        self.is_sweeping || self.dead_count() > dead.saturating_add(DEAD_SLACK)
    }

    /// Frees a chunk that is no longer needed; false if there is none.
    #[inline]
    pub(crate) fn trim(&mut self) -> bool {
        self.entries.trim()
    }

    /// Frees the first chunk of an empty ring; false if there is nothing to free.
    pub(crate) fn trim_empty(&mut self) -> bool {
        self.entries.trim_first()
    }

    /// Empties the ring for another key; the ring keeps its memory.
    pub(crate) fn reset(&mut self, floor: ChangeId) {
        assert!(self.live_count == 0 && self.digest == 0, "the ring is in use");
        (self.newest, self.floor) = (ChangeId::START, floor);
    }

    /// Sweeps a few entries and calls `moved` with each moved entry's slot and new position.
    /// Returns the number of steps, at most `steps_max`.
    #[inline]
    pub(crate) fn sweep(&mut self, steps_max: u32, mut moved: impl FnMut(u32, u32)) -> u32 {
        if !self.is_sweeping {
            (self.write, self.read, self.is_sweeping) = (0, 0, true);
        }
        for step in 0..steps_max {
            let Some(at) = self.live.next(self.read) else {
                self.entries.truncate(self.write);
                (self.write, self.read, self.is_sweeping) = (0, 0, false);
                return step + 1;
            };
            if self.write < at {
                let entry = *self.entries.get(at);
                *self.entries.get_mut(self.write) = entry;
                self.live.clear(at);
                self.live.set(self.write);
                moved(entry.slot, self.write);
            }
            self.write += 1;
            self.read = at + 1;
        }
        steps_max
    }

    /// Returns the position of the first entry, live or dead, later than `change_id`.
    pub(crate) fn position_after(&self, change_id: ChangeId) -> u32 {
        if change_id >= self.newest {
            return self.entries.len();
        }
        // The swept part and the rest are each in order, and the first comes before the second.
        if self.write > 0 && self.entries.get(self.write - 1).change_id > change_id {
            return self.partition_point(0, self.write, change_id);
        }
        self.partition_point(self.read, self.entries.len(), change_id)
    }

    fn partition_point(&self, mut low: u32, mut high: u32, change_id: ChangeId) -> u32 {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entries.get(middle).change_id > change_id {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Returns the first live entry at or after `position`, and its position.
    #[inline]
    pub(crate) fn next_live(&self, position: u32) -> Option<(u32, Entry)> {
        self.live.next(position).map(|at| (at, *self.entries.get(at)))
    }

    /// Fills `group` with the next live entries at or after `position`; returns their number and
    /// the number of words read.
    #[inline]
    pub(crate) fn live_from(&self, position: u32, group: &mut [(u32, Entry)]) -> (usize, u32) {
        let (mut count, mut steps, mut from) = (0, 0, position);
        while count < group.len() {
            let (found, looked_at) = self.live.next_word(from);
            steps += looked_at;
            let Some((first, mut word)) = found else { break };
            while word != 0 && count < group.len() {
                let at = first + word.trailing_zeros();
                group[count] = (at, *self.entries.get(at));
                word &= word - 1;
                (count, from) = (count + 1, at + 1);
            }
        }
        (count, steps)
    }

    /// True when appending `count` entries, at least one, allocates nothing.
    #[inline]
    pub(crate) fn has_room(&self, count: u32) -> bool {
        self.entries.has_room(count) && self.live.has_room(self.entries.len() + count - 1)
    }

    /// Touches the word of a position's bit and the last entry, after which the next one is
    /// appended.
    #[inline]
    pub(crate) fn look(&self, position: u32) -> u64 {
        let last = self.entries.len().checked_sub(1);
        let entry = last.map_or(0, |last| self.entries.get(last).slot);
        self.live.look(position) ^ u64::from(entry)
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.entries.reserved_bytes() + self.live.reserved_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::{Rec, Seq};

    fn change_id(seq: u64) -> ChangeId {
        ChangeId::new(Seq(seq), Rec(1))
    }

    /// A ring and the position of each slot's entry.
    struct Rig {
        ring: Ring,
        positions: Vec<u32>,
        seq: u64,
    }

    impl Rig {
        fn of(slots: u32) -> Rig {
            let mut rig = Rig { ring: Ring::new(ChangeId::START), positions: Vec::new(), seq: 0 };
            for slot in 0..slots {
                rig.seq += 1;
                rig.positions.push(rig.ring.append(change_id(rig.seq), slot));
            }
            rig
        }

        fn touch(&mut self, slot: u32) {
            self.seq += 1;
            self.ring.kill(self.positions[slot as usize]);
            self.positions[slot as usize] = self.ring.append(change_id(self.seq), slot);
            let positions = &mut self.positions;
            if self.ring.is_due(false) {
                self.ring.sweep(SWEEP_STEPS, |slot, at| positions[slot as usize] = at);
            }
        }

        fn walk_from(&mut self, after: ChangeId) -> Vec<(u64, u32)> {
            let mut seen = Vec::new();
            let mut position = self.ring.position_after(after);
            let mut group = [(0, Entry { change_id: ChangeId::START, slot: 0 }); 7];
            let (mut count, _) = self.ring.live_from(position, &mut group);
            let mut next = 0;
            while let Some((at, entry)) = self.ring.next_live(position) {
                assert_eq!((group[next].0, group[next].1.slot), (at, entry.slot), "of {count}");
                seen.push((entry.change_id.seq.0, entry.slot));
                (position, next) = (at + 1, next + 1);
                if next == count {
                    (count, _) = self.ring.live_from(position, &mut group);
                    next = 0;
                }
            }
            assert_eq!((next, count), (0, 0), "groups end where the entries do");
            seen
        }
    }

    #[test]
    fn a_walk_sees_each_slot_once_at_its_latest_place_in_order() {
        let mut rig = Rig::of(50);
        let mut latest: Vec<u64> = (1..=50).collect();
        let mut random = 12_345u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = (random >> 33) as u32 % 50;
            rig.touch(slot);
            latest[slot as usize] = rig.seq;
            if random >> 60 == 0 {
                let after = rig.seq.saturating_sub((random >> 20) % 70);
                let mut want: Vec<(u64, u32)> = latest.iter().copied().zip(0..).collect();
                want.retain(|(seq, _)| *seq > after);
                want.sort_unstable();
                assert_eq!(rig.walk_from(ChangeId::new(Seq(after), Rec(u64::MAX))), want);
            }
        }
    }

    #[test]
    fn a_ring_stays_short_however_often_its_records_change() {
        let mut rig = Rig::of(1_000);
        for turn in 0..200_000u32 {
            rig.touch(turn.wrapping_mul(7_919) % 1_000);
            assert!(rig.ring.entries.len() < 4_000, "{} entries", rig.ring.entries.len());
        }
    }

    #[test]
    fn a_run_of_a_million_dead_entries_costs_a_walk_a_few_words() {
        let mut rig = Rig::of(1_000_002);
        for slot in 1..=1_000_000 {
            rig.ring.kill(rig.positions[slot]);
        }
        for after in [1, 2, 500_000, 1_000_000] {
            let mut group = [(0, Entry { change_id: ChangeId::START, slot: 0 }); 2];
            let (count, steps) =
                rig.ring.live_from(rig.ring.position_after(change_id(after)), &mut group);
            assert_eq!((count, group[0].0), (1, 1_000_001));
            assert!(steps <= 24, "{steps} words after {after}");
        }
    }

    #[test]
    fn a_sweep_is_as_long_as_it_was_told_and_then_leaves_chunks_to_give_back() {
        let mut rig = Rig::of(1_000_000);
        (10..1_000_000).for_each(|slot| rig.ring.kill(rig.positions[slot]));
        let full = rig.ring.reserved_bytes();
        let mut steps = Vec::new();
        while rig.ring.is_due(false) {
            steps.push(rig.ring.sweep(4, |_, _| {}));
        }
        assert_eq!(rig.ring.entries.len(), 10);
        assert!(steps.iter().all(|steps| *steps <= 4), "{steps:?}");
        assert_eq!(rig.ring.reserved_bytes(), full, "a sweep frees nothing by itself");
        while rig.ring.trim() {}
        assert!(rig.ring.reserved_bytes() < full / 50, "the memory is given back");
        assert_eq!(rig.walk_from(ChangeId::START).len(), 10);
    }

    #[test]
    fn a_ring_that_lost_all_entries_starts_anew() {
        let mut rig = Rig::of(3);
        for slot in 0..3 {
            rig.ring.kill(rig.positions[slot]);
        }
        assert_eq!(rig.ring.live_count(), 0);
        assert_eq!(rig.walk_from(ChangeId::START), []);
        assert_eq!(rig.ring.append(change_id(9), 7), 0, "from the first position");
        assert_eq!(rig.walk_from(change_id(8)), [(9, 7)]);
    }
}
