//! SBE messages in frames: the protocol of `schema/weir.xml`.
//!
//! Nothing is allocated for a message; tokens and resume points borrow from the input.

use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::dialogue::{ClientMessage, peek_session_and_request, put_logon_ack};
use weir_wire::event::OrderEvent;
use weir_wire::field::Field;
use weir_wire::frame::{
    BrokenFrame, CLIENT_FRAME_LEN_MAX, Framing, RawMessage, next_frame, put_extended_frame,
    put_frame,
};
use weir_wire::report::StageTimes;
use weir_wire::session::{Label, Logout, Reject};
use weir_wire::{DecodeError, Message, Request};
use zerocopy::IntoBytes;

use super::inbound::{Inbound, InputState, Refusal, ResumePoints, SignedText};
use super::{Answer, EventRecord};

/// Reads the frame at the head of `bytes`.
#[inline]
pub(super) fn next(bytes: &[u8]) -> InputState<'_> {
    match next_frame(bytes, CLIENT_FRAME_LEN_MAX) {
        Framing::Frame { len, message: Ok(raw) } => match Request::decode(&raw) {
            // Orders are decoded where they are used, without a copy.
            Ok(request) => InputState::Message { len, message: Inbound::Request(request) },
            Err(DecodeError::UnknownTemplate(_)) => {
                InputState::Message { len, message: read(&raw) }
            }
            Err(error) => InputState::Message { len, message: malformed(Some(&raw), error) },
        },
        Framing::Frame { len, message: Err(error) } => {
            InputState::Message { len, message: malformed(None, error) }
        }
        Framing::Incomplete => InputState::Incomplete,
        Framing::Broken(broken) => InputState::Broken(reason_of(broken)),
    }
}

/// Reads a message that is no request.
#[inline(never)]
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
            | ClientMessage::ResetSource(_)
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
            session_id: SessionId::NONE,
            request_no: RequestNo::NONE,
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

#[cfg(test)]
mod tests {
    use weir_types::{
        ClOrdId, CopyNo, Epoch, EventNo, FirmId, Nanos, OrderId, PartitionId, Switch,
    };
    use weir_wire::delivery::CancelFetch;
    use weir_wire::dialogue::NodeMessage;
    use weir_wire::drop_copy::DropCopyRequest;
    use weir_wire::event::RequestDone;
    use weir_wire::order_entry::CancelOrder;
    use weir_wire::session::{ChallengeRequest, Heartbeat};
    use weir_wire::subscription::DetachSubscription;

    use super::*;

    const SESSION: SessionId = SessionId(5);

    fn frame(message: &impl Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_frame(message, &mut bytes);
        bytes
    }

    fn cancel() -> CancelOrder {
        CancelOrder {
            request_no: RequestNo(9),
            cl_ord_id: ClOrdId::from_number(9),
            orig_cl_ord_id: ClOrdId::from_number(8),
            order_id: OrderId(0),
            sending_time: Nanos(0),
            session_id: SESSION,
            instrument_id: weir_types::InstrumentId(1),
        }
    }

    fn heartbeat() -> Heartbeat {
        Heartbeat {
            sending_time: Nanos(1),
            high_water: EventNo(2),
            session_id: SESSION,
            partition_id: PartitionId(1),
            load_permille: 4,
        }
    }

    fn copy_request() -> DropCopyRequest {
        DropCopyRequest {
            from_copy_no: CopyNo(1),
            session_id: SESSION,
            firm_id: FirmId(1),
            epoch: Epoch(1),
            partition_id: PartitionId(1),
            wanted: Switch::On,
        }
    }

    /// Returns a message that only a node may send.
    fn done() -> RequestDone {
        RequestDone {
            position: weir_types::Position(1),
            event_no: EventNo(1),
            request_no: RequestNo(3),
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::from_number(3),
            affected_count: 0,
            session_id: SESSION,
            partition_id: PartitionId(1),
            ref_template_id: 12,
            ..RequestDone::NOTHING_TOLD
        }
    }

