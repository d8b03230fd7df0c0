//! A partition's duty cycle: take commands, sequence, append, apply committed commands, publish.
//!
//! The commands of a cycle form one batch of the log. The engine sees a command once the log has
//! committed it at the configured durability, so no published event can be revoked. While a sync is
//! in progress the next batch fills (group commit).
//!
//! The partition never waits for a view: events go to the event tail, which views follow at their
//! own pace. The partition stops taking commands only when too many wait for the log, and it
//! applies none while the events of an uncrossing or another large command are still being
//! published ([`outbox`](crate::outbox)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_engine::{Debt, Engine};
use weir_log::tail::TailWriter;
use weir_log::{Append, Batch, Poll, Push, SequencedLog};
use weir_probe::{Point, Recorder, TraceId, Tsc};
use weir_runtime::{Agent, Wake, abort};
use weir_types::{Durability, Epoch, MatchId, Nanos, Position, Reason, WallOffset};
use weir_wire::Command;

use crate::handoff::{Feedback, SourcePort, StageStamps, Submission};
use crate::log_time::{LogTime, Notice, START_JUMP_LONG};
use crate::outbox::Outbox;
use crate::plant::{self, Plant};
use crate::take_order::TakeOrder;
use crate::tick_pace::TickPace;

/// The number of commands taken from one source in one cycle: limits the cycle's length and thereby
/// every wait.
const TAKE_MAX: usize = 256;
/// Commands applied between two publications: an answer waits for at most this many other commands.
const PUBLISH_EVERY: usize = 32;
/// The number of events in a cycle behind which no further command is applied: a command ends up to
/// 512 orders, hundreds of such commands can wait, and others share the thread.
const EVENTS_MAX: u64 = 8 * 1024;
/// The interval in nanoseconds of writes to the log's files where a commit does not wait for them:
/// a write per order would take a core from threads that wait for answers.
const LAZY_LOG_INTERVAL: u64 = 5_000_000;
/// The interval in nanoseconds between retries of commands that a full log refused, when no others
/// arrive: 10 ms.
const KEPT_RETRY: u64 = 10_000_000;
/// The number of requests kept for a full log beyond which those received before wait in their
/// rings, and others behind them.
const KEPT_MAX: usize = 4 * 1024;
/// The number of debts on the status page.
const DEBTS_SHOWN: usize = 32;
/// The interval in nanoseconds between updates of the figures of trades and debts: 100 ms.
const TRADES_INTERVAL: u64 = 100_000_000;
/// The maximum number of commands that wait for their commit.
const UNCOMMITTED_MAX: usize = 64 * 1024;
/// The time for which a stop waits for room on the disk, in nanoseconds.
const STOP_WITHOUT_ROOM_MAX: u64 = 5_000_000_000;

mod limits;

