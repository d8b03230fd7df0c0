//! Planted bugs, which prove that the tests of readers' places find bugs of their kind.
//!
//! The places and the agent call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of order state over HTTP.
    pub enum Plant {
        /// A reader leaves its place with its key, though its connection is still open.
        PlaceLeftWithTheKey,
        /// A socket that has subscribed still makes place for newcomers.
        SubscriberMakesPlace,
        /// A session has as many places as there are.
        SessionUnbounded,
        /// A reader goes on behind the end of its key.
        ReaderOutlivesItsKey,
    }
}
