//! Planted bugs, which prove that the tests of stores, of routers and of outside cores' streams
//! find bugs of their kind.
//!
//! The router, the desk, the stream and the store call [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of order state.
    pub enum Plant {
        /// A replica of another log than the master's is not at fault.
        ForeignReplicaServes,
        /// The master is judged by the log that a replica showed before it.
        MasterJudgedByReplica,
        /// Replicas without a master never go over to another log.
        ReplicasKeepFirstLog,
        /// A store of no log counts as one of another log.
        NoLogIsAnother,
        /// A token of another log is taken.
        TokenOfOtherLogTaken,
        /// A session continues and cancels the fetches of the other sessions of its connection.
        ForeignContinuationTaken,
        /// The numbers of rows are not bounded.
        NumbersUnbounded,
        /// The last epoch of its type is opened.
        EpochUnbounded,
        /// A batch that comes again is not compared with the one that was taken.
        RepeatsNotCompared,
        /// A batch is taken when there is room for its first row.
        RoomForOneRow,
        /// A jump of record numbers is measured from the store's highest, not from the rows before.
        JumpOfRowsMissed,
        /// After a failure of the store, rows at places that it had taken are taken again.
        PlacesForgotten,
        /// After a failure of the store, tokens from before it are honoured.
        TokensHonoured,
        /// After a failure of the store, the highest record number so far is forgotten.
        HighestForgotten,
        /// The opening after a failure of the store is kept with its valid place.
        FailureNotKept,
        /// The end of an order makes place for a row of another order with its number.
        EndOfOtherOverwritten,
        /// A full resend may give any record's number to another order.
        NumbersGivenAway,
        /// The deletion of a record sets its number free.
        NumbersOfDeletedFree,
        /// The numbers of a history that is void are never free.
        VoidNumbersKept,
        /// A number that came to another order stays free.
        NumbersStayFree,
        /// Voiding that goes on after a start, or for another epoch, takes its cursor for the last
        /// valid place.
        ValidPlaceForgotten,
    }
}
