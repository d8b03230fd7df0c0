//! A node's thread, cycle by cycle: it rests and is woken as under `weir_runtime`'s runner.
//!
//! The flag of [`Wake`] and the agent's poll are the real ones. A thread without work raises its
//! flag, runs its agent once more and rests until an event, a wake-up or the agent's deadline.

use std::time::Duration;

use weir_io::net::Waker;
use weir_runtime::{SocketAgent, Wake};
use weir_types::Nanos;

/// The longest rest, as under the runner.
const REST_MAX: Nanos = Nanos(100_000_000);
/// Cycles without work before a thread rests, as under the runner.
const IDLE_CYCLES_BEFORE_REST: u32 = 2;

/// A thread with one agent.
pub struct SimThread<A> {
    /// The agent.
    pub agent: A,
    wake: Wake,
    waker: Waker,
    idle_cycles: u32,
    /// The time at which its rest ends in any case.
    rests_until: Option<Nanos>,
}

impl<A: SocketAgent> SimThread<A> {
    /// Creates a thread that is woken by `wake`.
    ///
    /// # Errors
    /// Those of the agent's poll.
    pub fn new(agent: A, wake: Wake) -> std::io::Result<SimThread<A>> {
        wake.set_waker(agent.waker()?);
        let waker = agent.waker()?;
        Ok(SimThread { agent, wake, waker, idle_cycles: 0, rests_until: None })
    }

    /// Polls the agent's sockets without resting.
    pub fn poll(&mut self) {
        self.agent.poll(Some(Duration::ZERO));
    }

    /// Returns true if it rests and neither an event nor a wake-up ends that.
    #[must_use]
    pub fn sleeps_on(&self) -> bool {
        self.rests_until.is_some() && !self.ends_wait()
    }

    fn ends_wait(&self) -> bool {
        matches!(&self.waker, Waker::Simulated(waker) if waker.ends_wait())
    }

    /// Runs a cycle, unless it rests on; returns true if it ran.
    pub fn turn(&mut self, now: Nanos) -> bool {
        if self.rests_until.is_some_and(|until| now < until && !self.ends_wait()) {
            return false;
        }
        if self.rests_until.take().is_some() {
            self.wake.end_rest();
            self.idle_cycles = 0;
        }
        self.poll();
        if self.agent.do_work(now) > 0 {
            self.idle_cycles = 0;
            return true;
        }
        self.idle_cycles += 1;
        if self.idle_cycles < IDLE_CYCLES_BEFORE_REST {
            return true;
        }
        self.wake.begin_rest();
        let again = Nanos(now.0 + 1);
        if self.agent.do_work(again) > 0 {
            self.wake.end_rest();
            self.idle_cycles = 0;
            return true;
        }
        let longest = Nanos(again.0 + REST_MAX.0);
        let deadline = self.agent.next_deadline(again);
        self.rests_until = Some(deadline.map_or(longest, |deadline| deadline.min(longest)));
        true
    }
}
