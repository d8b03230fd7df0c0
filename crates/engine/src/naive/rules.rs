//! Rules of phases, halts, kills and references that a command reached. Scripts that reach none of
//! them test little of it.

/// A rule that a command reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TradingRule {
    /// A scheduled change was due while an operator's halt held.
    HaltHolds,
    /// A halt that an operator asked for went on behind a close.
    HaltOutlivesClose,
    /// An operator's request made a scheduled halt one that holds.
    HaltTakenOver,
    /// A scheduled change would have ended a volatility call beyond a collar.
    CallGoesOn,
    /// A volatility call was ended beyond a collar, or none began, since an operator said so.
    CollarOverridden,
    /// A further price of a call's end would have been beyond a collar, and a volatility call
    /// began.
    FurtherPriceWaits,
    /// A resume went back to continuous trading through a volatility call.
    ResumedThroughCall,
    /// A kill switch began to cancel orders.
    KillCancels,
    /// A reached stop of somebody killed was cancelled.
    KilledStopEnds,
    /// A parked order of somebody killed was cancelled at the closing call.
    KilledParkedEnds,
    /// A bust changed the last price.
    BustMovesLastPrice,
    /// A bust changed the static reference.
    BustMovesReference,
    /// A bust changed the price that stops see.
    BustMovesStops,
    /// A busted trade was one that stops had not seen yet.
    BustOfUnseenTrade,
    /// Behind a bust the last price is of a trade too old for a bust.
    BustLeavesOldTrade,
    /// A bust came when the trade was too old.
    BustTooLate,
    /// A bust was of a trade that later ones had displaced.
    BustOfDisplacedTrade,
    /// A forced bust left an account in debt, or deeper in it.
    ForcedBustMakesDebt,
    /// An order was refused since its account was in debt.
    DebtorRefused,
    /// A market order that waits for a call reserved at a collar's edge.
    CallMarketAtEdge,
    /// An account could not pay all lots of its market order in an uncrossing.
    CallMarketCut,
    /// A session began behind one with trades.
    SessionBegins,
    /// Too many changes of its instrument's phase were due for a command that depends on it.
    ChangesRefuse,
    /// A halt came ahead of many due changes.
    HaltBeforeChanges,
    /// A mass cancel of an instrument did.
    MassCancelBeforeChanges,
    /// A transfer, a definition of the control log or a change to file did.
    OtherBeforeChanges,
    /// A change of many instruments was left to later commands.
    ManyGoOn,
    /// A command found one that was still to be made in its instrument.
    ManyBeforeCommand,
    /// One skipped an instrument.
    ManySkip,
    /// One that was filed was made in all its instruments.
    ManyFiled,
    /// A list of changes was filed.
    ListFiled,
}

impl TradingRule {
    /// All of these rules.
    pub const ALL: &'static [TradingRule] = &[
        TradingRule::HaltHolds,
        TradingRule::HaltOutlivesClose,
        TradingRule::HaltTakenOver,
        TradingRule::CallGoesOn,
        TradingRule::CollarOverridden,
        TradingRule::FurtherPriceWaits,
        TradingRule::ResumedThroughCall,
        TradingRule::KillCancels,
        TradingRule::KilledStopEnds,
        TradingRule::KilledParkedEnds,
        TradingRule::BustMovesLastPrice,
        TradingRule::BustMovesReference,
        TradingRule::BustMovesStops,
        TradingRule::BustOfUnseenTrade,
        TradingRule::BustLeavesOldTrade,
        TradingRule::BustTooLate,
        TradingRule::BustOfDisplacedTrade,
        TradingRule::ForcedBustMakesDebt,
        TradingRule::DebtorRefused,
        TradingRule::CallMarketAtEdge,
        TradingRule::CallMarketCut,
        TradingRule::SessionBegins,
        TradingRule::ChangesRefuse,
        TradingRule::HaltBeforeChanges,
        TradingRule::MassCancelBeforeChanges,
        TradingRule::OtherBeforeChanges,
        TradingRule::ManyGoOn,
        TradingRule::ManyBeforeCommand,
        TradingRule::ManySkip,
        TradingRule::ManyFiled,
        TradingRule::ListFiled,
    ];
}
