//! Durable subscriptions: created, listed, attached to, acknowledged; and messages addressed to a
//! participant.
//!
//! `docs/protocols/subscriptions.md` specifies their meaning. A delivered message carries another
//! one, header and block, as its body: an execution report, a trade, or bytes that only its
//! publisher and its addressee understand.

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
    /// The message was delivered before, since the node started.
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
    /// Creates a subscription, from the next message on. Its name follows as a data field.
    CreateSubscription = 90 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The limit of bytes not taken before the subscription is evicted; zero for the node's own
        /// limit.
        quota_bytes: u64,
        /// The limit of messages not taken; zero for the node's own limit.
        quota_messages: u64,
        /// The maximum age of a message not taken; zero for the node's own limit.
        quota_age: Nanos,
        /// The longest time without an attached session; zero for the node's own limit.
        expire_after: Nanos,
        /// The session.
        session_id: SessionId,
        /// The topic's key: for executions a firm, for trades an instrument, zero for all; for
        /// messages the session itself; else zero.
        topic_key: u32,
        /// The kind of its topic.
        kind: SubscriptionKind,
        /// The least durability level of its messages.
        level: AckLevel,
    }

    /// An action on a subscription, whose name follows as a data field. For a list, the name is the
    /// last one listed before, empty for the first request.
    SubscriptionRequest = 91 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The owner of the subscription; zero for the session's own firm, or the supervisors.
        firm_id: FirmId,
        /// The action.
        action: SubscriptionAction,
    }

    /// A request was carried out, or refused.
    SubscriptionDone = 92 {
        /// The request's number.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The reason of a refusal.
        reason: Reason,
        /// On when the list continues after the last name.
        has_more: Switch,
    }

    /// A subscription's state. Its name follows as a data field.
    SubscriptionState = 93 {
        /// The request's number.
        correlation_id: u64,
        /// The number of messages not taken.
        lag_messages: u64,
        /// Bytes of their bodies.
        lag_bytes: u64,
        /// The number of these bytes that are only on disk.
        spilled_bytes: u64,
        /// The age of the oldest of them.
        lag_age: Nanos,
        /// The limit of bytes not taken.
        quota_bytes: u64,
        /// The limit of messages not taken.
        quota_messages: u64,
        /// The maximum age of a message not taken.
        quota_age: Nanos,
        /// The longest time without an attached session.
        expire_after: Nanos,
        /// The time at which the last session detached; zero while one is attached.
        detached_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The owner: a firm; zero for supervisors.
        firm_id: FirmId,
        /// The topic's key: a firm, an instrument or a session; zero for all.
        topic_key: u32,
        /// The kind of its topic.
        kind: SubscriptionKind,
        /// The subscription's status.
        status: SubscriptionStatus,
        /// The reason of its eviction.
        reason: Reason,
    }

    /// Attaches to a subscription: its messages come from the first one not taken. Its name follows
    /// as a data field.
    AttachSubscription = 94 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The handle that the connection gives the subscription.
        handle: u32,
        /// The number of messages that may be sent.
        credit_messages: u32,
        /// The number of body bytes that may be sent.
        credit_bytes: u32,
    }

    /// The subscription is attached: a group of [`TakenPlace`]s follows, the last place taken per
    /// source.
    SubscriptionAttached = 95 {
        /// The request's number.
        correlation_id: u64,
        /// All messages up to this one are taken.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The handle of the request.
        handle: u32,
        /// On when messages may have been lost, because of the node's durability level.
        may_have_lost: Switch,
    }

    /// Detaches from a subscription. Messages not acknowledged come again to the next session that
    /// attaches.
    DetachSubscription = 96 {
        /// The client's number for this request.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
    }

    /// Acknowledges all messages of a subscription up to one, and adds credit.
    AckMessages = 97 {
        /// The message; zero to add credit only.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// The number of messages to add to the credit.
        credit_messages: u32,
        /// The number of body bytes to add to the credit.
        credit_bytes: u32,
    }

    /// A message of a subscription. Its body follows as a data field.
    SubscribedMessage = 98 {
        /// Its number: increasing, not dense.
        message_no: u64,
        /// Its place in its source: a client has received it if it has received this or a later
        /// place of the source.
        record: Position,
        /// The time at which the node accepted it.
        published_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
        /// Its source: an event's partition, or the session that published the message.
        source: u32,
        /// The source's epoch.
        epoch: Epoch,
        /// AGAIN for a redelivery.
        flags: MessageFlags,
    }

    /// A subscription has ended: a group of [`TakenPlace`]s follows, to resume from.
    SubscriptionEnded = 99 {
        /// The number of the request to attach; zero when it ended while attached.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The handle of the request.
        handle: u32,
        /// The reason.
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

    /// A message for another session, connected or not. Its body follows as a data field.
    PublishMessage = 100 {
        /// The publisher's own number: increasing within an epoch, from 1.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The addressee; zero in an outside core's execution.
        to_session_id: SessionId,
        /// The publisher's epoch: numbers start anew with a higher one.
        epoch: Epoch,
    }

    /// Each message of a publisher up to this one is taken already or has reached `level`.
    PublishAck = 101 {
        /// The publisher's message number.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The durability level that they have until they are taken.
        level: AckLevel,
    }

    /// A message was refused. If it was refused for lack of room, all later ones are too, until it
    /// is sent again.
    PublishReject = 102 {
        /// The publisher's message number.
        message_no: u64,
        /// The session.
        session_id: SessionId,
        /// The addressee.
        to_session_id: SessionId,
        /// The publisher's epoch.
        epoch: Epoch,
        /// The reason.
        reason: Reason,
    }

    /// The token of a subscription to state, which follows as a data field. From a client: the
    /// token to store. From a node: the stored token.
    NamedToken = 103 {
        /// The client's number for this request; from a node, the number of the request to attach.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// The subscription's handle.
        handle: u32,
    }

    /// A trade without its parties: the body of a message on trades.
    PublicTrade = 104 {
        /// The trade.
        match_id: MatchId,
        /// The log's time of the trade.
        transact_time: Nanos,
        /// Its price.
        last_px: Price,
        /// Its quantity.
        last_qty: Qty,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// On when the trade was busted.
        busted: Switch,
    }
}
