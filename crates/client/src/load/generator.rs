//! The generator's loop: sends the orders that are due, receives answers, and waits in between.
//!
//! One thread drives any number of sessions over any number of connections. On few cores it sleeps
//! with nanosecond timeouts until shortly before the next order is due, and spins for the rest,
//! since a sleeping core wakes late; it spins for at most a fifth of the time, since that core time
//! is taken from the node. Orders that became due while it slept or was preempted are sent at once,
//! their latency counted from their due time.
//!
//! After [`Generator::ride_over`] a lost connection does not end a run: its sessions log on again,
//! resume their events and send unanswered requests again under the same numbers. Orders that
//! became due meanwhile are sent then, their latency counted from their due time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_types::{AccountId, ExecType, Nanos, PartitionId, Reason, RequestNo, SessionId};
use weir_wire::Request;
use weir_wire::event::OrderEvent;

use super::measure::{LoadReport, Recorder};
use crate::admin::CONTROL;
use crate::client::{Client, Incoming};
use crate::clock::{Clock, WaitStrategy, sharpen_timers};
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::readiness::Readiness;
use crate::request::cancel_all;
use crate::session::{Session, SessionConfig, SessionEvent, Submit, Times, UnansweredRequest};

/// The longest time to spin when parking: about the wake-up delay of a sleeping core.
const SPIN_MAX: Nanos = Nanos(20_000);
/// Shorter waits are always spun, whatever the budget: no sleep is as short.
const SLEEP_MIN: Nanos = Nanos(3_000);
/// The spin budget: one in this many nanoseconds.
const SPIN_SHARE: u64 = 5;
/// The most orders due at once that are sent before answers are read.
const BATCH_MAX: u32 = 64;
/// Up to this many connections are polled one by one: epoll would cost more.
const FEW: usize = 4;
/// The number of connections whose answers are read before an order that has become due is sent.
const TAKE_MIN: usize = 8;
/// The interval at which one idle connection, in rotation, is checked.
const CARE_INTERVAL: Nanos = Nanos(1_000_000);
/// The longest wait for the last answers.
const DRAIN: Nanos = Nanos(5_000_000_000);
/// The number of connections opened before their sessions log on: a node limits the time until the
/// first logon, and opening many connections takes long.
const CONNECT_BATCH: usize = 64;
const LOGON_RETRY: Duration = Duration::from_millis(10);
/// The pause between attempts to reconnect.
const RECONNECT_RETRY: Duration = Duration::from_millis(50);
const LOGON_TIMEOUT: Duration = Duration::from_secs(10);
const PROGRESS_INTERVAL: Nanos = Nanos(100_000_000);

/// The pace of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Open loop: orders are sent at their due times.
    Open,
    /// Closed loop: this many requests are in flight at any time, whatever their due times.
    Window(u32),
}

/// A source of orders: the next due time, the trader, the request.
pub trait OrderGenerator {
    /// The next due time, since the start of the run; `None` at the end. Never decreases.
    fn peek(&self) -> Option<Nanos>;

    /// Returns the next order: the index of its trader, its partition, the request.
    fn next(&mut self) -> (usize, PartitionId, Request);

    /// Notifies the source of a change of a trader's order.
    fn on_report(&mut self, trader: usize, event: &OrderEvent);
}

/// A session of a load and its account.
#[derive(Clone, Copy, Debug)]
pub struct Trader {
    /// The session.
    pub session: SessionConfig,
    /// Its account.
    pub account_id: AccountId,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The pace.
    pub pace: Pace,
    /// The time before measuring begins.
    pub warm_up: Duration,
    /// The duration of the measurement.
    pub duration: Duration,
    /// The wait strategy.
    pub wait: WaitStrategy,
    /// An order is late if it is sent more than this after its due time.
    pub late_after: Nanos,
    /// With a larger share of late orders the run gives no verdict.
    pub late_share_max: f64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The time since the start, warm-up included.
    pub elapsed: Duration,
    /// The total of warm-up and measurement.
    pub total: Duration,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// The median latency so far, in ns.
    pub median: u64,
}

/// Sessions that are logged on and ready to send.
#[derive(Debug)]
pub struct Generator {
    clients: Vec<Client>,
    /// Each trader's connection and the session's index there.
    traders: Vec<(usize, usize)>,
    /// The trader of each session.
    places: HashMap<SessionId, usize>,
    clock: Clock,
    /// The longest time to reconnect after a loss; zero: a loss ends the run.
    reconnect_within: Duration,
}

