//! A partition's logs, snapshots and shadow on simulated disks.

#![allow(dead_code)] // Each test program uses its part.

use std::path::Path;

use weir_engine::{Engine, EngineConfig};
use weir_io::{SimDisk, SyncStrategy};
use weir_log::event_log::read_events;
use weir_log::snapshot::SnapshotStore;
use weir_log::{
    Append, Batch, Durability, EmbeddedLog, LogConfig, Push, SegmentKind, SequencedLog,
    retained_segments,
};
use weir_partition::engine_limits::{ChosenLimits, LimitsAtStart};
use weir_partition::holds::Holds;
use weir_partition::recovery::{EngineMemory, Rebuilt, RecoverySettings, Sources, rebuild};
use weir_partition::retention::{RetentionLimits, RetentionTimes};
use weir_partition::shadow::{Retained, Shadow, ShadowParts};
use weir_types::{FirmId, Nanos, PartitionId, Position, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineFirm;
use weir_wire::{Command, Definition, Event};

pub(crate) const HERE: PartitionId = PartitionId(1);
pub(crate) const LOG_ID: u128 = 7;
/// The size of the segments of both logs: some 30 commands, some 50 events.
pub(crate) const SEGMENT_BYTES: u64 = 8_192;
pub(crate) const LIMITS: RetentionLimits = RetentionLimits {
    command_bytes: Some(3 * SEGMENT_BYTES),
    event_bytes: Some(3 * SEGMENT_BYTES),
    age: None,
};
pub(crate) const COMMANDS: usize = 0;
pub(crate) const EVENTS: usize = 1;
pub(crate) const SNAPSHOTS: usize = 2;

/// The three directories of a partition, and the level of its log.
pub(crate) struct Disks(pub(crate) [SimDisk; 3], pub(crate) Durability);

impl Disks {
    pub(crate) fn map(&self, change: impl Fn(&SimDisk) -> SimDisk) -> Disks {
        let [commands, events, snapshots] = &self.0;
        Disks([change(commands), change(events), change(snapshots)], self.1)
    }

    pub(crate) fn start(&self) -> anyhow::Result<Rebuilt<SimDisk>> {
        let [commands, events, snapshots] = self.0.clone();
        rebuild(Sources {
            log: LogConfig { durability: self.1, ..log_config() },
            event_segment_bytes: SEGMENT_BYTES,
            engine: EngineConfig::new(HERE),
            limits: LimitsAtStart::default(),
            commands,
            events,
            snapshots,
        })
    }

    /// Returns the first position of a log.
    pub(crate) fn first(&self, which: usize) -> u64 {
        let kind = if which == COMMANDS { SegmentKind::Command } else { SegmentKind::Event };
        retained_segments(&mut self.0[which].clone(), kind).unwrap()[0].first_position.0
    }

    /// Starts from these files and compares with an engine that has applied all commands.
    pub(crate) fn check_start(&self, last: u64, place: &dyn Fn() -> String) {
        let rebuilt = match self.start() {
            Ok(rebuilt) => rebuilt,
            Err(error) => panic!("{}: no start: {error:#}", place()),
        };
        let (engine, event_count) = engine_of(last);
        let got = (rebuilt.engine.position(), rebuilt.engine.digest(), rebuilt.event_count);
        assert_eq!(got, (Position(last), engine.digest(), event_count), "{}", place());
        // All events from the first retained one on are there.
        let first = rebuilt.events.first_record();
        drop(rebuilt);
        let mut reader = read_events(self.0[EVENTS].clone(), first).unwrap();
        let count = std::iter::from_fn(|| reader.next_entry().unwrap().map(drop)).count() as u64;
        assert_eq!(first.0 + count, event_count + 1, "{}", place());
    }
}

/// Returns the settings of a partition in a node's directory.
pub(crate) fn settings(node_dir: &Path) -> RecoverySettings {
    RecoverySettings {
        node_dir: node_dir.to_owned(),
        durability: Durability::Disk,
        sync: SyncStrategy::default(),
        log_segment_bytes: 1 << 20,
        event_segment_bytes: 1 << 20,
        event_memory_bytes: 1 << 20,
        engine_memory: EngineMemory::AsFilled,
        limits: ChosenLimits::default(),
        memory_bytes: None,
        started: Nanos(0),
        snapshot_every_commands: 1_000,
        snapshots_kept: 2,
        retention: RetentionLimits::default(),
        archive: None,
    }
}

pub(crate) fn log_config() -> LogConfig {
    LogConfig {
        durability: Durability::Disk,
        segment_bytes: SEGMENT_BYTES,
        ..LogConfig::new(HERE, LOG_ID)
    }
}

/// The command at a position: the import of a firm's definition.
pub(crate) fn command(position: u64) -> Command {
    let definition = DefineFirm {
        fields: 0,
        request_no: RequestNo::NONE,
        name: Symbol::new("FIRM").unwrap(),
        session_id: SessionId::NONE,
        firm_id: FirmId(u32::try_from(position).unwrap()),
        live_orders_max: 0,
    };
    Command::Import(Position(position), Definition::DefineFirm(definition))
}

/// Returns an engine that has applied the commands up to a position, and the number of its events.
pub(crate) fn engine_of(last: u64) -> (Engine, u64) {
    let (mut engine, mut count) = (Engine::new(EngineConfig::new(HERE)), 0);
    for position in 1..=last {
        engine.apply(Position(position), Nanos(position), &command(position), &mut |_: &Event| {
            count += 1;
        });
    }
    (engine, count)
}

/// A partition's log at work, with its shadow.
pub(crate) struct Running {
    pub(crate) log: EmbeddedLog<SimDisk>,
    pub(crate) shadow: Shadow<SimDisk, SimDisk, SimDisk>,
    pub(crate) now: u64,
    pub(crate) limits: RetentionLimits,
}

impl Running {
    pub(crate) fn new(disks: &Disks) -> Running {
        let Rebuilt { engine, log, events, event_count, snapshot, .. } = disks.start().unwrap();
        let [commands, _, snapshots] = disks.0.clone();
        let shadow = Shadow::new(ShadowParts {
            engine,
            event_count,
            snapshot,
            events,
            commands: Box::new(move || Ok(commands.clone())),
            snapshots: SnapshotStore::new(snapshots, LOG_ID, HERE),
            keep: 2,
            holds: Holds::default(),
        });
        Running { log, shadow, now: 0, limits: LIMITS }
    }

    /// Appends commands, each at the log time of its position; returns the last position.
    pub(crate) fn append(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            self.append_at(Nanos(self.log.next_position().0));
        }
        self.follow()
    }

    pub(crate) fn append_at(&mut self, log_time: Nanos) {
        let (mut batch, mut entry) = (Batch::new(), Vec::new());
        let position = self.log.next_position().0;
        command(position).encode(&mut entry);
        assert_eq!(batch.push(&entry), Push::Taken);
        let appended = self.log.append(self.log.epoch(), log_time, &batch);
        assert_eq!(appended, Append::At { first: Position(position) });
        self.settle();
    }

    /// Lets the shadow follow; returns the last position.
    pub(crate) fn follow(&mut self) -> u64 {
        for _ in 0..10_000 {
            if self.shadow.position() >= self.log.committed() {
                break;
            }
            self.now += 10_000_000;
            self.shadow.follow(self.log.committed(), 100, Nanos(self.now)).unwrap();
        }
        self.log.committed().0
    }

    pub(crate) fn settle(&mut self) {
        while !self.log.is_idle() || !self.log.is_trimmed() {
            self.log.do_work(Nanos(0)).unwrap();
        }
    }

    /// Truncates both logs, as agent and partition do.
    pub(crate) fn retain(&mut self) -> Retained {
        self.shadow.note_synced(self.log.synced());
        let log_time = self.log.last_log_time();
        let times = RetentionTimes { log_time, ahead: Nanos(0), now: Nanos(self.now) };
        let retained = self.shadow.retain(&self.limits, times).unwrap();
        self.log.truncate(retained.commands.before);
        self.settle();
        for _ in 0..100 {
            self.shadow.follow(self.log.committed(), 0, Nanos(self.now)).unwrap();
        }
        retained
    }

    /// Takes a snapshot, as the agent does.
    pub(crate) fn snapshot(&mut self) -> bool {
        self.shadow.note_synced(self.log.synced());
        self.shadow.snapshot().unwrap()
    }

    /// Lets the log be quiet until its mark says that all is synced.
    pub(crate) fn be_quiet(&mut self) {
        for _ in 0..20 {
            self.now += 20_000_000;
            self.log.do_work(Nanos(self.now)).unwrap();
        }
    }

    pub(crate) fn close(mut self) {
        self.shadow.close().unwrap();
        self.log.close().unwrap();
    }
}

pub(crate) fn disks_at(durability: Durability) -> Disks {
    Disks([1, 2, 3].map(SimDisk::new), durability)
}

pub(crate) fn new_disks() -> Disks {
    disks_at(Durability::Disk)
}

/// Returns the disks of a partition that took three snapshots, one after each 300 commands, kept
/// two, removed what it could, and ended.
pub(crate) fn with_three_snapshots() -> Disks {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    for _ in 0..3 {
        running.append(300);
        assert!(running.snapshot());
        running.retain();
    }
    running.close();
    disks
}
