//! A node that trades: the trading partition beside the control partition, with all views of its
//! events.

use std::sync::Arc;

use weir_partition::dirs::{RESTORE_UNFINISHED, partition_dir, partitions_in};

use super::builder::{Builder, Views};
use super::{CONTROL, Node};
use crate::config::Config;
use crate::health::Health;

/// Starts a node with a trading partition.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    refuse_other(config)?;
    refuse_forgotten(config)?;
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

/// Refuses a replica's directory where the number that it follows is not named any more: the node
/// would trade there as partition 1.
fn refuse_forgotten(config: &Config) -> anyhow::Result<()> {
    let Some(replica) = &config.replica else { return Ok(()) };
    let has_control = config.dir.join(partition_dir(CONTROL)).exists();
    let is_new = !has_control || !partitions_in(&config.dir)?.is_empty();
    if !config.partitions.is_empty() || is_new {
        return Ok(());
    }
    anyhow::bail!(
        "{} is the directory of a node without a trading partition. Without [[partition]] it would \
         trade as partition 1 and follow the sources {:?}: give [[partition]] with the id that it \
         follows, or with the id under which it is to trade",
        config.dir.display(),
        replica.sources
    )
}
