//! The two images of a simulated disk, live and durable, and the operations that change them.
//!
//! An image is copied for every crash state, so file contents are shared until they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The unit that a power loss keeps or loses as a whole, in bytes.
pub const SECTOR: usize = 512;

/// A recorded operation on the medium. A file is identified by the number of its creation.
#[derive(Clone, Debug)]
pub enum TraceOp {
    /// A file was created, or an existing one of that name emptied.
    Create {
        /// Its name.
        name: String,
    },
    /// Bytes were written.
    Write {
        /// The file.
        ino: usize,
        /// The offset in bytes.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// The file.
        ino: usize,
    },
    /// A file's sync failed: its writes are clean but not durable.
    SyncFailed {
        /// The file.
        ino: usize,
    },
    /// A file was renamed.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A file was removed.
    Remove {
        /// Its name.
        name: String,
    },
    /// The directory was synced.
    SyncDir,
}

/// An unsynced change of the directory.
#[derive(Clone, Debug)]
pub(super) enum DirChange {
    Create { name: String, ino: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// An unsynced write.
#[derive(Clone, Debug)]
pub(super) struct PendingWrite {
    pub(super) ino: usize,
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
}

/// A change that a power loss may lose; changes are kept in the order they were made.
#[derive(Clone, Debug)]
pub(super) enum PendingChange {
    Write(PendingWrite),
    Dir(DirChange),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
}

pub(super) type Names = BTreeMap<String, usize>;

/// The live and durable images, and the changes between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) inodes: Vec<Inode>,
    pub(super) live: Names,
    pub(super) durable: Names,
    pub(super) pending: Vec<PendingChange>,
}

/// Writes into a growing file; a gap between its end and `offset` is filled with zeros.
pub(super) fn write_bytes(file: &mut Arc<Vec<u8>>, offset: u64, bytes: &[u8]) {
    let file = Arc::make_mut(file);
    let start = usize::try_from(offset).expect("a simulated file fits in memory");
    let end = start + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

pub(super) fn change_names(names: &mut Names, change: &DirChange) {
    match change {
        DirChange::Create { name, ino } => {
            names.insert(name.clone(), *ino);
        }
        DirChange::Rename { from, to } => {
            if let Some(ino) = names.remove(from) {
                names.insert(to.clone(), ino);
            }
        }
        DirChange::Remove { name } => {
            names.remove(name);
        }
    }
}

impl Image {
    pub(super) fn apply(&mut self, op: &TraceOp) {
        match op {
            TraceOp::Create { name } => {
                // Emptying a file is modelled as a new one: the old bytes come back when the
                // creation is lost.
                let ino = self.inodes.len();
                self.inodes.push(Inode::default());
                self.change_dir(DirChange::Create { name: name.clone(), ino });
            }
            TraceOp::Write { ino, offset, bytes } => {
                write_bytes(&mut self.inodes[*ino].live, *offset, bytes);
                let (ino, offset, bytes) = (*ino, *offset, bytes.clone());
                self.pending.push(PendingChange::Write(PendingWrite { ino, offset, bytes }));
            }
            TraceOp::Sync { ino } => self.settle(*ino, true),
            TraceOp::SyncFailed { ino } => self.settle(*ino, false),
            TraceOp::Rename { from, to } => {
                self.change_dir(DirChange::Rename { from: from.clone(), to: to.clone() });
            }
            TraceOp::Remove { name } => self.change_dir(DirChange::Remove { name: name.clone() }),
            TraceOp::SyncDir => {
                let durable = &mut self.durable;
                self.pending.retain(|p| match p {
                    PendingChange::Dir(change) => {
                        change_names(durable, change);
                        false
                    }
                    PendingChange::Write(_) => true,
                });
            }
        }
    }

    fn change_dir(&mut self, change: DirChange) {
        change_names(&mut self.live, &change);
        self.pending.push(PendingChange::Dir(change));
    }

    fn settle(&mut self, synced: usize, durable: bool) {
        let inode = &mut self.inodes[synced];
        self.pending.retain(|p| match p {
            PendingChange::Write(w) if w.ino == synced => {
                if durable {
                    write_bytes(&mut inode.durable, w.offset, &w.bytes);
                }
                false
            }
            _ => true,
        });
    }

    /// The number of files and the sum of their lengths.
    pub(super) fn usage(&self) -> (u64, u64) {
        let bytes = self.live.values().map(|ino| self.len(*ino)).sum();
        (self.live.len() as u64, bytes)
    }

    /// Forgets the bytes of files that have no name, in no state that a crash can leave, and that
    /// are not among those `open`.
    pub(super) fn forget_removed(&mut self, open: impl Iterator<Item = usize>) {
        let mut kept: BTreeSet<usize> = open.collect();
        kept.extend(self.live.values().chain(self.durable.values()));
        kept.extend(self.pending.iter().filter_map(|change| match change {
            PendingChange::Dir(DirChange::Create { ino, .. }) => Some(*ino),
            _ => None,
        }));
        self.pending.retain(|change| match change {
            PendingChange::Write(write) => kept.contains(&write.ino),
            PendingChange::Dir(_) => true,
        });
        for (ino, inode) in self.inodes.iter_mut().enumerate() {
            let has_bytes = !inode.live.is_empty() || !inode.durable.is_empty();
            if has_bytes && !kept.contains(&ino) {
                *inode = Inode::default();
            }
        }
    }

    pub(super) fn ino(&self, name: &str) -> Option<usize> {
        self.live.get(name).copied()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.live.keys().cloned().collect()
    }

    pub(super) fn len(&self, ino: usize) -> u64 {
        self.inodes[ino].live.len() as u64
    }

    pub(super) fn read(&self, ino: usize, offset: u64, buf: &mut [u8]) -> usize {
        let file = &self.inodes[ino].live;
        let start = usize::try_from(offset).map_or(file.len(), |o| o.min(file.len()));
        let taken = buf.len().min(file.len() - start);
        buf[..taken].copy_from_slice(&file[start..start + taken]);
        taken
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.ino(name).map(|ino| self.inodes[ino].live.to_vec())
    }

    pub(super) fn plant(&mut self, name: &str, bytes: &[u8]) {
        let ino = self.inodes.len();
        let file = Arc::new(bytes.to_vec());
        self.inodes.push(Inode { live: file.clone(), durable: file });
        self.live.insert(name.to_owned(), ino);
        self.durable.insert(name.to_owned(), ino);
    }

    pub(super) fn flip_bit(&mut self, name: &str, bit: u64) {
        let ino = self.ino(name).expect("a file of that name");
        let inode = &mut self.inodes[ino];
        let byte = usize::try_from(bit / 8).expect("a simulated file fits in memory");
        let mask = 1u8 << (bit % 8);
        Arc::make_mut(&mut inode.live)[byte] ^= mask;
        let durable = Arc::make_mut(&mut inode.durable);
        if byte < durable.len() {
            durable[byte] ^= mask;
        }
    }
}
