//! `weir_io::durable` on a disk that loses power at each of its operations.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_io::durable::{create_dir, write_file};
use weir_powercut::mount::{MountError, Mounted};
use weir_powercut::{PowerDisk, PowerLoss, Side, Trigger};
use weir_skip::Need;

/// More operations than any of the cases needs.
const OPERATIONS_MAX: u64 = 40;

/// Runs `act` on an empty disk that freezes at each operation in its own run and loses unsynced
/// changes; passes the remaining contents to `check`, with whether `act` had returned.
fn at_each_operation(act: fn(&Path) -> std::io::Result<()>, check: fn(&Path, bool)) {
    for skip in 0..OPERATIONS_MAX {
        for side in [Side::Before, Side::After] {
            let dir = tempfile::tempdir().unwrap();
            let disk = PowerDisk::default();
            let mounted = match Mounted::mount(&disk, dir.path()) {
                Ok(mounted) => mounted,
                Err(why @ MountError::Unavailable(_)) => return weir_skip::skip(Need::Fuse, why),
                Err(why) => panic!("{why}"),
            };
            let trigger = Trigger { acts: Vec::new(), name_has: String::new(), skip, side };
            disk.arm(Some(trigger));
            let path: PathBuf = mounted.path().to_owned();
            let actor = std::thread::spawn(move || act(&path));
            let has_frozen = loop {
                if disk.wait_frozen(Duration::from_millis(1)) {
                    break true;
                }
                if actor.is_finished() {
                    break false;
                }
            };
            disk.lose_power(PowerLoss::LoseAll);
            disk.power_on();
            let is_done = actor.join().unwrap().is_ok();
            check(mounted.path(), is_done);
            if !has_frozen {
                assert!(is_done, "nothing was in its way");
                return;
            }
        }
    }
    panic!("it takes more operations than {OPERATIONS_MAX}");
}

#[test]
fn a_directory_that_was_made_stays_with_those_above_it() {
    at_each_operation(
        |top| create_dir(&top.join("a/b/c")),
        |top, is_done| assert!(!is_done || top.join("a/b/c").is_dir()),
    );
}

/// A start made a directory and ended before it synced the name; the next start uses the directory.
#[test]
fn a_directory_that_an_ended_start_left_is_made_durable_by_the_next() {
    at_each_operation(
        |top| {
            std::fs::create_dir(top.join("a"))?;
            create_dir(&top.join("a"))?;
            std::fs::create_dir(top.join("b"))?;
            create_dir(&top.join("b/c"))
        },
        |top, is_done| assert!(!is_done || top.join("a").is_dir() && top.join("b/c").is_dir()),
    );
}

#[test]
fn a_file_is_there_whole_or_not_at_all_and_stays_once_it_was_written() {
    at_each_operation(
        |top| write_file(&top.join("key"), b"secret", 0o600),
        |top, is_done| match std::fs::read(top.join("key")) {
            Ok(bytes) => assert_eq!(bytes, b"secret"),
            Err(error) => assert!(!is_done, "{error}"),
        },
    );
}
