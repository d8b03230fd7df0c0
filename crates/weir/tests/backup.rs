//! Backups on the simulated disk: after any interruption of a backup or damage to its bytes the
//! result is a whole backup, or is refused with the file and the place.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::collections::BTreeMap;

use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{Access, Completion, Disk, DiskError, DiskErrorKind, FileId, Op, SimDisk, SimFaults};
use weir_log::{
    Append, Batch, EmbeddedLog, LogConfig, LogReader, Push, SegmentKind, SequencedLog,
    SnapshotStore,
};
use weir_node::backup::manifest::{Manifest, NAME, SnapshotCopy};
use weir_node::backup::restore::{epoch_at, is_unfinished, restore};
use weir_node::backup::stored::StoredBackup;
use weir_node::backup::take::{BackupOutcome, Key, LogSource, NodeFiles, back_up};
use weir_node::backup::{BROKER_DIR, BackupError, LogKind};
use weir_types::{Durability, Epoch, Nanos, PartitionId, Position};

const NOW: Nanos = Nanos(1_800_000_000_000_000_000);
const LOGS: [(LogKind, u16); 3] =
    [(LogKind::Partition, 0), (LogKind::Partition, 1), (LogKind::Source, 40)];

fn config(partition: u16) -> LogConfig {
    let log_id = 0x77 + u128::from(partition);
    let mut config = LogConfig::new(PartitionId(partition), log_id);
    config.durability = Durability::Disk;
    config.segment_bytes = 8192;
    config.queue_bytes_max = 1 << 20;
    config.idle_after = Nanos(1_000);
    config
}

fn entry(partition: u16, position: u64) -> Vec<u8> {
    let mut bytes = vec![partition as u8; 150 + (position as usize * 37) % 300];
    bytes[..8].copy_from_slice(&position.to_le_bytes());
    bytes
}

/// A log that is being written, with its snapshots.
struct Live {
    partition: u16,
    log: EmbeddedLog<SimDisk>,
    commands: SimDisk,
    snapshots: SimDisk,
    now: u64,
}

impl Live {
    fn new(partition: u16) -> Live {
        Live::over(partition, SimDisk::new(5), SimDisk::new(6))
    }

    fn over(partition: u16, commands: SimDisk, snapshots: SimDisk) -> Live {
        let (log, _) = EmbeddedLog::open(config(partition), commands.clone()).unwrap();
        Live { partition, log, commands, snapshots, now: 0 }
    }

    fn append(&mut self, count: u64) {
        for _ in 0..count {
            let position = self.log.next_position().0;
            let mut batch = Batch::new();
            assert_eq!(batch.push(&entry(self.partition, position)), Push::Taken);
            let time = Nanos(self.log.last_log_time().0 + 1);
            let appended = self.log.append(self.log.epoch(), time, &batch);
            assert_eq!(appended, Append::At { first: Position(position) });
            self.work();
        }
    }

    fn work(&mut self) {
        while !self.log.is_idle() {
            self.now += 10;
            self.log.do_work(Nanos(self.now)).unwrap();
        }
    }

    fn snapshot(&mut self) {
        let at = self.log.committed();
        let partition_id = PartitionId(self.partition);
        let mut store = SnapshotStore::new(self.snapshots.clone(), self.log.log_id(), partition_id);
        store.write(at, &vec![at.0 as u8; 100_000]).unwrap();
        store.prune(2).unwrap();
    }

    fn trim(&mut self, before: u64) {
        self.log.truncate(Position(before));
        while !self.log.is_trimmed() {
            self.now += 10;
            self.log.do_work(Nanos(self.now)).unwrap();
        }
    }

    fn kind(&self) -> LogKind {
        LOGS.iter().find(|(_, id)| *id == self.partition).map_or(LogKind::Partition, |log| log.0)
    }

    fn dir(&self) -> String {
        self.kind().dir(PartitionId(self.partition))
    }

    fn source(&self) -> LogSource<SimDisk> {
        LogSource {
            kind: self.kind(),
            partition_id: PartitionId(self.partition),
            commands: self.commands.after_process_crash(),
            snapshots: Some(self.snapshots.after_process_crash()),
            store: None,
            past_ends: None,
        }
    }
}

/// Returns a durable-subscription directory; only the names of its files matter here.
fn broker() -> SimDisk {
    let mut disk = SimDisk::new(8);
    for (name, byte) in
        [("subscriptions-0.wtable", 1), ("00000000000000000001.wspill", 2), (NEWEST_SPILL, 3)]
    {
        put(&mut disk, name, &[byte; 700]);
    }
    put(&mut disk, "LOCK", b"");
    disk
}