weir_runtime::figures! {
    /// A partition's counters.
    pub struct PartitionCounts in PartitionCounters {
        /// The newest committed and applied position.
        gauge position,
        /// The position up to which the command log is synced.
        gauge synced,
        /// Live orders.
        gauge live_orders,
        /// Events emitted since the log began.
        counter events,
        /// Commands that wait for their commit.
        gauge uncommitted,
        /// Batches appended since the start.
        counter batches,
        /// Commands refused because the log was full.
        counter refused,
        /// True while the log refuses commands because its disk is full.
        flag is_log_full as "log_full",
        /// Definitions of the control log that the partition's limits or rules refused; it
        /// continues without them.
        counter imports_refused,
        /// The newest definition of the control log that the partition took or refused, by its
        /// position there.
        gauge imported_to,
        /// Changes of phase that are filed and not made.
        gauge filed_changes,
        /// The most live orders.
        gauge live_orders_max,
        /// Pairs of account and instrument with lots held, owed or on order.
        gauge positions,
        /// The most such pairs.
        gauge positions_max,
        /// Accounts.
        gauge accounts,
        /// The most accounts.
        gauge accounts_max,
        /// Sessions.
        gauge sessions,
        /// The most sessions.
        gauge sessions_max,
        /// Firms.
        gauge firms,
        /// The most firms.
        gauge firms_max,
        /// Instruments.
        gauge instruments,
        /// The most instruments.
        gauge instruments_max,
        /// Trades that can be busted.
        gauge retained_trades,
        /// The most trades that are retained for it.
        gauge retained_trades_max,
        /// The number of the oldest trade that can be busted; zero for none.
        gauge oldest_trade,
        /// The log time of that trade, since the Unix epoch; zero for none.
        gauge oldest_trade_time_ns in nanoseconds,
        /// Limited accounts that owe cash or lots behind forced busts.
        gauge accounts_in_debt,
        /// The newest event in the event log's files, written by the shadow.
        gauge event_in_files,
        /// The newest event that a reader has waited for in the files; zero for none.
        gauge event_wanted_in_files,
        /// True while the shadow cannot write events or snapshots.
        flag is_shadow_stuck as "shadow_stuck",
        /// Failed tries of the shadow to write events or a snapshot.
        counter shadow_failures,
        /// The time by which log time is ahead of the wall clock; it goes at half speed until they
        /// agree.
        gauge log_time_ahead_ns in nanoseconds,
        /// The time by which log time is behind the wall clock; it follows by an hour a minute.
        gauge log_time_behind_ns in nanoseconds,
        /// Jumps of log time to a wall clock that was set forward.
        counter log_time_jumps,
        /// Wall clocks behind log time, at a start or by a step back.
        counter log_time_slowdowns,
        /// The time by which log time went forward to the wall clock at the start, from the log's
        /// last command on.
        gauge log_time_start_jump_ns in nanoseconds,
        /// The first command that the log keeps; those before it are past the retention.
        gauge commands_from,
        /// The size of the command log's files.
        gauge command_bytes in bytes as "command_log_bytes",
        /// The first event that the event log keeps.
        gauge events_from,
        /// The size of the event log's files.
        gauge event_bytes in bytes as "event_log_bytes",
        /// The newest event of the gateway's newest checkpoint; zero for none.
        gauge checkpoint_event,
        /// Failed tries to write a checkpoint.
        counter checkpoint_failures,
        /// The part of both logs that is over the limits of retention and still needed.
        gauge held_bytes in bytes,
        /// Compressed segments that the archive has stored since the start.
        counter archived_bytes in bytes,
        /// The part of both logs that waits for the archive.
        gauge archive_wait_bytes in bytes,
        /// True while the archive cannot store segments.
        flag is_archive_failing as "archive_failing",
        /// Failed tries to store a segment in the archive.
        counter archive_failures,
        /// Segments that went without a copy in the archive, past the limit on waiting ones.
        counter archive_lost_bytes in bytes,
    }
}

/// Figures of a partition that other threads read.
#[derive(Debug, Default)]
pub struct PartitionFigures {
    /// The counters.
    pub counters: PartitionCounters,
    /// The log time of the newest position, nanoseconds since the Unix epoch.
    pub log_time: AtomicU64,
    /// The engine's digest after it.
    pub digest: AtomicU64,
    /// The position of the last snapshot that this run took; zero before the first.
    pub snapshot_position: AtomicU64,
    /// The hash of the engine's whole state at that position.
    pub snapshot_state: AtomicU64,
    /// The error that keeps the shadow from its work; empty when there is none.
    shadow_error: Mutex<String>,
    /// The name of that which needs what is over the limits of retention; empty for nothing.
    holder: Mutex<&'static str>,
    /// The first debts of limited accounts.
    debts: Mutex<Vec<Debt>>,
    /// True when the engine ignored a command that sets limits.
    are_limits_refused: AtomicBool,
}

impl PartitionFigures {
    /// Publishes a snapshot's position and the hash of its state.
    pub fn tell_snapshot(&self, position: Position, state: u64) {
        // SYNC: a reader that sees this position sees its state; during the update it sees neither.
        self.snapshot_position.store(0, Ordering::Release);
        self.snapshot_state.store(state, Ordering::Release);
        self.snapshot_position.store(position.0, Ordering::Release);
    }

    /// Publishes the error that keeps the shadow from its work, or `None` when it works again.
    pub fn tell_shadow_error(&self, error: Option<&dyn std::fmt::Display>) {
        let mut text = self.shadow_error.lock().unwrap_or_else(PoisonError::into_inner);
        text.clear();
        if let Some(error) = error {
            *text = error.to_string();
        }
        self.counters.is_shadow_stuck.store(error.is_some(), Ordering::Relaxed);
    }

    /// Returns the error that keeps the shadow from its work, if there is one.
    #[must_use]
    pub fn shadow_error(&self) -> Option<String> {
        let text = self.shadow_error.lock().unwrap_or_else(PoisonError::into_inner);
        Some(text.clone()).filter(|text| !text.is_empty())
    }

    /// Publishes the name of that which needs what is over the limits of retention.
    pub fn tell_holder(&self, holder: Option<&'static str>) {
        let mut name = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        *name = holder.unwrap_or_default();
    }

