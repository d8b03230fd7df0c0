//! A machine whose power can be cut: a mounted simulated disk, and a node on it that sees each
//! return of the power as a new boot.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use weir_powercut::PowerDisk;
use weir_powercut::mount::{MountError, Mounted};

use crate::common::Home;
use crate::party::SMALL_FILES;

/// The least duration of a sync: long enough that batches form, short enough for many syncs per
/// second.
const SYNC_TIME: Duration = Duration::from_micros(200);

/// The command that runs the node in its own mount namespace, where it reads the machine's boot id.
const WITH_BOOT_ID: &str =
    "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";

pub struct Machine {
    pub home: Home,
    boot_id_file: PathBuf,
    boots: u64,
    sync: &'static str,
    refuses_uring: bool,
    // In this order: unmounted, then removed.
    mounted: Mounted,
    _mount_point: TempDir,
}

impl Machine {
    /// Builds a machine with an empty disk. Prints a notice and returns `None` where no file system
    /// can be mounted.
    pub fn build(durability: &'static str) -> Option<Machine> {
        let mount_point = tempfile::tempdir().unwrap();
        let mounted = match Mounted::mount(&PowerDisk::new(SYNC_TIME), mount_point.path()) {
            Ok(mounted) => mounted,
            Err(why @ MountError::Unavailable(_)) => {
                // Written to the terminal directly: the output of a passing test is captured.
                drop(writeln!(std::io::stderr(), "*** SKIPPED: no power cuts: {why}"));
                return None;
            }
            Err(why) => panic!("{why}"),
        };
        let home = Home::with_config(durability, SMALL_FILES);
        let boot_id_file = home.path("boot_id");
        let words = ["unshare", "--mount", "sh", "-c", WITH_BOOT_ID, "sh"];
        let wrapper = words.map(OsString::from).into_iter().chain([boot_id_file.clone().into()]);
        let home = home.elsewhere(mounted.path().join("data"), wrapper.collect());
        let mut machine = Machine {
            home,
            boot_id_file,
            boots: 0,
            sync: "",
            refuses_uring: false,
            mounted,
            _mount_point: mount_point,
        };
        machine.boot();
        Some(machine)
    }

    pub fn disk(&self) -> &PowerDisk {
        self.mounted.disk()
    }

    /// Returns the node's way of writing since the last boot.
    pub fn sync(&self) -> &'static str {
        if self.refuses_uring { "thread, as io_uring is refused" } else { self.sync }
    }

    /// Notes whether a start reported that io_uring is refused, as on some systems.
    pub fn hear(&mut self) {
        self.refuses_uring |= self.home.said_at_start().contains("no io_uring here");
    }

    /// Boots the machine again after its node is gone.
    pub fn boot(&mut self) {
        self.boots += 1;
        let boots = self.boots;
        // The two ways of writing alternate, so that each meets the other's files.
        self.sync = if boots.is_multiple_of(2) { "io_uring" } else { "thread" };
        let log = format!("[log]\nsync = \"{}\"\n", self.sync);
        let config = SMALL_FILES.replace("[log]\n", &log);
        std::fs::write(self.home.path("weir.toml"), config).unwrap();
        std::fs::write(&self.boot_id_file, format!("0b007000-0000-4000-8000-{boots:012x}\n"))
            .unwrap();
        self.disk().power_on();
    }
}
