//! Emulated cores that feed a store: changes at their due times, cut into batches, with the
//! lateness measured.
//!
//! An open loop in one thread. It does not spin: it sleeps until the oldest queued change has
//! waited for the plan's `batch_wait`, and cuts a batch then. A change is late when its batch was
//! handed to the connection later than that by more than the plan's allowance, for any cause: this
//! thread, the connection, or a store that is full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_types::{BatchNo, Epoch, Nanos, Reason, Seq};
use weir_wire::delivery::OrderRow;
use weir_wire::ingest::{BatchFlags, SourceReject};

use super::core::EmulatedCore;
use crate::clock::{Clock, nanos, sharpen_timers, unix_time};
use crate::connection::Target;
use crate::error::ClientError;
use crate::load::measure::histogram;
use crate::load::{Arrivals, Quantiles, Schedule, Verdict};
use crate::session::SessionConfig;
use crate::source::{PushError, SourceConfig, SourceEvent, SourceWriter};

/// The number of rows per batch of a full resend.
const RESEND_ROWS: usize = 256;
/// The most changes made before the connections are polled again.
const CHANGES_MAX: usize = 4_096;
/// The longest sleep, and the longest wait for the last acknowledgements.
const SLEEP_MAX: Nanos = Nanos(100_000_000);
const DRAIN: Nanos = Nanos(10_000_000_000);
/// The longest time for the first full resend.
const FILL_TIMEOUT: Duration = Duration::from_secs(120);
/// The interval at which a source that another connection still feeds is opened again.
const OPEN_RETRY: Nanos = Nanos(100_000_000);
const PROGRESS_INTERVAL: Nanos = Nanos(100_000_000);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct DrivePlan {
    /// The distribution of the changes in time.
    pub arrivals: Arrivals,
    /// Changes per second, all cores together.
    pub rate: f64,
    /// The seed of the due times; one seed gives one sequence.
    pub seed: u64,
    /// The time before measuring begins.
    pub warm_up: Duration,
    /// The duration of the measurement.
    pub duration: Duration,
    /// The most rows of a batch.
    pub batch_rows_max: usize,
    /// The longest time that a change waits for its batch to fill.
    pub batch_wait: Duration,
    /// A change is late if it is sent more than this after its due time plus `batch_wait`.
    pub late_after: Nanos,
    /// With a larger share of late changes the run gives no verdict.
    pub late_share_max: f64,
}

/// The result of a run; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveReport {
    /// The verdict on the cores' punctuality.
    pub verdict: Verdict,
    /// Changes per second in the measured time.
    pub rate_measured: f64,
    /// The share of changes that were sent late.
    pub late_share: f64,
    /// The time from a change's due time until its batch was handed to the connection.
    pub lag: Quantiles,
    /// The time from then until the store's acknowledgement was read.
    pub acknowledged: Quantiles,
    /// Rows per batch.
    pub batch_rows: Quantiles,
    /// Changes made, warm-up included.
    pub changes: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Connections lost.
    pub losses: u64,
    /// Full resends, the first one included.
    pub resends: u64,
    /// Batches without acknowledgement at the end.
    pub unacknowledged: u64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct DriveProgress {
    /// The time since the start, warm-up included.
    pub elapsed: Duration,
    /// Changes made.
    pub changes: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// The share of late changes so far.
    pub late_share: f64,
    /// Live orders over all cores.
    pub live: u64,
    /// Connections lost.
    pub losses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The source is being opened for a full resend.
    Opening,
    /// The full resend is under way; the index of the next live order.
    Resending(usize),
    /// Changes are sent as they are made.
    Live,
}

/// A core and its writer.
#[derive(Debug)]
struct Fed {
    core: EmulatedCore,
    writer: SourceWriter,
    config: SourceConfig,
    phase: Phase,
    /// Changes made and not yet handed over, with their due times in the run.
    batch: Vec<(OrderRow, Nanos)>,
    under_way: VecDeque<(BatchNo, Nanos)>,
    /// The time to open the source again.
    open_at: Option<Nanos>,
    resends: u64,
    losses: u64,
}

/// A group of cores that feed a store.
#[derive(Debug)]
pub struct CoreDriver {
    cores: Vec<Fed>,
    clock: Clock,
}

