//! The paths of a node's files: a directory for each partition, and in it one each for its command
//! log, its event log, its snapshots, and the checkpoints of gateway and market publisher.

use std::path::{Path, PathBuf};

use weir_types::PartitionId;

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

/// Returns the trading partitions of which a node's directory has files, in order; none where there
/// is no directory.
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
        let id = name.to_str().and_then(|name| name.strip_prefix("partition-")?.parse().ok());
        found.extend(id.map(PartitionId).filter(|id| name.to_str() == Some(&partition_dir(*id))));
    }
    found.sort_unstable();
    Ok(found)
}

/// The paths of a partition's files.
#[derive(Clone, Debug)]
pub struct PartitionDirs {
    root: PathBuf,
}

impl PartitionDirs {
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