    /// Returns the name of that which needs what is over the limits of retention, if anything does.
    #[must_use]
    pub fn holder(&self) -> Option<&'static str> {
        let name = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*name).filter(|name| !name.is_empty())
    }

    /// Publishes that the engine ignored a command that sets limits.
    pub fn tell_limits_refused(&self) {
        self.are_limits_refused.store(true, Ordering::Relaxed);
    }

    /// Returns true when the engine ignored a command that sets limits, because it held more.
    #[must_use]
    pub fn are_limits_refused(&self) -> bool {
        self.are_limits_refused.load(Ordering::Relaxed)
    }

    /// Publishes the figures of the engine that follow from operators' requests.
    pub(crate) fn tell_office(&self, engine: &Engine) {
        let counters = &self.counters;
        counters.imports_refused.store(engine.refused_import_count(), Ordering::Relaxed);
        counters.imported_to.store(engine.control_position().0, Ordering::Relaxed);
        counters.filed_changes.store(engine.filed_change_count() as u64, Ordering::Relaxed);
        self.tell_tables(engine);
    }

    /// Publishes the trades that can be busted and the debts behind busts. Searches the trades and
    /// takes a lock where there is a debt.
    pub(crate) fn tell_trades(&self, engine: &Engine) {
        let counters = &self.counters;
        let retained = engine.retained_trades();
        counters.retained_trades.store(retained.count, Ordering::Relaxed);
        counters.oldest_trade.store(retained.oldest.0, Ordering::Relaxed);
        counters.oldest_trade_time_ns.store(retained.oldest_time.0, Ordering::Relaxed);
        let debtor_count = engine.debtor_count() as u64;
        if debtor_count > 0 || counters.accounts_in_debt.load(Ordering::Relaxed) > 0 {
            let mut debts = self.debts.lock().unwrap_or_else(PoisonError::into_inner);
            debts.clear();
            debts.extend(engine.debts().take(DEBTS_SHOWN));
        }
        counters.accounts_in_debt.store(debtor_count, Ordering::Relaxed);
    }

    /// Returns debts of limited accounts, 32 at most.
    #[must_use]
    pub fn debts(&self) -> Vec<Debt> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the last snapshot's position and the hash of its state; `None` before the first, and
    /// during an update.
    #[must_use]
    pub fn snapshot(&self) -> Option<(u64, u64)> {
        // SYNC: pairs with the stores of `tell_snapshot`: the position is the same before and
        // after.
        let before = self.snapshot_position.load(Ordering::Acquire);
        let state = self.snapshot_state.load(Ordering::Acquire);
        let after = self.snapshot_position.load(Ordering::Acquire);
        (before != 0 && before == after).then_some((before, state))
    }
}

/// A sequenced command that waits for its commit.
#[derive(Debug)]
struct Pending {
    source: usize,
    position: Position,
    log_time: Nanos,
    trace: TraceId,
    points: [Tsc; 7],
}

/// The state of the engine that the figures of trades and debts show.
#[derive(Debug)]
struct TradesTold {
    position: Position,
    match_id: MatchId,
    debt_changes: u64,
    /// The time of the next update; the beginning or end of a debt does not wait for it.
    due: Nanos,
}

impl TradesTold {
    fn new(engine: &Engine, due: Nanos) -> TradesTold {
        TradesTold {
            position: engine.position(),
            match_id: engine.last_match_id(),
            debt_changes: engine.debt_changes(),
            due,
        }
    }

    /// Returns true if the figures are to be updated now.
    fn is_due(&self, engine: &Engine, now: Nanos) -> bool {
        let is_at_once = engine.debt_changes() != self.debt_changes;
        engine.position() != self.position && (is_at_once || now >= self.due)
    }

    /// Returns the time of the next update if something has changed. Trades that become too old
    /// meanwhile wait for a command.
    fn next_deadline(&self, engine: &Engine) -> Option<Nanos> {
        let is_paid = engine.debtor_count() > 0 && engine.position() != self.position;
        (is_paid || engine.last_match_id() != self.match_id).then_some(self.due)
    }
}

/// The parts of a partition.
pub struct PartitionParts<L> {
    /// The engine, recovered to the log's end.
    pub engine: Engine,
    /// The command log.
    pub log: L,
    /// The event tail's writer.
    pub tail: TailWriter,
    /// The sources of commands. What was in the ring of the first one before a command of another
    /// one is taken before it.
    pub sources: Vec<SourcePort>,
    /// The threads of the views that are woken by events.
    pub views: Vec<Wake>,
    /// Records probe points t1 to t6.
    pub recorder: Recorder,
    /// Figures for others to read.
    pub figures: Arc<PartitionFigures>,
    /// The durability level of a commit.
    pub durability: Durability,
}

