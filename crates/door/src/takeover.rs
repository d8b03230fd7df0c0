//! Takeovers: a logon ends its session on another connection and gets it.
//!
//! A session whose connection hangs would else lock its owner out until it counts as silent, up to
//! two and a half minutes. The logon has proved the session's identity before anything is decided
//! here. Two programs of one identity must not end each other's work in turn, so a takeover has to
//! be asked for, also by operators, and each session has a limit.
//!
//! A client may give a connection up while its logon is under way, and log on by another one. The
//! network may deliver the first logon behind the second, and the end of its connection behind
//! that: the live connection would lose the session, and then the session would end. The order of
//! receipt shows nothing, but a client that gave a connection up opened the next one later. So a
//! connection that was accepted before the session's logon takes nothing over, not even back.
//!
//! | `takeover` | the connection was accepted | since the session's last takeover | taken over |
//! | ---------- | --------------------------- | --------------------------------- | ---------- |
//! | Off        | any time                    | any time                          | no         |
//! | On         | before the session's logon  | any time                          | no         |
//! | On         | after it                    | less than [`TAKEOVER_INTERVAL`]   | no         |
//! | On         | after it                    | [`TAKEOVER_INTERVAL`]             | yes        |
//!
//! A connection counts as accepted once its TCP handshake has ended at the node, with TLS too,
//! whose handshake may end after a later connection's logon. The TCP handshake may end late if
//! its last segment was lost. A signed logon is safe then too: a client that has given the
//! connection up answers no challenge.

use weir_types::{Nanos, SessionId, Switch};

use crate::reception::MessageOrigin;
use crate::seeded_map::{MapOrder, SeededMap};

/// The least time between two takeovers of one session.
pub const TAKEOVER_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Returns the time of a logon, to compare connections with. A cycle has the time of its begin: a
/// connection that another thread accepted meanwhile may log on in it.
#[must_use]
pub fn logon_time(via: MessageOrigin) -> Nanos {
    via.now.max(via.accepted_at)
}

/// Returns true if a connection was accepted after a logon at this time.
#[must_use]
pub fn is_newer(via: MessageOrigin, logged_on_at: Nanos) -> bool {
    via.accepted_at > logged_on_at
}

/// Returns true if a logon asks for its session, which logged on elsewhere at `logged_on_at`, by a
/// connection that may take it over.
#[must_use]
pub fn is_asked_for(takeover: Switch, via: MessageOrigin, logged_on_at: Nanos) -> bool {
    takeover == Switch::On && is_newer(via, logged_on_at)
}

/// The time of a session's last takeover; none before the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastTakeover(Option<Nanos>);

impl LastTakeover {
    /// Records a takeover at `now`.
    pub fn note(&mut self, now: Nanos) {
        self.0 = Some(now);
    }

    /// Returns true if the session's limit permits another takeover at `now`.
    #[must_use]
    pub fn permits(self, now: Nanos) -> bool {
        self.0.is_none_or(|last| now.since(last) >= TAKEOVER_INTERVAL)
    }
}

/// The last takeovers of a door's sessions.
///
/// INVARIANT: only sessions that were taken over within [`TAKEOVER_INTERVAL`] of the newest
/// takeover are in it.
#[derive(Debug)]
pub(crate) struct Takeovers(SeededMap<SessionId, LastTakeover>);

impl Takeovers {
    pub(crate) fn new(order: &MapOrder) -> Takeovers {
        Takeovers(order.map())
    }

    /// Records that a session was taken over.
    pub(crate) fn note(&mut self, session_id: SessionId, now: Nanos) {
        self.0.retain(|_, last| !last.permits(now));
        self.0.entry(session_id).or_default().note(now);
    }

    /// Returns true if the session's limit permits another takeover.
    pub(crate) fn permit(&self, session_id: SessionId, now: Nanos) -> bool {
        self.0.get(&session_id).is_none_or(|last| last.permits(now))
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;

    use super::*;
    use crate::ConnectionId;

    fn origin(accepted_at: u64, now: u64) -> MessageOrigin {
        let connection = ConnectionId(1);
        MessageOrigin { connection, accepted_at: Nanos(accepted_at), now: Nanos(now) }
    }

    #[test]
    fn a_logon_takes_over_where_it_asks_for_it_on_a_newer_connection() {
        let logged_on_at = Nanos(50);
        for (takeover, accepted_at, is_asked) in [
            (Switch::On, 51, true),
            (Switch::Off, 51, false),
            (Switch::On, 50, false),
            (Switch::On, 3, false),
        ] {
            let via = origin(accepted_at, 90);
            let asked = is_asked_for(takeover, via, logged_on_at);
            assert_eq!(asked, is_asked, "{takeover:?}, accepted at {accepted_at}");
        }
    }

    #[test]
    fn no_connection_is_newer_than_its_own_logon_or_that_of_one_accepted_with_it() {
        // In a cycle that began before the connection was accepted on another thread, and after it.
        for now in [5, 7, 9] {
            let logged_on_at = logon_time(origin(7, now));
            assert!(!is_newer(origin(7, 99), logged_on_at), "in a cycle of {now}");
            assert!(!is_newer(origin(6, 99), logged_on_at), "in a cycle of {now}");
            assert!(is_newer(origin(10, 99), logged_on_at), "in a cycle of {now}");
        }
    }

    #[test]
    fn a_session_is_taken_over_once_in_an_interval_and_each_has_its_own() {
        let mut takeovers = Takeovers::new(&MapOrder::draw(&mut SeededRng::new(1, "takeovers")));
        let (one, other) = (SessionId(1), SessionId(2));
        let (begin, interval) = (5, TAKEOVER_INTERVAL.0);
        assert!(takeovers.permit(one, Nanos(begin)), "the first");
        takeovers.note(one, Nanos(begin));
        assert!(!takeovers.permit(one, Nanos(begin + interval - 1)));
        assert!(takeovers.permit(other, Nanos(begin)));
        assert!(takeovers.permit(one, Nanos(begin + interval)));
        takeovers.note(other, Nanos(begin + interval));
        assert_eq!(takeovers.0.len(), 1, "sessions that may be taken over are not kept");
        assert!(!takeovers.permit(other, Nanos(begin + interval)));
    }
}
