//! Distinguishes a snapshot that is a few events early or late from a wrong one.
//!
//! Bitstamp publishes its book and its order events on separate channels. A snapshot that differs
//! from the book built from the events before it may equal the book a few events away: then the two
//! channels are out of step, and neither is wrong.

use std::collections::VecDeque;

use weir_types::Side;

use super::ledger::Ledger;
use super::model::Level;

/// The most order events by which a snapshot may be early or late.
pub const STEPS_MAX: usize = 8;

/// The most levels a side of a snapshot has.
const DEPTH: usize = 20;

type Sides = [Vec<Level>; 2];

#[derive(Debug, Default)]
pub(super) struct InStep {
    /// The book before each of the latest events.
    before: VecDeque<Sides>,
    /// Snapshots not found yet, with the number of events left to compare.
    open: Vec<(Sides, usize)>,
    found: u64,
}

impl InStep {
    /// Compares the open snapshots with the book after an event.
    pub(super) fn event(&mut self, ledger: &Ledger) {
        let book = [Side::Buy, Side::Sell].map(|side| ledger.levels(side).take(DEPTH).collect());
        let found = &mut self.found;
        self.open.retain_mut(|(row, left)| {
            let equal = equals(&book, row);
            *found += u64::from(equal);
            *left -= 1;
            !equal && *left > 0
        });
        self.before.push_back(book);
        if self.before.len() > STEPS_MAX {
            self.before.pop_front();
        }
    }

    /// Handles a snapshot that differs from the book.
    pub(super) fn snapshot(&mut self, bids: &[Level], asks: &[Level]) {
        let row = [bids.to_vec(), asks.to_vec()];
        if self.before.iter().any(|book| equals(book, &row)) {
            self.found += 1;
        } else {
            self.open.push((row, STEPS_MAX));
        }
    }

    /// The number of snapshots that equal the book a few events away.
    pub(super) fn found(&self) -> u64 {
        self.found
    }
}

fn equals(book: &Sides, row: &Sides) -> bool {
    book.iter().zip(row).all(|(book, row)| book.get(..row.len()).is_some_and(|top| top == row))
}
