//! The rules for checkpoints over all lives of a run.
//!
//! A start begins with the newest checkpoint that was written, or a newer one of the moment of the
//! crash, unless events of it were lost, the agent failed since, or its disk fails at the start.
//! No start begins with a checkpoint of lost events.

use std::collections::BTreeSet;

use crate::oracle::{Violation, ensure};

/// The checkpoints that were written, by their last events.
#[derive(Default)]
pub struct CheckpointWatch {
    /// The newest one that a start must be able to use; zero for none.
    newest: u64,
    /// The same, if no crash takes the operations of this cycle.
    newest_so_far: u64,
    /// All that no loss of events has reached.
    written: BTreeSet<u64>,
    /// Those whose last events were lost, and of which no other one took the place.
    lost: BTreeSet<u64>,
}

/// The figures of a life's agent after a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentFigures {
    /// The last event of the newest checkpoint.
    pub newest: u64,
    /// The failures so far.
    pub failures: u64,
}

impl CheckpointWatch {
    /// Notes a cycle of the agent, of which a crash may take the operations.
    pub fn note(&mut self, before: AgentFigures, after: AgentFigures) {
        if after.failures != before.failures {
            // It holds no events now.
            (self.newest, self.newest_so_far) = (0, 0);
        }
        if after.newest != before.newest {
            self.written.insert(after.newest);
            self.lost.remove(&after.newest);
            self.newest_so_far = after.newest;
        }
    }

    /// Notes that no crash can take the operations so far.
    pub fn keep(&mut self) {
        self.newest = self.newest_so_far;
    }

    /// Notes a loss after which this many events are left.
    pub fn lose(&mut self, left: u64) {
        let mut lost = self.written.split_off(&(left + 1));
        self.lost.append(&mut lost);
        if self.newest > left {
            self.newest = 0;
        }
    }

    /// True if events of the checkpoint were lost.
    #[must_use]
    pub fn is_lost(&self, checkpoint: u64) -> bool {
        self.lost.contains(&checkpoint)
    }

    /// Checks the checkpoint that a start begins with, or zero; with `fails` its disk does.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn judge(&mut self, begins_with: u64, fails: bool) -> Result<(), Violation> {
        ensure(!self.is_lost(begins_with), "a start begins with lost events", || {
            format!("the checkpoint of event {begins_with}")
        })?;
        let newest = std::mem::take(&mut self.newest);
        ensure(fails || begins_with >= newest, "a start does not use its checkpoint", || {
            format!("it begins with that of event {begins_with}, not {newest}")
        })?;
        if begins_with > 0 {
            self.written.insert(begins_with);
        }
        (self.newest, self.newest_so_far) = (begins_with, begins_with);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(newest: u64, failures: u64) -> AgentFigures {
        AgentFigures { newest, failures }
    }

    /// Returns the watch of a checkpoint of event 7, and one of event 9 that a crash may take.
    fn watch() -> CheckpointWatch {
        let mut watch = CheckpointWatch::default();
        watch.note(of(0, 0), of(7, 0));
        watch.keep();
        watch.note(of(7, 0), of(9, 0));
        watch
    }

    #[test]
    fn a_start_must_use_what_no_crash_can_have_taken() {
        for (begins_with, is_right) in [(0, false), (5, false), (7, true), (9, true)] {
            assert_eq!(watch().judge(begins_with, false).is_ok(), is_right, "{begins_with}");
        }
        assert!(watch().judge(0, true).is_ok(), "its disk fails");
        let mut failing = watch();
        failing.note(of(9, 0), of(9, 1));
        failing.keep();
        assert!(failing.judge(0, false).is_ok(), "it holds no events");
        let mut lost = watch();
        lost.lose(6);
        assert!(lost.judge(0, false).is_ok(), "its events are lost");
    }

    #[test]
    fn no_start_may_use_a_checkpoint_of_lost_events_until_one_takes_its_place() {
        let mut watch = watch();
        watch.keep();
        watch.lose(8);
        assert!(watch.is_lost(9) && !watch.is_lost(7));
        assert!(watch.judge(9, false).is_err());
        assert!(watch.judge(7, false).is_ok());
        watch.note(of(7, 0), of(9, 0));
        assert!(watch.judge(9, false).is_ok());
    }
}
