//! The blocking half of the real disks: a directory, its open files and its lock.
//!
//! File names are plain: no separators, no dot files. Nothing here is on the data path.
//!
//! INVARIANT: a locked directory is open, so that the sync after a rename or a removal takes no
//! descriptor. Its failure would leave the name's state unknown, and the writer would have to stop.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{Access, DiskAction, DiskError, DiskErrorKind, FileId, zero_fill};

/// The file whose advisory lock keeps other processes out of the directory.
const LOCK_NAME: &str = "LOCK";

/// A directory with its open files.
#[derive(Debug)]
pub(super) struct Dir {
    names: Arc<Names>,
    files: Vec<Option<Arc<OpenFile>>>,
    lock: Option<File>,
    boot_id: [u8; 16],
}

/// A directory's names: created, renamed, removed and synced by the disk's owner and by its lanes.
#[derive(Debug)]
pub(super) struct Names {
    path: PathBuf,
    /// The directory, open from its lock on.
    opened: OnceLock<File>,
}

/// An open file, with its name at the time of opening for error messages.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) name: String,
}

impl OpenFile {
    pub(super) fn fail(&self, action: DiskAction, error: &std::io::Error) -> DiskError {
        DiskError::from_system(action, &self.name, error)
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        loop {
            match self.file.write_at(bytes, offset) {
                Ok(0) if !bytes.is_empty() => {
                    let zero = std::io::Error::from(std::io::ErrorKind::WriteZero);
                    return Err(self.fail(DiskAction::Write, &zero));
                }
                Ok(taken) => return Ok(taken),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail(DiskAction::Write, &e)),
            }
        }
    }

    pub(super) fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|e| self.fail(DiskAction::Sync, &e))
    }
}

impl Dir {
    pub(super) fn open(path: &Path) -> Result<Dir, DiskError> {
        let shown = path.display().to_string();
        crate::durable::create_dir(path)
            .map_err(|e| DiskError::from_system(DiskAction::Open, &shown, &e))?;
        let names = Arc::new(Names { path: path.to_owned(), opened: OnceLock::new() });
        Ok(Dir { names, files: Vec::new(), lock: None, boot_id: boot_id() })
    }

    pub(super) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    pub(super) fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    pub(super) fn file(&self, file: FileId) -> &Arc<OpenFile> {
        self.files[file.0 as usize].as_ref().expect("the caller has not closed the file")
    }

    pub(super) fn open_file(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write);
        self.open_with(name, &options)
    }

    pub(super) fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        self.open_with(name, &options)
    }

    fn open_with(&mut self, name: &str, options: &OpenOptions) -> Result<FileId, DiskError> {
        let file = options
            .open(self.names.path.join(name))
            .map_err(|e| DiskError::from_system(DiskAction::Open, name, &e))?;
        let open = Some(Arc::new(OpenFile { file, name: name.to_owned() }));
        let slot = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        if slot == self.files.len() {
            self.files.push(open);
        } else {
            self.files[slot] = open;
        }
        Ok(FileId(u32::try_from(slot).expect("fewer than 2^32 open files")))
    }

    pub(super) fn close(&mut self, file: FileId) {
        let closed = self.files[file.0 as usize].take();
        assert!(closed.is_some(), "a file is closed once");
    }

    pub(super) fn len(&self, file: FileId) -> Result<u64, DiskError> {
        let open = self.file(file);
        Ok(open.file.metadata().map_err(|e| open.fail(DiskAction::Read, &e))?.len())
    }

    pub(super) fn forget_cached(&self, file: FileId) {
        // Advice: a system that ignores it only keeps the memory in use.
        let _ = rustix::fs::fadvise(&self.file(file).file, 0, None, rustix::fs::Advice::DontNeed);
    }

    pub(super) fn list(&self) -> Result<Vec<String>, DiskError> {
        let fail = |e: std::io::Error| DiskError::from_system(DiskAction::List, "", &e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.names.path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // Weir's file names are all valid text; others are skipped.
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK_NAME
                && entry.file_type().map_err(fail)?.is_file()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn read(
        &self,
        file: FileId,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, DiskError> {
        let open = self.file(file);
        let mut done = 0;
        while done < buf.len() {
            match open.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(taken) => done += taken,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(open.fail(DiskAction::Read, &e)),
            }
        }
        Ok(done)
    }

    pub(super) fn lock(&mut self) -> Result<(), DiskError> {
        let fail = |e: std::io::Error| DiskError::from_system(DiskAction::Lock, LOCK_NAME, &e);
        let path = &self.names.path;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_NAME))
            .map_err(fail)?;
        let directory = File::open(path).map_err(fail)?;
        let taken = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        match taken {
            Ok(()) => {
                self.lock = Some(file);
                self.names.opened.get_or_init(|| directory);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DiskError {
                    action: DiskAction::Lock,
                    name: path.display().to_string(),
                    kind: DiskErrorKind::Locked,
                    reason: "another process has it open".to_owned(),
                });
            }
            Err(e) => return Err(fail(e.into())),
        }
        Ok(())
    }
}