/// A partition.
pub struct Partition<L> {
    engine: Engine,
    log: L,
    epoch: Epoch,
    /// The last positions of epochs that the log has ended, each with the next epoch, until the
    /// commands up to there are applied.
    ended: VecDeque<(Position, Epoch)>,
    sources: Vec<SourcePort>,
    take_order: TakeOrder,
    batch: Batch,
    entry: Vec<u8>,
    filling: Vec<(Pending, Command)>,
    /// Commands that the log did not take, for a later batch: those that no client sends again, and
    /// requests that this partition has received before. At the start the engine's new limits.
    kept: Vec<(usize, Submission)>,
    /// The time of their next try; until then requests are refused at once.
    kept_due: Nanos,
    pending: VecDeque<Pending>,
    /// The commands of `pending`, contiguous, so that the engine can prefetch.
    commands: VecDeque<Command>,
    outbox: Outbox,
    answered: Vec<(usize, StageStamps)>,
    views: Vec<Wake>,
    recorder: Recorder,
    figures: Arc<PartitionFigures>,
    trades_told: TradesTold,
    ticks: TickPace,
    is_log_full: bool,
    is_stopping: bool,
    /// The time since which a stop has found no room on the disk.
    without_room_since: Option<Nanos>,
    commits_at_append: bool,
    log_due: Nanos,
    log_time: LogTime,
    /// The position before which the log was last allowed to remove commands.
    truncated_before: u64,
}

impl<L: SequencedLog + Send> Partition<L> {
    /// Returns a partition over recovered parts.
    #[must_use]
    pub fn new(parts: PartitionParts<L>) -> Partition<L> {
        let epoch = parts.log.epoch();
        Partition {
            trades_told: TradesTold::new(&parts.engine, Nanos(0)),
            engine: parts.engine,
            epoch,
            batch: parts.log.new_batch(),
            log_time: LogTime::after(parts.log.last_log_time()),
            log: parts.log,
            ended: VecDeque::new(),
            take_order: TakeOrder::new(parts.sources.len()),
            sources: parts.sources,
            entry: Vec::with_capacity(512),
            filling: Vec::with_capacity(TAKE_MAX),
            kept: Vec::new(),
            kept_due: Nanos(0),
            pending: VecDeque::with_capacity(UNCOMMITTED_MAX),
            commands: VecDeque::with_capacity(UNCOMMITTED_MAX),
            outbox: Outbox::new(parts.tail),
            answered: Vec::with_capacity(PUBLISH_EVERY),
            views: parts.views,
            recorder: parts.recorder,
            figures: parts.figures,
            ticks: TickPace::new(parts.durability != Durability::Memory),
            is_log_full: false,
            is_stopping: false,
            without_room_since: None,
            commits_at_append: parts.durability == Durability::Memory,
            log_due: Nanos(0),
            truncated_before: 0,
        }
    }

    /// Takes commands from the sources into the batch; returns their number.
    fn take(&mut self) -> usize {
        let mut taken = 0;
        let sources = &self.sources;
        self.take_order.look(|source| sources[source].submissions.slots());
        for source in 0..self.sources.len() {
            // Ticks, definitions and choices enter without this bound.
            let room = UNCOMMITTED_MAX.saturating_sub(self.pending.len() + self.filling.len());
            // All of a batch may have to be kept.
            let room = room.min(KEPT_MAX.saturating_sub(self.filling.len()));
            let room = room.min(TAKE_MAX).min(self.take_order.count_max(source));
            for _ in 0..room.min(self.refusals_max(source)) {
                let Ok(submission) = self.sources[source].submissions.peek().copied() else {
                    break;
                };
                if self.add_to_batch(source, &submission) == Push::BatchFull {
                    return taken;
                }
                let popped = self.sources[source].submissions.pop();
                assert!(popped.is_ok(), "what was seen in the ring is still there");
                self.take_order.took(source);
                taken += 1;
            }
        }
        taken
    }

    /// Returns the number of commands of a source that can be refused: no more are taken from it,
    /// since a lost refusal would hold a place in its session's window for ever.
    fn refusals_max(&self, source: usize) -> usize {
        match &self.sources[source].feedback {
            Some(feedback) if !self.is_stopping && !feedback.is_abandoned() => feedback.slots(),
            _ => usize::MAX,
        }
    }

    /// Returns true if commands wait until a gateway has read refusals.
    fn waits_for_gateway(&self) -> bool {
        let mut sources = self.sources.iter().enumerate();
        sources
            .any(|(index, source)| self.refusals_max(index) == 0 && !source.submissions.is_empty())
    }

    fn add_to_batch(&mut self, source: usize, submission: &Submission) -> Push {
        let t1 = self.recorder.now();
        self.entry.clear();
        submission.command.encode(&mut self.entry);
        let pushed = self.batch.push(&self.entry);
        if pushed == Push::BatchFull {
            return pushed;
        }
        let trace = submission.trace;
        self.recorder.record_at(trace, Point::T1, t1);
        let t2 = self.recorder.record(trace, Point::T2);
        let mut points = [Tsc::ZERO; 7];
        points[..3].copy_from_slice(&[submission.t0, t1, t2]);
        let (position, log_time) = (Position::NONE, Nanos(0));
        let pending = Pending { source, position, log_time, trace, points };
        self.filling.push((pending, submission.command));
        pushed
    }

