//! The contents of the disk now and after a power loss: directories and files in two images, live
//! and durable, with the pending changes between them.
//!
//! Fault model: that of `docs/protocols/log-format.md` and, for names, the minimum that POSIX
//! guarantees:
//! * A write changes the live image. A sync of the file makes the writes and lengths from before
//!   its start durable, and nothing else: not the file's name.
//! * A sync of a directory makes its names durable: creations, renames, removals.
//! * At a power loss every unsynced write is lost, kept, or kept in any subset of its 512-byte
//!   sectors; every unsynced change of a length or of a name is lost or kept.
//!
//! It knows nothing of FUSE, threads or time. Names are text; there are neither links nor renames
//! from one directory to another.
//!
//! INVARIANT: a file's durable image and its pending changes, applied in order, are its live image.

mod crash;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

pub use crash::{Losses, PowerLoss, SECTOR};

/// A file's or directory's number. Never reused, not even across a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The top directory.
    pub const ROOT: Ino = Ino(1);
}

/// The reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MediumError {
    /// No such name.
    #[error("no such file")]
    NotFound,
    /// No such number: the file is gone, or belonged to an earlier life.
    #[error("stale file number")]
    Stale,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// The operation needs a file.
    #[error("is a directory")]
    IsDir,
    /// The operation needs a directory.
    #[error("is not a directory")]
    NotDir,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
}

type Result<T> = std::result::Result<T, MediumError>;

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub ino: Ino,
    /// True for a directory.
    pub is_dir: bool,
    /// Its length in bytes; zero for a directory.
    pub len: u64,
    /// Its permission bits.
    pub mode: u16,
}

/// A moment in the order of changes: a sync that starts at it covers all earlier changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// A change of a file's bytes that is not yet durable.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A change of a directory's names that is not yet durable.
#[derive(Clone, Debug)]
enum NameChange {
    Add { name: String, ino: Ino },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// A change and its moment.
#[derive(Clone, Debug)]
struct Pending<C> {
    at: Moment,
    change: C,
}

type Names = BTreeMap<String, Ino>;

#[derive(Clone, Debug, Default)]
struct File {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending<Change>>,
}

#[derive(Clone, Debug, Default)]
struct Dir {
    live: Names,
    durable: Names,
    pending: Vec<Pending<NameChange>>,
}

#[derive(Clone, Debug)]
enum Body {
    File(File),
    Dir(Dir),
}

#[derive(Clone, Debug)]
struct Inode {
    /// Its latest name, which triggers match.
    name: String,
    mode: u16,
    /// The number of opens: an open file outlives its name.
    opened: u32,
    body: Body,
}

/// The files and directories of a disk.
#[derive(Clone, Debug)]
pub struct Medium {
    inodes: BTreeMap<Ino, Inode>,
    next_ino: u64,
    now: u64,
}

impl Default for Medium {
    fn default() -> Self {
        let root =
            Inode { name: String::new(), mode: 0o755, opened: 0, body: Body::Dir(Dir::default()) };
        Medium { inodes: BTreeMap::from([(Ino::ROOT, root)]), next_ino: 2, now: 0 }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: written } => write_bytes(bytes, *offset, written),
        Change::SetLen(len) => bytes.resize(index(*len), 0),
    }
}

