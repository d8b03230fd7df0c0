//! The pair that identifies a change of order state at its source.

use crate::{Rec, Seq};

/// A change of order state at its source: the pair only increases. The default is before the first
/// change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId {
    /// The change's number.
    pub seq: Seq,
    /// The record's number.
    pub rec: Rec,
}

impl ChangeId {
    /// The id before the first change, at which a reader without a token starts.
    pub const START: ChangeId = ChangeId { seq: Seq(0), rec: Rec(0) };

    /// Returns the id of `rec`'s change `seq`.
    #[must_use]
    pub const fn new(seq: Seq, rec: Rec) -> ChangeId {
        ChangeId { seq, rec }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_the_change_then_the_record() {
        let id = |seq, rec| ChangeId::new(Seq(seq), Rec(rec));
        assert_eq!(ChangeId::default(), ChangeId::START);
        assert!(ChangeId::START < id(0, 1));
        assert!(id(1, 9) < id(2, 1) && id(2, 1) < id(2, 2));
    }
}
