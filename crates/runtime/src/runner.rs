//! Threads that run agents, and their waiting.
//!
//! A thread with sockets rests in `epoll`, any other in `park`. A thread that hands work to another
//! calls that thread's [`Wake`]: a flag records that the thread sleeps, so that waking a running
//! thread costs one load and no system call.
//!
//! INVARIANT: a thread that is about to sleep raises its flag, then runs its agents once more, then
//! sleeps. With the fence in `wake` no hand-off is missed: either the sleeper sees the work or the
//! waker sees the flag.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use weir_io::{Turn, Turns, net};
use weir_probe::thread::{self, Hurried, Share};
use weir_types::Nanos;

use crate::cycle_clock::{Compared, CycleClock, is_news};
use crate::cycle_times::CycleTimes;
use crate::{Agent, Beat};

/// A thread's behaviour when its agents have no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitStrategy {
    /// Sleeps until woken: for machines where threads outnumber cores. The default.
    #[default]
    Park,
    /// Yields the core and polls again.
    Yield,
    /// Polls again at once: for dedicated cores.
    Spin,
}

impl FromStr for WaitStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "park" => Ok(WaitStrategy::Park),
            "yield" => Ok(WaitStrategy::Yield),
            "spin" => Ok(WaitStrategy::Spin),
            other => Err(format!("unknown wait strategy {other:?}: want park, yield or spin")),
        }
    }
}

impl std::fmt::Display for WaitStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WaitStrategy::Park => "park",
            WaitStrategy::Yield => "yield",
            WaitStrategy::Spin => "spin",
        })
    }
}

/// Wakes one thread.
#[derive(Clone)]
pub struct Wake {
    shared: Arc<WakeShared>,
}

struct WakeShared {
    asleep: AtomicBool,
    wakes: AtomicU64,
    how: std::sync::OnceLock<HowToWake>,
}

enum HowToWake {
    Poll(net::Waker),
    Unpark(Thread),
}

impl Wake {
    /// Returns the waker of a thread that is not started yet.
    #[must_use]
    pub fn new() -> Wake {
        Wake {
            shared: Arc::new(WakeShared {
                asleep: AtomicBool::new(false),
                wakes: AtomicU64::new(0),
                how: std::sync::OnceLock::new(),
            }),
        }
    }

    /// Wakes the thread if it sleeps. The work must be visible to it already.
    pub fn wake(&self) {
        // SYNC: pairs with the fence in `begin_rest`: work is stored before the flag is read.
        fence(Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::Relaxed)
            && self.shared.asleep.swap(false, Ordering::Relaxed)
        {
            self.wake_now();
        }
    }

    /// Sets the waker of the poll in which the thread rests. Called once, before the thread starts.
    ///
    /// # Panics
    /// When it is called twice.
    pub fn set_waker(&self, waker: net::Waker) {
        assert!(self.shared.how.set(HowToWake::Poll(waker)).is_ok(), "started twice");
    }

    /// Raises the flag of a thread that is about to rest. Its agents must run once more before it
    /// rests.
    pub fn begin_rest(&self) {
        self.shared.asleep.store(true, Ordering::Relaxed);
        // SYNC: pairs with the fence in `wake`: the flag is stored before looking for work.
        fence(Ordering::SeqCst);
    }

    /// Lowers the flag of a thread that runs again.
    pub fn end_rest(&self) {
        self.shared.asleep.store(false, Ordering::Relaxed);
    }

    fn wake_now(&self) {
        self.shared.wakes.fetch_add(1, Ordering::Relaxed);
        match self.shared.how.get() {
            // A full eventfd counter still wakes the thread, so the error can be ignored.
            Some(HowToWake::Poll(waker)) => drop(waker.wake()),
            Some(HowToWake::Unpark(thread)) => thread.unpark(),
            // Not started: the thread looks for work before it first sleeps.
            None => {}
        }
    }

    /// Returns the closure that `weir-io` calls when a disk operation is done.
    #[must_use]
    pub fn as_waker(&self) -> weir_io::Waker {
        let wake = self.clone();
        Arc::new(move || wake.wake())
    }

    /// Returns the number of times that the thread was woken from sleep.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.shared.wakes.load(Ordering::Relaxed)
    }
}

