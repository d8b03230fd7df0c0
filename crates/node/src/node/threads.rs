//! The threads of a node: their wakes, their shares of the cores, and the order in which they start
//! and stop.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_gateway::Gateway;
use weir_io::WakeFd;
use weir_orderstate::cold::COLD_SHARE;
use weir_orderstate::replica::ReplicaAgent;
use weir_orderstate::stores::snapshots::SnapshotWriter;
use weir_partition::archive::agent::ArchiveAgent;
use weir_partition::shadow_agent;
use weir_probe::thread::Share;
use weir_runtime::fd_poller::FdPoller;
use weir_runtime::{Agent, Beat, Runner, RunningThread, WaitStrategy, Wake};
use weir_web::HubAgent;

use super::assembly::Assembly;
use super::builder::Views;
use super::probes::KEEPER_SHARE;

/// The time that the gateway has to submit its remaining input when the node stops.
const DRAIN_TIME: Duration = Duration::from_millis(20);
/// The time that a stop waits for a thread without which it may go on.
const LEFT_AFTER: Duration = Duration::from_secs(10);

/// With few cores, an order's sender gets its answer before the followers.
pub const DELIVERY_SHARE: Share = Share::Fair { niceness: 5 };
/// Sessions that are up to date get their answers before those that catch up.
pub(super) const HISTORY_SHARE: Share = Share::Fair { niceness: 5 };
/// Logged-on sessions take precedence over newcomers.
pub(super) const NEWCOMERS_SHARE: Share = Share::Fair { niceness: 5 };

/// The threads' wakes, created before the threads.
pub(super) struct Wakes {
    pub(super) newcomers: Wake,
    pub(super) history: Wake,
    pub(super) gateway: Wake,
    pub(super) partition: Wake,
    pub(super) delivery: Wake,
    pub(super) web: Wake,
    pub(super) ingest: Wake,
    pub(super) replica: Wake,
    pub(super) subscriptions: Wake,
    pub(super) cold: Wake,
    pub(super) links: Wake,
}

impl Wakes {
    pub(super) fn new(fused: bool) -> Wakes {
        let gateway = Wake::new();
        let partition = if fused { gateway.clone() } else { Wake::new() };
        Wakes {
            newcomers: Wake::new(),
            history: Wake::new(),
            gateway,
            partition,
            delivery: Wake::new(),
            web: Wake::new(),
            ingest: Wake::new(),
            replica: Wake::new(),
            subscriptions: Wake::new(),
            cold: Wake::new(),
            links: Wake::new(),
        }
    }
}

/// The threads of a node that is starting, in the order in which they stop. If the start fails,
/// they are stopped: their logs are closed then, and another start can have them.
pub(super) struct StartingThreads {
    pub(super) threads: Vec<RunningThread>,
    draining: Arc<AtomicBool>,
}

impl StartingThreads {
    pub(super) fn new(draining: Arc<AtomicBool>) -> StartingThreads {
        StartingThreads { threads: Vec::new(), draining }
    }

    /// Returns the threads of a node that has started.
    pub(super) fn started(mut self) -> Vec<RunningThread> {
        std::mem::take(&mut self.threads)
    }
}

impl Drop for StartingThreads {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            // A start that fails has an error of its own, and the panic was told when it came.
            let _ = stop_in_order(&mut self.threads, &self.draining);
        }
    }
}

/// Stops the threads of a node: takes no more input, then ends them one after the other, so that
/// each has received all from those before it when it stops. One that had panicked leaves the
/// others to their end: their sessions get a logout, and their files closing marks. One that waits
/// for its disk is left after a while if it may be, and ends with the process.
///
/// # Errors
/// The first panic that ended a thread.
pub(super) fn stop_in_order(
    threads: &mut [RunningThread],
    draining: &AtomicBool,
) -> std::thread::Result<()> {
    stop_leaving(threads, draining, LEFT_AFTER)
}

