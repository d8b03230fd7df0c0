//! The epochs of a history, and the part of each that survives.
//!
//! An ended epoch has a last valid point: a position of a log, or a change of a source. The entries
//! behind it are lost, and their numbers are assigned again in a later epoch. A later loss may
//! reach back behind the ends of earlier epochs, and shortens those too:
//!
//! ```text
//! surviving part of e  =  up to the least last valid point of all ended epochs from e on
//! ```
//!
//! All views of a history use [`Epochs`] for this rule; none has a copy of it. INVARIANT: epochs
//! ascend to the current one, and the points up to which they survive never descend.

use crate::id::Epoch;

/// The surviving part of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Survival<P> {
    /// All of it: the epoch is the current one.
    Whole,
    /// The part up to this point.
    UpTo(P),
    /// Unknown: the epoch belongs to another history, or is older than those that are kept.
    Unknown,
}

/// The epochs of a history: the current one, and the ended ones with their surviving parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs<P> {
    ended: Vec<(Epoch, P)>,
    current: Epoch,
}

impl<P: Copy + Ord> Epochs<P> {
    /// Returns a history in its first known epoch.
    #[must_use]
    pub fn new(current: Epoch) -> Epochs<P> {
        Epochs { ended: Vec::new(), current }
    }

    /// Returns a history in `current` after the `ended` epochs, oldest first, each with its last
    /// valid point as it was recorded when the epoch ended.
    ///
    /// # Panics
    /// When the epochs do not ascend to the current one.
    #[must_use]
    pub fn with_ended(current: Epoch, ended: impl IntoIterator<Item = (Epoch, P)>) -> Epochs<P> {
        let mut ended = ended.into_iter().peekable();
        let first = ended.peek().map_or(current, |(epoch, _)| *epoch);
        let mut epochs = Epochs::new(first);
        while let Some((_, last_valid)) = ended.next() {
            let next = ended.peek().map_or(current, |(epoch, _)| *epoch);
            epochs.end(last_valid, next);
        }
        epochs
    }

    /// Ends the current epoch at its last valid point and begins `next`. The loss is carried back
    /// to the earlier epochs that survived beyond that point.
    ///
    /// # Panics
    /// When `next` is not after the current epoch.
    pub fn end(&mut self, last_valid: P, next: Epoch) {
        assert!(next > self.current, "epochs ascend to the current one");
        let earlier = self.ended.iter_mut().rev();
        for (_, survives_to) in earlier.take_while(|(_, survives_to)| *survives_to > last_valid) {
            *survives_to = last_valid;
        }
        self.ended.push((self.current, last_valid));
        self.current = next;
    }

    /// Forgets the oldest ended epochs until at most `count_max` are known.
    pub fn keep_newest(&mut self, count_max: usize) {
        let excess = self.ended.len().saturating_sub(count_max);
        self.ended.drain(..excess);
    }

    /// Returns the current epoch.
    #[must_use]
    pub fn current(&self) -> Epoch {
        self.current
    }

    /// Returns the oldest known epoch.
    #[must_use]
    pub fn first(&self) -> Epoch {
        self.epoch(0)
    }

    /// Returns the known epoch with this index, oldest first; the current one behind the last.
    #[must_use]
    pub fn epoch(&self, index: usize) -> Epoch {
        self.ended.get(index).map_or(self.current, |(epoch, _)| *epoch)
    }

    /// Returns the ended epochs, oldest first, each with the point up to which it survives.
    #[must_use]
    pub fn ended(&self) -> &[(Epoch, P)] {
        &self.ended
    }

    /// Returns the index of a known ended epoch.
    #[must_use]
    pub fn index_of(&self, epoch: Epoch) -> Option<usize> {
        self.ended.binary_search_by_key(&epoch, |(epoch, _)| *epoch).ok()
    }

    /// Returns the surviving part of an epoch.
    pub fn survival(&self, epoch: Epoch) -> Survival<P> {
        if epoch == self.current {
            return Survival::Whole;
        }
        match self.index_of(epoch) {
            Some(index) => Survival::UpTo(self.ended[index].1),
            None => Survival::Unknown,
        }
    }

