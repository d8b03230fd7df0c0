//! A core's unacknowledged batches and their sending: a state machine without I/O or clock.
//!
//! INVARIANT: `batches` are numbered densely from `first`; those below `next_to_send` are in
//! flight.

use std::collections::VecDeque;

use weir_types::{
    AckLevel, BatchNo, Epoch, Nanos, PartitionId, Reason, Rec, Seq, SessionId, Switch,
};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::{FRAME_HEADER_LEN, put_frame};
use weir_wire::ingest::{
    BATCH_ROW_COUNT_MAX, BatchFlags, OpenSource, SOURCE_FRAME_LEN_MAX, SourceBatch, SourceReject,
};
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

use crate::error::OtherHistory;
use crate::source_message::SourceMessage;

/// The parameters of a source's batch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// The session that feeds it.
    pub session_id: SessionId,
    /// The source of the orders.
    pub source_id: PartitionId,
    /// The epoch: above every earlier epoch of the source.
    pub epoch: Epoch,
    /// True: the epoch begins with a full resend; without it the store must hold everything up to
    /// `valid_to` already.
    pub full_resend: bool,
    /// The last place of the changes sent in the named epoch or earlier that is still valid; `None`
    /// when none is.
    pub valid_to: Option<(Epoch, Seq, Rec)>,
    /// The most bytes of unacknowledged batches.
    pub unacknowledged_max: usize,
}

impl SourceConfig {
    /// A source that begins `epoch` with a full resend, with at most 16 MiB of batches.
    #[must_use]
    pub fn full(session_id: SessionId, source_id: PartitionId, epoch: Epoch) -> SourceConfig {
        SourceConfig {
            session_id,
            source_id,
            epoch,
            full_resend: true,
            valid_to: None,
            unacknowledged_max: 16 << 20,
        }
    }
}

/// The reason why a batch is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Too many bytes are unacknowledged: poll, and push the batch again.
    #[error("{bytes} bytes wait for the store, of {max}")]
    Full {
        /// Unacknowledged bytes.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The batch has too many rows.
    #[error("{0} rows are more than a batch may have")]
    TooManyRows(usize),
    /// The frame of these rows would be too long.
    #[error("a batch of {0} bytes is longer than a frame may be")]
    TooLong(usize),
    /// A row's attributes are too long.
    #[error("row {row_no}: {len} bytes of attributes are more than 600")]
    AttributesTooLong {
        /// The row's number, from 1.
        row_no: usize,
        /// The length of its attributes.
        len: usize,
    },
}

/// The result of a message of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SourceEvent {
    /// The source is open. If a full resend follows, its rows must be above the head.
    Opened {
        /// The place of the last change that the store has applied.
        head: (Seq, Rec),
        /// The number of the next batch expected.
        next: BatchNo,
        /// The durability level of acknowledgements.
        level: AckLevel,
    },
    /// All batches up to this one are applied.
    Acknowledged(BatchNo),
    /// The store requested batches again.
    SentAgain {
        /// The first of them.
        from: BatchNo,
    },
    /// The store refused the source or a batch: the core decides what to do.
    Refused(SourceReject),
    /// The message is for another source, or answers something from before the source was closed.
    NotOurs,
}

/// The batches of one epoch of a source.
#[derive(Debug)]
pub struct BatchStream {
    config: SourceConfig,
    /// The frames of unacknowledged batches.
    batches: VecDeque<Vec<u8>>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next one to send.
    next_to_send: u64,
    bytes: usize,
    window: (u32, u32),
    is_open: bool,
    was_open: bool,
}

impl BatchStream {
    /// Creates a stream that has sent nothing in its epoch.
    #[must_use]
    pub fn new(config: SourceConfig) -> BatchStream {
        BatchStream {
            config,
            batches: VecDeque::new(),
            first: 1,
            next_to_send: 1,
            bytes: 0,
            window: (0, 0),
            is_open: false,
            was_open: false,
        }
    }

    /// The stream's parameters.
    #[must_use]
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// True while the source is open on this connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The number of unacknowledged batches.
    #[must_use]
    pub fn unacknowledged_count(&self) -> usize {
        self.batches.len()
    }

    /// Closes the source after a lost connection; unacknowledged batches stay.
    pub fn connection_lost(&mut self) {
        self.is_open = false;
    }

