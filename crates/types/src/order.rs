//! Enumerations of orders and executions. Where FIX 5.0 SP2 has the field, the codes are its
//! own characters, so that a capture reads like any other venue's.

use crate::codes::codes;

codes! {
    /// FIX 54: which side of the book.
    Side {
        /// Buys.
        Buy = b'1',
        /// Sells.
        Sell = b'2',
    }

    /// FIX 40.
    OrdType {
        /// At any price.
        Market = b'1',
        /// At its price or better.
        Limit = b'2',
        /// Becomes a market order when the stop price trades.
        Stop = b'3',
        /// Becomes a limit order when the stop price trades.
        StopLimit = b'4',
    }

    /// FIX 59.
    TimeInForce {
        /// Until the end of the trading day.
        Day = b'0',
        /// Until cancelled.
        Gtc = b'1',
        /// In the opening auction only.
        AtTheOpen = b'2',
        /// What fills at once; the rest is cancelled.
        Ioc = b'3',
        /// All at once or nothing.
        Fok = b'4',
        /// Until its expire time.
        Gtd = b'6',
        /// In the closing auction only.
        AtTheClose = b'7',
    }

    /// FIX 150: what an execution report tells.
    ExecType {
        /// Accepted.
        New = b'0',
        /// Cancelled, by request or by a rule (see the reason).
        Canceled = b'4',
        /// Replaced.
        Replaced = b'5',
        /// Refused; it never was an order.
        Rejected = b'8',
        /// Its time ran out.
        Expired = b'C',
        /// Changed without a request (a self-trade decrement).
        Restated = b'D',
        /// Traded.
        Trade = b'F',
        /// A stop was triggered.
        Triggered = b'L',
    }

    /// FIX 39.
    OrdStatus {
        /// Live, nothing traded.
        New = b'0',
        /// Live, some traded.
        PartiallyFilled = b'1',
        /// Ended, all traded.
        Filled = b'2',
        /// Ended by a cancel.
        Canceled = b'4',
        /// Refused.
        Rejected = b'8',
        /// Ended by time.
        Expired = b'C',
    }

    /// What to do when an order would meet one of its own account's. The incoming order's choice
    /// holds.
    SelfTradePrevention {
        /// Let them trade.
        None = 0,
        /// Cancel the incoming order.
        CancelNewest = 1,
        /// Cancel the resting order.
        CancelOldest = 2,
        /// Cancel both.
        CancelBoth = 3,
        /// Take the smaller quantity off both, cancel whichever is then empty.
        Decrement = 4,
    }

    /// FIX 851: who was there first.
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
        /// No orders, no cancels but by the operator.
        Closed = 0,
        /// Orders and trades.
        Continuous = 1,
        /// No entry, no trades; cancels are served.
        Halted = 2,
        /// Orders are collected, and trade at one price when the day's trading begins.
        OpeningCall = 3,
        /// The same after a trade would have been too far from the price before it.
        VolatilityCall = 4,
        /// The same at the day's end.
        ClosingCall = 5,
    }

    /// What a mass cancel covers.
    MassCancelScope {
        /// All live orders of the asking session.
        Session = 0,
        /// All live orders of an account of the asker's firm.
        Account = 1,
        /// All live orders of the asker's firm; of any firm for operators.
        Firm = 2,
        /// All live orders of an instrument, of all firms: for operators.
        Instrument = 3,
    }

    /// What a kill switch stops.
    KillScope {
        /// Everybody.
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

    /// What a session may do.
    Role {
        /// Enters orders for its firm's accounts, reads its firm's order state.
        Trader = 1,
        /// Reads all order state, enters nothing.
        Supervisor = 2,
        /// Reads all, defines reference data, halts, moves money, kills.
        Operator = 3,
        /// Reads copies of its firm's reports and its firm's order state, enters nothing.
        DropCopy = 4,
        /// Feeds the order state of an outside trading core, reads and enters nothing.
        Source = 5,
    }

    /// How a source stands for a reader of order state.
    SourceStatus {
        /// The reader has its newest state; what comes is live.
        Online = 1,
        /// There is more of it to read, or it has not answered yet.
        Reading = 2,
        /// No store of it that can be asked has reached the reader's place, which waits for one.
        Behind = 3,
        /// No store of it can be asked: the reader's place is kept.
        Away = 4,
        /// The token names it, and it is not known here: the reader's place is kept.
        Unknown = 5,
    }

    /// What an acknowledged batch of an outside core survives.
    AckLevel {
        /// Nothing: lost with the store's process.
        Memory = 1,
        /// The process: in the operating system's hands.
        Os = 2,
        /// Power loss: synced to the disk.
        Disk = 3,
    }

    /// What a durable subscription is to.
    SubscriptionKind {
        /// The trades of a firm's orders, each with its order as it is then, and their busts.
        Executions = 1,
        /// Trades as everybody may know them.
        Trades = 2,
        /// Messages that are addressed to a session.
        Messages = 3,
        /// Order state: a token that is kept under a name.
        State = 4,
    }

    /// How a durable subscription stands.
    SubscriptionStatus {
        /// It gets what is published.
        Live = 1,
        /// It was too far behind: what it had not taken is gone.
        Evicted = 2,
        /// Nobody attached for too long: what it had not taken is gone.
        Expired = 3,
    }

    /// What is asked of a durable subscription.
    SubscriptionAction {
        /// That it be removed.
        Delete = 1,
        /// How it and those behind it stand.
        List = 2,
        /// That it lose what it has not taken, and end: for supervisors and operators.
        Evict = 3,
        /// That it lose what it has not taken, and go on.
        Drain = 4,
        /// That files be emptied which hold what nobody wants any more: of all subscriptions,
        /// without a name, for supervisors and operators.
        Compact = 5,
    }

    /// By what a session proves at logon that it is itself.
    CredentialKind {
        /// A shared secret, of which the node keeps the BLAKE3 hash.
        ApiKey = 1,
        /// A signature of a challenge, of which the node keeps the Ed25519 public key.
        Ed25519 = 2,
    }
}

/// Flags of an order (FIX 18), a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecInst(pub u8);

impl ExecInst {
    /// No flag.
    pub const NONE: ExecInst = ExecInst(0);
    /// Refuse the order rather than let it take liquidity.
    pub const POST_ONLY: ExecInst = ExecInst(1);
    /// All flags that have a meaning.
    pub const KNOWN: ExecInst = ExecInst(1);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: ExecInst) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

impl Role {
    /// True when a session of this role belongs to a firm.
    #[must_use]
    pub const fn has_firm(self) -> bool {
        matches!(self, Role::Trader | Role::DropCopy)
    }

    /// True when a session of this role may end orders.
    #[must_use]
    pub const fn may_cancel(self) -> bool {
        matches!(self, Role::Trader | Role::Operator)
    }
}

impl OrdStatus {
    /// True while the order can still trade.
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