const NEWEST_SPILL: &str = "00000000000000000002.wspill";

fn put(disk: &mut SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.create(name).unwrap();
    disk.write_all(file, 0, bytes).unwrap();
    disk.close(file);
}

/// A node with three logs of several segments each, and a broker.
struct Node {
    logs: Vec<Live>,
    broker: SimDisk,
}

impl Node {
    fn new() -> Node {
        let logs = LOGS.map(|(_, id)| Live::new(id)).into();
        let mut node = Node { logs, broker: broker() };
        node.go_on(60);
        node
    }

    fn go_on(&mut self, count: u64) {
        for log in &mut self.logs {
            log.append(count / 2);
            log.snapshot();
            log.append(count / 2);
        }
    }

    fn back_up(&self, target: &SimDisk) -> Result<BackupOutcome, BackupError> {
        let logs = self.logs.iter().map(Live::source).collect();
        let keys = vec![Key { name: "token.key".to_owned(), bytes: vec![9; 32] }];
        let broker = Some(self.broker.after_process_crash());
        back_up(NodeFiles { logs, broker, keys }, &mut target.clone(), NOW)
    }
}

/// Returns a node's files with logs alone.
fn of<D>(logs: Vec<LogSource<D>>) -> NodeFiles<D> {
    NodeFiles { logs, broker: None, keys: Vec::new() }
}

/// The directories of a restored node, by their paths in it.
#[derive(Clone, Default)]
struct Dirs {
    all: BTreeMap<String, SimDisk>,
}

impl Dirs {
    fn new() -> Dirs {
        let mut dirs = Dirs::default();
        for sub in ["", BROKER_DIR] {
            dirs.all.insert(sub.to_owned(), SimDisk::new(7));
        }
        for (kind, id) in LOGS {
            for sub in [kind.log(), "snapshots"] {
                let path = format!("{}/{sub}", kind.dir(PartitionId(id)));
                dirs.all.insert(path, SimDisk::new(7));
            }
        }
        dirs
    }

    fn restore(&self, backup: &SimDisk) -> Result<(), BackupError> {
        let mut stored = StoredBackup::open(backup.after_process_crash())?;
        stored.check()?;
        let restored = restore(&mut stored, |sub| Ok(self.all[sub].clone()), NOW)?;
        assert_eq!(restored.len(), LOGS.len());
        Ok(())
    }

    fn map(&self, mut change: impl FnMut(&SimDisk) -> SimDisk) -> Dirs {
        Dirs { all: self.all.iter().map(|(sub, disk)| (sub.clone(), change(disk))).collect() }
    }
}

fn check(backup: &SimDisk) -> Result<Manifest, BackupError> {
    let mut stored = StoredBackup::open(backup.after_process_crash())?;
    stored.check()?;
    Ok(stored.manifest().clone())
}

fn entries_of(disk: &SimDisk, from: u64) -> Vec<(u64, Vec<u8>)> {
    let disk = disk.after_process_crash();
    let mut reader = LogReader::open(disk, SegmentKind::Command, Position(from)).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        entries.push((entry.position.0, entry.bytes.to_vec()));
    }
    entries
}

#[test]
fn a_restored_log_holds_what_was_backed_up_and_goes_on_in_an_epoch_that_nobody_has_seen() {
    let node = Node::new();
    let backup = SimDisk::new(1);
    let taken = node.back_up(&backup).unwrap();
    assert_eq!(check(&backup).unwrap(), taken.manifest);
    let dirs = Dirs::new();
    dirs.restore(&backup).unwrap();
    for log in &node.logs {
        let name = log.dir();
        let commands = &dirs.all[&format!("{name}/{}", log.kind().log())];
        assert_eq!(entries_of(commands, 1), entries_of(&log.commands, 1), "{name}");
        let restarted = commands.after_power_loss(CrashChoice::LoseAll);
        let (opened, report) = EmbeddedLog::open(config(log.partition), restarted).unwrap();
        assert_eq!(report.positions, 1..61);
        assert!(report.clean && report.new_epoch.is_none(), "{report:?}");
        assert_eq!(report.epoch, epoch_at(NOW));
        let ended = opened.ended_epochs().last().copied().unwrap();
        assert_eq!((ended.epoch, ended.last_valid), (Epoch(1), Position(60)));
        let snapshots = dirs.all[&format!("{name}/snapshots")].clone();
        let mut store = SnapshotStore::new(snapshots, report.log_id, PartitionId(log.partition));
        let (loaded, skipped) = store.load_newest(Position(60)).unwrap();
        assert_eq!((loaded.unwrap().position, skipped.len()), (Position(30), 0));
    }
    assert_eq!(dirs.all[""].contents("token.key"), Some(vec![9; 32]));
    assert_eq!(dirs.all[BROKER_DIR].contents(NEWEST_SPILL), Some(vec![3; 700]));
    assert_eq!(dirs.all[BROKER_DIR].clone().list().unwrap().len(), 3, "the lock is nobody's");
    assert!(!is_unfinished(&mut dirs.all[""].clone()).unwrap());
}

