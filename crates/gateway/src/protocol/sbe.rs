//! SBE messages in frames: the protocol of `schema/weir.xml`.
//!
//! Nothing is allocated for a message; tokens and resume points borrow from the input.

use weir_types::Reason;
use weir_wire::dialogue::{ClientMessage, peek_session_and_request, put_logon_ack};
use weir_wire::event::OrderEvent;
use weir_wire::field::Field;
use weir_wire::frame::{
    BrokenFrame, CLIENT_FRAME_LEN_MAX, Framing, RawMessage, next_frame, put_extended_frame,
    put_frame,
};
use weir_wire::report::StageTimes;
use weir_wire::session::{Label, Logout, Reject};
use weir_wire::{DecodeError, Message};
use zerocopy::IntoBytes;

use super::inbound::{Inbound, Refusal, ResumePoints, SignedText, Step};
use super::{Answer, EventRecord};

/// Reads the frame at the head of `bytes`.
#[inline]
pub(super) fn next(bytes: &[u8]) -> Step<'_> {
    match next_frame(bytes, CLIENT_FRAME_LEN_MAX) {
        Framing::Frame { len, message: Ok(raw) } => Step::Message { len, message: read(&raw) },
        Framing::Frame { len, message: Err(error) } => {
            Step::Message { len, message: malformed(None, error) }
        }
        Framing::Incomplete => Step::Incomplete,
        Framing::Broken(broken) => Step::Broken(reason_of(broken)),
    }
}

#[inline]
fn read<'a>(raw: &RawMessage<'a>) -> Inbound<'a> {
    match ClientMessage::decode(raw) {
        Ok(ClientMessage::Request(request)) => Inbound::Request(request),
        Ok(ClientMessage::FetchOrders(fetch, tokens)) => Inbound::Fetch(fetch, tokens),
        Ok(ClientMessage::CancelFetch(cancel)) => Inbound::CancelFetch(cancel),
        Ok(ClientMessage::AddCredit(more)) => Inbound::AddCredit(more),
        Ok(ClientMessage::DropCopyRequest(request)) => Inbound::CopyRequest(request),
        Ok(ClientMessage::Heartbeat(heartbeat)) => Inbound::Heartbeat(heartbeat.session_id),
        Ok(ClientMessage::Logon(logon, points)) => Inbound::Logon(logon, ResumePoints::Sbe(points)),
        Ok(ClientMessage::SignedLogon(logon, points)) => {
            Inbound::SignedLogon(logon, ResumePoints::Sbe(points), SignedText::Sbe(*raw))
        }
        Ok(ClientMessage::ChallengeRequest(request)) => {
            Inbound::ChallengeRequest(request.session_id)
        }
        Ok(ClientMessage::Logout(logout)) => Inbound::Logout(logout.session_id),
        Ok(
            ClientMessage::OpenSource(_)
            | ClientMessage::SourceBatch(..)
            | ClientMessage::FollowSource(_)
            | ClientMessage::CreateSubscription(..)
            | ClientMessage::SubscriptionRequest(..)
            | ClientMessage::AttachSubscription(..)
            | ClientMessage::DetachSubscription(_)
            | ClientMessage::AckMessages(_)
            | ClientMessage::PublishMessage(..)
            | ClientMessage::NamedToken(..)
            | ClientMessage::Market(_),
        ) => Inbound::Misplaced(refusal_of(raw, "")),
        Err(error) => malformed(Some(raw), error),
    }
}

/// Returns a message that does not decode; without `raw`, its header did not.
#[cold]
fn malformed<'a>(raw: Option<&RawMessage<'_>>, error: DecodeError) -> Inbound<'a> {
    let field = error.field();
    let refusal = match raw {
        Some(raw) => refusal_of(raw, field),
        None => Refusal {
            session_id: weir_types::SessionId::NONE,
            request_no: weir_types::RequestNo::NONE,
            template_id: 0,
            field,
        },
    };
    Inbound::Malformed(refusal, error.reason())
}

fn refusal_of(raw: &RawMessage<'_>, field: &'static str) -> Refusal {
    let (session_id, request_no) = peek_session_and_request(raw);
    Refusal { session_id, request_no, template_id: raw.template_id, field }
}

/// Returns the reason for closing a connection whose bytes are not frames.
#[cold]
fn reason_of(broken: BrokenFrame) -> Reason {
    weir_door::reason_of(broken, CLIENT_FRAME_LEN_MAX)
}

/// Appends the frame of an answer; a copy has two.
pub(super) fn put(answer: &Answer<'_>, out: &mut Vec<u8>) {
    match *answer {
        Answer::LogonAck(ack, states) => put_logon_ack(ack, states, out),
        Answer::LogonReject(reject) => put_frame(reject, out),
        Answer::Challenge(challenge) => put_frame(challenge, out),
        Answer::Logout { session_id, reason } => put_frame(&Logout { session_id, reason }, out),
        Answer::Heartbeat(heartbeat) => put_frame(heartbeat, out),
        Answer::Reject(refusal, reason) => {
            let reject = Reject {
                request_no: refusal.request_no,
                field: Label::new(refusal.field),
                session_id: refusal.session_id,
                ref_template_id: refusal.template_id,
                reason,
            };
            put_frame(&reject, out);
        }
        Answer::CopyState(state) => put_frame(state, out),
        Answer::CopyMark(mark) => put_frame(mark, out),
        Answer::Copy(head, event) => {
            put_frame(head, out);
            put_report(event, StageTimes::default(), out);
        }
    }
}

/// Appends the frame of an event; order events get the stage times after their block.
#[inline]
pub(super) fn put_report(event: &EventRecord<'_>, stage_times: StageTimes, out: &mut Vec<u8>) {
    let raw = event.raw();
    let wire;
    let tail: &[u8] = if raw.template_id == OrderEvent::TEMPLATE_ID {
        wire = stage_times.to_wire();
        wire.as_bytes()
    } else {
        &[]
    };
    put_extended_frame(raw.template_id, raw.block(), tail, out);
}
