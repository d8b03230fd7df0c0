//! The memory of a node's engines at their limits, compared with the machine's.
//!
//! The system gives memory as tables fill, so an engine with too high limits starts, and is killed
//! in the middle of a day. A start tells the memory that its limits need, and is refused where
//! limits beyond the default need more than there is. At the default limits, which most nodes never
//! reach, and below them it is only told: small machines have run with those.

use std::collections::BTreeMap;
use std::path::Path;

use thiserror::Error;
use weir_engine::EngineLimits;
use weir_partition::recovery::EngineMemory;
use weir_types::PartitionId;

use crate::config::PartitionThread;

/// The engines of a partition: its own, and its shadow's.
const ENGINES_PER_PARTITION: u64 = 2;

/// The memory that engines take at their limits, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineNeeds {
    /// The tables of all engines when they are full.
    pub tables: u64,
    /// A snapshot of each thread of shadows while it is made: the shadows of one thread take theirs
    /// one after the other.
    pub snapshots: u64,
    /// The answers that are remembered when all sessions have sent requests to each partition, on
    /// top of the two others.
    pub answers: u64,
    /// The part of the tables that `memory = "ahead"` takes at the start: those of the trading
    /// partitions' own engines.
    pub ahead: u64,
}

impl EngineNeeds {
    /// Returns the needs of these partitions' engines, some of them with threads of their own.
    #[must_use]
    pub fn of(
        partitions: &[(PartitionId, EngineLimits)],
        threads: &[PartitionThread],
    ) -> EngineNeeds {
        let mut needs = EngineNeeds::default();
        // By thread; those without one of their own share one.
        let mut snapshots = BTreeMap::<Option<usize>, u64>::new();
        for (partition_id, limits) in partitions {
            // The control partition's tables of orders, positions and trades stay empty.
            let (orders_max, positions_max, trades_max) = (0, 0, 0);
            let definitions = EngineLimits { orders_max, positions_max, trades_max, ..*limits };
            let (tables, filled) = if partition_id.is_none() {
                (limits.reference_bytes(), definitions)
            } else {
                needs.ahead += limits.table_bytes();
                (limits.table_bytes(), *limits)
            };
            needs.tables += tables * ENGINES_PER_PARTITION;
            needs.answers += limits.answer_bytes() * ENGINES_PER_PARTITION;
            let thread = threads.iter().position(|one| one.partitions.contains(partition_id));
            let snapshot = snapshots.entry(thread).or_default();
            *snapshot = filled.snapshot_bytes().max(*snapshot);
        }
        needs.snapshots = snapshots.values().sum();
        needs
    }

    /// Returns the memory that must be there for limits beyond the default.
    #[must_use]
    pub fn needed(&self) -> u64 {
        self.tables + self.snapshots
    }
}