/// The state of a run.
struct Run<'a> {
    plan: &'a DrivePlan,
    schedule: Schedule,
    start: Nanos,
    /// The wall clock at `start`.
    base: Nanos,
    /// The core that makes the next change.
    turn: usize,
    lag: Histogram<u64>,
    acknowledged: Histogram<u64>,
    batch_rows: Histogram<u64>,
    late_count: u64,
    changes: u64,
    batches: u64,
}

impl CoreDriver {
    /// Creates the cores and their writers for a node's ingest listener. Nothing is sent yet.
    #[must_use]
    pub fn new(target: &Target, cores: Vec<(EmulatedCore, SessionConfig)>) -> CoreDriver {
        let feed = |(core, session): (EmulatedCore, SessionConfig)| {
            let config = SourceConfig::full(session.session_id, core.source_id(), Epoch(1));
            Fed {
                core,
                writer: SourceWriter::new(target.clone(), session, config),
                config,
                phase: Phase::Opening,
                batch: Vec::new(),
                under_way: VecDeque::new(),
                open_at: None,
                resends: 0,
                losses: 0,
            }
        };
        CoreDriver { cores: cores.into_iter().map(feed).collect(), clock: Clock::default() }
    }

    /// The cores.
    pub fn cores(&self) -> impl Iterator<Item = &EmulatedCore> {
        self.cores.iter().map(|fed| &fed.core)
    }

    /// Sends all orders of the cores, and waits until the store has acknowledged them.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when a source is refused for good, [`ClientError::Timeout`], or the
    /// error of a failed connection.
    pub fn fill(&mut self) -> Result<(), ClientError> {
        let deadline = Instant::now() + FILL_TIMEOUT;
        while self.cores.iter().any(|fed| fed.phase != Phase::Live || !fed.under_way.is_empty()) {
            for fed in &mut self.cores {
                fed.poll(self.clock.now(), None)?;
            }
            if Instant::now() > deadline {
                let failure = self.cores.iter_mut().find_map(|fed| fed.writer.take_failure());
                let timeout = FILL_TIMEOUT;
                return Err(failure
                    .unwrap_or(ClientError::Timeout { waiting_for: "a full resend", timeout }));
            }
            self.wait(Nanos(5_000_000))?;
        }
        Ok(())
    }

    /// Executes a plan and waits for its last acknowledgements. Calls `progress` about ten times a
    /// second.
    ///
    /// # Errors
    /// As [`CoreDriver::fill`]; a lost connection is no error.
    pub fn run(
        &mut self,
        plan: &DrivePlan,
        progress: &mut dyn FnMut(DriveProgress),
    ) -> Result<DriveReport, ClientError> {
        sharpen_timers();
        let mut run = Run::new(plan, self.clock.now());
        let total = nanos(plan.warm_up + plan.duration);
        let mut next_progress = Nanos(0);
        loop {
            let elapsed = self.clock.now().since(run.start);
            let is_over = elapsed >= total;
            if !is_over {
                self.make_changes(&mut run, elapsed);
            }
            for fed in &mut self.cores {
                fed.cut(&mut run, elapsed, is_over);
                fed.poll(self.clock.now(), Some(&mut run))?;
            }
            if elapsed >= next_progress {
                next_progress = Nanos(elapsed.0 + PROGRESS_INTERVAL.0);
                progress(self.progress(&run, elapsed));
            }
            let rests = self.cores.iter().all(|fed| fed.batch.is_empty() && fed.is_acknowledged());
            if is_over && (rests || elapsed > Nanos(total.0 + DRAIN.0)) {
                break;
            }
            let sleep = self.sleep(&run, self.clock.now().since(run.start), is_over);
            if sleep.0 > 0 {
                self.wait(sleep)?;
            }
        }
        Ok(self.report(&run))
    }

    /// Makes the changes that are due, round-robin over the cores, until a core cannot take one.
    fn make_changes(&mut self, run: &mut Run<'_>, elapsed: Nanos) {
        for _ in 0..CHANGES_MAX {
            let due = run.schedule.peek();
            if due > elapsed {
                break;
            }
            let fed = &mut self.cores[run.turn];
            if fed.phase != Phase::Live {
                break;
            }
            if fed.batch.len() >= run.plan.batch_rows_max {
                fed.cut(run, elapsed, true);
                if !fed.batch.is_empty() {
                    break;
                }
            }
            let row = fed.core.change(Nanos(run.base.0 + due.0));
            fed.batch.push((row, due));
            run.changes += 1;
            run.turn = (run.turn + 1) % self.cores.len();
            run.schedule.advance();
        }
    }

