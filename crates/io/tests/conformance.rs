//! The disk contract, checked on the simulated disk and on both real ones.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use weir_io::{
    Access, Completion, Disk, DiskErrorKind, Op, Outcome, RealDisk, RealDiskConfig, SimDisk,
    SyncStrategy, ThreadDisk, UringDisk, WakeFd,
};

/// Generates one test per disk from a check that is generic over disks.
macro_rules! on_every_disk {
    ($($name:ident => $check:ident;)*) => {$(
        mod $name {
            #[test]
            fn on_the_simulated_disk() {
                super::$check(weir_io::SimDisk::new(1));
            }
            #[test]
            fn on_the_thread_disk() {
                let dir = tempfile::tempdir().unwrap();
                super::$check(super::ThreadDisk::open(dir.path(), None).unwrap());
            }
            #[test]
            fn on_the_io_uring_disk() {
                let dir = tempfile::tempdir().unwrap();
                match super::UringDisk::open(dir.path(), None) {
                    Ok(disk) => super::$check(disk),
                    Err(e) => weir_skip::skip(weir_skip::Need::IoUring, e),
                }
            }
        }
    )*};
}

on_every_disk! {
    submitted_writes_are_seen_and_their_buffers_come_back => check_submitted_writes;
    a_write_starts_where_it_is_told => check_partial_buffer;
    files_are_prepared_with_zeros => check_prepare;
    names_change_and_go => check_names;
    a_missing_file_is_not_found => check_missing;
    reading_stops_at_the_end => check_read_end;
    a_locked_directory_is_listed_without_its_lock => check_lock;
}

fn finish<D: Disk>(disk: &mut D, count: usize) -> Vec<Completion> {
    let mut out = Vec::new();
    while out.len() < count {
        disk.wait();
        disk.reap(&mut out);
    }
    assert_eq!(disk.in_flight(), 0);
    out.sort_by_key(|c| c.tag);
    out
}

fn contents<D: Disk>(disk: &mut D, name: &str) -> Vec<u8> {
    let file = disk.open(name, Access::Read).unwrap();
    let mut bytes = vec![0; disk.len(file).unwrap() as usize];
    assert_eq!(disk.read(file, 0, &mut bytes).unwrap(), bytes.len());
    disk.close(file);
    bytes
}

fn check_submitted_writes<D: Disk>(mut disk: D) {
    let file = disk.create("f").unwrap();
    for n in 0..8u64 {
        let op =
            Op::Write { file, offset: n * 4, buf: vec![n as u8; 4], from: 0, sync: n % 2 == 0 };
        disk.submit(n, op);
    }
    for (n, done) in (0u64..).zip(finish(&mut disk, 8)) {
        assert_eq!((done.tag, done.buf), (n, vec![n as u8; 4]));
        assert_eq!(done.outcome, Outcome::Written { bytes: 4, synced: n % 2 == 0 });
    }
    disk.submit(9, Op::Sync { file });
    assert_eq!(finish(&mut disk, 1)[0].outcome, Outcome::Done);
    let wanted: Vec<u8> = (0..8).flat_map(|n| [n; 4]).collect();
    assert_eq!(contents(&mut disk, "f"), wanted);
    disk.close(file);
}

fn check_partial_buffer<D: Disk>(mut disk: D) {
    let file = disk.create("f").unwrap();
    disk.submit(1, Op::Write { file, offset: 2, buf: b"xxhello".into(), from: 2, sync: true });
    let done = finish(&mut disk, 1).remove(0);
    assert_eq!(done.outcome, Outcome::Written { bytes: 5, synced: true });
    assert_eq!(contents(&mut disk, "f"), b"\0\0hello");
}

fn check_prepare<D: Disk>(mut disk: D) {
    let file = disk.create("old").unwrap();
    disk.write_all(file, 0, &[7; 300_000]).unwrap();
    disk.close(file);
    disk.submit(1, Op::Prepare { name: "new".into(), len: 100_000 });
    disk.submit(2, Op::Prepare { name: "old".into(), len: 200_000 });
    for done in finish(&mut disk, 2) {
        assert_eq!(done.outcome, Outcome::Done);
    }
    assert_eq!(contents(&mut disk, "new"), vec![0; 100_000]);
    assert_eq!(contents(&mut disk, "old"), vec![0; 200_000]);
    disk.prepare("again", 10).unwrap();
    assert_eq!(contents(&mut disk, "again"), [0; 10]);
}

fn check_names<D: Disk>(mut disk: D) {
    for name in ["b", "a", "c"] {
        let file = disk.create(name).unwrap();
        disk.write_all(file, 0, name.as_bytes()).unwrap();
        disk.sync(file).unwrap();
        disk.close(file);
    }
    disk.sync_dir().unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "b", "c"]);
    // An open file stays the same file when it is renamed.
    let open = disk.open("a", Access::Write).unwrap();
    disk.submit(1, Op::Rename { from: "a".into(), to: "b".into() });
    assert_eq!(finish(&mut disk, 1)[0].outcome, Outcome::Done);
    disk.write_all(open, 1, b"!").unwrap();
    assert_eq!(contents(&mut disk, "b"), b"a!");
    disk.submit(2, Op::Remove { name: "c".into() });
    assert_eq!(finish(&mut disk, 1)[0].outcome, Outcome::Done);
    disk.rename("b", "d").unwrap();
    assert_eq!(disk.list().unwrap(), ["d"]);
    disk.remove("d").unwrap();
    assert!(disk.list().unwrap().is_empty());
}

