//! The messages that a client may send and those that a node may send, one type for each direction,
//! with the groups and data fields behind their blocks.
//!
//! A gateway calls [`ClientMessage::decode`] on each frame, a client [`NodeMessage::decode`]. A
//! message of the schema that the sender may not send is [`DecodeError::Unexpected`]. Groups and
//! tokens borrow from the frame; nothing is allocated.

use weir_types::{Reason, RequestNo, SessionId};

use crate::catalogue::message_info;
use crate::delivery::{
    AddCredit, CancelFetch, FetchOrders, OrderPage, OrderPageBody, OrderRow, SourceState,
    SourceStates,
};
use crate::drop_copy::{CopyMark, DropCopyRequest, DropCopyState, ReportCopy};
use crate::event::{RequestDone, RequestRejected, TradeBusted};
use crate::frame::{RawMessage, put_frame, put_frame_with, put_message};
use crate::group::{Group, put_data, put_group, take_data, take_group};
use crate::ingest::{
    BATCH_ROW_COUNT_MAX, OpenSource, ResetSource, SourceAck, SourceBatch, SourceGap, SourceOpened,
    SourceReject, SourceReset,
};
use crate::market::{MarketGap, SubscribeMarket};
use crate::market_dialogue::{MarketMessage, MarketRequest};
use crate::message::{DecodeError, Message};
use crate::record::Request;
use crate::replica::{
    FollowSource, FollowState, SnapshotChunk, put_snapshot_chunk, snapshot_chunk_of,
};
use crate::report::ExecutionReport;
use crate::rows::{Rows, put_row, put_row_count, take_rows};
use crate::session::{
    Challenge, ChallengeRequest, Heartbeat, Logon, LogonAck, LogonReject, Logout, PartitionState,
    Reject, ResumePoint, SignedLogon,
};

use crate::subscription::{
    AckMessages, AttachSubscription, BODY_LEN_MAX, CreateSubscription, DetachSubscription,
    NamedToken, PublishAck, PublishMessage, PublishReject, SUBSCRIPTION_NAME_LEN_MAX,
    SubscribedMessage, SubscriptionAttached, SubscriptionDone, SubscriptionEnded,
    SubscriptionRequest, SubscriptionState, TakenPlace,
};

/// The most resume points of a logon: one per partition.
pub const RESUME_POINT_COUNT_MAX: usize = 64;
/// The longest token in bytes: 32, plus 50 for each of 64 sources.
pub const TOKEN_LEN_MAX: usize = 32 + 50 * 64;

/// The tokens of a fetch, each at most [`TOKEN_LEN_MAX`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens<'a> {
    /// The token to continue from; empty for the beginning.
    pub token: &'a [u8],
    /// The token that the store must reach before it answers; empty for none.
    pub min_token: &'a [u8],
}

