//! A crowd of followers of order state, each with its filter and its own connection, and their
//! measured delays.
//!
//! One thread drives them all and sleeps while nothing comes. A row's delay is measured by the wall
//! clock from the time of the change that it carries until its page was read; it is meaningful only
//! if the writer runs on this machine's clock and stamps changes with their due time.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_types::{AccountId, FirmId, InstrumentId, Nanos, PartitionId, Reason};

use crate::client::{Client, Incoming};
use crate::clock::{Clock, nanos, sharpen_timers, unix_time};
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::follower::{Follower, FollowerConfig, PageEvent, RowEvent};
use crate::load::Quantiles;
use crate::load::measure::histogram;
use crate::readiness::Readiness;
use crate::session::{SessionConfig, SessionEvent};

const LIMITS: Limits = Limits {
    frame_len_max: 4 << 20,
    outbox_len_max: 64 << 10,
    connect_timeout: Duration::from_secs(10),
};
const LOGON_TIMEOUT: Duration = Duration::from_secs(20);
const LOGON_RETRY: Duration = Duration::from_millis(20);
/// The longest time until every member is ONLINE.
const ONLINE_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest sleep.
const SLEEP_MAX: Nanos = Nanos(10_000_000);
/// The number of members checked every `CARE_INTERVAL`, in rotation: their heartbeats go out even
/// if nothing comes in.
const CARE_COUNT: usize = 16;
const CARE_INTERVAL: Nanos = Nanos(20_000_000);
const PROGRESS_INTERVAL: Nanos = Nanos(100_000_000);

/// The orders that a member wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// All orders.
    All,
    /// Orders of a firm.
    Firm(FirmId),
    /// Orders of an account.
    Account(AccountId),
    /// Orders of an instrument.
    Instrument(InstrumentId),
}

/// A follower of the crowd.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its session, the only one on its connection.
    pub session: SessionConfig,
    /// The orders that it wants.
    pub interest: Interest,
    /// The index of its class in the plan.
    pub class: usize,
}

/// The parameters of a crowd's fetches.
#[derive(Clone, Debug)]
pub struct CrowdPlan {
    /// The names of the members' classes; each class has its own figures.
    pub classes: Vec<String>,
    /// The source of the orders; none for the node's own.
    pub source_id: PartitionId,
    /// The most rows of a page; zero for the node's own limit.
    pub rows_max: u32,
    /// A page waits for this many rows until `wait_max_us` has passed.
    pub rows_min: u32,
    /// The longest time that a page may wait, in microseconds.
    pub wait_max_us: u32,
    /// Only live orders.
    pub live_only: bool,
    /// The time before measuring begins, once all members are ONLINE.
    pub warm_up: Duration,
    /// The duration of the measurement.
    pub duration: Duration,
}

/// The figures of a class of members in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// The class.
    pub class: String,
    /// The number of its members.
    pub members: usize,
    /// Nanoseconds from a change's creation to the reading of its row, over all rows.
    pub delay: Quantiles,
    /// The same for the oldest row of each page, as in the page's header.
    pub oldest: Quantiles,
    /// Rows per page, over pages with rows.
    pub page_rows: Quantiles,
    /// The number of pages with rows.
    pub pages: u64,
    /// The number of pages without rows.
    pub empty_pages: u64,
    /// The number of rows.
    pub rows: u64,
    /// The number of changes merged into other rows.
    pub merged: u64,
    /// The number of RESYNCs.
    pub resyncs: u64,
    /// The number of fetches refused temporarily and sent again.
    pub asked_again: u64,
}

/// The figures of a crowd.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrowdReport {
    /// By class, in the plan's order.
    pub classes: Vec<ClassReport>,
    /// Seconds until all members were ONLINE.
    pub online_after: f64,
    /// The number of members disconnected or refused.
    pub lost: u64,
    /// The reason of the first loss.
    pub lost_why: Option<String>,
}

/// The counters of a class during a run.
#[derive(Debug)]
pub struct ClassFigures {
    /// Its name.
    pub class: String,
    /// The number of its members.
    pub members: usize,
    /// Delays of rows in nanoseconds.
    pub delay: Histogram<u64>,
    /// Delays of pages' oldest rows in nanoseconds.
    pub oldest: Histogram<u64>,
    /// Rows per page.
    pub page_rows: Histogram<u64>,
    /// The number of pages without rows.
    pub empty_pages: u64,
    /// The number of rows.
    pub rows: u64,
    /// The number of changes merged into other rows.
    pub merged: u64,
    /// The number of RESYNCs.
    pub resyncs: u64,
    /// The number of fetches refused temporarily and sent again.
    pub asked_again: u64,
}

struct Reader {
    client: Client,
    follower: Follower,
    class: usize,
}