fn check_missing<D: Disk>(mut disk: D) {
    let kinds = [
        disk.open("no", Access::Read).unwrap_err().kind,
        disk.rename("no", "other").unwrap_err().kind,
        disk.remove("no").unwrap_err().kind,
    ];
    assert_eq!(kinds, [DiskErrorKind::NotFound; 3]);
    disk.submit(1, Op::Rename { from: "no".into(), to: "other".into() });
    let Outcome::Failed(error) = finish(&mut disk, 1).remove(0).outcome else { panic!() };
    assert_eq!((error.kind, error.name.as_str()), (DiskErrorKind::NotFound, "no"));
}

fn check_read_end<D: Disk>(mut disk: D) {
    let file = disk.create("f").unwrap();
    disk.write_all(file, 0, b"12345").unwrap();
    let mut buf = [0; 4];
    assert_eq!(disk.read(file, 3, &mut buf).unwrap(), 2);
    assert_eq!(&buf[..2], b"45");
    assert_eq!(disk.read(file, 5, &mut buf).unwrap(), 0);
    assert_eq!(disk.read(file, 500, &mut buf).unwrap(), 0);
}

fn check_lock<D: Disk>(mut disk: D) {
    disk.lock().unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert_eq!(disk.boot_id(), disk.boot_id());
}

#[test]
fn a_second_lock_on_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = ThreadDisk::open(dir.path(), None).unwrap();
    let mut second = ThreadDisk::open(dir.path(), None).unwrap();
    first.lock().unwrap();
    assert_eq!(second.lock().unwrap_err().kind, DiskErrorKind::Locked);
    drop(first);
    second.lock().unwrap();
}

#[test]
fn completions_wake_whoever_waits_for_them() {
    for strategy in [SyncStrategy::Thread, SyncStrategy::Uring] {
        let dir = tempfile::tempdir().unwrap();
        let wake = WakeFd::new().unwrap();
        let path = dir.path().to_owned();
        let config = RealDiskConfig { path, strategy, wake: Some(wake.clone()) };
        let (mut disk, note) = RealDisk::open(config).unwrap();
        assert_eq!(note.is_some(), disk.strategy() != strategy);
        let file = disk.create("f").unwrap();
        let ops = [
            Op::Write { file, offset: 0, buf: vec![1], from: 0, sync: true },
            Op::Prepare { name: "p".into(), len: 10 },
        ];
        for op in ops {
            disk.submit(1, op);
            let mut out = Vec::new();
            while out.is_empty() {
                // Waits for the signal alone, as a parked duty cycle does.
                while !wake.drain() {
                    std::thread::yield_now();
                }
                disk.reap(&mut out);
            }
        }
    }
}

#[test]
fn a_disk_dropped_with_writes_in_flight_finishes_them() {
    let dir = tempfile::tempdir().unwrap();
    for strategy in [SyncStrategy::Thread, SyncStrategy::Uring] {
        let config = RealDiskConfig { path: dir.path().to_owned(), strategy, wake: None };
        let (mut disk, _) = RealDisk::open(config).unwrap();
        let file = disk.create("f").unwrap();
        for n in 0..16 {
            let (offset, buf) = (n * 100_000, vec![n as u8; 100_000]);
            disk.submit(n, Op::Write { file, offset, buf, from: 0, sync: true });
        }
        drop(disk);
        let written = std::fs::read(dir.path().join("f")).unwrap();
        let wanted: Vec<u8> = (0..16u8).flat_map(|n| vec![n; 100_000]).collect();
        assert!(written == wanted, "{strategy}");
    }
}

#[test]
fn a_failed_sync_leaves_bytes_that_only_writing_again_makes_durable() {
    use weir_io::SimFaults;
    use weir_io::disk::sim::CrashChoice::{KeepAll, LoseAll};
    let mut disk = SimDisk::new(1);
    let file = disk.create("f").unwrap();
    disk.sync_dir().unwrap();
    disk.write_all(file, 0, b"once").unwrap();
    disk.set_faults(SimFaults { sync_fails_at: Some(0), ..SimFaults::default() });
    assert!(disk.sync(file).is_err());
    disk.sync(file).unwrap();
    assert_eq!(contents(&mut disk, "f"), b"once");
    assert_eq!(contents(&mut disk.after_power_loss(KeepAll), "f"), b"");
    disk.write_all(file, 0, b"once").unwrap();
    disk.sync(file).unwrap();
    assert_eq!(contents(&mut disk.after_power_loss(LoseAll), "f"), b"once");
}

#[test]
fn a_torn_write_keeps_whole_sectors() {
    use weir_io::disk::sim::CrashChoice;
    let mut disk = SimDisk::new(1);
    let file = disk.create("f").unwrap();
    disk.sync_dir().unwrap();
    disk.write_all(file, 0, &[1; 2048]).unwrap();
    disk.sync(file).unwrap();
    disk.write_all(file, 300, &[2; 1000]).unwrap();
    let tears: Vec<Vec<u8>> = disk
        .crash_choices()
        .into_iter()
        .filter(|choice| matches!(choice, CrashChoice::TearAt { .. }))
        .map(|choice| contents(&mut disk.after_power_loss(choice), "f"))
        .collect();
    let borders: Vec<usize> =
        tears.iter().map(|bytes| bytes.iter().filter(|b| **b == 2).count()).collect();
    assert_eq!(borders, [212, 724]);
}
