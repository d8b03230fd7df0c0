//! Errors between a client and a node.
//!
//! Expected outcomes of a request (a reject, a refusal) are not errors: they come as
//! [`SessionEvent`](crate::session::SessionEvent)s. An error here ends a connection, a session or a
//! tool's work.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use weir_tls::LinkError;
use weir_types::{
    BatchNo, CopyNo, Epoch, EventNo, InstrumentId, OrderId, PartitionId, Reason, SessionId,
};
use weir_wire::DecodeError;
use weir_wire::frame::BrokenFrame;
use weir_wire::session::NodeId;

/// The store's state is inconsistent with the feed: it has batches that were never sent, or lacks
/// acknowledged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store wants batch {wanted} of epoch {epoch}, and there are {first} to {last}")]
pub struct OtherHistory {
    /// The batch that the store wants.
    pub wanted: BatchNo,
    /// The epoch.
    pub epoch: Epoch,
    /// The oldest batch kept.
    pub first: BatchNo,
    /// The newest batch kept.
    pub last: BatchNo,
}

/// The failure of one of several addresses.
#[derive(Debug)]
pub struct AddressFailure {
    /// The address.
    pub address: SocketAddr,
    /// Its failure.
    pub error: ClientError,
}

impl fmt::Display for AddressFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            // They name the address.
            error @ (ClientError::Connect { .. } | ClientError::Handshake { .. }) => error.fmt(f),
            error => write!(f, "{}: {error}", self.address),
        }
    }
}