    /// Begins the batch with the commands that the log refused before, in their order: a session's
    /// choice comes before its next loss.
    fn take_kept(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        let refused_from = kept.iter().position(|(source, submission)| {
            self.add_to_batch(*source, submission) == Push::BatchFull
        });
        kept.drain(..refused_from.unwrap_or(kept.len()));
        self.kept = kept;
    }

    /// Adds the ticks of this cycle when something is due in the engine.
    fn tick(&mut self, now: Nanos, log_now: Nanos) {
        if self.engine.next_deadline().is_none_or(|at| at > log_now) {
            return;
        }
        let tick = Submission::internal(Command::Tick);
        for _ in 0..self.ticks.ticks_now(now) {
            if self.add_to_batch(usize::MAX, &tick) == Push::BatchFull {
                break;
            }
            self.ticks.tick(now);
        }
    }

    /// Appends the batch under one log time.
    fn sequence(&mut self, now: Nanos, log_now: Nanos) {
        if self.batch.is_empty() {
            return;
        }
        let log_time = Nanos(log_now.0.max(self.log.last_log_time().0 + 1));
        match self.log.append(self.epoch, log_time, &self.batch) {
            Append::At { first } => {
                for (offset, (mut pending, command)) in (0..).zip(self.filling.drain(..)) {
                    pending.position = Position(first.0 + offset);
                    pending.log_time = log_time;
                    self.pending.push_back(pending);
                    self.commands.push_back(command);
                }
                self.batch.clear();
                self.figures.counters.batches.fetch_add(1, Ordering::Relaxed);
            }
            // The batch stays and is retried in the next cycle; until then `take` adds nothing.
            Append::Busy => {}
            Append::Full => self.refuse_batch(Reason::LogFull, now),
            Append::NotLeader => self.refuse_batch(Reason::PartitionAway, now),
        }
    }

    /// Refuses the batch's requests without an event, since the log did not take them. Kept for a
    /// later batch are definitions, choices and lost sessions, which no client would send again,
    /// and requests that were received before: a refusal would say that no log has them, and the
    /// answer to a mass cancel, say, may still come.
    fn refuse_batch(&mut self, reason: Reason, now: Nanos) {
        // Those that did not fit in the batch come behind those in it.
        let later = std::mem::take(&mut self.kept);
        let mut filling = std::mem::take(&mut self.filling);
        for (pending, command) in filling.drain(..) {
            self.refuse(pending.source, &command, reason);
        }
        self.filling = filling;
        self.kept.extend(later);
        self.batch.clear();
        self.kept_due = Nanos(now.0 + KEPT_RETRY);
    }

    /// Refuses the commands that wait in the sources while the log is full and others are kept for
    /// it: a batch of those alone may be full, and each request is answered. Returns the number of
    /// commands.
    fn refuse_waiting(&mut self) -> usize {
        let mut count = 0;
        let is_request = |command: &Command| matches!(command, Command::Request(_));
        let mut kept = self.kept.iter().filter(|(_, one)| is_request(&one.command)).count();
        let sources = &self.sources;
        self.take_order.look(|source| sources[source].submissions.slots());
        for source in 0..self.sources.len() {
            let seen = self.take_order.count_max(source).min(TAKE_MAX);
            for _ in 0..self.refusals_max(source).min(seen) {
                let Ok(submission) = self.sources[source].submissions.peek().copied() else {
                    break;
                };
                let is_repeat = self.has_received(&submission.command);
                if is_repeat && kept >= KEPT_MAX && !self.is_stopping {
                    break;
                }
                let popped = self.sources[source].submissions.pop();
                assert!(popped.is_ok(), "what was seen in the ring is still there");
                self.take_order.took(source);
                self.refuse(source, &submission.command, Reason::LogFull);
                kept += usize::from(is_repeat);
                count += 1;
            }
        }
        count
    }

    /// Returns true for a request that this partition has received before.
    fn has_received(&self, command: &Command) -> bool {
        let Command::Request(request) = command else { return false };
        let state = self.engine.session_state(request.session_id());
        request.request_no() <= state.last_request_no && !plant::is(Plant::RepeatRefused)
    }

