//! Merges adjacent segments into one: the latest state over their union, one block per step.
//!
//! First the keys are read, newest segment first, to find the rows that are the last of their
//! record or an end; then the rows are copied, oldest first. Changes after the last input do not
//! count: a source that voids its latest changes may make an earlier state valid again.
//!
//! ```text
//! crash                             | the next start finds
//! ----------------------------------+--------------------------------------------------------
//! while the new file is written     | an unfinished file, which it removes, and the inputs
//! after the new file got its name   | inputs that are part of a wider file, which it removes
//! while the inputs are removed      | the same
//! ```

use weir_io::{Access, Disk};
use weir_types::Nanos;

use crate::archive::{Archive, ColdError, NumberedSegment};
use crate::block::{Block, StoredBlock};
use crate::merge_progress::Merge;
use crate::newest::RecSet;
use crate::plant::{self, Plant};
use crate::segment::{Header, Segment};
use crate::writer::{SegmentError, SegmentWriter};

impl<D: Disk> Archive<D> {
    /// Cancels the merge in progress.
    pub(crate) fn stop_merge(&mut self) {
        if let Some(writer) = self.merge.take().and_then(|merge| merge.writer) {
            writer.discard(&mut self.disk);
        }
    }

    /// Begins a merge if one is due, or continues the one in progress; true if it did.
    pub(crate) fn merge_step(&mut self) -> Result<bool, ColdError> {
        let Some(mut merge) = self.merge.take().or_else(|| self.due_merge()) else {
            return Ok(false);
        };
        let position = self
            .segments
            .iter()
            .position(|numbered| numbered.number == merge.inputs[merge.input])
            .expect("a merge is stopped before an input goes");
        let NumberedSegment { segment, number } = self.segments[position].clone();
        let stepped = match merge.writer {
            None => self.mark_block(&mut merge, &segment),
            Some(_) => self.copy_block(&mut merge, &segment),
        };
        match stepped {
            Ok(true) => self.finish(merge)?,
            Ok(false) => self.merge = Some(merge),
            Err(error) => {
                self.merge = Some(merge);
                self.stop_merge();
                if error.is_lost() {
                    self.give_up(number);
                }
                return Err(error.into());
            }
        }
        Ok(true)
    }

    /// Returns a merge of the oldest adjacent segments that are worth it: `merge_count` of them,
    /// none larger than twice the others together, so that each byte is rewritten only a few times.
    fn due_merge(&self) -> Option<Merge> {
        let count = self.config.merge_count;
        let len = |at: usize| self.segments[at].segment.file_len;
        let is_due = |first: &usize| {
            let window = *first..*first + count;
            let total: u64 = window.clone().map(len).sum();
            let largest = window.map(len).max().unwrap_or(0);
            total <= self.config.merge_bytes_max && largest <= 2 * (total - largest)
        };
        let first = (0..(self.segments.len() + 1).saturating_sub(count)).find(is_due)?;
        let inputs = (first..first + count).map(|at| self.segments[at].number).collect();
        Some(Merge::new(inputs))
    }

    /// Reads one block's keys; begins the copy after the last one.
    fn mark_block(&mut self, merge: &mut Merge, segment: &Segment) -> Result<bool, SegmentError> {
        let block = self.read_block(segment, merge.block, false)?;
        let is_last = (0..block.len()).map(|index| {
            let image = block.image(index);
            // A mark is not a state of its record, so it never counts as the last one.
            let is_latest = !image.is_mark()
                && merge.seen.insert(image.change_id().rec) != plant::is(Plant::MergeKeepsFirst);
            is_latest || !image.may_become_history()
        });
        let is_last = is_last.collect();
        merge.is_last[merge.input].push(is_last);
        merge.block += 1;
        if merge.block < segment.block_count() {
            return Ok(false);
        }
        merge.block = 0;
        if merge.input > 0 {
            merge.input -= 1;
            return Ok(false);
        }
        merge.seen = RecSet::default();
        let header = self.merged_header(merge);
        let writer = SegmentWriter::create(&mut self.disk, header, self.config.block_entries)?;
        merge.writer = Some(writer);
        Ok(false)
    }

    fn merged_header(&self, merge: &Merge) -> Header {
        let inputs = || self.segments.iter().filter(|each| merge.reads(each.number));
        let header = |numbered: &NumberedSegment| numbered.segment.header;
        let first = inputs().next().map(header).expect("a merge has inputs");
        let last = inputs().next_back().map(header).expect("a merge has inputs");
        let first_times = inputs().map(|each| header(each).first_time);
        Header {
            after: first.after,
            first_time: first_times.filter(|time| *time != Nanos(0)).min().unwrap_or_default(),
            last_time: inputs().map(|each| header(each).last_time).max().unwrap_or_default(),
            closed_at: inputs().map(|each| self.kept_from(&header(each))).max().unwrap_or_default(),
            ..last
        }
    }

    /// Copies one block's rows; true after the last one.
    fn copy_block(&mut self, merge: &mut Merge, segment: &Segment) -> Result<bool, SegmentError> {
        let block = self.read_block(segment, merge.block, true)?;
        let writer = merge.writer.as_mut().expect("rows are copied when there is a writer");
        let is_last = &merge.is_last[merge.input][merge.block];
        for index in (0..block.len()).filter(|index| is_last[*index]) {
            writer.push(&mut self.disk, block.image(index), block.attributes(index))?;
        }
        merge.block += 1;
        if merge.block < segment.block_count() {
            return Ok(false);
        }
        merge.block = 0;
        merge.input += 1;
        Ok(merge.input == merge.inputs.len())
    }

    fn finish(&mut self, merge: Merge) -> Result<(), ColdError> {
        let writer = merge.writer.expect("a merge ends with its copy");
        let segment = writer.finish(&mut self.disk)?;
        let first = self
            .segments
            .iter()
            .position(|numbered| numbered.number == merge.inputs[0])
            .expect("a merge is stopped before an input goes");
        let number = *merge.inputs.last().expect("a merge has inputs");
        let inputs: Vec<NumberedSegment> =
            self.segments.drain(first..first + merge.inputs.len()).collect();
        self.segments.insert(first, NumberedSegment { segment, number });
        self.cache.retain(|(number, ..)| !merge.inputs.contains(number));
        self.figures.merges += 1;
        for input in inputs {
            self.disk.remove(&input.segment.header.file_name())?;
        }
        self.disk.sync_dir()?;
        Ok(())
    }

    /// Reads a block directly, without the cache.
    fn read_block(
        &mut self,
        segment: &Segment,
        number: usize,
        with_body: bool,
    ) -> Result<Block, SegmentError> {
        let name = segment.header.file_name();
        let file = self.disk.open(&name, Access::Read)?;
        let mut block = Block::default();
        let index = segment.block(number);
        let mut stored = StoredBlock { disk: &mut self.disk, file, number, index };
        let mut read = block.read_keys(&mut stored);
        if with_body {
            read = read.and_then(|()| block.read_body(&mut stored));
        }
        self.disk.forget_cached(file);
        self.disk.close(file);
        read.map_err(|error| SegmentError::of(&name, error))?;
        Ok(block)
    }
}
