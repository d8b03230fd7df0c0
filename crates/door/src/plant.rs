//! Planted bugs, which prove that the simulation of the order path finds bugs of their kind.
//!
//! The door calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the door.
    pub enum Plant {
        /// An accept that found no descriptor is not tried again before the next connection.
        AcceptsEndWithoutDescriptors,
    }
}
