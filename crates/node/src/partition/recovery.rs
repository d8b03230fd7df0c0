//! A partition after a start: newest snapshot, then the command log's tail, applied again.
//!
//! ```text
//! snapshot at P ──► engine at P ──► commands P+1 .. end ──► engine at the end
//!                                        │ the events that this says again
//!                                        ▼
//!                    event log: has them already, or gets those that it lost
//! ```
//!
//! The command log decides. The event log is synced before a snapshot is taken, so it reaches at
//! least to the snapshot; what it has beyond the command log's end (possible at `memory` only) is
//! cut off; what it lacks is written again, the same by determinism.

use std::path::{Path, PathBuf};

use weir_engine::{Engine, EngineConfig, EventSink};
use weir_io::{Disk, DiskError, RealDisk, RealDiskConfig, SyncStrategy, WakeFd};
use weir_log::{EmbeddedLog, LogConfig, LogError, RecoveryReport, SequencedLog};
use weir_types::{PartitionId, Position};
use weir_wire::{Command, Event};

use crate::config::Config;

/// Where a partition's files are.
#[derive(Clone, Debug)]
pub struct PartitionDirs {
    root: PathBuf,
}

impl PartitionDirs {
    /// Below the node's directory.
    #[must_use]
    pub fn new(node_dir: &Path, partition_id: PartitionId) -> PartitionDirs {
        let name = match partition_id.0 {
            0 => "control".to_owned(),
            id => format!("partition-{id}"),
        };
        PartitionDirs { root: node_dir.join(name) }
    }

    /// The command log.
    #[must_use]
    pub fn commands(&self) -> PathBuf {
        self.root.join("commands")
    }

    /// The event log.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Snapshots.
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }
}