#[test]
fn of_two_restores_and_the_lost_history_no_two_share_an_epoch() {
    let a_second_later = Nanos(NOW.0 + 1_000_000_000);
    assert!(epoch_at(a_second_later) > epoch_at(NOW));
    // A node on its own begins the next epoch: far below any epoch of a restore.
    assert!(epoch_at(NOW) > Epoch(1_000_000));
    assert!(epoch_at(Nanos(u64::MAX)).0 < 1 << 31, "a log's epochs stay below that");
}

#[test]
fn a_second_backup_copies_only_what_is_new() {
    let mut node = Node::new();
    let backup = SimDisk::new(1);
    let first = node.back_up(&backup).unwrap();
    let backup = backup.after_process_crash();
    let again = node.back_up(&backup).unwrap();
    assert_eq!((again.files_copied, again.files_kept), (0, first.files_copied));
    let backup = backup.after_process_crash();
    node.go_on(60);
    let files = first.manifest.files().count() as u64;
    let later = node.back_up(&backup).unwrap();
    // The newest segments grew and the snapshots changed; all other files were kept.
    assert_eq!(later.files_kept, files - 2 * LOGS.len() as u64);
    assert!(later.bytes_copied < later.manifest.files().map(|file| file.bytes).sum());
    assert_eq!(check(&backup).unwrap(), later.manifest);
    let in_use = later.manifest.files().count() + 1;
    assert_eq!(backup.clone().list().unwrap().len(), in_use, "what is not needed is gone");
}

#[test]
fn a_backup_of_another_node_is_not_written_over() {
    let backup = SimDisk::new(1);
    let first = Node::new().back_up(&backup).unwrap();
    let mut other = Live::new(1);
    other.append(5);
    let mut sources = vec![other.source()];
    sources[0].commands = {
        let disk = SimDisk::new(3);
        let mut config = config(1);
        config.log_id_if_new = 1234;
        drop(EmbeddedLog::open(config, disk.clone()).unwrap());
        disk.after_process_crash()
    };
    let refused = back_up(of(sources), &mut backup.after_process_crash(), NOW);
    assert!(matches!(refused, Err(BackupError::OtherNode { .. })), "{refused:?}");
    assert_eq!(check(&backup).unwrap(), first.manifest);
}

/// Crashes a recording at each of its operations, with every choice of surviving data.
fn crash_everywhere(
    before: &SimDisk,
    trace: &[TraceOp],
    mut judge: impl FnMut(&SimDisk, &str),
) -> usize {
    let disk = before.after_process_crash();
    let mut states = 0;
    for at in 0..=trace.len() {
        judge(&disk.after_process_crash(), &format!("killed at {at}"));
        for choice in disk.crash_choices().into_iter().chain((0..4).map(CrashChoice::Random)) {
            judge(&disk.after_power_loss(choice), &format!("operation {at}, {choice:?}"));
            states += 1;
        }
        if let Some(op) = trace.get(at) {
            disk.apply(op);
        }
    }
    states
}

#[test]
fn a_backup_that_is_interrupted_anywhere_leaves_the_one_before_it_or_is_whole() {
    let mut node = Node::new();
    let mut backup = SimDisk::new(1);
    let (mut old, mut new, mut none) = (0, 0, 0);
    let mut first: Option<Manifest> = None;
    for _ in 0..2 {
        let before = backup.after_process_crash();
        backup.record();
        let second = node.back_up(&backup).unwrap().manifest;
        let states =
            crash_everywhere(&before, &backup.take_trace(), |disk, place| match check(disk) {
                Ok(found) if Some(&found) == first.as_ref() => old += 1,
                Ok(found) if found == second => new += 1,
                Err(BackupError::NoManifest) if first.is_none() => none += 1,
                other => panic!("{place}: {other:?}"),
            });
        assert!(states > 100, "{states}");
        first = Some(second);
        node.go_on(40);
        backup = backup.after_process_crash();
    }
    assert!(old > 100 && new > 10 && none > 100, "{old} {new} {none}");
}