    /// Sends the request to open the source.
    pub fn put_open(&self, out: &mut Vec<u8>) {
        let (valid_epoch, valid_seq, valid_rec) =
            self.config.valid_to.unwrap_or((Epoch::NONE, Seq(0), Rec(0)));
        // A full resend is requested until the source was opened once, then never again.
        let is_full = self.config.full_resend && !self.was_open;
        let open = OpenSource {
            valid_seq,
            valid_rec,
            session_id: self.config.session_id,
            epoch: self.config.epoch,
            valid_epoch,
            source_id: self.config.source_id,
            full_resend: if is_full { Switch::On } else { Switch::Off },
        };
        put_frame(&open, out);
    }

    /// Queues a batch of rows in the order of (`seq`, `rec`); returns its number.
    ///
    /// # Errors
    /// [`PushError`]; the batch is not queued then.
    pub fn push(
        &mut self,
        rows: &[(OrderRow, &[u8])],
        flags: BatchFlags,
        sending_time: Nanos,
    ) -> Result<BatchNo, PushError> {
        let len = check_rows(rows)?;
        if self.bytes + len > self.config.unacknowledged_max {
            let (bytes, max) = (self.bytes, self.config.unacknowledged_max);
            return Err(PushError::Full { bytes, max });
        }
        let batch_no = BatchNo(self.first + self.batches.len() as u64);
        let head = SourceBatch {
            batch_no,
            sending_time,
            session_id: self.config.session_id,
            epoch: self.config.epoch,
            source_id: self.config.source_id,
            flags,
        };
        let mut frame = Vec::with_capacity(len);
        put_source_batch(&head, rows.iter().copied(), &mut frame);
        self.bytes += frame.len();
        self.batches.push_back(frame);
        Ok(batch_no)
    }

    /// Appends the batches that may be sent now: within the window, and until `out` holds `out_max`
    /// bytes.
    pub fn pump(&mut self, out: &mut Vec<u8>, out_max: usize) {
        if !self.is_open {
            return;
        }
        let (batches_max, bytes_max) = self.window;
        let mut index = usize::try_from(self.next_to_send - self.first).unwrap_or(usize::MAX);
        let mut under_way: usize = self.batches.iter().take(index).map(Vec::len).sum();
        while let Some(frame) = self.batches.get(index) {
            let fits = under_way == 0 || under_way + frame.len() <= bytes_max as usize;
            if index >= batches_max as usize || !fits || out.len() >= out_max {
                return;
            }
            out.extend_from_slice(frame);
            under_way += frame.len();
            index += 1;
            self.next_to_send += 1;
        }
    }

    /// Handles a message of the store.
    ///
    /// # Errors
    /// [`OtherHistory`]: the store is not the one that was fed.
    pub fn on_message(&mut self, message: &SourceMessage) -> Result<SourceEvent, OtherHistory> {
        let SourceConfig { source_id, epoch, .. } = self.config;
        match message {
            SourceMessage::Opened(opened)
                if (opened.source_id, opened.epoch) == (source_id, epoch) =>
            {
                self.go_to(opened.next_batch_no)?;
                self.window = (opened.window_batches, opened.window_bytes);
                (self.is_open, self.was_open) = (true, true);
                let head = (opened.head_seq, opened.head_rec);
                let (next, level) = (opened.next_batch_no, opened.level);
                Ok(SourceEvent::Opened { head, next, level })
            }
            SourceMessage::Ack(ack) if (ack.source_id, ack.epoch) == (source_id, epoch) => {
                // An overtaken acknowledgement carries nothing new.
                let next = BatchNo(ack.batch_no.0.saturating_add(1));
                if next.0 > self.first {
                    self.acknowledge(next)?;
                }
                Ok(SourceEvent::Acknowledged(ack.batch_no))
            }
            SourceMessage::Gap(gap) if (gap.source_id, gap.epoch) == (source_id, epoch) => {
                self.go_to(gap.next_batch_no)?;
                Ok(SourceEvent::SentAgain { from: gap.next_batch_no })
            }
            // It answers a batch that was sent before the source was closed, perhaps of an earlier
            // epoch: the refusal that closed it came before.
            SourceMessage::Reject(SourceReject { reason: Reason::SourceNotOpen, .. })
                if !self.is_open =>
            {
                Ok(SourceEvent::NotOurs)
            }
            SourceMessage::Reject(reject) if reject.source_id == source_id => {
                self.is_open = false;
                Ok(SourceEvent::Refused(*reject))
            }
            _ => Ok(SourceEvent::NotOurs),
        }
    }

    /// Continues at batch `next`, the one expected by the store: those before are acknowledged.
    fn go_to(&mut self, next: BatchNo) -> Result<(), OtherHistory> {
        if next.0 < self.first {
            return Err(self.other_history(next));
        }
        self.acknowledge(next)?;
        self.next_to_send = next.0;
        Ok(())
    }

