//! Bugs to put in on purpose: how it is known that the campaign `engine_oracle` would find them.
//!
//! The engine asks [`is`] at the places where it would go wrong. Without the feature `planted`
//! the answer is a constant and nothing of this is in the program.

/// A planted bug of the fast engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Plant {
    /// A partial fill sends the maker behind the others at its price.
    PriorityLostOnPartialFill = 1,
    /// An order trades with its own account's once before it is kept from it.
    SelfTradeCheckAfterFill,
    /// A cancel keeps what was reserved for the order.
    ReservationKeptOnCancel,
    /// What is due happens after the command instead of before.
    TimersAfterCommand,
    /// Of what is due at the same time, ends of calls and scheduled phases come before expiries.
    ExpiryAfterPhase,
    /// An iceberg's next slice keeps its place in the queue.
    IcebergKeepsPlace,
    /// Stops are measured by the command's last trade alone.
    StopsSeeLastTradeOnly,
    /// A wave of stops is in order of stop price instead of `rec`.
    WaveByStopPrice,
    /// Trades of a wave reach no further stops.
    NoSecondWave,
    /// Of equally good prices an uncrossing takes the lowest, whatever the side of the surplus.
    UncrossingTakesLowest,
    /// An uncrossing counts what icebergs show instead of what they have.
    UncrossingIgnoresHidden,
    /// A market order of a call reserves nothing.
    CallMarketUnreserved,
    /// The dynamic reference follows the trades within a sweep.
    ReferenceMovesInSweep,
    /// A trade at a collar's very edge breaches it.
    CollarEdgeBreaches,
    /// A bust returns the cash and keeps the lots.
    BustKeepsLots,
    /// A trade can be taken back twice.
    BustTwice,
    /// Parked orders enter the closing call in the wrong order.
    ParkedOutOfOrder,
    /// Fill-or-kill counts what lies beyond a collar.
    FillOrKillIgnoresCollars,
    /// A refused request still uses up the session's rate.
    ThrottleChargesRefused,
    /// A snapshot forgets what an iceberg shows and restores a full slice.
    SnapshotForgetsShown,
    /// A snapshot forgets when a volatility call ends.
    SnapshotForgetsCallEnd,
    /// An iceberg may show as little as it likes.
    AnySlice,
    /// Stops do not hear of the last price when continuous trading begins.
    LastPriceNotRecalled,
    /// A call ends at whatever price it finds.
    CallIgnoresCollars,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 24] = [
        Plant::PriorityLostOnPartialFill,
        Plant::SelfTradeCheckAfterFill,
        Plant::ReservationKeptOnCancel,
        Plant::TimersAfterCommand,
        Plant::ExpiryAfterPhase,
        Plant::IcebergKeepsPlace,
        Plant::StopsSeeLastTradeOnly,
        Plant::WaveByStopPrice,
        Plant::NoSecondWave,
        Plant::UncrossingTakesLowest,
        Plant::UncrossingIgnoresHidden,
        Plant::CallMarketUnreserved,
        Plant::ReferenceMovesInSweep,
        Plant::CollarEdgeBreaches,
        Plant::BustKeepsLots,
        Plant::BustTwice,
        Plant::ParkedOutOfOrder,
        Plant::FillOrKillIgnoresCollars,
        Plant::ThrottleChargesRefused,
        Plant::SnapshotForgetsShown,
        Plant::SnapshotForgetsCallEnd,
        Plant::AnySlice,
        Plant::LastPriceNotRecalled,
        Plant::CallIgnoresCollars,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Plant;

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants one bug in all engines of the process, or takes it out again.
    pub fn set(plant: Option<Plant>) {
        PLANTED.store(plant.map_or(0, |plant| plant as u8), Ordering::Relaxed);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        PLANTED.load(Ordering::Relaxed) == plant as u8
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