#[test]
fn a_target_that_fails_or_is_full_at_any_call_keeps_the_backup_before() {
    let mut node = Node::new();
    let backup = SimDisk::new(1);
    let first = node.back_up(&backup).unwrap().manifest;
    node.go_on(40);
    let mut calls = 0;
    for n in 0.. {
        let faults = [
            SimFaults { write_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { sync_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { read_fails_at: Some(n), ..SimFaults::default() },
            SimFaults { full_from: Some(n), ..SimFaults::default() },
        ];
        let mut failed = 0;
        for fault in faults {
            let target = backup.after_process_crash();
            let is_full = fault.full_from.is_some();
            target.set_faults(fault.clone());
            let Err(error) = node.back_up(&target) else { continue };
            failed += 1;
            let BackupError::Disk { place, source } = error else { panic!("{error}") };
            assert_eq!(place, "the target");
            assert_eq!(source.kind == DiskErrorKind::Full, is_full, "{source}");
            let found = check(&target.after_power_loss(CrashChoice::LoseAll));
            let found = found.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            // Once the manifest has its name, only the cleanup can fail.
            assert!(found == first || found.taken_at == NOW.0, "{fault:?}");
            let again = target.after_process_crash();
            node.back_up(&again).unwrap();
            check(&again).unwrap();
        }
        calls += failed;
        if failed == 0 {
            break;
        }
    }
    assert!(calls > 30, "{calls} calls failed");
}

#[test]
fn a_short_write_anywhere_is_finished() {
    let node = Node::new();
    for n in 0..60 {
        let backup = SimDisk::new(1);
        backup.set_faults(SimFaults { short_write_at: Some(n), ..SimFaults::default() });
        node.back_up(&backup).unwrap();
        check(&backup.after_power_loss(CrashChoice::LoseAll)).unwrap();
    }
}

#[test]
fn a_source_that_cannot_be_read_at_any_call_leaves_no_backup() {
    let node = Node::new();
    let mut failed = 0;
    for n in 0..200 {
        let mut sources: Vec<LogSource<SimDisk>> = node.logs.iter().map(Live::source).collect();
        let fault = || SimFaults { read_fails_at: Some(n), ..SimFaults::default() };
        sources[1].commands.set_faults(fault());
        sources[1].snapshots.as_mut().unwrap().set_faults(fault());
        let backup = SimDisk::new(1);
        match back_up(of(sources), &mut backup.clone(), NOW) {
            Ok(_) => continue,
            Err(BackupError::Disk { place, .. }) => assert_eq!(place, "partition-1"),
            Err(other) => panic!("{other}"),
        }
        failed += 1;
        let found = check(&backup);
        assert!(matches!(found, Err(BackupError::NoManifest)), "{found:?}");
    }
    assert!(failed > 10, "{failed} reads failed");
}

/// Returns the file that an error names.
fn named(error: &BackupError) -> String {
    match error {
        BackupError::NoManifest
        | BackupError::DamagedManifest { .. }
        | BackupError::NewerManifest { .. } => NAME.to_owned(),
        BackupError::Missing { file }
        | BackupError::Length { file, .. }
        | BackupError::Hash { file, .. }
        | BackupError::Segment { file, .. }
        | BackupError::Snapshot { file, .. }
        | BackupError::Contradiction { file, .. } => file.clone(),
        other => panic!("{other} names no file of the backup"),
    }
}

#[test]
fn a_flipped_bit_in_any_block_of_a_backup_is_found_and_nothing_is_restored() {
    let backup = SimDisk::new(1);
    Node::new().back_up(&backup).unwrap();
    let names = backup.clone().list().unwrap();
    assert!(names.iter().any(|name| name.contains(".wsnap.")));
    let mut blocks = 0;
    for name in &names {
        let len = backup.contents(name).unwrap().len() as u64;
        for block in 0..len.div_ceil(512) {
            let bytes = (len - block * 512).min(512);
            let bit = block * 512 * 8 + (block * 7919) % (bytes * 8);
            let damaged = backup.after_process_crash();
            damaged.flip_bit(name, bit);
            let error = check(&damaged).expect_err("a flipped bit");
            assert_eq!(named(&error), *name, "{error}");
            if let BackupError::Segment { source, .. } = &error {
                let told = source.to_string();
                assert!(told.contains("offset"), "{told}");
            }
            let dirs = Dirs::new();
            dirs.restore(&damaged).expect_err("a flipped bit");
            assert!(dirs.all.values().all(|disk| disk.clone().list().unwrap().is_empty()));
            blocks += 1;
        }
    }
    assert!(blocks > 400, "{blocks}");
}

#[test]
fn a_file_that_is_missing_short_or_another_ones_is_named() {
    let backup = SimDisk::new(1);
    let manifest = Node::new().back_up(&backup).unwrap().manifest;
    for file in manifest.files() {
        let bytes = backup.contents(&file.stored).unwrap();
        let gone = backup.after_process_crash();
        gone.clone().remove(&file.stored).unwrap();
        let error = check(&gone).unwrap_err();
        assert!(matches!(&error, BackupError::Missing { file: f } if *f == file.stored), "{error}");
        let short = backup.after_process_crash();
        short.plant(&file.stored, &bytes[..bytes.len() - 1]);
        let error = check(&short).unwrap_err();
        assert!(matches!(&error, BackupError::Length { .. }), "{error}");
        assert_eq!(named(&error), file.stored);
        let other = backup.after_process_crash();
        other.plant(&file.stored, &vec![0; bytes.len()]);
        assert_eq!(named(&check(&other).unwrap_err()), file.stored);
    }
    let no_manifest = backup.after_process_crash();
    no_manifest.clone().remove(NAME).unwrap();
    assert!(matches!(check(&no_manifest), Err(BackupError::NoManifest)));
}

#[test]
fn a_manifest_of_a_newer_format_is_refused_as_such() {
    let backup = SimDisk::new(1);
    let mut manifest = Node::new().back_up(&backup).unwrap().manifest;
    manifest.format = 4;
    backup.plant(NAME, &manifest.encode());
    let found = check(&backup);
    assert!(matches!(found, Err(BackupError::NewerManifest { version: 4, known: 3 })), "{found:?}");
}

#[test]
fn a_manifest_cannot_lead_out_of_the_directory() {
    let backup = SimDisk::new(1);
    let manifest = Node::new().back_up(&backup).unwrap().manifest;
    for name in ["../operator.key", "/etc/passwd", "", ".hidden", "a/b"] {
        let mut changed = manifest.clone();
        changed.keys[0].name = name.to_owned();
        backup.plant(NAME, &changed.encode());
        let found = check(&backup);
        assert!(matches!(found, Err(BackupError::DamagedManifest { .. })), "{name}: {found:?}");
    }
}

#[test]
fn a_restore_that_is_interrupted_anywhere_leaves_nothing_that_looks_like_a_node() {
    let backup = SimDisk::new(1);
    Node::new().back_up(&backup).unwrap();
    let done = Dirs::new();
    done.all.values().for_each(SimDisk::record);
    done.restore(&backup).unwrap();
    // The directory with the mark decides: it is written first and last.
    let root = done.all[""].take_trace();
    let removed = root.iter().position(|op| matches!(op, TraceOp::Remove { .. })).unwrap();
    let mut finished = 0;
    crash_everywhere(&SimDisk::new(7), &root, |disk, place| {
        let is_marked = is_unfinished(&mut disk.clone()).unwrap();
        let has_key = disk.contents("token.key") == Some(vec![9; 32]);
        assert!(is_marked || has_key || disk.clone().list().unwrap().is_empty(), "{place}");
        finished += u64::from(!is_marked && has_key);
    });
    assert!(finished > 0);
    // When the mark's removal begins, every other directory is complete.
    assert!(removed + 2 == root.len(), "nothing is done after the mark is gone: {root:?}");
    for disk in done.all.values() {
        for choice in disk.crash_choices() {
            let restarted = disk.after_power_loss(choice);
            let names = restarted.clone().list().unwrap();
            let is_part = |name: &String| name == "copy.part";
            assert!(!names.iter().any(is_part), "{names:?}");
        }
    }
}

#[test]
fn a_disk_that_fails_or_is_full_in_a_restore_leaves_the_mark() {
    let backup = SimDisk::new(1);
    Node::new().back_up(&backup).unwrap();
    let mut calls = 0;
    for sub in Dirs::new().all.keys() {
        for n in 0..40 {
            let faults = [
                SimFaults { write_fails_at: Some(n), ..SimFaults::default() },
                SimFaults { sync_fails_at: Some(n), ..SimFaults::default() },
                SimFaults { full_from: Some(n), ..SimFaults::default() },
            ];
            for fault in faults {
                let dirs = Dirs::new();
                dirs.all[sub].set_faults(fault.clone());
                let Err(error) = dirs.restore(&backup) else { continue };
                calls += 1;
                let is_typed = matches!(error, BackupError::Disk { .. } | BackupError::Log { .. });
                assert!(is_typed, "{sub:?} {fault:?}: {error}");
                let dirs = dirs.map(|disk| disk.after_power_loss(CrashChoice::KeepAll));
                let root = &dirs.all[""];
                let is_marked = is_unfinished(&mut root.clone()).unwrap();
                let has_nothing = root.clone().list().unwrap().is_empty();
                // Only the very last sync comes after the mark's removal.
                let was_last = sub.is_empty() && root.contents("token.key").is_some();
                assert!(is_marked || has_nothing || was_last, "{sub:?} {fault:?}: {error}");
            }
        }
    }
    assert!(calls > 60, "{calls} calls failed");
}

#[test]
fn a_directory_that_is_not_empty_is_refused_and_left_alone() {
    let backup = SimDisk::new(1);
    Node::new().back_up(&backup).unwrap();
    for sub in Dirs::new().all.keys() {
        let dirs = Dirs::new();
        dirs.all[sub].plant("something", b"of somebody's");
        let refused = dirs.restore(&backup);
        assert!(
            matches!(&refused, Err(BackupError::NotEmpty { found, .. }) if found == "something"),
            "{sub}: {refused:?}"
        );
        assert_eq!(dirs.all[sub].contents("something"), Some(b"of somebody's".to_vec()));
    }
}

#[test]
fn a_target_with_files_of_others_is_refused_and_they_are_left_alone() {
    let names = ["thesis.txt", "operator.key", "node.token.key", "a.b.0123456789abcdef"];
    for name in names {
        let target = SimDisk::new(1);
        target.plant(name, b"of somebody's");
        let refused = Node::new().back_up(&target);
        let is_named = matches!(&refused, Err(BackupError::Foreign { found }) if found == name);
        assert!(is_named, "{name}: {refused:?}");
        assert_eq!(target.contents(name), Some(b"of somebody's".to_vec()));
        assert_eq!(target.contents("MANIFEST"), None);
    }
}

#[test]
fn files_of_others_beside_a_backup_stay_and_files_of_an_interrupted_one_go() {
    let backup = SimDisk::new(1);
    let mut node = Node::new();
    // Left by a first backup that was interrupted.
    let left = ["copy.part", "control.x.wlog.0123456789abcdef", "broker.y.0123456789abcdef"];
    left.iter().for_each(|name| backup.plant(name, b"torn"));
    node.back_up(&backup).unwrap();
    let backup = backup.after_process_crash();
    left.iter().for_each(|name| assert_eq!(backup.contents(name), None, "{name}"));
    backup.plant("README", b"of somebody's");
    node.go_on(4);
    node.back_up(&backup).unwrap();
    assert_eq!(backup.contents("README"), Some(b"of somebody's".to_vec()));
    check(&backup).unwrap();
}

#[test]
fn what_is_not_yet_whole_at_the_end_of_a_running_log_is_left_out() {
    let mut live = Live::new(1);
    live.append(20);
    let name = live.commands.clone().list().unwrap();
    let newest = name.iter().rfind(|name| name.ends_with(".wlog")).unwrap().clone();
    let mut bytes = live.commands.contents(&newest).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    // A frame of which only the first half is present.
    let frame = bytes[4096..4096 + 64].to_vec();
    bytes[used.next_multiple_of(8)..][..64].copy_from_slice(&frame);
    live.commands.plant(&newest, &bytes);
    let backup = SimDisk::new(1);
    let taken = back_up(of(vec![live.source()]), &mut backup.clone(), NOW).unwrap();
    assert_eq!(taken.manifest.partitions[0].last_position, 20);
    check(&backup).unwrap();
}

#[test]
fn damage_in_the_source_is_named_and_not_backed_up() {
    let node = Node::new();
    let names: Vec<String> = node.logs[1].commands.clone().list().unwrap();
    for name in names.iter().filter(|name| name.ends_with(".wlog")) {
        let sources: Vec<LogSource<SimDisk>> = node.logs.iter().map(Live::source).collect();
        sources[1].commands.flip_bit(name, 4096 * 8 + 100);
        let backup = SimDisk::new(1);
        let refused = back_up(of(sources), &mut backup.clone(), NOW);
        let Err(BackupError::Log { source, .. }) = refused else { panic!("{name}: {refused:?}") };
        let told = source.to_string();
        assert!(told.contains(name.as_str()) && told.contains("offset 4096"), "{told}");
        assert!(matches!(check(&backup), Err(BackupError::NoManifest)));
    }
}

/// A disk on which the log grows, is trimmed and recycled while it is read.
struct Meddled {
    inner: SimDisk,
    opens_left: u64,
    meddle: Box<dyn FnMut()>,
}

impl Disk for Meddled {
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        let file = self.inner.open(name, access)?;
        self.opens_left = self.opens_left.saturating_sub(1);
        if self.opens_left > 0 {
            (self.meddle)();
        }
        Ok(file)
    }
    fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        panic!("a backup creates nothing in its source: {name}")
    }
    fn close(&mut self, file: FileId) {
        self.inner.close(file);
    }
    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.inner.len(file)
    }
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.inner.list()
    }
    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        self.inner.read(file, offset, buf)
    }
    fn write(&mut self, _: FileId, _: u64, _: &[u8]) -> Result<usize, DiskError> {
        panic!("a backup writes nothing to its source")
    }
    fn sync(&mut self, _: FileId) -> Result<(), DiskError> {
        panic!("a backup syncs nothing of its source")
    }
    fn rename(&mut self, from: &str, _: &str) -> Result<(), DiskError> {
        panic!("a backup renames nothing in its source: {from}")
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        panic!("a backup removes nothing from its source: {name}")
    }
    fn sync_dir(&mut self) -> Result<(), DiskError> {
        panic!("a backup syncs nothing of its source")
    }
    fn lock(&mut self) -> Result<(), DiskError> {
        panic!("the node has its lock")
    }
    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
    fn submit(&mut self, _: u64, _: Op) {
        panic!("a backup submits nothing to its source")
    }
    fn reap(&mut self, _: &mut Vec<Completion>) {}
    fn wait(&mut self) {}
    fn in_flight(&self) -> usize {
        0
    }
}

