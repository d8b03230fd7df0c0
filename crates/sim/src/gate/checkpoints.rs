//! The gateway's checkpoints between two crashes: one that fits the log is its beginning, and an
//! agent writes the next ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_gateway::Gateway;
use weir_io::{DiskErrorKind, Rng, SeededRng, SimDisk, SimFaults};
use weir_log::SnapshotStore;
use weir_partition::PartitionFigures;
use weir_partition::checkpoint::{
    CheckpointAgent, CheckpointLog, CheckpointParts, EngineSession, HOLDER, Pace, load,
};
use weir_runtime::Agent as _;
use weir_types::Nanos;

use super::checkpoint_watch::AgentFigures;
use super::node::{Start, StartContext};
use crate::process::{LOG_ID, Process};
use crate::workload::HERE;

/// The partition's port at the gateway.
const PORT: usize = 1;
/// The numbers of events between two checkpoints, of which a start draws one.
const EVERY: [u64; 3] = [5, 40, 300];

/// The numbers of events taken in a cycle, of which a start draws one: with few, a checkpoint is
/// under way for many cycles.
const TAKEN: [usize; 3] = [2, 16, Pace::OF_NODE.taken_max];
/// The pauses between looks for a due checkpoint. Most runs are shorter than a node's ten.
const LOOKS: [Nanos; 3] = [Nanos(1_000_000), Nanos(10_000_000), Pace::OF_NODE.look_interval];
/// The looks in a pause after a failure.
const LOOKS_OF_A_RETRY: u64 = 20;
/// The calls to its disk of which a failing start fails one.
const FAILING_CALLS: u64 = 5;

/// The call to the checkpoints' disk that fails while a node starts.
#[derive(Clone, Copy, Debug)]
pub struct FailingCall(u64, DiskErrorKind);

impl FailingCall {
    /// Draws a failing call for one start in five, and for three in four where lost checkpoints are
    /// to be removed: then one of the first calls, which do it.
    pub fn draw(rng: &mut SeededRng, removes: bool) -> Option<FailingCall> {
        let kind = [DiskErrorKind::Io, DiskErrorKind::NoDescriptors][rng.below(2) as usize];
        let (calls, chance) = if removes { (2, (3, 4)) } else { (FAILING_CALLS, (1, 5)) };
        let at = rng.below(calls);
        rng.chance(chance.0, chance.1).then_some(FailingCall(at, kind))
    }
}

/// The checkpoints of one life.
pub struct Checkpoints {
    /// `None` if the disk failed at the start.
    agent: Option<CheckpointAgent<SimDisk>>,
    figures: Arc<PartitionFigures>,
    began_with: u64,
    /// True if its disk failed at the start.
    has_failed: bool,
    now: AgentFigures,
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
        let disk = &around.disks.checkpoints;
        if let Some(FailingCall(at, kind)) = around.failing_call {
            disk.set_faults(SimFaults { call_fails_at: Some((at, kind)), ..SimFaults::default() });
        }
        let agent = begin(gateway, process, start, around);
        let has_failed = disk.failed_call().is_some();
        disk.set_faults(SimFaults::default());
        let now = AgentFigures::default();
        let figures = process.figures();
        let mut checkpoints =
            Checkpoints { agent, figures, began_with: 0, has_failed, now, written: 0 };
        checkpoints.look();
        checkpoints.began_with = checkpoints.now.newest;
        checkpoints
    }

    fn look(&mut self) {
        let counters = &self.figures.counters;
        self.now = AgentFigures {
            newest: counters.checkpoint_event.load(Ordering::Relaxed),
            failures: counters.checkpoint_failures.load(Ordering::Relaxed),
        };
    }

    /// Runs a cycle of the thread that writes them.
    pub fn work(&mut self, now: Nanos) {
        let Some(agent) = &mut self.agent else { return };
        agent.do_work(now);
        let before = self.now;
        self.look();
        self.written += u64::from(self.now.newest != before.newest);
    }

    /// The agent's figures.
    #[must_use]
    pub fn figures(&self) -> AgentFigures {
        self.now
    }

    /// True if its disk failed at the start.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
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
    let events = || process.reader(files.clone(), first, HOLDER);
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
    let look_interval = LOOKS[(around.seed / 9 % 3) as usize];
    let pace = Pace {
        taken_max: TAKEN[(around.seed / 3 % 3) as usize],
        look_interval,
        retry_interval: Nanos(look_interval.0 * LOOKS_OF_A_RETRY),
    };
    Some(CheckpointAgent::new(CheckpointParts {
        store,
        events: events(),
        firms: start.firms.clone(),
        newest,
        every: EVERY[(around.seed % 3) as usize],
        copies_retained_max,
        pace,
        figures: process.figures(),
    }))
}
