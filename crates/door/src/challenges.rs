//! The challenges that are open: which nonce was given to which connection for which session.
//!
//! INVARIANT: a connection has at most [`CHALLENGE_COUNT_MAX`] of them, each of another session,
//! and none outlives its connection, its use or [`CHALLENGE_LIFETIME`].

use weir_types::{Nanos, SessionId};
use weir_wire::challenge::{CHALLENGE_COUNT_MAX, CHALLENGE_LIFETIME};
use weir_wire::session::Nonce;

use super::ConnectionId;
use super::seeded_map::{MapOrder, SeededMap};

#[derive(Clone, Copy, Debug)]
struct Open {
    session_id: SessionId,
    nonce: Nonce,
    given_at: Nanos,
}

impl Open {
    fn is_good(&self, now: Nanos) -> bool {
        now.since(self.given_at) < CHALLENGE_LIFETIME
    }
}

/// The open challenges of one connection.
#[derive(Debug, Default)]
pub struct OpenChallenges(Vec<Open>);

/// All open challenges.
#[derive(Debug)]
pub struct Challenges {
    by_connection: SeededMap<ConnectionId, Vec<Open>>,
}

impl Challenges {
    /// Returns no challenges, to be held in this order.
    #[must_use]
    pub fn new(order: &MapOrder) -> Challenges {
        Challenges { by_connection: order.map() }
    }

    /// Opens a challenge; one that the session has open on this connection is no longer good.
    /// False when the connection has as many as it may.
    #[must_use]
    pub fn open(&mut self, on: ConnectionId, of: SessionId, nonce: Nonce, now: Nanos) -> bool {
        let open = self.by_connection.entry(on).or_default();
        open.retain(|other| other.session_id != of && other.is_good(now));
        if open.len() >= CHALLENGE_COUNT_MAX {
            return false;
        }
        open.push(Open { session_id: of, nonce, given_at: now });
        true
    }

    /// Takes the session's challenge, which is then used, whatever comes of it.
    pub fn take(&mut self, on: ConnectionId, of: SessionId, now: Nanos) -> Option<Nonce> {
        let open = self.by_connection.get_mut(&on)?;
        let index = open.iter().position(|other| other.session_id == of)?;
        let taken = open.swap_remove(index);
        if open.is_empty() {
            self.by_connection.remove(&on);
        }
        taken.is_good(now).then_some(taken.nonce)
    }

    /// Takes all that a connection has open, for who sees to it from now on.
    pub fn take_all(&mut self, on: ConnectionId) -> OpenChallenges {
        OpenChallenges(self.by_connection.remove(&on).unwrap_or_default())
    }

    /// Sees to what a connection has open elsewhere.
    pub fn take_over(&mut self, on: ConnectionId, open: OpenChallenges) {
        if !open.0.is_empty() {
            self.by_connection.insert(on, open.0);
        }
    }

    /// Forgets a connection.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;

    use super::*;

    const HERE: ConnectionId = ConnectionId(1);
    const THERE: ConnectionId = ConnectionId(2);
    const ALICE: SessionId = SessionId(11);
    const BOB: SessionId = SessionId(12);

    fn none() -> Challenges {
        Challenges::new(&MapOrder::draw(&mut SeededRng::new(1, "challenges")))
    }

    fn nonce(number: u8) -> Nonce {
        Nonce([number; 32])
    }

    #[test]
    fn a_challenge_is_good_once_for_its_session_on_its_connection() {
        let mut challenges = none();
        assert!(challenges.open(HERE, ALICE, nonce(1), Nanos(0)));
        assert_eq!(challenges.take(THERE, ALICE, Nanos(1)), None);
        assert_eq!(challenges.take(HERE, BOB, Nanos(1)), None);
        assert_eq!(challenges.take(HERE, ALICE, Nanos(1)), Some(nonce(1)));
        assert_eq!(challenges.take(HERE, ALICE, Nanos(1)), None);
    }

    #[test]
    fn a_challenge_is_good_for_ten_seconds() {
        for (age, want) in [(9_999_999_999, Some(nonce(1))), (10_000_000_000, None)] {
            let mut challenges = none();
            assert!(challenges.open(HERE, ALICE, nonce(1), Nanos(5)));
            assert_eq!(challenges.take(HERE, ALICE, Nanos(5 + age)), want);
            assert_eq!(challenges.take(HERE, ALICE, Nanos(5)), None, "taken is taken");
        }
    }

    #[test]
    fn a_new_challenge_ends_the_one_before_it() {
        let mut challenges = none();
        assert!(challenges.open(HERE, ALICE, nonce(1), Nanos(0)));
        assert!(challenges.open(HERE, ALICE, nonce(2), Nanos(0)));
        assert_eq!(challenges.take(HERE, ALICE, Nanos(0)), Some(nonce(2)));
        assert_eq!(challenges.take(HERE, ALICE, Nanos(0)), None);
    }

    #[test]
    fn a_connection_has_a_bounded_number_of_challenges_and_old_ones_make_room() {
        let mut challenges = none();
        let of = |number: usize| SessionId(u32::try_from(number).unwrap());
        for number in 1..=CHALLENGE_COUNT_MAX {
            assert!(challenges.open(HERE, of(number), nonce(1), Nanos(0)));
        }
        assert!(!challenges.open(HERE, of(99), nonce(1), Nanos(1)));
        assert!(challenges.open(THERE, of(99), nonce(1), Nanos(1)), "another connection has room");
        assert!(challenges.open(HERE, of(1), nonce(1), Nanos(1)), "in the place of its own");
        assert!(challenges.open(HERE, of(99), nonce(1), Nanos(10_000_000_000)));
    }

    #[test]
    fn challenges_go_with_their_connection_under_its_new_number() {
        let (mut here, mut there) = (none(), none());
        assert!(here.open(HERE, ALICE, nonce(1), Nanos(0)));
        assert!(here.open(HERE, BOB, nonce(2), Nanos(5)));
        there.take_over(THERE, here.take_all(HERE));
        assert!(here.by_connection.is_empty());
        assert_eq!(there.take(THERE, BOB, Nanos(6)), Some(nonce(2)));
        assert_eq!(there.take(THERE, ALICE, Nanos(10_000_000_000)), None, "its time goes on");
        there.take_over(THERE, here.take_all(HERE));
        assert!(there.by_connection.is_empty());
    }

    #[test]
    fn nothing_is_kept_of_a_connection_that_is_gone_or_used_its_challenges() {
        let mut challenges = none();
        assert!(challenges.open(HERE, ALICE, nonce(1), Nanos(0)));
        assert!(challenges.open(THERE, ALICE, nonce(1), Nanos(0)));
        challenges.forget(HERE);
        assert_eq!(challenges.take(HERE, ALICE, Nanos(0)), None);
        assert_eq!(challenges.take(THERE, ALICE, Nanos(0)), Some(nonce(1)));
        assert!(challenges.by_connection.is_empty());
    }
}