#[test]
fn a_log_that_grows_and_is_trimmed_and_recycled_under_the_copy_is_copied_whole() {
    for opens in 1..60 {
        let mut live = Live::new(1);
        live.append(40);
        live.snapshot();
        let (inner, snapshots) = (live.commands.clone(), live.snapshots.clone());
        let meddle = Box::new(move || {
            live.append(7);
            live.snapshot();
            let first = live.log.first_position().0;
            live.trim((first + 12).min(live.log.committed().0));
        });
        let source = LogSource {
            kind: LogKind::Partition,
            partition_id: PartitionId(1),
            commands: Meddled { inner: inner.clone(), opens_left: opens, meddle },
            snapshots: Some(Meddled { inner: snapshots, opens_left: 0, meddle: Box::new(|| ()) }),
            store: None,
            past_ends: None,
        };
        let backup = SimDisk::new(1);
        match back_up(of(vec![source]), &mut backup.clone(), NOW) {
            Ok(taken) => {
                let copy = &taken.manifest.partitions[0];
                assert_eq!(check(&backup).unwrap(), taken.manifest);
                assert!(copy.last_position >= 40);
            }
            Err(BackupError::Unsteady { .. }) => assert!(opens > 30, "after {opens} changes"),
            Err(other) => panic!("{opens}: {other}"),
        }
    }
}

