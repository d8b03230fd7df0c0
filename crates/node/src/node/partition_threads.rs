//! The threads of the trading partitions: that of the node's order path, and those that partitions
//! have to themselves. Each has its wakes from before the recovery, since disks and rings signal
//! them, and its own shadows: a disk that stands holds up the partitions of one thread.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use weir_io::WakeFd;
use weir_partition::archive::agent::ArchiveAgent;
use weir_partition::recovery::Background;
use weir_runtime::fd_poller::FdPoller;
use weir_runtime::{Agent, Runner, Wake};
use weir_types::PartitionId;

use super::threads::shadows;
use crate::config::{Config, PartitionThread};

/// A thread of some partitions.
struct OwnThread {
    section: PartitionThread,
    wake: Wake,
    wake_fd: WakeFd,
    agents: Vec<Box<dyn Agent>>,
    shadows: Vec<Box<dyn Agent>>,
}

/// The threads of the partitions before their start.
pub(super) struct PartitionThreads {
    /// Signals the disks of the partitions that share a thread of the node.
    pub(super) shared_fd: WakeFd,
    /// The agents on that thread.
    shared: Vec<Box<dyn Agent>>,
    shadows: Vec<Box<dyn Agent>>,
    archives: Vec<ArchiveAgent>,
    own: Vec<OwnThread>,
}

/// The partitions' agents on their threads.
pub(super) struct PartitionRunners {
    /// The agents of the node's order path.
    pub(super) shared: Vec<Box<dyn Agent>>,
    /// The partitions' own threads.
    pub(super) own: Vec<Runner>,
    /// A thread of shadows for the node's order path, and one for each other.
    pub(super) shadows: Vec<Runner>,
    pub(super) archives: Vec<ArchiveAgent>,
}

impl PartitionThreads {
    pub(super) fn new(config: &Config) -> std::io::Result<PartitionThreads> {
        let own = config.partition_threads().into_iter().map(|section| {
            let (wake, wake_fd) = (Wake::new(), WakeFd::new()?);
            let (agents, shadows) = (Vec::new(), Vec::new());
            Ok(OwnThread { section, wake, wake_fd, agents, shadows })
        });
        Ok(PartitionThreads {
            shared_fd: WakeFd::new()?,
            shared: Vec::new(),
            shadows: Vec::new(),
            archives: Vec::new(),
            own: own.collect::<std::io::Result<_>>()?,
        })
    }

    fn of(&self, id: PartitionId) -> Option<&OwnThread> {
        self.own.iter().find(|thread| thread.section.partitions.contains(&id))
    }

    /// Returns the descriptor that a partition's disks signal.
    pub(super) fn wake_fd_of(&self, id: PartitionId) -> &WakeFd {
        self.of(id).map_or(&self.shared_fd, |thread| &thread.wake_fd)
    }

    /// Returns the wake of a partition's thread, which is `shared` without one of its own.
    pub(super) fn wake_of(&self, id: PartitionId, shared: &Wake) -> Wake {
        self.of(id).map_or(shared, |thread| &thread.wake).clone()
    }

    /// Returns the name of a partition's own thread, if it has one.
    pub(super) fn name_of(&self, id: PartitionId) -> Option<Arc<str>> {
        self.of(id).map(|thread| thread.section.name.clone())
    }

    /// Adds a partition's agent and those behind it.
    pub(super) fn add(&mut self, id: PartitionId, agent: impl Agent + 'static, behind: Background) {
        let shadow = Box::new(behind.shadow.scheduled());
        self.archives.extend(behind.archive);
        let own = self.own.iter_mut().find(|thread| thread.section.partitions.contains(&id));
        let (agents, shadows) = match own {
            Some(thread) => (&mut thread.agents, &mut thread.shadows),
            None => (&mut self.shared, &mut self.shadows),
        };
        agents.push(Box::new(agent));
        shadows.push(shadow);
    }

    /// Returns the agents on their threads. The importer comes behind the control partition, which
    /// is the first: definitions reach the partitions on the same thread in the cycle that accepts
    /// them.
    pub(super) fn runners(
        self,
        importer: Option<Box<dyn Agent>>,
        config: &Config,
    ) -> std::io::Result<PartitionRunners> {
        let mut shared = self.shared;
        shared.splice(1..1, importer);
        let mut all = PartitionRunners {
            shared,
            own: Vec::new(),
            shadows: vec![shadows().with_agents(self.shadows).joining_late()],
            archives: self.archives,
        };
        for OwnThread { section, wake, wake_fd, agents, shadows: behind } in self.own {
            let runner = Runner::new(section.name, wake, config.wait)
                .with_sockets(FdPoller::new(&[wake_fd.as_raw_fd()])?)
                .with_agents(agents)
                .on_core(section.core)
                .stopping_early();
            all.own.push(runner);
            all.shadows.push(shadows().with_agents(behind).joining_late());
        }
        Ok(all)
    }
}
