//! Bugs to be planted in the link, for the checks to find.

weir_plant::plants! {
    /// A bug of a link's end.
    pub enum Plant {
        /// Commands without an answer are dropped when the link is lost.
        KeptDropped,
        /// They are sent again before the events at which the link opened.
        KeptSentEarly,
        /// The partition hands on a request that is under way.
        UnderWayHandedOn,
        /// A request that was settled since the opening of the link is handed on again.
        SettledForgotten,
        /// A refusal is passed on to a binding under which no copy of the request came.
        RefusalPassedOn,
        /// A continued link begins one record late.
        BeginsLate,
        /// Records are skipped for a session from one record too many on.
        BoundLate,
        /// Events flow before all sessions are named.
        EventsBeforeNames,
        /// The epoch of a resume point is not compared.
        EpochIgnored,
        /// The choice enters behind the first request.
        ChoiceLate,
        /// The lease is counted from the opening of the link.
        LeaseFromOpening,
        /// A lapsed lease ends bindings and sequences nothing.
        LapseUnsequenced,
        /// The gateway keeps its commands beyond the lease.
        LapseUnnoticed,
        /// The partition forgets the generation of a binding that has ended.
        EndForgotten,
        /// Sessions that were not named stay bound.
        UnnamedKept,
        /// A move to another gateway sequences the loss.
        MoveLoses,
        /// The partition is not told of a session that moved while the link was away.
        MoveForgotten,
        /// A lower generation binds.
        LowerGenerationBinds,
        /// A command is taken from a gateway to which its session is not bound.
        UnboundCommandTaken,
        /// A session whose rights are taken away stays bound.
        RightsKept,
        /// A seal is not compared.
        SealIgnored,
        /// The credit of events is not counted.
        CreditIgnored,
        /// Commands and events take the place of pulses.
        PulsesDeferred,
    }
}
