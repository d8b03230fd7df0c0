//! One connection of an outside core, and its session.

use weir_door::{Limits, LoggedOn, Socket};
use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;

/// What a connection may hold: a frame that is not whole and some of the next, and output that a
/// core may leave unread.
pub(super) const LIMITS: Limits =
    Limits { input_len_max: 2 * SOURCE_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Socket,
    pub(super) session: Option<LoggedOn>,
    /// The sources that it asked to open.
    pub(super) sources: Vec<PartitionId>,
    /// Bytes of batches that the store has not dealt with.
    pub(super) under_way: usize,
    /// Whether its next frame found no room where it goes.
    pub(super) must_wait: bool,
}

impl Link {
    pub(super) fn new(socket: Socket) -> Link {
        Link { socket, session: None, sources: Vec::new(), under_way: 0, must_wait: false }
    }

    /// Says why and reads nothing more.
    pub(super) fn close(&mut self, reason: Reason, now: Nanos) {
        let session_id = self.session.map_or(SessionId::NONE, |session| session.session_id);
        self.socket.close(session_id, reason, now);
    }
}
