//! Planted bugs, which prove that the tests of secrets find bugs of their kind.
//!
//! The reader of secrets calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of files with secrets.
    pub enum Plant {
        /// A secret is taken from a file that others can read.
        ModeIgnored,
    }
}
