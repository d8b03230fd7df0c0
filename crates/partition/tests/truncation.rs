//! A partition whose logs are truncated by their retention: the rest is enough for each start, also
//! after a crash at any point of a truncation.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use weir_engine::{Engine, EngineConfig};
use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Disk, SimDisk};
use weir_log::event_log::read_events;
use weir_log::snapshot::SnapshotStore;
use weir_log::{
    Append, Batch, Durability, EmbeddedLog, LogConfig, Push, SegmentKind, SequencedLog,
    retained_segments,
};
use weir_partition::holds::Holds;
use weir_partition::recovery::{Rebuilt, Sources, rebuild};
use weir_partition::retention::RetentionLimits;
use weir_partition::shadow::{Retained, RetentionTimes, Shadow, ShadowParts};
use weir_types::{FirmId, Nanos, PartitionId, Position, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineFirm;
use weir_wire::{Command, Definition, Event};

const HERE: PartitionId = PartitionId(1);
const LOG_ID: u128 = 7;
/// The size of the segments of both logs: some 30 commands, some 50 events.
const SEGMENT_BYTES: u64 = 8_192;
const LIMITS: RetentionLimits = RetentionLimits {
    command_bytes: Some(3 * SEGMENT_BYTES),
    event_bytes: Some(3 * SEGMENT_BYTES),
    age: None,
};
const COMMANDS: usize = 0;
const EVENTS: usize = 1;
const SNAPSHOTS: usize = 2;

/// The three directories of a partition.
struct Disks([SimDisk; 3]);

impl Disks {
    fn map(&self, change: impl Fn(&SimDisk) -> SimDisk) -> Disks {
        let [commands, events, snapshots] = &self.0;
        Disks([change(commands), change(events), change(snapshots)])
    }

    fn start(&self) -> anyhow::Result<Rebuilt<SimDisk>> {
        let [commands, events, snapshots] = self.0.clone();
        rebuild(Sources {
            log: log_config(),
            event_segment_bytes: SEGMENT_BYTES,
            engine: EngineConfig::new(HERE),
            commands,
            events,
            snapshots,
        })
    }

    /// Returns the first position of a log.
    fn first(&self, which: usize) -> u64 {
        let kind = if which == COMMANDS { SegmentKind::Command } else { SegmentKind::Event };
        retained_segments(&mut self.0[which].clone(), kind).unwrap()[0].first_position.0
    }

    /// Starts from these files and compares with an engine that has applied all commands.
    fn check_start(&self, last: u64, place: &dyn Fn() -> String) {
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

fn log_config() -> LogConfig {
    LogConfig {
        durability: Durability::Disk,
        segment_bytes: SEGMENT_BYTES,
        ..LogConfig::new(HERE, LOG_ID)
    }
}

/// The command at a position: the import of a firm's definition.
fn command(position: u64) -> Command {
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
fn engine_of(last: u64) -> (Engine, u64) {
    let (mut engine, mut count) = (Engine::new(EngineConfig::new(HERE)), 0);
    for position in 1..=last {
        engine.apply(Position(position), Nanos(position), &command(position), &mut |_: &Event| {
            count += 1;
        });
    }
    (engine, count)
}

/// A partition's log at work, with its shadow.
struct Running {
    log: EmbeddedLog<SimDisk>,
    shadow: Shadow<SimDisk, SimDisk, SimDisk>,
    now: u64,
}

impl Running {
    fn new(disks: &Disks) -> Running {
        let Rebuilt { engine, log, events, event_count, .. } = disks.start().unwrap();
        let [commands, _, snapshots] = disks.0.clone();
        let shadow = Shadow::new(ShadowParts {
            engine,
            event_count,
            events,
            commands: Box::new(move || Ok(commands.clone())),
            snapshots: SnapshotStore::new(snapshots, LOG_ID, HERE),
            keep: 2,
            holds: Holds::default(),
        });
        Running { log, shadow, now: 0 }
    }

    /// Appends commands, each at the log time of its position; returns the last position.
    fn append(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            let (mut batch, mut entry) = (Batch::new(), Vec::new());
            let position = self.log.next_position().0;
            command(position).encode(&mut entry);
            assert_eq!(batch.push(&entry), Push::Taken);
            let appended = self.log.append(self.log.epoch(), Nanos(position), &batch);
            assert_eq!(appended, Append::At { first: Position(position) });
            self.settle();
        }
        while self.shadow.position() < self.log.committed() {
            self.now += 10_000_000;
            self.shadow.follow(self.log.committed(), 100, Nanos(self.now)).unwrap();
        }
        self.log.committed().0
    }

    fn settle(&mut self) {
        while !self.log.is_idle() || !self.log.is_trimmed() {
            self.log.do_work(Nanos(0)).unwrap();
        }
    }

    /// Truncates both logs, as agent and partition do.
    fn retain(&mut self) -> Retained {
        let times = RetentionTimes { log_time: self.log.last_log_time(), now: Nanos(self.now) };
        let retained = self.shadow.retain(&LIMITS, times).unwrap();
        self.log.truncate(retained.commands.before);
        self.settle();
        for _ in 0..100 {
            self.shadow.follow(self.log.committed(), 0, Nanos(self.now)).unwrap();
        }
        retained
    }

    fn close(mut self) {
        self.shadow.close().unwrap();
        self.log.close().unwrap();
    }
}

fn new_disks() -> Disks {
    Disks([1, 2, 3].map(SimDisk::new))
}

#[test]
fn a_start_of_truncated_logs_goes_on_where_the_partition_was() {
    let (mut disks, mut taken) = (new_disks(), vec![0_u64]);
    for round in 1..=6 {
        let mut running = Running::new(&disks);
        let at = running.append(300);
        assert!(running.shadow.snapshot().unwrap());
        let retained = running.retain();
        let needed = taken[taken.len() - 1] + 1;
        for (which, before) in
            [(COMMANDS, retained.commands.before), (EVENTS, retained.events.before)]
        {
            assert_eq!(before.0, disks.first(which), "what may go is gone");
            // From the older snapshot on, and less than a segment more. Each command has one event.
            assert!((needed.saturating_sub(60)..=needed).contains(&before.0), "{before}, {needed}");
        }
        assert_eq!(retained.held_by, Some("snapshots"));
        taken.push(at);
        let last = running.append(40);
        if round % 2 == 0 {
            running.close();
        } else {
            drop(running);
        }
        disks = disks.map(SimDisk::after_process_crash);
        disks.check_start(last, &|| format!("round {round}"));
        disks = disks.map(SimDisk::after_process_crash);
    }
}

#[test]
fn a_start_without_the_commands_after_its_newest_usable_snapshot_is_refused_with_both() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    for _ in 0..3 {
        running.append(300);
        assert!(running.shadow.snapshot().unwrap());
        running.retain();
    }
    running.close();
    let first = disks.first(COMMANDS);
    let damage = |names: usize| {
        let damaged = disks.map(SimDisk::after_process_crash);
        let mut snapshots = damaged.0[SNAPSHOTS].clone();
        let mut files = snapshots.list().unwrap();
        files.retain(|name| name.ends_with(".wsnap"));
        assert_eq!(files.len(), 2);
        files.iter().rev().take(names).for_each(|name| snapshots.flip_bit(name, 5));
        damaged
    };
    damage(1).check_start(900, &|| "from the older snapshot".to_owned());
    let refused = damage(2).start().map(drop).unwrap_err();
    let told = format!("{refused:#}");
    let wanted = format!("the command log begins at position {first}, those before it are past");
    assert!(told.contains(&wanted) && told.contains("no snapshot can be used"), "{told}");
}

/// Applies the operations one after the other to one of the disks, and checks a start from each
/// state that a crash leaves.
fn crash_at_each(disks: &Disks, which: usize, ops: &[TraceOp], last: u64) {
    for at in 0..=ops.len() {
        let mut choices = disks.0[which].crash_choices();
        choices.push(CrashChoice::Random(at as u64));
        for choice in choices {
            let mut crashed = disks.map(|disk| disk.after_power_loss(CrashChoice::LoseAll));
            crashed.0[which] = disks.0[which].after_power_loss(choice);
            let place = || format!("disk {which}, point {at} of {}, {choice:?}", ops.len());
            crashed.check_start(last, &place);
        }
        disks.map(SimDisk::after_process_crash).check_start(last, &|| format!("killed at {at}"));
        if let Some(op) = ops.get(at) {
            disks.0[which].apply(op);
        }
    }
}

#[test]
fn a_crash_at_each_write_point_of_a_truncation_leaves_all_that_a_start_needs() {
    let disks = new_disks();
    let mut running = Running::new(&disks);
    running.append(200);
    assert!(running.shadow.snapshot().unwrap());
    let last = running.append(200);
    let before = disks.map(SimDisk::after_process_crash);
    let record = || disks.0.iter().for_each(SimDisk::record);
    record();
    assert!(running.shadow.snapshot().unwrap());
    let snapshot = disks.0.each_ref().map(SimDisk::take_trace);
    record();
    let retained = running.retain();
    assert!(retained.commands.before.0 > 100 && retained.events.before.0 > 100, "{retained:?}");
    let truncation = disks.0.each_ref().map(SimDisk::take_trace);
    assert!(truncation[COMMANDS].len() > 8 && truncation[EVENTS].len() > 8);
    assert!(snapshot[COMMANDS].is_empty() && truncation[SNAPSHOTS].is_empty());
    // The snapshot: its events are synced before it is written.
    crash_at_each(&before, EVENTS, &snapshot[EVENTS], last);
    crash_at_each(&before, SNAPSHOTS, &snapshot[SNAPSHOTS], last);
    // The logs are truncated by two threads: one before the other, or the other way round.
    for (first, second) in [(COMMANDS, EVENTS), (EVENTS, COMMANDS)] {
        let disks = before.map(SimDisk::after_process_crash);
        crash_at_each(&disks, first, &truncation[first], last);
        crash_at_each(&disks, second, &truncation[second], last);
    }
}
