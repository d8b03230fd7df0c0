//! A node that trades: the trading partition beside the control partition, with all views of its
//! events.

use std::sync::Arc;

use weir_partition::dirs::{RESTORE_UNFINISHED, partitions_in};

use super::builder::{Builder, Views};
use super::{CONTROL, Node};
use crate::config::Config;
use crate::health::Health;

/// Starts a node with a trading partition.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    refuse_other(config)?;
    let mut builder = Builder::open(config, health, &[CONTROL, config.partition_id()])?;
    let Builder { parts, recovered, notes, .. } = &mut builder;
    let [control, trading] = &recovered[..] else {
        unreachable!("the builder recovers the partitions that it is given")
    };
    let ingest = parts.ingest(control)?;
    let subscriptions = parts.subscriptions(control, trading, notes)?;
    parts.open_market(control)?;
    let replica = parts.replica()?;
    notes.extend(config.replica.as_ref().map(|replica| {
        let (own, sources) = (config.partition_id(), &replica.sources);
        format!("partition {own} trades here, and the sources {sources:?} are followed")
    }));
    let views = builder.stores(ingest, replica)?;
    let publisher = builder.parts.publisher(&builder.recovered[1])?;
    builder.start(Views { subscriptions, publisher, ..views })
}

/// Refuses a directory whose partition has another number: an exchange keeps its number, and a
/// second, empty partition would hide the orders of the first.
fn refuse_other(config: &Config) -> anyhow::Result<()> {
    let id = config.partition_id();
    if config.dir.join(RESTORE_UNFINISHED).exists() {
        // The recovery says so.
        return Ok(());
    }
    if let Some(other) = partitions_in(&config.dir)?.into_iter().find(|other| *other != id) {
        let dir = config.dir.display();
        anyhow::bail!(
            "{dir} has partition {other}, and partition.id is {id}: an exchange keeps its number. \
             Remove partition-{other} only if it never had an order"
        );
    }
    Ok(())
}
