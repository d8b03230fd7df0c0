//! An outside core feeds its orders: it opens its source in an epoch, sends numbered batches of
//! rows and hears how far they are taken in.
//!
//! A row of a batch is an [`OrderRow`](crate::delivery::OrderRow) as on a page, with its
//! attributes. How a stream goes is told in `docs/protocols/ingest.md`.

use core::fmt;

use weir_types::{
    AckLevel, BatchNo, Epoch, Nanos, PartitionId, Reason, Rec, Seq, SessionId, Switch,
};

use crate::field::{Field, write_flags};
use crate::message::messages;

/// The most rows of a batch.
pub const BATCH_ROW_COUNT_MAX: usize = 1_024;
/// The longest frame that an outside core may send, in bytes, headers included.
pub const SOURCE_FRAME_LEN_MAX: usize = 256 * 1024;

/// Flags of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchFlags(pub u8);

impl BatchFlags {
    /// The batch is the first of a full resend.
    pub const RESEND_BEGIN: BatchFlags = BatchFlags(1);
    /// The batch is the last of a full resend: what was not in it is gone.
    pub const RESEND_END: BatchFlags = BatchFlags(2);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: BatchFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: BatchFlags) -> BatchFlags {
        BatchFlags(self.0 | other.0)
    }
}

impl Field for BatchFlags {
    type Wire = u8;
    const SCHEMA_TYPE: &'static str = "batchFlags";

    fn from_wire(wire: u8) -> Option<Self> {
        (wire & !3 == 0).then_some(BatchFlags(wire))
    }

    fn to_wire(self) -> u8 {
        self.0
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self.0, &["resendBegin", "resendEnd"], f)
    }
}

messages! {
    /// Opens a source: from now on the session feeds it.
    OpenSource = 70 {
        /// The last place that stays valid of what was said in `valid_epoch` and since: its `seq`;
        /// zero for none.
        valid_seq: Seq,
        /// Its `rec`.
        valid_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The epoch that the batches will be of.
        epoch: Epoch,
        /// The epoch that the place is told for: the one that the store knows; zero for none.
        valid_epoch: Epoch,
        /// Whose orders they are.
        source_id: PartitionId,
        /// On when all that there is will be sent: what is not is gone.
        full_resend: Switch,
    }

    /// The source is open.
    SourceOpened = 71 {
        /// The number of the batch that is taken next.
        next_batch_no: BatchNo,
        /// The last place that the store has taken in: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// Batches that may be without acknowledgement.
        window_batches: u32,
        /// Bytes of frames that may be.
        window_bytes: u32,
        /// Whose orders they are.
        source_id: PartitionId,
    }

    /// Changes of a source: a group of rows with attributes follows, at most
    /// [`BATCH_ROW_COUNT_MAX`].
    SourceBatch = 72 {
        /// The batch's number in its epoch, from 1.
        batch_no: BatchNo,
        /// The core's clock.
        sending_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The epoch that was opened.
        epoch: Epoch,
        /// Whose orders they are.
        source_id: PartitionId,
        /// Whether a full resend begins or ends here.
        flags: BatchFlags,
    }

    /// All batches up to this one are taken in.
    SourceAck = 73 {
        /// The last of them; zero for none.
        batch_no: BatchNo,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// Whose orders they are.
        source_id: PartitionId,
        /// What they survive.
        level: AckLevel,
    }

    /// A batch is missing: send again from there on.
    SourceGap = 74 {
        /// The number of the batch that is taken next.
        next_batch_no: BatchNo,
        /// The number of the batch that came instead.
        got_batch_no: BatchNo,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// Whose orders they are.
        source_id: PartitionId,
    }

    /// A source is not opened, or a batch is refused and its source closed.
    SourceReject = 75 {
        /// The number of the batch that is refused; zero when it was not a batch.
        batch_no: BatchNo,
        /// The number of the batch that would be taken next.
        next_batch_no: BatchNo,
        /// The last place that the store has taken in: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The epoch that the store knows of the source; zero when it knows none.
        epoch: Epoch,
        /// Which row of the batch is wrong, from 1; zero when none is.
        row_no: u32,
        /// Whose orders they are.
        source_id: PartitionId,
        /// Why.
        reason: Reason,
    }
}
