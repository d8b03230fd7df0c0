//! What a feed cannot have meant: named, counted, never fatal.

/// Something that cannot be if every message came and was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Anomaly {
    /// An order that does not rest was changed: nothing happened.
    UnknownOrder,
    /// An order was changed as if it were another instrument's: nothing happened.
    OtherInstrument,
    /// An order came under a number that rests: the older one is gone, the newer one rests.
    DuplicateOrder,
    /// More of an order went than was left: the order is gone.
    ExceedsOrder,
    /// A quantity of zero where there must be one. A new order does not rest, one that is changed
    /// to it is gone, an execution or a reduction changes nothing.
    ZeroSize,
    /// The bid reached the offer while the instrument trades continuously: the book stays so.
    Crossed,
    /// An update of another kind of book (by order, by price, quotes) than the instrument has:
    /// nothing happened.
    MixedKinds,
    /// A sum does not fit: a level's quantity (nothing rests then, an order that was changed is
    /// gone), or a day's turnover (the trade does not count).
    Overflow,
    /// An instrument's update without the number of one: nothing happened.
    UnknownInstrument,
    /// A trade was broken that is not known, or no more: what can be undone was.
    UnknownTrade,
    /// More orders, levels or instruments than the books may have: nothing was added.
    LimitReached,
}

impl Anomaly {
    /// All, in the order of their numbers.
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

    /// The name that counters and tools have for it.
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

    /// True when the book itself may be wrong now; false when it is the statistics alone.
    #[must_use]
    pub const fn is_of_book(self) -> bool {
        !matches!(self, Anomaly::UnknownTrade)
    }
}

/// Anomalies of one update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnomalySet(u16);

impl AnomalySet {
    /// None.
    pub const EMPTY: AnomalySet = AnomalySet(0);

    /// True for none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when this one is among them.
    #[must_use]
    pub const fn contains(self, anomaly: Anomaly) -> bool {
        self.0 & 1 << anomaly as u8 != 0
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Anomaly> {
        Anomaly::ALL.into_iter().filter(move |anomaly| self.contains(*anomaly))
    }

    pub(crate) const fn insert(&mut self, anomaly: Anomaly) {
        self.0 |= 1 << anomaly as u8;
    }
}

/// How many of each there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnomalyCounts([u64; Anomaly::ALL.len()]);

impl AnomalyCounts {
    /// How many of one.
    #[must_use]
    pub const fn of(&self, anomaly: Anomaly) -> u64 {
        self.0[anomaly as usize]
    }

    /// How many of all.
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
