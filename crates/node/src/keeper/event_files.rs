//! Writes a partition's events from the tail into files, in the background.
//!
//! Nobody waits for it. When it falls further behind than the tail reaches (a disk that stands
//! still for seconds), it says so and stops: events in memory go on, and the next start writes
//! what is missing, because the command log has it all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::RealDisk;
use weir_log::LogError;
use weir_log::event_log::{EventLog, Followed};
use weir_log::tail::TailReader;
use weir_types::Nanos;

use crate::agent::Agent;

/// Records taken from the tail in one cycle.
const FOLLOW_MAX: usize = 8192;
/// How often the tail is looked at. Nothing is lost by waiting: the tail holds much more.
const INTERVAL: u64 = 2_000_000;

/// How far a partition's events are on the medium: how a shadow asks, on the same thread.
#[derive(Debug, Default)]
pub struct SyncedEvents {
    wanted: AtomicU64,
    synced: AtomicU64,
}

impl SyncedEvents {
    /// Asks for all records up to `record`; true once they are on the medium.
    pub fn ask_for(&self, record: u64) -> bool {
        if self.synced.load(Ordering::Relaxed) >= record {
            return true;
        }
        self.wanted.store(record, Ordering::Relaxed);
        false
    }
}

/// The agent.
pub struct EventFiles {
    log: EventLog<RealDisk>,
    tail: TailReader,
    synced: Arc<SyncedEvents>,
    due: Nanos,
    lapped: bool,
}

impl EventFiles {
    /// An agent that goes on where the log ends.
    #[must_use]
    pub fn new(log: EventLog<RealDisk>, tail: TailReader) -> EventFiles {
        let synced = Arc::default();
        EventFiles { log, tail, synced, due: Nanos(0), lapped: false }
    }

    /// How a shadow asks for synced events.
    #[must_use]
    pub fn synced(&self) -> Arc<SyncedEvents> {
        self.synced.clone()
    }

    fn follow(&mut self) -> usize {
        match self.log.follow(&mut self.tail, FOLLOW_MAX) {
            Followed::Taken(count) => count,
            Followed::NotNow => 0,
            Followed::Lapped => {
                if !std::mem::replace(&mut self.lapped, true) {
                    eprintln!(
                        "weir: the event log fell behind the events in memory and ends at record \
                         {}; the next start completes it",
                        self.log.next_record().0 - 1
                    );
                }
                0
            }
        }
    }

    /// Syncs when a shadow asked for records that are written by now.
    fn sync_if_asked(&mut self) {
        let wanted = self.synced.wanted.load(Ordering::Relaxed);
        if wanted <= self.synced.synced.load(Ordering::Relaxed)
            || wanted >= self.log.next_record().0
        {
            return;
        }
        if let Err(error) = self.log.flush_blocking() {
            // Without room no snapshot is taken; the next look tries again.
            return tell_or_abort(&error);
        }
        self.synced.synced.store(self.log.next_record().0 - 1, Ordering::Relaxed);
    }
}

/// A full disk is told and waited for: the command log has all that is missing here. Any other
/// failure ends the process, since the disk that failed is the command log's too.
fn tell_or_abort(error: &LogError) {
    eprintln!("weir: the event log: {error}");
    if error.is_fatal() {
        std::process::abort();
    }
}

impl Agent for EventFiles {
    fn name(&self) -> &'static str {
        "event-files"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        let followed = self.follow();
        if let Err(error) = self.log.do_work(now) {
            tell_or_abort(&error);
        }
        self.sync_if_asked();
        if followed < FOLLOW_MAX {
            self.due = Nanos(now.0 + INTERVAL);
        }
        usize::from(followed == FOLLOW_MAX)
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        if self.follow() == FOLLOW_MAX {
            return false;
        }
        if let Err(error) = self.log.close() {
            tell_or_abort(&error);
        }
        true
    }
}
