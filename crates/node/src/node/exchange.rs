//! A node that trades: the trading partition beside the control partition, with all views of its
//! events.

use std::sync::Arc;

use super::builder::{Builder, Views};
use super::{CONTROL, Node, TRADING};
use crate::config::Config;
use crate::health::Health;

/// Starts a node with a trading partition.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    let mut builder = Builder::open(config, health, &[CONTROL, TRADING])?;
    let Builder { parts, recovered, notes, .. } = &mut builder;
    let [control, trading] = &recovered[..] else {
        unreachable!("the builder recovers the partitions that it is given")
    };
    let ingest = parts.ingest(control)?;
    let subscriptions = parts.subscriptions(control, trading, notes)?;
    parts.open_market(control)?;
    let replica = parts.replica()?;
    let views = builder.stores(ingest, replica)?;
    let publisher = builder.parts.publisher(&builder.recovered[1])?;
    builder.start(Views { subscriptions, publisher, ..views })
}
