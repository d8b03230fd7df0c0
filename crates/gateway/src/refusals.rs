//! Answers to faulty messages, and their cost to the peer: the same before and after logon.

use weir_door::socket::ERRORS_MAX;
use weir_types::{Nanos, Reason, RequestNo, SessionId};
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::drop_copy::DropCopyRequest;
use weir_wire::frame::{BrokenFrame, CLIENT_FRAME_LEN_MAX, RawMessage, put_frame};
use weir_wire::session::{Label, LogonReject, Reject};
use weir_wire::{DecodeError, Message, Request};

use super::connection::Connection;
use super::counters::GatewayCounters;
use super::lines::Lines;

/// What a reject refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) session_id: SessionId,
    pub(super) request_no: RequestNo,
    pub(super) template_id: u16,
    pub(super) field: &'static str,
}

impl Refusal {
    pub(super) fn of_fetch(fetch: &FetchOrders) -> Refusal {
        Refusal {
            session_id: fetch.session_id,
            request_no: RequestNo(fetch.correlation_id),
            template_id: FetchOrders::TEMPLATE_ID,
            field: "",
        }
    }

    pub(super) fn of_credit(more: &AddCredit) -> Refusal {
        Refusal {
            session_id: more.session_id,
            request_no: RequestNo(more.correlation_id),
            template_id: AddCredit::TEMPLATE_ID,
            field: "",
        }
    }

    pub(super) fn of_cancel(cancel: &CancelFetch) -> Refusal {
        Refusal {
            session_id: cancel.session_id,
            request_no: RequestNo(cancel.correlation_id),
            template_id: CancelFetch::TEMPLATE_ID,
            field: "",
        }
    }

    /// Returns the refusal of a message that another listener serves.
    pub(super) fn misplaced(raw: &RawMessage<'_>) -> Refusal {
        let (session_id, request_no) = peek_session_and_request(raw);
        Refusal { session_id, request_no, template_id: raw.template_id, field: "" }
    }

    pub(super) fn of_copies(request: &DropCopyRequest) -> Refusal {
        Refusal {
            session_id: request.session_id,
            request_no: RequestNo::NONE,
            template_id: DropCopyRequest::TEMPLATE_ID,
            field: "",
        }
    }

    pub(super) fn of(request: &Request) -> Refusal {
        Refusal {
            session_id: request.session_id(),
            request_no: request.request_no(),
            template_id: request.template_id(),
            field: "",
        }
    }
}

/// Answers with a reject that has no event number.
pub(super) fn put_reject(
    to: &mut Connection,
    refusal: Refusal,
    reason: Reason,
    counters: &mut GatewayCounters,
) {
    let reject = Reject {
        request_no: refusal.request_no,
        field: Label::new(refusal.field),
        session_id: refusal.session_id,
        ref_template_id: refusal.template_id,
        reason,
    };
    put_frame(&reject, &mut to.output);
    counters.rejects += 1;
    counters.rejects_by.add(reason);
}

/// Answers an unreadable message; returns the reason if the connection must be closed.
pub(super) fn put_malformed(
    to: &mut Connection,
    raw: Option<&RawMessage<'_>>,
    error: DecodeError,
    counters: &mut GatewayCounters,
) -> Option<Reason> {
    let (session_id, request_no) = raw.map(peek_session_and_request).unwrap_or_default();
    let refusal = Refusal {
        session_id,
        request_no,
        template_id: raw.map_or(0, |raw| raw.template_id),
        field: error.field(),
    };
    put_reject(to, refusal, error.reason(), counters);
    counters.malformed += 1;
    one_more_error(to)
}

/// Answers a refused logon; returns the reason if the connection must be closed.
pub(super) fn put_refused_logon(
    to: &mut Connection,
    reject: &LogonReject,
    counters: &mut GatewayCounters,
    lines: &mut Lines,
    now: Nanos,
) -> Option<Reason> {
    put_frame(reject, &mut to.output);
    lines.refused_logon(counters, to, reject.session_id, reject.reason, now);
    let too_many = one_more_error(to);
    // One connection gets one guess of a key or session.
    if reject.reason == Reason::UnknownKey { Some(reject.reason) } else { too_many }
}

/// Returns the reason for closing a connection whose bytes are not frames.
pub(super) fn reason_of(broken: BrokenFrame) -> Reason {
    weir_door::reason_of(broken, CLIENT_FRAME_LEN_MAX)
}

fn one_more_error(of: &mut Connection) -> Option<Reason> {
    of.error_count += 1;
    (of.error_count >= ERRORS_MAX).then_some(Reason::TooManyErrors)
}
