//! The link between a gateway process and a partition: its messages, and the cores of both ends.
//!
//! `docs/protocols/link.md` specifies the protocol. The cores do no I/O and read no clock: bytes,
//! records and times are arguments, frames collect in a bounded output, and the rest is told to the
//! driver by traits. So the simulator runs both ends, and a process's agent is a driver.
//!
//! * [`message`]: the messages. [`codec`]: those of each direction as one type, and their batches.
//! * [`gateway_end`]: commands there, events back. [`kept`]: commands without an answer.
//! * [`partition_end`]: bindings, checks of commands, and the events of each gateway.
//! * [`records`]: the heads of records.
//! * [`grants`]: the control partition's grants of sessions.
//!
//! INVARIANT: bytes from the other end are an error at most, never a panic; each buffer is bounded.

pub mod codec;
pub mod gateway_end;
pub mod grants;
pub mod kept;
pub mod message;
pub mod partition_end;
pub mod plant;
pub mod records;

pub use codec::{Arrived, LinkFault, ToGateway, ToPartition};
pub use gateway_end::{GatewayEnd, GatewayTerms, GatewayView};
pub use partition_end::{PartitionEnd, PartitionTerms, PartitionView};
