//! The rings between the ingest agent and the store: whole batches in one direction, frames in the
//! other.
//!
//! Both rings are bounded, and each request gets at most one answer, so that a full ring of
//! requests stops the reading of sockets and nothing else.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::Wake;
use weir_wire::ingest::{OpenSource, ResetSource};
use weir_wire::replica::FollowSource;

/// The bytes of a connection's window that an opening takes until it is answered, so that openings
/// too are bounded in number.
pub(super) const OPENING_COST: usize = 4_096;
/// The maximum number of requests in the ring to the store.
const REQUESTS_MAX: usize = 1_024;
/// The maximum number of answers waiting for the ingest agent: one per request, and the store's
/// unsolicited ones.
const ANSWERS_MAX: usize = 2 * REQUESTS_MAX;

/// A request to the store.
#[derive(Debug)]
pub struct IngestRequest {
    /// The ingest agent's number of the connection.
    pub connection: u64,
    /// The request itself.
    pub what: StoreRequest,
}

/// The kinds of requests to the store.
#[derive(Debug)]
pub enum StoreRequest {
    /// Opens a source.
    Open(OpenSource),
    /// Ingests a batch: its whole frame.
    Batch(Vec<u8>),
    /// Requests a source's next entries, for a replica.
    Follow(FollowSource),
    /// Forgets a source's orders, by an operator's order.
    Reset(ResetSource),
    /// Reports that the connection is closed.
    Gone,
}

/// The store's answer.
#[derive(Debug)]
pub struct IngestAnswer {
    /// The connection.
    pub connection: u64,
    /// Whole frames, or none.
    pub bytes: Vec<u8>,
    /// The number of the window's bytes that are free again: those of the batches processed, and
    /// [`OPENING_COST`] for each opening.
    pub taken_len: usize,
    /// True when its last message is a refusal: an opening, a batch or a replica's request was
    /// turned down.
    pub is_refusal: bool,
}

/// The ingest agent's end.
#[derive(Debug)]
pub struct StorePort {
    /// Requests to the store.
    pub requests: Producer<IngestRequest>,
    /// The store's answers.
    pub answers: Consumer<IngestAnswer>,
    /// The store's thread.
    pub wake: Wake,
}

/// The store's end.
#[derive(Debug)]
pub struct IngestPort {
    /// Requests from the ingest agent.
    pub requests: Consumer<IngestRequest>,
    /// Answers to it.
    pub answers: Producer<IngestAnswer>,
    /// The ingest agent's thread.
    pub wake: Wake,
}

/// Creates the two ends.
#[must_use]
pub fn ingest_to_store(ingest: Wake, store: Wake) -> (StorePort, IngestPort) {
    let (requests, from_ingest) = RingBuffer::new(REQUESTS_MAX);
    let (answers, from_store) = RingBuffer::new(ANSWERS_MAX);
    (
        StorePort { requests, answers: from_store, wake: store },
        IngestPort { requests: from_ingest, answers, wake: ingest },
    )
}
