//! A batch: entries in the layout of a frame's body, ready to be copied into one.
//!
//! Each entry is a length, four zero bytes, its bytes, and zeros up to the next multiple of eight,
//! so that every entry's bytes start at an aligned offset. Batches are reused: clearing one keeps
//! its memory.

/// The number of bytes in front of each entry.
pub(crate) const ENTRY_PREFIX: usize = 8;

/// The maximum size of a batch in bytes, including prefixes and padding.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// The outcome of adding an entry to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Push {
    /// The entry was added.
    Taken,
    /// The batch has no room for the entry: append the batch, clear it, and push again.
    BatchFull,
}

/// Entries that are appended together, under one log time.
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
    /// Creates an empty batch that holds up to [`BATCH_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new() -> Batch {
        Batch::with_limit(BATCH_BYTES_MAX)
    }

    /// Creates an empty batch that holds up to `bytes_max` bytes, at most [`BATCH_BYTES_MAX`].
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

    /// Removes the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the maximum size of this batch in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Returns true when the batch has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the entries in their layout.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the number of bytes that an entry of `length` bytes occupies in a frame.
pub(crate) fn entry_size(length: usize) -> usize {
    ENTRY_PREFIX + length.next_multiple_of(8)
}

/// Splits the first entry off `body` and returns it with the rest; `None` when the layout is
/// broken.
pub(crate) fn split_entry(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let prefix = body.first_chunk::<ENTRY_PREFIX>()?;
    // The upper half of the prefix is zero, so an absurd length fails here.
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
