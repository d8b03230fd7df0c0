//! Pages from the archive: the changes after a place, as the order store would serve them.
//!
//! A page reads a bounded number of blocks and visits a bounded number of entries. It skips the row
//! of a live order that changed again later, in a segment or in the changes that are in none yet.
//! It never starts below the floor.

use weir_io::{Access, Disk};
use weir_types::{ChangeId, Nanos};

use crate::archive::{Archive, ColdError};
use crate::block::{Block, StoredBlock};
use crate::entry::Image;
use crate::filter::Filter;
use crate::plant::{self, Plant};
use crate::writer::SegmentError;

/// The most rows that a page can have: the greatest count of a group.
pub const PAGE_ROWS_MAX: u32 = 65_535;

/// Limits of a page's size and cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Rows, at least one.
    pub rows_max: u32,
    /// Bytes of rows, attributes included; one row is always allowed.
    pub bytes_max: u32,
    /// Entries visited, at least one.
    pub scan_max: u32,
    /// Blocks read, at least one.
    pub blocks_max: u32,
}

/// A page without its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdPage {
    /// The place from which its reader goes on.
    pub next: ChangeId,
    /// Rows.
    pub row_count: u32,
    /// Bytes of the rows.
    pub byte_count: u32,
    /// Changes that the rows stand for besides their own.
    pub merged_count: u32,
    /// The time of the oldest change in it; zero if there is none.
    pub oldest_transact_time: Nanos,
    /// True when the page ends among the changes of one `seq`.
    pub is_partial: bool,
    /// True when its limits ended the page: there is more here. Otherwise the reader is at the
    /// archive's end and goes on in the order store.
    pub is_cut: bool,
    /// Entries visited.
    pub scan_count: u32,
    /// Blocks read from disk.
    pub blocks_read: u32,
}

/// The state of a page after a block.
enum PageOutcome {
    Next,
    Full,
}

/// A page in progress.
struct PageBuilder<'a> {
    after: ChangeId,
    filter: &'a Filter,
    limits: &'a PageLimits,
    page: ColdPage,
    /// The last place that is complete, and the current one.
    done: ChangeId,
    last: ChangeId,
    out: &'a mut Vec<u8>,
}

impl<D: Disk> Archive<D> {
    /// Appends the rows that changed after `after` and pass `filter`, in order, within `limits`,
    /// each as by [`weir_wire::rows::put_row`]. A record that changed more than once is served in
    /// its last state only, at its place, and at each place at which it ended; if the last change
    /// is not in a segment yet, the order store serves it.
    ///
    /// # Errors
    /// [`ColdError`]; nothing is appended then. Damage raises the floor above the damaged segment,
    /// so that [`Archive::check`] refuses readers before it.
    ///
    /// # Panics
    /// If `after` is below the floor: call [`Archive::check`] first.
    pub fn page(
        &mut self,
        after: ChangeId,
        filter: &Filter,
        limits: &PageLimits,
        out: &mut Vec<u8>,
    ) -> Result<ColdPage, ColdError> {
        assert!(after >= self.floor, "the place was checked");
        let start = out.len();
        let page = ColdPage { next: after.max(self.end), ..ColdPage::default() };
        let mut builder =
            PageBuilder { after, filter, limits, page, done: after, last: after, out: &mut *out };
        let walked = self.walk(&mut builder);
        let page = builder.page;
        if let Err((number, error)) = walked {
            out.truncate(start);
            if error.is_lost() {
                self.give_up(number);
            }
            return Err(error.into());
        }
        Ok(page)
    }

    fn walk(&mut self, builder: &mut PageBuilder<'_>) -> Result<(), (u32, SegmentError)> {
        let after = builder.after;
        let first = self.segments.partition_point(|numbered| numbered.segment.header.to <= after);
        for position in first..self.segments.len() {
            let (number, from, blocks) = {
                let numbered = &self.segments[position];
                let segment = &numbered.segment;
                (numbered.number, segment.block_after(after), segment.block_count())
            };
            for block in from..blocks {
                let visited = self.visit(position, block, builder);
                if let PageOutcome::Full = visited.map_err(|error| (number, error))? {
                    builder.end();
                    return Ok(());
                }
            }
            builder.pass(self.segments[position].segment.header.to);
        }
        Ok(())
    }

