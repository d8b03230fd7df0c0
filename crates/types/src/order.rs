//! Enumerations of orders and executions. The codes are those of FIX 5.0 SP2 wherever it has the
//! field, so that a capture reads like any other venue's.

use crate::codes::codes;

codes! {
    /// FIX 54: the side of the book.
    Side {
        /// Buy.
        Buy = b'1',
        /// Sell.
        Sell = b'2',
    }

    /// FIX 40: the order type.
    OrdType {
        /// Trades at any price.
        Market = b'1',
        /// Trades at its limit price or better.
        Limit = b'2',
        /// Becomes a market order when the stop price trades.
        Stop = b'3',
        /// Becomes a limit order when the stop price trades.
        StopLimit = b'4',
    }

    /// FIX 59: the time in force.
    TimeInForce {
        /// Until the end of the trading day.
        Day = b'0',
        /// Until cancelled.
        Gtc = b'1',
        /// In the opening auction only.
        AtTheOpen = b'2',
        /// Fills at once as far as possible; the rest is cancelled.
        Ioc = b'3',
        /// Fills at once in full or not at all.
        Fok = b'4',
        /// Until its expire time.
        Gtd = b'6',
        /// In the closing auction only.
        AtTheClose = b'7',
    }

    /// FIX 150: the event that an execution report is about.
    ExecType {
        /// Accepted.
        New = b'0',
        /// Cancelled, by request or by a rule; the reason tells which.
        Canceled = b'4',
        /// Replaced.
        Replaced = b'5',
        /// Refused; it never became an order.
        Rejected = b'8',
        /// Expired.
        Expired = b'C',
        /// Changed without a request, by a self-trade decrement.
        Restated = b'D',
        /// Traded.
        Trade = b'F',
        /// A stop was triggered.
        Triggered = b'L',
    }

    /// FIX 39: the order's status.
    OrdStatus {
        /// Live, untraded.
        New = b'0',
        /// Live, partly traded.
        PartiallyFilled = b'1',
        /// Ended, fully traded.
        Filled = b'2',
        /// Ended by a cancel.
        Canceled = b'4',
        /// Refused.
        Rejected = b'8',
        /// Ended by its expiry.
        Expired = b'C',
    }

    /// The rule for an order that would trade with another order of its own account. The incoming
    /// order's choice applies.
    SelfTradePrevention {
        /// The orders trade.
        None = 0,
        /// Cancel the incoming order.
        CancelNewest = 1,
        /// Cancel the resting order.
        CancelOldest = 2,
        /// Cancel both.
        CancelBoth = 3,
        /// Reduce both orders by the smaller quantity; cancel each that is then empty.
        Decrement = 4,
    }

    /// FIX 851: the order's role in a trade.
    Liquidity {
        /// No trade.
        None = 0,
        /// The resting order.
        Maker = 1,
        /// The incoming order.
        Taker = 2,
        /// A trade of an uncrossing.
        Auction = 4,
    }

    /// An instrument's trading phase.
    Phase {
        /// No orders; only the operator can cancel.
        Closed = 0,
        /// Order entry and continuous matching.
        Continuous = 1,
        /// No order entry and no trades; cancels are served.
        Halted = 2,
        /// Orders are collected, to trade at one price when the trading day begins.
        OpeningCall = 3,
        /// Orders are collected after a trade would have been too far from the last price.
        VolatilityCall = 4,
        /// Orders are collected, to trade at one price at the end of the day.
        ClosingCall = 5,
    }

    /// The phase that an operator's request reached.
    PhaseReached {
        /// The request is about no phase.
        None = 0,
        /// See [`Phase`].
        Closed = 1,
        /// See [`Phase`].
        Continuous = 2,
        /// See [`Phase`].
        Halted = 3,
        /// See [`Phase`].
        OpeningCall = 4,
        /// See [`Phase`].
        VolatilityCall = 5,
        /// See [`Phase`].
        ClosingCall = 6,
    }

    /// The cause of a change of phase.
    PhaseCause {
        /// Not recorded: the event is of before causes were.
        Unknown = 0,
        /// An operator's request.
        Operator = 1,
        /// A scheduled change was due.
        Schedule = 2,
        /// A volatility call had lasted for its duration.
        CallEnd = 3,
        /// A trade, or the price of an uncrossing, would have been beyond a collar.
        Collar = 4,
    }

    /// The hold of an operator's halt against scheduled changes of phase.
    PhaseHold {
        /// Not recorded: the event is of before holds were.
        Unknown = 0,
        /// No: scheduled changes are made.
        Free = 1,
        /// Yes: of scheduled changes only a close is made.
        Held = 2,
    }

    /// The scope of a mass cancel.
    MassCancelScope {
        /// All live orders of the requesting session.
        Session = 0,
        /// All live orders of one account of the requester's firm.
        Account = 1,
        /// All live orders of the requester's firm; an operator may name any firm.
        Firm = 2,
        /// All live orders of an instrument, of all firms; operators only.
        Instrument = 3,
    }

    /// The scope of a kill switch.
    KillScope {
        /// All firms.
        All = 0,
        /// One firm.
        Firm = 1,
        /// One account.
        Account = 2,
        /// One session.
        Session = 3,
    }

    /// On or off.
    Switch {
        /// Off.
        Off = 0,
        /// On.
        On = 1,
    }

    /// The effect of a request about the filed changes of a group or an instrument.
    ScheduleStep {
        /// Files a change, and replaces one for the same time.
        File = 0,
        /// Clears the changes to come.
        Clear = 1,
        /// Begins an empty list of changes, the session's.
        Begin = 2,
        /// Adds a change to the list.
        Add = 3,
        /// Files all changes of the list.
        Append = 4,
        /// Clears the changes to come, and files all of the list.
        Replace = 5,
    }

    /// The role of a session, which decides its rights.
    Role {
        /// Enters orders for its firm's accounts, reads its firm's order state.
        Trader = 1,
        /// Reads all order state, enters nothing.
        Supervisor = 2,
        /// Reads everything, defines reference data, halts instruments, moves money, sets kill
        /// switches.
        Operator = 3,
        /// Reads copies of its firm's reports and its firm's order state, enters nothing.
        DropCopy = 4,
        /// Feeds the order state of an outside trading core; reads nothing and enters nothing.
        Source = 5,
        /// Carries its clients' sessions over a link to each partition; enters nothing of its own.
        Gateway = 6,
    }

    /// The status of a source for a reader of order state.
    SourceStatus {
        /// The reader has the source's newest state; later changes are live.
        Online = 1,
        /// The source has more rows to read, or has not answered yet.
        Reading = 2,
        /// No reachable store of the source has caught up with the reader's place; the reader waits
        /// for one.
        Behind = 3,
        /// No store of the source is reachable; the reader's place is kept.
        Away = 4,
        /// The token names a source that is unknown here; the reader's place is kept.
        Unknown = 5,
    }

    /// The failures that an acknowledged batch of an outside core survives.
    AckLevel {
        /// None: lost with the store's process.
        Memory = 1,
        /// A crash of the process: the bytes are in the operating system's page cache.
        Os = 2,
        /// Power loss: synced to the disk.
        Disk = 3,
    }

    /// The kind of a durable subscription.
    SubscriptionKind {
        /// The trades of a firm's orders, each with the order's state after it, and the busts of
        /// those trades.
        Executions = 1,
        /// Trades in their public form.
        Trades = 2,
        /// Messages addressed to a session.
        Messages = 3,
        /// Order state: a token kept under a name.
        State = 4,
    }

    /// The status of a durable subscription.
    SubscriptionStatus {
        /// It receives published messages.
        Live = 1,
        /// It was too far behind: its untaken messages are gone.
        Evicted = 2,
        /// No client attached for too long: its untaken messages are gone.
        Expired = 3,
    }

    /// A request on a durable subscription.
    SubscriptionAction {
        /// Removes it.
        Delete = 1,
        /// Lists its status and that of the subscriptions after it.
        List = 2,
        /// Drops its untaken messages and ends it; supervisors and operators only.
        Evict = 3,
        /// Drops its untaken messages and keeps it.
        Drain = 4,
        /// Compacts the spill files: moves the needed messages out of files of which a tenth or
        /// more is unneeded, and removes those files. It covers all subscriptions and names none;
        /// supervisors and operators only.
        Compact = 5,
    }

    /// The means by which a session authenticates at logon.
    CredentialKind {
        /// A shared secret; the node stores its BLAKE3 hash.
        ApiKey = 1,
        /// The signature of a challenge; the node stores the Ed25519 public key.
        Ed25519 = 2,
    }
}

