//! The order in which a partition takes commands from the rings of its sources.
//!
//! The first source is the control importer. The gateway tells of a definition only when the
//! importer has put it into that ring ([`ImportProgress`](crate::control_import::ImportProgress)),
//! so a request that names the definition is in the gateway's ring later. A partition with a thread
//! of its own looks at the two rings while both are written: it could find the first one empty and
//! then, in the second one, a request that came behind a definition.
//!
//! INVARIANT: a command of a later source is taken behind all commands of the first source that
//! were in its ring before it. So the later rings are looked at first, and their commands of that
//! time are taken behind all that the first one holds thereafter. Where a cycle cannot take all of
//! the first one, the rest comes first in the next cycle; only then are the rings looked at again,
//! so that no stream of definitions holds up the requests before it.

use crate::plant::{self, Plant};

/// The commands that a partition has seen in its sources' rings and not taken.
#[derive(Debug)]
pub(crate) struct TakeOrder {
    /// By source.
    seen: Vec<usize>,
}

impl TakeOrder {
    pub(crate) fn new(source_count: usize) -> TakeOrder {
        TakeOrder { seen: vec![0; source_count] }
    }

    /// Looks at the lengths of the rings, by `len_of`, unless commands of the first source are left
    /// from the look before.
    pub(crate) fn look(&mut self, mut len_of: impl FnMut(usize) -> usize) {
        if self.seen.first().is_some_and(|left| *left > 0) {
            return;
        }
        // SYNC: the length of a later ring is loaded before that of the first one. A request that
        // the load shows was pushed behind the definitions that it names, so they are shown too.
        for (source, seen) in self.seen.iter_mut().enumerate().rev() {
            *seen = len_of(source);
        }
        if plant::is(Plant::ImporterLookedAtFirst) {
            self.seen.iter_mut().enumerate().for_each(|(source, seen)| *seen = len_of(source));
        }
    }

    /// Returns the number of commands that may be taken from a source now.
    pub(crate) fn count_max(&self, source: usize) -> usize {
        let must_wait =
            source > 0 && self.seen[0] > 0 && !plant::is(Plant::RequestsPassDefinitions);
        if must_wait { 0 } else { self.seen[source] }
    }

    /// Records that a command of a source was taken.
    pub(crate) fn took(&mut self, source: usize) {
        self.seen[source] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: usize = 2;
    /// The places in a cycle at which other threads may run: before each look and each take.
    const PLACES: usize = 5;
    const CYCLES: usize = 3;

    /// The rings of an importer and a gateway, as counts of the commands that entered them.
    #[derive(Default)]
    struct Rings {
        pushed: [usize; 2],
        taken: [usize; 2],
    }

    impl Rings {
        /// Lets the importer and the gateway take this many steps: by turns a definition enters the
        /// first ring, and an order for it the second.
        fn advance(&mut self, steps: usize) {
            for _ in 0..steps {
                let ring = usize::from(self.pushed[0] > self.pushed[1]);
                self.pushed[ring] += 1;
            }
        }

        fn len(&self, ring: usize) -> usize {
            self.pushed[ring] - self.taken[ring]
        }
    }

    /// Runs cycles of a partition that takes at most one definition and two orders in a cycle, with
    /// `steps` of the other threads at each place. Returns the number of commands taken.
    fn run(steps: &[usize]) -> usize {
        let (mut rings, mut order) = (Rings::default(), TakeOrder::new(2));
        let mut places = steps.iter().copied();
        let mut elsewhere = |rings: &mut Rings| rings.advance(places.next().unwrap_or(0));
        for _ in 0..CYCLES + 2 * DEFINITIONS {
            order.look(|source| {
                elsewhere(&mut rings);
                rings.len(source)
            });
            for source in [0, 1, 1] {
                elsewhere(&mut rings);
                if order.count_max(source) > 0 {
                    order.took(source);
                    rings.taken[source] += 1;
                }
                assert!(
                    rings.taken[1] <= rings.taken[0],
                    "an order before its definition: {steps:?}"
                );
            }
        }
        rings.taken.iter().sum()
    }

    /// Calls `each` with every way in which `left` steps fall on the places from `at` on.
    fn spread(steps: &mut Vec<usize>, at: usize, left: usize, each: &mut impl FnMut(&[usize])) {
        if at + 1 == steps.len() {
            steps[at] = left;
            each(steps);
            return;
        }
        for here in 0..=left {
            steps[at] = here;
            spread(steps, at + 1, left - here, each);
        }
    }

    #[test]
    fn no_order_is_taken_before_its_definition_in_any_interleaving() {
        let mut count = 0;
        spread(&mut vec![0; PLACES * CYCLES], 0, 2 * DEFINITIONS, &mut |steps| {
            assert_eq!(run(steps), 2 * DEFINITIONS, "all are taken in the end: {steps:?}");
            count += 1;
        });
        assert_eq!(count, 3_060, "four steps at fifteen places");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bugs_of_the_order_are_found() {
        for bug in [Plant::ImporterLookedAtFirst, Plant::RequestsPassDefinitions] {
            let test = no_order_is_taken_before_its_definition_in_any_interleaving;
            assert!(plant::is_found(bug, test), "{bug:?}");
        }
    }

    #[test]
    fn a_stream_of_definitions_does_not_hold_up_the_orders_before_it() {
        let mut order = TakeOrder::new(2);
        let mut taken = [0, 0];
        for _ in 0..3 {
            // The importer's ring is full at each look, and the cycle takes a half of it.
            order.look(|_| 10);
            for source in [0, 1] {
                for _ in 0..order.count_max(source).min(5) {
                    order.took(source);
                    taken[source] += 1;
                }
            }
        }
        assert_eq!(taken, [15, 5]);
    }
}
