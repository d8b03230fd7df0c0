//! What crosses between the ingest agent and the store: whole batches one way, frames the other.
//!
//! Both rings are bounded, and each request gets at most one answer, so that a full ring of
//! requests stops the reading of sockets and nothing else.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::Wake;
use weir_wire::ingest::OpenSource;
use weir_wire::replica::FollowSource;

/// Requests that may wait in front of the store.
const REQUESTS_MAX: usize = 1_024;
/// Answers that may wait in front of the ingest agent: one for each request, and what the store
/// says by itself.
const ANSWERS_MAX: usize = 2 * REQUESTS_MAX;

/// Something for the store.
#[derive(Debug)]
pub struct IngestRequest {
    /// Who asks: the ingest agent's number of the connection.
    pub connection: u64,
    /// What.
    pub what: Asked,
}

/// What is asked of the store.
#[derive(Debug)]
pub enum Asked {
    /// To open a source.
    Open(OpenSource),
    /// To take in a batch: its whole frame.
    Batch(Vec<u8>),
    /// What comes next of a source, for a replica.
    Follow(FollowSource),
    /// Nothing any more: the connection is gone.
    Gone,
}

/// The store's answer.
#[derive(Debug)]
pub struct IngestAnswer {
    /// For whom.
    pub connection: u64,
    /// Whole frames, or none.
    pub bytes: Vec<u8>,
    /// Bytes of a batch that the store has dealt with.
    pub taken_len: usize,
    /// Whether the source was closed by a refusal.
    pub is_refusal: bool,
}

/// The ingest agent's end.
#[derive(Debug)]
pub struct StorePort {
    /// Requests to the store.
    pub requests: Producer<IngestRequest>,
    /// Its answers.
    pub answers: Consumer<IngestAnswer>,
    /// Its thread.
    pub wake: Wake,
}

/// The store's end.
#[derive(Debug)]
pub struct IngestPort {
    /// Requests from the ingest agent.
    pub requests: Consumer<IngestRequest>,
    /// Answers to it.
    pub answers: Producer<IngestAnswer>,
    /// Its thread.
    pub wake: Wake,
}

/// The two ends.
#[must_use]
pub fn ingest_to_store(ingest: Wake, store: Wake) -> (StorePort, IngestPort) {
    let (requests, from_ingest) = RingBuffer::new(REQUESTS_MAX);
    let (answers, from_store) = RingBuffer::new(ANSWERS_MAX);
    (
        StorePort { requests, answers: from_store, wake: store },
        IngestPort { requests: from_ingest, answers, wake: ingest },
    )
}
