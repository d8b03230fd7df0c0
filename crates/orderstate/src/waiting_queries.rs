//! Queries that wait for older events: an answer contains the events that were told before its
//! query.
//!
//! A store that is behind its events takes them in steps and serves its readers between two steps,
//! so a query waits here until the store has the events from before it. Credit that is added to a
//! fetch waits behind it. A store that cannot catch up, because events come faster or the files do
//! not have them yet, answers after [`WAIT_MAX`], or when too many wait, with the state that it
//! has; a reader that needs more names it by `min_token`.

use std::collections::VecDeque;

use weir_door::ConnectionId;
use weir_door::reader_rings::Fetch;
use weir_types::{Nanos, SessionId};
use weir_wire::delivery::{AddCredit, CancelFetch};

/// The time in nanoseconds that a query waits for older events at most: 1 s.
pub const WAIT_MAX: u64 = 1_000_000_000;
/// The number of queries that can wait; beyond it the first one waits no longer.
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

    fn correlation_id(&self) -> u64 {
        match self {
            Query::Fetch(fetch) => fetch.fetch.correlation_id,
            Query::AddCredit(_, more) => more.correlation_id,
        }
    }
}

/// A query with the record that the store must come to, and the end of its patience.
#[derive(Debug)]
struct Waiting {
    query: Query,
    upto: u64,
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

    /// Returns true when a query of the connection waits: a later one may not overtake it.
    #[must_use]
    pub fn has_any_of(&self, connection: ConnectionId) -> bool {
        self.queries.iter().any(|waiting| waiting.query.connection() == connection)
    }

    /// Adds a query that came now and waits until the store's next record is `upto`. Returns the
    /// one that waits no longer where there is no room: the connection's first, or the first of
    /// all.
    #[must_use]
    pub fn push(&mut self, query: Query, upto: u64, now: Nanos) -> Option<Query> {
        let connection = query.connection();
        let is_its = |waiting: &Waiting| waiting.query.connection() == connection;
        let count = self.queries.iter().filter(|waiting| is_its(waiting)).count();
        let place = match count < QUERIES_PER_CONNECTION {
            true if self.queries.len() < QUERIES_MAX => None,
            true => Some(0),
            false => self.queries.iter().position(is_its),
        };
        let early = place.and_then(|place| self.queries.remove(place));
        let until = Nanos(now.0.saturating_add(WAIT_MAX));
        self.queries.push_back(Waiting { query, upto, until });
        early.map(|waiting| waiting.query)
    }

    /// Removes and returns the next query that waits no longer, for a store whose next record is
    /// `next`. Only the first is looked at: later ones do not overtake it.
    pub fn pop(&mut self, next: u64, now: Nanos) -> Option<Query> {
        let first = self.queries.front()?;
        if first.upto > next && first.until > now {
            return None;
        }
        self.queries.pop_front().map(|first| first.query)
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
