//! Ingest from an outside core: it opens its source in an epoch, sends numbered batches of rows and
//! receives acknowledgements.
//!
//! A row of a batch is an [`OrderRow`](crate::delivery::OrderRow) as on a page, with its
//! attributes. `docs/protocols/ingest.md` specifies the protocol.

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
    /// The batch is the last of a full resend: orders that were not in the resend are gone.
    pub const RESEND_END: BatchFlags = BatchFlags(2);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: BatchFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets of flags.
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
    /// Opens a source: from now on this session feeds it.
    OpenSource = 70 {
        /// The last place of the changes sent in `valid_epoch` or earlier that is still valid: its
        /// `seq`; zero for none.
        valid_seq: Seq,
        /// Its `rec`.
        valid_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The epoch of the batches to come.
        epoch: Epoch,
        /// The epoch that the place belongs to, the one known to the store; zero for none.
        valid_epoch: Epoch,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// On when all live orders will be sent: orders not sent are gone.
        full_resend: Switch,
    }

    /// The source is open.
    SourceOpened = 71 {
        /// The number of the next batch expected.
        next_batch_no: BatchNo,
        /// The place of the last change that the store has applied: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// The number of batches that may be unacknowledged.
        window_batches: u32,
        /// The number of frame bytes that may be unacknowledged.
        window_bytes: u32,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// The durability level of acknowledgements.
        level: AckLevel,
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
        /// The epoch opened by [`OpenSource`].
        epoch: Epoch,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// Marks the first or the last batch of a full resend.
        flags: BatchFlags,
    }

    /// All batches up to this one are applied.
    SourceAck = 73 {
        /// The last of them; zero for none.
        batch_no: BatchNo,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// The durability level that they have reached.
        level: AckLevel,
    }

    /// A batch is missing: the core sends again from `next_batch_no` on.
    SourceGap = 74 {
        /// The number of the next batch expected.
        next_batch_no: BatchNo,
        /// The number of the batch that came instead.
        got_batch_no: BatchNo,
        /// The session.
        session_id: SessionId,
        /// The source's epoch.
        epoch: Epoch,
        /// The source that the orders belong to.
        source_id: PartitionId,
    }

    /// A source is not opened, or a batch is refused and its source closed.
    SourceReject = 75 {
        /// The number of the refused batch; zero when no batch was refused.
        batch_no: BatchNo,
        /// The number of the next batch expected.
        next_batch_no: BatchNo,
        /// The place of the last change that the store has applied: its `seq`.
        head_seq: Seq,
        /// Its `rec`.
        head_rec: Rec,
        /// The session.
        session_id: SessionId,
        /// The source's epoch as known to the store; zero for none.
        epoch: Epoch,
        /// The index of the faulty row in the batch, from 1; zero for none.
        row_no: u32,
        /// The source that the orders belong to.
        source_id: PartitionId,
        /// The reason.
        reason: Reason,
    }

    /// Forgets a source's orders, by an operator's order.
    ResetSource = 79 {
        /// The session.
        session_id: SessionId,
        /// The source.
        source_id: PartitionId,
    }

    /// The source was reset.
    SourceReset = 80 {
        /// The session.
        session_id: SessionId,
        /// The source's epoch, which the next one must be above; zero for none.
        epoch: Epoch,
        /// The source.
        source_id: PartitionId,
    }
}