impl Default for Wake {
    fn default() -> Self {
        Wake::new()
    }
}

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wake").field("wakes", &self.wakes()).finish()
    }
}

/// The poll in which a thread with sockets rests; the agent that owns the sockets keeps the events.
pub trait Poller: Send {
    /// Waits for sockets for at most `timeout` and keeps the events for the next duty cycle.
    fn poll(&mut self, timeout: Option<Duration>);

    /// Creates the waker that is registered with the poll. Called once.
    fn waker(&self) -> std::io::Result<net::Waker>;
}

/// An agent that owns sockets: it is polled before each cycle.
pub trait SocketAgent: Agent + Poller {}
impl<T: Agent + Poller> SocketAgent for T {}

/// A thread before its start: its agents and its wait strategy.
pub struct Runner {
    name: Arc<str>,
    wake: Wake,
    wait: WaitStrategy,
    stopping: Arc<AtomicBool>,
    sockets: Option<Box<dyn SocketAgent>>,
    agents: Vec<Box<dyn Agent>>,
    core: Option<usize>,
    share: Option<Share>,
    hurried: Arc<Hurried>,
    gives_way: bool,
    may_be_left: bool,
    stops_early: bool,
    joins_late: bool,
    beat: Option<Beat>,
    cycles: Option<Arc<CycleTimes>>,
}

/// The interval between two looks at a thread that should end.
const END_LOOK: Duration = Duration::from_millis(5);
/// The longest rest: the maximum cost of a lost wake-up, should one occur.
const REST_MAX: Duration = Duration::from_millis(100);
/// Cycles without work before a parking thread parks. A few such cycles cost less than one sleep
/// and serve the common case of work that arrives back to back.
const IDLE_CYCLES_BEFORE_PARK: u32 = 2;

