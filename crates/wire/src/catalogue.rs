//! The catalogue of all messages as data: names, template ids, fields, groups.
//!
//! It serves code that handles messages without knowing each type: the test against the schema,
//! tools that print messages, the reject of a message that cannot be decoded. Each entry is built
//! from its `messages!` declaration; nothing is declared twice.

use weir_types::{
    AckLevel, AnySide, CredentialKind, ExecInst, ExecType, FeedState, KillScope, Liquidity,
    MarketContent, MarketPolicy, MassCancelScope, OrdStatus, OrdType, OrderAction, Phase,
    PhaseCause, PhaseHold, PhaseReached, Reason, Role, ScheduleStep, SelfTradePrevention, Side,
    SourceStatus, SubscriptionAction, SubscriptionKind, SubscriptionStatus, Switch, TimeInForce,
    TradingState,
};

use crate::delivery::{
    AddCredit, CancelFetch, FetchOrders, OrderPage, OrderPageBody, OrderRow, PageFlags, RowFlags,
    SourceState, SourceStates,
};
use crate::drop_copy::{CopyMark, DropCopyRequest, DropCopyState, ReportCopy};
use crate::event::{
    Checkpoint, Defined, PhaseChanged, ReferencesChanged, RequestDone, RequestRejected,
    TradeBusted, Uncrossed,
};
use crate::field::Field;
use crate::ingest::{
    BatchFlags, OpenSource, ResetSource, SourceAck, SourceBatch, SourceGap, SourceOpened,
    SourceReject, SourceReset,
};
use crate::market::{
    MarketChannel, MarketEnded, MarketFlags, MarketGap, MarketInstrument, MarketLevel,
    MarketLevels, MarketOrder, MarketOrders, MarketQuote, MarketRestingOrder, MarketStatistics,
    MarketStatus, MarketSubscribed, MarketTrade, SetMarketInterval, StatisticsFlags,
    SubscribeMarket, TradeConditions, UnsubscribeMarket,
};
use crate::message::{DecodeError, FieldInfo, Message, VisitField};
use crate::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use crate::reference::{
    AccountInquiry, BustTrade, ChangePhases, DefineAccount, DefineFirm, DefineInstrument,
    DefineSession, Import, KillSwitch, ResumeTrading, SchedulePhase, SchedulePhases, SessionChoice,
    SessionLost, SetLimits, SetPhase, SetReference, Tick, Transfer,
};
use crate::replica::{FollowSource, FollowState, SnapshotChunk};
use crate::report::ExecutionReport;
use crate::session::{
    Challenge, ChallengeRequest, Heartbeat, Logon, LogonAck, LogonReject, Logout, PartitionState,
    Reject, ResumePoint, SignedLogon,
};
use crate::subscription::{
    AckMessages, AttachSubscription, CreateSubscription, DetachSubscription, MessageFlags,
    NamedToken, PublicTrade, PublishAck, PublishMessage, PublishReject, SubscribedMessage,
    SubscriptionAttached, SubscriptionDone, SubscriptionEnded, SubscriptionRequest,
    SubscriptionState, TakenPlace,
};

/// Operations on a block whose message type is known only by its template id.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    visit: fn(&[u8], &mut VisitField<'_>) -> Result<(), DecodeError>,
    recode: fn(&[u8], &mut Vec<u8>) -> Result<(), DecodeError>,
}

impl Codec {
    const fn of<M: Message>() -> Codec {
        Codec {
            visit: |block, visit| {
                M::decode_block(block)?.visit_fields(visit);
                Ok(())
            },
            recode: |block, out| {
                M::decode_block(block)?.encode_block(out);
                Ok(())
            },
        }
    }

    /// Visits every field of a block with its value.
    ///
    /// # Errors
    /// As [`Message::decode_block`].
    pub fn visit(&self, block: &[u8], visit: &mut VisitField<'_>) -> Result<(), DecodeError> {
        (self.visit)(block, visit)
    }

    /// Decodes a block and appends it as this version encodes it.
    ///
    /// # Errors
    /// As [`Message::decode_block`].
    pub fn recode(&self, block: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        (self.recode)(block, out)
    }
}

/// A message's layout.
#[derive(Clone, Copy, Debug)]
pub struct MessageInfo {
    /// The name, as in the schema.
    pub name: &'static str,
    /// The template id, as in the schema.
    pub template_id: u16,
    /// The block's length in bytes.
    pub block_length: usize,
    /// The lengths that it had before fields were appended, the oldest first.
    pub block_lengths_before: &'static [usize],
    /// The block's fields, in order.
    pub fields: &'static [FieldInfo],
    /// The kind of data that follows the block.
    pub tail: Tail,
    /// Decodes and encodes a block.
    pub codec: Codec,
}

