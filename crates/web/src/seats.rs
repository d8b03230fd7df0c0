//! The places of readers: each query and each WebSocket of order state has one, from its entry
//! until its connection has ended.
//!
//! | at an entry | outcome |
//! | --- | --- |
//! | the session has as many as it may | `LimitReached` |
//! | there is a place | taken |
//! | none, but WebSockets have no subscription | one makes place |
//! | none | `Overloaded` |
//!
//! Of several that may make place it is the oldest of the session with most of them.
//!
//! INVARIANT: a place is left by its drop alone, except by a reader that makes place.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_door::ConnectionId;
use weir_types::{Reason, SessionId};

use crate::plant::{self, Plant};

/// The bounds of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// The maximum number of simultaneous queries and WebSockets.
    pub readers_max: usize,
    /// The maximum number of these of one session.
    pub session_readers_max: usize,
    /// The time that a WebSocket may be without a subscription.
    pub idle_max: Duration,
    /// The time that the agent has to let a reader in or to take a query.
    pub entry_max: Duration,
    /// The time that the store has to answer a query, beyond the waits that the query names.
    pub answer_max: Duration,
}

impl ReaderLimits {
    /// Returns limits with the times of the agent and the store: 5 s and 30 s.
    #[must_use]
    pub fn new(readers_max: usize, session_readers_max: usize, idle_max: Duration) -> ReaderLimits {
        let (entry_max, answer_max) = (Duration::from_secs(5), Duration::from_secs(30));
        ReaderLimits { readers_max, session_readers_max, idle_max, entry_max, answer_max }
    }
}

/// All places.
#[derive(Debug)]
pub(super) struct Seats {
    limits: ReaderLimits,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    readers: HashMap<ConnectionId, SessionId>,
    /// The number of readers by session; never zero.
    sessions: HashMap<SessionId, usize>,
    /// WebSockets without a subscription, the oldest first.
    idle: BTreeMap<ConnectionId, SessionId>,
}

impl Held {
    fn leave(&mut self, reader: ConnectionId) {
        let Some(session_id) = self.readers.remove(&reader) else { return };
        self.idle.remove(&reader);
        let count = self.sessions.get_mut(&session_id).expect("a reader's session is counted");
        *count -= 1;
        if *count == 0 {
            self.sessions.remove(&session_id);
        }
    }

    /// Returns the oldest idle reader of the session that has most of them.
    fn least_needed(&self) -> Option<ConnectionId> {
        let mut crowds: BTreeMap<SessionId, (usize, ConnectionId)> = BTreeMap::new();
        for (reader, session_id) in &self.idle {
            crowds.entry(*session_id).or_insert((0, *reader)).0 += 1;
        }
        let oldest = |(count, reader): &(usize, ConnectionId)| (*count, std::cmp::Reverse(*reader));
        crowds.into_values().max_by_key(oldest).map(|(_, reader)| reader)
    }
}

/// A reader's place; left when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    reader: ConnectionId,
    places: Arc<Seats>,
}

impl Seats {
    pub fn new(limits: ReaderLimits) -> Arc<Seats> {
        Arc::new(Seats { limits, held: Mutex::default() })
    }

    /// Takes a place for a reader; also returns the reader that made it, which has to be ended.
    ///
    /// # Errors
    /// [`Reason::LimitReached`], [`Reason::Overloaded`].
    pub fn take(
        self: &Arc<Seats>,
        reader: ConnectionId,
        session_id: SessionId,
    ) -> Result<(Seat, Option<ConnectionId>), Reason> {
        let mut held = self.held();
        let count = held.sessions.get(&session_id).copied().unwrap_or(0);
        if count >= self.limits.session_readers_max && !plant::is(Plant::SessionUnbounded) {
            return Err(Reason::LimitReached);
        }
        let mut leaving = None;
        if held.readers.len() >= self.limits.readers_max {
            let least_needed = held.least_needed().ok_or(Reason::Overloaded)?;
            held.leave(least_needed);
            leaving = Some(least_needed);
        }
        held.readers.insert(reader, session_id);
        *held.sessions.entry(session_id).or_default() += 1;
        Ok((Seat { reader, places: self.clone() }, leaving))
    }

