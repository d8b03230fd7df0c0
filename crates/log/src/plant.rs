//! Planted bugs, which prove that the test campaigns over the log can find bugs of their kind.
//!
//! The log, and the node's recovery on top of it, call [`is`] where a planted bug takes effect.
//! Without the feature `planted` the call is a constant and the program contains no planted bug.

/// A planted bug of the log or of the node's recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Chunks are committed at `disk` once they are written, without a sync.
    SyncSkipped,
    /// Recovery accepts a frame's body whatever its checksum.
    ChecksumUnchecked,
    /// A torn tail is not cut off.
    TornTailNotCut,
    /// A frame reports all frames before it as synced, even unsynced ones.
    SyncedMarkTooEarly,
    /// An unclean end at level `memory` begins no new epoch.
    EpochNotBegun,
    /// A recycled file is reused without zeroing it.
    SpareNotZeroed,
    /// Truncating removes one entry more than allowed.
    TruncateOffByOne,
    /// Of several removed segments, the newest is removed first.
    TrimmedOutOfOrder,
    /// A segment gets its name before its header is synced.
    HeaderNotSynced,
    /// A snapshot gets its name before its bytes are synced.
    SnapshotNotSynced,
    /// A snapshot of discarded history is kept.
    LostSnapshotKept,
    /// The end of the log is applied twice after a snapshot.
    TailAppliedTwice,
}

impl Plant {
    /// All planted bugs.
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
        // Per thread, so that tests can run in parallel; a simulation has one thread.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a bug in all logs of this thread, or removes it.
    pub fn set(plant: Option<Plant>) {
        PLANTED.set(plant);
    }

    /// Returns true when this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, set};

/// Returns false: a program without the feature has no planted bug.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn is(_: Plant) -> bool {
    false
}
