//! The state of one connection of subscribers and publishers: its attachments, and the position of
//! its publisher.

use std::collections::{BTreeMap, VecDeque};

use weir_broker::{Attachment, MessageNo, Name};
use weir_door::{ConnectionId, Limits};
use weir_types::Epoch;
use weir_wire::subscription::SUBSCRIBER_FRAME_LEN_MAX;

/// An incomplete frame and some of the next, and output.
pub(super) const LIMITS: Limits =
    Limits { input_len_max: 2 * SUBSCRIBER_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// The subscription or token of a handle.
#[derive(Clone, Debug)]
pub(super) struct HandleTarget {
    pub(super) name: Name,
    /// The queue; none for a named token.
    pub(super) queue: Option<HeldQueue>,
}

/// A queue that a connection is attached to.
#[derive(Clone, Debug)]
pub(super) struct HeldQueue {
    pub(super) attachment: Attachment,
    pub(super) topic: weir_broker::Topic,
    pub(super) credit_messages: u64,
    pub(super) credit_bytes: u64,
}

/// A publisher's unacknowledged messages, and its position.
#[derive(Debug, Default)]
pub(super) struct PublisherState {
    /// For each, its epoch and number, and the broker's number.
    pub(super) open: VecDeque<(Epoch, u64, MessageNo)>,
    /// The last message taken.
    pub(super) last: (Epoch, u64),
    /// The message that found no room. Those behind it are passed over until it has come again.
    pub(super) refused: Option<(Epoch, u64)>,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Peer {
    /// Its subscriptions and tokens by handle.
    pub(super) held: BTreeMap<u32, HandleTarget>,
    pub(super) publishing: PublisherState,
    /// True if a subscription has more than the output takes.
    pub(super) is_choked: bool,
    /// Answers that wait until the disk has the changes that they report.
    pub(super) promised_count: u32,
}

/// A connection.
pub(super) type Link = weir_door::Link<Peer>;
/// All connections.
pub(super) type Links = weir_door::Links<Peer>;
/// A handle of a connection.
pub(super) type HandleAt = (ConnectionId, u32);
