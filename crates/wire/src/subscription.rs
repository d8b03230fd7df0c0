//! Durable subscriptions: made, listed, attached to, acknowledged; and messages that are addressed
//! to a participant.
//!
//! What the messages mean is told in `docs/protocols/subscriptions.md`. A message that is
//! delivered carries another one, header and block, as its body: an execution report, a trade, or
//! bytes that only its publisher and its addressee understand.

use core::fmt;

use weir_types::{
    AckLevel, Epoch, FirmId, InstrumentId, MatchId, Nanos, PartitionId, Position, Price, Qty,
    Reason, SessionId, SubscriptionAction, SubscriptionKind, SubscriptionStatus, Switch,
};

use crate::field::{Field, write_flags};
use crate::message::messages;

/// The longest name of a subscription in bytes.
pub const SUBSCRIPTION_NAME_LEN_MAX: usize = 48;
/// The longest body of a message in bytes.
pub const BODY_LEN_MAX: usize = 32 * 1024;
/// The longest frame that a subscriber or publisher may send, in bytes, headers included.
pub const SUBSCRIBER_FRAME_LEN_MAX: usize = BODY_LEN_MAX + 256;

/// Flags of a delivered message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags(pub u8);

impl MessageFlags {
    /// It was delivered before, since the node started.
    pub const AGAIN: MessageFlags = MessageFlags(1);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: MessageFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Field for MessageFlags {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "messageFlags";

    fn from_wire(wire: u8) -> Option<Self> {
        (wire & !1 == 0).then_some(MessageFlags(wire))
    }

    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self.0, &["again"], f)
    }
}

messages! {
    /// Makes a subscription, from the next message on. Its name follows as a data field.
    CreateSubscription = 90 {
        /// The client's number for this request.
        correlation_id: u64,
        /// Bytes that may be untaken before it is evicted; zero for the node's own limit.
        quota_bytes: u64,
        /// Messages that may be untaken; zero for the node's own limit.
        quota_messages: u64,
        /// How old an untaken message may be; zero for the node's own limit.
        quota_age: Nanos,
        /// How long nobody may be attached; zero for the node's own limit.
        expire_after: Nanos,
        /// The session.
        session_id: SessionId,
        /// Of executions a firm, of trades an instrument; zero for all. Of messages the session
        /// itself. Else zero.
        topic_key: u32,
        /// What it is to.
        kind: SubscriptionKind,
        /// What its messages are to survive at least.
        level: AckLevel,
    }

    /// Asks something of a subscription, whose name follows as a data field. When it lists, the
    /// name is the one to go on behind, empty for the first.
    SubscriptionRequest = 91 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// Whose subscription; zero for the session's own firm, or the supervisors'.
        firm_id: FirmId,
        /// What is asked.
        action: SubscriptionAction,
    }

    /// A request was carried out, or refused.
    SubscriptionDone = 92 {
        /// The request's number.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// Why it was refused.
        reason: Reason,
        /// On when a list goes on behind the last name.
        has_more: Switch,
    }

    /// How a subscription stands. Its name follows as a data field.
    SubscriptionState = 93 {
        /// The request's number.
        correlation_id: u64,
        /// Messages not taken.
        lag_messages: u64,
        /// Bytes of their bodies.
        lag_bytes: u64,
        /// Of these, bytes that are on the disk alone.
        spilled_bytes: u64,
        /// The age of the oldest of them.
        lag_age: Nanos,
        /// Bytes that may be untaken.
        quota_bytes: u64,
        /// Messages that may be untaken.
        quota_messages: u64,
        /// How old an untaken message may be.
        quota_age: Nanos,
        /// How long nobody may be attached.
        expire_after: Nanos,
        /// When the last one attached left; zero while somebody is.
        detached_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Whose it is: a firm; zero for supervisors.
        firm_id: FirmId,
        /// Which firm, instrument or session it is to; zero for all.
        topic_key: u32,
        /// What it is to.
        kind: SubscriptionKind,
        /// How it stands.
        status: SubscriptionStatus,
        /// Why it was evicted.
        reason: Reason,
    }

    /// Attaches to a subscription: its messages come from the first one not taken. Its name
    /// follows as a data field.
    AttachSubscription = 94 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// What the connection calls the subscription from now on.
        handle: u32,
        /// Messages that may come.
        credit_messages: u32,
        /// Bytes of bodies that may come.
        credit_bytes: u32,
    }

    /// The subscription is attached to: a group of [`TakenPlace`]s follows, of what was taken.
    SubscriptionAttached = 95 {
        /// The request's number.
        correlation_id: u64,
        /// All messages up to this one are taken.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// As asked.
        handle: u32,
        /// On when messages may be missing, by the node's durability level.
        may_have_lost: Switch,
    }

    /// Leaves a subscription. What was not acknowledged comes again to who attaches next.
    DetachSubscription = 96 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// Which.
        handle: u32,
    }

    /// All messages of a subscription up to one are taken, and more may come.
    AckMessages = 97 {
        /// The message; zero to give credit alone.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// Messages that may come beside those of before.
        credit_messages: u32,
        /// Bytes of bodies that may.
        credit_bytes: u32,
    }

    /// A message of a subscription. Its body follows as a data field.
    SubscribedMessage = 98 {
        /// Its number: rising, not dense.
        message_no: u64,
        /// Its place in what its source says: a client has had it if it has had this one or a
        /// later one of the source.
        record: Position,
        /// When the node took it.
        published_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
        /// Its source: a partition of an event, the publisher's session of a message.
        source: u32,
        /// The source's epoch.
        epoch: Epoch,
        /// Whether it came before.
        flags: MessageFlags,
    }

    /// A subscription has ended: a group of [`TakenPlace`]s follows, to go on from.
    SubscriptionEnded = 99 {
        /// The number of the request to attach; zero when it ended while attached.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// As asked.
        handle: u32,
        /// Why.
        reason: Reason,
    }

    /// An entry of a group: the last message of a source that was taken.
    TakenPlace = 0 {
        /// Its place.
        record: Position,
        /// The source.
        source: u32,
        /// The source's epoch.
        epoch: Epoch,
    }

    /// A message for another session, whether it is there or not. Its body follows as a data
    /// field.
    PublishMessage = 100 {
        /// The publisher's own number: rising in an epoch, from 1.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// For whom it is; zero in an outside core's execution.
        to_session_id: SessionId,
        /// The publisher's epoch: numbers begin anew with a higher one.
        epoch: Epoch,
    }

    /// All messages of a publisher up to this one are taken, or survive what the level says.
    PublishAck = 101 {
        /// The publisher's number.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// What they survive until they are taken.
        level: AckLevel,
    }

    /// A message was not taken. For want of room none behind it is either, until it comes again.
    PublishReject = 102 {
        /// The publisher's number.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// For whom it was.
        to_session_id: SessionId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// Why.
        reason: Reason,
    }

    /// The token of a subscription to state, which follows as a data field. From a client: to be
    /// kept from now on. From a node: what is kept.
    NamedToken = 103 {
        /// The client's number for this request; of a node's, the number of the request to attach.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// Which subscription.
        handle: u32,
    }

    /// A trade, as everybody may know it: the body of a message of trades.
    PublicTrade = 104 {
        /// The trade.
        match_id: MatchId,
        /// The log's time of it.
        transact_time: Nanos,
        /// Its price.
        last_px: Price,
        /// Its quantity.
        last_qty: Qty,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// On when it was taken back.
        busted: Switch,
    }
}
