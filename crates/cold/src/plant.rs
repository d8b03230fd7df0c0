//! Bugs to plant on purpose, as proof that the tests of cold reads would find them.
//!
//! The archive, and the node's ends of it, call [`is`] at the places of the bugs. Without the
//! feature `planted` the answer is a constant and none of this code is in the program.

/// A planted bug of the archive or of the code between it and the order store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A file is removed and the floor is not raised.
    FloorNotRaised,
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
    /// Changes that a source voided and its store had removed stay in files after a full resend.
    LostHistoryKept,
    /// A read is answered before all changes of a full resend were handed over.
    AnsweredBeforeResent,
    /// After a start, files count as the store's history although some of it was voided since.
    StartNotRewound,
}

impl Plant {
    /// All planted bugs.
    pub const ALL: [Plant; 18] = [
        Plant::FloorNotRaised,
        Plant::DamagePassedOver,
        Plant::HoleNotNoted,
        Plant::LastChangeLost,
        Plant::MergeKeepsFirst,
        Plant::HistoryTold,
        Plant::FilterDropped,
        Plant::AnsweredBeforeTaken,
        Plant::HoleNotTold,
        Plant::SeamSkipped,
        Plant::ForgottenUnanswered,
        Plant::StartFedFromHead,
        Plant::FloorNotHeld,
        Plant::SnapshotNotHeld,
        Plant::EpochNotTold,
        Plant::LostHistoryKept,
        Plant::AnsweredBeforeResent,
        Plant::StartNotRewound,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        // Local to the thread, so that tests may run in parallel.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants one bug in all archives of this thread, or removes it.
    pub fn set(plant: Option<Plant>) {
        PLANTED.set(plant);
    }

    /// True when this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, set};

/// True when this bug is planted: never, in a program built without the feature.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline]
pub const fn is(_: Plant) -> bool {
    false
}
