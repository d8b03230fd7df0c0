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

/// Prints a row per planted bug: the median and the maximum of the seeds that a check needed to
/// find it, over all starts. Returns true if each was found from each start.
///
/// `seeds_needed` is given the bug and the number of the start, from zero; it returns `None` for a
/// bug that was not found. Failing assertions are the expected outcome, so their output is silenced
/// for the rest of the process.
///
/// # Panics
/// When there are no starts.
pub fn find_all<P: Copy + std::fmt::Debug>(
    plants: impl IntoIterator<Item = P>,
    starts: u64,
    seeds_needed: impl Fn(P, u64) -> Option<u64>,
) -> bool {
    assert!(starts > 0, "nothing is found without a start");
    std::panic::set_hook(Box::new(|_| {}));
    let mut are_found = true;
    println!("| planted | seeds, median | most of {starts} starts |");
    println!("| --- | ---: | ---: |");
    for plant in plants {
        let needed = (0..starts).map(|start| seeds_needed(plant, start).unwrap_or(u64::MAX));
        let mut needed: Vec<u64> = needed.collect();
        needed.sort_unstable();
        let most = needed[needed.len() - 1];
        are_found &= most != u64::MAX;
        let text = |seeds: u64| match seeds {
            u64::MAX => "not found".to_owned(),
            seeds => seeds.to_string(),
        };
        println!("| {plant:?} | {} | {} |", text(needed[needed.len() / 2]), text(most));
    }
    are_found
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bug_that_one_start_does_not_find_is_not_found() {
        let needed = |plant, start| (plant != 'b' || start != 1).then_some(3);
        assert!(super::find_all(['a', 'c'], 2, needed));
        assert!(!super::find_all(['a', 'b'], 2, needed));
        assert!(super::find_all(['a', 'b'], 1, needed));
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
