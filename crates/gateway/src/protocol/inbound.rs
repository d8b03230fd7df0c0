//! Messages of clients, as the session core takes them from any protocol.
//!
//! Requests, fetches and logons are the records that the rest of the node works with. Everything
//! that only answers need, such as the number of a refused message, is in [`Refusal`].

use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::challenge::signed_text;
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};
use weir_wire::drop_copy::DropCopyRequest;
use weir_wire::frame::RawMessage;
use weir_wire::group::Group;
use weir_wire::session::{Logon, NodeId, Nonce, ResumePoint, SignedLogon};
use weir_wire::{Message, Request};

use super::Tokens;

/// The state of a connection's input.
#[derive(Debug)]
pub(crate) enum InputState<'a> {
    /// A whole message in `len` bytes.
    Message {
        /// The message's length in bytes, with its framing.
        len: usize,
        /// The message.
        message: Inbound<'a>,
    },
    /// More bytes are needed.
    Incomplete,
    /// The bytes cannot be read any further: the connection is closed with this reason.
    Broken(Reason),
}

/// A client's message.
#[derive(Debug)]
pub(crate) enum Inbound<'a> {
    /// A request for a log.
    Request(Request),
    /// A fetch of order state, with its tokens.
    Fetch(FetchOrders, Tokens<'a>),
    /// Cancels a fetch.
    CancelFetch(CancelFetch),
    /// More credit for a fetch.
    AddCredit(AddCredit),
    /// Starts or ends a stream of copies of reports.
    CopyRequest(DropCopyRequest),
    /// A session's sign of life.
    Heartbeat(SessionId),
    /// Opens a session by its API key.
    Logon(Logon, ResumePoints<'a>),
    /// Opens a session by a signature of this text.
    SignedLogon(SignedLogon, ResumePoints<'a>, SignedText<'a>),
    /// Asks for a session's challenge.
    ChallengeRequest(SessionId),
    /// Closes a session; without one, the connection.
    Logout(SessionId),
    /// A message that another of the node's listeners serves.
    Misplaced(Refusal),
    /// A message with a fault, and the reason of its reject.
    Malformed(Refusal, Reason),
}

/// The message that a reject refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// The session; none if it could not be read.
    pub(crate) session_id: SessionId,
    /// The request's number; none if it could not be read.
    pub(crate) request_no: RequestNo,
    /// The kind of message, by its number in the catalogue; zero if it could not be read.
    pub(crate) template_id: u16,
    /// The faulty field; empty for the whole message.
    pub(crate) field: &'static str,
}

impl Refusal {
    fn of_message<M: Message>(session_id: SessionId, request_no: RequestNo) -> Refusal {
        Refusal { session_id, request_no, template_id: M::TEMPLATE_ID, field: "" }
    }

    pub(crate) fn of(request: &Request) -> Refusal {
        Refusal {
            session_id: request.session_id(),
            request_no: request.request_no(),
            template_id: request.template_id(),
            field: "",
        }
    }

    pub(crate) fn of_fetch(fetch: &FetchOrders) -> Refusal {
        Refusal::of_message::<FetchOrders>(fetch.session_id, RequestNo(fetch.correlation_id))
    }

    pub(crate) fn of_credit(more: &AddCredit) -> Refusal {
        Refusal::of_message::<AddCredit>(more.session_id, RequestNo(more.correlation_id))
    }

    pub(crate) fn of_cancel(cancel: &CancelFetch) -> Refusal {
        Refusal::of_message::<CancelFetch>(cancel.session_id, RequestNo(cancel.correlation_id))
    }

    pub(crate) fn of_copies(request: &DropCopyRequest) -> Refusal {
        Refusal::of_message::<DropCopyRequest>(request.session_id, RequestNo::NONE)
    }
}

/// The resume points of a logon, read one by one; `None` for one that does not decode.
#[derive(Clone, Debug)]
pub(crate) enum ResumePoints<'a> {
    /// A group of an SBE message.
    Sbe(Group<'a, ResumePoint>),
    /// Words of a line.
    #[cfg(test)]
    Text(std::str::SplitAsciiWhitespace<'a>),
}

impl Iterator for ResumePoints<'_> {
    type Item = Option<ResumePoint>;

    fn next(&mut self) -> Option<Option<ResumePoint>> {
        match self {
            ResumePoints::Sbe(group) => group.next().map(Result::ok),
            #[cfg(test)]
            ResumePoints::Text(words) => words.next().map(super::text::resume_point),
        }
    }
}

/// The part of a signed logon that its signature covers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SignedText<'a> {
    /// An SBE message, byte for byte.
    Sbe(RawMessage<'a>),
}

impl SignedText<'_> {
    /// Returns the signed text of a challenge's answer.
    pub(crate) fn of_challenge(&self, node_id: NodeId, nonce: Nonce) -> Vec<u8> {
        match self {
            SignedText::Sbe(raw) => {
                signed_text(node_id, nonce, raw).expect("a signed logon was decoded")
            }
        }
    }
}