    fn refuse(&mut self, source: usize, command: &Command, reason: Reason) {
        let Command::Request(request) = command else {
            match command {
                Command::Tick => self.ticks.refused(),
                _ => self.kept.push((source, Submission::internal(*command))),
            }
            return;
        };
        let (session_id, request_no, template_id) =
            (request.session_id(), request.request_no(), request.template_id());
        if self.has_received(command) {
            // At a stop it is not answered: its client sends it again to the next run.
            if !self.is_stopping {
                self.kept.push((source, Submission::internal(*command)));
            }
            return;
        }
        self.figures.counters.refused.fetch_add(1, Ordering::Relaxed);
        if plant::is(Plant::RefusedRequestKept) {
            self.kept.push((source, Submission::internal(*command)));
        }
        if plant::is(Plant::RefusalUntold) {
            return;
        }
        let refused = Feedback::Refused { session_id, request_no, template_id, reason };
        if let Some(feedback) = feedback_of(&mut self.sources, source) {
            let pushed = feedback.push(refused);
            let is_lost = pushed.is_err() && !self.is_stopping && !feedback.is_abandoned();
            assert!(!is_lost, "no more commands are taken than can be refused");
            self.views.iter().for_each(Wake::wake);
        }
    }

    /// Continues in an epoch of the log. All commands so far survive: lost ones would have been
    /// reported as [`Poll::Lost`].
    fn lead(&mut self, epoch: Epoch) {
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.ended.push_back((Position(self.log.next_position().0 - 1), epoch));
        self.tell_ends(self.engine.position().next());
    }

    /// Tells the views the ends of epochs before the command at `next`, once all events before it
    /// are in the tail.
    fn tell_ends(&mut self, next: Position) {
        while !self.outbox.has_backlog()
            && let Some((last_valid, epoch)) = self.ended.front().copied()
            && last_valid < next
        {
            self.ended.pop_front();
            self.publish();
            self.outbox.end_epoch(last_valid, epoch);
            self.views.iter().for_each(Wake::wake);
        }
    }

    /// Applies committed commands; returns their number.
    fn apply(&mut self, now: Nanos) -> usize {
        let has_part = self.outbox.begin_cycle(now);
        if has_part {
            self.publish();
        }
        if self.outbox.has_backlog() {
            return usize::from(has_part);
        }
        let committed = match self.log.poll() {
            Poll::Committed(position) => position,
            Poll::Leading(epoch) => {
                self.lead(epoch);
                return 0;
            }
            Poll::Lost { valid_to } => {
                panic!("the log is lost after position {valid_to}: it cannot go on")
            }
        };
        let t3 = self.recorder.now();
        let (mut applied, events_max) = (0, self.outbox.event_count() + EVENTS_MAX);
        while !self.outbox.has_backlog()
            && self.outbox.event_count() < events_max
            && self.pending.front().is_some_and(|pending| pending.position <= committed)
        {
            let Some(pending) = self.pending.pop_front() else { break };
            self.apply_one(&pending, t3);
            self.commands.pop_front();
            applied += 1;
            if applied % PUBLISH_EVERY == 0 {
                self.publish();
            }
        }
        if applied % PUBLISH_EVERY != 0 {
            self.publish();
        }
        if self.ticks.is_behind() && !self.is_due() {
            self.ticks.catch_up();
        }
        self.tell_ends(self.engine.position().next());
        applied
    }

    /// Returns true if something is due in the engine at its own time.
    fn is_due(&self) -> bool {
        self.engine.next_deadline().is_some_and(|at| at <= self.engine.time())
    }

    fn apply_one(&mut self, pending: &Pending, t3: Tsc) {
        let trace = pending.trace;
        self.recorder.record_at(trace, Point::T3, t3);
        let t4 = self.recorder.record(trace, Point::T4);
        let (position, log_time) = (pending.position, pending.log_time);
        self.tell_ends(position);
        if let Some(Command::SetLimits(_)) = self.commands.front() {
            self.write_limits();
        }
        let (commands, _) = self.commands.as_slices();
        let (command, ahead) = commands.split_first().expect("each pending one has its command");
        self.engine.prefetch(ahead);
        self.engine.apply(position, log_time, command, &mut self.outbox);
        let t5 = self.recorder.record(trace, Point::T5);
        match command {
            Command::Tick => self.ticks.applied(self.is_due()),
            Command::SetLimits(limits) => self.tell_new_limits(limits),
            _ => {}
        }
        if trace.is_some()
            && let Command::Request(request) = command
        {
            let asker = (request.session_id(), request.request_no());
            let mut points = pending.points;
            points[3..6].copy_from_slice(&[t3, t4, t5]);
            self.answered.push((pending.source, StageStamps { position, asker, trace, points }));
        }
        self.figures.counters.position.store(position.0, Ordering::Relaxed);
        self.figures.log_time.store(log_time.0, Ordering::Relaxed);
    }