    /// Leaves a reader's place before its connection has ended.
    pub fn leave_early(&self, reader: ConnectionId) {
        self.held().leave(reader);
    }

    /// Returns the number of places taken.
    pub fn count(&self) -> usize {
        self.held().readers.len()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Notes whether the reader is a WebSocket without a subscription.
    pub fn set_idle(&self, is_idle: bool) {
        let mut held = self.places.held();
        let Some(session_id) = held.readers.get(&self.reader).copied() else { return };
        if is_idle {
            held.idle.insert(self.reader, session_id);
        } else if !plant::is(Plant::SubscriberMakesPlace) {
            held.idle.remove(&self.reader);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.held().leave(self.reader);
    }
}

#[cfg(test)]
mod tests {
    use weir_door::DoorNo;

    use super::*;

    struct Rig {
        places: Arc<Seats>,
        next: u64,
    }

    impl Rig {
        /// Four places, of which a session may have three.
        fn new() -> Rig {
            let limits = ReaderLimits::new(4, 3, Duration::from_secs(60));
            Rig { places: Seats::new(limits), next: 0 }
        }

        fn enter(&mut self, session: u32) -> Result<(Seat, Option<u64>), Reason> {
            let reader = ConnectionId::at(DoorNo::WEB, self.next);
            self.next += 1;
            let (place, leaving) = self.places.take(reader, SessionId(session))?;
            let number = |id: ConnectionId| (0..).find(|n| ConnectionId::at(DoorNo::WEB, *n) == id);
            Ok((place, leaving.and_then(number)))
        }

        fn idle(&mut self, session: u32) -> Seat {
            let (place, leaving) = self.enter(session).unwrap();
            assert_eq!(leaving, None);
            place.set_idle(true);
            place
        }
    }

    fn no_session_takes_all() {
        let mut rig = Rig::new();
        let mut own: Vec<Seat> = (0..3).map(|_| rig.enter(7).unwrap().0).collect();
        assert_eq!(rig.enter(7).unwrap_err(), Reason::LimitReached);
        let other = rig.enter(8).unwrap().0;
        assert_eq!(rig.enter(9).unwrap_err(), Reason::Overloaded);
        // A place is free again when it is dropped, and then alone.
        own.pop();
        own.push(rig.enter(7).unwrap().0);
        drop((own, other));
        assert_eq!(rig.places.count(), 0);
        assert_eq!(rig.places.held().sessions.len(), 0);
    }

    #[test]
    fn no_session_takes_more_places_than_it_may_and_each_comes_back() {
        no_session_takes_all();
    }

    fn idle_ones_make_place() {
        let mut rig = Rig::new();
        let subscriber = rig.idle(7);
        let kept = [rig.idle(8), rig.idle(7), rig.idle(7)];
        subscriber.set_idle(false);
        // Session 7 has most of them, then both have one: the older goes.
        let (first, leaving) = rig.enter(9).unwrap();
        assert_eq!(leaving, Some(2));
        let (second, leaving) = rig.enter(9).unwrap();
        assert_eq!(leaving, Some(1));
        let (third, leaving) = rig.enter(9).unwrap();
        assert_eq!(leaving, Some(3));
        assert_eq!(rig.enter(10).unwrap_err(), Reason::Overloaded);
        // Those that made place have none to leave.
        drop(kept);
        assert_eq!(rig.places.count(), 4);
        drop((first, second, third, subscriber));
        assert_eq!(rig.places.count(), 0);
    }

    #[test]
    fn sockets_without_a_subscription_make_place_and_no_subscriber_does() {
        idle_ones_make_place();
    }

    #[cfg(feature = "planted")]
    #[test]
    fn every_planted_bug_of_the_seats_is_found() {
        // Those of a reader's key are found by the tests of the hub.
        let others = [Plant::PlaceLeftWithTheKey, Plant::ReaderOutlivesItsKey];
        for planted in Plant::ALL.iter().copied().filter(|plant| !others.contains(plant)) {
            plant::set(Some(planted));
            let scenarios: [fn(); 2] = [no_session_takes_all, idle_ones_make_place];
            let is_found = scenarios.iter().any(|run| std::panic::catch_unwind(run).is_err());
            plant::set(None);
            assert!(is_found, "{planted:?}");
        }
    }
}
