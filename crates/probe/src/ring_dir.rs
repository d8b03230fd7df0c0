//! The directory of a process's ring files, such as `/dev/shm/weir-1234`.
//!
//! It creates one file per thread, and removes the files and the directory when dropped; existing
//! mappings stay valid. A killed process cannot remove its files, so the next process does: each
//! directory holds a file that its owner keeps locked, and a directory whose file can be locked has
//! no owner.
//!
//! It removes only directories named `weir-…` that hold such a file, without descending.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::memory::Memory;
use crate::ring::{Consumer, Producer, RingError, check_capacity, ends};
use crate::sys;

const PREFIX: &str = "weir-";
/// The lock file; a name that begins with a dot is never a ring's.
const LOCK: &str = ".lock";
/// The name of the lock file until it is locked: a directory without `.lock` never counts as
/// abandoned.
const LOCK_NEW: &str = ".lock-new";
/// The maximum number of directories of this process id, in case other PID namespaces share `base`.
const NAMES_MAX: u32 = 1_000;

/// The owner of a directory of ring files.
#[derive(Debug)]
pub struct RingDir {
    path: PathBuf,
    made: Vec<PathBuf>,
    /// Holds the lock, which ends with the process, however that ends.
    _lock: File,
}

impl RingDir {
    /// Creates `weir-<pid>` in `base`, usually `/dev/shm`, and removes the directories of dead
    /// processes there. Appends a number if a living process has the name.
    ///
    /// # Errors
    ///
    /// Returns [`RingError::Io`].
    pub fn create_in(base: &Path) -> Result<RingDir, RingError> {
        remove_abandoned(base)?;
        let process = std::process::id();
        for number in 0..NAMES_MAX {
            let name = match number {
                0 => format!("{PREFIX}{process}"),
                _ => format!("{PREFIX}{process}-{number}"),
            };
            match RingDir::create(base.join(name)) {
                Err(RingError::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists => (),
                other => return other,
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
    }

    /// Creates this directory; its parent must exist, the directory itself must not.
    ///
    /// # Errors
    ///
    /// Returns [`RingError::Io`].
    pub fn create(path: impl Into<PathBuf>) -> Result<RingDir, RingError> {
        let path = path.into();
        fs::create_dir(&path)?;
        let unlocked = path.join(LOCK_NEW);
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unlocked)?;
        sys::try_lock(&lock)?;
        let locked = path.join(LOCK);
        fs::rename(unlocked, &locked)?;
        Ok(RingDir { path, made: vec![locked], _lock: lock })
    }

    /// Creates a ring file for one thread. Its pages are reserved and mapped before this returns.
    ///
    /// # Errors
    ///
    /// Returns [`RingError`] if the name is taken or not plain, the capacity is not a power of two,
    /// or there is no room.
    pub fn ring(&mut self, name: &str, capacity: u64) -> Result<(Producer, Consumer), RingError> {
        check_capacity(capacity)?;
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        if !plain {
            return Err(RingError::Name { name: name.to_owned() });
        }
        let path = self.path.join(name);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        self.made.push(path);
        Ok(ends(Memory::create(&file, capacity)?))
    }

    /// Returns the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RingDir {
    fn drop(&mut self) {
        // Errors are ignored: a drop cannot report them, and leftover files are small and name
        // their process.
        for file in &self.made {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes the directories in `base` whose owners are dead.
fn remove_abandoned(base: &Path) -> Result<(), RingError> {
    for entry in fs::read_dir(base)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(PREFIX)) {
            // Failure is harmless: the directory is another user's, or another process is removing
            // it.
            let _ = remove_if_abandoned(&path);
        }
    }
    Ok(())
}

fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    let lock = OpenOptions::new().write(true).open(path.join(LOCK))?;
    sys::try_lock(&lock)?;
    for entry in fs::read_dir(path)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(path)
}

/// Opens the reading end of a ring file that another process created. There must be only one
/// reader, and the file must not be truncated while it is open.
///
/// # Errors
///
/// Returns [`RingError`] if there is no such file or it is not a complete ring.
pub fn attach(path: &Path) -> Result<Consumer, RingError> {
    let file: File = OpenOptions::new().read(true).write(true).open(path)?;
    Ok(Consumer::over(Memory::attach(&file)?))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::clock::Tsc;
    use crate::point::Point;
    use crate::ring::{Record, TraceId};

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-probe-{name}-{}", std::process::id()))
    }

    #[test]
    fn another_mapping_of_the_file_reads_what_the_first_one_wrote() {
        let path = temporary("attach");
        let mut rings = RingDir::create(&path).unwrap();
        let (mut producer, consumer) = rings.ring("partition-0", 16).unwrap();
        drop(consumer);
        let record = Record::at(TraceId::new(7).unwrap(), Point::T5, Tsc(99));
        producer.push(record);
        let mut other = attach(&path.join("partition-0")).unwrap();
        assert_eq!(other.capacity(), 16);
        assert_eq!(other.poll(10, |seen| assert_eq!(seen, record)), 1);
        drop(other);
        producer.push(record);
        let mut third = attach(&path.join("partition-0")).unwrap();
        assert_eq!(third.poll(10, |_| ()), 1, "a later reader goes on where the last one ended");
        drop(rings);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_nothing_else() {
        let base = temporary("base");
        fs::create_dir(&base).unwrap();
        let mut dead = RingDir::create(base.join("weir-77")).unwrap();
        drop(dead.ring("partition-0", 16).unwrap());
        // The state after SIGKILL: the lock is gone, the files are not.
        dead.made.clear();
        drop(dead);
        let living = RingDir::create(base.join("weir-78")).unwrap();
        for other in ["weir-no-lock", "other"] {
            fs::create_dir(base.join(other)).unwrap();
            fs::write(base.join(other).join("data"), "kept").unwrap();
        }
        fs::write(base.join("other").join(LOCK), "").unwrap();
        let first = RingDir::create_in(&base).unwrap();
        let second = RingDir::create_in(&base).unwrap();
        assert!(!base.join("weir-77").exists());
        for kept in ["weir-78/.lock", "weir-no-lock/data", "other/data"] {
            assert!(base.join(kept).exists(), "{kept}");
        }
        let process = std::process::id();
        assert_eq!(first.path(), base.join(format!("weir-{process}")));
        assert_eq!(second.path(), base.join(format!("weir-{process}-1")));
        drop((living, first, second));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn files_that_are_no_rings_are_refused() {
        let path = temporary("foreign");
        let mut rings = RingDir::create(&path).unwrap();
        drop(rings.ring("cut", 64).unwrap());
        let file = OpenOptions::new().write(true).open(path.join("cut")).unwrap();
        file.set_len(4096 + 16).unwrap();
        assert!(matches!(attach(&path.join("cut")), Err(RingError::NotARing)));
        for bytes in [0, 10, 4096, 8192] {
            let name = path.join("cut");
            fs::write(&name, vec![1; bytes]).unwrap();
            assert!(matches!(attach(&name), Err(RingError::NotARing)), "{bytes} bytes");
        }
        let mut file = OpenOptions::new().write(true).open(path.join("cut")).unwrap();
        file.write_all(b"WEIRRNG1").unwrap();
        assert!(matches!(attach(&path.join("cut")), Err(RingError::NotARing)));
        assert!(matches!(attach(&path.join("none")), Err(RingError::Io(_))));
    }

    #[test]
    fn names_that_leave_the_directory_or_are_taken_are_refused() {
        let path = temporary("names");
        let mut rings = RingDir::create(&path).unwrap();
        for name in ["", "..", ".hidden", "a/b", "/etc/x"] {
            assert!(matches!(rings.ring(name, 4), Err(RingError::Name { .. })), "{name:?}");
        }
        let _kept = rings.ring("gateway", 4).unwrap();
        assert!(matches!(rings.ring("gateway", 4), Err(RingError::Io(_))));
        assert!(matches!(rings.ring("odd", 5), Err(RingError::Capacity { .. })));
    }
}
