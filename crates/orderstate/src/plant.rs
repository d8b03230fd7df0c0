//! Planted bugs, which prove that the tests of a start without all events, of outside sources and
//! of the instruments' state find bugs of their kind.
//!
//! The stores and the markets call [`is`] where a planted bug takes effect. Those of the archives
//! are in `crates/cold/src/plant.rs`.

weir_plant::plants! {
    /// A planted bug of the order stores.
    pub enum Plant {
        /// A store that is rebuilt without the first events takes tokens from before them.
        RebuiltOverHole,
        /// The store of an outside source that failed keeps its readers waiting.
        ReadersKept,
        /// Readers who wait are served while a full resend is awaited, or runs.
        ServedDuringResends,
        /// A batch that waits for a log is acknowledged although a write of the log failed.
        FailedWriteAcknowledged,
        /// A source that failed is not told as quarantined.
        FailureNotTold,
        /// An operator's reset of a source is not in its log.
        ResetNotKept,
        /// The log of a source that cannot be replayed ends the start of the node.
        FaultEndsStart,
        /// An instrument's row keeps the cause of the change before.
        CauseOfTheChangeBefore,
        /// A snapshot of the instruments' state omits the causes of the phases.
        CauseForgottenAtRestart,
        /// While a request to one source waits, none is taken for the others.
        FullSourceStopsAll,
    }
}
