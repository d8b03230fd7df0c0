//! The latest trades of all instruments with their bars, so that a trade break can find its bar.
//!
//! A ring of fixed length: older trades are forgotten. Each trade links to its instrument's
//! previous trade, so that an open bar can be rebuilt.

use weir_feed::update::TradeFlags;
use weir_types::{Nanos, Price, Qty};

use super::record::Bar;
use crate::book::index::{EntryLocation, Hash, Slot, SlotIndex};

/// The number of a trade in order of arrival, from 1; zero for none.
pub(super) type Serial = u64;

/// A remembered trade.
#[derive(Clone, Copy, Debug)]
pub(super) struct RememberedTrade {
    /// The index of its instrument in the builder.
    pub(super) place: u32,
    pub(super) match_id: u64,
    pub(super) sequence: u64,
    pub(super) ts: Nanos,
    pub(super) price: Price,
    pub(super) size: Qty,
    pub(super) flags: TradeFlags,
    /// The number and start of its bar.
    pub(super) bar: (u64, Nanos),
    /// The instrument's previous trade.
    pub(super) before: Serial,
    serial: Serial,
    is_broken: bool,
}

/// Returns the row to remember for a trade, before it gets its serial.
pub(super) fn kept(
    place: u32,
    before: Serial,
    trade: &super::BarTrade,
    bar_number: u64,
    bar_start: Nanos,
) -> RememberedTrade {
    let print = &trade.print;
    RememberedTrade {
        place,
        match_id: print.match_id,
        sequence: trade.sequence,
        ts: trade.ts_event,
        price: print.price,
        size: print.size,
        flags: print.flags,
        bar: (bar_number, bar_start),
        before,
        serial: 0,
        is_broken: false,
    }
}

/// The ring of the latest trades.
pub(super) struct Memory {
    rows: Vec<RememberedTrade>,
    capacity: usize,
    index: SlotIndex,
    next: Serial,
}

impl Memory {
    /// Creates a ring for `capacity` trades, rounded up to a power of two; zero remembers none.
    pub(super) fn new(capacity: usize) -> Memory {
        let capacity = match capacity {
            0 => 0,
            _ => capacity.min(1 << 24).next_power_of_two(),
        };
        let rows = Vec::with_capacity(capacity);
        Memory { rows, capacity, index: SlotIndex::new(capacity), next: 1 }
    }

    /// Remembers a trade and returns its serial; zero when the ring has no capacity.
    pub(super) fn push(&mut self, mut row: RememberedTrade) -> Serial {
        if self.capacity == 0 {
            return 0;
        }
        row.serial = self.next;
        self.next += 1;
        let slot = self.slot_of(row.serial);
        match self.rows.get(slot).copied() {
            Some(old) => {
                self.forget(&old, slot as Slot);
                self.rows[slot] = row;
            }
            None => self.rows.push(row),
        }
        // A repeated match number keeps naming the older trade while that one is remembered.
        if row.match_id != 0 && self.find(row.place, row.match_id).is_none() {
            self.index.insert(Hash::of(row.match_id, row.place), slot as Slot);
        }
        row.serial
    }

    /// Marks a trade as undone and returns it; `None` when it is not remembered or was undone
    /// before.
    pub(super) fn break_trade(&mut self, place: u32, match_id: u64) -> Option<RememberedTrade> {
        if self.capacity == 0 || match_id == 0 {
            return None;
        }
        let found = self.find(place, match_id)?;
        let row = &mut self.rows[found.slot as usize];
        (!std::mem::replace(&mut row.is_broken, true)).then_some(*row)
    }

    /// Passes `take` the trades of an instrument's bar that were not undone, the newest first. The
    /// bar is named by its number and the count of trades taken into it; `last` is the instrument's
    /// newest trade. Returns the number of the bar's trades that are remembered, including undone
    /// ones.
    pub(super) fn walk(
        &self,
        last: Serial,
        number: u64,
        taken: u64,
        mut take: impl FnMut(&RememberedTrade),
    ) -> u64 {
        let (mut at, mut count) = (last, 0);
        while let Some(row) = self.row(at).filter(|row| row.bar.0 == number && count < taken) {
            count += 1;
            if !row.is_broken {
                take(row);
            }
            at = row.before;
        }
        count
    }

    /// Starts a new session: earlier trades can no longer be undone.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
        self.next = 1;
    }

    fn row(&self, serial: Serial) -> Option<&RememberedTrade> {
        if serial == 0 || self.capacity == 0 {
            return None;
        }
        self.rows.get(self.slot_of(serial)).filter(|row| row.serial == serial)
    }

    fn slot_of(&self, serial: Serial) -> usize {
        (serial.wrapping_sub(1) as usize) & (self.capacity - 1)
    }

    fn find(&self, place: u32, match_id: u64) -> Option<EntryLocation> {
        self.index.find(Hash::of(match_id, place), |slot| {
            let row = &self.rows[slot as usize];
            row.match_id == match_id && row.place == place
        })
    }

    fn forget(&mut self, old: &RememberedTrade, slot: Slot) {
        let hash = Hash::of(old.match_id, old.place);
        if old.match_id != 0
            && let Some(found) = self.index.find(hash, |candidate| candidate == slot)
        {
            self.index.remove(hash, found);
        }
    }
}

impl RememberedTrade {
    pub(super) fn counts_for_volume(&self) -> bool {
        !self.flags.contains(TradeFlags::NOT_VOLUME)
    }
}

impl Bar {
    /// Returns true when a trade may have set one of the bar's prices or ends.
    pub(super) fn may_rest_on(&self, trade: &RememberedTrade) -> bool {
        let prices = [self.open, self.high, self.low, self.close];
        let ends = [self.first_sequence, self.last_sequence];
        prices.contains(&Some(trade.price)) || ends.contains(&trade.sequence)
    }

    /// Puts a trade before all others in the bar: affects prices and ends only.
    pub(super) fn put_before(&mut self, trade: &RememberedTrade, is_newest: bool) {
        let price = Some(trade.price);
        if !trade.flags.contains(TradeFlags::NOT_LAST) {
            self.open = price;
            self.close = self.close.or(price);
        }
        if !trade.flags.contains(TradeFlags::NOT_HIGH_LOW) {
            self.high = self.high.max(price);
            self.low = self.low.map_or(price, |low| Some(low.min(trade.price)));
        }
        (self.ts_first, self.first_sequence) = (trade.ts, trade.sequence);
        if is_newest {
            (self.ts_last, self.last_sequence) = (trade.ts, trade.sequence);
        }
    }
}
