//! Queries for the orders of all partitions of a node with several: a router over their desks, on
//! the desks' thread. With one partition its desk answers these queries, and none of this exists.
//!
//! The router's request to a desk is a fetch there of a connection of its own, so that it can be
//! cancelled. These connections have the number of a door that no node has, by which the frames of
//! a desk are told apart: the router takes the answers to its requests, doors all others.

use weir_delivery::router::{
    BackendId, BackendInfo, BackendPort, BackendRequest, BackendRole, Router, RouterConfig,
};
use weir_delivery::{
    Desk, DeskConfig, FetchOutcome, PageSink, PollOutcome, Question, TokenSealer, WaitingFetch,
};
use weir_door::{ConnectionId, DoorNo};
use weir_types::{Nanos, PartitionId, SessionId, WallOffset};
use weir_wire::delivery::{AddCredit, CancelFetch};

use crate::ingest::SourceStores;

/// The number of the door of the router's requests.
const REQUESTS: DoorNo = DoorNo(u8::MAX);

/// The readers of all partitions.
pub struct MergedReaders {
    router: Router,
    backends: Backends,
    /// Frames of the desk that is polled, for the router.
    frames: Vec<u8>,
    /// Pages in them, since the beginning.
    page_count: u64,
}

/// The numbers of the desks at the router, by source.
struct Backends(Vec<(BackendId, PartitionId)>);

impl Backends {
    fn source_of(&self, id: BackendId) -> PartitionId {
        let backend = self.0.iter().find(|(own, _)| *own == id);
        backend.expect("the router asks the backends that it has").1
    }

    fn of_source(&self, source: PartitionId) -> Option<BackendId> {
        self.0.iter().find(|(_, own)| *own == source).map(|(id, _)| *id)
    }
}

/// The destination of a desk's pages: a request's are the router's.
struct DeskSink<'a, S> {
    pages: &'a mut S,
    frames: &'a mut Vec<u8>,
    page_count: &'a mut u64,
}

impl<S: PageSink> PageSink for DeskSink<'_, S> {
    fn buffer(&mut self, connection: u64, session_id: SessionId) -> Option<&mut Vec<u8>> {
        if ConnectionId(connection).door() != REQUESTS {
            return self.pages.buffer(connection, session_id);
        }
        *self.page_count += 1;
        Some(self.frames)
    }
}

/// The desks, as the router asks them.
struct Desks<'a> {
    source_stores: &'a mut SourceStores,
    backends: &'a Backends,
}

/// Returns the connection of a request at a desk: that of its reader, which has one request at most
/// at each.
fn connection_of(request: u64) -> u64 {
    ConnectionId::at(REQUESTS, request >> 32).0
}

impl BackendPort for Desks<'_> {
    fn ask(&mut self, ask: &BackendRequest<'_>, now: Nanos) -> FetchOutcome {
        let source = self.backends.source_of(ask.backend);
        let question = Question {
            connection: connection_of(ask.fetch.correlation_id),
            fetch: ask.fetch,
            token: ask.token,
            min_token: ask.min_token,
            entitlement: ask.entitlement,
        };
        let desk = self.source_stores.desk_of(source);
        desk.map_or_else(FetchOutcome::Refused, |desk| desk.ask(&question, now))
    }

    fn cancel(&mut self, backend: BackendId, request: u64) {
        let source = self.backends.source_of(backend);
        if let Ok(desk) = self.source_stores.desk_of(source) {
            desk.drop_connection(connection_of(request));
        }
    }

    fn leave(&mut self, reader: u32) {
        let connection = connection_of(u64::from(reader) << 32);
        self.source_stores.desks().for_each(|desk| desk.drop_connection(connection));
    }
}

