//! The change of the engine's limits: a start's first command.
//!
//! The engine makes its tables anew for it, which can take long. The command is in the log's files
//! by then, at each level: a node that is killed meanwhile, by hand or for want of memory, makes
//! the change as it recovers, and does not begin again with the old limits for ever.

use weir_engine::EngineLimits;
use weir_log::SequencedLog;
use weir_runtime::abort;
use weir_wire::Command;
use weir_wire::reference::SetLimits;

use super::Partition;
use crate::handoff::Submission;
use crate::plant::{self, Plant};

impl<L: SequencedLog + Send> Partition<L> {
    /// Returns the partition with these limits of its engine. If it has others, the command that
    /// sets them comes before all others.
    #[must_use]
    pub fn with_limits(mut self, limits: EngineLimits) -> Partition<L> {
        if limits != self.engine.limits() || plant::is(Plant::LimitsSequencedAgain) {
            let command = Command::SetLimits(limits.to_command());
            self.kept.insert(0, (usize::MAX, Submission::internal(command)));
        }
        self
    }

    /// Writes the log before a command that sets limits is applied. At `os` and `disk` a command is
    /// written before it is committed; at `memory` it is applied first.
    pub(super) fn write_limits(&mut self) {
        if !self.commits_at_append || plant::is(Plant::LimitsUnwritten) {
            return;
        }
        match self.log.flush_blocking() {
            Ok(()) => {}
            Err(error) if error.is_no_room() => {
                let partition = self.engine.config().partition_id.0;
                tracing::warn!(
                    partition,
                    "no room on the disk for the command that sets limits: a node that is killed \
                     now begins the change again"
                );
            }
            Err(error) => abort("the command log failed", &error),
        }
    }

    /// Publishes the limits behind a command that sets some. The engine ignores limits below what
    /// it holds. The start has compared them, for a log time that is no later than the command's;
    /// but a wall clock that was set back in between can leave trades in their rows.
    pub(super) fn tell_new_limits(&self, wanted: &SetLimits) {
        self.figures.tell_limits(&self.engine);
        if EngineLimits::from(wanted) != self.engine.limits() {
            self.figures.tell_limits_refused();
            let partition = self.engine.config().partition_id.0;
            tracing::error!(
                partition,
                "the engine holds more than its new limits and keeps the old"
            );
        }
    }
}
