//! The last batches that a stream took, by hash: a batch that comes again is told from another one
//! under its number.
//!
//! The hashes are of the run: a start knows those of the entries that it replayed. A batch that is
//! not known is acknowledged without a comparison.

use std::collections::VecDeque;

use weir_wire::ingest::BatchFlags;
use weir_wire::rows::Rows;
use xxhash_rust::xxh3::Xxh3;

/// Batches that are remembered: as many as a core may have sent without an acknowledgement.
const REMEMBERED_MAX: usize = 256;

/// The hashes of the last batches, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repeats(VecDeque<u64>);

impl Repeats {
    /// Remembers a batch that was taken.
    pub(crate) fn push(&mut self, hash: u64) {
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(hash);
    }

    /// True when the batch that was taken `back` batches ago, 1 for the newest, had another hash.
    pub(crate) fn is_other(&self, back: u64, hash: u64) -> bool {
        let index = usize::try_from(back).ok().and_then(|back| self.0.len().checked_sub(back));
        index.and_then(|index| self.0.get(index)).is_some_and(|known| *known != hash)
    }
}

/// Returns the XXH3-64 of a batch's flags and rows.
pub(crate) fn hash_of(flags: BatchFlags, rows: &Rows<'_>) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&[flags.0]);
    let mut rows = rows.clone();
    while let Some((block, attributes)) = rows.next_raw() {
        // The lengths keep a byte from moving between the parts.
        hash.update(&(block.len() as u64).to_le_bytes());
        hash.update(block);
        hash.update(&(attributes.len() as u64).to_le_bytes());
        hash.update(attributes);
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_compared_while_it_is_remembered() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_other(1, 7), "it is not known");
        for hash in 1..=300 {
            repeats.push(hash);
        }
        assert!(!repeats.is_other(1, 300) && repeats.is_other(1, 299));
        assert!(!repeats.is_other(256, 45) && repeats.is_other(256, 44));
        assert!(!repeats.is_other(257, 9) && !repeats.is_other(u64::MAX, 9), "forgotten");
    }
}