/// The data that follows a message's block.
#[derive(Clone, Copy, Debug)]
pub enum Tail {
    /// Nothing.
    None,
    /// A repeating group.
    Group(GroupInfo),
    /// Data fields of these names.
    Data(&'static [&'static str]),
    /// A definition's own message, header and block: in the logs only, never in a frame.
    Definition,
}

/// A repeating group's layout.
#[derive(Clone, Copy, Debug)]
pub struct GroupInfo {
    /// The group's name in its message, in snake case.
    pub name: &'static str,
    /// The entry's message name.
    pub entry: &'static str,
    /// An entry's length in bytes.
    pub block_length: usize,
    /// An entry's fields, in order.
    pub fields: &'static [FieldInfo],
    /// Decodes and encodes an entry.
    pub codec: Codec,
    /// The data field that follows each entry's block, if any.
    pub data: Option<&'static str>,
}

const fn info<M: Message>(tail: Tail) -> MessageInfo {
    MessageInfo {
        name: M::NAME,
        template_id: M::TEMPLATE_ID,
        block_length: M::BLOCK_LENGTH,
        block_lengths_before: M::BLOCK_LENGTHS_BEFORE,
        fields: M::FIELDS,
        tail,
        codec: Codec::of::<M>(),
    }
}

const fn plain<M: Message>() -> MessageInfo {
    info::<M>(Tail::None)
}

const fn group<E: Message>(name: &'static str) -> Tail {
    group_with::<E>(name, None)
}

const fn rows() -> Tail {
    group_with::<OrderRow>("rows", Some("attributes"))
}

const fn group_with<E: Message>(name: &'static str, data: Option<&'static str>) -> Tail {
    Tail::Group(GroupInfo {
        name,
        entry: E::NAME,
        block_length: E::BLOCK_LENGTH,
        fields: E::FIELDS,
        codec: Codec::of::<E>(),
        data,
    })
}

const MESSAGES: &[MessageInfo] = &[
    info::<Logon>(group::<ResumePoint>("resume_points")),
    info::<LogonAck>(group::<PartitionState>("partitions")),
    plain::<LogonReject>(),
    plain::<Logout>(),
    plain::<Heartbeat>(),
    plain::<Reject>(),
    plain::<ChallengeRequest>(),
    plain::<Challenge>(),
    info::<SignedLogon>(group::<ResumePoint>("resume_points")),
    plain::<NewOrder>(),
    plain::<ReplaceOrder>(),
    plain::<CancelOrder>(),
    plain::<MassCancel>(),
    plain::<DefineInstrument>(),
    plain::<DefineFirm>(),
    plain::<DefineAccount>(),
    plain::<DefineSession>(),
    plain::<Transfer>(),
    plain::<SetPhase>(),
    plain::<KillSwitch>(),
    plain::<BustTrade>(),
    plain::<SchedulePhase>(),
    plain::<ResumeTrading>(),
    plain::<SetReference>(),
    plain::<ChangePhases>(),
    plain::<SchedulePhases>(),
    plain::<AccountInquiry>(),
    plain::<ExecutionReport>(),
    plain::<RequestRejected>(),
    plain::<RequestDone>(),
    plain::<PhaseChanged>(),
    plain::<Checkpoint>(),
    info::<Defined>(Tail::Definition),
    plain::<TradeBusted>(),
    plain::<Uncrossed>(),
    plain::<ReferencesChanged>(),
    info::<FetchOrders>(Tail::Data(&["token", "min_token"])),
    info::<OrderPage>(Tail::Data(&["token"])),
    info::<OrderPageBody>(rows()),
    info::<SourceStates>(group::<SourceState>("sources")),
    plain::<CancelFetch>(),
    plain::<AddCredit>(),
    plain::<DropCopyRequest>(),
    plain::<DropCopyState>(),
    plain::<ReportCopy>(),
    plain::<CopyMark>(),
    plain::<OpenSource>(),
    plain::<SourceOpened>(),
    info::<SourceBatch>(rows()),
    plain::<SourceAck>(),
    plain::<SourceGap>(),
    plain::<SourceReject>(),
    plain::<FollowSource>(),
    plain::<FollowState>(),
    info::<SnapshotChunk>(Tail::Data(&["bytes"])),
    plain::<ResetSource>(),
    plain::<SourceReset>(),
    info::<CreateSubscription>(Tail::Data(&["name"])),
    info::<SubscriptionRequest>(Tail::Data(&["name"])),
    plain::<SubscriptionDone>(),
    info::<SubscriptionState>(Tail::Data(&["name"])),
    info::<AttachSubscription>(Tail::Data(&["name"])),
    info::<SubscriptionAttached>(group::<TakenPlace>("taken")),
    plain::<DetachSubscription>(),
    plain::<AckMessages>(),
    info::<SubscribedMessage>(Tail::Data(&["body"])),
    info::<SubscriptionEnded>(group::<TakenPlace>("taken")),
    info::<PublishMessage>(Tail::Data(&["body"])),
    plain::<PublishAck>(),
    plain::<PublishReject>(),
    info::<NamedToken>(Tail::Data(&["token"])),
    plain::<PublicTrade>(),
    info::<SubscribeMarket>(Tail::Data(&["pattern"])),
    plain::<UnsubscribeMarket>(),
    plain::<SetMarketInterval>(),
    plain::<MarketSubscribed>(),
    plain::<MarketEnded>(),
    info::<MarketInstrument>(Tail::Data(&["symbol"])),
    plain::<MarketChannel>(),
    plain::<MarketQuote>(),
    info::<MarketLevels>(group::<MarketLevel>("levels")),
    plain::<MarketStatistics>(),
    plain::<MarketStatus>(),
    plain::<MarketTrade>(),
    plain::<MarketOrder>(),
    info::<MarketOrders>(group::<MarketRestingOrder>("orders")),
    plain::<MarketGap>(),
    info::<Import>(Tail::Definition),
    plain::<Tick>(),
    plain::<SessionLost>(),
    plain::<SessionChoice>(),
    plain::<SetLimits>(),
];

