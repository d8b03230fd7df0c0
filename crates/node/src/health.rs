//! The node's liveness and readiness.
//!
//! *Live*: the threads that orders depend on run their cycles. If not, only a restart helps.
//! *Ready*: live, recovered, not stopping, every log has room, and old events can be read; for a
//! router, some source can be queried. If not, orders should go elsewhere or wait; it becomes ready
//! by itself. A quarantined outside source leaves a node ready, with a warning.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_orderstate::ingest::IngestFigures;
use weir_orderstate::ingest::figures::SourceReport;
use weir_partition::PartitionFigures;
use weir_runtime::Beat;
use weir_types::{Nanos, PartitionId};

/// The time without a cycle after which a thread counts as dead. A thread rests for at most a tenth
/// of a second, and no duty cycle waits for a disk or a peer.
const BEAT_MAX: Duration = Duration::from_secs(5);

/// The time without a cycle after which a thread that reads and writes files is told, which waits
/// for a disk in its cycles.
const FILES_BEAT_MAX: Duration = Duration::from_secs(10);

/// The stage of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It recovers; no session can log on yet.
    Starting = 0,
    /// It takes orders.
    Running = 1,
    /// It takes no more input.
    Stopping = 2,
}

#[derive(Debug, Default)]
struct Watched {
    threads: Vec<(Arc<str>, Beat)>,
    /// Threads that may wait for a disk: orders do not depend on them.
    file_threads: Vec<(Arc<str>, Beat)>,
    partitions: Vec<(PartitionId, Arc<PartitionFigures>)>,
    troubles: Vec<(&'static str, Arc<AtomicBool>)>,
    sources: Option<Arc<IngestFigures>>,
}

/// The data behind the liveness and readiness checks.
#[derive(Debug, Default)]
pub struct Health {
    stage: AtomicU8,
    has_failed: AtomicBool,
    watched: Mutex<Watched>,
}

impl Health {
    /// Returns the health of a starting node.
    #[must_use]
    pub fn new() -> Health {
        Health::default()
    }

    /// Watches a thread from now on; it must call [`beat`](Beat::beat).
    pub fn watch_thread(&self, name: impl Into<Arc<str>>) -> Beat {
        let beat = Beat::begin();
        self.watched().threads.push((name.into(), beat.clone()));
        beat
    }

    /// Watches a thread that may wait for a disk from now on: while it waits too long, the node is
    /// live and not ready.
    pub fn watch_file_thread(&self, name: &'static str) -> Beat {
        let beat = Beat::begin();
        self.watched().file_threads.push((name.into(), beat.clone()));
        beat
    }

    /// Watches a partition's log from now on.
    pub fn watch_partition(&self, id: PartitionId, figures: Arc<PartitionFigures>) {
        self.watched().partitions.push((id, figures));
    }

    /// Watches a flag that makes the node unready while it is set, with the reason.
    pub fn watch_trouble(&self, why: &'static str, is_there: Arc<AtomicBool>) {
        self.watched().troubles.push((why, is_there));
    }

    /// Watches the outside sources from now on.
    pub fn watch_sources(&self, figures: Arc<IngestFigures>) {
        self.watched().sources = Some(figures);
    }

    /// Returns the troubles that leave the node ready, because trading goes on: outside sources
    /// that are quarantined.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(figures) = self.watched().sources.clone() else { return Vec::new() };
        let sources = figures.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = sources.iter().filter(|source| source.is_quarantined);
        let warning = |source: &SourceReport| {
            let why = source.failure.as_deref().unwrap_or("it failed");
            format!("source {} is quarantined: {why}", source.source)
        };
        failures.map(warning).collect()
    }

