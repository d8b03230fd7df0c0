//! Rows from one source, kept in wire format until a page takes them.
//!
//! A backend's rows must follow the protocol: in the order of their places, after the place of the
//! request and not after the place in the page's token. A page that breaks this is not used at all.

use weir_types::{ChangeId, Nanos, Rec, Seq};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, row_offset_of};
use weir_wire::group::put_data;
use weir_wire::rows::{self, ATTRIBUTES_LEN_MAX};

use super::backend::BadPage;

const MERGED_COUNT_AT: usize = row_offset_of("merged_count");
const TRANSACT_TIME_AT: usize = row_offset_of("transact_time");
const REC_AT: usize = row_offset_of("rec");
const SEQ_AT: usize = row_offset_of("seq");

/// A row in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The end of its bytes in the buffer; they begin at the end of the row before.
    pub(super) end: u32,
    pub(super) change_id: ChangeId,
    /// Its own time; zero when it has no body.
    pub(super) transact_time: Nanos,
    /// The key by which it is merged: the latest time of the rows up to it, so that the rows of a
    /// source stay in their order whatever their times.
    pub(super) merge_time: Nanos,
    pub(super) merged_count: u32,
}

/// The rows of one page of one source, starting with the first that no page has taken yet.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    first: usize,
    /// True when the page ends among the changes of one `seq`.
    is_partial: bool,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.rows.len() - self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the first `count` rows.
    pub(super) fn byte_len(&self, count: usize) -> usize {
        self.end_of(self.first + count) - self.end_of(self.first)
    }

    fn end_of(&self, count: usize) -> usize {
        count.checked_sub(1).map_or(0, |last| self.rows[last].end as usize)
    }

    /// The rows that are left.
    pub(super) fn as_slice(&self) -> &[Row] {
        &self.rows[self.first..]
    }

    /// Returns the bytes of rows `from..to` of those that are left.
    pub(super) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[self.end_of(self.first + from)..self.end_of(self.first + to)]
    }

    /// True when the first `count` rows end among the changes of one `seq`.
    pub(super) fn is_partial_after(&self, count: usize) -> bool {
        let rows = self.as_slice();
        match (count.checked_sub(1), rows.get(count)) {
            (None, _) => false,
            (Some(_), None) => self.is_partial,
            (Some(last), Some(next)) => rows[last].change_id.seq == next.change_id.seq,
        }
    }

    /// Removes the first `count` rows.
    pub(super) fn skip(&mut self, count: usize) {
        self.first += count;
        if self.is_empty() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        (self.first, self.is_partial) = (0, false);
    }

    /// Replaces the content by the rows of a page's group.
    ///
    /// # Errors
    /// [`BadPage`]: no rows are held then.
    pub(super) fn fill(&mut self, page: &PageRows<'_>) -> Result<(), BadPage> {
        self.clear();
        self.is_partial = page.is_partial;
        let filled = self.try_fill(page);
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    fn try_fill(&mut self, page: &PageRows<'_>) -> Result<(), BadPage> {
        let mut rows = page.rows.clone();
        let got = u32::try_from(rows.len()).expect("a group counts by a u16");
        if got != page.row_count {
            return Err(BadPage::RowCount { want: page.row_count, got });
        }
        let (mut before, mut merge_time) = (page.after, Nanos(0));
        while let Some((block, attributes)) = rows.next_raw() {
            // A block of a later version is cut to the fields that this version knows.
            let row = &block[..OrderRow::BLOCK_LENGTH];
            if attributes.len() > ATTRIBUTES_LEN_MAX {
                return Err(BadPage::AttributesTooLong(attributes.len()));
            }
            let change_id = ChangeId::new(Seq(word_at(row, SEQ_AT)), Rec(word_at(row, REC_AT)));
            if change_id <= before || change_id > page.until {
                return Err(BadPage::OutOfOrder(change_id));
            }
            let transact_time = Nanos(word_at(row, TRANSACT_TIME_AT));
            (before, merge_time) = (change_id, merge_time.max(transact_time));
            self.bytes.extend_from_slice(row);
            put_data(attributes, &mut self.bytes);
            self.rows.push(Row {
                end: u32::try_from(self.bytes.len()).expect("a frame is shorter than 4 GiB"),
                change_id,
                transact_time,
                merge_time,
                merged_count: half_word_at(row, MERGED_COUNT_AT),
            });
        }
        Ok(())
    }
}

/// A page of one source, its rows not checked yet.
#[derive(Clone, Debug)]
pub(super) struct PageRows<'a> {
    /// The place of the request.
    pub(super) after: ChangeId,
    /// The place of its token.
    pub(super) until: ChangeId,
    pub(super) row_count: u32,
    pub(super) is_partial: bool,
    pub(super) rows: rows::Rows<'a>,
}

fn word_at(row: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*row[at..].first_chunk().expect("the field is inside the row"))
}

fn half_word_at(row: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*row[at..].first_chunk().expect("the field is inside the row"))
}
