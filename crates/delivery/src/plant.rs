//! Planted bugs, which prove that the tests of stores and routers find bugs of their kind.
//!
//! The router and the desk call [`is`] where a planted bug takes effect.

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
    }
}
