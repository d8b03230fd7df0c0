//! The shadow engine's duty cycle: follows the log, takes a snapshot when one is due, and truncates
//! both logs by their retention.
//!
//! Nobody waits for the shadow but a reader of events that the tail has overwritten, and for that
//! one it hurries. An error that is not the end of its files is tried again: until then the node is
//! not ready, because readers may lack events that only the shadow writes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Disk, RealDisk, ThreadDisk};
use weir_log::tail::TailHandle;
use weir_probe::thread::{Hurried, HurriedHere, Share, ask_for, can_ask_back};
use weir_runtime::Agent;
use weir_types::{Nanos, Position};

use super::shadow::{Retained, Shadow, ShadowError};
use crate::PartitionFigures;
use crate::archive::gate::ArchiveGate;
use crate::plant::{self, Plant};
use crate::retention::{RetentionLimits, RetentionTimes};

/// The number of commands applied in one cycle: less than a millisecond of work.
const APPLY_MAX: usize = 512;
/// The pause in nanoseconds before the log is polled again when there was nothing new.
const LOOK_INTERVAL: u64 = 10_000_000;
/// The same pause while a reader waits for the files.
const LOOK_INTERVAL_WANTED: u64 = 1_000_000;
/// The pause in nanoseconds after a failure before the next try: 100 ms.
const RETRY_INTERVAL: u64 = 100_000_000;
/// The pause in nanoseconds before a snapshot is tried again that could not be written: 1 s.
const SNAPSHOT_RETRY: u64 = 1_000_000_000;
/// The pause in nanoseconds between looks at the retention: 10 s. A snapshot causes one more.
const RETENTION_INTERVAL: u64 = 10_000_000_000;
/// The scheduling class of a shadow that may not leave the idle class again.
const MODEST_SHARE: Share = Share::Fair { niceness: 10 };

/// The share with which a shadow's thread starts. It asks for less when others can hurry it.
pub const SHARE_AT_START: Share = MODEST_SHARE;

/// Returns the shadow's scheduling class. Snapshots are not urgent, so it gets idle time only, if
/// the system lets it take more when it has to hurry (`RLIMIT_NICE` at 20 or `CAP_SYS_NICE`). On
/// busy cores a reader would else wait for it without an end.
fn share() -> Share {
    if can_ask_back() { Share::Leftover } else { MODEST_SHARE }
}

thread_local! {
    /// The hurry of each shadow of this thread, for those that have hurried.
    static HURRIES: RefCell<Vec<Hurry>> = const { RefCell::new(Vec::new()) };
}

/// A reason to hurry, and the scheduling class for it; later ones need more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hurry {
    /// None: its usual class.
    No,
    /// It is a snapshot interval behind: the next start would have to apply the backlog.
    Late,
    /// A reader waits for events that only the shadow writes, or the node's end waits for it.
    Wanted,
}

impl Hurry {
    fn share(self) -> Share {
        match self {
            Hurry::No => share(),
            Hurry::Late => MODEST_SHARE,
            Hurry::Wanted => Share::Fair { niceness: 0 },
        }
    }
}

/// The thread of a shadow's cycles.
enum ShadowThread {
    /// Somebody else's, as in a simulation: its share is not the shadow's to choose.
    Lent,
    /// Its own, before its first cycle.
    NotEntered,
    /// Its own. Readers hurry it: in the idle class it does not run in time to see that they wait.
    Entered(HurriedHere),
}

/// The work of the shadow that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Events,
    Snapshots,
    Retention,
}

impl Trouble {
    /// Returns true when the node is not ready while it lasts. Files that stay are no reason.
    fn keeps_from_work(self) -> bool {
        self != Trouble::Retention
    }

    fn word(self) -> &'static str {
        match self {
            Trouble::Events => "events in files",
            Trouble::Snapshots => "snapshots",
            Trouble::Retention => "retention",
        }
    }
}

/// A shadow over the node's files.
pub type NodeShadow = Shadow<ThreadDisk, RealDisk, ThreadDisk>;

/// The shadow engine's agent.
pub struct ShadowAgent<C: Disk = ThreadDisk, E = RealDisk, S = ThreadDisk> {
    shadow: Shadow<C, E, S>,
    figures: Arc<PartitionFigures>,
    /// The events in memory, whose readers say what they lack.
    tail: TailHandle,
    /// The newest event that is in the files.
    written: u64,
    every_commands: u64,
    snapshot_at: u64,
    /// The time before which a snapshot that failed is not tried again.
    snapshot_due: Nanos,
    /// True from a snapshot until older ones are pruned.
    must_prune: bool,
    /// True while a snapshot is read before a pruning. No other is taken meanwhile, or a shadow
    /// that is behind would never have read one.
    is_proving: bool,
    limits: RetentionLimits,
    /// The time of the next look at the retention.
    retention_due: Nanos,
    due: Nanos,
    troubles: Vec<Trouble>,
    /// True while segments go that the archive has not stored.
    is_losing: bool,
    hurry: Hurry,
    thread: ShadowThread,
    is_stopping: bool,
}