impl Runner {
    /// Returns a thread with this name, woken by `wake`.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, wake: Wake, wait: WaitStrategy) -> Runner {
        Runner {
            name: name.into(),
            wake,
            wait,
            stopping: Arc::new(AtomicBool::new(false)),
            sockets: None,
            agents: Vec::new(),
            core: None,
            share: None,
            hurried: Arc::default(),
            gives_way: false,
            may_be_left: false,
            stops_early: false,
            joins_late: false,
            beat: None,
            cycles: None,
        }
    }

    /// Returns the thread's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the agent with sockets; it runs first in each cycle.
    #[must_use]
    pub fn with_sockets(mut self, agent: impl SocketAgent + 'static) -> Runner {
        self.sockets = Some(Box::new(agent));
        self
    }

    /// Adds an agent; agents run in the order in which they are added.
    #[must_use]
    pub fn with_agent(mut self, agent: impl Agent + 'static) -> Runner {
        self.agents.push(Box::new(agent));
        self
    }

    /// Appends agents to those already added.
    #[must_use]
    pub fn with_agents(mut self, agents: Vec<Box<dyn Agent>>) -> Runner {
        self.agents.extend(agents);
        self
    }

    /// Pins the thread to a core.
    #[must_use]
    pub fn on_core(mut self, core: Option<usize>) -> Runner {
        self.core = core;
        self
    }

    /// Sets the thread's share of its core; the system's default if not called.
    #[must_use]
    pub fn sharing(mut self, share: Share) -> Runner {
        self.share = Some(share);
        self
    }

    /// Yields the core after each cycle that did some work. A thread of the order path that wakes
    /// on this core then waits for at most one cycle; by default the kernel would reschedule at the
    /// next tick, up to 4 ms later.
    #[must_use]
    pub fn giving_way(mut self) -> Runner {
        self.gives_way = true;
        self
    }

    /// Lets a stop of the node go on without the thread: it may wait for a disk, and the next start
    /// does the work that it leaves.
    #[must_use]
    pub fn may_be_left(mut self) -> Runner {
        self.may_be_left = true;
        self
    }

    /// Has the thread asked to stop with others of its kind, before any of them is waited for, and
    /// waited for as one that [joins late](Runner::joining_late).
    #[must_use]
    pub fn stopping_early(mut self) -> Runner {
        self.stops_early = true;
        self.joining_late()
    }

    /// Lets a stop go on for a while without the thread: one whose disk stands must not keep the
    /// others from their end. It is waited for behind them.
    #[must_use]
    pub fn joining_late(mut self) -> Runner {
        self.joins_late = true;
        self
    }

    /// Records a heartbeat in each cycle.
    #[must_use]
    pub fn with_beat(mut self, beat: Beat) -> Runner {
        self.beat = Some(beat);
        self
    }

    /// Records the duration of each cycle.
    #[must_use]
    pub fn with_cycle_times(mut self, cycles: Arc<CycleTimes>) -> Runner {
        self.cycles = Some(cycles);
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system refuses the thread or the waker.
    pub fn start(self) -> std::io::Result<RunningThread> {
        let (wake, stopping) = (self.wake.clone(), self.stopping.clone());
        let (name, hurried) = (self.name.clone(), self.hurried.clone());
        let (may_be_left, stops_early) = (self.may_be_left, self.stops_early);
        let joins_late = self.joins_late;
        if let Some(sockets) = &self.sockets {
            self.wake.set_waker(sockets.waker()?);
        }
        let thread = std::thread::Builder::new().name(name.to_string());
        let thread = thread.spawn(move || self.run())?;
        Ok(RunningThread {
            name,
            wake,
            stopping,
            hurried,
            may_be_left,
            stops_early,
            joins_late,
            thread: Some(thread),
        })
    }

    fn run(mut self) {
        if let Some(core) = self.core
            && let Err(error) = thread::pin_to_core(core)
        {
            // An unpinned node is slower but correct.
            tracing::warn!(thread = &*self.name, core, %error, "cannot be pinned");
        }
        let _here = self.share.map(|_| self.hurried.enter());
        if let Some(share) = self.share {
            // Without the privilege the thread has the default priority, which only costs speed.
            let _ = thread::ask_for(share);
        }
        if self.sockets.is_none() {
            let how = HowToWake::Unpark(std::thread::current());
            assert!(self.wake.shared.how.set(how).is_ok(), "started twice");
        }
        let mut clock = CycleClock::default();
        let mut idle_cycles = 0;
        // The start of the last cycle, if it did some work and only a poll of the sockets has
        // followed.
        let mut begun = None;
        let mut turns = Turns::default();
        // SYNC: pairs with the store in `RunningThread::ask_to_stop`.
        while !self.stopping.load(Ordering::Acquire) {
            if self.wait != WaitStrategy::Park || idle_cycles < IDLE_CYCLES_BEFORE_PARK {
                self.poll_sockets(Some(Duration::ZERO));
            }
            let now = self.time(&mut clock);
            if let (Some(begun), Some(cycles)) = (begun.take(), &self.cycles) {
                cycles.count(now.since(begun).0);
            }
            if self.cycle(now) > 0 {
                idle_cycles = 0;
                if self.gives_way {
                    std::thread::yield_now();
                } else {
                    begun = Some(now);
                }
                continue;
            }
            idle_cycles += 1;
            match self.wait {
                WaitStrategy::Spin => std::hint::spin_loop(),
                WaitStrategy::Yield => std::thread::yield_now(),
                WaitStrategy::Park if idle_cycles < IDLE_CYCLES_BEFORE_PARK => {}
                WaitStrategy::Park if self.yields_to_disk(&mut turns) => idle_cycles = 0,
                WaitStrategy::Park => {
                    if self.rest(&mut clock) {
                        idle_cycles = 0;
                    }
                }
            }
        }
        self.wind_down(&mut clock);
    }

    /// Returns the time of the next cycle, after telling the agents of a change of the wall clock.
    fn time(&mut self, clock: &mut CycleClock) -> Nanos {
        let (now, compared) = clock.now();
        if let Some(Compared { wall, step }) = compared {
            if let Some(step) = step
                && is_news(wall)
            {
                let step_ms = step / 1_000_000;
                tracing::warn!(thread = &*self.name, step_ms, "the wall clock was set");
            }
            if let Some(sockets) = &mut self.sockets {
                sockets.wall_clock_moved(wall);
            }
            self.agents.iter_mut().for_each(|agent| agent.wall_clock_moved(wall));
        }
        now
    }

    fn cycle(&mut self, now: Nanos) -> usize {
        if let Some(beat) = &self.beat {
            beat.beat(now);
        }
        let mut done = 0;
        if let Some(sockets) = &mut self.sockets {
            done += sockets.do_work(now);
        }
        for agent in &mut self.agents {
            done += agent.do_work(now);
        }
        if let (Some(sockets), true) = (&mut self.sockets, done > 0 && !self.agents.is_empty()) {
            // The partition's new events are sent in this cycle, not after another poll.
            done += sockets.do_work(now);
        }
        done
    }

    /// Returns true when an answer waits for the disk and the core was yielded for it.
    fn yields_to_disk(&self, turns: &mut Turns) -> bool {
        let waits = self.agents.iter().any(|agent| agent.waits_for_disk());
        waits && turns.take() == Turn::Yielded
    }

    /// Sleeps until woken or until an agent's deadline; true when it slept and may have work.
    fn rest(&mut self, clock: &mut CycleClock) -> bool {
        self.wake.begin_rest();
        let now = self.time(clock);
        let busy = self.cycle(now) > 0;
        // SYNC: pairs with the store in `RunningThread::ask_to_stop`.
        if busy || self.stopping.load(Ordering::Acquire) {
            self.wake.end_rest();
            return busy;
        }
        let timeout = self.rest_time(now);
        if self.sockets.is_some() {
            self.poll_sockets(Some(timeout));
        } else {
            std::thread::park_timeout(timeout);
        }
        self.wake.end_rest();
        true
    }

    fn rest_time(&self, now: Nanos) -> Duration {
        let sockets = self.sockets.iter().filter_map(|agent| agent.next_deadline(now));
        let others = self.agents.iter().filter_map(|agent| agent.next_deadline(now));
        match sockets.chain(others).min() {
            Some(deadline) => Duration::from_nanos(deadline.since(now).0).min(REST_MAX),
            None => REST_MAX,
        }
    }

    fn poll_sockets(&mut self, timeout: Option<Duration>) {
        if let Some(sockets) = &mut self.sockets {
            sockets.poll(timeout);
        }
    }

    /// Stops the agents, the one with sockets last: it must still send the others' output.
    fn wind_down(&mut self, clock: &mut CycleClock) {
        for index in 0..self.agents.len() {
            loop {
                let now = self.time(clock);
                if self.agents[index].stop(now) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        loop {
            let now = self.time(clock);
            let Some(sockets) = &mut self.sockets else { break };
            if sockets.stop(now) {
                break;
            }
            sockets.poll(Some(Duration::from_millis(1)));
            sockets.do_work(now);
        }
    }
}

/// A running thread.
#[derive(Debug)]
pub struct RunningThread {
    name: Arc<str>,
    wake: Wake,
    stopping: Arc<AtomicBool>,
    hurried: Arc<Hurried>,
    may_be_left: bool,
    stops_early: bool,
    joins_late: bool,
    thread: Option<JoinHandle<()>>,
}

impl RunningThread {
    /// Returns the thread's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true when the thread has ended; before a requested stop only a panic ends it.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Requests the thread's end, without waiting. A thread that asked for less than its share has
    /// one like any other's from here on: its end is waited for, and on busy cores it may not run.
    pub fn ask_to_stop(&self) {
        // SYNC: pairs with the loads in `Runner::run` and `Runner::rest`.
        self.stopping.store(true, Ordering::Release);
        self.wake.shared.asleep.store(false, Ordering::Relaxed);
        self.wake.wake_now();
        self.hurried.hurry();
    }

    /// Returns true when a stop of the node may go on without the thread.
    #[must_use]
    pub fn may_be_left(&self) -> bool {
        self.may_be_left
    }

    /// Returns true when the thread is asked to stop with others of its kind.
    #[must_use]
    pub fn stops_early(&self) -> bool {
        self.stops_early
    }

    /// Returns true when the thread is waited for behind the others.
    #[must_use]
    pub fn joins_late(&self) -> bool {
        self.joins_late
    }

    /// Waits until the thread has ended, for at most `time`; false when it has not.
    #[must_use]
    pub fn ends_within(&self, time: Duration) -> bool {
        let mut left = time;
        while !self.is_finished() && !left.is_zero() {
            std::thread::sleep(END_LOOK);
            left = left.saturating_sub(END_LOOK);
        }
        self.is_finished()
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// The panic that ended it.
    pub fn join(&mut self) -> std::thread::Result<()> {
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}
