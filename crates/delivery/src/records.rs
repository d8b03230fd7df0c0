//! The directory from record number to slot: chunks by record number, each freed when its last
//! record is removed.
//!
//! Record numbers are nearly dense and in order, so a look-up is two loads, and neither growth nor
//! removal moves an entry. Both are bounded: a new number may be only so far above the highest so
//! far, and empty chunks at the low end are removed a few at a time.
//!
//! ```text
//! far                       the window, up to WINDOW_MAX chunks
//! a map of chunks: the few  a chunk for each number or none, the highest
//! old records               number last
//! ```
//! The window moves up with the highest number and pushes the chunks below it into the map. Its
//! length bounds the memory of holes between numbers, however far a source spreads them.
//!
//! INVARIANT: all chunks of the map are below the window, and none of them is empty.

use std::collections::{BTreeMap, VecDeque};

use weir_types::Rec;

const CHUNK_BITS: u32 = 12;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const NO_SLOT: u32 = u32::MAX;
/// The greatest distance of a record number above the highest so far: limits the work that one
/// event can cause.
pub(crate) const REC_JUMP_MAX: u64 = 1 << 25;
/// The most chunks of the window: twice the greatest jump, and 128 KiB.
const WINDOW_MAX: u64 = (REC_JUMP_MAX >> CHUNK_BITS) * 2;
/// The approximate cost of a chunk in the map besides the chunk: its part of a node.
const FAR_SIZE: usize = 32;
/// The approximate cost of a chunk.
pub(crate) const CHUNK_SIZE: u64 = (size_of::<Chunk>() + FAR_SIZE) as u64;
/// Empty chunks that one removal removes at most.
const FORGET_STEPS: usize = 8;

#[derive(Clone, Debug)]
struct Chunk {
    slots: [u32; CHUNK_LEN],
    used_count: u32,
}

impl Chunk {
    fn new() -> Box<Chunk> {
        Box::new(Chunk { slots: [NO_SLOT; CHUNK_LEN], used_count: 0 })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// The window.
    chunks: VecDeque<Option<Box<Chunk>>>,
    /// The number of the first chunk in the window.
    base: u64,
    /// The chunks below the window.
    far: BTreeMap<u64, Box<Chunk>>,
    /// The highest record number so far, of a record that is kept or of one that was.
    highest: Rec,
    /// The highest number of a record that is not kept any longer.
    highest_removed: Rec,
    held_count: u64,
}

impl Records {
    #[inline]
    fn chunk_index(&self, rec: Rec) -> Option<usize> {
        usize::try_from((rec.0 >> CHUNK_BITS).checked_sub(self.base)?).ok()
    }

    #[inline]
    fn offset(rec: Rec) -> usize {
        (rec.0 as usize) & (CHUNK_LEN - 1)
    }

    #[inline]
    fn chunk(&self, rec: Rec) -> Option<&Chunk> {
        match self.chunk_index(rec) {
            Some(index) => self.chunks.get(index)?.as_deref(),
            None => self.far.get(&(rec.0 >> CHUNK_BITS)).map(Box::as_ref),
        }
    }

    #[inline]
    pub(crate) fn get(&self, rec: Rec) -> Option<u32> {
        let slot = self.chunk(rec)?.slots[Self::offset(rec)];
        (slot != NO_SLOT).then_some(slot)
    }

    /// Returns the highest record number so far; zero before the first.
    pub(crate) fn highest(&self) -> Rec {
        self.highest
    }

    /// Returns the first record at or after `rec`, and its slot.
    pub(crate) fn next_from(&self, rec: Rec) -> Option<(Rec, u32)> {
        let first_in = |number: u64, chunk: &Chunk, offset: usize| {
            let at = chunk.slots[offset..].iter().position(|slot| *slot != NO_SLOT)? + offset;
            Some((Rec((number << CHUNK_BITS) + at as u64), chunk.slots[at]))
        };
        let (from, offset) = (rec.0 >> CHUNK_BITS, Self::offset(rec));
        let offset_in = |number: u64| if number == from { offset } else { 0 };
        let mut far = self.far.range(from..);
        if let Some(found) =
            far.find_map(|(number, chunk)| first_in(*number, chunk, offset_in(*number)))
        {
            return Some(found);
        }
        let first = from.saturating_sub(self.base).min(self.chunks.len() as u64);
        let window = self.chunks.range(first as usize..);
        (self.base + first..)
            .zip(window)
            .find_map(|(number, chunk)| first_in(number, chunk.as_deref()?, offset_in(number)))
    }

    /// True when `rec` is at most about [`REC_JUMP_MAX`] above the highest number so far.
    pub(crate) fn can_hold(&self, rec: Rec) -> bool {
        self.can_hold_after(rec, self.highest)
    }

    /// As [`Records::can_hold`], after numbers up to `highest` that are still to be inserted.
    pub(crate) fn can_hold_after(&self, rec: Rec, highest: Rec) -> bool {
        let highest = self.highest.max(highest);
        let end = (highest.0 >> CHUNK_BITS) + 1;
        highest.is_none() || rec.0 >> CHUNK_BITS <= end + (REC_JUMP_MAX >> CHUNK_BITS)
    }

