//! Bugs to put in on purpose: how it is known that the campaigns over the broker would find them.
//!
//! The broker asks [`is`] at the places where it would go wrong. Without the feature `planted` the
//! answer is a constant and nothing of this is in the program.

/// A planted bug of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Blocks are not synced at `disk`.
    SyncSkipped,
    /// A message is acknowledged while its block is on its way.
    AckBeforeWrite,
    /// A message that was given up with a subscription is acknowledged before the end is saved.
    AckBeforeEndSaved,
    /// Of messages given up by one change only the first that is noted counts, not the lowest.
    EndsTakenInOrder,
    /// Messages are written behind those that an eviction lost, though a crash may revive it.
    HoleBehindEviction,
    /// Parts go when the living have taken them, though an end is not saved.
    ReclaimedTooEarly,
    /// A quota of messages is one larger than it says.
    QuotaOffByOne,
    /// What was taken is not saved.
    CursorNotSaved,
    /// What was delivered is saved as if it had been taken.
    CursorSavedAhead,
    /// The table is always written to the same slot.
    OneSlotOnly,
    /// An eviction is not saved.
    EvictionNotSaved,
    /// A part that was moved is still looked for in its old place.
    MoveNotNoted,
    /// A run numbers its messages as the one before.
    RunNotCounted,
    /// What one of several subscriptions took is not wanted again after a start.
    FloorOfTheFirst,
    /// Who leaves and comes back goes on behind what was delivered, taken or not.
    DeliveredCountsAsTaken,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 15] = [
        Plant::SyncSkipped,
        Plant::AckBeforeWrite,
        Plant::AckBeforeEndSaved,
        Plant::EndsTakenInOrder,
        Plant::HoleBehindEviction,
        Plant::ReclaimedTooEarly,
        Plant::QuotaOffByOne,
        Plant::CursorNotSaved,
        Plant::CursorSavedAhead,
        Plant::OneSlotOnly,
        Plant::EvictionNotSaved,
        Plant::MoveNotNoted,
        Plant::RunNotCounted,
        Plant::FloorOfTheFirst,
        Plant::DeliveredCountsAsTaken,
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

    /// Plants one bug in all brokers of this thread, or takes it out again.
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
