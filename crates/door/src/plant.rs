//! Planted bugs, which prove that the simulation of the order path, and the tests of the listener,
//! find bugs of their kind.
//!
//! The door calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the door.
    pub enum Plant {
        /// An accept that found no descriptor is not tried again before the next connection.
        AcceptsEndWithoutDescriptors,
        /// The newest stranger or handshake of a host makes place, not its oldest.
        NewestMakesPlace,
        /// A frame that waits is tried behind those that came later.
        LaterFramesFirst,
        /// A listener's protocol is not told of an end before the farewell is read.
        EndUntold,
    }
}