/// A message that a client may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// Opens a session; at most [`RESUME_POINT_COUNT_MAX`] resume points, one per partition.
    Logon(Logon, Group<'a, ResumePoint>),
    /// Asks for a challenge.
    ChallengeRequest(ChallengeRequest),
    /// Opens a session by a signature; resume points as in a logon.
    SignedLogon(SignedLogon, Group<'a, ResumePoint>),
    /// Closes a session or the connection.
    Logout(Logout),
    /// A sign of life.
    Heartbeat(Heartbeat),
    /// A request for a log.
    Request(Request),
    /// A fetch of order state, with its tokens.
    FetchOrders(FetchOrders, Tokens<'a>),
    /// Cancels a fetch.
    CancelFetch(CancelFetch),
    /// More credit for a fetch.
    AddCredit(AddCredit),
    /// Starts or ends a stream of copies of reports.
    DropCopyRequest(DropCopyRequest),
    /// Opens the source of an outside core.
    OpenSource(OpenSource),
    /// Changes of a source.
    SourceBatch(SourceBatch, Rows<'a>),
    /// A replica's request for the next entries of a source.
    FollowSource(FollowSource),
    /// An operator's order to forget a source's orders.
    ResetSource(ResetSource),
    /// Creates a subscription of this name: at most [`SUBSCRIPTION_NAME_LEN_MAX`] bytes.
    CreateSubscription(CreateSubscription, &'a [u8]),
    /// An action on the subscription of this name.
    SubscriptionRequest(SubscriptionRequest, &'a [u8]),
    /// Attaches to the subscription of this name.
    AttachSubscription(AttachSubscription, &'a [u8]),
    /// Detaches from a subscription.
    DetachSubscription(DetachSubscription),
    /// Acknowledges messages and grants credit for more.
    AckMessages(AckMessages),
    /// A message for another session: at most [`BODY_LEN_MAX`] bytes.
    PublishMessage(PublishMessage, &'a [u8]),
    /// A token to store: at most [`TOKEN_LEN_MAX`] bytes.
    NamedToken(NamedToken, &'a [u8]),
    /// A market data request.
    Market(MarketRequest<'a>),
}

/// A message that a node may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMessage<'a> {
    /// The session is open; its state per partition.
    LogonAck(LogonAck, Group<'a, PartitionState>),
    /// The session is not opened.
    LogonReject(LogonReject),
    /// The nonce to sign.
    Challenge(Challenge),
    /// The session or the connection is closed.
    Logout(Logout),
    /// A sign of life.
    Heartbeat(Heartbeat),
    /// A message was refused before it reached a log.
    Reject(Reject),
    /// A change of an order.
    ExecutionReport(ExecutionReport),
    /// A request was refused by the engine.
    RequestRejected(RequestRejected),
    /// A request was carried out.
    RequestDone(RequestDone),
    /// A trade was busted.
    TradeBusted(TradeBusted),
    /// A page's header, with the next token.
    OrderPage(OrderPage, &'a [u8]),
    /// A page's rows.
    OrderPageBody(OrderPageBody, Rows<'a>),
    /// The status of a page's sources.
    SourceStates(SourceStates, Group<'a, SourceState>),
    /// The state of a stream of copies.
    DropCopyState(DropCopyState),
    /// The head of a copy; the next message is the report.
    ReportCopy(ReportCopy),
    /// The high-water mark of a stream of copies.
    CopyMark(CopyMark),
    /// A source is open.
    SourceOpened(SourceOpened),
    /// Batches are applied.
    SourceAck(SourceAck),
    /// A batch is missing.
    SourceGap(SourceGap),
    /// A source is not opened, or a batch refused.
    SourceReject(SourceReject),
    /// A source was reset.
    SourceReset(SourceReset),
    /// The head of an answer to a replica, with the master's position.
    FollowState(FollowState),
    /// A piece of a snapshot.
    SnapshotChunk(SnapshotChunk, &'a [u8]),
    /// A request about subscriptions was carried out, or refused.
    SubscriptionDone(SubscriptionDone),
    /// The state of the subscription of this name.
    SubscriptionState(SubscriptionState, &'a [u8]),
    /// A subscription is attached; the last place taken per source.
    SubscriptionAttached(SubscriptionAttached, Group<'a, TakenPlace>),
    /// A message of a subscription, with its body.
    SubscribedMessage(SubscribedMessage, &'a [u8]),
    /// A subscription has ended; the last place taken per source.
    SubscriptionEnded(SubscriptionEnded, Group<'a, TakenPlace>),
    /// A publisher's messages are accepted.
    PublishAck(PublishAck),
    /// A publisher's message was refused.
    PublishReject(PublishReject),
    /// The stored token.
    NamedToken(NamedToken, &'a [u8]),
    /// Market data.
    Market(MarketMessage<'a>),
}

/// The decode error for a template that the sender may not send.
fn misplaced(template_id: u16) -> DecodeError {
    match message_info(template_id) {
        Some(info) => DecodeError::Unexpected(info.name),
        None => DecodeError::UnknownTemplate(template_id),
    }
}

/// The out-of-range error of the data behind the block of `M`: its index is one past the last
/// field.
fn tail_out_of_range<M: Message>(field: &'static str) -> DecodeError {
    let index = u16::try_from(M::FIELDS.len() + 1).expect("no message has 65,535 fields");
    DecodeError::FieldOutOfRange { message: M::NAME, field, index }
}

fn group_of<'a, M: Message, E: Message>(raw: &RawMessage<'a>) -> Result<Group<'a, E>, DecodeError> {
    let (group, rest) = take_group(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    Ok(group)
}

fn points_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<Group<'a, ResumePoint>, DecodeError> {
    let points = group_of::<M, _>(raw)?;
    if points.len() > RESUME_POINT_COUNT_MAX {
        return Err(tail_out_of_range::<M>("resume_points"));
    }
    Ok(points)
}

fn token_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<&'a [u8], DecodeError> {
    data_of::<M>(raw, "token", TOKEN_LEN_MAX)
}

fn name_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<&'a [u8], DecodeError> {
    data_of::<M>(raw, "name", SUBSCRIPTION_NAME_LEN_MAX)
}

fn body_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<&'a [u8], DecodeError> {
    data_of::<M>(raw, "body", BODY_LEN_MAX)
}

fn data_of<'a, M: Message>(
    raw: &RawMessage<'a>,
    field: &'static str,
    len_max: usize,
) -> Result<&'a [u8], DecodeError> {
    let (data, rest) = take_data(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    if data.len() > len_max {
        return Err(tail_out_of_range::<M>(field));
    }
    Ok(data)
}

fn tokens_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<Tokens<'a>, DecodeError> {
    let (token, rest) = take_data(raw.rest())?;
    let (min_token, rest) = take_data(rest)?;
    raw.expect_end::<M>(rest)?;
    for (field, token) in [("token", token), ("min_token", min_token)] {
        if token.len() > TOKEN_LEN_MAX {
            return Err(tail_out_of_range::<M>(field));
        }
    }
    Ok(Tokens { token, min_token })
}

fn rows_of<'a, M: Message>(raw: &RawMessage<'a>) -> Result<Rows<'a>, DecodeError> {
    let (rows, rest) = take_rows(raw.rest())?;
    raw.expect_end::<M>(rest)?;
    Ok(rows)
}

impl<'a> ClientMessage<'a> {
    /// Decodes a client's message.
    ///
    /// # Errors
    /// Any [`DecodeError`]; [`DecodeError::Unexpected`] for messages that are not a client's.
    #[inline]
    pub fn decode(raw: &RawMessage<'a>) -> Result<ClientMessage<'a>, DecodeError> {
        match raw.template_id {
            Logon::TEMPLATE_ID => Ok(ClientMessage::Logon(raw.decode()?, points_of::<Logon>(raw)?)),
            ChallengeRequest::TEMPLATE_ID => {
                raw.decode_whole().map(ClientMessage::ChallengeRequest)
            }
            SignedLogon::TEMPLATE_ID => {
                Ok(ClientMessage::SignedLogon(raw.decode()?, points_of::<SignedLogon>(raw)?))
            }
            Logout::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::Logout),
            Heartbeat::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::Heartbeat),
            FetchOrders::TEMPLATE_ID => {
                Ok(ClientMessage::FetchOrders(raw.decode()?, tokens_of::<FetchOrders>(raw)?))
            }
            CancelFetch::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::CancelFetch),
            AddCredit::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::AddCredit),
            DropCopyRequest::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::DropCopyRequest),
            OpenSource::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::OpenSource),
            SourceBatch::TEMPLATE_ID => {
                Ok(ClientMessage::SourceBatch(raw.decode()?, rows_of::<SourceBatch>(raw)?))
            }
            FollowSource::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::FollowSource),
            ResetSource::TEMPLATE_ID => raw.decode_whole().map(ClientMessage::ResetSource),
            CreateSubscription::TEMPLATE_ID..=NamedToken::TEMPLATE_ID => subscriber_message(raw),
            SubscribeMarket::TEMPLATE_ID..=MarketGap::TEMPLATE_ID => {
                let request = MarketRequest::decode(raw);
                let request = request.unwrap_or_else(|| Err(misplaced(raw.template_id)));
                request.map(ClientMessage::Market)
            }
            template_id => match Request::decode(raw) {
                Err(DecodeError::UnknownTemplate(_)) => Err(misplaced(template_id)),
                request => request.map(ClientMessage::Request),
            },
        }
    }

    /// Appends the message's frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            ClientMessage::Logon(logon, points) => {
                put_frame_with(out, |out| put_message_and_group(logon, points, out));
            }
            ClientMessage::SignedLogon(logon, points) => {
                put_frame_with(out, |out| put_message_and_group(logon, points, out));
            }
            ClientMessage::ChallengeRequest(message) => put_frame(message, out),
            ClientMessage::Logout(message) => put_frame(message, out),
            ClientMessage::Heartbeat(message) => put_frame(message, out),
            ClientMessage::Request(request) => put_request(request, out),
            ClientMessage::FetchOrders(fetch, tokens) => put_question(fetch, *tokens, out),
            ClientMessage::CancelFetch(message) => put_frame(message, out),
            ClientMessage::AddCredit(message) => put_frame(message, out),
            ClientMessage::DropCopyRequest(message) => put_frame(message, out),
            ClientMessage::OpenSource(message) => put_frame(message, out),
            ClientMessage::FollowSource(message) => put_frame(message, out),
            ClientMessage::ResetSource(message) => put_frame(message, out),
            ClientMessage::SourceBatch(batch, rows) => {
                put_frame_with(out, |out| {
                    put_message(batch, out);
                    rows.put(out);
                });
            }
            ClientMessage::CreateSubscription(message, name) => put_with_data(message, name, out),
            ClientMessage::SubscriptionRequest(message, name) => put_with_data(message, name, out),
            ClientMessage::AttachSubscription(message, name) => put_with_data(message, name, out),
            ClientMessage::DetachSubscription(message) => put_frame(message, out),
            ClientMessage::AckMessages(message) => put_frame(message, out),
            ClientMessage::PublishMessage(message, body) => put_with_data(message, body, out),
            ClientMessage::NamedToken(message, token) => put_with_data(message, token, out),
            ClientMessage::Market(request) => request.put(out),
        }
    }
}

impl<'a> NodeMessage<'a> {
    /// Decodes a node's message.
    ///
    /// # Errors
    /// Any [`DecodeError`]; [`DecodeError::Unexpected`] for messages that are not a node's.
    #[inline]
    pub fn decode(raw: &RawMessage<'a>) -> Result<NodeMessage<'a>, DecodeError> {
        Ok(match raw.template_id {
            ExecutionReport::TEMPLATE_ID => NodeMessage::ExecutionReport(raw.decode_whole()?),
            RequestRejected::TEMPLATE_ID => NodeMessage::RequestRejected(raw.decode_whole()?),
            RequestDone::TEMPLATE_ID => NodeMessage::RequestDone(raw.decode_whole()?),
            TradeBusted::TEMPLATE_ID => NodeMessage::TradeBusted(raw.decode_whole()?),
            Heartbeat::TEMPLATE_ID => NodeMessage::Heartbeat(raw.decode_whole()?),
            Reject::TEMPLATE_ID => NodeMessage::Reject(raw.decode_whole()?),
            LogonAck::TEMPLATE_ID => {
                NodeMessage::LogonAck(raw.decode()?, group_of::<LogonAck, _>(raw)?)
            }
            LogonReject::TEMPLATE_ID => NodeMessage::LogonReject(raw.decode_whole()?),
            Challenge::TEMPLATE_ID => NodeMessage::Challenge(raw.decode_whole()?),
            Logout::TEMPLATE_ID => NodeMessage::Logout(raw.decode_whole()?),
            OrderPage::TEMPLATE_ID => {
                NodeMessage::OrderPage(raw.decode()?, token_of::<OrderPage>(raw)?)
            }
            OrderPageBody::TEMPLATE_ID => {
                NodeMessage::OrderPageBody(raw.decode()?, rows_of::<OrderPageBody>(raw)?)
            }
            SourceStates::TEMPLATE_ID => {
                NodeMessage::SourceStates(raw.decode()?, group_of::<SourceStates, _>(raw)?)
            }
            ReportCopy::TEMPLATE_ID => NodeMessage::ReportCopy(raw.decode_whole()?),
            DropCopyState::TEMPLATE_ID => NodeMessage::DropCopyState(raw.decode_whole()?),
            CopyMark::TEMPLATE_ID => NodeMessage::CopyMark(raw.decode_whole()?),
            SourceOpened::TEMPLATE_ID => NodeMessage::SourceOpened(raw.decode_whole()?),
            SourceAck::TEMPLATE_ID => NodeMessage::SourceAck(raw.decode_whole()?),
            SourceGap::TEMPLATE_ID => NodeMessage::SourceGap(raw.decode_whole()?),
            SourceReject::TEMPLATE_ID => NodeMessage::SourceReject(raw.decode_whole()?),
            SourceReset::TEMPLATE_ID => NodeMessage::SourceReset(raw.decode_whole()?),
            FollowState::TEMPLATE_ID => NodeMessage::FollowState(raw.decode_whole()?),
            SnapshotChunk::TEMPLATE_ID => {
                let (chunk, bytes) = snapshot_chunk_of(raw)?;
                NodeMessage::SnapshotChunk(chunk, bytes)
            }
            CreateSubscription::TEMPLATE_ID..=NamedToken::TEMPLATE_ID => {
                return broker_message(raw);
            }
            SubscribeMarket::TEMPLATE_ID..=MarketGap::TEMPLATE_ID => {
                let message = MarketMessage::decode(raw);
                let message = message.unwrap_or_else(|| Err(misplaced(raw.template_id)));
                return message.map(NodeMessage::Market);
            }
            template_id => return Err(misplaced(template_id)),
        })
    }

    /// Appends the message's frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            NodeMessage::LogonAck(ack, partitions) => {
                put_frame_with(out, |out| put_message_and_group(ack, partitions, out));
            }
            NodeMessage::LogonReject(message) => put_frame(message, out),
            NodeMessage::Challenge(message) => put_frame(message, out),
            NodeMessage::Logout(message) => put_frame(message, out),
            NodeMessage::Heartbeat(message) => put_frame(message, out),
            NodeMessage::Reject(message) => put_frame(message, out),
            NodeMessage::ExecutionReport(message) => put_frame(message, out),
            NodeMessage::RequestRejected(message) => put_frame(message, out),
            NodeMessage::RequestDone(message) => put_frame(message, out),
            NodeMessage::TradeBusted(message) => put_frame(message, out),
            NodeMessage::OrderPage(page, token) => put_order_page(page, token, out),
            NodeMessage::OrderPageBody(body, rows) => {
                put_frame_with(out, |out| {
                    put_message(body, out);
                    rows.put(out);
                });
            }
            NodeMessage::SourceStates(states, sources) => {
                put_frame_with(out, |out| put_message_and_group(states, sources, out));
            }
            NodeMessage::DropCopyState(message) => put_frame(message, out),
            NodeMessage::ReportCopy(message) => put_frame(message, out),
            NodeMessage::CopyMark(message) => put_frame(message, out),
            NodeMessage::SourceOpened(message) => put_frame(message, out),
            NodeMessage::SourceAck(message) => put_frame(message, out),
            NodeMessage::SourceGap(message) => put_frame(message, out),
            NodeMessage::SourceReject(message) => put_frame(message, out),
            NodeMessage::SourceReset(message) => put_frame(message, out),
            NodeMessage::FollowState(message) => put_frame(message, out),
            NodeMessage::SnapshotChunk(chunk, bytes) => put_snapshot_chunk(chunk, bytes, out),
            NodeMessage::SubscriptionDone(message) => put_frame(message, out),
            NodeMessage::SubscriptionState(message, name) => put_with_data(message, name, out),
            NodeMessage::SubscriptionAttached(message, taken) => {
                put_frame_with(out, |out| put_message_and_group(message, taken, out));
            }
            NodeMessage::SubscribedMessage(message, body) => put_with_data(message, body, out),
            NodeMessage::SubscriptionEnded(message, taken) => {
                put_frame_with(out, |out| put_message_and_group(message, taken, out));
            }
            NodeMessage::PublishAck(message) => put_frame(message, out),
            NodeMessage::PublishReject(message) => put_frame(message, out),
            NodeMessage::NamedToken(message, token) => put_with_data(message, token, out),
            NodeMessage::Market(message) => message.put(out),
        }
    }
}