/// A node that takes two snapshots of its engine at the n-th file that a backup of it opens. The
/// order store's snapshot needs the events behind the engine's first, which it prunes then.
fn back_up_a_busy_node(at_open: u64) -> (Manifest, u64) {
    let mut live = Live::new(1);
    let (snapshots, store) = (live.snapshots.clone(), SimDisk::new(7));
    let of_engine = move |live: &Live, events: u64| {
        let (at, mut state) = (live.log.committed(), events.to_le_bytes().to_vec());
        state.resize(100_000, 7);
        let log_id = live.log.log_id();
        let mut store = SnapshotStore::new(live.snapshots.clone(), log_id, PartitionId(1));
        store.write(at, &state).unwrap();
        store.prune(2).unwrap();
    };
    live.append(20);
    of_engine(&live, 200);
    live.append(20);
    of_engine(&live, 400);
    let log_id = live.log.log_id();
    let mut of_store = SnapshotStore::new(store.clone(), log_id, PartitionId(1));
    of_store.write(Position(300), &[7; 1_000]).unwrap();
    live.trim(15);
    assert!(live.log.first_position() > Position(1));
    let segments = live.log.retained().count() as u64;
    let inner = live.commands.clone();
    let mut open = 0;
    let meddle = Box::new(move || {
        open += 1;
        if open == at_open {
            for events in [500, 600] {
                live.append(7);
                of_engine(&live, events);
            }
        }
    });
    let quiet = |inner: SimDisk| Meddled { inner, opens_left: 0, meddle: Box::new(|| ()) };
    let source = LogSource {
        kind: LogKind::Partition,
        partition_id: PartitionId(1),
        commands: Meddled { inner, opens_left: 1_000, meddle },
        snapshots: Some(quiet(snapshots)),
        store: Some(quiet(store)),
        past_ends: None,
    };
    let backup = SimDisk::new(1);
    let taken = back_up(of(vec![source]), &mut backup.clone(), NOW).unwrap();
    assert_eq!(check(&backup).unwrap(), taken.manifest);
    (taken.manifest, segments)
}

