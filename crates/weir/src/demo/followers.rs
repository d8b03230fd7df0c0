//! Two followers of order state, each a client of its own on its own thread: one of everything,
//! one of a single instrument.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_client::clock::unix_time;
use weir_client::follower::RowEvent;
use weir_client::load::setup::fresh_key;
use weir_client::request::session_by_key;
use weir_client::{
    Admin, Client, ClientError, Follower, FollowerConfig, Incoming, Limits, SessionConfig, Target,
};
use weir_node::status::{LatencyReport, StatusReport};
use weir_probe::Histogram;
use weir_types::{FirmId, InstrumentId, Role, SessionId};

use crate::endpoint::TIMEOUT;

/// The followers' sessions count up from here.
const FIRST_SESSION: u32 = 90;

/// A follower's result.
pub(super) struct FollowerReport {
    /// Its filter.
    pub(super) name: &'static str,
    /// Rows read.
    pub(super) rows: u64,
    /// Changes that the rows stand for.
    pub(super) changes: u64,
    /// From the log's time of a change to its row in the follower's hands.
    pub(super) delay: LatencyReport,
}

struct Running {
    online: Arc<AtomicBool>,
    rows: Arc<AtomicU64>,
    thread: JoinHandle<Result<FollowerReport, ClientError>>,
}

/// The running followers.
pub(super) struct Followers {
    stopping: Arc<AtomicBool>,
    all: Vec<Running>,
}

impl Followers {
    /// Defines two supervisors and starts a follower as each.
    pub(super) fn start(
        target: &Target,
        admin: &mut Admin,
        instrument_id: InstrumentId,
    ) -> anyhow::Result<Followers> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut all = Vec::new();
        let wanted = [("all orders", InstrumentId::NONE), ("one instrument", instrument_id)];
        for (session, (name, instrument_id)) in (FIRST_SESSION..).map(SessionId).zip(wanted) {
            let key = fresh_key()?;
            let role = Role::Supervisor;
            admin.define_session(session_by_key(session, FirmId::NONE, role, &key))?;
            let config = FollowerConfig { instrument_id, ..FollowerConfig::new(session) };
            let mut client = Client::connect(target.clone(), Limits::default())?;
            client.log_on(SessionConfig::new(session, key), TIMEOUT)?;
            let (online, rows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let task = Task {
                name,
                client,
                follower: Follower::new(config, Vec::new()),
                stopping: stopping.clone(),
                online: online.clone(),
                rows: rows.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("follower-{session}"))
                .spawn(move || task.run())?;
            all.push(Running { online, rows, thread });
        }
        Ok(Followers { stopping, all })
    }

    /// True when each has read up to the newest state at least once since it last read rows.
    pub(super) fn are_online(&self) -> bool {
        self.all.iter().all(|follower| follower.online.load(Ordering::Relaxed))
    }

    /// The number of changes that the delivery store must hold: as many as rows were read.
    pub(super) fn wanted(&self, _report: &StatusReport) -> u64 {
        self.all.iter().map(|follower| follower.rows.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Ends the followers and collects what they have to tell.
    pub(super) fn stop(self) -> anyhow::Result<Vec<FollowerReport>> {
        self.stopping.store(true, Ordering::Relaxed);
        let mut reports = Vec::new();
        for follower in self.all {
            match follower.thread.join() {
                Ok(report) => reports.push(report?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(reports)
    }
}

struct Task {
    name: &'static str,
    client: Client,
    follower: Follower,
    stopping: Arc<AtomicBool>,
    online: Arc<AtomicBool>,
    rows: Arc<AtomicU64>,
}

impl Task {
    fn run(mut self) -> Result<FollowerReport, ClientError> {
        let mut delay = Histogram::new();
        let mut changes = 0u64;
        self.follower.ask(self.client.outbox());
        while !self.stopping.load(Ordering::Relaxed) {
            self.poll(&mut delay, &mut changes)?;
        }
        self.client.log_out(TIMEOUT)?;
        Ok(FollowerReport {
            name: self.name,
            rows: self.rows.load(Ordering::Relaxed),
            changes,
            delay: LatencyReport::of(self.name, &delay.snapshot()),
        })
    }

    fn poll(&mut self, delay: &mut Histogram, changes: &mut u64) -> Result<(), ClientError> {
        let (follower, rows) = (&mut self.follower, &self.rows);
        let mut failed = None;
        self.client.poll(Duration::from_millis(100), |incoming, outbox| {
            let outcome = match incoming {
                Incoming::Page(page, token) => follower.on_page(&page, token, outbox).map(drop),
                Incoming::Rows(body, page) => {
                    let now = unix_time();
                    let taken = follower.on_rows(&body, page, |event| {
                        if let RowEvent::State(row, _) = event {
                            rows.fetch_add(1, Ordering::Relaxed);
                            *changes += 1 + u64::from(row.merged_count);
                            delay.record(now.since(row.transact_time).0);
                        }
                    });
                    taken.map(drop)
                }
                Incoming::Sources(states, sources) => {
                    follower.on_sources(&states, sources).map(drop)
                }
                Incoming::Session(..)
                | Incoming::CopyState(_)
                | Incoming::Copy(..)
                | Incoming::CopyMark(_)
                | Incoming::Source(_)
                | Incoming::Broker(_)
                | Incoming::Market(_) => Ok(()),
            };
            if let Err(error) = outcome {
                failed = Some(error);
            }
        })?;
        self.online.store(self.follower.is_online(), Ordering::Relaxed);
        failed.map_or(Ok(()), Err)
    }
}
