//! A node that trades: the trading partitions beside the control partition, with all views of their
//! events.

use std::sync::Arc;

use weir_partition::dirs::{RESTORE_UNFINISHED, partition_dir, partitions_in};
use weir_partition::places;
use weir_types::PartitionId;

use super::builder::{Builder, Views};
use super::{CONTROL, Node, known_partitions};
use crate::config::Config;
use crate::health::Health;

/// Starts a node with trading partitions.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    let (builder, views) = build(config, health)?;
    builder.start(views)
}

/// Recovers the partitions and puts the views together.
fn build(config: &Config, health: Arc<Health>) -> anyhow::Result<(Builder<'_>, Views)> {
    refuse_other(config)?;
    refuse_forgotten(config)?;
    let own = config.own_ids();
    known_partitions::refuse_missing(config, &own)?;
    let partitions: Vec<_> = std::iter::once(CONTROL).chain(own.iter().copied()).collect();
    let mut builder = Builder::open(config, health, &partitions)?;
    known_partitions::note(&config.dir, &own)?;
    let Builder { parts, recovered, notes, .. } = &mut builder;
    let [control, trading @ ..] = &recovered[..] else {
        unreachable!("the builder recovers the partitions that it is given")
    };
    let ingest = parts.ingest(control)?;
    let subscriptions = parts.subscriptions(control, trading, notes)?;
    parts.open_market(control)?;
    let replica = parts.replica()?;
    notes.extend(config.replica.as_ref().map(|replica| {
        let (own, sources) = (numbers(&config.own_ids()), &replica.sources);
        format!("{own} trades here, and the sources {sources:?} are followed")
    }));
    let views = builder.stores(ingest, replica)?;
    let Builder { parts, recovered, notes, .. } = &mut builder;
    let publishers = parts.publishers(&mut recovered[1..], notes)?;
    Ok((builder, Views { subscriptions, publishers, ..views }))
}

/// Returns the numbers of partitions in words.
fn numbers(ids: &[PartitionId]) -> String {
    let all: Vec<_> = ids.iter().map(PartitionId::to_string).collect();
    let noun = if ids.len() == 1 { "partition" } else { "partitions" };
    format!("{noun} {}", all.join(", "))
}