/// Decodes the messages of subscribers and publishers.
fn subscriber_message<'a>(raw: &RawMessage<'a>) -> Result<ClientMessage<'a>, DecodeError> {
    Ok(match raw.template_id {
        CreateSubscription::TEMPLATE_ID => {
            ClientMessage::CreateSubscription(raw.decode()?, name_of::<CreateSubscription>(raw)?)
        }
        SubscriptionRequest::TEMPLATE_ID => {
            ClientMessage::SubscriptionRequest(raw.decode()?, name_of::<SubscriptionRequest>(raw)?)
        }
        AttachSubscription::TEMPLATE_ID => {
            ClientMessage::AttachSubscription(raw.decode()?, name_of::<AttachSubscription>(raw)?)
        }
        DetachSubscription::TEMPLATE_ID => ClientMessage::DetachSubscription(raw.decode_whole()?),
        AckMessages::TEMPLATE_ID => ClientMessage::AckMessages(raw.decode_whole()?),
        PublishMessage::TEMPLATE_ID => {
            ClientMessage::PublishMessage(raw.decode()?, body_of::<PublishMessage>(raw)?)
        }
        NamedToken::TEMPLATE_ID => {
            ClientMessage::NamedToken(raw.decode()?, token_of::<NamedToken>(raw)?)
        }
        template_id => return Err(misplaced(template_id)),
    })
}

