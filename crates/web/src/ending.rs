//! The ends of readers: their reasons, and the time that a peer has to take its messages.
//!
//! A session whose key or rights are taken gets nothing more of the data made before. So a message
//! that is half written then is not completed: the socket is closed without a close frame, which
//! would come behind the message's rest.

use std::time::Duration;

use weir_types::Reason;

/// The time for which a socket may accept nothing of the pending data, and the time that the peer
/// has for an answer to `GET /orders`.
pub(super) const STALL_MAX: Duration = Duration::from_secs(300);
/// The time that a reader has to read the close reason and the data before it.
pub(super) const CLOSING_TIME: Duration = Duration::from_secs(60);
/// The interval between pings to a reader.
pub(super) const CARE_INTERVAL: Duration = Duration::from_secs(20);
/// The time that a reader may be silent while it gets no messages.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(50);
/// The close code for a reader's fault (RFC 6455, 7.4.1).
pub(super) const POLICY_VIOLATION: u16 = 1008;
/// The close code for a stopping node.
pub(super) const GOING_AWAY: u16 = 1001;

/// The reason why a WebSocket ends.
#[derive(Debug)]
pub(super) enum End {
    /// The peer is gone.
    Gone,
    /// The session, or the reader's place, has ended behind a message that is half written.
    Cut,
    /// The node closes it, with a code and a reason.
    Closed(u16, Reason),
}

impl End {
    /// Returns the end for the reason that a session was ended with.
    pub fn of(reason: Reason) -> End {
        let is_ours = matches!(reason, Reason::Stopping | Reason::Overloaded);
        End::Closed(if is_ours { GOING_AWAY } else { POLICY_VIOLATION }, reason)
    }
}

/// Returns true for the end of a session whose data is not its own any more.
pub(super) fn takes_rights(reason: Reason) -> bool {
    matches!(reason, Reason::KeyExpired | Reason::KeyReplaced | Reason::NotEntitled)
}
