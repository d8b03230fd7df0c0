//! Planted bugs, which prove that the campaign `engine-oracle` can find bugs of their kind.
//!
//! The engine calls [`is`] where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of the fast engine.
    pub enum Plant {
        /// A partial fill sends the maker behind the others at its price.
        PriorityLostOnPartialFill,
        /// An order trades once with its own account before the check prevents it.
        SelfTradeCheckAfterFill,
        /// A cancel keeps the order's reservation.
        ReservationKeptOnCancel,
        /// Due timers fire after the command instead of before.
        TimersAfterCommand,
        /// Among timers due at the same time, ends of calls and scheduled phases come before
        /// expiries.
        ExpiryAfterPhase,
        /// An iceberg's next slice keeps its place in the queue.
        IcebergKeepsPlace,
        /// Stops are compared only with the command's last trade.
        StopsSeeLastTradeOnly,
        /// A wave of stops is in order of stop price instead of `rec`.
        WaveByStopPrice,
        /// Trades of a wave reach no further stops.
        NoSecondWave,
        /// Among equally good prices an uncrossing takes the lowest, whatever the side of the
        /// surplus.
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
        /// A firm's orders that have ended stay in its count of live ones.
        FirmCountKept,
        /// A sweep ends orders that were entered after its command.
        SweepTakesNewer,
        /// Ticks continue the sweeps in another order than in turn.
        NewestSweepFirst,
        /// A tick's part for losses is all of it.
        TickForLossesFirst,
        /// The parts of a tick behind a timer that changed more orders than were left stay whole.
        TickForgetsExcess,
        /// A sweep cancels orders whose time to expire has come.
        SweepBeforeExpiry,
        /// A sweep does not wait for due changes of the phase.
        SweepBeforePhase,
        /// A sweep fires any number of due timers in a step.
        SweepFiresUncounted,
        /// A session lost again during its sweep keeps the orders entered in between.
        SecondLossIgnored,
        /// A snapshot omits the number of orders that a sweep has ended.
        SnapshotForgetsSweepCount,
        /// An ended order stays a sweep's next one.
        SweepStaysAtEnded,
        /// A snapshot omits the sessions with cancel-on-disconnect.
        SnapshotForgetsChoices,
        /// A session's choice stays after its loss.
        ChoiceOutlivesSession,
    }
}
