//! What a core has cut into batches and the store has not acknowledged, and what of it is to be
//! sent: a state machine without I/O or clock.
//!
//! INVARIANT: `batches` are numbered densely from `first`; those below `sent` are under way.

use std::collections::VecDeque;

use weir_types::{BatchNo, Epoch, Nanos, PartitionId, Rec, Seq, SessionId, Switch};
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::{FRAME_HEADER_LEN, put_frame};
use weir_wire::ingest::{
    BATCH_ROW_COUNT_MAX, BatchFlags, OpenSource, SOURCE_FRAME_LEN_MAX, SourceAck, SourceBatch,
    SourceGap, SourceOpened, SourceReject,
};
use weir_wire::rows::ATTRIBUTES_LEN_MAX;
use weir_wire::{Message, NodeMessage};

/// Which source is fed, in which epoch, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// The session that feeds it.
    pub session_id: SessionId,
    /// Whose orders they are.
    pub source_id: PartitionId,
    /// The epoch: above every one that the source was in before.
    pub epoch: Epoch,
    /// Whether the epoch begins with all that there is; without it the store has to hold all up to
    /// `valid_to` already.
    pub full_resend: bool,
    /// The last place that stays valid of what was said in the named epoch and since; `None` when
    /// nothing does.
    pub valid_to: Option<(Epoch, Seq, Rec)>,
    /// The most bytes of batches that may wait for their acknowledgement.
    pub unacknowledged_max: usize,
}

impl SourceConfig {
    /// A source that begins `epoch` by sending all that there is, with 16 MiB of batches at most.
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

/// Why a batch is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// As much waits for its acknowledgement as may: poll, and push it again.
    #[error("{bytes} bytes wait for the store, of {max}")]
    Full {
        /// Bytes that wait.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// More rows than a batch may have.
    #[error("{0} rows are more than a batch may have")]
    TooManyRows(usize),
    /// A frame with these rows would be too long.
    #[error("a batch of {0} bytes is longer than a frame may be")]
    TooLong(usize),
    /// A row's attributes are too long.
    #[error("row {row_no}: {len} bytes of attributes are more than 600")]
    AttributesTooLong {
        /// Which row, from 1.
        row_no: usize,
        /// How long they are.
        len: usize,
    },
}

/// What a message of the store came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SourceEvent {
    /// The source is open. With a full resend the rows come next, all above the head.
    Opened {
        /// What the store has taken in.
        head: (Seq, Rec),
        /// The number of the batch that is taken next.
        next: BatchNo,
    },
    /// All batches up to this one are taken in.
    Acknowledged(BatchNo),
    /// The store asked for batches again.
    SentAgain {
        /// The first of them.
        from: BatchNo,
    },
    /// The store opens no source or refuses a batch: what to do is the core's to decide.
    Refused(SourceReject),
    /// The message was another source's, or of an epoch that is over.
    NotOurs,
}

/// The store says what cannot be: it has batches that were never sent, or lacks acknowledged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store wants batch {wanted} of epoch {epoch}, and there are {first} to {last}")]
pub struct OtherHistory {
    /// The batch that the store wants.
    pub wanted: BatchNo,
    /// Of which epoch.
    pub epoch: Epoch,
    /// The oldest batch that is kept.
    pub first: BatchNo,
    /// The newest.
    pub last: BatchNo,
}

/// A message of the store for the writer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceMessage {
    /// The source is open.
    Opened(SourceOpened),
    /// Batches are taken in.
    Ack(SourceAck),
    /// A batch is missing.
    Gap(SourceGap),
    /// A source is not opened, or a batch refused.
    Reject(SourceReject),
}

impl SourceMessage {
    /// The message, when it is one for a writer.
    #[must_use]
    pub fn of(message: &NodeMessage<'_>) -> Option<SourceMessage> {
        Some(match message {
            NodeMessage::SourceOpened(opened) => SourceMessage::Opened(*opened),
            NodeMessage::SourceAck(ack) => SourceMessage::Ack(*ack),
            NodeMessage::SourceGap(gap) => SourceMessage::Gap(*gap),
            NodeMessage::SourceReject(reject) => SourceMessage::Reject(*reject),
            _ => return None,
        })
    }
}

/// The batches of one epoch of a source.
#[derive(Debug)]
pub struct SourceFeed {
    config: SourceConfig,
    /// Frames without acknowledgement.
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

impl SourceFeed {
    /// A source that has sent nothing in its epoch.
    #[must_use]
    pub fn new(config: SourceConfig) -> SourceFeed {
        SourceFeed {
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

    /// Which source, and in which epoch.
    #[must_use]
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// Whether the store has said that the source is open on this connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Batches without acknowledgement.
    #[must_use]
    pub fn unacknowledged_count(&self) -> usize {
        self.batches.len()
    }

    /// The connection is gone: what is without acknowledgement stays.
    pub fn connection_lost(&mut self) {
        self.is_open = false;
    }

    /// Asks for the source to be opened.
    pub fn put_open(&self, out: &mut Vec<u8>) {
        let (valid_epoch, valid_seq, valid_rec) =
            self.config.valid_to.unwrap_or((Epoch::NONE, Seq(0), Rec(0)));
        // A full resend is asked for until the source was opened once, and never again.
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

    /// Takes a batch of rows in the order of (`seq`, `rec`); its number.
    ///
    /// # Errors
    /// [`PushError`]; nothing is kept then.
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

    /// Appends what may be sent now: within the window, and until `out` holds `out_max` bytes.
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

    /// Takes what the store says.
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
                Ok(SourceEvent::Opened { head, next: opened.next_batch_no })
            }
            SourceMessage::Ack(ack) if (ack.source_id, ack.epoch) == (source_id, epoch) => {
                // An acknowledgement that was overtaken says nothing new.
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
            SourceMessage::Reject(reject) if reject.source_id == source_id => {
                self.is_open = false;
                Ok(SourceEvent::Refused(*reject))
            }
            _ => Ok(SourceEvent::NotOurs),
        }
    }

    /// The store takes batch `next` next: those before are acknowledged, and it goes on there.
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

/// The length of the frame of these rows.
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