impl<C: Disk, E: Disk, S: Disk> ShadowAgent<C, E, S> {
    /// Returns an agent that follows the partition with these figures and this tail, and takes a
    /// snapshot every `every_commands` commands. It removes nothing.
    #[must_use]
    pub fn new(
        shadow: Shadow<C, E, S>,
        figures: Arc<PartitionFigures>,
        tail: TailHandle,
        every_commands: u64,
    ) -> ShadowAgent<C, E, S> {
        let snapshot_at = shadow.position().0 + every_commands;
        ShadowAgent {
            written: shadow.event_count(),
            shadow,
            figures,
            tail,
            every_commands,
            snapshot_at,
            snapshot_due: Nanos(0),
            must_prune: false,
            is_proving: false,
            limits: RetentionLimits::default(),
            retention_due: Nanos(0),
            due: Nanos(0),
            troubles: Vec::new(),
            is_losing: false,
            hurry: Hurry::No,
            thread: ShadowThread::Lent,
            is_stopping: false,
        }
    }

    /// Asks the system for the share that it needs at a time, for its thread, which started with
    /// [`SHARE_AT_START`].
    #[must_use]
    pub fn scheduled(mut self) -> ShadowAgent<C, E, S> {
        self.thread = ShadowThread::NotEntered;
        self.hurry = Hurry::Late;
        self
    }

    /// Removes what is over these limits and not needed.
    #[must_use]
    pub fn retaining(mut self, limits: RetentionLimits) -> ShadowAgent<C, E, S> {
        self.limits = limits;
        self
    }

    /// Lets no segment go that an archive has not stored.
    #[must_use]
    pub fn archiving(mut self, gate: ArchiveGate) -> ShadowAgent<C, E, S> {
        self.shadow.archive_by(gate);
        self
    }

    fn try_work(&mut self, now: Nanos) -> Result<usize, ShadowError> {
        let committed = Position(self.figures.counters.position.load(Ordering::Relaxed));
        let counters = &self.figures.counters;
        // SYNC: pairs with the partition's store; its log may be synced further by now.
        self.shadow.note_synced(Position(counters.synced.load(Ordering::Relaxed)));
        counters.event_wanted_in_files.store(self.tail.wanted_in_files(), Ordering::Relaxed);
        // First, for it must hurry too when what follows fails.
        self.hurry_as_needed(committed.0.saturating_sub(self.shadow.position().0));
        let applied = self.shadow.follow(committed, APPLY_MAX, now)?;
        self.shadow.write_wanted(self.tail.wanted_in_files(), self.written)?;
        self.tell_written();
        let position = self.shadow.position().0;
        let is_due = position >= self.snapshot_at && now >= self.snapshot_due;
        if is_due && !self.is_proving {
            self.snapshot_due = Nanos(now.0 + SNAPSHOT_RETRY);
            self.try_snapshot()?;
            // A snapshot writes all events first; a shadow that is behind may never have another
            // moment at which it has none to write.
            self.tell_written();
            self.retention_due = now;
        }
        if now >= self.retention_due {
            self.prune_and_retain(now);
        }
        Ok(applied)
    }

    /// Prunes snapshots, and removes what is past the retention, once the snapshots that count are
    /// read: a part in each cycle.
    fn prune_and_retain(&mut self, now: Nanos) {
        let removes = self.must_prune || !self.limits.is_unlimited();
        let proven = if removes { self.shadow.prove_part() } else { Ok(true) };
        let pruned = proven.and_then(|is_proven| {
            if is_proven && self.must_prune {
                self.shadow.prune()?;
                self.must_prune = false;
            }
            Ok(is_proven)
        });
        self.is_proving = matches!(pruned, Ok(false));
        match pruned {
            Ok(false) => return,
            Ok(true) => self.retain(now),
            Err(error) => self.begins(Trouble::Retention, &error),
        }
        self.retention_due = Nanos(now.0 + RETENTION_INTERVAL);
    }

    /// Tells the newest event that is in the files.
    fn tell_written(&mut self) {
        if self.shadow.has_written_events() {
            self.written = self.shadow.event_count();
        }
        self.figures.counters.event_in_files.store(self.written, Ordering::Relaxed);
    }

