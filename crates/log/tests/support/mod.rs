//! Helpers of the log's tests: small configurations, a driver, and reading a log back.

#![allow(dead_code)] // Each test binary uses its own part.

use weir_io::Disk;
use weir_log::{Append, Batch, Durability, EmbeddedLog, LogConfig, LogError, Push, SequencedLog};
use weir_types::{Nanos, PartitionId, Position};

/// Returns a configuration with segments small enough that a test rolls them.
pub(crate) fn config(durability: Durability) -> LogConfig {
    let mut config = LogConfig::new(PartitionId(1), 0x1234_5678_9abc_def0);
    config.durability = durability;
    config.segment_bytes = 8192;
    config.queue_bytes_max = 1 << 20;
    config.idle_after = Nanos(1_000);
    config
}

/// Returns a batch of these entries.
pub(crate) fn batch_of<T: AsRef<[u8]>>(entries: &[T]) -> Batch {
    let mut batch = Batch::new();
    for entry in entries {
        assert_eq!(batch.push(entry.as_ref()), Push::Taken);
    }
    batch
}

/// Appends the entries and requires that the log accepts them.
pub(crate) fn append<D: Disk, T: AsRef<[u8]>>(log: &mut EmbeddedLog<D>, entries: &[T]) -> Position {
    let time = Nanos(log.last_log_time().0 + 1);
    match log.append(log.epoch(), time, &batch_of(entries)) {
        Append::At { first } => first,
        other => panic!("append said {other:?}"),
    }
}

/// Works until all appended entries are committed.
pub(crate) fn commit<D: Disk>(log: &mut EmbeddedLog<D>, disk_waits: bool) {
    for _ in 0..1_000_000 {
        log.do_work(Nanos(0)).expect("no fault was asked for");
        if log.is_idle() {
            return;
        }
        if disk_waits {
            std::thread::yield_now();
        }
    }
    panic!("the log does not come to rest");
}

/// Returns all entries from `from`.
pub(crate) fn read_all<D: Disk>(
    log: &mut EmbeddedLog<D>,
    from: Position,
) -> Result<Vec<(u64, Vec<u8>)>, LogError> {
    let mut entries = Vec::new();
    let mut reader = log.read(from)?;
    while let Some(entry) = reader.next_entry()? {
        entries.push((entry.position.0, entry.bytes.to_vec()));
    }
    Ok(entries)
}
