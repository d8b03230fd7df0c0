//! The node's own market, sent to whoever listens: ITCH 5.0 over MoldUDP64 multicast, and a server
//! for what was missed; where it is configured, one for snapshots.
//!
//! A view of the trading partition's events like the others: it reads at its own pace and stops
//! nobody. What is said, and under which numbers, [`weir_market::publish`] decides.

mod agent;
mod figures;
mod hearing;
mod snapshots;
mod translate;

pub use agent::{PublishAgent, PublishParts};
pub use figures::{LeftOut, METRICS, PublishFigures, PublishMetric, PublishReport};
pub use hearing::HearingParts;
pub use snapshots::{SnapshotAgent, SnapshotFigures, SnapshotParts, SnapshotReport};
pub use translate::publish_event;
