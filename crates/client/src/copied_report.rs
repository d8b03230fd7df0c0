//! A report in a copy, as drop copy and a client's messages have it.

use weir_types::{PartitionId, SessionId};
use weir_wire::dialogue::NodeMessage;
use weir_wire::event::{RequestDone, RequestRejected, TradeBusted};
use weir_wire::report::ExecutionReport;

/// A copied report, as its session got it; stage times are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedReport {
    /// An order changed.
    Order(ExecutionReport),
    /// A request was refused.
    Rejected(RequestRejected),
    /// A mass cancel or an operator's request was carried out.
    Done(RequestDone),
    /// A trade was busted.
    TradeBusted(TradeBusted),
}

impl CopiedReport {
    /// Returns the report in a message; `None` for messages that are never copied.
    #[must_use]
    pub fn of(message: &NodeMessage<'_>) -> Option<CopiedReport> {
        match message {
            NodeMessage::ExecutionReport(m) => Some(CopiedReport::Order(*m)),
            NodeMessage::RequestRejected(m) => Some(CopiedReport::Rejected(*m)),
            NodeMessage::RequestDone(m) => Some(CopiedReport::Done(*m)),
            NodeMessage::TradeBusted(m) => Some(CopiedReport::TradeBusted(*m)),
            _ => None,
        }
    }

    /// The session that the report is addressed to, and its partition.
    #[must_use]
    pub fn address(&self) -> (SessionId, PartitionId) {
        match self {
            CopiedReport::Order(m) => (m.event.session_id, m.event.partition_id),
            CopiedReport::Rejected(m) => (m.session_id, m.partition_id),
            CopiedReport::Done(m) => (m.session_id, m.partition_id),
            CopiedReport::TradeBusted(m) => (m.session_id, m.partition_id),
        }
    }
}
