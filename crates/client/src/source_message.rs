//! The messages that a delivery store sends to the writer of a source.

use weir_wire::NodeMessage;
use weir_wire::ingest::{SourceAck, SourceGap, SourceOpened, SourceReject, SourceReset};

/// A message of the store for the writer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceMessage {
    /// The source is open.
    Opened(SourceOpened),
    /// Batches are applied.
    Ack(SourceAck),
    /// A batch is missing.
    Gap(SourceGap),
    /// A source was not opened, or a batch refused.
    Reject(SourceReject),
    /// A source was reset: for the operator who asked.
    Reset(SourceReset),
}

impl SourceMessage {
    /// Returns the message, if it is for a writer.
    #[must_use]
    pub fn of(message: &NodeMessage<'_>) -> Option<SourceMessage> {
        Some(match message {
            NodeMessage::SourceOpened(opened) => SourceMessage::Opened(*opened),
            NodeMessage::SourceAck(ack) => SourceMessage::Ack(*ack),
            NodeMessage::SourceGap(gap) => SourceMessage::Gap(*gap),
            NodeMessage::SourceReject(reject) => SourceMessage::Reject(*reject),
            NodeMessage::SourceReset(reset) => SourceMessage::Reset(*reset),
            _ => return None,
        })
    }
}
