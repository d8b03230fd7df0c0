//! Agents: parts of the node that do a bounded amount of work per call.
//!
//! An agent that shares its thread never blocks. Those that read archives, write snapshots or
//! follow a master wait for a disk or a peer, and have a thread of their own.
//!
//! A thread runs a list of agents alternately ([`crate::runner`]). The configuration decides which
//! agents share a thread: with few cores, gateway and partition share one, so that an order crosses
//! no thread; with more cores each has its own. The agents are the same in both cases.

use weir_types::{Nanos, WallOffset};

/// A part of the node with a duty cycle.
pub trait Agent: Send {
    /// Returns the agent's name, for threads, logs and metrics.
    fn name(&self) -> &'static str;

    /// Does a bounded amount of the available work, without blocking where agents share the thread.
    /// `now` is read once per cycle from a clock that never steps: [`weir_io::monotonic_now`].
    /// Returns the amount of work done; zero lets the thread rest.
    fn do_work(&mut self, now: Nanos) -> usize;

    /// Notes the distance of the wall clock from the time of the cycles that follow: before the
    /// first cycle, and whenever it has changed, usually by microseconds, by any amount when the
    /// clock was set. For agents that stamp, or that compare with moments which a person named; no
    /// interval depends on it.
    fn wall_clock_moved(&mut self, wall: WallOffset) {
        let _ = wall;
    }

    /// Returns the next time at which the agent must be called even without an event; `None` when
    /// only an event or a wake-up can give it work.
    fn next_deadline(&self, now: Nanos) -> Option<Nanos>;

    /// Returns true when an answer waits for the disk. The thread then yields its core, if no other
    /// thread wants it, instead of sleeping: waking a sleeping core can cost more than the sync
    /// (`docs/adr/0002-sync-strategy.md`).
    fn waits_for_disk(&self) -> bool {
        false
    }

    /// Ends pending work in order when the node stops. Called until it returns true, in the order
    /// of the agents' list.
    fn stop(&mut self, now: Nanos) -> bool {
        let _ = now;
        true
    }
}
