//! The reasons for a refused request or an ended order: one list for wire, engine and gateway.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)*) => {
        /// The reason for which a request was refused, or an order ended without its sender's
        /// request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Reason { $($(#[$doc])* $variant = $code,)* }

        impl Reason {
            /// All reasons, in the order of declaration.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// Returns the code on the wire and in the logs.
            #[must_use]
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// Returns the reason with this code, or `None` for an unassigned code.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Reason> {
                match code {
                    $($code => Some(Reason::$variant),)*
                    _ => None,
                }
            }

            /// Returns a sentence for human readers.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Reason::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// No reason: nothing is wrong.
    None = 0, "no reason";

    /// The frame's header is malformed.
    MalformedFrame = 1, "the frame's header is malformed";
    /// The frame is longer than the limit.
    FrameTooLong = 2, "the frame is longer than the limit";
    /// The frame ends before its message does.
    FrameTruncated = 3, "the frame ends before its message does";
    /// No message has this template id.
    UnknownTemplate = 4, "no message has this template id";
    /// The schema id or version is not served here.
    UnknownSchema = 5, "the schema id or version is not served here";
    /// A field's value is out of its range.
    FieldOutOfRange = 6, "a field's value is out of range";
    /// This message is not for clients to send.
    NotAClientMessage = 7, "clients may not send this message";
    /// The message is served on another of the node's listeners.
    NotServedHere = 8, "this listener does not serve the message";

    /// The session does not exist or does not have this key.
    UnknownKey = 20, "the session is not known by this key";
    /// The session's key has expired.
    KeyExpired = 21, "the session's key has expired";
    /// The session is logged on elsewhere.
    AlreadyLoggedOn = 22, "the session is logged on already";
    /// A message came before the logon.
    NotLoggedOn = 23, "log on first";
    /// The event to resume from is no longer retained, or was never sent.
    ResumeOutOfRange = 24, "the event to resume from is not retained or was never sent";
    /// The session's role does not allow it.
    NotEntitled = 25, "the session's role does not allow this";
    /// No heartbeat came.
    HeartbeatLost = 26, "no heartbeat came in time";
    /// The connection did not read its data in time.
    SlowConsumer = 27, "the connection did not read its data";
    /// The node is stopping.
    Stopping = 28, "the node is stopping";
    /// Too many bad messages.
    TooManyErrors = 29, "too many malformed messages";
    /// The peer requested the logout.
    LogoutRequested = 30, "logout was requested";
    /// The connection has no open challenge for the session: it was used, expired or never issued.
    UnknownChallenge = 31, "no challenge for the session is open on this connection";
    /// The connection has the most open challenges allowed.
    TooManyChallenges = 32, "too many challenges are open on this connection";
    /// The operator gave the session another key.
    KeyReplaced = 33, "the session's key was replaced";
    /// No session logged on over the connection in time.
    LogonTimeout = 34, "no session logged on in time";
    /// The address has the most connections without a session allowed.
    TooManyConnections = 35, "too many connections of this address have not logged on";
    /// The session has received events that are not in this node's history.
    ResumeOtherHistory = 36, "the session was told events that are not in the node's history";
    /// The session has the most connections allowed at this listener.
    TooManySessionConnections = 37, "the session has as many connections as it may";
    /// The session has the most copy streams allowed.
    TooManyCopyStreams = 38, "the session gets copies in as many streams as it may";
    /// The connection has subscribed to nothing in time.
    NothingSubscribed = 39, "nothing was subscribed to in time";

    /// The request number is below the highest one and its outcome is no longer remembered.
    TooOld = 40, "the request number is older than the remembered outcomes";
    /// The log is full.
    LogFull = 41, "the log is full";
    /// The node is overloaded; the request may be tried again later.
    Overloaded = 42, "the node is overloaded";
    /// The partition is unavailable.
    PartitionAway = 43, "the partition is away";
    /// The session has the most unanswered requests allowed.
    TooManyInFlight = 44, "the session has as many unanswered requests as it may";
    /// A request with this number is still being carried out; its answer follows.
    InProgress = 45, "a request with this number is in progress";
    /// More filed changes of the instrument's phase are due than one request makes; ticks make
    /// them.
    ChangesDue = 46, "filed changes of the instrument's phase are due and not made yet: ask again";
    /// The partition's list of changes was begun by another session, or has another length than the
    /// request says.
    ListIncomplete = 47, "the list of changes is another session's, or changes of it are missing";
    /// The trade is older than those that can be busted.
    TradeTooOld = 48, "the trade is older than those that can be taken back";
    /// The session was logged on by another connection, which proved its identity.
    TakenOver = 49, "another connection took the session over";

    /// No such instrument.
    UnknownInstrument = 60, "no such instrument";
    /// No such account.
    UnknownAccount = 61, "no such account";
    /// The account does not belong to the session's firm.
    NotYourAccount = 62, "the account is not your firm's";
    /// No live order has this identifier.
    UnknownOrder = 63, "no live order has this identifier";
    /// A live order has this `cl_ord_id` already.
    DuplicateClOrdId = 64, "a live order has this cl_ord_id already";
    /// The instrument's phase does not allow it.
    WrongPhase = 65, "the instrument's phase does not allow this";
    /// The price is off the tick, out of range, missing, or given for an order type without one.
    InvalidPrice = 66, "the price is off the tick or out of range";
    /// The quantity is zero, off the lot or too large.
    InvalidQty = 67, "the quantity is zero, off the lot or too large";
    /// This order type is not served.
    UnsupportedOrdType = 68, "this order type is not served";
    /// This time in force is not served, or not with this order type.
    UnsupportedTimeInForce = 69, "this time in force is not served with this order type";
    /// The account has too little free cash.
    InsufficientCash = 70, "the account has too little free cash";
    /// The account has too little free position.
    InsufficientPosition = 71, "the account has too little free position";
    /// A post-only order would take liquidity.
    WouldTakeLiquidity = 72, "a post-only order would take liquidity";
    /// A fill-or-kill order cannot be filled at once.
    CannotFill = 73, "the order cannot be filled at once";
    /// Self-trade prevention.
    SelfTrade = 74, "self-trade prevention";
    /// The kill switch is on.
    Killed = 75, "the kill switch is on";
    /// The session was lost and had chosen cancel on disconnect.
    SessionLost = 76, "the session was lost";
    /// An immediate order found nothing more to match.
    NoLiquidity = 77, "nothing more to match at once";
    /// Part of a mass cancel.
    MassCancel = 78, "a mass cancel";
    /// The partition does not take this command.
    WrongPartition = 79, "the partition does not take this command";
    /// The definition contradicts the present state.
    InvalidDefinition = 80, "the definition contradicts the present state";
    /// The new total quantity is not above the filled quantity.
    QtyBelowFilled = 81, "the new quantity is not above the filled quantity";
    /// No such firm.
    UnknownFirm = 82, "no such firm";
    /// No such session.
    UnknownSession = 83, "no such session";
    /// A limit of the engine is reached.
    LimitReached = 84, "a limit of the engine is reached";
    /// A trade would have been beyond the collar, and a volatility interruption began.
    VolatilityInterruption = 85, "a volatility interruption began";
    /// No trade that can be busted has this number.
    UnknownTrade = 86, "no trade that can be taken back has this number";
    /// The session exceeded its order rate.
    Throttled = 87, "the session enters orders faster than it may";
    /// The account's last transfer has this number or a higher one, and this is no repeat of it.
    TransferIdUsed = 88, "the account's last transfer has this number or a higher one";
    /// The session has the most live orders allowed.
    TooManySessionOrders = 89, "the session has as many live orders as it may";
    /// The account has the most live orders allowed.
    TooManyAccountOrders = 90, "the account has as many live orders as it may";
    /// The firm has the most live orders allowed.
    TooManyFirmOrders = 91, "the firm has as many live orders as it may";
    /// A mass cancel of the session, or a change of many instruments, is in progress, or the most
    /// mass cancels allowed in the partition are.
    TooManyMassCancels = 92, "as many mass cancels or changes of many as may be are in progress";
    /// A definition with this identifier exists.
    AlreadyDefined = 93, "a definition with this identifier exists already";
    /// Live orders have a price that is no multiple of the new tick size.
    LiveOrdersOffTick = 94, "live orders have prices off the new tick";
    /// Live orders have a quantity that is no multiple of the new lot size.
    LiveOrdersOffLot = 95, "live orders have quantities off the new lot";
    /// Live orders have a price outside of the new range.
    LiveOrdersOutOfRange = 96, "live orders have prices out of the new range";
    /// Live orders are larger than the new largest quantity.
    LiveOrdersTooLarge = 97, "live orders are larger than the new largest quantity";
    /// The instrument to rename has live orders.
    LiveOrdersNamed = 98, "live orders stand under the present symbol";
    /// The call would uncross beyond a collar, and the request does not override the collars.
    BeyondCollar = 99, "the call would uncross beyond a collar";

    /// The token cannot be honoured.
    ResyncToken = 100, "the token is not valid here; start again from the oldest legal one";
    /// The token is beyond the end of its epoch.
    ResyncEpoch = 101, "the token is beyond its epoch's end";
    /// The token was for another filter or entitlement.
    ResyncFilter = 102, "the token was for another filter or entitlement";
    /// The token is older than the oldest retained change.
    ResyncFloor = 103, "the token is older than the floor";
    /// No store reached the request's minimum token in the time given.
    MinTokenNotReached = 104, "the store has not reached minToken in time";
    /// The request's minimum token does not belong to this filter and entitlement.
    MinTokenInvalid = 105, "minToken is no token of this filter and these rights";

    /// No source of this number is configured.
    UnknownSource = 120, "no source of this number is configured here";
    /// The source is open already, for another session or connection.
    SourceAlreadyOpen = 121, "the source is open already";
    /// The batch is for a source that the session has not opened.
    SourceNotOpen = 122, "open the source first";
    /// The epoch is below the source's.
    EpochWentBack = 123, "the epoch is below the source's";
    /// The batch's epoch is not the one that was opened.
    EpochNotOpen = 124, "the batch is not of the epoch that was opened";
    /// The store lacks the state that the source builds on.
    ResendNeeded = 125, "the store lacks earlier rows of the source: resend all in a new epoch";
    /// A full resend needs a new epoch.
    ResendNeedsEpoch = 126, "a full resend needs a new epoch";
    /// A begin or end mark of a full resend is misplaced or missing.
    ResendMisplaced = 127, "a full resend's begin or end where none is due, or none where it is";
    /// The pair (`seq`, `rec`) does not increase.
    PlaceWentBack = 128, "the pair of seq and rec does not grow";
    /// The record's number is too far from the existing ones.
    RecTooFar = 129, "the record's number is too far from those that are there";
    /// The row's source differs from its batch's.
    WrongSource = 130, "the row is another source's";
    /// The row's fields contradict each other.
    RowMalformed = 131, "a field of the row has a value without meaning";
    /// The attributes are longer than a row may carry.
    AttributesTooLong = 132, "the row's attributes are longer than 600 bytes";
    /// The record's number belongs to another order.
    OrderIdChanged = 133, "the record's number belongs to another order";
    /// More batches are unacknowledged than the window allows.
    WindowOverrun = 134, "more is without acknowledgement than the window allows";
    /// The batch has more rows than allowed.
    TooManyRows = 135, "the batch has more rows than it may";
    /// The batch's number is zero, or too high for a successor.
    BatchOutOfRange = 136, "the batch's number is out of range";
    /// The store has no room for the row.
    StoreFull = 137, "the store has no room for more";
    /// The record's number is above 2^63 - 1.
    RecOutOfRange = 138, "rec is above 2^63 - 1";
    /// The change's number is above 2^63 - 1.
    SeqOutOfRange = 139, "seq is above 2^63 - 1";
    /// A time of the row is above 2^63 - 1 ns.
    TimeOutOfRange = 140, "a time of the row is above 2^63 - 1 ns";
    /// The epoch is the last of its type.
    EpochOutOfRange = 141, "the epoch is the last of its type, which no other could follow";
    /// The batch was taken before, and its rows or flags are others now.
    BatchChanged = 142, "the batch was taken before, with other rows or flags";
    /// The log of the source failed here.
    SourceQuarantined = 143, "the log of the source failed here: the node has to start again";

    /// The session has created the most subscriptions allowed, or is attached to them.
    TooManySessionSubscriptions = 168, "the session has as many subscriptions as it may";
    /// The firm has the most subscriptions allowed.
    TooManyFirmSubscriptions = 169, "the firm has as many subscriptions as it may";
    /// The session has no subscription of this name.
    SubscriptionUnknown = 170, "no subscription has this name";
    /// A subscription has this name already.
    SubscriptionExists = 171, "a subscription has this name already";
    /// The most subscriptions allowed exist already.
    TooManySubscriptions = 172, "there are as many subscriptions as there may be";
    /// A client is attached to the subscription.
    SubscriptionInUse = 173, "somebody is attached to the subscription";
    /// The connection has no attachment with this handle.
    NotAttached = 174, "nothing is attached to by this handle";
    /// The subscription's kind does not support the request.
    SubscriptionOtherKind = 175, "a subscription of this kind does not have that";
    /// Evicted: too many untaken bytes.
    QuotaBytes = 176, "evicted: too many bytes were not taken";
    /// Evicted: too many untaken messages.
    QuotaMessages = 177, "evicted: too many messages were not taken";
    /// Evicted: a message stayed untaken for too long.
    QuotaAge = 178, "evicted: a message was not taken for too long";
    /// Memory was full: the subscription was evicted or the message refused.
    BrokerMemoryFull = 179, "memory is full of messages that are not taken";
    /// The disk was full: the subscription was evicted or the message refused.
    BrokerDiskFull = 180, "the disk is full of messages that are not taken";
    /// Evicted: its messages on disk could not be read.
    SpillUnreadable = 181, "evicted: its messages on the disk could not be read";
    /// Evicted by an operator.
    EvictedByOperator = 182, "evicted by an operator";
    /// No client attached to the subscription for too long.
    SubscriptionExpired = 183, "nobody had attached to the subscription for too long";
    /// The acknowledged message was not delivered on this connection.
    AckAhead = 184, "the message was not delivered on this connection";
    /// The addressee has no subscription to messages, so the message is not kept.
    NobodySubscribes = 185, "the addressee has no subscription to messages";
    /// The publisher's number or epoch does not increase.
    MessageNoTaken = 186, "the publisher's number or epoch does not grow";
    /// The broker stopped after a disk failure.
    BrokerStopped = 187, "the broker has stopped after a failure of its disk";
    /// The node's durability level is below the requested one.
    LevelNotServed = 188, "the node's durability level is below the one asked for";

    /// Conflation was requested for data that is never conflated.
    NeverConflated = 190, "trades and orders are never conflated";
    /// An interval was requested for data that is not conflated.
    IntervalWithoutConflation = 191, "an interval is for conflated content";
    /// The session already has a subscription with this handle.
    HandleTaken = 192, "a subscription of the session has this handle already";
    /// The pattern of a subscription to market data is malformed.
    PatternMalformed = 193, "the pattern is no symbol, no beginning of symbols and no star";
    /// The session's subscriptions would have more slots, instruments summed up over
    /// subscriptions, than they may.
    TooManySessionSlots = 194, "the session's subscriptions would have more slots than they may";
    /// The subscriptions of all sessions would have more slots than they may.
    TooManySlots = 195, "all sessions' subscriptions would have more slots than they may";
    /// As many subscriptions of the connection as may be include one instrument.
    TooManyOfInstrument = 196, "as many subscriptions as may be include an instrument of it";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
            assert!(!reason.text().is_empty());
        }
        assert_eq!(Reason::from_code(9_999), None);
    }
}