/// Decodes the messages to subscribers and publishers.
fn broker_message<'a>(raw: &RawMessage<'a>) -> Result<NodeMessage<'a>, DecodeError> {
    Ok(match raw.template_id {
        SubscriptionDone::TEMPLATE_ID => NodeMessage::SubscriptionDone(raw.decode_whole()?),
        SubscriptionState::TEMPLATE_ID => {
            NodeMessage::SubscriptionState(raw.decode()?, name_of::<SubscriptionState>(raw)?)
        }
        SubscriptionAttached::TEMPLATE_ID => NodeMessage::SubscriptionAttached(
            raw.decode()?,
            group_of::<SubscriptionAttached, _>(raw)?,
        ),
        SubscribedMessage::TEMPLATE_ID => {
            NodeMessage::SubscribedMessage(raw.decode()?, body_of::<SubscribedMessage>(raw)?)
        }
        SubscriptionEnded::TEMPLATE_ID => {
            NodeMessage::SubscriptionEnded(raw.decode()?, group_of::<SubscriptionEnded, _>(raw)?)
        }
        PublishAck::TEMPLATE_ID => NodeMessage::PublishAck(raw.decode_whole()?),
        PublishReject::TEMPLATE_ID => NodeMessage::PublishReject(raw.decode_whole()?),
        NamedToken::TEMPLATE_ID => {
            NodeMessage::NamedToken(raw.decode()?, token_of::<NamedToken>(raw)?)
        }
        template_id => return Err(misplaced(template_id)),
    })
}