    /// Records that numbers up to `rec` were given to records that are not kept: the next one is
    /// not far ahead.
    pub(crate) fn reach(&mut self, rec: Rec) {
        self.highest = self.highest.max(rec);
    }

    /// Records that any number up to `rec` may be that of a record that is not kept any longer.
    pub(crate) fn gave_up_to(&mut self, rec: Rec) {
        self.highest_removed = self.highest_removed.max(rec);
    }

    /// True when a record with this number may have been removed.
    pub(crate) fn may_have_had(&self, rec: Rec) -> bool {
        rec <= self.highest_removed
    }

    /// Returns the number of the chunk that inserting `rec` allocates; `None` if it allocates
    /// nothing.
    pub(crate) fn new_chunk(&self, rec: Rec) -> Option<u64> {
        (!self.has_room(rec)).then_some(rec.0 >> CHUNK_BITS)
    }

    /// True when inserting `rec` allocates nothing.
    pub(crate) fn has_room(&self, rec: Rec) -> bool {
        self.chunk(rec).is_some()
    }

    pub(crate) fn insert(&mut self, rec: Rec, slot: u32) {
        let number = rec.0 >> CHUNK_BITS;
        self.move_window(number);
        let place = match self.chunk_index(rec) {
            Some(index) => self.chunks[index].get_or_insert_with(|| {
                self.held_count += 1;
                Chunk::new()
            }),
            None => self.far.entry(number).or_insert_with(|| {
                self.held_count += 1;
                Chunk::new()
            }),
        };
        let at = &mut place.slots[Self::offset(rec)];
        assert!(*at == NO_SLOT, "record {rec} has a slot already");
        *at = slot;
        place.used_count += 1;
        self.highest = self.highest.max(rec);
    }

    /// Extends the window to a chunk, unless the chunk is too far below.
    fn move_window(&mut self, number: u64) {
        if self.chunks.is_empty() {
            self.base = number;
        }
        let end = self.base + self.chunks.len() as u64;
        if number < self.base && end - number <= WINDOW_MAX {
            while number < self.base {
                self.base -= 1;
                let chunk = self.far.remove(&self.base);
                self.chunks.push_front(chunk);
            }
        }
        if number >= end + WINDOW_MAX {
            self.leave_window(number);
        }
        while self.base + (self.chunks.len() as u64) <= number {
            if self.chunks.len() as u64 == WINDOW_MAX {
                self.push_out();
            }
            self.chunks.push_back(None);
        }
    }

    /// Lets the window begin at a chunk that is further above it than the window is long.
    fn leave_window(&mut self, number: u64) {
        while !self.chunks.is_empty() {
            self.push_out();
        }
        self.base = number;
    }

    /// Moves the window's first chunk to the map, if it has one.
    fn push_out(&mut self) {
        if let Some(chunk) = self.chunks.pop_front().flatten() {
            self.far.insert(self.base, chunk);
        }
        self.base += 1;
    }

    /// Gives a record another slot.
    pub(crate) fn replace(&mut self, rec: Rec, slot: u32) {
        let place = &mut self.chunk_mut(rec).slots[Self::offset(rec)];
        assert!(*place != NO_SLOT, "record {rec} has no slot");
        *place = slot;
    }

    fn chunk_mut(&mut self, rec: Rec) -> &mut Chunk {
        let chunk = match self.chunk_index(rec) {
            Some(index) => self.chunks[index].as_mut(),
            None => self.far.get_mut(&(rec.0 >> CHUNK_BITS)),
        };
        chunk.expect("a record that is there has a chunk")
    }

    pub(crate) fn remove(&mut self, rec: Rec) {
        self.gave_up_to(rec);
        let chunk = self.chunk_mut(rec);
        let place = &mut chunk.slots[Self::offset(rec)];
        assert!(*place != NO_SLOT, "record {rec} has no slot");
        *place = NO_SLOT;
        chunk.used_count -= 1;
        if chunk.used_count > 0 {
            return;
        }
        self.held_count -= 1;
        let Some(index) = self.chunk_index(rec) else {
            self.far.remove(&(rec.0 >> CHUNK_BITS));
            return;
        };
        self.chunks[index] = None;
        for _ in 0..FORGET_STEPS {
            if self.chunks.len() == 1 || self.chunks[0].is_some() {
                return;
            }
            self.chunks.pop_front();
            self.base += 1;
        }
    }

    /// Bytes requested from the allocator.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let directory = self.chunks.capacity() * size_of::<Option<Box<Chunk>>>();
        let far = self.far.len() * FAR_SIZE;
        self.held_count * size_of::<Chunk>() as u64 + (directory + far) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_until_it_is_removed() {
        let mut records = Records::default();
        for rec in 1..20_000 {
            records.insert(Rec(rec), rec as u32);
        }
        assert!((1..20_000).all(|rec| records.get(Rec(rec)) == Some(rec as u32)));
        for rec in (1..20_000).filter(|rec| *rec != 9_000) {
            records.remove(Rec(rec));
        }
        assert_eq!(records.get(Rec(9_000)), Some(9_000));
        assert_eq!(records.get(Rec(1)), None);
        assert_eq!(records.get(Rec(u64::MAX)), None);
        assert!(records.chunks.len() <= 3, "chunks without records are gone");
        records.insert(Rec(5), 5);
        assert_eq!((records.get(Rec(5)), records.get(Rec(9_000))), (Some(5), Some(9_000)));
    }

