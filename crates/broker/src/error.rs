//! The errors of a broker, in types.
//!
//! A [`BrokerError`] means that the broker does not open or has stopped; a [`PublishRefusal`]
//! message stays with its producer; a [`SubscriptionError`] refuses one operation. An evicted or
//! expired subscription's error has the marks to go on from.

use thiserror::Error;
use weir_io::DiskError;
use weir_types::Durability;

use crate::name::{MessageNo, Name, OriginMark, OriginMarks};

/// The reason that a broker cannot be opened or has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokerError {
    /// The disk failed. Acknowledged messages are on it; open the broker again.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// Bytes that had been synced are missing or changed.
    #[error("{file} is damaged at offset {offset}: it was synced and is not sound any more")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in bytes.
        offset: u64,
    },
    /// Neither copy of the table of subscriptions is valid.
    #[error("no copy of the table of subscriptions is sound")]
    Table,
    /// A file belongs to another broker.
    #[error("{0} is of another broker")]
    Foreign(String),
    /// A file was written by a newer program.
    #[error("{file} has format version {version}, which is newer than this program")]
    Newer {
        /// The file.
        file: String,
        /// Its format version.
        version: u32,
    },
}

/// The reason that a message was not taken from a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PublishRefusal {
    /// The body is too long.
    #[error("a message of {bytes} bytes is longer than {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The source published in a later epoch before.
    #[error("the source's epoch went back: {last:?} was published before")]
    EpochBack {
        /// The newest mark of the source.
        last: OriginMark,
    },
    /// Memory is full of messages that are neither taken nor written.
    #[error("memory is full of messages that wait for the disk")]
    MemoryFull,
    /// The disk is full and the configuration says to refuse.
    #[error("the disk is full")]
    DiskFull,
    /// The broker has stopped after a failure of its disk, or was closed.
    #[error("the broker has stopped")]
    Stopped,
}

/// The reason that a subscription lost its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EvictReason {
    /// Too many bytes were not taken.
    Bytes = 1,
    /// Too many messages were not taken.
    Messages = 2,
    /// A message was not taken for too long.
    Age = 3,
    /// Memory was full.
    MemoryFull = 4,
    /// The disk was full.
    DiskFull = 5,
    /// Its messages on the disk could not be read.
    Unreadable = 6,
    /// An operator asked for it.
    Operator = 7,
}

impl EvictReason {
    /// Every reason, in the order of the codes.
    pub const ALL: [EvictReason; 7] = [
        EvictReason::Bytes,
        EvictReason::Messages,
        EvictReason::Age,
        EvictReason::MemoryFull,
        EvictReason::DiskFull,
        EvictReason::Unreadable,
        EvictReason::Operator,
    ];

    /// Returns the reason of a code; `None` for an unknown code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<EvictReason> {
        EvictReason::ALL.into_iter().find(|reason| *reason as u8 == code)
    }
}

/// The reason that an operation on a subscription was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubscriptionError {
    /// There is no subscription of this name.
    #[error("no subscription is named {0}")]
    Unknown(Name),
    /// There is one of this name already.
    #[error("{0} exists already")]
    Exists(Name),
    /// The number of subscriptions has reached its limit.
    #[error("there are {max} subscriptions already")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// A client is attached to it.
    #[error("somebody is attached to {0}")]
    Attached(Name),
    /// The handle's attachment has ended.
    #[error("nobody is attached by this handle")]
    NotAttached,
    /// It is a named token and not a queue, or the reverse.
    #[error("{0} is of the other kind: a token has no messages, a queue has no token")]
    OtherKind(Name),
    /// The token is too long.
    #[error("a token of {bytes} bytes is longer than {max}")]
    TokenTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// It was evicted: its messages not taken are lost here. The marks tell from where to go on.
    #[error("{name} was evicted: {reason:?}; it had taken all up to {taken:?}")]
    Evicted {
        /// The subscription.
        name: Name,
        /// The reason.
        reason: EvictReason,
        /// The last mark of each source that it took: the token to come back with.
        taken: OriginMarks,
    },
    /// No client had attached to it for too long.
    #[error("{name} expired; it had taken all up to {taken:?}")]
    Expired {
        /// The subscription.
        name: Name,
        /// The last mark of each source that it took.
        taken: OriginMarks,
    },
    /// The acknowledgement is of a message that was not delivered in this attachment.
    #[error("{acked:?} was not delivered: the last one was {delivered:?}")]
    AckAhead {
        /// The message acknowledged.
        acked: MessageNo,
        /// The last message delivered.
        delivered: MessageNo,
    },
    /// The broker has stopped.
    #[error("the broker has stopped")]
    Stopped,
}

/// The findings of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The run's number, from 1.
    pub run: u32,
    /// True when the run before ended by closing.
    pub was_closed: bool,
    /// The level of the run before.
    pub level_before: Durability,
    /// True when acknowledged messages may be missing, as the level of the run before allows.
    pub may_have_lost: bool,
    /// Subscriptions found.
    pub subscriptions: usize,
    /// Messages found that not every subscription had taken.
    pub messages: u64,
    /// Bytes of spill files found.
    pub bytes: u64,
    /// Torn ends of files that were skipped: file and offset.
    pub torn: Vec<(String, u64)>,
}
