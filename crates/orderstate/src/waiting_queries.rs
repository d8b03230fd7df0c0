//! Queries that wait for older events: an answer contains the events that were told before its
//! query.
//!
//! A store that is behind its events takes them in steps and serves its readers between two steps,
//! so a query waits here until its stores have the events from before it. Credit that is added to a
//! fetch waits behind it, and nothing else does. A store that cannot catch up, because events come
//! faster or the files do not have them yet, answers after [`WAIT_MAX`], or when too many wait,
//! with the state that it has; a reader that needs more names it by `min_token`.

use std::collections::VecDeque;

use weir_door::ConnectionId;
use weir_door::reader_rings::Fetch;
use weir_types::{Nanos, PartitionId, SessionId};
use weir_wire::delivery::{AddCredit, CancelFetch};

/// The time in nanoseconds that a query waits for older events at most: 1 s.
pub const WAIT_MAX: u64 = 1_000_000_000;
/// The number of queries that can wait; beyond it the first one waits no longer of the connection
/// that has most.
const QUERIES_MAX: usize = 256;
/// The number of a connection's queries that can wait, so that one takes no places of the others.
const QUERIES_PER_CONNECTION: usize = 16;

/// A query, or more credit for one.
#[derive(Debug)]
pub enum Query {
    /// A fetch.
    Fetch(Box<Fetch>),
    /// Credit for a fetch of the connection.
    AddCredit(ConnectionId, AddCredit),
}

impl Query {
    /// Returns the connection that sent it.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        match self {
            Query::Fetch(fetch) => fetch.connection,
            Query::AddCredit(connection, _) => *connection,
        }
    }

    fn session_id(&self) -> SessionId {
        match self {
            Query::Fetch(fetch) => fetch.fetch.session_id,
            Query::AddCredit(_, more) => more.session_id,
        }
    }

    /// True when both are of one fetch of one session of a connection.
    fn is_of_the_fetch_of(&self, other: &Query) -> bool {
        let of = |query: &Query| (query.connection(), query.session_id(), query.correlation_id());
        of(self) == of(other)
    }

    fn correlation_id(&self) -> u64 {
        match self {
            Query::Fetch(fetch) => fetch.fetch.correlation_id,
            Query::AddCredit(_, more) => more.correlation_id,
        }
    }
}

/// A place in a partition's events: the number of a record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// The partition.
    pub source: PartitionId,
    /// The record.
    pub record: u64,
}

/// A query with the places that the stores must come to, and the end of its patience.
#[derive(Debug)]
struct Waiting {
    query: Query,
    upto: Vec<EventPlace>,
    until: Nanos,
}

/// The queries that wait, in the order in which they came.
#[derive(Debug, Default)]
pub struct WaitingQueries {
    queries: VecDeque<Waiting>,
}

impl WaitingQueries {
    /// Returns true when none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Returns true when a query of the same fetch waits: this one may not overtake it.
    #[must_use]
    pub fn has_any_of_the_fetch_of(&self, query: &Query) -> bool {
        self.queries.iter().any(|waiting| waiting.query.is_of_the_fetch_of(query))
    }

    /// Adds a query that came now and waits until the stores' next records are those of `upto`.
    /// Returns the one that waits no longer where there is no room: the first of the connection
    /// that has most.
    #[must_use]
    pub fn push(&mut self, query: Query, upto: Vec<EventPlace>, now: Nanos) -> Option<Query> {
        let crowd = if self.count_of(query.connection()) >= QUERIES_PER_CONNECTION {
            Some(query.connection())
        } else if self.queries.len() >= QUERIES_MAX {
            let connections = self.queries.iter().map(|waiting| waiting.query.connection());
            connections.max_by_key(|connection| self.count_of(*connection))
        } else {
            None
        };
        let is_its = |waiting: &Waiting| Some(waiting.query.connection()) == crowd;
        let early = self.queries.iter().position(is_its).and_then(|at| self.queries.remove(at));
        let until = Nanos(now.0.saturating_add(WAIT_MAX));
        self.queries.push_back(Waiting { query, upto, until });
        early.map(|waiting| waiting.query)
    }

    /// Returns the number of a connection's queries.
    #[must_use]
    pub fn count_of(&self, connection: ConnectionId) -> usize {
        let is_its = |waiting: &&Waiting| waiting.query.connection() == connection;
        self.queries.iter().filter(is_its).count()
    }