    /// Sends the stage times, which must arrive before the events that they belong to.
    fn send_stamps(&mut self) {
        let t6 = self.recorder.now();
        for (source, mut stamps) in self.answered.drain(..) {
            self.recorder.record_at(stamps.trace, Point::T6, t6);
            stamps.points[6] = t6;
            if let Some(feedback) = feedback_of(&mut self.sources, source) {
                // A report without stage times is better than none: the refusals of a batch that
                // waits need their room.
                if feedback.slots() > TAKE_MAX {
                    let _ = feedback.push(Feedback::Stamps(stamps));
                }
            }
        }
    }

    fn publish(&mut self) {
        self.send_stamps();
        let figures = &self.figures;
        // Before the events: a client that has an answer looks here for the request's outcome.
        figures.tell_office(&self.engine);
        self.outbox.publish();
        self.views.iter().for_each(Wake::wake);
        figures.digest.store(self.engine.digest(), Ordering::Relaxed);
        figures
            .counters
            .live_orders
            .store(self.engine.live_order_count() as u64, Ordering::Relaxed);
        figures.counters.events.store(self.outbox.event_count(), Ordering::Relaxed);
    }

    /// Updates the figures of trades and debts, behind the events of a cycle.
    fn tell_trades(&mut self, now: Nanos) {
        if self.trades_told.is_due(&self.engine, now) {
            self.figures.tell_trades(&self.engine);
            let due = Nanos(now.0 + TRADES_INTERVAL);
            self.trades_told = TradesTold::new(&self.engine, due);
        }
    }

    /// Reports that the log's disk is full, or has room again.
    fn tell_full_log(&mut self) {
        let is_full = self.log.is_full();
        if is_full == self.is_log_full {
            return;
        }
        self.is_log_full = is_full;
        self.figures.counters.is_log_full.store(is_full, Ordering::Relaxed);
        let partition = self.engine.config().partition_id.0;
        if is_full {
            tracing::error!(
                partition,
                "the command log has no room, or no descriptor for its next file: requests are \
                 refused soon"
            );
        } else {
            tracing::info!(partition, "the command log has room again");
        }
    }

    /// Returns the log time of this cycle.
    fn read_log_time(&mut self, now: Nanos) -> Nanos {
        let log_now = self.log_time.at(now);
        if let Some(notice) = self.log_time.take_notice() {
            self.tell_log_time(notice);
        }
        let wall = self.log_time.wall();
        let counters = &self.figures.counters;
        counters.log_time_ahead_ns.store(log_now.since(wall).0, Ordering::Relaxed);
        counters.log_time_behind_ns.store(wall.since(log_now).0, Ordering::Relaxed);
        log_now
    }

    /// Reports a change in the way in which log time follows the wall clock.
    fn tell_log_time(&self, notice: Notice) {
        let partition = self.engine.config().partition_id.0;
        let ms = |of: Nanos| of.0 / 1_000_000;
        let counters = &self.figures.counters;
        match notice {
            Notice::Began(by) => {
                counters.log_time_start_jump_ns.store(by.0, Ordering::Relaxed);
                // Nothing is ever due in the control partition.
                if !self.engine.config().partition_id.is_none() {
                    tell_start(partition, by);
                }
            }
            Notice::Jumped { by, behind } => {
                counters.log_time_jumps.fetch_add(1, Ordering::Relaxed);
                let (by_ms, behind_ms) = (ms(by), ms(behind));
                tracing::warn!(
                    partition,
                    by_ms,
                    behind_ms,
                    "log time went forward to the wall clock: all that is due by then is due now"
                );
            }
            Notice::Ahead(by) => {
                counters.log_time_slowdowns.fetch_add(1, Ordering::Relaxed);
                let by_ms = ms(by);
                tracing::warn!(
                    partition,
                    by_ms,
                    "the wall clock is behind log time, which goes at half speed until they agree"
                );
            }
            Notice::Level => tracing::info!(partition, "log time is the wall clock again"),
        }
    }

    /// Returns true when the disk has had no room since [`STOP_WITHOUT_ROOM_MAX`]: the node stops
    /// without the commands that are not written, as after a crash.
    fn gives_up(&mut self, now: Nanos) -> bool {
        if !self.log.is_full() {
            self.without_room_since = None;
            return false;
        }
        let since = *self.without_room_since.get_or_insert(now);
        let gives_up = now.since(since).0 >= STOP_WITHOUT_ROOM_MAX;
        if gives_up {
            self.tell_no_room();
        }
        gives_up
    }

    fn tell_no_room(&self) {
        let (partition, count) = (self.engine.config().partition_id.0, self.pending.len());
        tracing::warn!(partition, count, "no room on the disk: it stops as after a crash");
    }

