//! Planted bugs, which prove that the tests of a start without all events find bugs of their kind.
//!
//! The stores call [`is`] where a planted bug takes effect. Those of the archives are in
//! `crates/cold/src/plant.rs`.

weir_plant::plants! {
    /// A planted bug of the order stores.
    pub enum Plant {
        /// A store that is rebuilt without the first events takes tokens from before them.
        RebuiltOverHole,
    }
}