/// Refuses a directory with a partition that the configuration lacks: an exchange keeps its
/// numbers, and its orders would be hidden. A partition may be added.
fn refuse_other(config: &Config) -> anyhow::Result<()> {
    let own = config.own_ids();
    if config.dir.join(RESTORE_UNFINISHED).exists() {
        // The recovery says so.
        return Ok(());
    }
    if let Some(other) = partitions_in(&config.dir)?.into_iter().find(|id| !own.contains(id)) {
        let (dir, own) = (config.dir.display(), numbers(&own));
        let place = places::file_of(&config.dir, other);
        let found = if place.exists() { place } else { config.dir.join(partition_dir(other)) };
        anyhow::bail!(
            "{dir} has partition {other}, which no [[partition]] names: an exchange keeps its \
             numbers, and this one would have {own}. To go on without its orders, move {} out of \
             the directory",
            found.display()
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{SocketAddr, TcpListener};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use weir_engine::EngineLimits;
    use weir_io::{ThreadDisk, WakeFd};
    use weir_log::{Append, Push, SegmentKind, SequencedLog as _};
    use weir_partition::dirs::PartitionDirs;
    use weir_partition::recovery::find_in_directory;
    use weir_types::{Nanos, Position};
    use weir_wire::Command;

    use super::*;
    use crate::config::EngineSection;

    /// Returns a node that publishes its market and serves snapshots of it at an address.
    fn config_of_publisher(dir: &Path, snapshots: SocketAddr) -> Config {
        let text = format!(
            "durability = 'memory'\nlisten = '127.0.0.1:0'\n\
             [ingest]\nlisten = '127.0.0.1:0'\n[[ingest.source]]\nid = 2\nsession = 3\n\
             durability = 'os'\n\
             [market_publisher]\ngroup = '239.0.0.1:1'\nrequests = '127.0.0.1:0'\n\
             snapshots = '{snapshots}'\n"
        );
        Config { dir: dir.to_owned(), ..Config::parse(&text).unwrap() }
    }

    fn config(dir: &Path) -> Config {
        let text = "durability = 'memory'\nlisten = '127.0.0.1:0'\n[web]\nlisten = '127.0.0.1:0'\n";
        Config { dir: dir.to_owned(), ..Config::parse(text).unwrap() }
    }

    /// Checks that nobody has a partition's log, and that it ends with a closing mark.
    fn assert_closed(node_dir: &Path, partition_id: PartitionId) {
        let commands = PartitionDirs::new(node_dir, partition_id).commands();
        let mut disk = ThreadDisk::open(&commands, None).unwrap();
        let found = weir_log::inspect(&mut disk, SegmentKind::Command).unwrap();
        assert!(found.is_some_and(|found| found.clean), "partition {partition_id}");
    }

    /// A start that was refused when the logs of outside cores' batches were open left them without
    /// closing marks: at `os` the next start after a restart of the machine ended an epoch.
    #[test]
    fn a_start_that_is_refused_when_the_logs_of_batches_are_open_closes_them() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = config_of_publisher(dir.path(), taken.local_addr().unwrap());
        let refused = build(&config, Arc::default()).map(drop).unwrap_err();
        assert!(format!("{refused:#}").contains("cannot serve snapshots"), "{refused:#}");
        let mut batches = ThreadDisk::open(&dir.path().join("source-2/batches"), None).unwrap();
        let found = weir_log::inspect(&mut batches, SegmentKind::Command).unwrap();
        assert!(found.is_some_and(|found| found.clean));
    }

    /// A start whose last step failed left the threads of the node running, which held its logs,
    /// and the process ended them without closing marks: at `memory` each such start ended an
    /// epoch.
    #[test]
    fn a_start_that_fails_when_its_threads_run_stops_them_and_closes_the_logs() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let mut node = Node::start(&config, Arc::default()).unwrap();
        node.stop();
        drop(node);
        for id in [CONTROL, PartitionId(1)] {
            assert_closed(dir.path(), id);
        }
        for _ in 0..3 {
            let (mut builder, views) = build(&config, Arc::default()).unwrap();
            // HTTP cannot listen on a file.
            let file = OwnedFd::from(File::open("/dev/null").unwrap());
            builder.web_listener = Some(TcpListener::from(file));
            assert!(builder.start(views).is_err());
            for id in [CONTROL, PartitionId(1)] {
                assert_closed(dir.path(), id);
            }
        }
        let mut node = Node::start(&config, Arc::default()).unwrap();
        let epochs = node.status.partitions.iter().map(|one| one.epoch.0);
        assert_eq!(epochs.collect::<Vec<_>>(), [1, 1]);
        node.stop();
    }

    /// Returns a node with other limits than an engine begins with.
    fn config_of_limits(dir: &Path) -> Config {
        let text = "durability = 'memory'\nlisten = '127.0.0.1:0'\n\
                    [engine.limits]\nsessions = 65_536\norders = 1_000\n";
        Config { dir: dir.to_owned(), ..Config::parse(text).unwrap() }
    }

    /// Returns the position of a partition of a started node, whose engine has a limit of sessions,
    /// and the limit of its live orders.
    fn position_with(node: &Node, partition_id: PartitionId, sessions_max: u64) -> (u64, u64) {
        let mut partitions = node.status.partitions.iter();
        let figures = &partitions.find(|one| one.id == partition_id).unwrap().figures;
        let counts = figures.counters.report();
        assert_eq!(counts.sessions_max, sessions_max, "the node is announced with its limits");
        (counts.position, counts.live_orders_max)
    }

    #[test]
    fn changed_limits_are_set_in_all_partitions_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::start(&config(dir.path()), Arc::default()).unwrap();
        assert_eq!(position_with(&node, CONTROL, 1 << 14), (1, 1 << 20), "its operator");
        node.stop();
        let is_change = |note: &&String| note.contains("limits of its engine change");
        // With a second trading partition, and then without the section.
        let limits = config_of_limits(dir.path());
        let more = "[[partition]]\nid = 1\n[[partition]]\nid = 2\n";
        let three = Config { partitions: Config::parse(more).unwrap().partitions, ..limits };
        let without = Config { engine: EngineSection::default(), ..three.clone() };
        for (config, changes) in [(&three, 3), (&three, 0), (&without, 0)] {
            let mut node = Node::start(config, Arc::default()).unwrap();
            assert_eq!(position_with(&node, CONTROL, 65_536), (2, 1 << 20));
            for id in [1, 2] {
                assert_eq!(position_with(&node, PartitionId(id), 65_536).1, 1_000);
            }
            assert_eq!(node.start_notes().iter().filter(is_change).count(), changes);
            node.stop();
        }
        // A new partition takes in the same definitions, and has its own orders.
        let more = format!("{more}[[partition]]\nid = 3\n");
        let four = Config { partitions: Config::parse(&more).unwrap().partitions, ..without };
        let mut node = Node::start(&four, Arc::default()).unwrap();
        assert_eq!(position_with(&node, CONTROL, 65_536), (2, 1 << 20));
        assert_eq!(position_with(&node, PartitionId(1), 65_536).1, 1_000);
        assert_eq!(position_with(&node, PartitionId(3), 65_536).1, 1 << 20);
        node.stop();
    }

    /// The first start took the operator for made once the control log had a command.
    #[test]
    fn an_operator_is_made_behind_the_limits_that_a_killed_first_start_left() {
        let dir = tempfile::tempdir().unwrap();
        let config = config_of_limits(dir.path());
        std::fs::create_dir_all(PartitionDirs::new(dir.path(), CONTROL).root()).unwrap();
        let found = find_in_directory(&config.recovery(), CONTROL, &WakeFd::new().unwrap());
        let mut control = found.unwrap().recover().unwrap();
        let (mut batch, mut entry) = (control.log.new_batch(), Vec::new());
        let limits = EngineLimits { sessions_max: 65_536, ..EngineLimits::DEFAULT };
        Command::SetLimits(limits.to_command()).encode(&mut entry);
        assert_eq!(batch.push(&entry), Push::Taken);
        let appended = control.log.append(control.epoch, Nanos(1), &batch);
        assert_eq!(appended, Append::At { first: Position(1) });
        control.log.flush_blocking().unwrap();
        drop(control);
        let mut node = Node::start(&config, Arc::default()).unwrap();
        assert!(dir.path().join("operator.key").exists());
        assert_eq!(position_with(&node, CONTROL, 65_536), (2, 1 << 20));
        node.stop();
    }
}
