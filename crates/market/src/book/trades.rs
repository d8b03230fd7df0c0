//! The latest trades of all instruments, so that a broken trade can be undone.
//!
//! A ring of fixed length: older trades are forgotten, and a break of one undoes only as much as
//! the feed states in the break. Each trade links to its instrument's previous trade, so that the
//! day's prices can be recomputed while all of them are remembered.

use super::index::{EntryLocation, Hash, Slot, SlotIndex};
use super::statistics::{CountedTrade, Statistics};

/// The number of a trade in order of arrival, from 1; zero for none.
pub(crate) type Serial = u64;

#[derive(Clone, Copy)]
struct Kept {
    trade: CountedTrade,
    match_id: u64,
    serial: Serial,
    /// The instrument's previous trade.
    before: Serial,
    /// The index of its instrument in the books.
    instrument: u32,
    is_broken: bool,
}

/// The ring of the latest trades.
pub(crate) struct TradeLog {
    rows: Vec<Kept>,
    capacity: usize,
    index: SlotIndex,
    next: Serial,
}

impl TradeLog {
    /// Creates a ring for `capacity` trades, rounded up to a power of two; zero remembers none.
    pub(crate) fn new(capacity: usize) -> TradeLog {
        let capacity = match capacity {
            0 => 0,
            _ => capacity.min(1 << 24).next_power_of_two(),
        };
        let index = SlotIndex::new(capacity);
        TradeLog { rows: Vec::with_capacity(capacity), capacity, index, next: 1 }
    }

    /// Remembers a trade and returns its serial; `before` is its instrument's previous trade.
    pub(crate) fn push(
        &mut self,
        instrument: u32,
        match_id: u64,
        before: Serial,
        trade: CountedTrade,
    ) -> Serial {
        if self.capacity == 0 {
            return 0;
        }
        let serial = self.next;
        self.next += 1;
        let slot = self.slot_of(serial);
        let row = Kept { trade, match_id, serial, before, instrument, is_broken: false };
        match self.rows.get(slot).copied() {
            Some(old) => {
                self.forget(old, slot as Slot);
                self.rows[slot] = row;
            }
            None => self.rows.push(row),
        }
        // A repeated match number keeps naming the older trade while that one is remembered.
        if match_id != 0 && self.find(instrument, match_id).is_none() {
            self.index.insert(Hash::of(match_id, instrument), slot as Slot);
        }
        serial
    }

    /// Starts a new day: earlier trades can no longer be undone.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
        self.next = 1;
    }

    fn slot_of(&self, serial: Serial) -> usize {
        (serial.wrapping_sub(1) as usize) & (self.capacity - 1)
    }

    fn forget(&mut self, old: Kept, slot: Slot) {
        let hash = Hash::of(old.match_id, old.instrument);
        if old.match_id != 0
            && let Some(found) = self.index.find(hash, |candidate| candidate == slot)
        {
            self.index.remove(hash, found);
        }
    }

    fn kept(&self, serial: Serial) -> Option<&Kept> {
        let row = self.rows.get(self.slot_of(serial))?;
        (serial != 0 && row.serial == serial).then_some(row)
    }

    /// Marks a trade as undone and returns it; `None` when it is not remembered or was undone
    /// before.
    pub(crate) fn break_trade(&mut self, instrument: u32, match_id: u64) -> Option<CountedTrade> {
        if self.capacity == 0 || match_id == 0 {
            return None;
        }
        let found = self.find(instrument, match_id)?;
        let row = &mut self.rows[found.slot as usize];
        (!std::mem::replace(&mut row.is_broken, true)).then_some(row.trade)
    }

    fn find(&self, instrument: u32, match_id: u64) -> Option<EntryLocation> {
        self.index.find(Hash::of(match_id, instrument), |slot| {
            let row = &self.rows[slot as usize];
            row.match_id == match_id && row.instrument == instrument
        })
    }

    /// Recomputes an instrument's prices of the day from its trades; `last` is the latest one. When
    /// not all trades are remembered, restores at most the last price and marks the rest uncertain.
    pub(crate) fn find_prices(&self, last: Serial, statistics: &mut Statistics) {
        if self.capacity == 0 {
            statistics.is_range_certain = false;
            return;
        }
        let mut found = Statistics::default();
        found.forget_prices();
        let mut at = last;
        while let Some(row) = self.kept(at) {
            if !row.is_broken {
                found.older(&row.trade);
            }
            at = row.before;
        }
        let is_complete = at == 0;
        if is_complete || found.last.is_some() {
            (statistics.last, statistics.last_size) = (found.last, found.last_size);
            statistics.last_ts = found.last_ts;
        }
        if is_complete {
            (statistics.open, statistics.high, statistics.low) =
                (found.open, found.high, found.low);
        } else {
            statistics.is_range_certain = false;
        }
    }
}

