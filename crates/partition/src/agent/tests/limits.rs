//! The command that sets the engine's limits, over a log that refuses it at first.

use weir_engine::EngineLimits;

use super::*;

/// Returns a partition over a log that is to set these limits, and its port.
fn with_limits(
    log: &ScriptedLog,
    durability: Durability,
    limits: EngineLimits,
) -> (Partition<ScriptedLog>, PartitionPort) {
    let (port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let figures: Arc<PartitionFigures> = Arc::default();
    log.state().watched = Some(figures.clone());
    let parts = parts_over(log.clone(), writer, source);
    let partition = Partition::new(PartitionParts { figures, durability, ..parts });
    (partition.with_limits(limits), port)
}

#[test]
fn new_limits_that_a_full_log_refused_come_before_all_commands_once_it_has_room() {
    let log = ScriptedLog(Arc::new(Mutex::new(State { is_full: true, ..State::new() })));
    let limits = EngineLimits { firms_max: 1, ..EngineLimits::DEFAULT };
    let (mut partition, mut port) = with_limits(&log, Durability::Disk, limits);
    let now = |count: u64| Nanos(count * KEPT_RETRY);
    partition.do_work(now(1));
    for number in 1..=2 {
        port.submissions.push(import(number)).unwrap();
    }
    partition.do_work(now(2));
    assert_eq!(partition.engine.position(), Position::NONE);
    assert!(!partition.figures.has_limits(&limits));
    log.state().is_full = false;
    for count in 3..6 {
        partition.do_work(now(count));
    }
    // Behind two firms the limit would have been refused.
    assert_eq!(partition.engine.limits(), limits);
    assert!(partition.figures.has_limits(&limits) && !partition.figures.are_limits_refused());
    let counts = partition.figures.counters.report();
    assert_eq!((partition.engine.position(), counts.imports_refused), (Position(3), 1));
}

/// At `memory` they were applied first: a node that was killed while its tables were made anew
/// found the old limits, and was killed again.
#[test]
fn new_limits_are_in_the_files_before_the_engine_has_them() {
    let limits = EngineLimits { orders_max: 7, ..EngineLimits::DEFAULT };
    for (durability, flushed) in [(Durability::Memory, vec![(2, 0)]), (Durability::Disk, vec![])] {
        let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
        let (mut partition, _port) = with_limits(&log, durability, limits);
        partition.do_work(Nanos(1));
        assert_eq!(partition.engine.limits(), limits);
        assert_eq!(log.state().flushed, flushed, "{durability}");
    }
}

/// A wall clock that was set back behind the start's comparison leaves trades in their rows, say.
#[test]
fn limits_that_the_engine_ignores_are_told() {
    let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
    let limits = EngineLimits { firms_max: 1, ..EngineLimits::DEFAULT };
    let (mut partition, mut port) = with_limits(&log, Durability::Disk, EngineLimits::DEFAULT);
    for number in 1..=2 {
        port.submissions.push(import(number)).unwrap();
    }
    partition.do_work(Nanos(1));
    let mut partition = partition.with_limits(limits);
    partition.do_work(Nanos(2));
    assert_eq!(partition.engine.position(), Position(3));
    assert!(partition.figures.are_limits_refused() && !partition.figures.has_limits(&limits));
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_limits_at_memory_is_found() {
    use crate::plant::{Plant, is_found};
    assert!(is_found(
        Plant::LimitsUnwritten,
        new_limits_are_in_the_files_before_the_engine_has_them
    ));
}