/// An error of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// None of several addresses could be used.
    #[error("none of {} addresses: {}", .0.len(), listed(.0))]
    Addresses(Vec<AddressFailure>),
    /// The connection failed to open.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The node's address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The TLS handshake failed: an untrusted certificate, no common version, no TLS at all.
    #[error("no TLS with {address}: {source}")]
    Handshake {
        /// The node's address.
        address: SocketAddr,
        /// The cause.
        source: LinkError,
    },
    /// The connection ended without TLS's close_notify: an attacker may have cut it.
    #[error("the connection to the node was cut")]
    Cut,
    /// TLS records were altered in transit, or the node refused this client's certificate.
    #[error("TLS with the node: {0}")]
    Tls(LinkError),
    /// The address does not resolve.
    #[error("no host of that name is known in {0:?}, or it is not of the form HOST:PORT")]
    Address(String),
    /// The connection failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The node closed the connection.
    #[error("the node closed the connection")]
    Closed,
    /// The byte stream from the node cannot be parsed any further.
    #[error("the node's byte stream is broken: {0}")]
    Broken(#[from] BrokenFrame),
    /// A frame from the node is not a message that a node may send.
    #[error("a message from the node cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The node does not read its connection; the outbox is full.
    #[error("{len} bytes wait to be sent, over the limit of {max}")]
    OutboxFull {
        /// Bytes not sent.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The node refused the logon.
    #[error(
        "session {session_id} is not logged on: {reason} \
         (partition {partition_id}, events {oldest_event_no} to {next_event_no})"
    )]
    LogonRejected {
        /// The session.
        session_id: SessionId,
        /// The reason.
        reason: Reason,
        /// The partition, when the resume point was the reason.
        partition_id: PartitionId,
        /// The oldest event that can be requested.
        oldest_event_no: EventNo,
        /// The number of the session's next event.
        next_event_no: EventNo,
    },
    /// The node's history differs from the one that the session received: events were lost at a
    /// crash, or the node was restored from a backup.
    /// [`Session::forget_from`](crate::Session::forget_from) brings the session to a state from
    /// which it can resume.
    #[error(
        "session {session_id}, partition {partition_id}: what it was told from event \
         {other_from} on is not in the node's history (oldest retained {oldest_event_no}, \
         now in epoch {epoch})"
    )]
    OtherHistory {
        /// The session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The first event that differs from the one that the session received: it and all later
        /// ones are void.
        other_from: EventNo,
        /// The oldest event that can be requested. If the node does not know the session's epoch
        /// this equals `other_from`, and earlier events are not confirmed either.
        oldest_event_no: EventNo,
        /// The partition's epoch.
        epoch: Epoch,
    },
    /// The challenge comes from another node than the expected one.
    #[error("node {got} answered where {expected} was meant")]
    WrongNode {
        /// The expected node.
        expected: NodeId,
        /// The node that answered.
        got: NodeId,
    },
    /// The node closed the session.
    #[error("session {session_id} was logged out: {reason}")]
    LoggedOut {
        /// The session; zero for the whole connection.
        session_id: SessionId,
        /// The reason.
        reason: Reason,
    },
    /// Events of a session are missing: log on again with the resume point.
    #[error(
        "session {session_id}, partition {partition_id}: event {got} came where {expected} was due"
    )]
    Gap {
        /// The session.
        session_id: SessionId,
        /// The partition.
        partition_id: PartitionId,
        /// The event number expected.
        expected: EventNo,
        /// The event number received.
        got: EventNo,
    },
    /// Copies are missing, or differ from the copies received before.
    #[error("partition {partition_id}: copy {got} came before where {expected} was due")]
    CopyGap {
        /// The partition.
        partition_id: PartitionId,
        /// The last copy received.
        expected: CopyNo,
        /// The copy that the node names as the one before the next.
        got: CopyNo,
    },
    /// The node refused a stream of copies.
    #[error(
        "no copies of partition {partition_id}: {reason} \
         (they can be asked from {oldest_copy_no} to {next_copy_no})"
    )]
    CopiesRefused {
        /// The partition.
        partition_id: PartitionId,
        /// The reason.
        reason: Reason,
        /// The lowest number that can be requested.
        oldest_copy_no: CopyNo,
        /// The highest number that can be requested. For [`Reason::ResumeOtherHistory`] the first
        /// copy that may differ from the one received; if it equals `oldest_copy_no`, earlier
        /// copies are not confirmed either.
        next_copy_no: CopyNo,
    },
    /// The node was silent for longer than three heartbeat intervals.
    #[error("session {session_id}: nothing heard from the node for {silent:?}")]
    HeartbeatLost {
        /// The session.
        session_id: SessionId,
        /// The duration of the silence.
        silent: Duration,
    },
    /// The answer did not come in time.
    #[error("no answer within {timeout:?}: {waiting_for}")]
    Timeout {
        /// The answer awaited.
        waiting_for: &'static str,
        /// The timeout.
        timeout: Duration,
    },
    /// The session is unknown to this client, or not open.
    #[error("session {0} is not open on this connection")]
    NotOpen(SessionId),
    /// The node refused an operator's request.
    #[error("{request}: {reason}")]
    Refused {
        /// The request's name.
        request: &'static str,
        /// The reason.
        reason: Reason,
        /// The order, instrument or limit named, as text; empty when there is none.
        subject: String,
    },
    /// The node, of before answers told it, did not say which phase the request reached.
    #[error("{request}: done, and the node did not say which phase was reached")]
    PhaseNotTold {
        /// The request's name.
        request: &'static str,
    },
    /// Order state came out of order: (`seq`, `rec`) decreased within a partition.
    #[error("order {order_id} of partition {partition_id} came out of (seq, rec) order")]
    StateOutOfOrder {
        /// The order.
        order_id: OrderId,
        /// Its partition.
        partition_id: PartitionId,
    },
    /// Order state came without a fetch.
    #[error("rows of question {got} came where rows of question {expected} were due")]
    UnexpectedRows {
        /// The fetch whose rows were due; zero for none.
        expected: u64,
        /// The fetch that the rows name.
        got: u64,
    },
    /// The delivery store is not the one that was fed before.
    #[error(transparent)]
    SourceHistory(#[from] OtherHistory),
    /// The node does not know the instrument.
    #[error("the node has no instrument {0}")]
    UnknownInstrument(InstrumentId),
    /// The node's status page cannot be read.
    #[error("the status page of {address} cannot be read: {why}")]
    Status {
        /// The page's address.
        address: String,
        /// The cause.
        why: String,
    },
}

impl From<LinkError> for ClientError {
    fn from(error: LinkError) -> ClientError {
        match error {
            LinkError::Closed => ClientError::Closed,
            LinkError::Truncated => ClientError::Cut,
            LinkError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                ClientError::Cut
            }
            LinkError::Io(error) => ClientError::io("receiving", error),
            LinkError::Tls(_) => ClientError::Tls(error),
        }
    }
}

fn listed(failures: &[AddressFailure]) -> String {
    failures.iter().map(AddressFailure::to_string).collect::<Vec<_>>().join("; ")
}

impl ClientError {
    /// Returns the error of a target whose addresses all failed: that of its only one, or all.
    ///
    /// # Panics
    /// Without a failure: a target has an address.
    pub(crate) fn of_addresses(mut failures: Vec<AddressFailure>) -> ClientError {
        match failures.len() {
            1 => failures.remove(0).error,
            count => {
                assert!(count > 0, "a target has an address");
                ClientError::Addresses(failures)
            }
        }
    }

