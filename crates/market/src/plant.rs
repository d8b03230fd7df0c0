//! Planted bugs, which prove that the tests of subscribing and leaving, and those of published
//! phases, find bugs of their kind.
//!
//! Both stages of [conflation](crate::conflate) and the [publication](crate::publish) call [`is`]
//! where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of conflation, or of the publication.
    pub enum Plant {
        /// An instrument that is defined later takes a slot without a claim.
        GrowthUnclaimed,
        /// A subscription that ends keeps the slots of its instruments.
        EndKeepsSlots,
        /// A listener that takes the place of one that left is not told its new place.
        PlaceNotMoved,
        /// Messages of a subscription that has ended are sent until it has left its instruments.
        EndedIsSent,
        /// A session has its turn until its work is done.
        TurnWithoutEnd,
        /// A cycle takes all steps that there are.
        CycleWithoutEnd,
        /// A subscription that joins an instrument which others have does not get its state.
        LateWithoutState,
        /// Subscriptions do not follow definitions behind their beginning.
        GrowthForgotten,
        /// An instrument that was defined anew is included at its old place too.
        OldPlaceFollowed,
        /// An entry of an interest that has ended is the state of the next one.
        EarlierInterestHeard,
        /// A topic keeps its first state: a subscription that joins it misses the changes since.
        FirstStateKept,
        /// A session goes on with work that it owes for.
        DebtIgnored,
        /// A status whose latest change is queued is told to a new subscriber behind that change.
        MarkerBehindStatus,
        /// A published instrument keeps the cause of the change before.
        CauseOfTheChangeBefore,
    }
}
