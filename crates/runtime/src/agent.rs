//! Agents: parts of the node that do a bit of work at a time and never block.
//!
//! A thread runs a list of agents in turn ([`crate::runner`]). Which agents share a thread is a
//! matter of configuration: on few cores gateway and partition share one, so that an order
//! crosses no thread; with more cores each has its own. The agents are the same.

use weir_types::Nanos;

/// A part of the node with a duty cycle.
pub trait Agent: Send {
    /// Its name, for threads, logs and metrics.
    fn name(&self) -> &'static str;

    /// Does what can be done now, within a bound, without blocking. `now` was read once for this
    /// cycle. Returns how much it did; zero lets the thread rest.
    fn do_work(&mut self, now: Nanos) -> usize;

    /// When it must be called again although nothing happened; `None` when only an event or a
    /// wake-up can give it work.
    fn next_deadline(&self, now: Nanos) -> Option<Nanos>;

    /// Whether an answer waits for the disk: the thread then rather yields its core, where nobody
    /// else wants it, than sleeps, since waking a sleeping core can cost more than the sync
    /// (`docs/adr/0002-sync-strategy.md`).
    fn waits_for_disk(&self) -> bool {
        false
    }

    /// The node is stopping: called until it returns true, in the order of the agents' list, so
    /// that what is under way ends in order.
    fn stop(&mut self, now: Nanos) -> bool {
        let _ = now;
        true
    }
}
