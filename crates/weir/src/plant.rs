//! Planted bugs, which prove that the tests of the command line find bugs of their kind.
//!
//! The question before dangerous commands, `weir certificate` and the definitions of instruments by
//! commands call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the command line.
    pub enum Plant {
        /// A change for later that stops all instruments is filed without a question.
        ScheduledStopUnasked,
        /// All filed changes are forgotten without a question.
        ClearUnasked,
        /// A calendar replaces the filed changes without a question.
        ReplaceUnasked,
        /// The question before a calendar that replaces has no number of the changes that go.
        ForgottenUncounted,
        /// The question before a bust has the trade's number alone.
        BustUnseen,
        /// `weir certificate` writes over the authority that is there.
        AuthorityReplaced,
        /// The largest order of a recording's instruments is 2^40 lots, however small its orders.
        ReplayUnbounded,
        /// An instrument that the published market leaves out is defined without a note.
        UnfitUntold,
    }
}