    /// Returns true when `epoch` is known and `point` lies within its surviving part.
    #[must_use]
    pub fn has(&self, epoch: Epoch, point: P) -> bool {
        match self.survival(epoch) {
            Survival::Whole => true,
            Survival::UpTo(end) => point <= end,
            Survival::Unknown => false,
        }
    }

    /// Returns the epoch of the entry that is at `point` now.
    #[must_use]
    pub fn epoch_at(&self, point: P) -> Epoch {
        self.epoch(self.ended.partition_point(|(_, survives_to)| *survives_to < point))
    }
}

#[cfg(test)]
mod tests {
    //! Comparison with a model that keeps the recorded ends and looks at all of them for each
    //! question.

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The recorded ends, oldest first, and the current epoch.
    #[derive(Clone, Debug)]
    struct Model {
        ended: Vec<(Epoch, u64)>,
        current: Epoch,
    }

    impl Model {
        fn survival(&self, epoch: Epoch) -> Survival<u64> {
            let since = self.ended.iter().filter(|(ended, _)| *ended >= epoch);
            match self.ended.iter().any(|(ended, _)| *ended == epoch) {
                _ if epoch == self.current => Survival::Whole,
                true => Survival::UpTo(since.map(|(_, end)| *end).min().expect("its own at least")),
                false => Survival::Unknown,
            }
        }

        fn epoch_at(&self, point: u64) -> Epoch {
            let survives = |epoch: &Epoch| match self.survival(*epoch) {
                Survival::Whole => true,
                Survival::UpTo(end) => point <= end,
                Survival::Unknown => false,
            };
            let known = self.ended.iter().map(|(epoch, _)| *epoch).chain([self.current]);
            known.into_iter().find(survives).expect("the current one at least")
        }
    }

    /// Returns ends in any order of their points, equal ones and empty epochs among them, with the
    /// numbers of epochs that were skipped before each.
    fn ends() -> impl Strategy<Value = Vec<(u32, u64)>> {
        vec((1..4_u32, 0..12_u64), 0..9)
    }

    fn model_of(ends: &[(u32, u64)]) -> Model {
        let mut current = Epoch(1);
        let mut ended = Vec::new();
        for (skipped, last_valid) in ends {
            ended.push((current, *last_valid));
            current = Epoch(current.0 + skipped);
        }
        Model { ended, current }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn an_epoch_survives_to_the_least_end_from_it_on(ends in ends()) {
            let model = model_of(&ends);
            let epochs = Epochs::with_ended(model.current, model.ended.clone());
            prop_assert_eq!(epochs.current(), model.current);
            for epoch in (0..=model.current.0 + 2).map(Epoch) {
                prop_assert_eq!(epochs.survival(epoch), model.survival(epoch), "{}", epoch);
            }
            for point in 0..14 {
                prop_assert_eq!(epochs.epoch_at(point), model.epoch_at(point), "at {}", point);
            }
        }

        #[test]
        fn ends_one_by_one_are_the_same_as_all_at_once(ends in ends(), kept in 0..9_usize) {
            let model = model_of(&ends);
            let all = Epochs::with_ended(model.current, model.ended.clone());
            let mut epochs = Epochs::new(Epoch(1));
            for (index, (_, last_valid)) in model.ended.iter().enumerate() {
                let next = model.ended.get(index + 1).map_or(model.current, |(epoch, _)| *epoch);
                epochs.end(*last_valid, next);
            }
            prop_assert_eq!(&epochs, &all);
            epochs.keep_newest(kept);
            let forgotten = model.ended.len().saturating_sub(kept);
            for (index, (epoch, _)) in model.ended.iter().enumerate() {
                let survival = epochs.survival(*epoch);
                let expected = model.survival(*epoch);
                let is_kept = index >= forgotten;
                prop_assert_eq!(survival, if is_kept { expected } else { Survival::Unknown });
            }
        }
    }

    #[test]
    #[should_panic(expected = "epochs ascend")]
    fn an_epoch_never_begins_twice() {
        let _ = Epochs::with_ended(Epoch(2), [(Epoch(2), 5_u64)]);
    }
}
