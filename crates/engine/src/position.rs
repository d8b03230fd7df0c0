//! Positions: lots of an instrument held by an account, in one hash table of 32-byte rows.
//!
//! A row exists exactly while it holds information: lots held, lots reserved by sells, lots that
//! open buys may add. Empty rows are removed, so the table's limit is on open positions. At its
//! limit the table is four fifths full: 40 bytes a position.

use crate::index::{Slot, fold};
use weir_memory::{prefetch, take_ahead};

/// An account's holding of an instrument, in lots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Lots held; negative when an unlimited account sold short.
    pub(crate) total: i64,
    /// The part of them that live sell orders may deliver.
    pub(crate) reserved: i64,
    /// Lots that live buy orders may add.
    pub(crate) open_buy: i64,
}

impl Position {
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0 && self.reserved == 0 && self.open_buy == 0
    }
}

/// All positions of the partition. A row is the key (account and instrument slots, plus one; zero
/// when free), then total, reserved and open buys. Rows are plain words, because a vector of zero
/// words comes untouched from the system and is paid for only when used.
pub(crate) struct Positions {
    rows: Vec<[i64; 4]>,
    count: usize,
    count_max: usize,
    seed: u64,
}

#[inline]
fn key(account: Slot, instrument: Slot) -> i64 {
    (i64::from(account) << 32 | i64::from(instrument)) + 1
}

#[inline]
fn position(row: &[i64; 4]) -> Position {
    Position { total: row[1], reserved: row[2], open_buy: row[3] }
}

impl Positions {
    pub(crate) fn new(count_max: u32, seed: u64) -> Positions {
        let rows = vec![[0; 4]; Positions::row_count_for(count_max)];
        Positions { rows, count: 0, count_max: count_max as usize, seed }
    }

    fn row_count_for(count_max: u32) -> usize {
        let count_max = count_max as usize;
        count_max + count_max / 4 + 1
    }

    /// Returns the bytes of a table of so many positions.
    pub(crate) fn bytes_for(count_max: u32) -> u64 {
        (Positions::row_count_for(count_max) * size_of::<[i64; 4]>()) as u64
    }

    /// Populates all its memory now.
    pub(crate) fn take_memory(&mut self) {
        take_ahead(&mut self.rows);
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn home(&self, key: i64) -> usize {
        let hash = fold(key as u64 ^ self.seed, 0xe703_7ed1_a0b4_28db);
        ((u128::from(hash) * self.rows.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.rows.len() { 0 } else { at + 1 }
    }

    /// Returns the row of `key`, or the free row for it.
    #[inline]
    fn probe(&self, key: i64) -> usize {
        let mut at = self.home(key);
        loop {
            let found = self.rows[at][0];
            if found == key || found == 0 {
                return at;
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, account: Slot, instrument: Slot) {
        prefetch(&self.rows[self.home(key(account, instrument))]);
    }

    /// Returns the pair's position; an empty one when there is no row.
    #[inline]
    pub(crate) fn get(&self, account: Slot, instrument: Slot) -> Position {
        position(&self.rows[self.probe(key(account, instrument))])
    }

    /// Returns true when a change of this pair would need one row more than the limit.
    #[inline]
    pub(crate) fn is_full_for(&self, account: Slot, instrument: Slot) -> bool {
        self.count == self.count_max && self.get(account, instrument).is_empty()
    }

    /// Returns true when `row_count` more rows fit.
    pub(crate) fn has_room(&self, row_count: usize) -> bool {
        self.count + row_count <= self.count_max
    }

    /// Changes the pair's position.
    #[inline]
    pub(crate) fn update(
        &mut self,
        account: Slot,
        instrument: Slot,
        change: impl FnOnce(&mut Position),
    ) {
        let key = key(account, instrument);
        let at = self.probe(key);
        let row = &mut self.rows[at];
        let mut changed = position(row);
        change(&mut changed);
        let was_free = row[0] == 0;
        *row = [key, changed.total, changed.reserved, changed.open_buy];
        if was_free && !changed.is_empty() {
            assert!(self.count < self.count_max, "the caller checks the limit");
            self.count += 1;
        } else if was_free {
            row[0] = 0;
        } else if changed.is_empty() {
            self.count -= 1;
            self.close_gap(at);
        }
    }

    /// Frees the row at `hole` and moves up the rows that probed past it.
    fn close_gap(&mut self, mut hole: usize) {
        let len = self.rows.len();
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut at = hole;
        loop {
            at = self.after(at);
            if self.rows[at][0] == 0 {
                break;
            }
            if distance(self.home(self.rows[at][0]), at) >= distance(hole, at) {
                self.rows[hole] = self.rows[at];
                hole = at;
            }
        }
        self.rows[hole] = [0; 4];
    }

    /// Returns all rows as (account slot, instrument slot, position), in the table's order: callers
    /// sort.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = (Slot, Slot, Position)> {
        self.rows.iter().filter(|row| row[0] != 0).map(|row| {
            let pair = row[0] - 1;
            ((pair >> 32) as Slot, pair as Slot, position(row))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_closing_of_others() {
        let mut positions = Positions::new(64, 3);
        for round in 0..50u32 {
            for pair in 0..64u32 {
                positions.update(pair, round, |p| p.total = i64::from(pair) + 1);
            }
            assert!(positions.is_full_for(64, round) && !positions.is_full_for(3, round));
            for gone in 0..64u32 {
                positions.update(gone, round, |p| p.total = 0);
                for pair in 0..64u32 {
                    let want = if pair > gone { i64::from(pair) + 1 } else { 0 };
                    assert_eq!(positions.get(pair, round).total, want);
                }
            }
            assert_eq!(positions.count(), 0);
        }
        assert!(positions.rows.iter().all(|row| *row == [0; 4]));
    }
}