    /// Lets the log remove the commands that the shadow gave up: snapshots cover them.
    fn truncate_log(&mut self) {
        // SYNC: written by the shadow's thread; a number alone.
        let before = self.figures.counters.commands_from.load(Ordering::Relaxed);
        if before > self.truncated_before {
            self.truncated_before = before;
            self.log.truncate(Position(before));
        }
    }

    fn work_on_log(&mut self, now: Nanos) -> usize {
        self.truncate_log();
        match self.log.do_work(now) {
            Ok(done) => {
                // SYNC: read by the shadow's thread; a lower number than the newest keeps more.
                self.figures.counters.synced.store(self.log.synced().0, Ordering::Relaxed);
                done
            }
            Err(error) => {
                // The effect of a failed write is unknown; a restart recovers from the medium.
                // Continuing could acknowledge commands that are not there.
                abort("the command log failed", &error)
            }
        }
    }
}

/// Reports the way from the log's last command to the wall clock at the start. A long way is an
/// outage, a market in which nothing was due for so long, or a clock that is wrong: the log does
/// not tell them apart.
fn tell_start(partition: u16, by: Nanos) {
    let by_ms = by.0 / 1_000_000;
    if by >= START_JUMP_LONG {
        tracing::warn!(
            partition,
            by_ms,
            "the log's last command is more than a day old at the start: log time went forward \
             from it to the wall clock, and what is due by then is due now. An outage or an idle \
             market explains that; else the clock is wrong"
        );
    } else {
        tracing::info!(
            partition,
            by_ms,
            "log time went forward at the start, from the log's last command to the wall clock"
        );
    }
}

fn feedback_of(sources: &mut [SourcePort], source: usize) -> Option<&mut rtrb::Producer<Feedback>> {
    sources.get_mut(source).and_then(|port| port.feedback.as_mut())
}

impl<L: SequencedLog + Send> Agent for Partition<L> {
    fn name(&self) -> &'static str {
        "partition"
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.log_time.wall_clock_moved(wall);
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let log_now = self.read_log_time(now);
        let mut done = 0;
        if self.batch.is_empty() {
            if !self.kept.is_empty() && now < self.kept_due {
                done += self.refuse_waiting();
            } else {
                self.take_kept();
                // No request passes its session's choice or loss.
                if self.kept.is_empty() {
                    let taken = self.take();
                    if taken > 0 {
                        self.ticks.hear(now);
                    }
                    done += taken;
                }
                self.tick(now, log_now);
            }
        }
        self.sequence(now, log_now);
        if self.commits_at_append {
            // Sequenced commands are committed: answer first, write files when there is time.
            done += self.apply(now);
            if now >= self.log_due || !self.batch.is_empty() {
                self.log_due = Nanos(now.0 + LAZY_LOG_INTERVAL);
                self.work_on_log(now);
            }
        } else {
            done += self.work_on_log(now);
            done += self.apply(now);
        }
        self.figures.counters.uncommitted.store(self.pending.len() as u64, Ordering::Relaxed);
        self.tell_trades(now);
        self.tell_full_log();
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.batch.is_empty() {
            return Some(now);
        }
        if !self.kept.is_empty() || self.is_log_full || self.waits_for_gateway() {
            return Some(Nanos(now.0 + KEPT_RETRY));
        }
        if let Some(at) = self.outbox.due() {
            return Some(at);
        }
        let log_due = (self.commits_at_append && !self.log.is_idle()).then_some(self.log_due);
        let engine_due = self.engine.next_deadline().map(|at| self.log_time.due(at));
        let engine_due = engine_due.and_then(|due| self.ticks.next(due, now));
        let trades_due = self.trades_told.next_deadline(&self.engine);
        log_due.into_iter().chain(engine_due).chain(trades_due).min()
    }

    fn waits_for_disk(&self) -> bool {
        !self.commits_at_append && !self.pending.is_empty()
    }

    fn stop(&mut self, now: Nanos) -> bool {
        // The gateways have ended their sessions: nobody waits for refusals.
        self.is_stopping = true;
        self.do_work(now);
        let unread = self.sources.iter().any(|source| !source.submissions.is_empty());
        if !self.kept.is_empty() && !unread && self.batch.is_empty() {
            let partition = self.engine.config().partition_id.0;
            let count = self.kept.len();
            tracing::warn!(partition, count, "the full log took no more: commands");
        }
        let is_behind = !self.pending.is_empty() || self.outbox.has_backlog();
        if unread || !self.batch.is_empty() || is_behind || !self.log.is_idle() {
            return self.gives_up(now);
        }
        match self.log.flush_blocking() {
            Err(error) if error.is_no_room() => self.tell_no_room(),
            Err(error) => abort("the command log failed while stopping", &error),
            Ok(()) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests;
