//! The loop that sends what is due, takes what comes, and waits in between.
//!
//! One thread drives any number of sessions over any number of connections. On few cores it
//! sleeps with nanosecond timeouts until the next order is due or an answer is there, and never
//! spins for longer than [`SPIN_MAX`]: spinning would take the core that the node needs. Orders
//! that became due while it slept or was kept from the core are sent at once, their latency
//! counted from when they were due.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_types::{
    AccountId, ClOrdId, ExecType, FirmId, InstrumentId, MassCancelScope, Nanos, PartitionId,
    Reason, RequestNo, SessionId,
};
use weir_wire::Request;
use weir_wire::order_entry::MassCancel;

use super::Rng;
use super::arrivals::{Arrivals, Schedule};
use super::measure::{LoadReport, Recorder};
use super::mix::{Listing, Mix, Orders};
use crate::admin::CONTROL;
use crate::client::{Client, Incoming};
use crate::clock::{Clock, WaitStrategy, sharpen_timers, wait_ready};
use crate::connection::Limits;
use crate::error::ClientError;
use crate::session::{Session, SessionConfig, SessionEvent, Submit, Times, Unanswered};

/// The longest time to spin for when parking: a sleep would come back later than this.
pub const SPIN_MAX: Nanos = Nanos(4_000);
/// Orders that are due at once go out in writes of at most so many.
const BATCH_MAX: u32 = 64;
/// How long to wait for the last answers.
const DRAIN: Nanos = Nanos(5_000_000_000);
const LOGON_RETRY: Duration = Duration::from_millis(10);
const LOGON_TIMEOUT: Duration = Duration::from_secs(10);
const PROGRESS_INTERVAL: Nanos = Nanos(100_000_000);

/// How fast orders come.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// An open loop: orders per second, spread as the arrivals say.
    Open(Arrivals, f64),
    /// A closed loop: so many requests are under way at any time.
    Window(u32),
}

/// A session of a load and the account that it trades for.
#[derive(Clone, Copy, Debug)]
pub struct Trader {
    /// The session.
    pub session: SessionConfig,
    /// Its account.
    pub account_id: AccountId,
}

/// A run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// How fast.
    pub pace: Pace,
    /// Which orders.
    pub mix: Mix,
    /// What is traded.
    pub listings: Vec<Listing>,
    /// How long before measuring begins.
    pub warm_up: Duration,
    /// How long is measured.
    pub duration: Duration,
    /// How to wait.
    pub wait: WaitStrategy,
    /// An order sent later than this after it was due was late.
    pub late_after: Nanos,
    /// With a larger share of late orders there is no verdict.
    pub late_share_max: f64,
    /// One seed, one sequence of orders and due times.
    pub seed: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Warm-up and measured time together.
    pub total: Duration,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// The median latency so far, in ns.
    pub median: u64,
}

/// Sessions that are logged on and ready to send, and the orders that they have in the book.
#[derive(Debug)]
pub struct Generator {
    clients: Vec<Client>,
    /// By connection, by session.
    orders: Vec<Vec<Orders>>,
    /// Where each session is in `orders`.
    places: HashMap<SessionId, (usize, usize)>,
    clock: Clock,
}

/// A run under way: what it needs besides the connections and the orders.
struct Run<'a> {
    plan: &'a LoadPlan,
    recorder: Recorder,
    rng: Rng,
    schedule: Option<Schedule>,
    start: Nanos,
    turn: usize,
    under_way: u64,
}