fn stop_leaving(
    threads: &mut [RunningThread],
    draining: &AtomicBool,
    left_after: Duration,
) -> std::thread::Result<()> {
    draining.store(true, Ordering::Relaxed);
    std::thread::sleep(DRAIN_TIME);
    let mut outcome = Ok(());
    // Those of partitions with their own end together: one that waits for its disk must not keep
    // the others from their closing marks.
    threads.iter().filter(|thread| thread.stops_early()).for_each(RunningThread::ask_to_stop);
    // One deadline for them all: their disk may be the same.
    let early_until = Instant::now() + left_after;
    let mut late = Vec::new();
    for thread in threads {
        thread.ask_to_stop();
        let may_go_on = thread.may_be_left() || thread.joins_late();
        let patience = match thread.stops_early() {
            true => early_until.saturating_duration_since(Instant::now()),
            false => left_after,
        };
        if may_go_on && !thread.ends_within(patience) {
            let name = thread.name();
            tracing::warn!(
                thread = name,
                "the stop goes on without a thread that waits for its disk: its files are sound, \
                 and the next start goes on with its work"
            );
            // Logs still get their closing marks, if the disk comes back.
            late.extend(thread.joins_late().then_some(thread));
            continue;
        }
        outcome = outcome.and(thread.join());
    }
    late.into_iter().fold(outcome, |outcome, thread| outcome.and(thread.join()))
}

/// The agents of the order path.
pub(super) struct Cores {
    pub(super) gateway: Gateway,
    /// The partitions, with the control importer behind the control partition.
    pub(super) partitions: Vec<Box<dyn Agent>>,
    /// The threads of partitions that have their own.
    pub(super) own: Vec<Runner>,
}

/// The threads that every role has beside its order path and its delivery thread.
pub(super) struct CommonThreads {
    pub(super) newcomers: Runner,
    /// The thread of links, with that of its handshakes behind it.
    pub(super) links: Vec<Runner>,
    pub(super) history: Runner,
    pub(super) handshakes: Option<Runner>,
    pub(super) web_readers: Option<HubAgent>,
    pub(super) keeper: Runner,
    pub(super) shadows: Vec<Runner>,
    pub(super) checkpoints: Runner,
    pub(super) archive: Option<Runner>,
}

impl Assembly<'_> {
    /// Returns the thread of the delivery store, without its agent.
    pub(super) fn delivery_thread(&self) -> Runner {
        Runner::new("delivery", self.wakes.delivery.clone(), self.config.wait)
            .sharing(DELIVERY_SHARE)
            .giving_way()
            .on_core(self.config.cores.get(2).copied())
    }

    /// Returns the heartbeat of a thread that orders or their followers depend on.
    pub(super) fn beat(&self, thread: impl Into<Arc<str>>) -> Beat {
        self.health.watch_thread(thread)
    }

    /// Starts the threads, each in `threads` at once.
    pub(super) fn start_threads(
        &mut self,
        cores: Cores,
        common: CommonThreads,
        views: Views,
        wake_fd: &WakeFd,
        threads: &mut Vec<RunningThread>,
    ) -> anyhow::Result<()> {
        // Each thread is watched from its start: a recovery may last longer than the limit without
        // a cycle.
        threads.push(common.newcomers.with_beat(self.beat("newcomers")).start()?);
        for runner in common.links {
            threads.push(runner.start()?);
        }
        self.start_cores(cores, wake_fd, threads)?;
        self.start_doors(views.ingest, views.subscriptions, threads)?;
        threads.push(views.delivery.with_beat(self.beat("delivery")).start()?);
        if let Some(runner) = common.handshakes {
            threads.push(runner.with_beat(self.beat("handshakes")).start()?);
        }
        if let Some(readers) = common.web_readers {
            let runner = Runner::new("web-readers", self.wakes.web.clone(), WaitStrategy::Park)
                .with_agent(readers)
                .sharing(DELIVERY_SHARE)
                .giving_way()
                .with_beat(self.beat("web-readers"));
            threads.push(runner.start()?);
        }
        // The publishers have received all events when they stop.
        let background = views.publishers.threads.into_iter().chain(self.cold_thread(views.cold));
        let background = background.chain(views.replica.map(|agent| self.replica_thread(agent)));
        let background = background.chain([common.keeper]).chain(common.shadows);
        let background = background.chain([common.checkpoints]);
        let background = background.chain(views.writer.map(store_snapshots));
        for runner in background.chain(std::mem::take(&mut self.market_runners)) {
            threads.push(runner.start()?);
        }
        // These may wait for a disk, and nothing is lost with them.
        if let Some(archive) = common.archive {
            threads.push(archive.start()?);
        }
        let beat = self.health.watch_file_thread("history");
        threads.push(common.history.with_beat(beat).start()?);
        Ok(())
    }

    /// Starts the threads of the order path: those of partitions with their own, then one in a
    /// fused node, else the partitions' and the gateway's. The gateway's ends last, when it has
    /// sent the last events of all partitions.
    fn start_cores(
        &self,
        cores: Cores,
        wake_fd: &WakeFd,
        threads: &mut Vec<RunningThread>,
    ) -> anyhow::Result<()> {
        let Cores { gateway, partitions, own } = cores;
        for runner in own {
            let beat = self.beat(runner.name());
            threads.push(runner.with_beat(beat).start()?);
        }
        let wait = self.config.wait;
        let core = |index: usize| self.config.cores.get(index).copied();
        if self.config.is_fused() {
            gateway.watch(wake_fd.as_raw_fd())?;
            let runner = Runner::new("core", self.wakes.gateway.clone(), wait)
                .with_sockets(gateway)
                .with_agents(partitions)
                .with_beat(self.beat("core"))
                .with_cycle_times(self.cycles.clone())
                .on_core(core(0));
            threads.push(runner.start()?);
            return Ok(());
        }
        let poller = FdPoller::new(&[wake_fd.as_raw_fd()])?;
        let runner = Runner::new("partition", self.wakes.partition.clone(), wait)
            .with_sockets(poller)
            .with_agents(partitions)
            .with_beat(self.beat("partition"))
            .on_core(core(1));
        threads.push(runner.start()?);
        let runner = Runner::new("gateway", self.wakes.gateway.clone(), wait)
            .with_sockets(gateway)
            .with_beat(self.beat("gateway"))
            .with_cycle_times(self.cycles.clone())
            .on_core(core(0));
        threads.push(runner.start()?);
        Ok(())
    }

    /// Returns the thread that follows another node.
    fn replica_thread(&self, agent: ReplicaAgent) -> Runner {
        Runner::new("replica", self.wakes.replica.clone(), WaitStrategy::Park)
            .sharing(DELIVERY_SHARE)
            .giving_way()
            .with_agent(agent)
    }
}

