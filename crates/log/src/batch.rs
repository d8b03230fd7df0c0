//! A batch: entries laid out as they will stand in a frame, ready to be copied there.
//!
//! Each entry is a length, four zero bytes, its bytes, and zeros up to the next multiple of eight,
//! so that every entry's bytes start at an aligned offset. A batch is reused: clearing keeps its
//! memory.

/// The bytes in front of each entry.
pub(crate) const ENTRY_PREFIX: usize = 8;

/// The most bytes that a batch may hold, prefixes and padding included.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Whether an entry was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Push {
    /// It was.
    Taken,
    /// The batch has no room for it; append what there is, clear, and push again.
    BatchFull,
}

/// Entries to be appended together, under one log time.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    count: u32,
    bytes_max: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch that holds up to [`BATCH_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new() -> Batch {
        Batch::with_limit(BATCH_BYTES_MAX)
    }

    /// An empty batch that holds up to `bytes_max` bytes, at most [`BATCH_BYTES_MAX`].
    #[must_use]
    pub fn with_limit(bytes_max: usize) -> Batch {
        assert!(bytes_max <= BATCH_BYTES_MAX, "a batch holds at most {BATCH_BYTES_MAX} bytes");
        Batch { bytes: Vec::with_capacity(bytes_max.min(64 * 1024)), count: 0, bytes_max }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &[u8]) -> Push {
        let padded = entry_size(entry.len());
        if padded > self.bytes_max - self.bytes.len() {
            return Push::BatchFull;
        }
        let end = self.bytes.len() + padded;
        let length = u32::try_from(entry.len()).expect("bounded by the batch's size");
        self.bytes.extend_from_slice(&u64::from(length).to_le_bytes());
        self.bytes.extend_from_slice(entry);
        self.bytes.resize(end, 0);
        self.count += 1;
        Push::Taken
    }

    /// Forgets the entries, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// How many entries there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes it holds at most.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries as laid out.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes that an entry of `length` bytes takes in a frame.
pub(crate) fn entry_size(length: usize) -> usize {
    ENTRY_PREFIX + length.next_multiple_of(8)
}

/// The entry at the start of `body`, and what follows it; `None` when the layout is broken.
pub(crate) fn split_entry(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let prefix = body.first_chunk::<ENTRY_PREFIX>()?;
    // The upper half of the prefix is zero, so that an absurd number fails here.
    let length = usize::try_from(u64::from_le_bytes(*prefix)).ok()?;
    if length > body.len() {
        return None;
    }
    let end = entry_size(length);
    (end <= body.len()).then(|| (&body[ENTRY_PREFIX..ENTRY_PREFIX + length], &body[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_every_small_size_come_back_aligned() {
        let mut batch = Batch::new();
        let entries: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; n.into()]).collect();
        for entry in &entries {
            assert_eq!(batch.push(entry), Push::Taken);
        }
        assert_eq!(batch.count(), 40);
        let mut rest = batch.bytes();
        for entry in &entries {
            let (got, after) = split_entry(rest).unwrap();
            assert_eq!(got, entry);
            assert_eq!(after.len() % 8, 0);
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_full_batch_refuses_and_keeps_what_it_has() {
        let mut batch = Batch::with_limit(64);
        assert_eq!(batch.push(&[1; 48]), Push::Taken);
        assert_eq!(batch.push(&[2; 1]), Push::BatchFull);
        assert_eq!(batch.push(&[]), Push::Taken);
        assert_eq!(batch.count(), 2);
        assert_eq!(batch.bytes().len(), 64);
    }

    #[test]
    fn a_length_beyond_the_body_is_no_entry() {
        for prefix in [9u64, 1 << 32, u64::MAX] {
            let mut body = prefix.to_le_bytes().to_vec();
            body.extend_from_slice(&[0; 8]);
            assert_eq!(split_entry(&body), None);
        }
        assert_eq!(split_entry(&[0; 7]), None);
    }
}
