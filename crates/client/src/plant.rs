//! Planted bugs, which prove that the tests of recorded order flow find bugs of their kind.
//!
//! [`flow`](crate::flow) calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the client.
    pub enum Plant {
        /// A deletion of a part of an anonymous seed deletes the whole seed.
        DeletionOfPartDeletes,
    }
}
