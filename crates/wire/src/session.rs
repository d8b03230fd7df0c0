//! Messages of the session layer: logon and resume, heartbeats, rejects, logout.
//!
//! One connection carries any number of sessions; each message names its session. The messages with
//! a repeating group (`Logon`, `LogonAck`) are not on the hot path.

use core::fmt;

use weir_types::{
    Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId, Switch,
};

use crate::field::{Field, write_hex};
use crate::message::messages;

/// An API key: the 32-byte secret that authenticates a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ApiKey(pub [u8; 32]);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl Field for ApiKey {
    type Wire = [u8; 32];
    const SCHEMA_TYPE: &'static str = "apiKey";

    fn from_wire(wire: [u8; 32]) -> Option<Self> {
        Some(ApiKey(wire))
    }

    fn to_wire(self) -> [u8; 32] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

macro_rules! byte_fields {
    ($($(#[$doc:meta])* $type:ident $len:literal $schema:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $type(pub [u8; $len]);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($type))
            }
        }

        impl Field for $type {
            type Wire = [u8; $len];
            const SCHEMA_TYPE: &'static str = $schema;

            fn from_wire(wire: [u8; $len]) -> Option<Self> {
                Some($type(wire))
            }

            fn to_wire(self) -> [u8; $len] {
                self.0
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

byte_fields! {
    /// A node's identity: the id of its control log, most significant byte first.
    NodeId 16 "nodeId";
    /// A number used once.
    Nonce 32 "nonce";
    /// An Ed25519 signature.
    Signature 64 "signature";
}

/// A short text for people: up to 32 ASCII bytes, padded with zeroes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label(pub [u8; 32]);

impl PartitionState {
    /// Returns the state of a session in a partition that its gateway cannot reach.
    #[must_use]
    pub const fn away(partition_id: PartitionId) -> PartitionState {
        PartitionState {
            last_request_no: RequestNo::NONE,
            next_event_no: EventNo::NONE,
            oldest_event_no: EventNo::NONE,
            epoch: Epoch::NONE,
            partition_id,
        }
    }

    /// Returns true if the gateway cannot reach the partition.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.epoch.0 == Epoch::NONE.0
    }
}

impl Label {
    /// Truncates `text` to 32 bytes; bytes beyond ASCII become `?`.
    #[must_use]
    pub fn new(text: &str) -> Label {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = if from.is_ascii_graphic() || from == b' ' { from } else { b'?' };
        }
        Label(bytes)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take_while(|b| **b != 0) {
            fmt::Write::write_char(f, if byte.is_ascii() { *byte as char } else { '?' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({self})")
    }
}

impl Field for Label {
    type Wire = [u8; 32];
    const SCHEMA_TYPE: &'static str = "label";

    fn from_wire(wire: [u8; 32]) -> Option<Self> {
        Some(Label(wire))
    }

    fn to_wire(self) -> [u8; 32] {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

messages! {
    /// Opens a session on this connection. A group of [`ResumePoint`]s follows, one per partition;
    /// in a partition without one the session receives new events only.
    Logon = 1 from 41 {
        /// The session's secret.
        api_key: ApiKey,
        /// The session.
        session_id: SessionId,
        /// The heartbeat interval in milliseconds, for both directions.
        heartbeat_interval_ms: u32,
        /// On: the loss of this connection cancels the session's live orders.
        cancel_on_disconnect: Switch,
        /// On: takes the session over from the connection that it is on, if that is older.
        takeover: Switch,
    }

    /// An entry of `Logon`'s group: the first event that the session wants of a partition.
    ResumePoint = 0 {
        /// The first event wanted; zero for new events only.
        next_event_no: EventNo,
        /// The partition's epoch when the event before that one was received, as in the last
        /// `LogonAck`; zero if unknown.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
    }

    /// The session is open. A group of [`PartitionState`]s follows.
    LogonAck = 2 {
        /// The node's clock.
        server_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The session's firm.
        firm_id: FirmId,
        /// The heartbeat interval in force, in milliseconds.
        heartbeat_interval_ms: u32,
        /// The limit of new orders and replaces per second in each partition; zero for no limit.
        order_rate_max: u32,
        /// The limit of unanswered requests, over all partitions; zero for no limit.
        in_flight_max: u32,
        /// The session's role.
        role: Role,
    }

    /// An entry of `LogonAck`'s group: the session's state in a partition.
    PartitionState = 0 {
        /// The highest request number that the partition has received from the session.
        last_request_no: RequestNo,
        /// The number of the session's next event.
        next_event_no: EventNo,
        /// The oldest event that can still be requested.
        oldest_event_no: EventNo,
        /// The partition's epoch; zero while a gateway cannot reach the partition, and then all
        /// numbers are.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
    }

    /// The session was not opened.
    LogonReject = 3 {
        /// The oldest event that can be requested, when a resume point was the reason.
        oldest_event_no: EventNo,
        /// The number of the session's next event, when a resume point was the reason; with
        /// `ResumeOtherHistory`, the number of the first event that differs from the one that the
        /// session received.
        next_event_no: EventNo,
        /// The session.
        session_id: SessionId,
        /// The partition's epoch, when a resume point was the reason.
        epoch: Epoch,
        /// The partition, when a resume point was the reason.
        partition_id: PartitionId,
        /// The reason.
        reason: Reason,
    }

    /// Closes a session, or requests its end; with session zero, the connection.
    Logout = 4 {
        /// The session.
        session_id: SessionId,
        /// The reason.
        reason: Reason,
    }

    /// A sign of life; sent both ways when nothing else was sent within the heartbeat interval.
    Heartbeat = 5 {
        /// The sender's clock.
        sending_time: Nanos,
        /// The last event sent (by the node) or received (by a client).
        high_water: EventNo,
        /// The session.
        session_id: SessionId,
        /// The partition of the mark.
        partition_id: PartitionId,
        /// The partition's load, in thousandths of its capacity.
        load_permille: u16,
    }

    /// A message was refused before it reached the log: malformed, not entitled, no room. It has
    /// no event number and is not sent again.
    Reject = 6 {
        /// The request's number, if it could be read.
        request_no: RequestNo,
        /// The faulty field, if there is one.
        field: Label,
        /// The session, if it could be read.
        session_id: SessionId,
        /// The template id of the refused message.
        ref_template_id: u16,
        /// The reason.
        reason: Reason,
    }

    /// Asks for a challenge: the first step of a logon with an Ed25519 key.
    ChallengeRequest = 7 {
        /// The session.
        session_id: SessionId,
    }

    /// The nonce to sign: valid once, on this connection, for this session, for ten seconds.
    Challenge = 8 {
        /// The nonce, drawn by the node.
        nonce: Nonce,
        /// The node that asks.
        node_id: NodeId,
        /// The session.
        session_id: SessionId,
    }

    /// Opens a session by a signature of the challenge; otherwise as `Logon`. A group of
    /// [`ResumePoint`]s follows.
    SignedLogon = 9 from 73 {
        /// The signature of the text that [`signed_text`](crate::challenge::signed_text) returns.
        signature: Signature,
        /// The session.
        session_id: SessionId,
        /// The heartbeat interval in milliseconds, for both directions.
        heartbeat_interval_ms: u32,
        /// On: the loss of this connection cancels the session's live orders.
        cancel_on_disconnect: Switch,
        /// On: takes the session over from the connection that it is on, if that is older.
        takeover: Switch,
    }
}
