//! What keeps the node's past and figures, on threads that no order waits for: the shadow engines,
//! which write the event logs' files and snapshots, and the drain of the probe rings.

pub mod drain;
pub mod shadow;
pub mod shadow_agent;