/// The refusal of a start whose limits need more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{note}, and there are {} MiB: lower the limits in [engine.limits]", mib(*.available))]
pub struct TooHighLimits {
    /// The needs in words.
    pub note: String,
    /// The memory that is needed, in bytes.
    pub needed: u64,
    /// The memory that the process can have, in bytes.
    pub available: u64,
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Compares the memory of the engines of these partitions with the machine's, in bytes; `None`
/// where that is not known. Returns the note for operators.
///
/// # Errors
/// [`TooHighLimits`] when the limits need more than there is, and more than the default limits.
pub fn compare(
    partitions: &[(PartitionId, EngineLimits)],
    threads: &[PartitionThread],
    memory: EngineMemory,
    machine: Option<u64>,
) -> Result<String, TooHighLimits> {
    let needs = EngineNeeds::of(partitions, threads);
    let default: Vec<_> = partitions.iter().map(|(id, _)| (*id, EngineLimits::DEFAULT)).collect();
    let default = EngineNeeds::of(&default, threads);
    let mut note = format!(
        "the engines need {} MiB when their tables are full: {} MiB for two engines of each \
         partition, and {} MiB for snapshots while they are made. Sessions that send requests add \
         up to {} MiB of remembered answers",
        mib(needs.needed()),
        mib(needs.tables),
        mib(needs.snapshots),
        mib(needs.answers)
    );
    let takes_ahead = memory == EngineMemory::Ahead;
    if takes_ahead {
        note.push_str(&format!("; {} MiB are taken at the start", mib(needs.ahead)));
    }
    let Some(available) = machine.filter(|machine| *machine < needs.needed()) else {
        return Ok(note);
    };
    if needs.needed() > default.needed() {
        return Err(TooHighLimits { note, needed: needs.needed(), available });
    }
    let remedy = match takes_ahead && available < needs.ahead {
        true => "set memory = \"as-filled\" in [engine], or lower the limits in [engine.limits]",
        false => "lower the limits in [engine.limits]",
    };
    note.push_str(&format!(", and there are {} MiB: {remedy}", mib(available)));
    Ok(note)
}

/// Returns the memory that this process can have, in bytes: the machine's, or the limit of its
/// control group if that is lower; `None` where neither is known.
#[must_use]
pub fn machine_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = total_in(&read("/proc/meminfo"));
    let group = group_limit(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    machine.into_iter().chain(group).min()
}

/// Returns the machine's memory in bytes from the text of `/proc/meminfo`.
fn total_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Returns the lowest memory limit in bytes of the control groups of a process, from the text of
/// `/proc/self/cgroup`; `None` for no limit. A limit of a group holds for those in it.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let (root, file) = if controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            return Vec::new();
        };
        let group = Path::new(group.trim_start_matches('/'));
        let limit_of = |group: &Path| {
            let text = std::fs::read_to_string(root.join(group).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        group.ancestors().filter_map(limit_of).collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: PartitionId = PartitionId::NONE;
    const TRADING: PartitionId = PartitionId(1);
    const DEFAULT: EngineLimits = EngineLimits::DEFAULT;

    fn needs(trading_count: u16, limits: EngineLimits) -> EngineNeeds {
        let all: Vec<_> = (0..=trading_count).map(|id| (PartitionId(id), limits)).collect();
        EngineNeeds::of(&all, &[])
    }

    #[test]
    fn the_engines_memory_follows_from_the_limits_and_is_told() {
        let of = |trading_count, limits| {
            let EngineNeeds { tables, snapshots, answers, ahead } = needs(trading_count, limits);
            [tables, snapshots, answers, ahead].map(mib)
        };
        // 446 MiB of a trading partition and 150 of the control partition, twice each. A snapshot
        // of the control partition has no orders.
        assert_eq!(of(0, DEFAULT), [300, 91, 5_120, 0]);
        assert_eq!(of(1, DEFAULT), [1_192, 387, 10_240, 446]);
        assert_eq!(of(2, DEFAULT), [2_084, 387, 15_360, 892]);
        let orders = EngineLimits { orders_max: 10_000_000, positions_max: 100_000_000, ..DEFAULT };
        assert_eq!(of(1, orders), [11_311, 7_268, 10_240, 5_506]);
        let both = [(CONTROL, DEFAULT), (TRADING, DEFAULT)];
        let note = compare(&both, &[], EngineMemory::AsFilled, None).unwrap();
        let begin = "the engines need 1579 MiB when their tables are full: 1192 MiB for two";
        assert!(note.starts_with(begin), "{note}");
        assert!(note.ends_with("add up to 10240 MiB of remembered answers"), "{note}");
        let note = compare(&both, &[], EngineMemory::Ahead, None).unwrap();
        assert!(note.ends_with("; 446 MiB are taken at the start"), "{note}");
    }

    #[test]
    fn a_machine_with_less_memory_is_told_or_refused_for_limits_beyond_the_default() {
        let of = |limits: EngineLimits, memory, machine| {
            let both = [(CONTROL, limits), (TRADING, limits)];
            compare(&both, &[], memory, Some(machine))
        };
        let as_filled = |limits, machine| of(limits, EngineMemory::AsFilled, machine);
        let default = needs(1, DEFAULT).needed();
        assert!(!as_filled(DEFAULT, default).unwrap().contains("there are"));
        let told = as_filled(DEFAULT, default - 1).unwrap();
        assert!(told.ends_with("lower the limits in [engine.limits]"), "{told}");
        let more = EngineLimits { orders_max: 2_000_000, ..DEFAULT };
        let needed = needs(1, more).needed();
        assert!(as_filled(more, needed).is_ok());
        let refused = as_filled(more, needed - 1).unwrap_err();
        assert_eq!((refused.needed, refused.available), (needed, needed - 1));
        assert!(refused.to_string().contains("[engine.limits]"), "{refused}");
        assert!(of(more, EngineMemory::Ahead, needed - 1).is_err());
        // Lower limits than the default turn no start that ran into a refused one.
        for fewer in [
            EngineLimits { trades_max: 1_000, ..DEFAULT },
            EngineLimits { accounts_max: 1_000, orders_max: 1_000, ..DEFAULT },
        ] {
            let told = as_filled(fewer, 64 << 20).unwrap();
            assert!(told.contains("there are 64 MiB"), "{told}");
        }
        let one_for_the_other =
            EngineLimits { orders_max: 1_050_000, trades_max: 1_000, ..DEFAULT };
        assert!(as_filled(one_for_the_other, 64 << 20).is_ok());
    }

    /// It was refused where it had run: both engines counted as populated at the start.
    #[test]
    fn memory_ahead_on_a_small_machine_is_told_with_the_other_setting_as_remedy() {
        let both = [(CONTROL, DEFAULT), (TRADING, DEFAULT)];
        let needs = EngineNeeds::of(&both, &[]);
        let told = |machine| compare(&both, &[], EngineMemory::Ahead, Some(machine)).unwrap();
        assert!(!told(needs.needed()).contains("there are"));
        let enough = told(needs.ahead);
        assert!(enough.ends_with(": lower the limits in [engine.limits]"), "{enough}");
        let short = told(needs.ahead - 1);
        assert!(short.contains("set memory = \"as-filled\" in [engine], or lower"), "{short}");
    }

    /// Their shadows take snapshots at the same time.
    #[test]
    fn threads_of_partitions_need_memory_for_snapshots_of_their_own() {
        let all: Vec<_> = (0..4).map(|id| (PartitionId(id), DEFAULT)).collect();
        let thread = |name: &str, ids: &[u16]| PartitionThread {
            name: name.into(),
            core: None,
            partitions: ids.iter().map(|id| PartitionId(*id)).collect(),
        };
        let snapshots = |threads: &[PartitionThread]| mib(EngineNeeds::of(&all, threads).snapshots);
        assert_eq!(snapshots(&[]), 387);
        assert_eq!(snapshots(&[thread("a", &[1, 2])]), 2 * 387);
        // The control partition's has no orders.
        assert_eq!(snapshots(&[thread("a", &[1, 2]), thread("b", &[3])]), 2 * 387 + 91);
    }

    #[test]
    fn the_lowest_limit_of_machine_and_groups_counts() {
        assert_eq!(total_in("MemFree: 5 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total_in("MemTotal: many"), None);
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("a/b/memory.max", "max\n");
        put("a/memory.max", "4096\n");
        put("memory/c/memory.limit_in_bytes", "8192\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let limit = |groups: &str| group_limit(dir.path(), groups);
        assert_eq!(limit("0::/a/b\n"), Some(4_096));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("4:cpu:/c\n3:memory:/c\n"), Some(8_192));
        assert_eq!(limit("3:memory:/c\n0::/a\n"), Some(4_096));
        assert_eq!(limit("0::/../other\n"), None);
        assert_eq!(limit(""), None);
    }
}
