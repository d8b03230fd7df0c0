//! Bugs to plant on purpose, as proof that the campaigns over the broker would find them.
//!
//! The broker calls [`is`] at the places of the bugs. Without the feature `planted` the answer is a
//! constant and none of this code is in the program.

/// A planted bug of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Blocks are not synced at `disk`.
    SyncSkipped,
    /// A message is acknowledged while its block is on its way.
    AckBeforeWrite,
    /// A message given up with a subscription is acknowledged before the end is saved.
    AckBeforeEndSaved,
    /// Of the messages given up by one change only the first recorded counts, not the lowest.
    EndsTakenInOrder,
    /// Messages are written after those that an eviction lost, though a crash may revive the
    /// subscription.
    HoleBehindEviction,
    /// Parts are removed when live subscriptions have taken them, though an end is not saved.
    ReclaimedTooEarly,
    /// The limit of messages in a quota is one too high.
    QuotaOffByOne,
    /// Acknowledgements are not saved.
    CursorNotSaved,
    /// Delivered messages are saved as taken.
    CursorSavedAhead,
    /// The table is always written to the same slot.
    OneSlotOnly,
    /// An eviction is not saved.
    EvictionNotSaved,
    /// A part that was moved is still read from its old place.
    MoveNotNoted,
    /// A run reuses the message numbers of the one before.
    RunNotCounted,
    /// Messages that one of several subscriptions took are not wanted by the others after a start.
    FloorOfTheFirst,
    /// A client that detaches and comes back continues after the last delivery, taken or not.
    DeliveredCountsAsTaken,
}

impl Plant {
    /// All planted bugs.
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
        // Local to the thread, so that tests may run in parallel; simulations have one thread.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants one bug in all brokers of this thread, or removes it.
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
