//! Anomalies: updates that a correct feed cannot send. They are named and counted, never fatal.

/// A contradiction that is impossible if every message arrived and was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Anomaly {
    /// A change of an order that does not rest; ignored.
    UnknownOrder,
    /// A change that named an order of another instrument; ignored.
    OtherInstrument,
    /// A new order under a number that already rests; the older order is removed, the newer one
    /// rests.
    DuplicateOrder,
    /// More of an order was removed than was left; the order is removed.
    ExceedsOrder,
    /// A quantity of zero where one is required. A new order does not rest, an order changed to
    /// zero is removed, an execution or a reduction changes nothing.
    ZeroSize,
    /// The bid reached the offer during continuous trading; the book stays crossed.
    Crossed,
    /// An update for another kind of book (by order, by price, quotes) than the instrument has;
    /// ignored.
    MixedKinds,
    /// A sum overflowed: a level's quantity (a new order does not rest, a changed order is removed)
    /// or a day's turnover (the trade does not count).
    Overflow,
    /// An instrument's update without an instrument number; ignored.
    UnknownInstrument,
    /// A break of a trade that is not remembered; undone as far as possible.
    UnknownTrade,
    /// More orders, levels or instruments than the books may hold; nothing was added.
    LimitReached,
}

impl Anomaly {
    /// All anomalies, in the order of their numbers.
    pub const ALL: [Anomaly; 11] = [
        Anomaly::UnknownOrder,
        Anomaly::OtherInstrument,
        Anomaly::DuplicateOrder,
        Anomaly::ExceedsOrder,
        Anomaly::ZeroSize,
        Anomaly::Crossed,
        Anomaly::MixedKinds,
        Anomaly::Overflow,
        Anomaly::UnknownInstrument,
        Anomaly::UnknownTrade,
        Anomaly::LimitReached,
    ];

    /// Returns the name used by counters and tools.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Anomaly::UnknownOrder => "unknown_order",
            Anomaly::OtherInstrument => "other_instrument",
            Anomaly::DuplicateOrder => "duplicate_order",
            Anomaly::ExceedsOrder => "exceeds_order",
            Anomaly::ZeroSize => "zero_size",
            Anomaly::Crossed => "crossed",
            Anomaly::MixedKinds => "mixed_kinds",
            Anomaly::Overflow => "overflow",
            Anomaly::UnknownInstrument => "unknown_instrument",
            Anomaly::UnknownTrade => "unknown_trade",
            Anomaly::LimitReached => "limit_reached",
        }
    }

    /// Returns true when the book itself may now be wrong; false when only the statistics may be.
    #[must_use]
    pub const fn is_of_book(self) -> bool {
        !matches!(self, Anomaly::UnknownTrade)
    }
}

/// The set of anomalies of one update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnomalySet(u16);

impl AnomalySet {
    /// The empty set.
    pub const EMPTY: AnomalySet = AnomalySet(0);

    /// Returns true for the empty set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true when the set contains this anomaly.
    #[must_use]
    pub const fn contains(self, anomaly: Anomaly) -> bool {
        self.0 & 1 << anomaly as u8 != 0
    }

    /// Iterates over the anomalies of the set.
    pub fn iter(self) -> impl Iterator<Item = Anomaly> {
        Anomaly::ALL.into_iter().filter(move |anomaly| self.contains(*anomaly))
    }

    pub(crate) const fn insert(&mut self, anomaly: Anomaly) {
        self.0 |= 1 << anomaly as u8;
    }
}

/// Counters of anomalies by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnomalyCounts([u64; Anomaly::ALL.len()]);

impl AnomalyCounts {
    /// Returns the count of one kind.
    #[must_use]
    pub const fn of(&self, anomaly: Anomaly) -> u64 {
        self.0[anomaly as usize]
    }

    /// Returns the count of all kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn count(&mut self, set: AnomalySet) {
        for anomaly in set.iter() {
            let count = &mut self.0[anomaly as usize];
            *count = count.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anomalies_are_listed_in_the_order_of_their_numbers() {
        for (number, anomaly) in Anomaly::ALL.into_iter().enumerate() {
            assert_eq!(anomaly as usize, number, "{}", anomaly.name());
        }
    }

    #[test]
    fn each_anomaly_of_an_update_is_counted_once() {
        let mut set = AnomalySet::EMPTY;
        set.insert(Anomaly::Crossed);
        set.insert(Anomaly::Crossed);
        set.insert(Anomaly::LimitReached);
        let mut counts = AnomalyCounts::default();
        counts.count(set);
        counts.count(AnomalySet::EMPTY);
        assert_eq!(counts.of(Anomaly::Crossed), 1);
        assert_eq!(counts.of(Anomaly::LimitReached), 1);
        assert_eq!((counts.of(Anomaly::UnknownOrder), counts.total()), (0, 2));
        assert_eq!(set.iter().count(), 2);
    }
}