/// The state of a run other than the connections.
struct Run<'a> {
    plan: &'a LoadPlan,
    source: &'a mut dyn OrderGenerator,
    recorder: Recorder,
    start: Nanos,
    under_way: u64,
    /// The time spun, and the due time last spun for.
    spun: Nanos,
    spun_for: Nanos,
    /// The readiness of the connections; none if they are few.
    readiness: Option<Readiness>,
    ready: Vec<usize>,
    /// Connections with bytes to send.
    touched: Vec<usize>,
    /// The idle connection checked last, and the time of the next check.
    cared_for: usize,
    care_at: Nanos,
}

impl Generator {
    /// Logs `traders` on over `connection_count` connections, assigned round-robin.
    ///
    /// # Errors
    /// As [`Client::log_on`].
    ///
    /// # Panics
    /// Without traders or connections.
    pub fn connect(
        target: impl Into<Target>,
        traders: &[Trader],
        connection_count: usize,
    ) -> Result<Generator, ClientError> {
        let target = target.into();
        let deadline = Instant::now() + LOGON_TIMEOUT;
        loop {
            match Generator::try_connect(&target, traders, connection_count) {
                Err(ClientError::LogonRejected { reason, .. })
                    if is_key_on_its_way(reason) && Instant::now() < deadline =>
                {
                    std::thread::sleep(LOGON_RETRY);
                }
                outcome => return outcome,
            }
        }
    }

    fn try_connect(
        target: &Target,
        traders: &[Trader],
        connection_count: usize,
    ) -> Result<Generator, ClientError> {
        assert!(!traders.is_empty() && connection_count > 0, "a load needs sessions");
        let connection_count = connection_count.min(traders.len());
        let limits = Limits { outbox_len_max: 64 << 20, ..Limits::default() };
        let clock = Clock::default();
        let mut clients: Vec<Client> = Vec::new();
        let mut places = HashMap::new();
        let mut seats = vec![(0, 0); traders.len()];
        while clients.len() < connection_count {
            let first = clients.len();
            for connection in first..connection_count.min(first + CONNECT_BATCH) {
                let mut client = Client::connect(target.clone(), limits)?;
                client.set_clock(clock);
                for index in (connection..traders.len()).step_by(connection_count) {
                    let session = traders[index].session;
                    seats[index] = (connection, client.sessions().len());
                    places.insert(session.session_id, index);
                    client.start_logon(Session::new(session));
                }
                clients.push(client);
            }
            for client in &mut clients[first..] {
                client.wait_until_open(LOGON_TIMEOUT, &mut |_, _| {})?;
            }
            // Sends heartbeats of the open sessions while others log on.
            for client in &mut clients[..first] {
                client.poll(Duration::ZERO, |_, _| {})?;
            }
        }
        let reconnect_within = Duration::ZERO;
        Ok(Generator { clients, traders: seats, places, clock, reconnect_within })
    }

    /// Makes runs continue after a lost connection, if it comes back within `reconnect_within`.
    #[must_use]
    pub fn ride_over(self, reconnect_within: Duration) -> Generator {
        Generator { reconnect_within, ..self }
    }