    /// Records that the node has reached a stage of its life.
    pub fn enter(&self, stage: Stage) {
        // SYNC: a reader that sees the stage sees the parts watched in it.
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Records that a thread ended unexpectedly.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Returns the reasons why the node is not live at a time of the monotonic clock; empty when it
    /// is.
    #[must_use]
    pub fn why_not_live(&self, now: Nanos) -> Vec<String> {
        let mut why = Vec::new();
        if self.has_failed.load(Ordering::Relaxed) {
            why.push("a thread ended unasked".to_owned());
        }
        if self.stage() == Stage::Stopping {
            // Threads end one after another then.
            return why;
        }
        for (name, beat) in &self.watched().threads {
            let silent = now.since(beat.last());
            if u128::from(silent.0) > BEAT_MAX.as_nanos() {
                why.push(format!("thread {name} has stood still for {} ms", silent.0 / 1_000_000));
            }
        }
        why
    }

    /// Returns the reasons why the node should not get orders at a time of the monotonic clock;
    /// empty when it should.
    #[must_use]
    pub fn why_not_ready(&self, now: Nanos) -> Vec<String> {
        let mut why = self.why_not_live(now);
        match self.stage() {
            Stage::Starting => why.push("it recovers".to_owned()),
            Stage::Stopping => why.push("it stops".to_owned()),
            Stage::Running => {}
        }
        let watched = self.watched();
        for (name, beat) in watched.file_threads.iter().filter(|_| !self.is_stopping()) {
            let silent = now.since(beat.last());
            if u128::from(silent.0) > FILES_BEAT_MAX.as_nanos() {
                let ms = silent.0 / 1_000_000;
                why.push(format!("thread {name} has waited for a disk for {ms} ms"));
            }
        }
        for (id, figures) in &watched.partitions {
            if figures.counters.is_log_full.load(Ordering::Relaxed) {
                why.push(format!("the log of partition {id} has no room on its disk"));
            }
            if let Some(error) = figures.shadow_error() {
                why.push(format!("the shadow of partition {id} does not get on: {error}"));
            }
        }
        for (trouble, is_there) in &watched.troubles {
            if is_there.load(Ordering::Relaxed) {
                why.push((*trouble).to_owned());
            }
        }
        why
    }

    /// Returns true once the node stops in order.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stage() == Stage::Stopping
    }

    fn stage(&self) -> Stage {
        // SYNC: pairs with the store in `enter`.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Starting,
            1 => Stage::Running,
            _ => Stage::Stopping,
        }
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos(1_000_000_000_000);

    fn later(seconds: u64) -> Nanos {
        Nanos(START.0 + seconds * 1_000_000_000)
    }

    #[test]
    fn a_node_is_ready_between_its_start_and_its_stop() {
        let health = Health::new();
        assert_eq!(health.why_not_ready(START), ["it recovers"]);
        assert!(health.why_not_live(START).is_empty());
        health.enter(Stage::Running);
        assert!(health.why_not_ready(START).is_empty());
        health.enter(Stage::Stopping);
        assert_eq!(health.why_not_ready(START), ["it stops"]);
        assert!(health.why_not_live(START).is_empty());
    }

    #[test]
    fn a_thread_that_stands_still_is_named_until_it_goes_round_again() {
        let health = Health::new();
        health.enter(Stage::Running);
        let [core, delivery] = ["core", "delivery"].map(|name| health.watch_thread(name));
        core.beat(START);
        delivery.beat(later(4));
        assert!(health.why_not_live(later(5)).is_empty());
        assert_eq!(health.why_not_live(later(6)), ["thread core has stood still for 6000 ms"]);
        assert_eq!(health.why_not_ready(later(6)).len(), 1);
        core.beat(later(6));
        assert!(health.why_not_ready(later(6)).is_empty());
    }

    #[test]
    fn a_thread_that_waits_for_a_disk_makes_a_node_unready_and_leaves_it_live() {
        let health = Health::new();
        health.enter(Stage::Running);
        let history = health.watch_file_thread("history");
        history.beat(START);
        assert!(health.why_not_ready(later(10)).is_empty());
        let why = health.why_not_ready(later(11));
        assert_eq!(why, ["thread history has waited for a disk for 11000 ms"]);
        assert!(health.why_not_live(later(11)).is_empty());
        history.beat(later(11));
        assert!(health.why_not_ready(later(11)).is_empty());
        health.enter(Stage::Stopping);
        assert_eq!(health.why_not_ready(later(60)), ["it stops"]);
    }

    #[test]
    fn a_full_log_makes_a_node_unready_and_leaves_it_live() {
        let health = Health::new();
        health.enter(Stage::Running);
        let figures = Arc::new(PartitionFigures::default());
        health.watch_partition(PartitionId(1), figures.clone());
        figures.counters.is_log_full.store(true, Ordering::Relaxed);
        let why = health.why_not_ready(START);
        assert_eq!(why, ["the log of partition 1 has no room on its disk"]);
        assert!(health.why_not_live(START).is_empty());
        figures.counters.is_log_full.store(false, Ordering::Relaxed);
        assert!(health.why_not_ready(START).is_empty());
    }

    #[test]
    fn a_trouble_that_is_watched_makes_a_node_unready_while_it_lasts() {
        let health = Health::new();
        health.enter(Stage::Running);
        let trouble = Arc::new(AtomicBool::new(true));
        health.watch_trouble("nobody is there", trouble.clone());
        assert_eq!(health.why_not_ready(START), ["nobody is there"]);
        assert!(health.why_not_live(START).is_empty());
        trouble.store(false, Ordering::Relaxed);
        assert!(health.why_not_ready(START).is_empty());
    }

    #[test]
    fn a_thread_that_ended_unasked_is_the_end_of_both() {
        let health = Health::new();
        health.enter(Stage::Running);
        health.fail();
        assert_eq!(health.why_not_live(START), ["a thread ended unasked"]);
    }
}
