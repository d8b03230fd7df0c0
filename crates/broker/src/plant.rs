//! Planted bugs, which prove that the campaigns over the broker can find bugs of their kind.
//!
//! The broker calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the broker.
    pub enum Plant {
        /// Blocks are not synced at `disk`.
        SyncSkipped,
        /// A message is acknowledged while its block is on its way.
        AckBeforeWrite,
        /// A message given up with a subscription is acknowledged before the end is saved.
        AckBeforeEndSaved,
        /// Of the messages given up by one change only the first recorded counts, not the lowest.
        EndsTakenInOrder,
        /// Messages are written after those that an eviction lost, though a crash may revive the
        /// subscription.
        HoleBehindEviction,
        /// Parts are removed when live subscriptions have taken them, though an end is not saved.
        ReclaimedTooEarly,
        /// The limit of messages in a quota is one too high.
        QuotaOffByOne,
        /// Acknowledgements are not saved.
        CursorNotSaved,
        /// Delivered messages are saved as taken.
        CursorSavedAhead,
        /// The table is always written to the same slot.
        OneSlotOnly,
        /// An eviction is not saved.
        EvictionNotSaved,
        /// A part that was moved is still read from its old place.
        MoveNotNoted,
        /// A run reuses the message numbers of the one before.
        RunNotCounted,
        /// Messages that one of several subscriptions took are not wanted by the others after a
        /// start.
        FloorOfTheFirst,
        /// Messages grow old by their stamps, which follow the wall clock.
        AgedByStamp,
        /// Served time is not saved with the table.
        ServedNotSaved,
        /// A subscription that is due to expire expires at once.
        GraceSkipped,
        /// The terms of a creation count although they are above the configuration's.
        TermsNotCapped,
        /// A client that detaches and comes back continues after the last delivery, taken or not.
        DeliveredCountsAsTaken,
        /// A spill file that finds no descriptor stops the broker.
        NoDescriptorStops,
    }
}