impl Generator {
    /// Logs `traders` on over `connection_count` connections, dealt out in turn; each keeps at
    /// most `live_count_max` orders in the book.
    ///
    /// # Errors
    /// As [`Client::log_on`].
    ///
    /// # Panics
    /// Without traders or connections.
    pub fn connect(
        address: SocketAddr,
        traders: &[Trader],
        sizes: (usize, usize),
    ) -> Result<Generator, ClientError> {
        let deadline = Instant::now() + LOGON_TIMEOUT;
        loop {
            match Generator::try_connect(address, traders, sizes) {
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
        address: SocketAddr,
        traders: &[Trader],
        (connection_count, live_count_max): (usize, usize),
    ) -> Result<Generator, ClientError> {
        assert!(!traders.is_empty() && connection_count > 0, "a load needs sessions");
        let connection_count = connection_count.min(traders.len());
        let limits = Limits { outbox_len_max: 64 << 20, ..Limits::default() };
        let clock = Clock::default();
        let mut clients = Vec::new();
        for _ in 0..connection_count {
            let mut client = Client::connect(address, limits)?;
            client.set_clock(clock);
            clients.push(client);
        }
        let mut orders: Vec<Vec<Orders>> = clients.iter().map(|_| Vec::new()).collect();
        let mut places = HashMap::new();
        // Names go on from the time of day, so that they differ from an earlier run's.
        let first_name = crate::clock::unix_time().0;
        for (index, trader) in traders.iter().enumerate() {
            let connection = index % connection_count;
            clients[connection].start_logon(Session::new(trader.session));
            places.insert(trader.session.session_id, (connection, orders[connection].len()));
            orders[connection].push(Orders::new(trader.account_id, live_count_max, first_name));
        }
        for client in &mut clients {
            client.wait_until_open(LOGON_TIMEOUT, &mut |_, _| {})?;
        }
        Ok(Generator { clients, orders, places, clock })
    }

    /// Carries out a plan and waits for its last answers. `progress` is called about ten times a
    /// second, between sends.
    ///
    /// # Errors
    /// The connection's.
    ///
    /// # Panics
    /// When the plan lists nothing to trade.
    pub fn run(
        &mut self,
        plan: &LoadPlan,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LoadReport, ClientError> {
        assert!(!plan.listings.is_empty(), "a load needs something to trade");
        if plan.wait == WaitStrategy::Park {
            sharpen_timers();
        }
        let mut run = Run::new(plan, self.clock.now());
        let mut next_progress = run.start;
        loop {
            let now = self.clock.now();
            let is_over = run.elapsed(now) >= run.total();
            if is_over && (run.under_way == 0 || run.elapsed(now).0 > run.total().0 + DRAIN.0) {
                break;
            }
            if now >= next_progress {
                next_progress = Nanos(now.0 + PROGRESS_INTERVAL.0);
                progress(run.progress(now));
            }
            if !is_over {
                self.send(&mut run)?;
            }
            self.wait_for_something(&run)?;
            self.take(&mut run)?;
        }
        run.recorder.counts.unanswered = run.under_way;
        let duration = crate::clock::nanos(plan.duration);
        Ok(run.recorder.report(duration, plan.late_share_max))
    }

    /// Sends what is due now, a batch at most, each connection's share in one write.
    fn send(&mut self, run: &mut Run<'_>) -> Result<(), ClientError> {
        let mut touched = 0u64;
        for _ in 0..BATCH_MAX {
            let now = self.clock.now();
            let Some(due) = run.take_due(now) else { break };
            let index = run.turn % self.clients.len();
            let session = run.turn / self.clients.len() % self.orders[index].len();
            let client = &mut self.clients[index];
            let orders = &mut self.orders[index][session];
            run.turn = run.turn.wrapping_add(1);
            let request = orders.next(&run.plan.mix, &run.plan.listings, &mut run.rng);
            match client.submit_at(session, request, Times { due, sent: now }) {
                Submit::Sent(_) => {
                    run.recorder.counts.sent += 1;
                    run.under_way += 1;
                }
                Submit::Full => run.recorder.counts.held_back += 1,
                Submit::NotOpen => {
                    return Err(ClientError::NotOpen(client.sessions()[session].session_id()));
                }
            }
            touched |= 1 << (index % 64);
        }
        for (index, client) in self.clients.iter_mut().enumerate() {
            if touched >> (index % 64) & 1 == 1 {
                client.flush()?;
            }
        }
        Ok(())
    }

    fn wait_for_something(&self, run: &Run<'_>) -> Result<(), ClientError> {
        match run.plan.wait {
            WaitStrategy::Spin => std::hint::spin_loop(),
            WaitStrategy::Yield => std::thread::yield_now(),
            WaitStrategy::Park => {
                let idle = run.idle(self.clock.now());
                // Too short to sleep: look at the sockets once more and come back.
                if idle > SPIN_MAX {
                    let connections = self.clients.iter().map(Client::connection);
                    crate::clock::wait(connections, Duration::from_nanos(idle.0))?;
                }
            }
        }
        Ok(())
    }

    /// Takes what came on the connections that have something.
    fn take(&mut self, run: &mut Run<'_>) -> Result<(), ClientError> {
        // Asking which of a few can be read costs more than trying.
        let ready = if self.clients.len() > 4 {
            Some(wait_ready(self.clients.iter().map(Client::connection), Duration::ZERO)?)
        } else {
            None
        };
        for (index, client) in self.clients.iter_mut().enumerate() {
            if ready.as_ref().is_some_and(|ready| !ready[index]) {
                continue;
            }
            let (clock, orders, places) = (self.clock, &mut self.orders, &self.places);
            let mut now = Nanos(0);
            client.receive(|incoming, _| {
                if let Incoming::Session(session_id, event) = incoming {
                    // One read, one time: all that it brought was there at the same moment.
                    if now.0 == 0 {
                        now = clock.now();
                    }
                    if let SessionEvent::Report { report, .. } = &event {
                        let (connection, session) = places[&session_id];
                        orders[connection][session].on_report(&report.event);
                    }
                    run.on_event(&event, now);
                }
            })?;
        }
        Ok(())
    }

    /// Takes all orders out of the book and closes the sessions.
    ///
    /// # Errors
    /// The connection's; [`ClientError::Timeout`].
    pub fn close(mut self, timeout: Duration) -> Result<(), ClientError> {
        let deadline = Nanos(self.clock.now().0 + crate::clock::nanos(timeout).0);
        for client in &mut self.clients {
            for index in 0..client.sessions().len() {
                let partitions: Vec<_> = client.sessions()[index].partitions().collect();
                for partition_id in partitions.into_iter().filter(|p| *p != CONTROL) {
                    let request = mass_cancel(partition_id);
                    // A session that is full or gone keeps its orders: the wait below tells.
                    let _ = client.submit_at(index, (partition_id, request), Times::default());
                }
            }
            while client.sessions().iter().any(|session| session.unanswered_count() > 0) {
                let left = deadline.since(self.clock.now());
                if left.0 == 0 {
                    return Err(ClientError::Timeout { waiting_for: "mass cancels", timeout });
                }
                client.poll(Duration::from_nanos(left.0), |_, _| {})?;
            }
        }
        self.clients.into_iter().try_for_each(|client| client.log_out(timeout))
    }
}

/// True for a refusal that a session defined a moment ago explains: gateways learn of it a moment
/// after the operator was told that it is defined.
fn is_key_on_its_way(reason: Reason) -> bool {
    matches!(reason, Reason::UnknownKey | Reason::NotYourSession | Reason::UnknownSession)
}

fn mass_cancel(partition_id: PartitionId) -> Request {
    Request::MassCancel(MassCancel {
        request_no: RequestNo::NONE,
        cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: SessionId::NONE,
        instrument_id: InstrumentId::NONE,
        account_id: AccountId::NONE,
        firm_id: FirmId::NONE,
        partition_id,
        scope: MassCancelScope::Session,
    })
}

impl<'a> Run<'a> {
    fn new(plan: &'a LoadPlan, start: Nanos) -> Run<'a> {
        let schedule = match &plan.pace {
            Pace::Open(arrivals, rate) => Some(Schedule::new(arrivals.clone(), *rate, plan.seed)),
            Pace::Window(_) => None,
        };
        Run {
            plan,
            recorder: Recorder::new(plan.late_after),
            rng: Rng::new(plan.seed ^ 0x5eed),
            schedule,
            start,
            turn: 0,
            under_way: 0,
        }
    }

    fn elapsed(&self, now: Nanos) -> Nanos {
        now.since(self.start)
    }

    fn total(&self) -> Nanos {
        crate::clock::nanos(self.plan.warm_up + self.plan.duration)
    }

    /// When an order is due that is due by `now`.
    #[inline]
    fn take_due(&mut self, now: Nanos) -> Option<Nanos> {
        let total = self.total();
        match (&mut self.schedule, &self.plan.pace) {
            (Some(schedule), _) => {
                let due = schedule.peek();
                if due >= total || due > now.since(self.start) {
                    return None;
                }
                schedule.advance();
                Some(Nanos(self.start.0 + due.0))
            }
            (None, Pace::Window(window)) => (self.under_way < u64::from(*window)).then_some(now),
            (None, Pace::Open(..)) => unreachable!("an open loop has a schedule"),
        }
    }

    /// How long there is nothing to do unless something comes.
    fn idle(&self, now: Nanos) -> Nanos {
        let elapsed = self.elapsed(now);
        let until_end = self.total().since(elapsed);
        let until_due = match &self.schedule {
            Some(schedule) if until_end.0 > 0 => schedule.peek().since(elapsed),
            _ => PROGRESS_INTERVAL,
        };
        until_due.min(if until_end.0 > 0 { until_end } else { PROGRESS_INTERVAL })
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
    fn on_event(&mut self, event: &SessionEvent, now: Nanos) {
        let counts = &mut self.recorder.counts;
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

    /// Counts an answer; true when it belongs to the measured time.
    #[inline]
    fn on_answer(&mut self, answered: &Unanswered, now: Nanos) -> bool {
        // A request of an earlier run that is answered late is not this run's.
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
