//! Messages that a crash would take from the broker, with the records that they come from.
//!
//! One message that waits for an absent client keeps all later ones here, however many of them are
//! taken. So their number is bounded: neighbours are merged when there are too many, and a range of
//! messages then counts as unsettled until its last one is settled. All ranges are equally wide.
//!
//! ```text
//! ranges    | m1..m4: r1 | m5..m9: r5 | m10: r10 |
//!                                      settled up to m7: the first record needed is r5
//! ```
//! INVARIANT: messages and records ascend, and no record is needed before the first range's.

use std::collections::VecDeque;

use weir_broker::MessageNo;

/// The maximum number of ranges: 1 MiB.
const RANGES_MAX: usize = 65_536;

/// Successive messages.
#[derive(Debug)]
struct Range {
    /// The last message.
    last: MessageNo,
    /// The record of the first one.
    record: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Unsettled {
    ranges: VecDeque<Range>,
    /// The number of messages of a whole range.
    width: u64,
    /// The number of messages of the newest range.
    newest_count: u64,
}

impl Default for Unsettled {
    fn default() -> Unsettled {
        Unsettled { ranges: VecDeque::new(), width: 1, newest_count: 0 }
    }
}

impl Unsettled {
    /// Adds a message of a record; both are later than those before, or the record is the same.
    pub(super) fn push(&mut self, no: MessageNo, record: u64) {
        match self.ranges.back_mut() {
            Some(range) if range.record == record || self.newest_count < self.width => {
                range.last = no;
                self.newest_count += 1;
            }
            _ => {
                self.ranges.push_back(Range { last: no, record });
                self.newest_count = 1;
            }
        }
        if self.ranges.len() > RANGES_MAX {
            self.merge();
        }
    }

    /// Merges each range with the one behind it, but for the newest of an odd number.
    fn merge(&mut self) {
        let mut index = 0;
        let lasts: Vec<_> = self.ranges.iter().skip(1).step_by(2).map(|one| one.last).collect();
        self.ranges.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        for (range, last) in self.ranges.iter_mut().zip(lasts) {
            range.last = last;
        }
        self.width *= 2;
    }

    /// Removes messages up to a number.
    pub(super) fn settle(&mut self, settled: MessageNo) {
        while self.ranges.front().is_some_and(|range| range.last <= settled) {
            self.ranges.pop_front();
        }
        if self.ranges.is_empty() {
            self.width = 1;
        }
    }

    /// Removes the ranges that begin with a record from `first_again` on.
    pub(super) fn go_back_to(&mut self, first_again: u64) {
        self.ranges.retain(|range| range.record < first_again);
        self.newest_count = self.width;
    }

    /// Returns the first record of which a message is unsettled.
    pub(super) fn first_record(&self) -> Option<u64> {
        self.ranges.front().map(|range| range.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_needed_until_all_messages_from_it_on_are_settled() {
        let mut unsettled = Unsettled::default();
        assert_eq!(unsettled.first_record(), None);
        // Two messages of each record.
        for no in 0..20 {
            unsettled.push(MessageNo(10 + no), 100 + no / 2);
        }
        for (settled, first) in [(9, 100), (10, 100), (11, 101), (26, 108), (27, 109), (28, 109)] {
            unsettled.settle(MessageNo(settled));
            assert_eq!(unsettled.first_record(), Some(first), "{settled}");
        }
        unsettled.go_back_to(110);
        assert_eq!(unsettled.first_record(), Some(109));
        unsettled.go_back_to(109);
        assert_eq!(unsettled.first_record(), None);
    }

    #[test]
    fn messages_behind_one_that_waits_take_bounded_memory_and_none_is_lost_sight_of() {
        let mut unsettled = Unsettled::default();
        let count = 5 * RANGES_MAX as u64 + 3;
        for no in 1..=count {
            unsettled.push(MessageNo(no), 7 * no);
            assert_eq!(unsettled.first_record(), Some(7));
            assert!(unsettled.ranges.len() <= RANGES_MAX, "{}", unsettled.ranges.len());
        }
        for settled in (0..count).step_by(10_007) {
            unsettled.settle(MessageNo(settled));
            let first = unsettled.first_record().expect("the last one is unsettled");
            let is_near = (7 * (settled + 1)).saturating_sub(first) <= 7 * 32;
            assert!(first <= 7 * (settled + 1) && is_near, "{settled}: {first}");
        }
        unsettled.settle(MessageNo(count));
        assert_eq!(unsettled.first_record(), None);
    }
}
