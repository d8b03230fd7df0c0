//! The disk as a mounted file system: the kernel's requests, passed to [`PowerDisk`].
//!
//! The kernel caches nothing: names and attributes have no lifetime, files are opened for direct
//! I/O. A process thus reads the disk's actual contents, before and after a power cut. `O_DIRECT`
//! makes no difference; the kernel refuses `mmap` of a file for writing. Not supported: links,
//! renames between directories, holes, extended attributes.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use thiserror::Error;

use crate::medium::{Ino, MediumError, Stat};
use crate::power::{Act, PowerDisk, Refused};

/// The number of threads that serve requests, and so of syncs that may wait at the same time.
const THREADS: usize = 4;
/// The time for which the kernel may cache a name or an attribute.
const NO_TIME: Duration = Duration::ZERO;
/// The reported number of blocks: the disk never fills up.
const BLOCKS: u64 = 1 << 24;

/// The reason why a disk is not mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// This machine, or this user, cannot mount a FUSE file system.
    #[error("this machine cannot mount a file system served by FUSE: {0}")]
    Unavailable(std::io::Error),
    /// The mount failed.
    #[error("cannot mount: {0}")]
    Failed(#[from] std::io::Error),
}

/// A mounted disk. Dropping it unmounts it, even if processes have files open.
pub struct Mounted {
    disk: PowerDisk,
    path: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts a disk on an existing directory.
    ///
    /// # Errors
    /// [`MountError::Unavailable`] without `/dev/fuse` or the right to mount.
    pub fn mount(disk: &PowerDisk, path: &Path) -> Result<Mounted, MountError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(|error| unavailable(&error, "/dev/fuse"))?;
        let path = path.canonicalize()?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("powercut".to_owned()), MountOption::NoAtime];
        config.n_threads = Some(THREADS);
        let mounted = fuser::spawn_mount(Served { disk: disk.clone() }, &path, &config);
        let session = mounted.map_err(|error| match error.kind() {
            // Without the right to mount, the set-uid helper is asked for, which may be missing.
            ErrorKind::NotFound => unavailable(&error, "no right to mount, and fusermount3"),
            ErrorKind::PermissionDenied => unavailable(&error, "no right to mount"),
            // The helper's own refusal is known by its text alone.
            _ if error.to_string().starts_with("fusermount") => {
                unavailable(&error, "no right to mount")
            }
            _ => MountError::Failed(error),
        })?;
        Ok(Mounted { disk: disk.clone(), path, session: Some(session) })
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &PowerDisk {
        &self.disk
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Operations still waiting for the disk must be able to end.
        self.disk.switch_off();
        // Detached, so that files held open by processes do not prevent it. The mount disappears
        // even if this fails, since it ends with the session.
        let _ = rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

fn unavailable(error: &std::io::Error, about: &str) -> MountError {
    MountError::Unavailable(std::io::Error::new(error.kind(), format!("{about}: {error}")))
}

struct Served {
    disk: PowerDisk,
}

fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::NoPower => Errno::EIO,
        Refused::Medium(MediumError::NotFound) => Errno::ENOENT,
        Refused::Medium(MediumError::Stale) => Errno::ESTALE,
        Refused::Medium(MediumError::Exists) => Errno::EEXIST,
        Refused::Medium(MediumError::IsDir) => Errno::EISDIR,
        Refused::Medium(MediumError::NotDir) => Errno::ENOTDIR,
        Refused::Medium(MediumError::NotEmpty) => Errno::ENOTEMPTY,
    }
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn attributes(stat: Stat) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(stat.ino.0),
        size: stat.len,
        blocks: stat.len.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if stat.is_dir { FileType::Directory } else { FileType::RegularFile },
        perm: stat.mode,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The permission bits of a new file.
fn mode_of(mode: u32, umask: u32) -> u16 {
    (mode & !umask & 0o777) as u16
}

impl Served {
    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<Stat, Errno> {
        let name = text(name)?;
        let found = self.disk.look(|medium| medium.stat(medium.lookup(ino(parent), name)?));
        found.map_err(errno)
    }

    fn change_name<T>(
        &self,
        parent: INodeNo,
        name: &OsStr,
        effect: impl FnOnce(&mut crate::Medium, Ino, &str) -> Result<T, MediumError>,
    ) -> Result<T, Errno> {
        let name = text(name)?;
        let parent = ino(parent);
        let done = self.disk.change(Act::Name, parent, |medium| effect(medium, parent, name));
        done.map_err(errno)
    }

