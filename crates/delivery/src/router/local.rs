//! Backends in the same process: desks, each with its store, called without a socket.
//!
//! Each request is a connection of its own at its desk, so that cancelling it drops the connection.
//! A desk's frames go to the router at once: there is no back-pressure between the two.

use weir_types::{Nanos, SessionId};

use super::Router;
use super::backend::{BackendId, BackendPort, BackendRequest};
use crate::desk::{Desk, FetchOutcome, PageSink, Question};

/// Desks by their numbers at a router.
#[derive(Debug, Default)]
pub struct LocalBackends {
    /// The desks, in the order of their numbers.
    desks: Vec<(BackendId, Desk)>,
    frames: Vec<u8>,
}

/// Collects a desk's frames; the router distinguishes its requests by their numbers.
struct Frames<'a>(&'a mut Vec<u8>);

impl PageSink for Frames<'_> {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(self.0)
    }
}

impl LocalBackends {
    /// Assigns a desk to the number that the router gave it. A desk already there is replaced, and
    /// its requests are lost: report it to the router as down first.
    pub fn insert(&mut self, id: BackendId, desk: Desk) {
        match self.desks.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => self.desks[at].1 = desk,
            Err(at) => self.desks.insert(at, (id, desk)),
        }
    }

    /// Removes a desk.
    pub fn remove(&mut self, id: BackendId) -> Option<Desk> {
        let at = self.desks.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.desks.remove(at).1)
    }

    /// Returns a desk, to feed it.
    pub fn get_mut(&mut self, id: BackendId) -> Option<&mut Desk> {
        let at = self.desks.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&mut self.desks[at].1)
    }

    /// Polls each desk once and passes its pages and its progress to the router. Returns true if a
    /// desk has more to do now.
    pub fn pump(&mut self, router: &mut Router, now: Nanos) -> bool {
        let mut has_more = false;
        for (id, desk) in &mut self.desks {
            self.frames.clear();
            has_more |= desk.poll(now, &mut Frames(&mut self.frames)).has_more;
            let store = desk.store();
            router.heard_of(*id, store.epoch(), store.complete_to());
            // A desk's own frames are whole and valid; if not, the router has counted the fault.
            let _ = router.take(*id, &self.frames, now);
        }
        has_more
    }

    /// Returns the time at which to call [`LocalBackends::pump`] next if nothing else happens, as
    /// [`Desk::next_deadline`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.desks.iter().filter_map(|(_, desk)| desk.next_deadline()).min()
    }
}

impl BackendPort for LocalBackends {
    fn ask(&mut self, ask: &BackendRequest<'_>, now: Nanos) -> FetchOutcome {
        let Some(desk) = self.get_mut(ask.backend) else {
            return FetchOutcome::Refused(weir_types::Reason::Overloaded);
        };
        let question = Question {
            connection: ask.fetch.correlation_id,
            fetch: ask.fetch,
            token: ask.token,
            min_token: ask.min_token,
            entitlement: ask.entitlement,
        };
        desk.ask(&question, now)
    }

    fn cancel(&mut self, backend: BackendId, correlation_id: u64) {
        if let Some(desk) = self.get_mut(backend) {
            desk.drop_connection(correlation_id);
        }
    }
}
