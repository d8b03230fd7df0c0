//! Planted bugs, which prove that the campaign `engine_oracle` can find bugs of their kind.
//!
//! The engine calls [`is`] where a planted bug takes effect. Without the feature `planted` the call
//! is a constant and the program contains no planted bug.

/// A planted bug of the fast engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Plant {
    /// A partial fill sends the maker behind the others at its price.
    PriorityLostOnPartialFill = 1,
    /// An order trades once with its own account before the check prevents it.
    SelfTradeCheckAfterFill,
    /// A cancel keeps the order's reservation.
    ReservationKeptOnCancel,
    /// Due timers fire after the command instead of before.
    TimersAfterCommand,
    /// Among timers due at the same time, ends of calls and scheduled phases come before expiries.
    ExpiryAfterPhase,
    /// An iceberg's next slice keeps its place in the queue.
    IcebergKeepsPlace,
    /// Stops are compared only with the command's last trade.
    StopsSeeLastTradeOnly,
    /// A wave of stops is in order of stop price instead of `rec`.
    WaveByStopPrice,
    /// Trades of a wave reach no further stops.
    NoSecondWave,
    /// Among equally good prices an uncrossing takes the lowest, whatever the side of the surplus.
    UncrossingTakesLowest,
    /// An uncrossing counts the shown instead of the whole quantity of icebergs.
    UncrossingIgnoresHidden,
    /// A market order of a call reserves nothing.
    CallMarketUnreserved,
    /// The dynamic reference follows the trades within a sweep.
    ReferenceMovesInSweep,
    /// A trade at a collar's very edge breaches it.
    CollarEdgeBreaches,
    /// A bust returns the cash and keeps the lots.
    BustKeepsLots,
    /// A trade can be busted twice.
    BustTwice,
    /// Parked orders enter the closing call in the wrong order.
    ParkedOutOfOrder,
    /// Fill-or-kill counts quantity beyond a collar.
    FillOrKillIgnoresCollars,
    /// A refused request still counts towards the session's rate.
    ThrottleChargesRefused,
    /// A snapshot omits an iceberg's shown quantity and restores a full slice.
    SnapshotForgetsShown,
    /// A snapshot omits the end of a volatility call.
    SnapshotForgetsCallEnd,
    /// An iceberg may have any display quantity.
    AnySlice,
    /// Stops are not compared with the last price when continuous trading begins.
    LastPriceNotRecalled,
    /// A call ends at any price.
    CallIgnoresCollars,
}

impl Plant {
    /// All planted bugs.
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

    /// Plants a bug in all engines of the process, or removes it.
    pub fn set(plant: Option<Plant>) {
        PLANTED.store(plant.map_or(0, |plant| plant as u8), Ordering::Relaxed);
    }

    /// Returns true when this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        PLANTED.load(Ordering::Relaxed) == plant as u8
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