/// A crowd that is logged on.
pub struct Crowd {
    readers: Vec<Option<Reader>>,
    readiness: Readiness,
    plan: CrowdPlan,
    figures: Vec<ClassFigures>,
    clock: Clock,
    ready: Vec<usize>,
    /// Members whose fetches were refused temporarily.
    resting: Vec<usize>,
    cared_for: usize,
    care_at: Nanos,
    lost: u64,
    lost_why: Option<String>,
    online_after: f64,
    /// The start of the measurement by the wall clock; changes before it, or without it, are not
    /// measured.
    measured_from: Option<Nanos>,
}

impl Crowd {
    /// Connects and logs on each member, and sends its first fetch.
    ///
    /// # Errors
    /// As [`Client::log_on`]. A logon with a key that the node does not know yet is repeated for a
    /// while.
    ///
    /// # Panics
    /// When a member's class is none of the plan's.
    pub fn connect(
        target: &Target,
        plan: CrowdPlan,
        members: &[Member],
    ) -> Result<Crowd, ClientError> {
        let clock = Clock::default();
        let mut figures: Vec<_> = plan.classes.iter().map(|name| ClassFigures::new(name)).collect();
        let mut readers: Vec<Option<Reader>> = Vec::new();
        for member in members {
            figures[member.class].members += 1;
            let client = log_on(target, member.session)?;
            let follower = Follower::new(question(&plan, member), Vec::new());
            readers.push(Some(Reader { client, follower, class: member.class }));
        }
        for reader in readers.iter_mut().flatten() {
            reader.follower.ask(reader.client.outbox());
            reader.client.flush()?;
        }
        let connections = readers.iter().flatten().map(|reader| reader.client.connection());
        let readiness = Readiness::of(connections)?;
        Ok(Crowd {
            readers,
            readiness,
            plan,
            figures,
            clock,
            ready: Vec::new(),
            resting: Vec::new(),
            cared_for: 0,
            care_at: Nanos(0),
            lost: 0,
            lost_why: None,
            online_after: 0.0,
            measured_from: None,
        })
    }

    /// Follows until all members are ONLINE; returns the seconds that it took.
    ///
    /// # Errors
    /// [`ClientError::Timeout`]; a lost member is counted and not waited for.
    pub fn until_online(&mut self) -> Result<f64, ClientError> {
        let begun = Instant::now();
        while !self.is_online() {
            if begun.elapsed() > ONLINE_TIMEOUT {
                let (waiting_for, timeout) = ("all orders that there are", ONLINE_TIMEOUT);
                return Err(ClientError::Timeout { waiting_for, timeout });
            }
            self.turn()?;
        }
        self.online_after = begun.elapsed().as_secs_f64();
        Ok(self.online_after)
    }

    /// Follows for the plan's warm-up and duration. Calls `progress` about ten times a second with
    /// the figures so far.
    ///
    /// # Errors
    /// [`ClientError::Io`] when epoll fails; a lost member is only counted.
    pub fn run(
        mut self,
        progress: &mut dyn FnMut(&[ClassFigures], Duration),
    ) -> Result<CrowdReport, ClientError> {
        sharpen_timers();
        let start = self.clock.now();
        let total = nanos(self.plan.warm_up + self.plan.duration);
        let mut next_progress = Nanos(0);
        loop {
            let elapsed = self.clock.now().since(start);
            if elapsed >= total {
                break;
            }
            if self.measured_from.is_none() && elapsed >= nanos(self.plan.warm_up) {
                self.measured_from = Some(unix_time());
            }
            if elapsed >= next_progress {
                next_progress = Nanos(elapsed.0 + PROGRESS_INTERVAL.0);
                progress(&self.figures, Duration::from_nanos(elapsed.0));
            }
            self.turn()?;
        }
        let classes = self.figures.iter().map(ClassFigures::report).collect();
        let online_after = self.online_after;
        Ok(CrowdReport { classes, online_after, lost: self.lost, lost_why: self.lost_why })
    }

    fn is_online(&self) -> bool {
        self.readers.iter().flatten().all(|reader| reader.follower.is_online())
    }

    /// Sleeps until a member is readable and processes its messages.
    fn turn(&mut self) -> Result<(), ClientError> {
        self.readiness.wait(Duration::from_nanos(SLEEP_MAX.0))?;
        let mut ready = std::mem::take(&mut self.ready);
        self.readiness.take(&mut ready)?;
        let now = self.clock.now();
        if now >= self.care_at {
            self.care_at = Nanos(now.0 + CARE_INTERVAL.0);
            for _ in 0..CARE_COUNT.min(self.readers.len()) {
                self.cared_for = (self.cared_for + 1) % self.readers.len();
                ready.push(self.cared_for);
            }
        }
        self.resting.retain(|place| {
            let rests = self.readers[*place].as_ref().and_then(|reader| reader.follower.rest(now));
            ready.extend(rests.filter(Duration::is_zero).map(|_| *place));
            rests.is_some()
        });
        for place in ready.drain(..) {
            self.take(place)?;
        }
        self.ready = ready;
        Ok(())
    }

