//! One connection of subscribers and publishers, and what its session is attached to.

use std::collections::{BTreeMap, VecDeque};

use weir_broker::{Attachment, MessageNo, Name};
use weir_door::{Limits, LoggedOn, Socket};
use weir_types::{Epoch, Nanos, Reason, SessionId};
use weir_wire::subscription::SUBSCRIBER_FRAME_LEN_MAX;

/// What a connection may hold: a frame that is not whole and some of the next, and output.
pub(super) const LIMITS: Limits =
    Limits { input_len_max: 2 * SUBSCRIBER_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// What a handle of a connection stands for.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) name: Name,
    /// Nothing for a named token.
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

/// Messages of a publisher that are not acknowledged, and where it stands.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// Its epoch and number, and the broker's number.
    pub(super) open: VecDeque<(Epoch, u64, MessageNo)>,
    /// The last one taken.
    pub(super) last: (Epoch, u64),
    /// The one that found no room: those behind it wait until it has come again.
    pub(super) refused: Option<(Epoch, u64)>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Socket,
    pub(super) session: Option<LoggedOn>,
    pub(super) held: BTreeMap<u32, Held>,
    pub(super) publishing: Publishing,
    /// Whether its next frame has to wait.
    pub(super) must_wait: bool,
    /// Whether a subscription has more than the output takes.
    pub(super) is_choked: bool,
}

impl Link {
    pub(super) fn new(socket: Socket) -> Link {
        Link {
            socket,
            session: None,
            held: BTreeMap::new(),
            publishing: Publishing::default(),
            must_wait: false,
            is_choked: false,
        }
    }

    /// Says why and reads nothing more.
    pub(super) fn close(&mut self, reason: Reason, now: Nanos) {
        let session_id = self.session.map_or(SessionId::NONE, |session| session.session_id);
        self.socket.close(session_id, reason, now);
    }
}
