//! The command log of a partition that is recovered and not yet started.
//!
//! A start can still be refused when the logs are open: by a view, an archive, another partition.
//! Dropped then, the log ends with a closing mark. Without it the next run would take this one for
//! a crashed one: at `memory` each refused start would end an epoch, and a log remembers only so
//! many.
//!
//! INVARIANT: nothing is appended before [`UnstartedLog::start`].

use std::ops::{Deref, DerefMut};

use weir_io::RealDisk;
use weir_log::EmbeddedLog;

/// An open command log that closes itself unless its partition starts.
pub struct UnstartedLog(Option<EmbeddedLog<RealDisk>>);

/// The reason that there is a log.
const IS_HERE: &str = "only a start takes the log";

impl UnstartedLog {
    pub(crate) fn new(log: EmbeddedLog<RealDisk>) -> UnstartedLog {
        UnstartedLog(Some(log))
    }

    /// Returns the log for a partition that starts and closes it itself.
    pub(crate) fn start(mut self) -> EmbeddedLog<RealDisk> {
        self.0.take().expect(IS_HERE)
    }
}

impl Deref for UnstartedLog {
    type Target = EmbeddedLog<RealDisk>;

    fn deref(&self) -> &EmbeddedLog<RealDisk> {
        self.0.as_ref().expect(IS_HERE)
    }
}

impl DerefMut for UnstartedLog {
    fn deref_mut(&mut self) -> &mut EmbeddedLog<RealDisk> {
        self.0.as_mut().expect(IS_HERE)
    }
}

impl Drop for UnstartedLog {
    fn drop(&mut self) {
        if let Some(log) = &mut self.0
            && let Err(error) = log.close()
        {
            tracing::warn!(%error, "the command log of a refused start ends as after a crash");
        }
    }
}
