//! Planted bugs, which prove that the tests of a published market's checkpoints, and of a gateway's
//! figures, find bugs of their kind.
//!
//! The checkpoints, their agent and the figures call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the published market or of a gateway.
    pub enum Plant {
        /// A checkpoint is used although its epoch has lost its last events.
        MarketOfLostEvents,
        /// A start begins with the newest of two checkpoints.
        NewestMarketFirst,
        /// Events since the older of two checkpoints may go.
        MarketHoldsSinceNewest,
        /// A checkpoint that cannot be written holds the events for as long as that lasts.
        FailedMarketHoldsEvents,
        /// The messages that all channels have given up are added without a bound.
        LostSumUnbounded,
    }
}