/// Returns every message of the schema, by template id. The event log's `OrderEvent` is the head of
/// `ExecutionReport` and shares its template id, so it has no entry of its own.
#[must_use]
pub fn catalogue() -> &'static [MessageInfo] {
    MESSAGES
}

/// Returns the message with this template id.
#[must_use]
pub fn message_info(template_id: u16) -> Option<&'static MessageInfo> {
    let index = MESSAGES.binary_search_by_key(&template_id, |info| info.template_id).ok()?;
    Some(&MESSAGES[index])
}

/// Returns the codes of an enumeration or flag type of the schema, in the schema's order; `None`
/// for texts and for types in which every bit pattern is a value.
#[must_use]
pub fn codes(schema_type: &str) -> Option<Vec<u16>> {
    macro_rules! enums {
        ($($type:ident)*) => {
            match schema_type {
                $(<$type as Field>::SCHEMA_TYPE => {
                    Some($type::ALL.iter().map(|value| u16::from(value.code())).collect())
                })*
                <ExecInst as Field>::SCHEMA_TYPE => Some(flag_codes::<ExecInst>()),
                <PageFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<PageFlags>()),
                <RowFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<RowFlags>()),
                <BatchFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<BatchFlags>()),
                <MessageFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<MessageFlags>()),
                <MarketFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<MarketFlags>()),
                <TradeConditions as Field>::SCHEMA_TYPE => Some(flag_codes::<TradeConditions>()),
                <StatisticsFlags as Field>::SCHEMA_TYPE => Some(flag_codes::<StatisticsFlags>()),
                _ => None,
            }
        };
    }
    enums! {
        Side OrdType TimeInForce ExecType OrdStatus SelfTradePrevention Liquidity Phase
        PhaseCause PhaseHold PhaseReached MassCancelScope KillScope ScheduleStep Switch Role
        CredentialKind AckLevel SourceStatus
        SubscriptionAction SubscriptionKind SubscriptionStatus
        MarketContent MarketPolicy TradingState FeedState OrderAction AnySide
        Reason
    }
}

fn flag_codes<F: Field<Wire = u8>>() -> Vec<u16> {
    (0..=u8::MAX).filter(|bits| F::from_wire(*bits).is_some()).map(u16::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_ids_are_unique_and_in_order() {
        assert!(catalogue().is_sorted_by(|a, b| a.template_id < b.template_id));
    }

    #[test]
    fn a_message_is_found_by_its_template_id() {
        for info in catalogue() {
            assert_eq!(message_info(info.template_id).map(|found| found.name), Some(info.name));
        }
        assert!(message_info(0).is_none());
        assert!(message_info(9_999).is_none());
    }
}