    /// Removes and returns the next query that waits no longer; `is_there` tells whether a store
    /// has come to a place. None overtakes an earlier one of its fetch.
    pub fn pop(&mut self, is_there: impl Fn(EventPlace) -> bool, now: Nanos) -> Option<Query> {
        let waits = |waiting: &Waiting| {
            waiting.until > now && !waiting.upto.iter().all(|place| is_there(*place))
        };
        let is_behind = |at: usize, query: &Query| {
            self.queries.range(..at).any(|earlier| earlier.query.is_of_the_fetch_of(query))
        };
        let mut all = self.queries.iter().enumerate();
        let next = all.find(|(at, one)| !waits(one) && !is_behind(*at, &one.query));
        let at = next?.0;
        self.queries.remove(at).map(|one| one.query)
    }

    /// Removes a fetch, and the credit for it.
    pub fn cancel(&mut self, connection: ConnectionId, cancel: &CancelFetch) {
        self.remove(|query| {
            query.connection() == connection
                && query.session_id() == cancel.session_id
                && query.correlation_id() == cancel.correlation_id
        });
    }

    /// Removes the queries of a session that has ended.
    pub fn end_session(&mut self, connection: ConnectionId, session_id: SessionId) {
        self.remove(|query| query.connection() == connection && query.session_id() == session_id);
    }

    /// Removes the queries of a connection that is gone.
    pub fn drop_connection(&mut self, connection: ConnectionId) {
        self.remove(|query| query.connection() == connection);
    }

    fn remove(&mut self, is_meant: impl Fn(&Query) -> bool) {
        self.queries.retain(|waiting| !is_meant(&waiting.query));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(connection: u64, correlation_id: u64) -> Query {
        let session_id = SessionId(1);
        let more = AddCredit { correlation_id, session_id, pages: 1, rows: 0, bytes: 0 };
        Query::AddCredit(ConnectionId(connection), more)
    }

    /// Returns a place in the events of the partition `source`.
    fn place(source: u16, record: u64) -> EventPlace {
        EventPlace { source: PartitionId(source), record }
    }

    #[test]
    fn where_there_is_no_room_the_connection_that_has_most_waits_no_longer() {
        let mut waiting = WaitingQueries::default();
        let now = Nanos(1);
        // One with a single query was first.
        assert!(waiting.push(credit(99, 1), vec![place(1, 5)], now).is_none());
        let crowd = QUERIES_PER_CONNECTION as u64;
        let mut number = 1;
        while number < QUERIES_MAX as u64 {
            let connection = 1 + (number - 1) / crowd;
            assert!(
                waiting.push(credit(connection, number), vec![place(1, 5)], now).is_none(),
                "{number}"
            );
            number += 1;
        }
        let early = waiting.push(credit(98, 1), vec![place(1, 5)], now).expect("there is no room");
        assert_eq!(early.connection(), ConnectionId(15), "the last of those that have most");
        let early =
            waiting.push(credit(1, 999), vec![place(1, 5)], now).expect("it has all of its places");
        assert_eq!((early.connection(), early.correlation_id()), (ConnectionId(1), 1));
        assert_eq!(waiting.queries.len(), QUERIES_MAX);
        assert_eq!(waiting.count_of(ConnectionId(99)), 1);
    }

    #[test]
    fn credit_waits_behind_its_own_fetch_alone() {
        let mut waiting = WaitingQueries::default();
        assert!(waiting.push(credit(1, 7), vec![place(1, 5)], Nanos(1)).is_none());
        assert!(waiting.has_any_of_the_fetch_of(&credit(1, 7)));
        assert!(!waiting.has_any_of_the_fetch_of(&credit(1, 8)));
        assert!(!waiting.has_any_of_the_fetch_of(&credit(2, 7)));
    }

    #[test]
    fn a_query_of_one_store_does_not_wait_for_another_and_none_overtakes_its_fetch() {
        let mut waiting = WaitingQueries::default();
        let now = Nanos(1);
        assert!(waiting.push(credit(1, 1), vec![place(1, 9), place(2, 5)], now).is_none());
        assert!(waiting.push(credit(1, 1), Vec::new(), now).is_none());
        assert!(waiting.push(credit(2, 1), vec![place(2, 5)], now).is_none());
        let mut pop = |first: u64, second: u64, now: u64| {
            let next = [first, second];
            let is_there = |at: EventPlace| at.record <= next[usize::from(at.source.0) - 1];
            waiting.pop(is_there, Nanos(now)).map(|query| query.connection().0)
        };
        assert_eq!(pop(1, 4, 2), None);
        assert_eq!(pop(1, 5, 2), Some(2), "its store is there");
        assert_eq!(pop(8, 5, 2), None, "both stores have to be there");
        assert_eq!([pop(9, 5, 2), pop(9, 5, 2), pop(9, 5, 2)], [Some(1), Some(1), None]);
        assert!(waiting.push(credit(1, 1), vec![place(1, 9)], now).is_none());
        assert!(waiting.pop(|_| false, Nanos(WAIT_MAX + 1)).is_some(), "its patience has ended");
    }
}
