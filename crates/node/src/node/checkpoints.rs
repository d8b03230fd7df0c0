//! The gateway's checkpoints of the trading partitions: one that fits is loaded at the start, and
//! an agent on a thread of its own writes the next ones.

use weir_gateway::Gateway;
use weir_io::ThreadDisk;
use weir_log::SnapshotStore;
use weir_partition::checkpoint::{
    Checkpoint, CheckpointAgent, CheckpointLog, CheckpointParts, EngineSession, HOLDER, Pace, load,
};
use weir_partition::recovery::RecoveredPartition;

use super::assembly::Assembly;

impl Assembly<'_> {
    /// Lets the gateway begin with the newest checkpoint of a partition that fits its log; returns
    /// the agent that writes the next ones, if their directory can be used, and notes for
    /// operators. A checkpoint only saves time: none stops a start.
    pub(super) fn begin_with_checkpoint(
        &self,
        gateway: &mut Gateway,
        port: usize,
        of: &RecoveredPartition,
    ) -> (Option<CheckpointAgent<ThreadDisk>>, Vec<String>) {
        match self.try_checkpoint(gateway, port, of) {
            Ok((agent, notes)) => (Some(agent), notes),
            Err(error) => {
                let dir = of.dirs().checkpoints();
                (None, vec![format!("gateway: no checkpoints in {}: {error:#}", dir.display())])
            }
        }
    }

    /// Returns the newest checkpoint of a partition that fits its log, for another index of its
    /// events.
    pub(super) fn checkpoint_of(
        &self,
        of: &RecoveredPartition,
    ) -> anyhow::Result<Option<Checkpoint>> {
        if of.partition_id.is_none() {
            return Ok(None);
        }
        let disk = ThreadDisk::open(&of.dirs().checkpoints(), None)?;
        let mut store = SnapshotStore::new(disk, of.log.log_id(), of.partition_id);
        let copies_retained_max = self.config.gateway.copies_retained_max as usize;
        let (events, event_count) = (|| of.reader("links"), of.event_count());
        let sessions = &sessions_of(of);
        let log = CheckpointLog { events: &events, event_count, sessions, copies_retained_max };
        // The gateway's start says which are passed over.
        Ok(load(&mut store, log, &mut Vec::new())?)
    }

    fn try_checkpoint(
        &self,
        gateway: &mut Gateway,
        port: usize,
        of: &RecoveredPartition,
    ) -> anyhow::Result<(CheckpointAgent<ThreadDisk>, Vec<String>)> {
        let dir = of.dirs().checkpoints();
        let disk = ThreadDisk::open(&dir, None)?;
        let mut store = SnapshotStore::new(disk, of.log.log_id(), of.partition_id);
        let section = &self.config.gateway;
        let copies_retained_max = section.copies_retained_max as usize;
        let events = || of.reader(HOLDER);
        let event_count = of.event_count();
        let firms: Vec<_> = of.engine.session_firms().collect();
        let sessions = &sessions_of(of);
        let log = CheckpointLog { events: &events, event_count, sessions, copies_retained_max };
        let mut notes = Vec::new();
        let checkpoint = load(&mut store, log, &mut notes)?;
        let newest = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.record());
        if let Some(checkpoint) = checkpoint {
            notes.push(format!("gateway: it begins with the checkpoint of event {newest}"));
            gateway.begin_with(port, checkpoint);
        }
        let agent = CheckpointAgent::new(CheckpointParts {
            store,
            events: events(),
            firms,
            newest,
            every: section.checkpoint_every_events,
            copies_retained_max,
            pace: Pace::OF_NODE,
            figures: of.figures.clone(),
        });
        Ok((agent, notes))
    }
}

/// Returns the sessions of a recovered engine, in order.
fn sessions_of(of: &RecoveredPartition) -> Vec<EngineSession> {
    let sessions = of.engine.sessions().zip(of.engine.session_firms());
    let session = sessions.map(|((id, state), (_, firm_id))| EngineSession {
        id,
        firm_id,
        next_event_no: state.next_event_no,
    });
    session.collect()
}
