//! The gateway's checkpoints between two crashes: one that fits the log is its beginning, and an
//! agent writes the next ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_gateway::Gateway;
use weir_io::SimDisk;
use weir_log::SnapshotStore;
use weir_partition::PartitionFigures;
use weir_partition::checkpoint::{
    CheckpointAgent, CheckpointLog, CheckpointParts, EngineSession, load,
};
use weir_runtime::Agent as _;
use weir_types::Nanos;

use super::node::{Start, StartContext};
use crate::process::{LOG_ID, Process};
use crate::workload::HERE;

/// The partition's port at the gateway.
const PORT: usize = 1;
/// The numbers of events between two checkpoints, of which a start draws one.
const EVERY: [u64; 3] = [5, 40, 300];

/// The checkpoints of one life.
pub struct Checkpoints {
    /// `None` if the disk failed at the start.
    agent: Option<CheckpointAgent<SimDisk>>,
    figures: Arc<PartitionFigures>,
    began_with: u64,
    newest: u64,
    written: u64,
}

impl Checkpoints {
    /// Lets the gateway begin with the newest checkpoint that fits the log, as a node does.
    #[must_use]
    pub fn begin(
        gateway: &mut Gateway,
        process: &Process,
        start: &Start<'_>,
        around: &StartContext<'_>,
    ) -> Checkpoints {
        let agent = begin(gateway, process, start, around);
        let figures = process.figures();
        let newest = figures.counters.checkpoint_event.load(Ordering::Relaxed);
        Checkpoints { agent, figures, began_with: newest, newest, written: 0 }
    }

    /// Runs a cycle of the thread that writes them.
    pub fn work(&mut self, now: Nanos) {
        let Some(agent) = &mut self.agent else { return };
        agent.do_work(now);
        let newest = self.figures.counters.checkpoint_event.load(Ordering::Relaxed);
        self.written += u64::from(newest != self.newest);
        self.newest = newest;
    }

    /// The number of checkpoints written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The first event that the gateway took in at its start, in a log that begins at `first`.
    #[must_use]
    pub fn events_from(&self, first: u64) -> u64 {
        first.max(self.began_with + 1)
    }

    /// The last event of the checkpoint that the gateway began with, or zero.
    #[must_use]
    pub fn began_with(&self) -> u64 {
        self.began_with
    }

    /// True if the gateway began with one.
    #[must_use]
    pub fn is_beginning(&self) -> bool {
        self.began_with > 0
    }
}

fn begin(
    gateway: &mut Gateway,
    process: &Process,
    start: &Start<'_>,
    around: &StartContext<'_>,
) -> Option<CheckpointAgent<SimDisk>> {
    let mut store = SnapshotStore::new(around.disks.checkpoints.clone(), LOG_ID, HERE);
    let copies_retained_max = around.config().copies_retained_max;
    let (files, first) = (&around.disks.events, start.first_record);
    let events = || process.reader(files.clone(), first, "gateway checkpoint");
    let sessions = start.sessions.iter().zip(&start.firms);
    let sessions = sessions.map(|((id, next_event_no, _), (_, firm_id))| EngineSession {
        id: *id,
        firm_id: *firm_id,
        next_event_no: *next_event_no,
    });
    let sessions: Vec<_> = sessions.collect();
    let event_count = process.tail_handle().next_record() - 1;
    let log =
        CheckpointLog { events: &events, event_count, sessions: &sessions, copies_retained_max };
    let checkpoint = load(&mut store, log, &mut Vec::new()).ok()?;
    let newest = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.record());
    if let Some(checkpoint) = checkpoint {
        gateway.begin_with(PORT, checkpoint);
    }
    Some(CheckpointAgent::new(CheckpointParts {
        store,
        events: events(),
        firms: start.firms.clone(),
        newest,
        every: EVERY[(around.seed % 3) as usize],
        copies_retained_max,
        figures: process.figures(),
    }))
}