/// Returns the thread that writes snapshots of outside cores' stores.
fn store_snapshots(writer: SnapshotWriter) -> Runner {
    Runner::new("store-snapshots", writer.wake(), WaitStrategy::Park)
        .sharing(KEEPER_SHARE)
        .giving_way()
        .with_agent(writer)
}

/// Returns a thread that no order waits for.
pub(super) fn background(name: &'static str, share: Share) -> Runner {
    Runner::new(name, Wake::new(), WaitStrategy::Park).sharing(share)
}

/// Returns the thread that writes the gateway's checkpoints. Nothing waits for it, and it may wait
/// for a disk for long; but the events since the last checkpoint are kept, so it has a share of a
/// busy core too.
pub(super) fn checkpoints_thread() -> Runner {
    background("checkpoints", COLD_SHARE).giving_way()
}

/// Returns the thread that stores segments before the logs remove them, where one is configured. No
/// reader waits for it; but until it has them they take room, so it has a share of a busy core too.
pub(super) fn archive_thread(agents: Vec<ArchiveAgent>) -> Option<Runner> {
    if agents.is_empty() {
        return None;
    }
    let thread = background("archive", COLD_SHARE).giving_way().may_be_left();
    Some(agents.into_iter().fold(thread, Runner::with_agent))
}

