//! Planted bugs, which prove that the tests of a published market's checkpoints find bugs of their
//! kind.
//!
//! The checkpoints and their agent call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the published market.
    pub enum Plant {
        /// A checkpoint is used although its epoch has lost its last events.
        MarketOfLostEvents,
        /// A start begins with the newest of two checkpoints.
        NewestMarketFirst,
        /// Events since the older of two checkpoints may go.
        MarketHoldsSinceNewest,
        /// A checkpoint that cannot be written holds the events for as long as that lasts.
        FailedMarketHoldsEvents,
    }
}