/// Appends the frame of a message followed by a data field.
///
/// # Panics
/// When the data has more than 65,535 bytes.
pub fn put_with_data<M: Message>(message: &M, data: &[u8], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_message(message, out);
        put_data(data, out);
    });
}

/// Appends the frame of a message followed by a group of a subscription's taken places.
///
/// # Panics
/// When there are more than 65,535 places.
pub fn put_with_taken<M: Message>(message: &M, taken: &[TakenPlace], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_message(message, out);
        put_group(taken, out);
    });
}

fn put_message_and_group<M: Message, E: Message>(
    message: &M,
    group: &Group<'_, E>,
    out: &mut Vec<u8>,
) {
    put_message(message, out);
    group.put(out);
}

/// Appends the frame of a logon.
///
/// # Panics
/// When there are more than [`RESUME_POINT_COUNT_MAX`] resume points.
pub fn put_logon(logon: &Logon, points: &[ResumePoint], out: &mut Vec<u8>) {
    assert!(points.len() <= RESUME_POINT_COUNT_MAX, "{} resume points", points.len());
    put_frame_with(out, |out| {
        put_message(logon, out);
        put_group(points, out);
    });
}

/// Appends the frame of a signed logon.
///
/// # Panics
/// When there are more than [`RESUME_POINT_COUNT_MAX`] resume points.
pub fn put_signed_logon(logon: &SignedLogon, points: &[ResumePoint], out: &mut Vec<u8>) {
    assert!(points.len() <= RESUME_POINT_COUNT_MAX, "{} resume points", points.len());
    put_frame_with(out, |out| {
        put_message(logon, out);
        put_group(points, out);
    });
}

