//! Takeovers: a logon ends its session on another connection and gets it.
//!
//! A session whose connection hangs would else lock its owner out until it counts as silent, up to
//! two and a half minutes. The logon has proved the session's identity before anything is decided
//! here. Two programs of one identity must not end each other's work in turn, so a takeover has to
//! be asked for, except by operators, whose commands must not wait; and each session has a limit.
//!
//! | the session's role | `takeover` of the logon | since its last takeover | taken over |
//! | ------------------ | ----------------------- | ----------------------- | ---------- |
//! | operator           | any                     | [`TAKEOVER_INTERVAL`]   | yes        |
//! | another            | On                      | [`TAKEOVER_INTERVAL`]   | yes        |
//! | another            | Off                     | any                     | no         |
//! | any                | any                     | less                    | no         |

use weir_types::{Nanos, Role, SessionId, Switch};

use crate::seeded_map::{MapOrder, SeededMap};

/// The least time between two takeovers of one session.
pub const TAKEOVER_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Returns true if a logon of this role takes its session over where that is possible.
#[must_use]
pub fn is_asked_for(role: Role, takeover: Switch) -> bool {
    role == Role::Operator || takeover == Switch::On
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

    #[test]
    fn an_operators_logon_takes_over_and_another_where_it_asks_for_it() {
        for (role, asks, is_asked) in [
            (Role::Operator, Switch::Off, true),
            (Role::Operator, Switch::On, true),
            (Role::Trader, Switch::Off, false),
            (Role::Trader, Switch::On, true),
            (Role::Supervisor, Switch::Off, false),
            (Role::Source, Switch::On, true),
        ] {
            assert_eq!(is_asked_for(role, asks), is_asked, "{role:?} {asks:?}");
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
