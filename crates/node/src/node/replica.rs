//! A node that follows another node's partitions and has none of its own: a control partition, in
//! which its clients' sessions are defined, and the followed stores. It trades nothing.
//!
//! Clients log on as at any node: same gateway, same newcomers' thread, same keys.

use std::sync::Arc;

use weir_partition::dirs::partitions_in;

use super::builder::Builder;
use super::{CONTROL, Node};
use crate::config::Config;
use crate::health::Health;

/// Starts a node whose partitions are followed from another node.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    refuse_traded(config)?;
    let mut builder = Builder::open(config, health, &[CONTROL])?;
    let Builder { parts, recovered, .. } = &mut builder;
    let ingest = parts.ingest(&recovered[0])?;
    let replica = parts.replica()?;
    let views = builder.stores(ingest, replica)?;
    builder.start(views)
}

/// Refuses a directory with orders of its own: the followed partitions would hide them.
fn refuse_traded(config: &Config) -> anyhow::Result<()> {
    if let Some(traded) = partitions_in(&config.dir)?.first() {
        anyhow::bail!(
            "replica.sources has the numbers of [[partition]], and {} has partition {traded}, \
             whose orders would be hidden: choose another dir",
            config.dir.display()
        );
    }
    Ok(())
}
