//! The wait of a start for its engines' limits: the node is announced when they hold, because a
//! partition takes no order while it makes its tables anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_engine::EngineLimits;
use weir_partition::PartitionFigures;
use weir_runtime::RunningThread;
use weir_types::PartitionId;

/// The time for which a log may have no room for the command that sets limits.
const WITHOUT_ROOM_MAX: Duration = Duration::from_secs(30);
/// The time between two looks at the figures.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A partition whose engine is to have these limits, with its figures.
pub(super) struct AwaitedLimits {
    pub(super) partition_id: PartitionId,
    pub(super) limits: EngineLimits,
    pub(super) figures: Arc<PartitionFigures>,
}

/// The end of a start whose limits do not come.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum LimitsNotSet {
    /// The engine holds more by now.
    #[error(
        "the engine of partition {0} keeps its limits, because it holds more than [engine.limits] \
         permits at the time of the command: start again"
    )]
    Refused(PartitionId),
    /// The log's disk is full.
    #[error(
        "the command log of partition {0} has had no room for the command that sets the engine's \
         limits within {WITHOUT_ROOM_MAX:?}: make room on its disk"
    )]
    NoRoom(PartitionId),
    /// A thread has ended.
    #[error("thread {0} ended before the engines' limits were set")]
    ThreadEnded(String),
}

impl AwaitedLimits {
    /// Returns the reason for which the limits will not come; `has_no_room_since` is the time of
    /// the first look at which the log had no room.
    fn failure(&self, has_no_room_since: &mut Option<Instant>) -> Option<LimitsNotSet> {
        if self.figures.are_limits_refused() {
            return Some(LimitsNotSet::Refused(self.partition_id));
        }
        if !self.figures.counters.report().is_log_full {
            *has_no_room_since = None;
            return None;
        }
        let since = *has_no_room_since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= WITHOUT_ROOM_MAX;
        is_over.then_some(LimitsNotSet::NoRoom(self.partition_id))
    }
}

/// Waits until each engine has its limits. There is no deadline while the threads work: tables of
/// many millions of rows may take minutes.
pub(super) fn wait_for_limits(
    awaited: &[AwaitedLimits],
    threads: &[RunningThread],
) -> Result<(), LimitsNotSet> {
    for one in awaited {
        let mut has_no_room_since = None;
        while !one.figures.has_limits(&one.limits) {
            if let Some(failure) = one.failure(&mut has_no_room_since) {
                return Err(failure);
            }
            if let Some(ended) = threads.iter().find(|thread| thread.is_finished()) {
                return Err(LimitsNotSet::ThreadEnded(ended.name().to_owned()));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use weir_runtime::{Agent, Runner, WaitStrategy, Wake};
    use weir_types::Nanos;

    use super::*;

    /// An agent without work, or one that panics at its first cycle.
    struct Idle {
        panics: bool,
    }

    impl Agent for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }

        fn do_work(&mut self, _now: Nanos) -> usize {
            assert!(!self.panics, "a panic of a test");
            0
        }

        fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
            None
        }

        fn stop(&mut self, _now: Nanos) -> bool {
            true
        }
    }

    fn running(panics: bool) -> RunningThread {
        let runner = Runner::new("core", Wake::new(), WaitStrategy::default());
        runner.with_agent(Idle { panics }).start().unwrap()
    }

    fn awaited() -> AwaitedLimits {
        let (partition_id, limits) = (PartitionId(1), EngineLimits::DEFAULT);
        AwaitedLimits { partition_id, limits, figures: Arc::default() }
    }

    fn publish(limits: &EngineLimits, figures: &PartitionFigures) {
        let counters = &figures.counters;
        let places = [
            &counters.accounts_max,
            &counters.sessions_max,
            &counters.firms_max,
            &counters.instruments_max,
            &counters.live_orders_max,
            &counters.positions_max,
            &counters.retained_trades_max,
        ];
        for (place, (_, limit)) in places.into_iter().zip(limits.named()) {
            place.store(limit.into(), Ordering::Relaxed);
        }
    }

    /// The node was announced while its partition made tables and took no order.
    #[test]
    fn a_start_waits_for_its_limits_while_the_threads_work() {
        let (threads, awaited) = ([running(false)], [awaited(), awaited()]);
        let others = EngineLimits { orders_max: 1, ..EngineLimits::DEFAULT };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_for_limits(&awaited, &threads));
            publish(&EngineLimits::DEFAULT, &awaited[0].figures);
            publish(&others, &awaited[1].figures);
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished());
            publish(&EngineLimits::DEFAULT, &awaited[1].figures);
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn a_start_whose_limits_cannot_come_ends() {
        let ended = wait_for_limits(&[awaited()], &[running(false), running(true)]);
        assert_eq!(ended, Err(LimitsNotSet::ThreadEnded("core".to_owned())));
        let refused = awaited();
        refused.figures.tell_limits_refused();
        let ended = wait_for_limits(&[refused], &[running(false)]);
        assert_eq!(ended, Err(LimitsNotSet::Refused(PartitionId(1))));
    }

    #[test]
    fn a_log_without_room_ends_the_start_once_it_has_had_none_for_long() {
        let one = awaited();
        let long_ago = Instant::now().checked_sub(WITHOUT_ROOM_MAX).unwrap();
        let mut since = Some(long_ago);
        assert_eq!((one.failure(&mut since), since), (None, None), "it has room");
        one.figures.counters.is_log_full.store(true, Ordering::Relaxed);
        assert_eq!(one.failure(&mut since), None);
        assert!(since.is_some_and(|since| since > long_ago));
        let no_room = Some(LimitsNotSet::NoRoom(PartitionId(1)));
        assert_eq!(one.failure(&mut Some(long_ago)), no_room);
    }
}
