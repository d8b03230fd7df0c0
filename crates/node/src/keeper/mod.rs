//! What keeps the node's past and figures, on a thread that no order waits for: the event logs'
//! files, snapshots by shadow engines, and the drain of the probe rings.

pub mod drain;
pub mod event_files;
pub mod snapshots;
