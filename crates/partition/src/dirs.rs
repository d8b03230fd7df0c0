//! The paths of a node's files: a directory for each partition, and in it one each for its command
//! log, its event log, its snapshots, and the checkpoints of gateway and market publisher. A
//! partition's directory is below the node's, or where its place file says ([`crate::places`]).

use std::path::{Path, PathBuf};

use weir_types::PartitionId;

use crate::places::{self, PlaceError};

/// The file that marks a directory whose restore has not finished: it is not a node yet.
pub const RESTORE_UNFINISHED: &str = "RESTORING";

/// The file in a partition's directory with the ends of its past epochs as change ids.
pub const PAST_ENDS: &str = "past-ends";

/// The directory of order store snapshots within a partition's directory.
pub const ORDER_STORE: &str = "store";

/// Returns the name of a partition's own directory.
#[must_use]
pub fn partition_dir(partition_id: PartitionId) -> String {
    match partition_id.0 {
        0 => "control".to_owned(),
        id => format!("partition-{id}"),
    }
}

/// Returns the trading partitions of which a node's directory has files, or a place file, in order;
/// none where there is no directory.
///
/// # Errors
/// When the directory cannot be read.
pub fn partitions_in(node_dir: &Path) -> std::io::Result<Vec<PartitionId>> {
    let entries = match std::fs::read_dir(node_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(trading_partition_of));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Returns the trading partition of a directory or a place file of this name.
#[must_use]
pub fn trading_partition_of(name: &str) -> Option<PartitionId> {
    let dir = name.strip_suffix(places::SUFFIX).unwrap_or(name);
    let id = PartitionId(dir.strip_prefix("partition-")?.parse().ok()?);
    (dir == partition_dir(id)).then_some(id)
}

/// The paths of a partition's files.
#[derive(Clone, Debug)]
pub struct PartitionDirs {
    root: PathBuf,
}

impl PartitionDirs {
    /// Returns the paths of a partition wherever its directory is.
    ///
    /// # Errors
    /// When its place file cannot be read, or the directory that it names is not there.
    pub fn find(node_dir: &Path, partition_id: PartitionId) -> Result<PartitionDirs, PlaceError> {
        let elsewhere = places::of(node_dir, partition_id)?;
        Ok(elsewhere.map_or_else(|| PartitionDirs::new(node_dir, partition_id), PartitionDirs::at))
    }

    /// Returns the paths below a directory elsewhere.
    #[must_use]
    pub(crate) fn at(root: PathBuf) -> PartitionDirs {
        PartitionDirs { root }
    }

    /// Returns the paths below the node's directory.
    #[must_use]
    pub fn new(node_dir: &Path, partition_id: PartitionId) -> PartitionDirs {
        PartitionDirs { root: node_dir.join(partition_dir(partition_id)) }
    }

    /// Returns the partition's own directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the command log's directory.
    #[must_use]
    pub fn commands(&self) -> PathBuf {
        self.root.join("commands")
    }

    /// Returns the event log's directory.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Returns the directory of the gateway's checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("gateway")
    }

    /// Returns the directory of the market publisher's checkpoints.
    #[must_use]
    pub fn publisher(&self) -> PathBuf {
        self.root.join("publisher")
    }

    /// Returns the directory of snapshots of the order store.
    #[must_use]
    pub fn order_store(&self) -> PathBuf {
        self.root.join(ORDER_STORE)
    }

    /// Returns the file with the ends of past epochs.
    #[must_use]
    pub fn past_ends(&self) -> PathBuf {
        self.root.join(PAST_ENDS)
    }

    /// Returns the file that names the epoch which began for a view and had no command then.
    #[must_use]
    pub fn view_epoch(&self) -> PathBuf {
        self.root.join("view-epoch")
    }

    /// Returns the snapshots' directory.
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }
}
