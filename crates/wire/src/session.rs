//! Messages of the session layer: logon and resume, heartbeats, rejects, logout.
//!
//! One connection carries any number of sessions; each message names its own. The messages with a
//! repeating group (`Logon`, `LogonAck`) are not on the hot path.

use core::fmt;

use weir_types::{
    Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId, Switch,
};

use crate::field::{Field, write_hex};
use crate::message::messages;

/// A secret: 32 bytes, by which a session is known.
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

impl Label {
    /// As much of `text` as fits; bytes beyond ASCII become `?`.
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
    /// Opens a session on this connection. A group of [`ResumePoint`]s follows: where to go on,
    /// per partition; a partition without one goes on with what comes next.
    Logon = 1 {
        /// The session's secret.
        api_key: ApiKey,
        /// The session.
        session_id: SessionId,
        /// A heartbeat is sent, and expected, at least this often, in milliseconds.
        heartbeat_interval_ms: u32,
        /// Whether the loss of this connection cancels the session's live orders.
        cancel_on_disconnect: Switch,
    }

    /// An entry of `Logon`'s group: from which event on this session wants its events.
    ResumePoint = 0 {
        /// The first event wanted; zero wants none of the old ones.
        next_event_no: EventNo,
        /// The partition's epoch when the event before that one was told, as the last `LogonAck`
        /// said; zero when it is not known.
        epoch: Epoch,
        /// Of which partition.
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
        /// New orders and replaces a second in each partition; zero for no bound.
        order_rate_max: u32,
        /// Requests that may be without an answer, over all partitions; zero for no bound.
        in_flight_max: u32,
        /// What the session may do.
        role: Role,
    }

    /// An entry of `LogonAck`'s group: where the session stands in a partition.
    PartitionState = 0 {
        /// The highest request number that the partition has had from the session.
        last_request_no: RequestNo,
        /// The number that the session's next event will have.
        next_event_no: EventNo,
        /// The oldest event that can still be asked for.
        oldest_event_no: EventNo,
        /// The partition's epoch.
        epoch: Epoch,
        /// The partition.
        partition_id: PartitionId,
    }

    /// The session is not opened.
    LogonReject = 3 {
        /// The oldest event that can be asked for, when a resume point was the reason.
        oldest_event_no: EventNo,
        /// When a resume point was the reason: the number of the session's next event, or, with
        /// `ResumeOtherHistory`, of the first that is not the one that the session was told.
        next_event_no: EventNo,
        /// The session.
        session_id: SessionId,
        /// The partition's epoch, when a resume point was the reason.
        epoch: Epoch,
        /// The partition, when a resume point was the reason.
        partition_id: PartitionId,
        /// Why.
        reason: Reason,
    }

    /// Closes a session, or asks for it; with session zero, the connection.
    Logout = 4 {
        /// The session.
        session_id: SessionId,
        /// Why.
        reason: Reason,
    }

    /// I am here; sent both ways when nothing else was within the heartbeat interval.
    Heartbeat = 5 {
        /// The sender's clock.
        sending_time: Nanos,
        /// The last event sent (by the node) or taken in (by a client).
        high_water: EventNo,
        /// The session.
        session_id: SessionId,
        /// The partition of the mark.
        partition_id: PartitionId,
        /// The node's load, in thousandths of what it can take.
        load_permille: u16,
    }

    /// A message was refused before it reached the log: malformed, not entitled, no room. It has
    /// no event number and is not sent again.
    Reject = 6 {
        /// The request's number, where it could be read.
        request_no: RequestNo,
        /// The field that was wrong, where one was.
        field: Label,
        /// The session, where it could be read.
        session_id: SessionId,
        /// The template id of the refused message.
        ref_template_id: u16,
        /// Why.
        reason: Reason,
    }

    /// Asks for a challenge: how a session with an Ed25519 key begins to log on.
    ChallengeRequest = 7 {
        /// The session.
        session_id: SessionId,
    }

    /// What is to be signed: good once, on this connection, for this session, for ten seconds.
    Challenge = 8 {
        /// Drawn by the node.
        nonce: Nonce,
        /// The node that asks.
        node_id: NodeId,
        /// The session.
        session_id: SessionId,
    }

    /// Opens a session by a signature of the challenge; as `Logon` in all else. A group of
    /// [`ResumePoint`]s follows.
    SignedLogon = 9 {
        /// Of the text that [`signed_text`](crate::challenge::signed_text) makes.
        signature: Signature,
        /// The session.
        session_id: SessionId,
        /// A heartbeat is sent, and expected, at least this often, in milliseconds.
        heartbeat_interval_ms: u32,
        /// Whether the loss of this connection cancels the session's live orders.
        cancel_on_disconnect: Switch,
    }
}
