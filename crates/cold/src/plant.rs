//! Bugs to put in on purpose: how it is known that the tests of cold reads would find them.
//!
//! The archive, and the node's ends of it, ask [`is`] at the places where they would go wrong.
//! Without the feature `planted` the answer is a constant and nothing of this is in the program.

/// A planted bug of the archive or of what is between it and the order store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A file goes and the floor stays where it was.
    FloorNotRaised,
    /// A damaged file is passed over as if nothing had been in it.
    DamagePassedOver,
    /// Changes that begin behind the last one taken are taken as if none were missing.
    HoleNotNoted,
    /// The last change of a segment is not written.
    LastChangeLost,
    /// A merge keeps an order's first state in the place of its last.
    MergeKeepsFirst,
    /// A row that changed again later is told all the same.
    HistoryTold,
    /// The reader's filter does not reach the archive.
    FilterDropped,
    /// A question is answered before the changes that were handed over ahead of it are taken.
    AnsweredBeforeTaken,
    /// What the store let go before it was handed over is not told to be missing.
    HoleNotTold,
    /// A reader goes on at the store's floor, wherever the archive ended.
    SeamSkipped,
    /// A question whose reader has gone has no answer.
    ForgottenUnanswered,
    /// After a start the archive is fed from the store's head on.
    StartFedFromHead,
    /// The store lets go what was not handed over, as if nobody wanted it.
    FloorNotHeld,
    /// A snapshot gets its name though what its store let go is in no file.
    SnapshotNotHeld,
    /// Nobody tells the archive of a source's new epoch.
    EpochNotTold,
    /// What a source disowned and its store had let go stays in files when all was said again.
    LostHistoryKept,
    /// A question is answered before all that a full resend said was handed over.
    AnsweredBeforeResent,
    /// After a start files are taken for what the store has, whatever was disowned since.
    StartNotRewound,
}

impl Plant {
    /// All of them.
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
        // A thread's own, so that tests may run side by side.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants one bug in all archives of this thread, or takes it out again.
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
