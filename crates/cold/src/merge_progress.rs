//! The progress of a merge: the archive holds it, `merge.rs` advances it.

use crate::newest::RecSet;
use crate::writer::SegmentWriter;

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The inputs' numbers, oldest first.
    pub(crate) inputs: Vec<u32>,
    /// For each block of each input, oldest first: flags of the rows that are the last of their
    /// record.
    pub(crate) is_last: Vec<Vec<Vec<bool>>>,
    pub(crate) seen: RecSet,
    /// The next input and block; the keys are read from the newest input on.
    pub(crate) input: usize,
    pub(crate) block: usize,
    pub(crate) writer: Option<SegmentWriter>,
}

impl Merge {
    pub(crate) fn new(inputs: Vec<u32>) -> Merge {
        Merge {
            is_last: vec![Vec::new(); inputs.len()],
            input: inputs.len() - 1,
            inputs,
            seen: RecSet::default(),
            block: 0,
            writer: None,
        }
    }

    /// True when the segment with this number is an input.
    pub(crate) fn reads(&self, number: u32) -> bool {
        self.inputs.contains(&number)
    }
}
