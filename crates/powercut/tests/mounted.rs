//! The real mount as seen by a process, before and after a power cut.
//!
//! Without `/dev/fuse` or the right to mount, the tests report themselves as skipped.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use weir_powercut::mount::{MountError, Mounted};
use weir_powercut::{Act, Faults, PowerDisk, PowerLoss, Side, Trigger};
use weir_skip::{Need, skip};

/// Longer than anything takes on a machine that makes progress.
const HANG: Duration = Duration::from_secs(60);

struct Mount {
    mounted: Mounted,
    // After the mount: it is unmounted before its directory is removed.
    _dir: TempDir,
}

/// Mounts a new disk; `None` on a machine that cannot.
fn mount() -> Option<Mount> {
    let dir = tempfile::tempdir().unwrap();
    let mounted = match Mounted::mount(&PowerDisk::default(), dir.path()) {
        Ok(mounted) => mounted,
        Err(why @ MountError::Unavailable(_)) => {
            skip(Need::Fuse, why);
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    Some(Mount { mounted, _dir: dir })
}

impl Mount {
    fn disk(&self) -> &PowerDisk {
        self.mounted.disk()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    fn create(&self, name: &str) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self.path(name)).unwrap()
    }

    fn sync_names(&self) {
        File::open(self.mounted.path()).unwrap().sync_all().unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.mounted.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    fn cut(&self, loss: PowerLoss) {
        self.disk().freeze();
        self.disk().lose_power(loss);
        self.disk().power_on();
    }
}

#[test]
fn a_file_is_what_was_written_cut_and_lengthened() {
    let Some(mount) = mount() else { return };
    let file = mount.create("a");
    file.write_all_at(b"hello", 5).unwrap();
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), b"\0\0\0\0\0hello");
    file.set_len(7).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 9).unwrap();
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), b"\0\0\0\0\0he\0\0");
    let long = vec![7; 3 << 20];
    file.write_all_at(&long, 100).unwrap();
    let mut read = vec![0; long.len()];
    file.read_exact_at(&mut read, 100).unwrap();
    assert!(read == long, "a write of many requests is one");
    assert_eq!(file.metadata().unwrap().len(), 100 + (3 << 20));
}

#[test]
fn names_come_go_and_replace_each_other() {
    let Some(mount) = mount() else { return };
    mount.create("a").write_all_at(b"a", 0).unwrap();
    mount.create("b").write_all_at(b"b", 0).unwrap();
    std::fs::rename(mount.path("b"), mount.path("a")).unwrap();
    assert_eq!(mount.names(), ["a"]);
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), b"b");
    let mut open = File::open(mount.path("a")).unwrap();
    std::fs::remove_file(mount.path("a")).unwrap();
    let mut read = String::new();
    open.read_to_string(&mut read).unwrap();
    assert_eq!(read, "b", "an open file outlives its name");
    let many: Vec<String> = (100..400).map(|n| format!("file-{n}")).collect();
    many.iter().for_each(|name| drop(mount.create(name)));
    assert_eq!(mount.names(), many, "a long directory is listed whole, each name once");
    std::fs::create_dir_all(mount.path("x/y")).unwrap();
    let across = std::fs::rename(mount.path("file-100"), mount.path("x/z")).unwrap_err();
    assert_eq!(across.kind(), ErrorKind::CrossesDevices);
    let full = std::fs::remove_dir(mount.path("x")).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
}

#[test]
fn direct_io_is_taken_and_changes_nothing() {
    let Some(mount) = mount() else { return };
    let mut options = OpenOptions::new();
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
    options.write(true).create(true).truncate(false).custom_flags(direct);
    options.open(mount.path("a")).unwrap().write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), [1; 4096]);
}

#[test]
fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
    let Some(mount) = mount() else { return };
    let kept = mount.create("kept");
    kept.write_all_at(b"synced", 0).unwrap();
    kept.sync_data().unwrap();
    mount.sync_names();
    kept.write_all_at(b"beyond", 0).unwrap();
    let lost = mount.create("lost");
    lost.write_all_at(b"synced, without a name", 0).unwrap();
    lost.sync_all().unwrap();
    mount.cut(PowerLoss::LoseAll);
    assert_eq!(mount.names(), ["kept"]);
    assert_eq!(std::fs::read(mount.path("kept")).unwrap(), b"synced", "no cache tells otherwise");
    assert!(kept.write_all_at(b"x", 0).is_err(), "a file of the life before is gone");
}

#[test]
fn a_trigger_freezes_at_its_operation_and_the_power_fails_who_waits() {
    let Some(mount) = mount() else { return };
    let file = mount.create("a");
    mount.sync_names();
    for side in [Side::Before, Side::After] {
        let file = file.try_clone().unwrap();
        let file = if side == Side::Before { file } else { mount.create("a") };
        let trigger = Trigger { acts: vec![Act::Sync], name_has: "a".to_owned(), skip: 1, side };
        mount.disk().arm(Some(trigger));
        let writer = std::thread::spawn(move || {
            file.write_all_at(b"1", 0).unwrap();
            file.sync_data().unwrap();
            file.write_all_at(b"2", 0).unwrap();
            file.sync_data()
        });
        assert!(mount.disk().wait_frozen(HANG));
        mount.disk().lose_power(PowerLoss::LoseAll);
        mount.disk().power_on();
        assert!(writer.join().unwrap().is_err(), "nobody is told of a sync that the cut met");
        let expected = if side == Side::Before { b"1" } else { b"2" };
        assert_eq!(&std::fs::read(mount.path("a")).unwrap(), expected, "{side:?}");
    }
}

#[test]
fn a_disk_that_ignores_syncs_says_that_they_are_done() {
    let Some(mount) = mount() else { return };
    mount.disk().set_faults(Faults { ignores_syncs: true, ignores_name_syncs: false });
    let file = mount.create("a");
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    mount.sync_names();
    mount.cut(PowerLoss::LoseAll);
    assert_eq!(std::fs::read(mount.path("a")).unwrap(), b"");
}
