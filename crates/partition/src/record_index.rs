//! The records of a partition's event log that belong to one topic of copies.
//!
//! Records are added in ascending order. Each has an index, counted from the first record ever
//! added, so that a reader keeps one number and finds the next record without a search. The newest
//! records are retained, the oldest dropped in whole chunks; `floor` is the record from which on
//! the index is complete. Growth adds a chunk and never copies existing ones.
//!
//! INVARIANT: all chunks but the last are full, and the first begins at an index that is a multiple
//! of [`CHUNK_LEN`].

use std::collections::VecDeque;

use weir_types::state_bytes::{StateBytes, put_ascending, put_number};

/// The number of records of a chunk, the unit of allocation and of dropping.
pub(crate) const CHUNK_LEN: usize = 1024;

/// The ratio of the records retained by the topic of all to those of a firm's.
pub const ALL_FACTOR: usize = 4;

/// The retained records of one topic, by index.
#[derive(Debug)]
pub struct RecordIndex {
    chunks: VecDeque<Vec<u64>>,
    chunk_count_max: usize,
    first_place: u64,
    next_place: u64,
    /// The record from which on the index is complete.
    floor: u64,
    /// The newest record below the first retained one; zero for none.
    before_first: u64,
}

impl RecordIndex {
    /// Returns an index of a log whose first record is `floor`. It retains at least `retained`
    /// records and at most two chunks more.
    #[must_use]
    pub fn new(floor: u64, retained: usize) -> RecordIndex {
        RecordIndex {
            chunks: VecDeque::new(),
            chunk_count_max: retained.div_ceil(CHUNK_LEN) + 1,
            first_place: 0,
            next_place: 0,
            floor,
            before_first: 0,
        }
    }

    /// Adds a record; returns its index.
    ///
    /// # Panics
    /// When it is not above all added before: the event log contradicts itself.
    #[inline]
    pub fn push(&mut self, record: u64) -> u64 {
        assert!(record > self.newest() && record >= self.floor, "records of a log rise");
        self.add(record)
    }