/// Appends the frame of a logon's acknowledgement.
///
/// # Panics
/// When there are more than 65,535 partitions.
pub fn put_logon_ack(ack: &LogonAck, partitions: &[PartitionState], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_message(ack, out);
        put_group(partitions, out);
    });
}

/// Appends the frame of a request.
#[inline]
pub fn put_request(request: &Request, out: &mut Vec<u8>) {
    put_frame_with(out, |out| request.encode(out));
}

/// Appends the frame of a fetch of order state; an empty token asks from the beginning.
///
/// # Panics
/// When the token is longer than [`TOKEN_LEN_MAX`].
pub fn put_fetch_orders(fetch: &FetchOrders, token: &[u8], out: &mut Vec<u8>) {
    put_question(fetch, Tokens { token, min_token: &[] }, out);
}

/// Appends the frame of a fetch of order state with both tokens.
///
/// # Panics
/// When a token is longer than [`TOKEN_LEN_MAX`].
pub fn put_question(fetch: &FetchOrders, tokens: Tokens<'_>, out: &mut Vec<u8>) {
    let Tokens { token, min_token } = tokens;
    for token in [token, min_token] {
        assert!(token.len() <= TOKEN_LEN_MAX, "a token of {} bytes", token.len());
    }
    put_frame_with(out, |out| {
        put_message(fetch, out);
        put_data(token, out);
        put_data(min_token, out);
    });
}

