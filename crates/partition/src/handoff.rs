//! The rings between a partition and the sources of its commands: commands in one direction, stage
//! times and refusals in the other.
//!
//! Each ring has one producer and one consumer (`rtrb`). The rings to a partition are bounded: a
//! full one means back-pressure, and the gateway stops reading sockets. Events take another path:
//! views read them from the partition's event tail.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_probe::{TraceId, Tsc};
use weir_runtime::Wake;
use weir_types::{PartitionId, Position, Reason, RequestNo, SessionId};
use weir_wire::Command;

/// The capacity of the ring to a partition, in commands.
pub const SUBMISSIONS_MAX: usize = 8 * 1024;
/// The capacity of the ring to a gateway, in stamps and refusals. Exceeds the number that a
/// partition takes in one cycle; stamps that do not fit only cost a report its stage times.
pub const FEEDBACK_MAX: usize = 64 * 1024;
/// A command on its way to a partition.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// Identifies its probe points.
    pub trace: TraceId,
    /// The time at which its bytes were read from the socket.
    pub ingress: Tsc,
    /// The time at which the gateway handed it to the partition.
    pub t0: Tsc,
    /// The command.
    pub command: Command,
}

impl Submission {
    /// Returns an untraced command of the node itself.
    #[must_use]
    pub fn internal(command: Command) -> Submission {
        Submission { trace: TraceId::NONE, ingress: Tsc::ZERO, t0: Tsc::ZERO, command }
    }
}

/// The stage times of one command, returned to the gateway separately from its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageStamps {
    /// The command's position.
    pub position: Position,
    /// The session that sent it, and the request: the command may answer others too.
    pub asker: (SessionId, RequestNo),
    /// Identifies its probe points.
    pub trace: TraceId,
    /// t0 to t6.
    pub points: [Tsc; 7],
}

/// A partition's message to a gateway, apart from the events.
#[derive(Clone, Copy, Debug)]
pub enum Feedback {
    /// The stage times of a command that is about to be answered.
    Stamps(StageStamps),
    /// A command that the log did not take.
    Refused {
        /// The request's session.
        session_id: SessionId,
        /// The request's number.
        request_no: RequestNo,
        /// The request's template.
        template_id: u16,
        /// The reason for the refusal.
        reason: Reason,
    },
}

/// The gateway's end towards one partition.
#[derive(Debug)]
pub struct PartitionPort {
    /// The partition.
    pub partition_id: PartitionId,
    /// Commands to it.
    pub submissions: Producer<Submission>,
    /// Stage times and refusals from it.
    pub feedback: Consumer<Feedback>,
    /// The partition's thread.
    pub wake: Wake,
}

/// The partition's end towards one source of commands.
#[derive(Debug)]
pub struct SourcePort {
    /// Commands from it.
    pub submissions: Consumer<Submission>,
    /// Stage times and refusals to it; none for the control importer.
    pub feedback: Option<Producer<Feedback>>,
}

/// Creates the two ends between a gateway and a partition.
#[must_use]
pub fn gateway_to_partition(partition_id: PartitionId, wake: Wake) -> (PartitionPort, SourcePort) {
    gateway_to_partition_with(partition_id, wake, SUBMISSIONS_MAX)
}

/// Creates the two ends with room for so many commands; few show what a full ring does.
#[must_use]
pub fn gateway_to_partition_with(
    partition_id: PartitionId,
    wake: Wake,
    submissions_max: usize,
) -> (PartitionPort, SourcePort) {
    let (to_partition, from_gateway) = RingBuffer::new(submissions_max);
    let (to_gateway, from_partition) = RingBuffer::new(FEEDBACK_MAX);
    let port =
        PartitionPort { partition_id, submissions: to_partition, feedback: from_partition, wake };
    (port, SourcePort { submissions: from_gateway, feedback: Some(to_gateway) })
}
