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
        /// The half of mass cancels stays whole behind timers that exceeded the half of losses.
        TickForgetsExcess,
        /// A tick takes its steps although its timers changed more orders than it may.
        TickStepsBehindExcess,
        /// A change of phase by a timer counts only the orders that it changes.
        LooksUncounted,
        /// A sweep that had only the rest of a tick goes to the back of its kind.
        RestIsTurn,
        /// A sweep keeps its turn until it is over.
        TurnKept,
        /// A sweep that is over uses up its kind's part of a tick.
        RestNotShared,
        /// Mass cancels do not get the part of a tick that losses leave.
        RestOfLossesUnused,
        /// Losses do not get the part of a tick that mass cancels leave.
        RestOfMassCancelsUnused,
        /// The look at a sweep whose turn it is counts as no visit.
        LookUncounted,
        /// A lost session's orders do not wait for those of other lost sessions.
        LossDoesNotWait,
        /// A command's step may end by timers as many orders as otherwise.
        StepTimersUnbounded,
        /// A snapshot lists sweeps by session instead of by turn.
        SnapshotForgetsTurns,
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
        /// A scheduled change lifts an operator's halt.
        HaltNotHeld,
        /// An operator's change, or a scheduled one, ends a volatility call at any price.
        CallEndsUnchecked,
        /// A snapshot omits the phase to which a resume goes back.
        SnapshotForgetsResume,
        /// Stops of the killed trigger.
        KilledStopsTrigger,
        /// Parked orders of the killed enter the closing call.
        KilledParkedEnter,
        /// A snapshot omits that a kill switch asked for a sweep.
        SnapshotForgetsKill,
        /// A bust leaves the last price.
        BustKeepsLastPrice,
        /// A bust leaves the price of the last uncrossing.
        BustKeepsReference,
        /// Busted trades before an interruption reach stops behind it.
        BustedTradesReachStops,
        /// Prices of trades too old for a bust are forgotten.
        OldTradesForgotten,
        /// Stops are compared with the last price of the session before.
        StopsSeeYesterday,
        /// A snapshot omits the prices of trades that are not retained.
        SnapshotForgetsBases,
        /// A session's choice stays after its loss.
        ChoiceOutlivesSession,
        /// A command makes any number of due changes of its instrument's phase.
        DueChangesUnbounded,
        /// A halt is refused while many changes of its instrument's phase are due.
        DueChangesRefuseHalt,
        /// A mass cancel makes any number of due changes of the phase of the instrument it names.
        DueChangesBeforeMassCancel,
        /// A command of an instrument does not see a change of many that ticks have not made yet.
        GroupChangeUnseen,
        /// A sweep does not wait for a change of many.
        SweepBeforeGroupChange,
        /// An instrument that comes to a group takes part in changes from before.
        NewMemberTakesPart,
        /// A change of many counts no instruments that it skips.
        SkippedUncounted,
        /// A snapshot omits which instruments a change of many has reached.
        SnapshotForgetsChanged,
        /// A change of many has the whole budget of timers behind those that its command fired.
        BudgetForEachPart,
        /// A list of changes is filed whatever its length.
        ListUncounted,
        /// A snapshot omits the list of changes that are to be filed together.
        SnapshotForgetsList,
        /// A snapshot omits the causes of the phases.
        CauseForgottenAtRestart,
        /// The events of a forced bust do not tell the debts behind it.
        ForcedBustUntold,
        /// An account in debt enters orders that reserve cash.
        DebtorTrades,
        /// A trade can be busted whatever its age, while later ones leave room for it.
        TradesKeptByCount,
        /// A market order of a call reserves at the instrument's bound.
        CallReservesAtBound,
        /// Lots of a call's market orders that are cut take no part at any price.
        CutLotsStayOut,
        /// Of the prices of a call's end only the first is compared with the collars.
        FurtherPricesUnchecked,
        /// A restored engine does not know the debts of its accounts.
        SnapshotForgetsDebt,
        /// A snapshot has the limits from before the first command.
        SnapshotForgetsLimits,
        /// Limits below what is held are taken.
        LimitsBelowHeld,
        /// Due timers fire before new limits.
        LimitsAfterTimers,
        /// A checkpoint that is due behind new limits is left out.
        LimitsForgetCheckpoint,
        /// The last transfer with another partition at its other end is taken for the same.
        TransferPeerIgnored,
        /// A snapshot omits the other ends of the accounts' last transfers.
        SnapshotForgetsPeer,
    }
}