    /// Returns the time until the next batch is due.
    fn sleep(&self, run: &Run<'_>, elapsed: Nanos, is_over: bool) -> Nanos {
        let wait = nanos(run.plan.batch_wait).0;
        let oldest = self.cores.iter().filter_map(|fed| fed.batch.first()).map(|(_, due)| *due);
        let oldest = oldest.min().or_else(|| (!is_over).then(|| run.schedule.peek()));
        let until = oldest.map_or(SLEEP_MAX, |due| Nanos(due.0 + wait).since(elapsed));
        // An overdue batch waits for the store, whose acknowledgement ends the sleep.
        let is_stuck = until.0 == 0 && self.cores.iter().any(|fed| !fed.batch.is_empty());
        let full = |fed: &Fed| fed.batch.len() >= run.plan.batch_rows_max;
        if is_stuck && self.cores.iter().any(full) {
            Nanos(1_000_000)
        } else {
            until.min(SLEEP_MAX)
        }
    }

    fn wait(&self, timeout: Nanos) -> Result<(), ClientError> {
        let connections = self.cores.iter().filter_map(|fed| fed.writer.connection());
        crate::clock::wait(connections, Duration::from_nanos(timeout.0))
    }

    fn progress(&self, run: &Run<'_>, elapsed: Nanos) -> DriveProgress {
        DriveProgress {
            elapsed: Duration::from_nanos(elapsed.0),
            changes: run.changes,
            batches: run.batches,
            late_share: run.late_share(),
            live: self.cores.iter().map(|fed| fed.core.live().len() as u64).sum(),
            losses: self.cores.iter().map(|fed| fed.losses).sum(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of changes, for a rate")]
    fn report(&self, run: &Run<'_>) -> DriveReport {
        let left = self.cores.iter().map(|fed| fed.under_way.len() as u64).sum();
        let late_share = run.late_share();
        let verdict = if left > 0 || run.lag.is_empty() {
            Verdict::Unanswered
        } else if late_share > run.plan.late_share_max {
            Verdict::GeneratorLate
        } else {
            Verdict::Valid
        };
        DriveReport {
            verdict,
            rate_measured: run.lag.len() as f64 / run.plan.duration.as_secs_f64(),
            late_share,
            lag: Quantiles::of(&run.lag),
            acknowledged: Quantiles::of(&run.acknowledged),
            batch_rows: Quantiles::of(&run.batch_rows),
            changes: run.changes,
            batches: run.batches,
            losses: self.cores.iter().map(|fed| fed.losses).sum(),
            resends: self.cores.iter().map(|fed| fed.resends).sum(),
            unacknowledged: left,
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: &'a DrivePlan, start: Nanos) -> Run<'a> {
        Run {
            plan,
            schedule: Schedule::new(plan.arrivals.clone(), plan.rate, plan.seed),
            start,
            base: unix_time(),
            turn: 0,
            lag: histogram(),
            acknowledged: histogram(),
            batch_rows: histogram(),
            late_count: 0,
            changes: 0,
            batches: 0,
        }
    }

    fn is_measured(&self, due: Nanos) -> bool {
        due >= nanos(self.plan.warm_up)
    }

    /// Records that a change due at `due` was handed over at `now`.
    fn handed_over(&mut self, due: Nanos, now: Nanos) {
        if self.is_measured(due) {
            let lag = now.since(due).0;
            self.lag.saturating_record(lag);
            let allowed = nanos(self.plan.batch_wait).0 + self.plan.late_after.0;
            self.late_count += u64::from(lag > allowed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of changes, for a share")]
    fn late_share(&self) -> f64 {
        self.late_count as f64 / self.lag.len().max(1) as f64
    }
}

impl Fed {
    fn is_acknowledged(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Hands the queued changes to the writer if the oldest has waited long enough, the batch is
    /// full, or `at_once` is set.
    fn cut(&mut self, run: &mut Run<'_>, elapsed: Nanos, at_once: bool) {
        let Some((_, oldest)) = self.batch.first() else { return };
        let is_due = elapsed.0 >= oldest.0 + nanos(run.plan.batch_wait).0;
        let is_full = self.batch.len() >= run.plan.batch_rows_max;
        if self.phase != Phase::Live || !(at_once || is_due || is_full) {
            return;
        }
        let rows: Vec<_> =
            self.batch.iter().map(|(row, _)| (*row, self.core.attributes(row.rec))).collect();
        match self.writer.push(&rows, BatchFlags::default()) {
            Ok(batch_no) => {
                self.under_way.push_back((batch_no, elapsed));
                run.batch_rows.saturating_record(self.batch.len() as u64);
                for (_, due) in self.batch.drain(..) {
                    run.handed_over(due, elapsed);
                }
            }
            // The store accepts no more now; queued changes will count as late when they are sent.
            Err(PushError::Full { .. }) => {}
            Err(error) => panic!("an emulated core cuts batches that may be sent: {error}"),
        }
    }

    /// Sends, receives and continues a full resend.
    fn poll(&mut self, now: Nanos, mut run: Option<&mut Run<'_>>) -> Result<(), ClientError> {
        if self.open_at.take_if(|at| *at <= now).is_some() {
            self.writer.open_again();
        }
        self.resend();
        let mut events = Vec::new();
        match self.writer.poll(Duration::ZERO, |event| events.push(event)) {
            // The store was created anew or restored from a copy: everything is sent again.
            Err(ClientError::SourceHistory(other)) => self.begin(other.epoch),
            outcome => drop(outcome?),
        }
        if self.writer.take_failure().is_some() {
            self.losses += 1;
        }
        for event in events {
            match event {
                SourceEvent::Opened { head: (seq, _), .. } => self.opened(seq),
                SourceEvent::Acknowledged(batch_no) => {
                    self.acknowledged(batch_no, now, run.as_deref_mut());
                }
                SourceEvent::Refused(reject) => self.refused(&reject, now)?,
                SourceEvent::SentAgain { .. } | SourceEvent::NotOurs => {}
            }
        }
        Ok(())
    }

    fn opened(&mut self, head: Seq) {
        if self.phase == Phase::Opening {
            self.core.number_again(head);
            self.phase = Phase::Resending(0);
            self.resends += 1;
        }
    }

    fn acknowledged(&mut self, batch_no: BatchNo, now: Nanos, mut run: Option<&mut Run<'_>>) {
        while let Some((no, sent)) = self.under_way.front().copied()
            && no <= batch_no
        {
            self.under_way.pop_front();
            if let Some(run) = &mut run {
                run.batches += 1;
                if run.is_measured(sent) {
                    run.acknowledged.saturating_record(now.since(Nanos(run.start.0 + sent.0)).0);
                }
            }
        }
    }

    fn refused(&mut self, reject: &SourceReject, now: Nanos) -> Result<(), ClientError> {
        match reject.reason {
            Reason::ResendNeeded | Reason::ResendNeedsEpoch | Reason::EpochWentBack => {
                self.begin(reject.epoch);
                Ok(())
            }
            Reason::SourceAlreadyOpen => {
                self.open_at = Some(Nanos(now.0 + OPEN_RETRY.0));
                Ok(())
            }
            reason => Err(ClientError::Refused {
                request: "OpenSource or SourceBatch",
                reason,
                subject: format!("source {}, row {}", reject.source_id, reject.row_no),
            }),
        }
    }

    /// Begins a full resend in the epoch after the one that the store knows.
    fn begin(&mut self, known: Epoch) {
        let epoch = Epoch(known.0.max(self.config.epoch.0) + 1);
        self.config = SourceConfig { epoch, ..self.config };
        self.phase = Phase::Opening;
        // The full resend covers both.
        self.batch.clear();
        self.under_way.clear();
        self.writer.begin(self.config);
    }

    /// Hands over as much of a full resend as the writer accepts.
    fn resend(&mut self) {
        while let Phase::Resending(from) = self.phase {
            let live = self.core.live();
            let to = live.len().min(from + RESEND_ROWS);
            let rows: Vec<_> =
                live[from..to].iter().map(|row| (*row, self.core.attributes(row.rec))).collect();
            let mut flags = BatchFlags::default();
            if from == 0 {
                flags = flags.with(BatchFlags::RESEND_BEGIN);
            }
            if to == live.len() {
                flags = flags.with(BatchFlags::RESEND_END);
            }
            match self.writer.push(&rows, flags) {
                Ok(batch_no) => {
                    self.under_way.push_back((batch_no, Nanos(0)));
                    self.phase = if to == live.len() { Phase::Live } else { Phase::Resending(to) };
                }
                Err(PushError::Full { .. }) => break,
                Err(error) => panic!("an emulated core cuts batches that may be sent: {error}"),
            }
        }
    }
}