    #[test]
    fn numbers_with_holes_between_them_are_forgotten_a_few_at_a_time() {
        let mut records = Records::default();
        let far = REC_JUMP_MAX;
        records.insert(Rec(1), 0);
        records.insert(Rec(far), 1);
        let directory = records.chunks.len();
        records.remove(Rec(1));
        assert_eq!(records.chunks.len(), directory - FORGET_STEPS, "no more than that at once");
        for rec in 1..=directory as u64 / 8 {
            records.insert(Rec(far + rec * 4_096), 2);
            records.remove(Rec(far + rec * 4_096));
        }
        assert_eq!(records.get(Rec(far)), Some(1));
        assert!(records.chunks.len() < directory, "{} chunks", records.chunks.len());
    }

    #[test]
    fn records_are_found_in_order_of_their_numbers() {
        let mut records = Records::default();
        let there = [3, 4_095, 4_096, 50_000, 50_001];
        for rec in there {
            records.insert(Rec(rec), rec as u32);
        }
        let (mut found, mut from) = (vec![], Rec(0));
        while let Some((rec, slot)) = records.next_from(from) {
            assert_eq!(u64::from(slot), rec.0);
            found.push(rec.0);
            from = Rec(rec.0 + 1);
        }
        assert_eq!(found, there);
        records.remove(Rec(3));
        records.remove(Rec(4_095));
        assert_eq!(records.next_from(Rec(0)), Some((Rec(4_096), 4_096)));
        assert_eq!(records.next_from(Rec(u64::MAX)), None);
        assert_eq!(Records::default().next_from(Rec(0)), None);
    }

    #[test]
    fn records_spread_over_all_numbers_need_no_memory_for_the_holes() {
        let mut records = Records::default();
        let spread: Vec<u64> = (0..2_000).map(|at| 1 + at * 2 * REC_JUMP_MAX).collect();
        // Upwards, as a source counts, and in the order of a snapshot's places.
        for turn in 0..2u64 {
            for at in 0..2_000u64 {
                let rec = spread[(at * (1 + turn * 6) % 2_000) as usize];
                records.insert(Rec(rec), at as u32);
                assert!(records.chunks.len() as u64 <= WINDOW_MAX);
            }
            assert_eq!(records.held_count, 2_000);
            let (mut found, mut from) = (vec![], Rec(0));
            while let Some((rec, slot)) = records.next_from(from) {
                assert_eq!(records.get(rec), Some(slot));
                found.push(rec.0);
                from = Rec(rec.0 + 1);
            }
            assert_eq!(found, spread);
            assert!(records.reserved_bytes() < 2_100 * size_of::<Chunk>() as u64);
            assert_eq!(records.highest(), Rec(spread[1_999]));
            spread.iter().for_each(|rec| records.remove(Rec(*rec)));
            assert_eq!((records.held_count, records.next_from(Rec(0))), (0, None));
        }
    }

    /// The same as a map, where the window moves up, and down again.
    #[test]
    fn a_directory_is_a_map_of_numbers() {
        let (mut records, mut map) = (Records::default(), BTreeMap::new());
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut high = 1;
        for step in 0..40_000u32 {
            high += if next(100) == 0 { next(REC_JUMP_MAX) } else { next(9_000) };
            let rec = match next(3) {
                0 => high,
                1 => high.saturating_sub(next(1 << 22)).max(1),
                _ => next(high) + 1,
            };
            if map.insert(rec, step).is_none() {
                records.insert(Rec(rec), step);
            } else {
                records.replace(Rec(rec), step);
            }
            if next(4) > 0 {
                let at = map.range(next(high)..).next().map(|(rec, slot)| (Rec(*rec), *slot));
                let from = at.map_or(Rec(high + 1), |(rec, _)| rec);
                assert_eq!(records.next_from(from), at);
                if let Some((rec, _)) = at {
                    records.remove(rec);
                    map.remove(&rec.0);
                }
            }
            assert_eq!(records.get(Rec(rec)), map.get(&rec).copied());
        }
        assert!(map.iter().all(|(rec, slot)| records.get(Rec(*rec)) == Some(*slot)));
    }

    #[test]
    fn a_record_number_far_ahead_is_refused() {
        let mut records = Records::default();
        records.insert(Rec(1), 0);
        assert!(records.can_hold(Rec(REC_JUMP_MAX)));
        assert!(!records.can_hold(Rec(1 << 40)));
        let far = Rec(3 * REC_JUMP_MAX);
        assert!(!records.can_hold(far));
        records.reach(far);
        assert!(records.can_hold(far) && records.get(far).is_none());
        records.insert(far, 7);
        assert_eq!((records.get(Rec(1)), records.get(far)), (Some(0), Some(7)));
    }
}