    /// Executes a plan and waits for its last answers. Calls `progress` about ten times a second,
    /// between sends.
    ///
    /// # Errors
    /// Those of the connection.
    ///
    /// # Panics
    /// When the source names an unknown trader.
    pub fn run(
        &mut self,
        plan: &LoadPlan,
        source: &mut dyn OrderGenerator,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LoadReport, ClientError> {
        if plan.wait == WaitStrategy::Park {
            sharpen_timers();
        }
        let readiness = self.watch()?;
        let mut run = Run::new(plan, source, self.clock.now(), readiness);
        let mut next_progress = run.start;
        let mut end = None;
        loop {
            let now = self.clock.now();
            let is_over = run.elapsed(now) >= run.total() || run.source.peek().is_none();
            if is_over {
                let end = *end.get_or_insert(now);
                if run.under_way == 0 || now.since(end) > DRAIN {
                    break;
                }
            }
            if now >= next_progress {
                next_progress = Nanos(now.0 + PROGRESS_INTERVAL.0);
                progress(run.progress(now));
            }
            if !is_over {
                self.send(&mut run)?;
            }
            self.wait_for_something(&mut run)?;
            self.take(&mut run)?;
        }
        run.recorder.counts.unanswered = run.under_way;
        let total = run.total().min(end.unwrap_or(run.start).since(run.start));
        let measured = total.since(crate::clock::nanos(plan.warm_up));
        Ok(run.recorder.report(measured, plan.late_share_max))
    }

    /// Watches the connections by epoll, if they are too many to poll one by one.
    fn watch(&self) -> Result<Option<Readiness>, ClientError> {
        let is_worth_it = self.clients.len() > FEW;
        is_worth_it.then(|| Readiness::of(self.clients.iter().map(Client::connection))).transpose()
    }

    /// Sends the orders due now, one batch at most, with one write per connection.
    fn send(&mut self, run: &mut Run<'_>) -> Result<(), ClientError> {
        for _ in 0..BATCH_MAX {
            let now = self.clock.now();
            let Some(due) = run.take_due(now) else { break };
            let (trader, partition_id, request) = run.source.next();
            let (index, session) = self.traders[trader];
            let client = &mut self.clients[index];
            let times = Times { due, sent: now };
            match client.submit_at(session, partition_id, request, times) {
                Submit::Sent(_) => {
                    run.recorder.counts.sent += 1;
                    run.under_way += 1;
                }
                Submit::Full => run.recorder.counts.held_back += 1,
                Submit::NotOpen => {
                    return Err(ClientError::NotOpen(client.sessions()[session].session_id()));
                }
            }
            if !run.touched.contains(&index) {
                run.touched.push(index);
            }
        }
        let mut touched = std::mem::take(&mut run.touched);
        for index in touched.drain(..) {
            if let Err(error) = self.clients[index].flush() {
                self.reconnect(index, error, run)?;
            }
            if let Some(readiness) = &mut run.readiness {
                readiness.note(index, self.clients[index].connection())?;
            }
        }
        run.touched = touched;
        Ok(())
    }

    fn wait_for_something(&self, run: &mut Run<'_>) -> Result<(), ClientError> {
        match run.plan.wait {
            WaitStrategy::Spin => std::hint::spin_loop(),
            WaitStrategy::Yield => std::thread::yield_now(),
            WaitStrategy::Park => {
                let sleep = Duration::from_nanos(run.sleep(self.clock.now()).0);
                match &run.readiness {
                    _ if sleep.is_zero() => {}
                    Some(readiness) => readiness.wait(sleep)?,
                    None => {
                        crate::clock::wait(self.clients.iter().map(Client::connection), sleep)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads answers from the ready connections, until an order is due.
    fn take(&mut self, run: &mut Run<'_>) -> Result<(), ClientError> {
        let mut ready = std::mem::take(&mut run.ready);
        match &mut run.readiness {
            Some(readiness) => readiness.take(&mut ready)?,
            None => ready.extend(0..self.clients.len()),
        }
        run.care(self.clock.now(), self.clients.len(), &mut ready);
        for (taken, index) in ready.drain(..).enumerate() {
            // Unread answers can wait; a late order stays late.
            if taken < TAKE_MIN || !run.is_due(self.clock.now()) {
                self.take_from(index, run)?;
            }
            if let Some(readiness) = &mut run.readiness {
                readiness.note(index, self.clients[index].connection())?;
            }
        }
        run.ready = ready;
        Ok(())
    }

    fn take_from(&mut self, index: usize, run: &mut Run<'_>) -> Result<(), ClientError> {
        let (clock, places) = (self.clock, &self.places);
        let mut now = Nanos(0);
        let received = self.clients[index].receive(|incoming, _| {
            // All messages of one read get one time: they were available at the same moment.
            if now.0 == 0 {
                now = clock.now();
            }
            run.on_incoming(incoming, places, now);
        });
        received.map(drop).or_else(|error| self.reconnect(index, error, run))
    }

    /// Reconnects a client after a loss that a reconnect may mend; events that were missed count as
    /// any other.
    fn reconnect(
        &mut self,
        index: usize,
        lost: ClientError,
        run: &mut Run<'_>,
    ) -> Result<(), ClientError> {
        if self.reconnect_within.is_zero() || !lost.is_passing() {
            return Err(lost);
        }
        let within = self.reconnect_within;
        let (clock, places) = (self.clock, &self.places);
        bring_back(&mut self.clients[index], within, &mut |incoming| {
            run.on_incoming(incoming, places, clock.now());
        })?;
        run.recorder.counts.reconnects += 1;
        if run.readiness.is_some() {
            run.readiness = self.watch()?;
        }
        Ok(())
    }

    /// Reads answers until no request of an earlier run is unanswered. After
    /// [`Generator::ride_over`] a lost connection is opened again, and the wait begins anew.
    ///
    /// # Errors
    /// Those of the connection; [`ClientError::Timeout`].
    pub fn settle(&mut self, timeout: Duration) -> Result<(), ClientError> {
        let until = |clock: &Clock| Nanos(clock.now().0 + crate::clock::nanos(timeout).0);
        let within = self.reconnect_within;
        let mut deadline = until(&self.clock);
        for client in &mut self.clients {
            while client.sessions().iter().any(|session| session.unanswered_count() > 0) {
                let left = deadline.since(self.clock.now());
                if left.0 == 0 {
                    return Err(ClientError::Timeout { waiting_for: "answers", timeout });
                }
                match client.poll(Duration::from_nanos(left.0), |_, _| {}) {
                    Ok(_) => {}
                    Err(lost) if !within.is_zero() && lost.is_passing() => {
                        bring_back(client, within, &mut |_| {})?;
                        deadline = until(&self.clock);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Cancels all orders and closes the sessions. After [`Generator::ride_over`] a connection that
    /// is lost before the cancels are answered is opened again; one that is lost later has nothing
    /// left to do.
    ///
    /// # Errors
    /// Those of the connection; [`ClientError::Timeout`].
    pub fn close(mut self, timeout: Duration) -> Result<(), ClientError> {
        for client in &mut self.clients {
            for index in 0..client.sessions().len() {
                let partitions: Vec<_> = client.sessions()[index].partitions().collect();
                for partition_id in partitions.into_iter().filter(|p| *p != CONTROL) {
                    let request = cancel_all(partition_id);
                    // If the request is not accepted, the session's orders stay; `settle` below
                    // reports open requests.
                    let _ = client.submit_at(index, partition_id, request, Times::default());
                }
            }
        }
        self.settle(timeout)?;
        let may_be_lost = !self.reconnect_within.is_zero();
        self.clients.into_iter().try_for_each(|client| match client.log_out(timeout) {
            Err(lost) if may_be_lost && lost.is_passing() => Ok(()),
            outcome => outcome,
        })
    }
}

/// Reconnects a client after a loss; its sessions resume and send unanswered requests again.
///
/// # Errors
/// The last error, if it does not pass within `within`.
fn bring_back(
    client: &mut Client,
    within: Duration,
    on_incoming: &mut dyn FnMut(Incoming<'_>),
) -> Result<(), ClientError> {
    let deadline = Instant::now() + within;
    loop {
        match client.reconnect(LOGON_TIMEOUT, &mut |incoming, _| on_incoming(incoming)) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() < deadline && may_come_back(&error) => {
                std::thread::sleep(RECONNECT_RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns true for a refusal that a recent definition explains: gateways import a session a moment
/// after the operator's request was answered.
fn is_key_on_its_way(reason: Reason) -> bool {
    matches!(reason, Reason::UnknownKey | Reason::KeyExpired | Reason::UnknownSession)
}

/// Returns true for an error of a node that is down, starts, or recovers.
fn may_come_back(error: &ClientError) -> bool {
    let is_key_awaited = match error {
        ClientError::LogonRejected { reason, .. } => is_key_on_its_way(*reason),
        _ => false,
    };
    error.is_passing() || is_key_awaited
}

/// Returns true for an answer to a request that had one: an acceptance, a replace or a refusal that
/// names a request which is not open any more.
#[inline]
fn is_second_answer(event: &SessionEvent) -> bool {
    match event {
        SessionEvent::Report { report, answered: None } => {
            let is_answer = matches!(
                report.event.exec_type,
                ExecType::New | ExecType::Replaced | ExecType::Rejected
            );
            is_answer && report.event.request_no != RequestNo::NONE
        }
        SessionEvent::Rejected { answered: None, rejected } => {
            rejected.request_no != RequestNo::NONE
        }
        SessionEvent::Done { answered: None, done } => done.request_no != RequestNo::NONE,
        _ => false,
    }
}

impl<'a> Run<'a> {
    fn new(
        plan: &'a LoadPlan,
        source: &'a mut dyn OrderGenerator,
        start: Nanos,
        readiness: Option<Readiness>,
    ) -> Run<'a> {
        Run {
            plan,
            source,
            recorder: Recorder::new(plan.late_after),
            start,
            under_way: 0,
            spun: Nanos(0),
            spun_for: Nanos(0),
            readiness,
            ready: Vec::new(),
            touched: Vec::new(),
            cared_for: 0,
            care_at: start,
        }
    }

    /// Adds a connection to the ready ones at the interval of checks: its heartbeats go out even if
    /// nothing comes in.
    fn care(&mut self, now: Nanos, count: usize, ready: &mut Vec<usize>) {
        if now < self.care_at {
            return;
        }
        self.care_at = Nanos(now.0 + CARE_INTERVAL.0);
        self.cared_for = (self.cared_for + 1) % count;
        if !ready.contains(&self.cared_for) {
            ready.push(self.cared_for);
        }
    }

    /// Returns true if an order of the open loop is to be sent now.
    fn is_due(&self, now: Nanos) -> bool {
        let due = self.source.peek().filter(|_| self.plan.pace == Pace::Open);
        due.is_some_and(|due| due < self.total() && due <= now.since(self.start))
    }

    fn elapsed(&self, now: Nanos) -> Nanos {
        now.since(self.start)
    }

    fn total(&self) -> Nanos {
        crate::clock::nanos(self.plan.warm_up + self.plan.duration)
    }

    /// Returns the next order's due time, if it is due by `now`.
    #[inline]
    fn take_due(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.source.peek()?;
        match self.plan.pace {
            Pace::Open => self.is_due(now).then(|| Nanos(self.start.0 + due.0)),
            Pace::Window(window) => (self.under_way < u64::from(window)).then_some(now),
        }
    }

    /// Returns the time until there is something to send.
    fn idle(&self, now: Nanos) -> Nanos {
        let elapsed = self.elapsed(now);
        let until_end = self.total().since(elapsed);
        if until_end.0 == 0 {
            return PROGRESS_INTERVAL;
        }
        match (self.plan.pace, self.source.peek()) {
            (Pace::Open, Some(due)) => due.since(elapsed).min(until_end),
            _ => PROGRESS_INTERVAL.min(until_end),
        }
    }

    /// Returns the time to sleep; zero to poll the sockets once more.
    fn sleep(&mut self, now: Nanos) -> Nanos {
        let idle = self.idle(now);
        if self.plan.pace != Pace::Open || idle <= SLEEP_MIN {
            return if idle <= SLEEP_MIN { Nanos(0) } else { idle };
        }
        let due = Nanos(now.0 + idle.0);
        // The same due time, seen again a little later in the same spin.
        if due == self.spun_for {
            return Nanos(0);
        }
        if self.spun.0 * SPIN_SHARE > self.elapsed(now).0 {
            return idle;
        }
        if idle <= SPIN_MAX {
            self.spun.0 += idle.0;
            self.spun_for = due;
            return Nanos(0);
        }
        idle.since(SPIN_MAX)
    }

    fn progress(&self, now: Nanos) -> Progress {
        Progress {
            elapsed: Duration::from_nanos(self.elapsed(now).0),
            total: self.plan.warm_up + self.plan.duration,
            sent: self.recorder.counts.sent,
            answered: self.recorder.counts.answered,
            median: self.recorder.median(),
        }
    }

    #[inline]
    fn on_incoming(
        &mut self,
        incoming: Incoming<'_>,
        places: &HashMap<SessionId, usize>,
        now: Nanos,
    ) {
        if let Incoming::Session(session_id, event) = incoming {
            if let SessionEvent::Report { report, .. } = &event {
                self.source.on_report(places[&session_id], &report.event);
            }
            self.on_event(&event, now);
        }
    }

    #[inline]
    fn on_event(&mut self, event: &SessionEvent, now: Nanos) {
        let counts = &mut self.recorder.counts;
        counts.answered_again += u64::from(is_second_answer(event));
        match event {
            SessionEvent::Report { report, answered } => {
                counts.reports += 1;
                counts.trades += u64::from(report.event.exec_type == ExecType::Trade);
                counts.rejected += u64::from(report.event.exec_type == ExecType::Rejected);
                if let Some(answered) = answered
                    && self.on_answer(answered, now)
                {
                    let round_trip = now.since(answered.times.sent);
                    self.recorder.record_stages(&report.stage_times, round_trip);
                }
            }
            SessionEvent::Rejected { answered: Some(answered), .. } => {
                counts.rejected += 1;
                self.on_answer(answered, now);
            }
            SessionEvent::Refused { answered: Some(answered), .. } => {
                counts.refused += 1;
                self.on_answer(answered, now);
            }
            SessionEvent::Done { answered: Some(answered), .. } => {
                self.on_answer(answered, now);
            }
            _ => {}
        }
    }

    /// Counts an answer; returns true when it belongs to the measured time.
    #[inline]
    fn on_answer(&mut self, answered: &UnansweredRequest, now: Nanos) -> bool {
        // A late answer to a request of an earlier run does not count.
        if answered.times.due < self.start {
            return false;
        }
        self.recorder.counts.answered += 1;
        self.under_way -= 1;
        let is_measured =
            self.elapsed(answered.times.due).0 >= crate::clock::nanos(self.plan.warm_up).0;
        if is_measured {
            self.recorder.record(answered.times, now);
        }
        is_measured
    }
}
