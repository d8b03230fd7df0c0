//! The composition of one page from the rows of several sources.
//!
//! A page takes all rows that have come if they fit. If not, the sources alternate, a row each, so
//! that no source is held up by another whose clock is behind. The page sorts its rows by (time,
//! source), each source in its own order; it never waits for a row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_types::{Nanos, PartitionId};
use weir_wire::rows::put_row_count;

use super::leg::{Leg, LegStatus};
use super::reader::Terms;

/// The number of rows that a page takes of each leg, and the page's totals.
#[derive(Debug, Default)]
pub(super) struct Composition {
    /// One for each leg.
    counts: Vec<usize>,
    heads: BinaryHeap<Reverse<(Nanos, PartitionId, usize)>>,
    /// The progress of the merge in each leg.
    done: Vec<usize>,
    pub(super) row_count: u32,
    /// Bytes of the rows.
    pub(super) byte_count: u64,
    pub(super) merged_count: u32,
    pub(super) oldest_transact_time: Nanos,
    pub(super) is_partial: bool,
    pub(super) is_online: bool,
    pub(super) is_source_away: bool,
}

impl Composition {
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Picks a page's rows; `turn` selects the first source if not all rows fit.
    pub(super) fn pick(&mut self, legs: &[Leg], terms: &Terms, turn: usize) {
        self.counts.clear();
        self.counts.extend(legs.iter().map(|leg| leg.rows.len()));
        let row_count: usize = self.counts.iter().sum();
        let byte_count: usize = legs.iter().map(|leg| leg.rows.byte_len(leg.rows.len())).sum();
        let fits = row_count as u64 <= u64::from(terms.rows_max)
            && (byte_count as u64 <= u64::from(terms.bytes_max) || row_count == 1);
        if !fits {
            self.take_turns(legs, terms, turn);
        }
        self.sum_up(legs);
    }

    fn take_turns(&mut self, legs: &[Leg], terms: &Terms, turn: usize) {
        self.counts.fill(0);
        let (mut row_count, mut byte_count) = (0u64, 0u64);
        let mut is_open = true;
        while is_open {
            is_open = false;
            for offset in 0..legs.len() {
                let index = (turn + offset) % legs.len();
                let (rows, count) = (&legs[index].rows, self.counts[index]);
                if count == rows.len() {
                    continue;
                }
                let byte_len = (rows.byte_len(count + 1) - rows.byte_len(count)) as u64;
                let fits = row_count < u64::from(terms.rows_max)
                    && byte_count + byte_len <= u64::from(terms.bytes_max);
                // One row always fits.
                if fits || row_count == 0 {
                    self.counts[index] += 1;
                    (row_count, byte_count) = (row_count + 1, byte_count + byte_len);
                    is_open = true;
                }
            }
        }
    }

    fn sum_up(&mut self, legs: &[Leg]) {
        (self.row_count, self.merged_count, self.oldest_transact_time) = (0, 0, Nanos(0));
        (self.is_partial, self.byte_count) = (false, 0);
        for (leg, count) in legs.iter().zip(&self.counts) {
            self.byte_count += leg.rows.byte_len(*count) as u64;
            self.is_partial |= leg.rows.is_partial_after(*count);
            for row in &leg.rows.as_slice()[..*count] {
                self.row_count += 1;
                self.merged_count = self.merged_count.saturating_add(row.merged_count);
                // Rows without a body have no time.
                if row.transact_time != Nanos(0) {
                    let oldest = self.oldest_transact_time;
                    let is_older = oldest == Nanos(0) || row.transact_time < oldest;
                    self.oldest_transact_time = if is_older { row.transact_time } else { oldest };
                }
            }
        }
        self.is_source_away = legs.iter().any(|leg| !leg.is_present());
        let is_online = |(leg, count): (&Leg, &usize)| {
            leg.standing == LegStatus::Online && *count == leg.rows.len()
        };
        let mut present = legs.iter().zip(&self.counts).filter(|(leg, _)| leg.is_present());
        // Without any source there is no newest state to reach.
        self.is_online = legs.iter().any(Leg::is_present) && present.all(is_online);
    }

    /// Appends the group of the rows that were picked.
    pub(super) fn put_rows(&mut self, legs: &[Leg], out: &mut Vec<u8>) {
        put_row_count(self.row_count as usize, out);
        self.heads.clear();
        self.done.clear();
        self.done.resize(legs.len(), 0);
        for (index, leg) in legs.iter().enumerate() {
            if self.counts[index] > 0 {
                self.heads.push(Reverse((leg.rows.as_slice()[0].merge_time, leg.source(), index)));
            }
        }
        while let Some(Reverse((_, source, index))) = self.heads.pop() {
            let (rows, from) = (&legs[index].rows, self.done[index]);
            let next = self.heads.peek().map(|Reverse((time, source, _))| (*time, *source));
            let is_first = |time: Nanos| next.is_none_or(|next| (time, source) < next);
            let rest = &rows.as_slice()[from..self.counts[index]];
            let run = rest.iter().position(|row| !is_first(row.merge_time)).unwrap_or(rest.len());
            // It was the least of all, so at least one row is taken.
            let to = from + run.max(1);
            out.extend_from_slice(rows.bytes(from, to));
            self.done[index] = to;
            if to < self.counts[index] {
                self.heads.push(Reverse((rows.as_slice()[to].merge_time, source, index)));
            }
        }
    }
}