    /// Returns the kind of the message in `bytes`, which hold it alone, and its fault.
    fn kind_of(bytes: &[u8]) -> String {
        let InputState::Message { len, message } = next(bytes) else { panic!("a whole message") };
        assert_eq!(len, bytes.len());
        let text_of = |refusal: Refusal| {
            let Refusal { session_id, request_no, template_id, field } = refusal;
            format!("{} {} {template_id} {field}", session_id.0, request_no.0)
        };
        match message {
            Inbound::Misplaced(refusal) => format!("misplaced {}", text_of(refusal)),
            Inbound::Malformed(refusal, reason) => format!("{reason:?} {}", text_of(refusal)),
            other => {
                let text = format!("{other:?}");
                text.split('(').next().unwrap_or_default().to_owned()
            }
        }
    }

    #[test]
    fn each_message_of_a_client_is_read_as_its_kind_or_with_its_fault() {
        let mut with_a_rest = frame(&cancel());
        with_a_rest.push(0);
        let len = u32::try_from(with_a_rest.len()).expect("a short frame");
        with_a_rest[..4].copy_from_slice(&len.to_be_bytes());
        let mut of_another_schema = frame(&cancel());
        of_another_schema[10] ^= 1;
        let detach = DetachSubscription { correlation_id: 1, session_id: SESSION, handle: 1 };
        let cases = [
            (frame(&cancel()), "Request"),
            (frame(&heartbeat()), "Heartbeat"),
            (frame(&ChallengeRequest { session_id: SESSION }), "ChallengeRequest"),
            (frame(&Logout { session_id: SESSION, reason: Reason::None }), "Logout"),
            (frame(&copy_request()), "CopyRequest"),
            (frame(&CancelFetch { correlation_id: 1, session_id: SESSION }), "CancelFetch"),
            (frame(&detach), "misplaced 5 0 96 "),
            (with_a_rest, "MalformedFrame 5 9 12 trailing bytes"),
            (of_another_schema, "UnknownSchema 0 0 0 "),
            (frame(&done()), "NotAClientMessage 5 3 42 "),
        ];
        for (bytes, kind) in cases {
            assert_eq!(kind_of(&bytes), kind);
            for len in 0..bytes.len() {
                assert!(
                    matches!(next(&bytes[..len]), InputState::Incomplete),
                    "{kind} of {len} bytes"
                );
            }
        }
        let no_frame = [0xff; 20];
        assert!(matches!(next(&no_frame), InputState::Broken(Reason::MalformedFrame)));
    }

    #[test]
    fn an_answer_is_the_message_of_the_schema() {
        let refusal = Refusal { field: "credential", ..refusal_of(&raw_of(&frame(&cancel())), "") };
        let reject = Reject {
            request_no: RequestNo(9),
            field: Label::new("credential"),
            session_id: SESSION,
            ref_template_id: 12,
            reason: Reason::NotEntitled,
        };
        let logout = Logout { session_id: SESSION, reason: Reason::Stopping };
        let cases = [
            (Answer::Reject(refusal, Reason::NotEntitled), NodeMessage::Reject(reject)),
            (
                Answer::Logout { session_id: SESSION, reason: Reason::Stopping },
                NodeMessage::Logout(logout),
            ),
            (Answer::Heartbeat(&heartbeat()), NodeMessage::Heartbeat(heartbeat())),
        ];
        for (answer, message) in cases {
            let mut bytes = Vec::new();
            put(&answer, &mut bytes);
            assert_eq!(NodeMessage::decode(&raw_of(&bytes)), Ok(message));
        }
    }

    fn raw_of(bytes: &[u8]) -> RawMessage<'_> {
        match next_frame(bytes, CLIENT_FRAME_LEN_MAX) {
            Framing::Frame { message: Ok(raw), .. } => raw,
            other => panic!("no frame: {other:?}"),
        }
    }
}