/// Returns the thread of the partitions' shadow engines.
pub(super) fn shadows() -> Runner {
    background("shadows", shadow_agent::SHARE_AT_START)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use weir_probe::thread::can_ask_back;
    use weir_types::Nanos;

    use super::*;

    /// An agent that panics at its first cycle, or notes its end.
    struct Ending {
        name: &'static str,
        panics: bool,
        ended: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Agent for Ending {
        fn name(&self) -> &'static str {
            self.name
        }

        fn do_work(&mut self, _now: Nanos) -> usize {
            assert!(!self.panics, "the panic of {}", self.name);
            0
        }

        fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
            None
        }

        fn stop(&mut self, _now: Nanos) -> bool {
            self.ended.lock().unwrap().push(self.name);
            true
        }
    }

    /// An agent that ends once its thread has more than what others leave, or never had.
    struct Hurried {
        stops: Arc<Mutex<u32>>,
    }

    impl Hurried {
        /// Enough for a machine under load; a test that fails takes two seconds.
        const STOPS_MAX: u32 = 10_000;

        fn takes_leftovers() -> bool {
            const POLICY: usize = 41; // proc_pid_stat(5); behind the name begins the third field
            const SCHED_IDLE: &str = "5"; // sched(7)
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            fields.split_whitespace().nth(POLICY - 3) == Some(SCHED_IDLE)
        }
    }

    impl Agent for Hurried {
        fn name(&self) -> &'static str {
            "hurried"
        }

        fn do_work(&mut self, _now: Nanos) -> usize {
            0
        }

        fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
            None
        }

        fn stop(&mut self, _now: Nanos) -> bool {
            let mut stops = self.stops.lock().unwrap();
            *stops += 1;
            !Hurried::takes_leftovers() || *stops == Hurried::STOPS_MAX
        }
    }

    #[test]
    fn a_thread_of_leftovers_is_hurried_to_its_end() {
        let stops = Arc::new(Mutex::new(0));
        let agent = Hurried { stops: stops.clone() };
        // Without the right to hurry the node gives no thread that class.
        let share = if can_ask_back() { Share::Leftover } else { Share::Fair { niceness: 10 } };
        let mut threads = [background("hurried", share).with_agent(agent).start().unwrap()];
        stop_in_order(&mut threads, &AtomicBool::new(false)).unwrap();
        let stops = *stops.lock().unwrap();
        assert!((1..Hurried::STOPS_MAX).contains(&stops), "{stops} calls");
    }

    #[test]
    fn a_thread_that_panicked_leaves_those_behind_it_to_their_end() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let agents = [("newcomers", true), ("partition", false), ("shadows", false)];
        let mut threads = agents.map(|(name, panics)| {
            let agent = Ending { name, panics, ended: ended.clone() };
            Runner::new(name, Wake::new(), WaitStrategy::default())
                .with_agent(agent)
                .start()
                .unwrap()
        });
        while !threads[0].is_finished() {
            std::thread::yield_now();
        }
        let draining = AtomicBool::new(false);
        let panic = stop_in_order(&mut threads, &draining).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("the panic of newcomers"));
        assert_eq!(*ended.lock().unwrap(), ["partition", "shadows"]);
        assert!(draining.into_inner());
    }

    /// An agent whose disk answers when it is told to.
    struct Stalled(mpsc::Receiver<()>);

    impl Agent for Stalled {
        fn name(&self) -> &'static str {
            "archive"
        }

        fn do_work(&mut self, _now: Nanos) -> usize {
            let _answered = self.0.recv();
            0
        }

        fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
            None
        }
    }

    #[test]
    fn a_stop_goes_on_without_a_thread_that_waits_for_its_disk_if_it_may_be_left() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let (answers, disk) = mpsc::channel();
        let runner = |name| Runner::new(name, Wake::new(), WaitStrategy::default());
        let ending = |name| Ending { name, panics: false, ended: ended.clone() };
        let runners = [
            runner("shadows").with_agent(ending("shadows")),
            runner("archive").with_agent(Stalled(disk)).may_be_left(),
            runner("cold").with_agent(ending("cold")).may_be_left(),
            runner("history").with_agent(ending("history")),
        ];
        let mut threads = runners.map(|runner| runner.start().unwrap());
        let draining = AtomicBool::new(false);
        stop_leaving(&mut threads, &draining, Duration::from_millis(100)).unwrap();
        assert_eq!(*ended.lock().unwrap(), ["shadows", "cold", "history"]);
        assert_eq!(threads.each_ref().map(RunningThread::is_finished), [true, false, true, true]);
        drop(answers);
        threads[1].join().unwrap();
    }

    #[test]
    fn a_partition_whose_disk_stands_keeps_no_other_from_its_end() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let (answers, disk) = mpsc::channel::<()>();
        let (answers_behind, behind) = mpsc::channel::<()>();
        let runner = |name| Runner::new(name, Wake::new(), WaitStrategy::default());
        let ending = |name| Ending { name, panics: false, ended: ended.clone() };
        let runners = [
            runner("stalled").with_agent(Stalled(disk)).stopping_early(),
            runner("fast").with_agent(ending("fast")).stopping_early(),
            runner("core").with_agent(ending("core")),
            runner("shadows").with_agent(Stalled(behind)).joining_late(),
            runner("last").with_agent(ending("last")),
        ];
        let mut threads = runners.map(|runner| runner.start().unwrap());
        // Its disk is back once the last of the others has ended.
        let back = {
            let ended = ended.clone();
            std::thread::spawn(move || {
                while ended.lock().unwrap().last() != Some(&"last") {
                    std::thread::yield_now();
                }
                drop((answers, answers_behind));
            })
        };
        let draining = AtomicBool::new(false);
        stop_leaving(&mut threads, &draining, Duration::from_millis(100)).unwrap();
        back.join().unwrap();
        assert_eq!(*ended.lock().unwrap(), ["fast", "core", "last"]);
        assert!(threads.iter().all(RunningThread::is_finished), "it is waited for at the end");
    }
}
