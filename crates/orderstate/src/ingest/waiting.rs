//! The requests that wait for one source: for room in its log, or for the end of a full resend.
//! Other sources go on meanwhile.
//!
//! INVARIANT: a connection's share is bounded. Its batches and openings wait within the window in
//! front of the store ([`WINDOW`](crate::stores::WINDOW)); of its requests for entries only the
//! newest is kept, as [`Followers`](super::followers::Followers) does.

use std::collections::VecDeque;

use super::handoff::{IngestRequest, StoreRequest};

/// The requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests(VecDeque<IngestRequest>);

impl WaitingRequests {
    /// Returns true if none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a request behind the others.
    pub(super) fn push(&mut self, request: IngestRequest) {
        let is_follow = |request: &IngestRequest| matches!(request.what, StoreRequest::Follow(_));
        if is_follow(&request) {
            self.0.retain(|other| other.connection != request.connection || !is_follow(other));
        }
        self.0.push_back(request);
    }

    /// Removes the oldest request, if it may be taken now.
    pub(super) fn pop_if(
        &mut self,
        may_be_taken: impl FnOnce(&StoreRequest) -> bool,
    ) -> Option<IngestRequest> {
        let may_go = self.0.front().is_some_and(|request| may_be_taken(&request.what));
        if may_go { self.0.pop_front() } else { None }
    }

    /// Drops the requests of a closed connection. Its batches are not acknowledged, so its core
    /// sends them again.
    pub(super) fn forget(&mut self, connection: u64) {
        self.0.retain(|request| request.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{PartitionId, SessionId};
    use weir_wire::replica::FollowSource;

    use super::*;

    fn follow(connection: u64, position: u64) -> IngestRequest {
        let what = StoreRequest::Follow(FollowSource {
            history_high: 0,
            history_low: 0,
            position,
            session_id: SessionId(1),
            chunk_no: 0,
            source_id: PartitionId(1),
        });
        IngestRequest { connection, what }
    }

    fn batch(connection: u64, byte: u8) -> IngestRequest {
        IngestRequest { connection, what: StoreRequest::Batch(vec![byte]) }
    }

    /// Takes all requests; a request for entries is named by its position, a batch by its byte.
    fn rest(mut waiting: WaitingRequests) -> Vec<(u64, u64)> {
        let next = std::iter::from_fn(|| waiting.pop_if(|_| true));
        let name = |request: IngestRequest| match request.what {
            StoreRequest::Follow(follow) => (request.connection, follow.position),
            StoreRequest::Batch(bytes) => (request.connection, u64::from(bytes[0])),
            StoreRequest::Open(_) | StoreRequest::Reset(_) | StoreRequest::Gone => {
                unreachable!("none was pushed")
            }
        };
        next.map(name).collect()
    }

    #[test]
    fn requests_leave_in_their_order_and_only_when_they_may() {
        let mut waiting = WaitingRequests::default();
        waiting.push(batch(1, 5));
        waiting.push(batch(2, 6));
        assert!(waiting.pop_if(|what| !matches!(what, StoreRequest::Batch(_))).is_none());
        assert_eq!(rest(waiting), [(1, 5), (2, 6)]);
    }

    #[test]
    fn a_connection_has_one_request_for_entries_and_any_number_of_batches() {
        let mut waiting = WaitingRequests::default();
        for request in [follow(1, 10), batch(1, 5), follow(2, 11), batch(1, 6), follow(1, 12)] {
            waiting.push(request);
        }
        assert_eq!(rest(waiting), [(1, 5), (2, 11), (1, 6), (1, 12)]);
    }

    #[test]
    fn a_closed_connection_leaves_nothing_and_takes_nobody_elses() {
        let mut waiting = WaitingRequests::default();
        for request in [batch(1, 5), follow(1, 10), batch(2, 6)] {
            waiting.push(request);
        }
        waiting.forget(1);
        assert_eq!(rest(waiting), [(2, 6)]);
    }
}