impl Statistics {
    /// Applies a trade to the prices, when trades come newest first.
    fn older(&mut self, trade: &CountedTrade) {
        let (last, size, ts) = (self.last, self.last_size, self.last_ts);
        self.open = if trade.counts_for_last() { None } else { self.open };
        self.price(trade);
        if last.is_some() {
            (self.last, self.last_size, self.last_ts) = (last, size, ts);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Nanos, Price, Qty};

    use super::*;
    use weir_feed::update::TradeFlags;

    fn trade(price: i64) -> CountedTrade {
        CountedTrade {
            price: Price(price),
            size: Qty(1),
            ts: Nanos(1),
            flags: TradeFlags::default(),
        }
    }

    fn prices(statistics: &Statistics) -> [Option<i64>; 4] {
        let Statistics { open, high, low, last, .. } = *statistics;
        [open, high, low, last].map(|price| price.map(|price| price.0))
    }

    /// Records alternating trades of two instruments; returns the log, and the last trade and the
    /// statistics of the first instrument.
    fn day(capacity: usize, of_day: &[i64]) -> (TradeLog, Serial, Statistics) {
        let mut log = TradeLog::new(capacity);
        let (mut last, mut statistics) = (0, Statistics::default());
        let mut other = 0;
        for (match_id, price) in (1..).zip(of_day) {
            last = log.push(0, match_id, last, trade(*price));
            other = log.push(1, match_id, other, trade(1_000));
            assert!(statistics.trade(&trade(*price)));
        }
        (log, last, statistics)
    }

    #[test]
    fn a_broken_trade_takes_its_prices_with_it_while_all_are_remembered() {
        for (broken, want) in [
            (1, [Some(9), Some(9), Some(2), Some(4)]),
            (2, [Some(5), Some(5), Some(2), Some(4)]),
            (3, [Some(5), Some(9), Some(4), Some(4)]),
            (4, [Some(5), Some(9), Some(2), Some(2)]),
        ] {
            let (mut log, last, mut statistics) = day(8, &[5, 9, 2, 4]);
            assert!(log.break_trade(0, broken).is_some());
            assert!(log.break_trade(0, broken).is_none(), "it is broken once");
            log.find_prices(last, &mut statistics);
            assert_eq!(prices(&statistics), want, "trade {broken}");
            assert!(statistics.is_range_certain);
        }
    }

    #[test]
    fn a_day_longer_than_the_log_keeps_its_range_and_says_so() {
        let (mut log, last, mut statistics) = day(4, &[5, 9, 2, 4]);
        assert!(log.break_trade(0, 1).is_none(), "the log is of two trades each");
        assert!(log.break_trade(0, 4).is_some());
        log.find_prices(last, &mut statistics);
        assert_eq!(prices(&statistics), [Some(5), Some(9), Some(2), Some(2)]);
        assert!(!statistics.is_range_certain);
    }

    #[test]
    fn a_log_of_no_trades_remembers_none() {
        let (mut log, last, mut statistics) = day(0, &[5, 9]);
        assert_eq!((last, log.break_trade(0, 1).is_none()), (0, true));
        log.find_prices(last, &mut statistics);
        assert_eq!(prices(&statistics), [Some(5), Some(9), Some(5), Some(9)]);
        assert!(!statistics.is_range_certain);
    }
}
