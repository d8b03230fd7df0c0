//! The rings between a partition and the sources of its commands: commands one way, stage times and
//! refusals the other.
//!
//! Each ring has one producer and one consumer (`rtrb`). The rings towards a partition are
//! bounded: a full one means back-pressure, the gateway then stops reading sockets. Events do not
//! come this way: views read them from the partition's event tail.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_probe::{TraceId, Tsc};
use weir_runtime::Wake;
use weir_types::{PartitionId, Position, Reason, RequestNo, SessionId};
use weir_wire::Command;

/// Commands that may wait in front of a partition.
pub const SUBMISSIONS_MAX: usize = 8 * 1024;
/// Stamps and refusals that may wait in front of a gateway. Larger than what a partition takes in
/// one cycle; what does not fit costs a report its stage times, nothing else.
pub const FEEDBACK_MAX: usize = 64 * 1024;
/// A command on its way to a partition.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// Ties its probe points together.
    pub trace: TraceId,
    /// When its bytes were read from the socket.
    pub ingress: Tsc,
    /// When the gateway handed it on.
    pub t0: Tsc,
    /// The command.
    pub command: Command,
}

impl Submission {
    /// A command of the node's own: not traced.
    #[must_use]
    pub fn internal(command: Command) -> Submission {
        Submission { trace: TraceId::NONE, ingress: Tsc::ZERO, t0: Tsc::ZERO, command }
    }
}

/// The stage times of one command, on their way back beside its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageStamps {
    /// The command.
    pub position: Position,
    /// Ties its probe points together.
    pub trace: TraceId,
    /// t0 to t6.
    pub points: [Tsc; 7],
}

/// What a partition tells a gateway beside the events.
#[derive(Clone, Copy, Debug)]
pub enum Feedback {
    /// The stage times of a command that is about to be answered.
    Stamps(StageStamps),
    /// A command that the log did not take.
    Refused {
        /// Whose it was.
        session_id: SessionId,
        /// Its number.
        request_no: RequestNo,
        /// Its template.
        template_id: u16,
        /// Why.
        reason: Reason,
    },
}

/// The gateway's end towards one partition.
#[derive(Debug)]
pub struct PartitionPort {
    /// Which partition.
    pub partition_id: PartitionId,
    /// Commands to it.
    pub submissions: Producer<Submission>,
    /// Stage times and refusals from it.
    pub feedback: Consumer<Feedback>,
    /// Its thread.
    pub wake: Wake,
}

/// The partition's end towards one source of commands.
#[derive(Debug)]
pub struct SourcePort {
    /// Commands from it.
    pub submissions: Consumer<Submission>,
    /// Stage times and refusals to it; the control feed wants none.
    pub feedback: Option<Producer<Feedback>>,
}

/// The two ends between a gateway and a partition.
#[must_use]
pub fn gateway_to_partition(partition_id: PartitionId, wake: Wake) -> (PartitionPort, SourcePort) {
    let (to_partition, from_gateway) = RingBuffer::new(SUBMISSIONS_MAX);
    let (to_gateway, from_partition) = RingBuffer::new(FEEDBACK_MAX);
    let port =
        PartitionPort { partition_id, submissions: to_partition, feedback: from_partition, wake };
    (port, SourcePort { submissions: from_gateway, feedback: Some(to_gateway) })
}
