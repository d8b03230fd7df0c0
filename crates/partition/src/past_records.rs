//! Old records on their way from the history's thread to a reader.

/// Records in ascending order.
#[derive(Debug, Default)]
pub struct PastRecords {
    /// Each record's number, and the end of its bytes.
    ends: Vec<(u64, usize)>,
    bytes: Vec<u8>,
    /// The number of records that [`PastRecords::take`] has given.
    taken: usize,
}

impl PastRecords {
    /// Adds a record; its number is above those before.
    pub fn push(&mut self, number: u64, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push((number, self.bytes.len()));
    }

    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of their bytes.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the first record's number.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.ends.first().map(|(number, _)| *number)
    }

    /// Returns the records with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.ends.len()).map(|index| self.get(index))
    }

    fn get(&self, index: usize) -> (u64, &[u8]) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (number, end) = self.ends[index];
        (number, &self.bytes[start..end])
    }

    /// Copies record `wanted` into `into`, which is cleared first; false when the next record is
    /// another one.
    pub(crate) fn take(&mut self, wanted: u64, into: &mut Vec<u8>) -> bool {
        if self.taken == self.ends.len() || self.ends[self.taken].0 != wanted {
            return false;
        }
        into.clear();
        into.extend_from_slice(self.get(self.taken).1);
        self.taken += 1;
        true
    }
}