    fn set(&self, about: Ino, mode: Option<u32>, size: Option<u64>) -> Result<Stat, Errno> {
        if let Some(mode) = mode {
            let mode = mode_of(mode, 0);
            self.disk.look(|medium| medium.set_mode(about, mode)).map_err(errno)?;
        }
        if let Some(len) = size {
            let set = self.disk.change(Act::Write, about, |medium| medium.set_len(about, len));
            set.map_err(errno)?;
        }
        self.disk.look(|medium| medium.stat(about)).map_err(errno)
    }

    /// Allocates for `posix_fallocate`: extends the length with zeros.
    fn allocate(&self, about: Ino, end: u64, mode: i32) -> Result<(), Errno> {
        if mode != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let allocated = self.disk.change(Act::Write, about, |medium| {
            if medium.stat(about)?.len < end { medium.set_len(about, end) } else { Ok(()) }
        });
        allocated.map_err(errno)
    }
}

/// Replies with the entry found, or with the error.
fn answer_entry(reply: ReplyEntry, stat: Result<Stat, Errno>) {
    match stat {
        Ok(stat) => reply.entry(&NO_TIME, &attributes(stat), Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.find(parent, name));
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk.look(|medium| medium.stat(ino(of))) {
            Ok(stat) => reply.attr(&NO_TIME, &attributes(stat)),
            Err(refused) => reply.error(errno(refused)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        of: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.set(ino(of), mode, size) {
            Ok(stat) => reply.attr(&NO_TIME, &attributes(stat)),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.change_name(parent, name, |medium, parent, name| {
            let made = medium.mkdir(parent, name, mode_of(mode, umask))?;
            medium.stat(made)
        });
        answer_entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.change_name(parent, name, crate::Medium::unlink));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.change_name(parent, name, crate::Medium::rmdir));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        from: &OsStr,
        new_parent: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if parent != new_parent {
            return reply.error(Errno::EXDEV);
        }
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let renamed = text(to).and_then(|to| {
            self.change_name(parent, from, |medium, parent, from| medium.rename(parent, from, to))
        });
        answer(reply, renamed);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.change_name(parent, name, |medium, parent, name| {
            let made = medium.create(parent, name, mode_of(mode, umask))?;
            medium.open(made)?;
            medium.stat(made)
        });
        match made {
            Ok(stat) => reply.created(
                &NO_TIME,
                &attributes(stat),
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, of: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk.look(|medium| medium.open(ino(of))) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(refused) => reply.error(errno(refused)),
        }
    }

    fn release(
        &self,
        _: &Request,
        of: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.disk.close(ino(of));
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        of: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self
            .disk
            .look(|medium| medium.read(ino(of), offset, size as usize).map(<[u8]>::to_vec));
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(refused) => reply.error(errno(refused)),
        }
    }

    fn write(
        &self,
        _: &Request,
        of: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let about = ino(of);
        match self.disk.change(Act::Write, about, |medium| medium.write(about, offset, bytes)) {
            Ok(()) => reply.written(u32::try_from(bytes.len()).expect("a request is short")),
            Err(refused) => reply.error(errno(refused)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close syncs nothing.
        reply.ok();
    }

    fn fsync(&self, _: &Request, of: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.disk.sync(Act::Sync, ino(of)).map_err(errno));
    }

    fn fsyncdir(&self, _: &Request, of: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.disk.sync(Act::SyncNames, ino(of)).map_err(errno));
    }

    fn readdir(
        &self,
        _: &Request,
        of: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.disk.look(|medium| medium.list(ino(of))) {
            Ok(names) => names,
            Err(refused) => return reply.error(errno(refused)),
        };
        let dots = [".", ".."].map(|name| (name.to_owned(), of, FileType::Directory));
        let entries = names.into_iter().map(|(name, stat)| {
            let kind = if stat.is_dir { FileType::Directory } else { FileType::RegularFile };
            (name, INodeNo(stat.ino.0), kind)
        });
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (name, of, kind)) in dots.into_iter().chain(entries).enumerate().skip(from) {
            if reply.add(of, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        of: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(ino(of), offset.saturating_add(length), mode));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}
