//! Planted bugs, which prove that the tests of subscriptions over a truncated event log, and of the
//! bounds of participants, find bugs of their kind.
//!
//! The producer of the partition's events and the bounds call [`is`] where a planted bug takes
//! effect.

weir_plant::plants! {
    /// A planted bug of durable subscriptions.
    pub enum Plant {
        /// Events that were read may go, although their messages are only in memory.
        HoldAtReadPlace,
        /// Subscribers are not told that events for them are gone.
        GapUntold,
        /// A firm's bound does not count subscriptions of its other sessions.
        FirmCountedBySession,
        /// Subscriptions of another session count for a session's bound.
        SessionCountedByFirm,
    }
}