    /// Visits one block; `Full` if the page ends within it or before it.
    fn visit(
        &mut self,
        position: usize,
        block_no: usize,
        builder: &mut PageBuilder<'_>,
    ) -> Result<PageOutcome, SegmentError> {
        let index = self.segments[position].segment.block(block_no);
        if !index.may_match(builder.filter) {
            self.figures.blocks_skipped += 1;
            builder.pass(index.last());
            return Ok(PageOutcome::Next);
        }
        let number = self.segments[position].number;
        let cached =
            self.cache.iter().position(|(of, block, _)| (*of, *block) == (number, block_no));
        let mut block = match cached {
            Some(position) => self.cache.remove(position).expect("it was found").2,
            None if builder.page.blocks_read >= builder.limits.blocks_max.max(1) => {
                (builder.done, builder.last) = (builder.last, index.first());
                return Ok(PageOutcome::Full);
            }
            None => {
                builder.page.blocks_read += 1;
                self.figures.blocks_read += 1;
                self.load(position, block_no, Block::default(), false)?
            }
        };
        let mut from = 0;
        let step = loop {
            match builder.scan(&block, &mut from, |change_id| {
                let is_history = self.newest.get(change_id.rec) > number;
                is_history && !plant::is(Plant::HistoryTold)
            }) {
                Scanned::Ended(step) => break step,
                Scanned::NeedsBody => block = self.load(position, block_no, block, true)?,
            }
        };
        self.cache.push_front((number, block_no, block));
        self.cache.truncate(self.config.cached_blocks);
        Ok(step)
    }

    /// Reads a block's keys, or its body and attributes.
    fn load(
        &mut self,
        position: usize,
        number: usize,
        mut block: Block,
        is_body: bool,
    ) -> Result<Block, SegmentError> {
        let segment = &self.segments[position].segment;
        let name = segment.header.file_name();
        let index = segment.block(number);
        let file = self.disk.open(&name, Access::Read)?;
        let mut stored = StoredBlock { disk: &mut self.disk, file, number, index };
        let read = match is_body {
            false => block.read_keys(&mut stored),
            true => block.read_body(&mut stored),
        };
        self.disk.forget_cached(file);
        self.disk.close(file);
        read.map_err(|error| SegmentError::of(&name, error))?;
        Ok(block)
    }
}

/// The result of scanning a block.
enum Scanned {
    Ended(PageOutcome),
    NeedsBody,
}

impl PageBuilder<'_> {
    /// Marks everything up to `change_id` as complete.
    fn pass(&mut self, change_id: ChangeId) {
        (self.done, self.last) = (self.done.max(change_id), self.last.max(change_id));
    }

    /// Ends the page at the last complete place.
    fn end(&mut self) {
        self.page.next = self.done;
        self.page.is_cut = true;
        self.page.is_partial = self.last.seq == self.done.seq;
    }

    /// Visits the entries of a block from `from` on; `is_history` tells whether a record has a
    /// later state elsewhere.
    fn scan(
        &mut self,
        block: &Block,
        from: &mut usize,
        is_history: impl Fn(ChangeId) -> bool,
    ) -> Scanned {
        while *from < block.len() {
            let image = block.image(*from);
            let change_id = image.change_id();
            if change_id <= self.after {
                *from += 1;
                continue;
            }
            let is_candidate = self.filter.matches(&image.keys())
                && (!image.may_become_history() || !is_history(change_id));
            if is_candidate && !block.has_body() {
                return Scanned::NeedsBody;
            }
            let is_next = change_id > self.last;
            if is_next {
                (self.done, self.last) = (self.last, change_id);
            }
            // A record and the mark of its former keys share a place, and no reader gets both: a
            // page ends before both or after both.
            let is_full = self.page.row_count >= self.limits.rows_max.clamp(1, PAGE_ROWS_MAX)
                || self.page.scan_count >= self.limits.scan_max.max(1);
            if is_full && is_next {
                return Scanned::Ended(PageOutcome::Full);
            }
            if is_candidate && image.is_for(self.after, self.filter) {
                let row_len = crate::entry::row_len(image);
                if self.page.row_count > 0 && self.page.byte_count + row_len > self.limits.bytes_max
                {
                    return Scanned::Ended(PageOutcome::Full);
                }
                self.put(image, row_len, block.attributes(*from));
            }
            self.page.scan_count += 1;
            *from += 1;
        }
        Scanned::Ended(PageOutcome::Next)
    }

    fn put(&mut self, image: Image<'_>, row_len: u32, attributes: &[u8]) {
        let merged_count = image.merged_count(self.after);
        image.put_row(merged_count, attributes, self.out);
        let page = &mut self.page;
        page.row_count += 1;
        page.byte_count += row_len;
        page.merged_count = page.merged_count.saturating_add(merged_count);
        let time = image.transact_time();
        // Rows without a body have no time.
        if time != Nanos(0) {
            let oldest = page.oldest_transact_time;
            page.oldest_transact_time = if oldest == Nanos(0) { time } else { oldest.min(time) };
        }
    }
}