    fn acknowledge(&mut self, next: BatchNo) -> Result<(), OtherHistory> {
        if next.0 > self.first + self.batches.len() as u64 {
            return Err(self.other_history(next));
        }
        while self.first < next.0 {
            let frame = self.batches.pop_front().expect("counted above");
            self.bytes -= frame.len();
            self.first += 1;
        }
        self.next_to_send = self.next_to_send.max(self.first);
        Ok(())
    }

    fn other_history(&self, wanted: BatchNo) -> OtherHistory {
        OtherHistory {
            wanted,
            epoch: self.config.epoch,
            first: BatchNo(self.first),
            last: BatchNo(self.first + self.batches.len() as u64 - 1),
        }
    }
}

/// Returns the length of the frame of these rows.
fn check_rows(rows: &[(OrderRow, &[u8])]) -> Result<usize, PushError> {
    if rows.len() > BATCH_ROW_COUNT_MAX {
        return Err(PushError::TooManyRows(rows.len()));
    }
    let too_long = rows.iter().position(|(_, attributes)| attributes.len() > ATTRIBUTES_LEN_MAX);
    if let Some(index) = too_long {
        let (row_no, len) = (index + 1, rows[index].1.len());
        return Err(PushError::AttributesTooLong { row_no, len });
    }
    let row_len = |attributes: &[u8]| OrderRow::BLOCK_LENGTH + 2 + attributes.len();
    let rows_len: usize = rows.iter().map(|(_, attributes)| row_len(attributes)).sum();
    let len = FRAME_HEADER_LEN + SourceBatch::BLOCK_LENGTH + 4 + rows_len;
    if len > SOURCE_FRAME_LEN_MAX { Err(PushError::TooLong(len)) } else { Ok(len) }
}

#[cfg(test)]
mod tests {
    use weir_wire::ingest::SourceOpened;

    use super::*;

    const SOURCE: PartitionId = PartitionId(40);

    fn reject(batch_no: BatchNo, epoch: Epoch, reason: Reason) -> SourceMessage {
        SourceMessage::Reject(SourceReject {
            batch_no,
            next_batch_no: BatchNo(1),
            head_seq: Seq(0),
            head_rec: Rec(0),
            session_id: SessionId(30),
            epoch,
            row_no: 0,
            source_id: SOURCE,
            reason,
        })
    }

    fn opened(epoch: Epoch) -> SourceMessage {
        SourceMessage::Opened(SourceOpened {
            next_batch_no: BatchNo(1),
            head_seq: Seq(0),
            head_rec: Rec(0),
            session_id: SessionId(30),
            epoch,
            window_batches: 256,
            window_bytes: 4 << 20,
            source_id: SOURCE,
            level: AckLevel::Memory,
        })
    }

    /// A reset ended `weir emulate core` while batches were unacknowledged.
    #[test]
    fn answers_to_batches_from_before_a_reset_are_no_refusals_of_the_next_epoch() {
        let config = SourceConfig::full(SessionId(30), SOURCE, Epoch(3));
        let mut batches = BatchStream::new(config);
        assert!(matches!(batches.on_message(&opened(Epoch(3))), Ok(SourceEvent::Opened { .. })));
        for _ in 0..3 {
            assert!(batches.push(&[], BatchFlags::default(), Nanos(1)).is_ok());
        }
        batches.pump(&mut Vec::new(), usize::MAX);
        let reset = reject(BatchNo::NONE, Epoch(3), Reason::ResendNeeded);
        assert!(matches!(batches.on_message(&reset), Ok(SourceEvent::Refused(_))));
        let closed = |number| reject(BatchNo(number), Epoch(3), Reason::SourceNotOpen);
        assert_eq!(batches.on_message(&closed(1)), Ok(SourceEvent::NotOurs));
        // The core begins the next epoch before it has the other answers.
        let mut batches = BatchStream::new(SourceConfig { epoch: Epoch(4), ..config });
        for number in 2..=3 {
            assert_eq!(batches.on_message(&closed(number)), Ok(SourceEvent::NotOurs));
        }
        assert!(matches!(batches.on_message(&opened(Epoch(4))), Ok(SourceEvent::Opened { .. })));
        let told = batches.on_message(&closed(1));
        assert!(matches!(told, Ok(SourceEvent::Refused(_))), "it is open: {told:?}");
        assert!(!batches.is_open());
    }
}
