//! Failures of one outside source, which end neither the node nor another source.
//!
//! ```text
//! failure                    | readers       | the core                      | ends with
//! ---------------------------+---------------+-------------------------------+--------------------
//! a broken invariant         | PartitionAway | is asked for a full resend    | the full resend
//! a write or sync of its log | PartitionAway | is refused: SourceQuarantined | a start of the node
//! ```
//! A start that cannot read a source's log, or not replay it, sets the log aside and asks for a
//! full resend (`stores/kept.rs`).
//!
//! An operator's reset does as a broken invariant, on a source that works too, and forgets how far
//! places and record numbers had come. It is an entry of the log, so that a start does the same.
//!
//! Broken invariants of these steps are caught: requests, the ends of full resends, feeding the
//! archive and passing its pages on, answers to replicas. Those of snapshots, of pages for readers
//! and of the archives' thread still end the node.
//!
//! A broken invariant is caught as a panic. The store that it may have left half changed is dropped
//! unread: the source goes on with an empty one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_delivery::OrderStore;
use weir_io::{Disk, OsRng, Rng};
use weir_types::{BatchNo, Nanos, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::ingest::{ResetSource, SourceReject, SourceReset};

use super::followers::passing_history;
use super::handoff::IngestAnswer;
use super::source_store::SourceStore;
use crate::panic_text::text_of;
use crate::plant::{self, Plant};

/// The failure of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceFailure {
    /// The text for operators.
    pub(super) why: String,
    /// True when its log takes nothing before the next start.
    pub(super) is_of_log: bool,
}

/// A step that broke an invariant: its source has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenStep {
    /// The connection that had the source open, and has been told.
    pub(super) told: Option<u64>,
}

impl<D: Disk> SourceStore<D> {
    /// Runs a step for an outside core. The node's own partition and followed sources are not
    /// caught: their invariants are the node's.
    ///
    /// # Errors
    /// [`BrokenStep`].
    pub(super) fn guard<T>(
        &mut self,
        step: impl FnOnce(&mut SourceStore<D>) -> T,
    ) -> Result<T, BrokenStep> {
        if self.own.is_some() || self.following.is_some() {
            return Ok(step(self));
        }
        let done = catch_unwind(AssertUnwindSafe(|| step(self)));
        done.map_err(|panic| BrokenStep { told: self.fail(text_of(panic.as_ref())) })
    }

    /// Goes on with an empty store, which asks for a full resend. Returns the connection that has
    /// been told.
    fn fail(&mut self, why: String) -> Option<u64> {
        let source = self.source();
        tracing::error!(%source, why, "a source has failed: its core has to send all again");
        let writer = self.stream.writer();
        self.begin_empty();
        self.failure = Some(SourceFailure { why, is_of_log: false });
        writer
    }

    /// Answers a request that broke an invariant: `taken_len` bytes of the connection's window are
    /// free again, and it is told of the failure once.
    pub(super) fn refuse_broken(
        &mut self,
        broken: BrokenStep,
        (connection, session_id): (u64, SessionId),
        taken_len: usize,
    ) {
        if broken.told == Some(connection) {
            let bytes = Vec::new();
            self.say(IngestAnswer { connection, bytes, taken_len, is_refusal: false });
        } else {
            self.refuse(connection, session_id, taken_len);
        }
    }

    /// Goes on with an empty store that takes nothing: the log's state on the medium is unknown.
    pub(super) fn fail_log(&mut self, why: String) {
        let source = self.source();
        tracing::error!(%source, why, "the log of a source has failed: the source is quarantined");
        self.journal = None;
        // Nothing that waits for a commit is acknowledged any more.
        for (_, answer) in std::mem::take(&mut self.held) {
            let bytes = match plant::is(Plant::FailedWriteAcknowledged) {
                true => answer.bytes.clone(),
                false => Vec::new(),
            };
            self.say(IngestAnswer { bytes, is_refusal: false, ..answer });
        }
        self.failure = Some(SourceFailure { why, is_of_log: true });
        self.begin_empty();
    }

    fn begin_empty(&mut self) {
        let writer = self.stream.writer().zip(Some(self.stream.writer_session()));
        let empty = self.stream.fail(self.desk.store());
        self.go_on_with(empty, writer);
    }

    /// Forgets the source's orders, by an operator's order.
    pub(super) fn reset(&mut self, connection: u64, reset: &ResetSource, now: Nanos) {
        let is_of_log = self.failure.as_ref().is_some_and(|failure| failure.is_of_log);
        let writer = self.stream.writer().zip(Some(self.stream.writer_session()));
        let emptied = match is_of_log {
            true => Err(Reason::SourceQuarantined),
            false => self.stream.reset(self.desk.store()),
        };
        let empty = match emptied {
            Ok(empty) => empty,
            Err(reason) => return self.refuse_as(connection, reset.session_id, 0, reason),
        };
        let source = self.source();
        tracing::warn!(%source, "an operator has reset a source: its core has to send all again");
        if !plant::is(Plant::ResetNotKept) {
            let mut entry = Vec::new();
            put_frame(reset, &mut entry);
            self.keep(entry, now);
        }
        self.go_on_with(empty, writer);
        self.failure = None;
        let done = SourceReset {
            session_id: reset.session_id,
            epoch: self.stream.epoch(),
            source_id: source,
        };
        let mut bytes = Vec::new();
        put_frame(&done, &mut bytes);
        self.say(IngestAnswer { connection, bytes, taken_len: 0, is_refusal: false });
    }

    /// Replaces the store by an empty one; `writer`, a connection's session, had it open.
    fn go_on_with(&mut self, empty: OrderStore, writer: Option<(u64, SessionId)>) {
        drop(self.desk.replace_store(empty));
        if !plant::is(Plant::ReadersKept) {
            self.desk.turn_away(Reason::PartitionAway);
        }
        self.gives_up_snapshot |= self.snapshot.take().is_some();
        let history = passing_history(self.source(), OsRng.next_u64());
        self.followers.begin_history(history, self.desk.store_mut());
        if let Some((connection, session_id)) = writer {
            self.refuse(connection, session_id, 0);
        }
    }

    /// Refuses a request for a source that has failed; `taken_len` bytes of the connection's window
    /// are free again.
    pub(super) fn refuse(&mut self, connection: u64, session_id: SessionId, taken_len: usize) {
        let is_of_log = self.failure.as_ref().is_some_and(|failure| failure.is_of_log);
        let reason = if is_of_log { Reason::SourceQuarantined } else { Reason::ResendNeeded };
        self.refuse_as(connection, session_id, taken_len, reason);
    }

    fn refuse_as(
        &mut self,
        connection: u64,
        session_id: SessionId,
        taken_len: usize,
        reason: Reason,
    ) {
        let reject = SourceReject {
            batch_no: BatchNo::NONE,
            next_batch_no: self.stream.next_batch_no(),
            head_seq: self.desk.store().complete_to().seq,
            head_rec: self.desk.store().complete_to().rec,
            session_id,
            epoch: self.stream.epoch(),
            row_no: 0,
            source_id: self.source(),
            reason,
        };
        let mut bytes = Vec::new();
        put_frame(&reject, &mut bytes);
        self.say(IngestAnswer { connection, bytes, taken_len, is_refusal: true });
    }
}
