//! Publishes the node's own market data, each partition's in a channel of its own: ITCH 5.0 over
//! MoldUDP64 multicast, with a server for retransmission requests and, if configured, one for
//! snapshots.
//!
//! A view of a trading partition's events: it reads at its own pace and never blocks the partition.
//! [`weir_market::publish`] decides the messages and their sequence numbers.

mod agent;
pub mod checkpoint;
mod checkpoint_agent;
mod event_publisher;
mod figures;
mod numbers;
mod snapshots;
mod translate;

pub use agent::{PublishAgent, PublishParts};
pub use checkpoint::{PublishCheckpoint, PublishedLog};
pub use checkpoint_agent::{PublishCheckpointParts, PublishCheckpoints};
pub use event_publisher::EventPublisherParts;
pub use figures::{OmittedInstrument, PublishFigures, PublishReport};
pub use snapshots::{
    SnapshotAgent, SnapshotFigures, SnapshotLimits, SnapshotParts, SnapshotReport,
};
pub use translate::{StandingMarket, publish_event, published_time};
