//! Planted bugs: deliberate bugs, which prove that a check finds bugs of their kind.
//!
//! A crate declares its bugs with [`plants!`] in `src/plant.rs`, has a feature `planted`, and asks
//! `plant::is(Plant::NAME)` at the place of each bug. Without the feature the answer is a constant
//! and the program contains no planted bug. `cargo run -p xtask -- plants` lists the bugs of all
//! crates.

/// Declares the planted bugs of a crate: an enum, all of its values as `ALL`, and the switch.
///
/// `is(plant)` returns true while the bug is planted. With the feature `planted` of the crate that
/// declares them, `set(plant)` plants a bug for the current thread, or removes it: tests run in
/// parallel, and a simulation has one thread.
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

#[cfg(test)]
mod tests {
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
    }
}