/// Appends the frame of a page's header with the next token.
///
/// # Panics
/// When the token is longer than [`TOKEN_LEN_MAX`].
pub fn put_order_page(page: &OrderPage, token: &[u8], out: &mut Vec<u8>) {
    put_message_and_token(page, token, out);
}

fn put_message_and_token<M: Message>(message: &M, token: &[u8], out: &mut Vec<u8>) {
    assert!(token.len() <= TOKEN_LEN_MAX, "a token of {} bytes", token.len());
    put_frame_with(out, |out| {
        put_message(message, out);
        put_data(token, out);
    });
}

/// Appends the frame of the status of a page's sources.
///
/// # Panics
/// When there are more than 65,535 sources.
pub fn put_source_states(states: &SourceStates, sources: &[SourceState], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_message(states, out);
        put_group(sources, out);
    });
}

/// Appends the frame of a page's rows, each with its attributes.
///
/// # Panics
/// When there are more than 65,535 rows, or their number differs from the iterator's length, or
/// attributes are longer than [`ATTRIBUTES_LEN_MAX`](crate::rows::ATTRIBUTES_LEN_MAX).
pub fn put_order_page_body<'r, I>(body: &OrderPageBody, rows: I, out: &mut Vec<u8>)
where
    I: IntoIterator<Item = (OrderRow, &'r [u8]), IntoIter: ExactSizeIterator>,
{
    put_message_and_rows(body, rows.into_iter(), out);
}

/// Appends the frame of a batch.
///
/// # Panics
/// When there are more than [`BATCH_ROW_COUNT_MAX`] rows, or their number differs from the
/// iterator's length, or attributes are longer than
/// [`ATTRIBUTES_LEN_MAX`](crate::rows::ATTRIBUTES_LEN_MAX).
pub fn put_source_batch<'r, I>(batch: &SourceBatch, rows: I, out: &mut Vec<u8>)
where
    I: IntoIterator<Item = (OrderRow, &'r [u8]), IntoIter: ExactSizeIterator>,
{
    let rows = rows.into_iter();
    assert!(rows.len() <= BATCH_ROW_COUNT_MAX, "{} rows", rows.len());
    put_message_and_rows(batch, rows, out);
}

fn put_message_and_rows<'r, M: Message>(
    message: &M,
    rows: impl ExactSizeIterator<Item = (OrderRow, &'r [u8])>,
    out: &mut Vec<u8>,
) {
    let count = rows.len();
    put_frame_with(out, |out| {
        put_message(message, out);
        put_row_count(count, out);
        let put_count = rows.map(|(row, attributes)| put_row(&row, attributes, out)).count();
        assert_eq!(put_count, count, "rows as announced");
    });
}

/// Reads the session and the request number of a message that may not decode, for its reject, at
/// their offsets in its template; zero when the template lacks the field or the block is too short.
#[must_use]
pub fn peek_session_and_request(raw: &RawMessage<'_>) -> (SessionId, RequestNo) {
    let session_id = peek(raw, "session_id")
        .map_or(SessionId::NONE, |bytes| SessionId(u32::from_le_bytes(bytes)));
    let request_no = peek(raw, "request_no")
        .map_or(RequestNo::NONE, |bytes| RequestNo(u64::from_le_bytes(bytes)));
    (session_id, request_no)
}

fn peek<const N: usize>(raw: &RawMessage<'_>, name: &str) -> Option<[u8; N]> {
    let info = message_info(raw.template_id)?;
    let field = info.fields.iter().find(|field| field.name == name)?;
    let bytes = raw.body.get(..raw.block_length)?.get(field.offset..)?;
    bytes.first_chunk().copied()
}

impl DecodeError {
    /// The reject reason for this error.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            DecodeError::BlockTooShort { .. } | DecodeError::Truncated(_) => Reason::FrameTruncated,
            DecodeError::FieldOutOfRange { .. } => Reason::FieldOutOfRange,
            DecodeError::UnknownTemplate(_) => Reason::UnknownTemplate,
            DecodeError::UnknownSchema { .. } => Reason::UnknownSchema,
            DecodeError::Unexpected(_) => Reason::NotAClientMessage,
            DecodeError::TrailingBytes { .. } => Reason::MalformedFrame,
        }
    }

    /// The field or part of the frame at fault; empty when it is the whole message.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            DecodeError::FieldOutOfRange { field, .. } => field,
            DecodeError::Truncated(part) => part,
            DecodeError::BlockTooShort { .. } => "block",
            DecodeError::TrailingBytes { .. } => "trailing bytes",
            DecodeError::UnknownTemplate(_)
            | DecodeError::UnknownSchema { .. }
            | DecodeError::Unexpected(_) => "",
        }
    }
}
