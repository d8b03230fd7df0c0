//! Planted bugs, which prove that the tests of cold reads can find bugs of their kind.
//!
//! The archive, and the node's ends of it, call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the archive or of the code between it and the order store.
    pub enum Plant {
        /// A file is removed and the floor is not raised.
        FloorNotRaised,
        /// A segment's age counts from the times of its changes.
        AgedByChanges,
        /// A damaged file is skipped as if it had been empty.
        DamagePassedOver,
        /// Changes that begin after a hole are taken as if none were missing.
        HoleNotNoted,
        /// The last change of a segment is not written.
        LastChangeLost,
        /// A merge keeps an order's first state in the place of its last.
        MergeKeepsFirst,
        /// A row that changed again later is served all the same.
        HistoryTold,
        /// The reader's filter does not reach the archive.
        FilterDropped,
        /// A read is answered before the changes handed over ahead of it are taken.
        AnsweredBeforeTaken,
        /// Changes that the store removed before they were handed over are not reported as missing.
        HoleNotTold,
        /// A reader goes on at the store's floor, regardless of the archive's end.
        SeamSkipped,
        /// An ask whose reader has gone gets no answer.
        ForgottenUnanswered,
        /// After a start the archive is fed from the store's head on.
        StartFedFromHead,
        /// The store removes changes that were not handed over.
        FloorNotHeld,
        /// A snapshot gets its name although changes that its store removed are in no file.
        SnapshotNotHeld,
        /// The archive is not told of a source's new epoch.
        EpochNotTold,
        /// The archive is sent ends of orders that their source has disowned.
        FedWhileVoiding,
        /// A read is answered before all changes of a full resend were handed over.
        AnsweredBeforeResent,
    }
}
