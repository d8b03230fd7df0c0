//! Planted bugs, which prove that the simulation of the order path finds bugs of their kind.
//!
//! The gateway calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the gateway.
    pub enum Plant {
        /// A report that finds no room counts as sent.
        ReportSkippedWhenFull,
        /// The end of a session with cancel-on-disconnect is not submitted.
        SessionLossForgotten,
        /// A session's choice of cancel-on-disconnect is not submitted.
        ChoiceForgotten,
        /// A logon without cancel-on-disconnect does not revoke an earlier choice.
        ChoiceNotRevoked,
        /// Sessions that do not return after a start keep their orders.
        AbsentNeverLost,
        /// A session that returned in time after a start is lost all the same.
        ReturnedLostAnyway,
        /// A second logon takes the session over unasked, and the old connection keeps it too.
        TakeoverKeepsOldConnection,
        /// A logon ends its session on another connection before its credential is checked.
        TakeoverBeforeProof,
        /// A session is taken over as often as logons ask for it.
        TakeoverUnbounded,
        /// A logon on a connection that is older than the session's logon takes the session over.
        TakeoverByOldConnection,
        /// A full window has no place for a request that is sent again.
        RepeatsRefused,
        /// A request that is sent again while it is under way is handed over again.
        RepeatsHandedOver,
        /// A request that its log refuses is refused on a connection by which it did not come.
        RefusedOnAnotherConnection,
        /// A request that no log took counts as received.
        RefusedCountsAsReceived,
        /// A firm's desk gets the reports of all firms.
        CopiesOfAllFirms,
        /// A copy that finds no room counts as sent.
        CopySkippedWhenFull,
        /// A connection that can be written again is not written.
        FlushForgotten,
        /// Sessions that were behind are not caught up when their connection has room.
        CatchUpForgotten,
        /// The newcomers are not told of a session's definition.
        DefinitionNotHandedOn,
        /// A connection's deadline is not set again.
        DeadlineForgotten,
        /// A session whose old events were read from files is not caught up further.
        HistoryAnswerForgotten,
        /// The silence of a session is measured by the wall clock.
        SilenceByWallClock,
        /// Heartbeats are due by the wall clock.
        HeartbeatsByWallClock,
        /// The newcomer, not the oldest stranger, is turned away from a full door.
        NewcomerTurnedAway,
        /// The silence of a session counts while its messages wait for room.
        SilenceWhileWaiting,
        /// A session whose messages wait for room gets no heartbeats.
        NoHeartbeatsWhileWaiting,
        /// The end of a session whose connection lives on is not handed to the store of order
        /// state.
        EndUntoldToStore,
        /// The control log's events are read ahead of the importer.
        ControlReadAhead,
        /// A request is handed over ahead of definitions that it may name.
        DefinitionsUnawaited,
        /// A partition that stands holds up the requests to the others.
        StandstillUnnoticed,
    }
}