    /// True when this holds of one of the addresses' failures, if there are several.
    fn is_of_an_address(&self, is: impl Fn(&ClientError) -> bool) -> bool {
        match self {
            ClientError::Addresses(failures) => failures.iter().any(|one| is(&one.error)),
            _ => false,
        }
    }

    /// Wraps an I/O error with the operation that failed.
    pub(crate) fn io(doing: &'static str, source: io::Error) -> ClientError {
        ClientError::Io { doing, source }
    }

    /// True when another logon with the same state can recover.
    #[must_use]
    pub fn is_connection_lost(&self) -> bool {
        let is_lost = matches!(
            self,
            ClientError::Connect { .. }
                | ClientError::Io { .. }
                | ClientError::Closed
                | ClientError::Cut
                | ClientError::Handshake {
                    source: LinkError::Closed | LinkError::Truncated | LinkError::Io(_),
                    ..
                }
                | ClientError::Tls(_)
                | ClientError::LoggedOut { reason: Reason::Stopping, .. }
                | ClientError::HeartbeatLost { .. }
                | ClientError::Gap { .. }
        );
        is_lost || self.is_of_an_address(ClientError::is_connection_lost)
    }

    /// True when the session is logged on by another connection, or by one that was lost and has
    /// not ended at the node yet: the same logon may then be accepted a moment later.
    #[must_use]
    pub fn is_session_taken(&self) -> bool {
        matches!(self, ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. })
    }

    /// True when another connection has taken the session over. That is final: two programs that
    /// come back would end each other's work in turn.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        matches!(self, ClientError::LoggedOut { reason: Reason::TakenOver, .. })
    }

    /// The error of a session that another connection has taken over.
    pub(crate) fn taken_over(session_id: SessionId) -> ClientError {
        ClientError::LoggedOut { session_id, reason: Reason::TakenOver }
    }

    /// True when reconnecting, now or later, may recover: the connection was lost, the session is
    /// taken, or the node is busy or full at the moment.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        // A node that did not answer a logon in time may do so later; and a caller that was busy
        // for longer than its heartbeat interval was logged out for that alone. A signature that
        // waited for longer than its challenge is good gets another one.
        let may_mend = matches!(
            self,
            ClientError::Timeout { .. }
                | ClientError::LoggedOut { reason: Reason::HeartbeatLost, .. }
                | ClientError::LogonRejected {
                    reason: Reason::Overloaded
                        | Reason::Stopping
                        | Reason::LimitReached
                        | Reason::UnknownChallenge,
                    ..
                }
        );
        may_mend
            || self.is_session_taken()
            || self.is_connection_lost()
            || self.is_of_an_address(ClientError::is_passing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(reason: Reason) -> ClientError {
        ClientError::LogonRejected {
            session_id: SessionId(1),
            reason,
            partition_id: PartitionId::NONE,
            oldest_event_no: EventNo::NONE,
            next_event_no: EventNo::NONE,
        }
    }

    #[test]
    fn what_coming_back_may_mend_is_told_from_what_it_never_will() {
        let logged_out = |reason| ClientError::LoggedOut { session_id: SessionId(1), reason };
        let timeout = ClientError::Timeout { waiting_for: "x", timeout: Duration::from_secs(1) };
        for (error, is_taken, is_passing) in [
            (rejected(Reason::AlreadyLoggedOn), true, true),
            (rejected(Reason::Overloaded), false, true),
            (rejected(Reason::Stopping), false, true),
            (rejected(Reason::LimitReached), false, true),
            (rejected(Reason::UnknownChallenge), false, true),
            (rejected(Reason::UnknownKey), false, false),
            (rejected(Reason::ResumeOtherHistory), false, false),
            (logged_out(Reason::HeartbeatLost), false, true),
            (logged_out(Reason::Stopping), false, true),
            (logged_out(Reason::KeyReplaced), false, false),
            (logged_out(Reason::TakenOver), false, false),
            (timeout, false, true),
            (ClientError::Closed, false, true),
            (ClientError::NotOpen(SessionId(1)), false, false),
        ] {
            let told = (error.is_session_taken(), error.is_passing());
            assert_eq!(told, (is_taken, is_passing), "{error}");
            let is_final = error.to_string() == logged_out(Reason::TakenOver).to_string();
            assert_eq!(error.is_taken_over(), is_final, "{error}");
        }
        assert!(ClientError::taken_over(SessionId(1)).is_taken_over());
    }
}
