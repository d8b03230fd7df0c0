//! Bugs to put in on purpose: how it is known that the campaigns over the log would find them.
//!
//! The log, and the node's recovery over it, ask [`is`] at the places where they would go wrong.
//! Without the feature `planted` the answer is a constant and nothing of this is in the program.

/// A planted bug of the log or of what is made of it at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Chunks are committed at `disk` once they are written; nothing is synced.
    SyncSkipped,
    /// Recovery takes a frame's body as it is, whatever its checksum.
    ChecksumUnchecked,
    /// A torn tail is left where it is.
    TornTailNotCut,
    /// A frame says that all before it are synced, whether they are or not.
    SyncedMarkTooEarly,
    /// An unclean end at `memory` begins no epoch.
    EpochNotBegun,
    /// A recycled file is used again with what it held.
    SpareNotZeroed,
    /// Truncating gives up one entry more than it may.
    TruncateOffByOne,
    /// Of several segments that are given up, the newest goes first.
    TrimmedOutOfOrder,
    /// A segment gets its name before its header is synced.
    HeaderNotSynced,
    /// A snapshot gets its name before its bytes are synced.
    SnapshotNotSynced,
    /// A snapshot of a lost future stays.
    LostSnapshotKept,
    /// The end of the log is applied twice after a snapshot.
    TailAppliedTwice,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 12] = [
        Plant::SyncSkipped,
        Plant::ChecksumUnchecked,
        Plant::TornTailNotCut,
        Plant::SyncedMarkTooEarly,
        Plant::EpochNotBegun,
        Plant::SpareNotZeroed,
        Plant::TruncateOffByOne,
        Plant::TrimmedOutOfOrder,
        Plant::HeaderNotSynced,
        Plant::SnapshotNotSynced,
        Plant::LostSnapshotKept,
        Plant::TailAppliedTwice,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        // A thread's own, so that tests may run side by side; simulations have one thread.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants one bug in all logs of this thread, or takes it out again.
    pub fn set(plant: Option<Plant>) {
        PLANTED.set(plant);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, set};

/// Whether this bug is planted: never, in a program made without the feature.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn is(_: Plant) -> bool {
    false
}