impl Names {
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        std::fs::rename(self.path.join(from), self.path.join(to))
            .map_err(|e| DiskError::from_system(DiskAction::Rename, from, &e))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), DiskError> {
        std::fs::remove_file(self.path.join(name))
            .map_err(|e| DiskError::from_system(DiskAction::Remove, name, &e))
    }

    pub(super) fn sync(&self) -> Result<(), DiskError> {
        let synced = match self.opened.get() {
            Some(directory) => directory.sync_all(),
            None => File::open(&self.path).and_then(|directory| directory.sync_all()),
        };
        synced.map_err(|e| DiskError::from_system(DiskAction::Sync, "", &e))
    }

    /// Writes `len` zeros into `name` and syncs the bytes and the name. An existing file keeps its
    /// blocks, so that recycling a file allocates nothing.
    pub(super) fn prepare(&self, name: &str, len: u64) -> Result<(), DiskError> {
        let fail = |e: std::io::Error| DiskError::from_system(DiskAction::Open, name, &e);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.path.join(name))
            .map_err(fail)?;
        let open = OpenFile { file, name: name.to_owned() };
        open.file.set_len(len).map_err(|e| open.fail(DiskAction::Write, &e))?;
        let mut unsynced = 0;
        zero_fill(len, |at, zeros| {
            let taken = open.write(at, zeros)?;
            unsynced += taken;
            // In steps, because one long sync would delay the log's own syncs.
            if unsynced >= 1 << 20 {
                open.sync()?;
                unsynced = 0;
            }
            Ok(taken)
        })?;
        open.sync()?;
        self.sync()
    }
}

/// Returns the kernel's boot id; zero where the kernel gives none, which reads as "never
/// restarted".
fn boot_id() -> [u8; 16] {
    let mut id = [0u8; 16];
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut digits = text.chars().filter_map(|c| c.to_digit(16));
    for byte in &mut id {
        let (Some(high), Some(low)) = (digits.next(), digits.next()) else { return [0; 16] };
        *byte = u8::try_from(high << 4 | low).expect("two hexadecimal digits make a byte");
    }
    id
}

/// Generates the blocking calls of [`super::Disk`] for a disk that has a field `dir: Dir`.
macro_rules! blocking_calls {
    () => {
        fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
            self.dir.open_file(name, access)
        }
        fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
            self.dir.create(name)
        }
        fn close(&mut self, file: FileId) {
            self.dir.close(file);
        }
        fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
            self.dir.len(file)
        }
        fn list(&mut self) -> Result<Vec<String>, DiskError> {
            self.dir.list()
        }
        fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
            self.dir.read(file, offset, buf)
        }
        fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
            self.dir.file(file).write(offset, bytes)
        }
        fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
            self.dir.file(file).sync()
        }
        fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
            self.dir.names().rename(from, to)
        }
        fn remove(&mut self, name: &str) -> Result<(), DiskError> {
            self.dir.names().remove(name)
        }
        fn sync_dir(&mut self) -> Result<(), DiskError> {
            self.dir.names().sync()
        }
        fn lock(&mut self) -> Result<(), DiskError> {
            self.dir.lock()
        }
        fn boot_id(&self) -> [u8; 16] {
            self.dir.boot_id()
        }
        fn forget_cached(&mut self, file: FileId) {
            self.dir.forget_cached(file);
        }
    };
}
pub(super) use blocking_calls;