    /// Removes what is past the retention, and tells the size of both logs.
    fn retain(&mut self, now: Nanos) {
        let log_time = Nanos(self.figures.log_time.load(Ordering::Relaxed));
        let ahead = Nanos(self.figures.counters.log_time_ahead_ns.load(Ordering::Relaxed));
        match self.shadow.retain(&self.limits, RetentionTimes { log_time, ahead, now }) {
            Ok(retained) => {
                self.tell_retained(&retained);
                self.ends(Trouble::Retention);
            }
            Err(error) => self.begins(Trouble::Retention, &error),
        }
    }

    fn tell_retained(&mut self, retained: &Retained) {
        let Retained { commands, events, held_by, waiting_bytes, lost_bytes } = retained;
        let counters = &self.figures.counters;
        // SYNC: numbers alone; the partition takes the first one over at its next cycle.
        counters.commands_from.store(commands.before.0, Ordering::Relaxed);
        counters.command_bytes.store(commands.bytes, Ordering::Relaxed);
        counters.events_from.store(events.before.0, Ordering::Relaxed);
        counters.event_bytes.store(events.bytes, Ordering::Relaxed);
        let held = commands.held_bytes + events.held_bytes;
        counters.held_bytes.store(held, Ordering::Relaxed);
        self.figures.tell_holder(*held_by);
        counters.archive_wait_bytes.store(*waiting_bytes, Ordering::Relaxed);
        counters.archive_lost_bytes.fetch_add(*lost_bytes, Ordering::Relaxed);
        if *lost_bytes > 0 && !self.is_losing {
            let (commands, events) = (commands.before, events.before);
            tracing::error!(
                %commands,
                %events,
                "too much waits for the archive: segments before these positions go without a copy"
            );
        }
        self.is_losing = *lost_bytes > 0 || (self.is_losing && *waiting_bytes > 0);
    }