#[test]
fn a_backup_of_a_busy_node_has_the_order_store_with_a_snapshot_that_suits_it() {
    let (quiet, segments) = back_up_a_busy_node(u64::MAX);
    let positions = |manifest: &Manifest| {
        let copy = &manifest.partitions[0];
        let position = |copy: &Option<SnapshotCopy>| copy.as_ref().map(|copy| copy.position);
        (position(&copy.snapshot), position(&copy.store))
    };
    assert_eq!(positions(&quiet), (Some(20), Some(300)));
    // Behind the list of the log's segments: while they are copied.
    for at_open in segments + 1..=3 * segments {
        let (busy, _) = back_up_a_busy_node(at_open);
        assert_eq!(positions(&busy), (Some(20), Some(300)), "open {at_open} of {segments}");
    }
}

#[test]
fn the_files_of_a_broker_that_goes_on_are_copied_as_they_were_at_one_moment() {
    const TABLE: &str = "subscriptions-0.wtable";
    for opens in [1, 2, 3, 5, 8, 20, 1_000] {
        let inner = broker();
        let (files, mut generation) = (inner.clone(), 10);
        // The table and the newest spill file belong together; the oldest spill file is removed in
        // between.
        let meddle = Box::new(move || {
            generation += 1;
            files.plant(TABLE, &[generation; 700]);
            files.plant(NEWEST_SPILL, &vec![generation; 700 + usize::from(generation)]);
            if generation == 14 {
                files.clone().remove("00000000000000000001.wspill").unwrap();
            }
        });
        let broker = Some(Meddled { inner, opens_left: opens, meddle });
        let backup = SimDisk::new(1);
        let node = NodeFiles { logs: Vec::new(), broker, keys: Vec::new() };
        let taken = match back_up(node, &mut backup.clone(), NOW) {
            Ok(taken) => taken,
            Err(BackupError::BusyBroker { .. }) => {
                assert_eq!(opens, 1_000, "it came to rest");
                assert!(matches!(check(&backup), Err(BackupError::NoManifest)));
                continue;
            }
            Err(other) => panic!("{opens}: {other}"),
        };
        assert_eq!(check(&backup).unwrap(), taken.manifest);
        let copied = |name: &str| {
            let file = taken.manifest.broker.iter().find(|file| file.name == name).unwrap();
            backup.contents(&file.stored).unwrap()
        };
        let (table, spill) = (copied(TABLE), copied(NEWEST_SPILL));
        assert!(opens == 1 || table[0] == spill[0], "{opens}: {} and {}", table[0], spill[0]);
        let in_use = taken.manifest.files().count() + 1;
        assert_eq!(backup.clone().list().unwrap().len(), in_use, "what was copied in vain is gone");
    }
}

#[test]
fn a_backup_of_partitions_alone_is_one_that_programs_of_before_can_read() {
    let node = Node::new();
    let logs: Vec<_> = node.logs[..2].iter().map(Live::source).collect();
    let backup = SimDisk::new(1);
    let manifest = back_up(of(logs), &mut backup.clone(), NOW).unwrap().manifest;
    assert_eq!(manifest.format, 1);
    let text = String::from_utf8(backup.contents(NAME).unwrap()).unwrap();
    assert!(!text.contains("sources") && !text.contains("broker"), "{text}");
    assert_eq!(node.back_up(&SimDisk::new(2)).unwrap().manifest.format, 2);
}