    /// Processes a member's messages.
    fn take(&mut self, place: usize) -> Result<(), ClientError> {
        let Some(reader) = &mut self.readers[place] else { return Ok(()) };
        let (follower, figures) = (&mut reader.follower, &mut self.figures[reader.class]);
        let (measured_from, clock) = (self.measured_from, self.clock);
        let mut now = Nanos(0);
        if follower.ask_when_due(clock.now(), reader.client.outbox()) {
            figures.asked_again += 1;
        }
        let mut failure = None;
        let received = reader.client.receive(|incoming, out| {
            // All messages of one read get one time: they were available at the same moment.
            if now.0 == 0 {
                now = unix_time();
            }
            if let Incoming::Session(_, SessionEvent::Refused { reject, .. }) = &incoming {
                failure = failure.take().or(follower.on_reject(reject, clock.now()).err());
                return;
            }
            let taken = hear(follower, figures, incoming, out, measured_from, now);
            failure = failure.take().or(taken.err());
        });
        match failure.or(received.err()) {
            None => {
                if reader.follower.rest(clock.now()).is_some() && !self.resting.contains(&place) {
                    self.resting.push(place);
                }
                self.readiness.note(place, reader.client.connection())
            }
            Some(error) => {
                self.lost += 1;
                self.lost_why.get_or_insert_with(|| error.to_string());
                self.readers[place] = None;
                Ok(())
            }
        }
    }
}

fn hear(
    follower: &mut Follower,
    figures: &mut ClassFigures,
    incoming: Incoming<'_>,
    out: &mut Vec<u8>,
    measured_from: Option<Nanos>,
    now: Nanos,
) -> Result<(), ClientError> {
    match incoming {
        Incoming::Page(page, token) => {
            let event = follower.on_page(&page, token, out)?;
            let Some(from) = measured_from else { return Ok(()) };
            match event {
                PageEvent::Page { row_count: 0, .. } => figures.empty_pages += 1,
                PageEvent::Page { row_count, merged_count, .. } => {
                    figures.page_rows.saturating_record(u64::from(row_count));
                    figures.merged += u64::from(merged_count);
                    if page.oldest_transact_time >= from {
                        let delay = now.since(page.oldest_transact_time);
                        figures.oldest.saturating_record(delay.0);
                    }
                }
                PageEvent::Resync(_) => figures.resyncs += 1,
                PageEvent::NotOurs => {}
            }
        }
        Incoming::Rows(body, rows) => {
            follower.on_rows(&body, rows, |event| {
                let Some(from) = measured_from else { return };
                figures.rows += 1;
                if let RowEvent::State(row, _) = event
                    && row.transact_time >= from
                {
                    figures.delay.saturating_record(now.since(row.transact_time).0);
                }
            })?;
        }
        Incoming::Sources(states, sources) => {
            follower.on_sources(&states, sources)?;
        }
        _ => {}
    }
    Ok(())
}

fn question(plan: &CrowdPlan, member: &Member) -> FollowerConfig {
    let mut config = FollowerConfig {
        source_id: plan.source_id,
        rows_max: plan.rows_max,
        rows_min: plan.rows_min,
        wait_max_us: plan.wait_max_us,
        live_only: plan.live_only,
        ..FollowerConfig::new(member.session.session_id)
    };
    match member.interest {
        Interest::All => {}
        Interest::Firm(firm_id) => config.firm_id = firm_id,
        Interest::Account(account_id) => config.account_id = account_id,
        Interest::Instrument(instrument_id) => config.instrument_id = instrument_id,
    }
    config
}

fn log_on(target: &Target, session: SessionConfig) -> Result<Client, ClientError> {
    let deadline = Instant::now() + LOGON_TIMEOUT;
    loop {
        let mut client = Client::connect(target.clone(), LIMITS)?;
        match client.log_on(session, LOGON_TIMEOUT) {
            Ok(()) => return Ok(client),
            // The gateway may not have imported a session defined a moment ago.
            Err(ClientError::LogonRejected {
                reason: Reason::UnknownKey | Reason::KeyExpired | Reason::UnknownSession,
                ..
            }) if Instant::now() < deadline => std::thread::sleep(LOGON_RETRY),
            Err(error) => return Err(error),
        }
    }
}

impl ClassFigures {
    fn new(class: &str) -> ClassFigures {
        ClassFigures {
            class: class.to_owned(),
            members: 0,
            delay: histogram(),
            oldest: histogram(),
            page_rows: histogram(),
            empty_pages: 0,
            rows: 0,
            merged: 0,
            resyncs: 0,
            asked_again: 0,
        }
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn report(&self) -> ClassReport {
        ClassReport {
            class: self.class.clone(),
            members: self.members,
            delay: Quantiles::of(&self.delay),
            oldest: Quantiles::of(&self.oldest),
            page_rows: Quantiles::of(&self.page_rows),
            pages: self.page_rows.len(),
            empty_pages: self.empty_pages,
            rows: self.rows,
            merged: self.merged,
            resyncs: self.resyncs,
            asked_again: self.asked_again,
        }
    }
}
