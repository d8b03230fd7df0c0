//! The shadow engine's duty cycle: follows the log and takes a snapshot when one is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{RealDisk, ThreadDisk};
use weir_probe::thread::{Share, ask_for};
use weir_runtime::Agent;
use weir_types::{Nanos, Position};

use super::shadow::{Shadow, ShadowError};
use crate::PartitionFigures;

/// The number of commands applied in one cycle: less than a millisecond of work.
const APPLY_MAX: usize = 512;
/// The pause in nanoseconds before the log is polled again when there was nothing new.
const LOOK_INTERVAL: u64 = 10_000_000;
/// The shadow's scheduling class: snapshots are not urgent, so it gets idle time only.
pub const SHARE: Share = Share::Leftover;
/// The scheduling class of a shadow that is too far behind.
const HURRYING_SHARE: Share = Share::Fair { niceness: 10 };

/// A shadow over the node's files.
pub type NodeShadow = Shadow<ThreadDisk, RealDisk, ThreadDisk>;

/// The shadow engine's agent.
pub struct ShadowAgent {
    shadow: NodeShadow,
    figures: Arc<PartitionFigures>,
    every_commands: u64,
    snapshot_at: u64,
    due: Nanos,
    failed: bool,
    hurries: bool,
}

impl ShadowAgent {
    /// Returns an agent that follows the partition with these figures and takes a snapshot every
    /// `every_commands` commands.
    #[must_use]
    pub fn new(
        shadow: NodeShadow,
        figures: Arc<PartitionFigures>,
        every_commands: u64,
    ) -> ShadowAgent {
        let snapshot_at = shadow.position().0 + every_commands;
        let due = Nanos(0);
        ShadowAgent {
            shadow,
            figures,
            every_commands,
            snapshot_at,
            due,
            failed: false,
            hurries: false,
        }
    }

    fn try_work(&mut self, now: Nanos) -> Result<usize, ShadowError> {
        let committed = Position(self.figures.counters.position.load(Ordering::Relaxed));
        let applied = self.shadow.follow(committed, APPLY_MAX, now)?;
        let position = self.shadow.position().0;
        self.hurry_when_late(committed.0.saturating_sub(position));
        if position >= self.snapshot_at {
            self.snapshot_at = position + self.every_commands;
            match self.shadow.snapshot() {
                Ok(is_taken) => {
                    if is_taken {
                        let state = self.shadow.last_state();
                        let taken = self.shadow.last_snapshot();
                        self.figures.tell_snapshot(taken, state);
                        let state = format!("{state:016x}");
                        tracing::info!(position = taken.0, state, "snapshot taken");
                    }
                }
                Err(ShadowError::Snapshot(error)) => {
                    // Same as for a full disk: events are still written, and the snapshot is
                    // retried.
                    tracing::error!(position, %error, "no snapshot");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(applied)
    }

    /// Raises the shadow's priority when it is one snapshot interval behind. On busy cores a shadow
    /// with idle time only could stay behind for ever, and the next start would have to apply the
    /// backlog.
    fn hurry_when_late(&mut self, behind: u64) {
        let limit = if self.hurries { self.every_commands / 2 } else { self.every_commands };
        let hurries = behind >= limit;
        if hurries == self.hurries {
            return;
        }
        self.hurries = hurries;
        let share = if hurries { HURRYING_SHARE } else { SHARE };
        // Linux lets a thread leave the idle class only with RLIMIT_NICE at 20 or CAP_SYS_NICE.
        // Otherwise the shadow keeps its class, and the next start applies more of the log.
        let _ = ask_for(share);
    }

    fn fail(&mut self, error: &ShadowError) {
        if let ShadowError::Events(log) = error
            && log.is_fatal()
        {
            // The command log is on the same failed disk.
            weir_runtime::abort("the event log failed", error);
        }
        // Trading continues; the next start writes the events and applies more of the log.
        tracing::error!(%error, "no more snapshots and events in files until the next start");
        self.failed = true;
    }
}

impl Agent for ShadowAgent {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if self.failed || now < self.due {
            return 0;
        }
        match self.try_work(now) {
            Ok(applied) => {
                if applied < APPLY_MAX {
                    self.due = Nanos(now.0 + LOOK_INTERVAL);
                }
                applied / APPLY_MAX
            }
            Err(error) => {
                self.fail(&error);
                0
            }
        }
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        (!self.failed).then_some(self.due)
    }

    fn stop(&mut self, now: Nanos) -> bool {
        if self.failed {
            return true;
        }
        match self.try_work(now) {
            Ok(APPLY_MAX) => return false,
            Ok(_) => {}
            Err(error) => {
                self.fail(&error);
                return true;
            }
        }
        if let Err(error) = self.shadow.close() {
            self.fail(&error);
        }
        true
    }
}