    /// Takes a snapshot. One that cannot be written is tried again, and events are written
    /// meanwhile.
    fn try_snapshot(&mut self) -> Result<(), ShadowError> {
        match self.shadow.take_snapshot() {
            Ok(true) => {
                self.must_prune = true;
                let (taken, state) = (self.shadow.last_snapshot(), self.shadow.last_state());
                self.snapshot_at = taken.0 + self.every_commands;
                self.figures.tell_snapshot(taken, state);
                let state = format!("{state:016x}");
                tracing::info!(position = taken.0, state, "snapshot taken");
                self.ends(Trouble::Snapshots);
            }
            // There is nothing new, or the disk is full.
            Ok(false) => {}
            Err(error @ ShadowError::Snapshot(_)) => self.begins(Trouble::Snapshots, &error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Asks for the share that the thread's shadows need now.
    fn hurry_as_needed(&mut self, behind: u64) {
        let mut was_hurried = self.enter_thread();
        loop {
            let hurry = self.needed_hurry(behind);
            if hurry == self.hurry && !was_hurried {
                return;
            }
            was_hurried = false;
            let before = std::mem::replace(&mut self.hurry, hurry);
            if matches!(self.thread, ShadowThread::Lent) {
                return;
            }
            HURRIES.with_borrow_mut(|hurries| {
                if let Some(at) = hurries.iter().position(|one| *one == before) {
                    hurries.swap_remove(at);
                }
                hurries.push(hurry);
                let most = hurries.iter().copied().max().unwrap_or(Hurry::No);
                // Without the right to more it keeps its class.
                let _ = ask_for(most.share());
            });
            // Again: a reader may have hurried this thread before it asked for less.
        }
    }

    fn needed_hurry(&self, behind: u64) -> Hurry {
        let limit =
            if self.hurry == Hurry::No { self.every_commands } else { self.every_commands / 2 };
        match () {
            // The node's end waits for it.
            () if self.is_stopping => Hurry::Wanted,
            () if self.tail.wanted_in_files() > self.written => Hurry::Wanted,
            () if behind >= limit => Hurry::Late,
            () => Hurry::No,
        }
    }

    /// Returns true when a reader has hurried this thread; the first call tells them which it is.
    fn enter_thread(&mut self) -> bool {
        match &self.thread {
            ShadowThread::Lent => false,
            ShadowThread::NotEntered => {
                let hurried = Arc::new(Hurried::default());
                self.thread = ShadowThread::Entered(hurried.enter());
                self.tail.on_want_in_files(Box::new(move || hurried.hurry()));
                false
            }
            ShadowThread::Entered(here) => here.take_hurried(),
        }
    }

    /// Takes a snapshot at the end of the log, which the partition has written when its shadow is
    /// stopped. The next start then applies no command, so that it may be one of a program with
    /// other rules.
    fn snapshot_at_end(&mut self) {
        let end = Position(self.figures.counters.position.load(Ordering::Relaxed));
        let taken = self.try_snapshot_of(end).and_then(|()| match self.must_prune {
            true => self.shadow.prune(),
            false => Ok(()),
        });
        if let Err(error) = taken {
            self.begins(Trouble::Snapshots, &error);
        }
        if self.shadow.last_snapshot() < end {
            let snapshot = self.shadow.last_snapshot();
            let why = "a program with other rules of matching will refuse to start";
            tracing::warn!(%end, %snapshot, why, "no snapshot at the end of the command log");
        }
    }

    /// Takes a snapshot at `end`, if the shadow has come to it. The event log may have no room for
    /// the last events until others are written.
    fn try_snapshot_of(&mut self, end: Position) -> Result<(), ShadowError> {
        // Without room on its disk the partition stops before all is in files.
        if self.shadow.position() < end {
            return Ok(());
        }
        self.try_snapshot()?;
        while self.shadow.last_snapshot() < end
            && !self.shadow.has_written_events()
            && self.shadow.write_events()?
        {
            self.try_snapshot()?;
        }
        Ok(())
    }

    /// True if there is more to apply at a stop, and it can be: events that wait for room in the
    /// event log's queue are written first.
    fn has_more(&mut self, applied: usize) -> Result<bool, ShadowError> {
        let committed = self.figures.counters.position.load(Ordering::Relaxed);
        let is_behind = self.shadow.position().0 < committed;
        let can_go_on = applied > 0 || !self.shadow.has_written_events();
        Ok(is_behind && can_go_on && self.shadow.write_events()?)
    }

    fn fail(&mut self, error: &ShadowError, now: Nanos) {
        if let ShadowError::Events(log) = error
            && log.is_fatal()
        {
            // The command log is on the same failed disk.
            weir_runtime::abort("the event log failed", error);
        }
        self.begins(Trouble::Events, error);
        self.shadow.reopen();
        let pause = if plant::is(Plant::ShadowGivesUp) { u64::MAX / 2 } else { RETRY_INTERVAL };
        self.due = Nanos(now.0 + pause);
    }

    /// Tells a failure, the first of its kind with a line.
    fn begins(&mut self, trouble: Trouble, error: &ShadowError) {
        self.figures.counters.shadow_failures.fetch_add(1, Ordering::Relaxed);
        if trouble.keeps_from_work() {
            self.figures.tell_shadow_error(Some(error));
        }
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble);
            let position = self.shadow.position().0;
            let work = trouble.word();
            tracing::error!(position, %error, "the shadow has no {work} until this ends");
        }
    }

    /// Tells that what failed works again.
    fn ends(&mut self, trouble: Trouble) {
        let before = self.troubles.len();
        self.troubles.retain(|other| *other != trouble);
        if self.troubles.len() == before {
            return;
        }
        tracing::info!(
            position = self.shadow.position().0,
            "the shadow has {} again",
            trouble.word()
        );
        if !self.troubles.iter().any(|trouble| trouble.keeps_from_work()) {
            self.figures.tell_shadow_error(None);
        }
    }
}

impl<C: Disk + Send, E: Disk + Send, S: Disk + Send> Agent for ShadowAgent<C, E, S> {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        match self.try_work(now) {
            Ok(applied) => {
                if self.shadow.has_full_disk() {
                    self.begins(Trouble::Events, &ShadowError::Full);
                } else {
                    self.ends(Trouble::Events);
                }
                if applied < APPLY_MAX {
                    let is_wanted = self.hurry == Hurry::Wanted;
                    let pause = if is_wanted { LOOK_INTERVAL_WANTED } else { LOOK_INTERVAL };
                    self.due = Nanos(now.0 + pause);
                }
                applied / APPLY_MAX
            }
            Err(error) => {
                self.fail(&error, now);
                0
            }
        }
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.is_stopping = true;
        let more = self.try_work(now).and_then(|applied| self.has_more(applied));
        match more {
            Ok(true) => return false,
            Ok(false) => {
                self.ends(Trouble::Events);
                self.snapshot_at_end();
            }
            Err(error) => {
                self.fail(&error, now);
                return true;
            }
        }
        if let Err(error) = self.shadow.close() {
            self.fail(&error, now);
        }
        true
    }
}

#[cfg(test)]
mod tests;