impl MergedReaders {
    /// Returns the readers of the partitions of these numbers; `None` for a single one. `sealer`
    /// has the keys of the desks, and nonces of its own.
    #[must_use]
    pub fn of(sources: &[PartitionId], sealer: TokenSealer) -> Option<MergedReaders> {
        if sources.len() < 2 {
            return None;
        }
        let of_desk = DeskConfig::default();
        let config = RouterConfig {
            readers_max: of_desk.readers_max,
            readers_per_connection_max: of_desk.readers_per_connection_max,
            readers_of_all_max: of_desk.readers_of_all_max,
            is_in_process: true,
            // A desk that reads an archive answers when it has.
            answer_grace: Nanos(u64::MAX),
            // Rows that came for a fetch that is not there yet would be older than the events told
            // before it.
            linger: Nanos(0),
            ..RouterConfig::default()
        };
        let mut router = Router::new(config, sealer);
        let backends = sources.iter().map(|source| {
            let (role, is_indexed) = (BackendRole::Master, true);
            let info = BackendInfo { source: *source, role, is_indexed, entitlement: None };
            let id = router.add_backend(info).expect("a token names all partitions of a node");
            router.backend_up(id);
            (id, *source)
        });
        let backends = Backends(backends.collect());
        Some(MergedReaders { router, backends, frames: Vec::new(), page_count: 0 })
    }

    /// Notes the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.router.wall_clock_moved(wall);
    }

    /// Takes in a fetch.
    pub fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome {
        self.router.ask(question, now)
    }

    /// Gives a fetch more credit.
    pub fn add_credit(&mut self, connection: u64, more: &AddCredit, now: Nanos) {
        self.router.add_credit(connection, more, now);
    }

    /// Cancels a fetch.
    pub fn cancel(
        &mut self,
        connection: u64,
        cancel: &CancelFetch,
        source_stores: &mut SourceStores,
    ) {
        let mut desks = Desks { source_stores, backends: &self.backends };
        self.router.cancel(connection, cancel, &mut desks);
    }

    /// Removes the fetches of a session that has ended.
    pub fn end_session(
        &mut self,
        connection: u64,
        session_id: SessionId,
        source_stores: &mut SourceStores,
    ) {
        let mut desks = Desks { source_stores, backends: &self.backends };
        self.router.end_session(connection, session_id, &mut desks);
    }

    /// Removes the fetches of a connection that is gone.
    pub fn drop_connection(&mut self, connection: u64, source_stores: &mut SourceStores) {
        let mut desks = Desks { source_stores, backends: &self.backends };
        self.router.drop_connection(connection, &mut desks);
    }

    /// Resumes a connection that can take pages again.
    pub fn resume(&mut self, connection: u64) {
        self.router.resume(connection);
    }

    /// Polls a desk; takes the pages for the router's requests.
    pub fn poll_desk(
        &mut self,
        desk: &mut Desk,
        now: Nanos,
        pages: &mut impl PageSink,
    ) -> PollOutcome {
        self.frames.clear();
        let (frames, page_count) = (&mut self.frames, &mut self.page_count);
        let polled = desk.poll(now, &mut DeskSink { pages, frames, page_count });
        if let Some(id) = self.backends.of_source(desk.store().source()) {
            self.router.heard_of(id, desk.store().epoch(), desk.store().complete_to());
            // A desk's own frames are whole and valid; if not, the router has counted the fault.
            let _ = self.router.take(id, &self.frames, now);
        }
        polled
    }

    /// Sends requests to the desks and serves readers. To be called behind the poll of all desks.
    pub fn poll(
        &mut self,
        source_stores: &mut SourceStores,
        now: Nanos,
        pages: &mut impl PageSink,
    ) -> PollOutcome {
        let mut desks = Desks { source_stores, backends: &self.backends };
        self.router.poll(now, &mut desks, pages)
    }

    /// Returns the pages that desks have sent to the router, and the rows in them.
    #[must_use]
    pub fn internal(&self) -> (u64, u64) {
        (self.page_count, self.router.figures().answer_row_count)
    }

    /// Returns the time at which it must be polled next if nothing else happens; zero for at once.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.router.next_deadline()
    }

    /// Lists the fetches that wait for their reader, as [`Router::list_paused`].
    pub fn list_paused(
        &self,
        seat: usize,
        count: usize,
        sink: &mut impl FnMut(WaitingFetch),
    ) -> Option<usize> {
        self.router.list_paused(seat, count, sink)
    }

    /// Returns the connection and the number of the fetch behind a desk's waiting fetch: itself, or
    /// that for which the router asks; `None` if that is given up.
    #[must_use]
    pub fn fetch_behind(&self, connection: u64, number: u64) -> Option<(u64, u64)> {
        if ConnectionId(connection).door() == REQUESTS {
            self.router.fetch_of(number)
        } else {
            Some((connection, number))
        }
    }
}

#[cfg(test)]
mod tests;
