//! A machine whose power can be cut: a mounted simulated disk, and a node on it that sees each
//! return of the power as a new boot.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use weir_powercut::PowerDisk;
use weir_powercut::mount::{MountError, Mounted};
use weir_skip::{Need, skip};

use crate::party::SMALL_FILES;
use crate::support::Home;

/// The least duration of a sync: long enough that batches form, short enough for many syncs per
/// second.
const SYNC_TIME: Duration = Duration::from_micros(200);

/// In a mount namespace of its own, a process reads the boot id that its machine has.
///
/// `unshare` is to leave the propagation of the root alone: it can change that of mount points
/// only, and the root of a chroot is none. `/proc` is one, and private before anything is mounted
/// on a file of it: no other namespace sees that boot id.
const UNSHARE: [&str; 6] = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c"];
const WITH_BOOT_ID: &str = "mount --make-rprivate /proc && \
    mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";

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
    /// A machine with an empty disk. `None`, reported as a skip, where it lacks a privilege.
    pub fn build(durability: &'static str) -> Option<Machine> {
        let mount_point = tempfile::tempdir().unwrap();
        let mounted = match Mounted::mount(&PowerDisk::new(SYNC_TIME), mount_point.path()) {
            Ok(mounted) => mounted,
            Err(why @ MountError::Unavailable(_)) => {
                skip(Need::Fuse, why);
                return None;
            }
            Err(why) => panic!("{why}"),
        };
        let home = Home::with_config(durability, SMALL_FILES);
        let boot_id_file = home.path("boot_id");
        if let Err(why) = try_boot_id(&boot_id_file) {
            skip(Need::MountNamespace, why);
            return None;
        }
        let home = home.elsewhere(mounted.path().join("data"), with_boot_id(&boot_id_file));
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

/// The words before a command that is to read the boot id of `file`.
fn with_boot_id(file: &Path) -> Vec<OsString> {
    let words = UNSHARE.into_iter().chain([WITH_BOOT_ID, "sh"]).map(OsString::from);
    words.chain([file.into()]).collect()
}

/// Reads a boot id as a node will; the error is what the system says to it.
fn try_boot_id(file: &Path) -> Result<(), String> {
    std::fs::write(file, "a boot id\n").unwrap();
    let words = with_boot_id(file);
    let mut reads = Command::new(&words[0]);
    reads.args(&words[1..]).args(["cat", "/proc/sys/kernel/random/boot_id"]);
    let output = reads.output().map_err(|error| format!("unshare: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    assert_eq!(output.stdout, b"a boot id\n", "it is mounted and another one is read");
    Ok(())
}
