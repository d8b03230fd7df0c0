//! The node's answers to clients, as the session core gives them to any protocol.
//!
//! Reports are no answers: [`super::Protocol::put_report`] makes them of event records.

use weir_types::{Reason, SessionId};
use weir_wire::drop_copy::{CopyMark, DropCopyState, ReportCopy};
use weir_wire::session::{Challenge, Heartbeat, LogonAck, LogonReject, PartitionState};

use super::{EventRecord, Refusal};

/// A message to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// The session is open; its state per partition.
    LogonAck(&'a LogonAck, &'a [PartitionState]),
    /// The session is not opened.
    LogonReject(&'a LogonReject),
    /// The nonce to sign.
    Challenge(&'a Challenge),
    /// A session is closed; without one, the connection.
    Logout {
        /// The session.
        session_id: SessionId,
        /// The reason.
        reason: Reason,
    },
    /// A sign of life.
    Heartbeat(&'a Heartbeat),
    /// A message was refused before it reached a log.
    Reject(Refusal, Reason),
    /// The state of a stream of copies.
    CopyState(&'a DropCopyState),
    /// The high-water mark of a stream of copies.
    CopyMark(&'a CopyMark),
    /// A copy of a report: its head, and the event without stage times.
    Copy(&'a ReportCopy, &'a EventRecord<'a>),
}
