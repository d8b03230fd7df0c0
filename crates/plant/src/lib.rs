//! Planted bugs: deliberate bugs, which prove that a check finds bugs of their kind.
//!
//! A crate declares its bugs with [`plants!`] in `src/plant.rs`, has a feature `planted`, and asks
//! `plant::is(Plant::NAME)` at the place of each bug. Without the feature the answer is a constant
//! and the program contains no planted bug. `cargo run -p xtask -- plants` lists the bugs of all
//! crates; [`find_all`] shows how soon a check finds them.

/// Declares the planted bugs of a crate: an enum, all of its values as `ALL`, and the switch.
///
/// `is(plant)` returns true while the bug is planted. With the feature `planted` of the crate that
/// declares them, `set(plant)` plants a bug for the current thread, or removes it: tests run in
/// parallel, and a simulation has one thread. `is_found(plant, test)` plants it for one test.
#[macro_export]
macro_rules! plants {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])+ $plant:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])+ $plant,)+
        }

        impl $name {
            /// All planted bugs.
            pub const ALL: &'static [$name] = &[$($name::$plant),+];
        }

        #[cfg(feature = "planted")]
        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<::core::option::Option<$name>> =
                const { ::std::cell::Cell::new(::core::option::Option::None) };
        }

        /// Plants a bug for this thread, or removes it.
        #[cfg(feature = "planted")]
        pub fn set(plant: ::core::option::Option<$name>) {
            PLANTED.set(plant);
        }

        /// Returns true if a test fails while the bug is planted in its thread.
        #[cfg(feature = "planted")]
        #[must_use]
        #[allow(dead_code, reason = "some crates look for their bugs in other ways alone")]
        pub fn is_found(plant: $name, test: impl FnOnce()) -> bool {
            set(::core::option::Option::Some(plant));
            let outcome = ::std::panic::catch_unwind(::std::panic::AssertUnwindSafe(test));
            set(::core::option::Option::None);
            outcome.is_err()
        }

        /// Returns true when this bug is planted.
        #[cfg(feature = "planted")]
        #[must_use]
        pub fn is(plant: $name) -> bool {
            PLANTED.get() == ::core::option::Option::Some(plant)
        }

        /// Returns false: a program without the feature has no planted bug.
        #[cfg(not(feature = "planted"))]
        #[must_use]
        #[inline]
        pub const fn is(_: $name) -> bool {
            false
        }
    };
}

/// The seeds of a search: `starts` times `seeds_max` of them, from 1 on.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The number of starts.
    pub starts: u64,
    /// The seeds of a start, within which a bug must be found.
    pub seeds_max: u64,
}

/// Prints a row per planted bug: the median and the maximum of the seeds that a check needed to
/// find it, over all starts, and those that took more than a half of their seeds. Returns true if
/// each was found from each start.
///
/// `fails` is given the bug, true if it is planted, and a seed; it returns true if the check fails.
/// A seed at which the check fails without the bug too does not count, and is told: a false alarm
/// finds any bug. Failing assertions are the expected outcome, so their output is silenced for the
/// rest of the process.
///
/// # Panics
/// When there are no starts.
pub fn find_all<P: Copy + std::fmt::Debug>(
    plants: impl IntoIterator<Item = P>,
    search: Search,
    fails: impl Fn(P, bool, u64) -> bool,
) -> bool {
    let Search { starts, seeds_max } = search;
    assert!(starts > 0, "nothing is found without a start");
    std::panic::set_hook(Box::new(|_| {}));
    let is_found = |plant: P, seed: u64| {
        let fails_with = fails(plant, true, seed);
        let fails_without = fails_with && fails(plant, false, seed);
        if fails_without {
            println!("seed {seed} fails without {plant:?} too");
        }
        fails_with && !fails_without
    };
    let (mut are_found, mut close) = (true, Vec::new());
    println!("| planted | seeds, median | most of {starts} starts |");
    println!("| --- | ---: | ---: |");
    for plant in plants {
        let seeds = |start: u64| (1..=seeds_max).map(move |n| (n, start * seeds_max + n));
        let needed = |start| seeds(start).find(|(_, seed)| is_found(plant, *seed));
        let needed = (0..starts).map(|start| needed(start).map_or(u64::MAX, |(n, _)| n));
        let mut needed: Vec<u64> = needed.collect();
        needed.sort_unstable();
        let most = needed[needed.len() - 1];
        are_found &= most != u64::MAX;
        if most > seeds_max / 2 {
            close.push(plant);
        }
        let text = |seeds: u64| match seeds {
            u64::MAX => "not found".to_owned(),
            seeds => seeds.to_string(),
        };
        println!("| {plant:?} | {} | {} |", text(needed[needed.len() / 2]), text(most));
    }
    if !close.is_empty() {
        println!("More than a half of {seeds_max} seeds: {close:?}");
    }
    are_found
}

#[cfg(test)]
mod tests {
    use super::{Search, find_all};

    #[test]
    fn a_bug_that_one_start_does_not_find_is_not_found() {
        let search = |starts| Search { starts, seeds_max: 10 };
        let fails =
            |plant, is_planted, seed| is_planted && seed % 10 == 3 && (plant, seed) != ('b', 13);
        assert!(find_all(['a', 'c'], search(2), fails));
        assert!(!find_all(['a', 'b'], search(2), fails));
        assert!(find_all(['a', 'b'], search(1), fails));
    }

    #[test]
    fn a_check_that_fails_without_the_bug_too_finds_nothing() {
        let search = Search { starts: 1, seeds_max: 10 };
        let alarms = |also_at: u64| {
            move |_: char, is_planted: bool, seed: u64| seed == 2 || is_planted && seed == also_at
        };
        assert!(!find_all(['a'], search, alarms(2)));
        assert!(find_all(['a'], search, alarms(7)));
    }

    plants! {
        /// Bugs for the tests below.
        pub enum Plant {
            /// The first.
            First,
            /// The second.
            Second,
        }
    }

    #[cfg(not(feature = "planted"))]
    #[test]
    fn nothing_is_planted_without_the_feature() {
        const IS_PLANTED: bool = is(Plant::First) || is(Plant::Second);
        const { assert!(!IS_PLANTED) };
        assert_eq!(Plant::ALL, [Plant::First, Plant::Second]);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn one_bug_is_planted_in_one_thread_until_it_is_removed() {
        set(Some(Plant::Second));
        assert_eq!(Plant::ALL.iter().map(|plant| is(*plant)).collect::<Vec<_>>(), [false, true]);
        let elsewhere = std::thread::spawn(|| is(Plant::Second)).join();
        assert!(!elsewhere.expect("it answers"));
        set(None);
        assert!(!is(Plant::Second));
        assert!(is_found(Plant::First, || assert!(!is(Plant::First))));
        assert!(!is_found(Plant::First, || assert!(!is(Plant::Second))));
        assert!(!is(Plant::First), "it is removed, also behind a test that failed");
    }
}