fn write_bytes(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = index(offset);
    let end = start + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

fn apply_name(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Add { name, ino } => {
            names.insert(name.clone(), *ino);
        }
        NameChange::Rename { from, to } => {
            if let Some(ino) = names.remove(from) {
                names.insert(to.clone(), ino);
            }
        }
        NameChange::Remove { name } => {
            names.remove(name);
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a file in memory is smaller than the address space")
}

impl Medium {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        Moment(self.now)
    }

    /// The moment after all changes so far.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.now)
    }

    fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(MediumError::Stale)
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(MediumError::Stale)
    }

    fn file_mut(&mut self, ino: Ino) -> Result<&mut File> {
        match &mut self.inode_mut(ino)?.body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(MediumError::IsDir),
        }
    }

    fn dir(&self, ino: Ino) -> Result<&Dir> {
        match &self.inode(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            Body::File(_) => Err(MediumError::NotDir),
        }
    }

    fn dir_mut(&mut self, ino: Ino) -> Result<&mut Dir> {
        match &mut self.inode_mut(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            Body::File(_) => Err(MediumError::NotDir),
        }
    }

    /// The latest name of a file; empty for the top directory and for a removed file.
    #[must_use]
    pub fn name_of(&self, ino: Ino) -> &str {
        self.inodes.get(&ino).map_or("", |inode| &inode.name)
    }

    /// Finds a file or directory by its name.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; [`MediumError::NotDir`], [`MediumError::Stale`] of the parent.
    pub fn lookup(&self, parent: Ino, name: &str) -> Result<Ino> {
        self.dir(parent)?.live.get(name).copied().ok_or(MediumError::NotFound)
    }

    /// Returns the attributes of a file or directory.
    ///
    /// # Errors
    /// [`MediumError::Stale`].
    pub fn stat(&self, ino: Ino) -> Result<Stat> {
        let inode = self.inode(ino)?;
        let (is_dir, len) = match &inode.body {
            Body::File(file) => (false, file.live.len() as u64),
            Body::Dir(_) => (true, 0),
        };
        Ok(Stat { ino, is_dir, len, mode: inode.mode })
    }

    /// Lists the names in a directory, sorted.
    ///
    /// # Errors
    /// [`MediumError::NotDir`], [`MediumError::Stale`].
    pub fn list(&self, ino: Ino) -> Result<Vec<(String, Stat)>> {
        let names = self.dir(ino)?.live.iter();
        names.map(|(name, ino)| Ok((name.clone(), self.stat(*ino)?))).collect()
    }

    fn add(&mut self, parent: Ino, name: &str, mode: u16, body: Body) -> Result<Ino> {
        if self.dir(parent)?.live.contains_key(name) {
            return Err(MediumError::Exists);
        }
        let ino = Ino(self.next_ino);
        self.next_ino += 1;
        self.inodes.insert(ino, Inode { name: name.to_owned(), mode, opened: 0, body });
        self.change_names(parent, NameChange::Add { name: name.to_owned(), ino })?;
        Ok(ino)
    }

    fn change_names(&mut self, parent: Ino, change: NameChange) -> Result<()> {
        let at = self.tick();
        let dir = self.dir_mut(parent)?;
        apply_name(&mut dir.live, &change);
        dir.pending.push(Pending { at, change });
        Ok(())
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// [`MediumError::Exists`]; [`MediumError::NotDir`], [`MediumError::Stale`] of the parent.
    pub fn create(&mut self, parent: Ino, name: &str, mode: u16) -> Result<Ino> {
        self.add(parent, name, mode, Body::File(File::default()))
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// As [`Medium::create`].
    pub fn mkdir(&mut self, parent: Ino, name: &str, mode: u16) -> Result<Ino> {
        self.add(parent, name, mode, Body::Dir(Dir::default()))
    }

    /// Removes a file's name; an open file continues to exist without one.
    ///
    /// # Errors
    /// [`MediumError::NotFound`], [`MediumError::IsDir`].
    pub fn unlink(&mut self, parent: Ino, name: &str) -> Result<()> {
        let ino = self.lookup(parent, name)?;
        self.file_mut(ino)?;
        self.change_names(parent, NameChange::Remove { name: name.to_owned() })?;
        self.collect();
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`MediumError::NotFound`], [`MediumError::NotDir`], [`MediumError::NotEmpty`].
    pub fn rmdir(&mut self, parent: Ino, name: &str) -> Result<()> {
        let ino = self.lookup(parent, name)?;
        if !self.dir(ino)?.live.is_empty() {
            return Err(MediumError::NotEmpty);
        }
        self.change_names(parent, NameChange::Remove { name: name.to_owned() })?;
        self.collect();
        Ok(())
    }

    /// Renames a file or directory within its directory, replacing a file of the new name.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; [`MediumError::IsDir`] when the new name is a directory's.
    pub fn rename(&mut self, parent: Ino, from: &str, to: &str) -> Result<()> {
        let ino = self.lookup(parent, from)?;
        if from == to {
            return Ok(());
        }
        if let Ok(over) = self.lookup(parent, to) {
            self.file_mut(over)?;
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        self.inode_mut(ino)?.name.clone_from(&to);
        self.change_names(parent, NameChange::Rename { from, to })?;
        self.collect();
        Ok(())
    }

    /// Reads up to `len` bytes; fewer at the file's end.
    ///
    /// # Errors
    /// [`MediumError::Stale`], [`MediumError::IsDir`].
    pub fn read(&self, ino: Ino, offset: u64, len: usize) -> Result<&[u8]> {
        let Body::File(file) = &self.inode(ino)?.body else { return Err(MediumError::IsDir) };
        let start = usize::try_from(offset).map_or(file.live.len(), |o| o.min(file.live.len()));
        Ok(&file.live[start..file.live.len().min(start + len)])
    }

    fn change_file(&mut self, ino: Ino, change: Change) -> Result<()> {
        let at = self.tick();
        let file = self.file_mut(ino)?;
        apply(&mut file.live, &change);
        file.pending.push(Pending { at, change });
        Ok(())
    }

    /// Writes bytes; a hole between the file's end and `offset` is filled with zeros.
    ///
    /// # Errors
    /// [`MediumError::Stale`], [`MediumError::IsDir`].
    pub fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        self.change_file(ino, Change::Write { offset, bytes: bytes.to_vec() })
    }

    /// Truncates a file or extends it with zeros.
    ///
    /// # Errors
    /// [`MediumError::Stale`], [`MediumError::IsDir`].
    pub fn set_len(&mut self, ino: Ino, len: u64) -> Result<()> {
        self.change_file(ino, Change::SetLen(len))
    }

    /// Sets the permission bits, durably: nothing here depends on them.
    ///
    /// # Errors
    /// [`MediumError::Stale`].
    pub fn set_mode(&mut self, ino: Ino, mode: u16) -> Result<()> {
        self.inode_mut(ino)?.mode = mode;
        Ok(())
    }

    /// Makes a file's bytes, or a directory's names, durable in their state at `until`.
    ///
    /// # Errors
    /// [`MediumError::Stale`].
    pub fn sync(&mut self, ino: Ino, until: Moment) -> Result<()> {
        match &mut self.inode_mut(ino)?.body {
            Body::File(file) => {
                let count = file.pending.partition_point(|pending| pending.at <= until);
                for pending in file.pending.drain(..count) {
                    apply(&mut file.durable, &pending.change);
                }
            }
            Body::Dir(dir) => {
                let count = dir.pending.partition_point(|pending| pending.at <= until);
                for pending in dir.pending.drain(..count) {
                    apply_name(&mut dir.durable, &pending.change);
                }
            }
        }
        self.collect();
        Ok(())
    }

    /// Counts an open of a file.
    ///
    /// # Errors
    /// [`MediumError::Stale`].
    pub fn open(&mut self, ino: Ino) -> Result<()> {
        self.inode_mut(ino)?.opened += 1;
        Ok(())
    }

    /// Counts a close of a file. One of an earlier life is gone already.
    pub fn close(&mut self, ino: Ino) {
        if let Ok(inode) = self.inode_mut(ino) {
            inode.opened = inode.opened.saturating_sub(1);
            self.collect();
        }
    }

    /// Removes files that are not open and have no name in any image, now or after pending changes.
    fn collect(&mut self) {
        let mut named = BTreeSet::from([Ino::ROOT]);
        for inode in self.inodes.values() {
            let Body::Dir(dir) = &inode.body else { continue };
            named.extend(dir.live.values().chain(dir.durable.values()));
            named.extend(dir.pending.iter().filter_map(|pending| match &pending.change {
                NameChange::Add { ino, .. } => Some(*ino),
                NameChange::Rename { .. } | NameChange::Remove { .. } => None,
            }));
        }
        self.inodes.retain(|ino, inode| named.contains(ino) || inode.opened > 0);
    }
}