/// An order's flags (FIX 18), as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecInst(pub u8);

impl ExecInst {
    /// No flag.
    pub const NONE: ExecInst = ExecInst(0);
    /// The order is refused rather than take liquidity.
    pub const POST_ONLY: ExecInst = ExecInst(1);
    /// All defined flags.
    pub const KNOWN: ExecInst = ExecInst(1);

    /// Returns true when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: ExecInst) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub const fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

impl PhaseReached {
    /// Returns the phase; `None` if the request is about none.
    #[must_use]
    pub const fn phase(self) -> Option<Phase> {
        Some(match self {
            PhaseReached::None => return None,
            PhaseReached::Closed => Phase::Closed,
            PhaseReached::Continuous => Phase::Continuous,
            PhaseReached::Halted => Phase::Halted,
            PhaseReached::OpeningCall => Phase::OpeningCall,
            PhaseReached::VolatilityCall => Phase::VolatilityCall,
            PhaseReached::ClosingCall => Phase::ClosingCall,
        })
    }
}

impl From<Phase> for PhaseReached {
    fn from(phase: Phase) -> PhaseReached {
        match phase {
            Phase::Closed => PhaseReached::Closed,
            Phase::Continuous => PhaseReached::Continuous,
            Phase::Halted => PhaseReached::Halted,
            Phase::OpeningCall => PhaseReached::OpeningCall,
            Phase::VolatilityCall => PhaseReached::VolatilityCall,
            Phase::ClosingCall => PhaseReached::ClosingCall,
        }
    }
}

impl Role {
    /// Returns true when a session of this role belongs to a firm.
    #[must_use]
    pub const fn has_firm(self) -> bool {
        matches!(self, Role::Trader | Role::DropCopy)
    }

    /// Returns true when a session of this role may read order state, messages or market data.
    #[must_use]
    pub const fn may_read(self) -> bool {
        !matches!(self, Role::Source | Role::Gateway)
    }

    /// Returns true when a session of this role may cancel orders.
    #[must_use]
    pub const fn may_cancel(self) -> bool {
        matches!(self, Role::Trader | Role::Operator)
    }
}

impl OrdStatus {
    /// Returns true while the order can still trade.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, OrdStatus::New | OrdStatus::PartiallyFilled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for value in TimeInForce::ALL {
            assert_eq!(TimeInForce::from_code(value.code()), Some(*value));
        }
        assert_eq!(TimeInForce::from_code(b'9'), None);
        assert_eq!(Side::from_code(0), None);
    }

    #[test]
    fn sides_are_each_others_opposite() {
        assert_eq!(Side::Buy.opposite(), Side::Sell);
        assert_eq!(Side::Sell.opposite(), Side::Buy);
    }
}