    #[inline]
    fn add(&mut self, record: u64) -> u64 {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK_LEN => chunk.push(record),
            _ => self.begin_chunk(record),
        }
        self.next_place += 1;
        self.next_place - 1
    }

    fn begin_chunk(&mut self, record: u64) {
        let mut chunk =
            if self.chunks.len() == self.chunk_count_max { self.drop_oldest() } else { Vec::new() };
        chunk.push(record);
        self.chunks.push_back(chunk);
    }

    /// Drops the oldest chunk; returns its memory.
    fn drop_oldest(&mut self) -> Vec<u64> {
        let mut oldest = self.chunks.pop_front().expect("as many as there may be are there");
        self.before_first = *oldest.last().expect("a chunk that is not the last is full");
        self.floor = self.floor.max(self.before_first + 1);
        self.first_place += CHUNK_LEN as u64;
        oldest.clear();
        oldest
    }

    /// Appends the index's state.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        put_number(out, self.floor);
        put_number(out, self.before_first);
        let count = usize::try_from(self.next_place - self.first_place).expect("they are here");
        put_ascending(out, count, self.chunks.iter().flatten().copied());
    }

    /// Reads the state of an index of records before `next`, which retains as many as
    /// [`RecordIndex::new`] says; `None` when it is none. Places are counted anew.
    #[must_use]
    pub fn from_state(
        state: &mut StateBytes<'_>,
        retained: usize,
        next: u64,
    ) -> Option<RecordIndex> {
        let (floor, before_first) = (state.number()?, state.number()?);
        let mut index = RecordIndex { before_first, ..RecordIndex::new(floor, retained) };
        let mut ascends = before_first < next && floor <= next;
        state.ascending(|record| {
            ascends &= record > index.newest() && record < next;
            // Records below the floor stay until their chunk goes.
            if ascends {
                index.add(record);
            }
        })?;
        ascends.then_some(index)
    }

    /// Drops the records before `first`, as far as whole chunks can go, and is complete only from
    /// there on: the log has removed them.
    pub fn forget_before(&mut self, first: u64) {
        while self.chunks.len() > 1 && self.chunks[0][CHUNK_LEN - 1] < first {
            drop(self.drop_oldest());
        }
        self.floor = self.floor.max(first);
    }

    /// Returns the record at an index; `None` when it is no longer retained, or does not exist yet.
    #[must_use]
    pub fn get(&self, place: u64) -> Option<u64> {
        let at = usize::try_from(place.checked_sub(self.first_place)?).ok()?;
        self.chunks.get(at / CHUNK_LEN)?.get(at % CHUNK_LEN).copied()
    }

    /// Returns the index of the first record at or above `record`, or the next index when there is
    /// none.
    #[must_use]
    pub fn place_from(&self, record: u64) -> u64 {
        let chunk_no = self.chunks.partition_point(|chunk| chunk[chunk.len() - 1] < record);
        let within = self.chunks.get(chunk_no);
        let within = within.map_or(0, |chunk| chunk.partition_point(|noted| *noted < record));
        let place = self.first_place + (chunk_no * CHUNK_LEN + within) as u64;
        place.min(self.next_place)
    }

    /// Returns the record before the one at `place`; zero for none. `place` must be retained, or
    /// the next one.
    #[must_use]
    pub fn before(&self, place: u64) -> u64 {
        match place.checked_sub(1).and_then(|place| self.get(place)) {
            Some(record) => record,
            None => self.before_first,
        }
    }

    /// Returns the newest record; zero for none.
    #[must_use]
    pub fn newest(&self) -> u64 {
        match self.chunks.back() {
            Some(chunk) => chunk[chunk.len() - 1],
            None => self.before_first,
        }
    }

    /// Returns the index of the next record to be added.
    #[must_use]
    pub fn next_place(&self) -> u64 {
        self.next_place
    }

    /// Returns the lowest record from which on the index is complete.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compares with a list of all records ever added. The index itself decides how many of them it
    /// retains.
    fn check(index: &RecordIndex, all: &[u64], log_begins_at: u64, retained: usize) {
        let kept = (0..all.len() as u64).filter(|place| index.get(*place).is_some()).count();
        assert!(kept >= all.len().min(retained) && kept <= retained + 2 * CHUNK_LEN);
        let dropped = all.len() - kept;
        for (place, record) in all.iter().enumerate() {
            let want = (place >= dropped).then_some(*record);
            assert_eq!(index.get(place as u64), want, "place {place} of {}", all.len());
        }
        assert_eq!(index.next_place(), all.len() as u64);
        assert_eq!(index.newest(), all.last().copied().unwrap_or(0));
        assert_eq!(index.floor(), dropped.checked_sub(1).map_or(log_begins_at, |at| all[at] + 1));
        for place in dropped..=all.len() {
            let want = place.checked_sub(1).map_or(0, |before| all[before]);
            assert_eq!(index.before(place as u64), want, "before place {place}");
        }
        let to_look_for = all[dropped..].iter().flat_map(|record| [*record, record + 1]);
        for record in to_look_for.chain([index.floor(), u64::MAX]) {
            let want = all.partition_point(|noted| *noted < record);
            assert_eq!(index.place_from(record), want as u64, "from {record}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn an_index_is_what_a_list_of_all_records_says(
            begins_at in 1_u64..1_000,
            retained in 1_usize..3_000,
            steps in prop::collection::vec(1_u64..5, 0..8_000),
            looks in 1_usize..4,
        ) {
            let mut index = RecordIndex::new(begins_at, retained);
            let (mut all, mut record) = (Vec::new(), begins_at - 1);
            let look_every = steps.len() / looks + 1;
            check(&index, &all, begins_at, retained);
            for (at, step) in steps.into_iter().enumerate() {
                record += step;
                assert_eq!(index.push(record), all.len() as u64);
                all.push(record);
                if at % look_every == look_every - 1 {
                    check(&index, &all, begins_at, retained);
                }
            }
            check(&index, &all, begins_at, retained);
        }
    }

    #[test]
    fn what_is_retained_is_there_at_the_edges_of_chunks() {
        for retained in [1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1] {
            let mut index = RecordIndex::new(7, retained);
            let mut all = Vec::new();
            for number in 0..4 * CHUNK_LEN as u64 + 2 {
                let record = 7 + 3 * number;
                index.push(record);
                all.push(record);
                if number % CHUNK_LEN as u64 <= 1 || (number + 1) % CHUNK_LEN as u64 == 0 {
                    check(&index, &all, 7, retained);
                }
            }
        }
    }

    #[test]
    fn records_that_the_log_has_removed_are_below_the_floor_and_their_chunks_are_dropped() {
        let mut index = RecordIndex::new(1, 10 * CHUNK_LEN);
        let records: Vec<u64> = (1..=3 * CHUNK_LEN as u64 + 5).map(|number| 2 * number).collect();
        for record in &records {
            index.push(*record);
        }
        let last_of_first = records[CHUNK_LEN - 1];
        for (first, chunks) in [
            (1, 4),
            (last_of_first, 4),
            (last_of_first + 1, 3),
            (records[2 * CHUNK_LEN] + 1, 2),
            (records[0], 2),
            (u64::MAX / 2, 1),
        ] {
            let floor = index.floor().max(first);
            index.forget_before(first);
            assert_eq!((index.floor(), index.chunks.len()), (floor, chunks), "before {first}");
            let place = index.place_from(floor);
            let want = records.partition_point(|record| *record < floor) as u64;
            assert_eq!(place, want, "from {floor}");
            assert_eq!(index.get(place), records.get(want as usize).copied());
            assert_eq!(
                index.before(place),
                want.checked_sub(1).map_or(0, |at| records[at as usize])
            );
        }
        assert_eq!(index.newest(), *records.last().unwrap());
    }

    #[test]
    #[should_panic(expected = "records of a log rise")]
    fn a_record_that_was_noted_is_not_noted_again() {
        let mut index = RecordIndex::new(1, 10);
        index.push(3);
        index.push(3);
    }
}
