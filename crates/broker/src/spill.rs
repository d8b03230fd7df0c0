//! The spill files: the files present, the wanted parts in them, and the file that grows.
//!
//! Blocks are written one at a time at the end of the newest file. A file without wanted parts is
//! closed and removed; when unwanted parts take too much of the disk, the wanted parts of the
//! emptiest file are written again at the end. INVARIANT: `wanted` of a file is the sum of the
//! lengths of the parts that topics hold in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_io::{Disk, DiskError, FileId};

use crate::block::{FileHeader, PartHeader};
use crate::name::Topic;

/// The suffix of a spill file's name.
pub(crate) const SUFFIX: &str = ".wspill";
/// The name of the next file until its own name is durable.
pub(crate) const UNNAMED: &str = "spill.part";

pub(crate) fn file_name(file: u64) -> String {
    format!("{file:020}{SUFFIX}")
}

pub(crate) fn file_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// A spill file.
#[derive(Debug)]
pub(crate) struct SpillFile {
    pub(crate) id: FileId,
    /// The bytes written.
    pub(crate) len: u64,
    /// The bytes of parts that a subscription wants.
    pub(crate) wanted: u64,
    /// The parts written to it: topic and first index.
    pub(crate) parts: Vec<(Topic, u64)>,
}

/// The progress of creating the file for the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roll {
    /// None: the newest file takes the block, or a new file must be begun.
    No,
    /// The next file is getting its name.
    Naming(u64, FileId),
}

/// A part that is being written.
#[derive(Debug)]
pub(crate) struct SentPart {
    pub(crate) head: PartHeader,
    pub(crate) first_index: u64,
    pub(crate) bytes_before: u64,
    /// Its offset in the file.
    pub(crate) offset: u64,
}

/// A block that is being written, or waits for room.
#[derive(Debug)]
pub(crate) struct SentBlock {
    pub(crate) buf: Vec<u8>,
    pub(crate) from: usize,
    pub(crate) parts: Vec<SentPart>,
    /// True when its parts were on disk before.
    pub(crate) is_moved: bool,
    pub(crate) file: u64,
    pub(crate) seq: u64,
    /// True while it is not submitted, for lack of room.
    pub(crate) is_waiting: bool,
}

/// The spill files of a broker.
#[derive(Debug)]
pub(crate) struct Spill {
    pub(crate) id: u128,
    pub(crate) files: BTreeMap<u64, SpillFile>,
    /// The file that grows.
    pub(crate) active: Option<u64>,
    pub(crate) next_file: u64,
    pub(crate) next_seq: u64,
    pub(crate) synced_seq: u64,
    pub(crate) synced_end: (u64, u64),
    pub(crate) roll: Roll,
    pub(crate) sent: Option<SentBlock>,
    /// Files to remove, closed already.
    pub(crate) removals: VecDeque<String>,
    pub(crate) is_removing: bool,
    /// Files that an operator wants compacted, if they still exist.
    pub(crate) compacting: BTreeSet<u64>,
}

impl Spill {
    pub(crate) fn new(id: u128, next_file: u64, next_seq: u64, synced_seq: u64) -> Spill {
        Spill {
            id,
            files: BTreeMap::new(),
            active: None,
            next_file,
            next_seq,
            synced_seq,
            synced_end: (0, 0),
            roll: Roll::No,
            sent: None,
            removals: VecDeque::new(),
            is_removing: false,
            compacting: BTreeSet::new(),
        }
    }

    /// Marks the files of which a tenth or more is unwanted for compaction, one after the other and
    /// regardless of the total waste. Includes the file that grows, which is closed.
    pub(crate) fn compact(&mut self) {
        self.active = None;
        let is_loose = |(number, file): (&u64, &SpillFile)| {
            (file.wanted * 10 <= file.len * 9).then_some(*number)
        };
        self.compacting = self.files.iter().filter_map(is_loose).collect();
    }

    /// Returns the next file marked for compaction: the one with the smallest share of wanted
    /// bytes, so that room is made before it is needed.
    fn next_compacted(&self) -> Option<u64> {
        let there = self.compacting.iter().filter_map(|number| {
            let file = self.files.get(number).filter(|file| file.wanted > 0)?;
            Some((file.wanted * 1024 / file.len, *number))
        });
        there.min().map(|(_, number)| number)
    }

    /// Returns the bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.len).sum()
    }

    /// Returns the header of a file that is begun now.
    pub(crate) fn header(&self, file: u64) -> FileHeader {
        let (first_seq, synced_seq) = (self.next_seq, self.synced_seq);
        FileHeader { id: self.id, file, first_seq, synced_seq }
    }

    /// Returns the file that takes the next block, if it is open and not full.
    pub(crate) fn open_file(&self, file_bytes: u64) -> Option<u64> {
        self.active.filter(|file| self.files[file].len < file_bytes)
    }

    /// Counts a part as no longer wanted.
    pub(crate) fn unwant(&mut self, file: u64, bytes: u64) {
        let known = self.files.get_mut(&file).expect("a part is in a file that is there");
        known.wanted -= bytes;
    }

    /// Closes the files without wanted parts and lists them for removal. Includes the file that
    /// grows, as soon as it is full.
    pub(crate) fn give_up_dead<D: Disk>(&mut self, disk: &mut D, file_bytes: u64) -> usize {
        let busy = self.sent.as_ref().map(|sent| sent.file);
        let growing = self.open_file(file_bytes);
        let is_dead = |(number, file): (&u64, &SpillFile)| {
            let is_used = busy == Some(*number) || growing == Some(*number);
            (file.wanted == 0 && !is_used).then_some(*number)
        };
        let dead: Vec<u64> = self.files.iter().filter_map(is_dead).collect();
        for number in &dead {
            let file = self.files.remove(number).expect("it was listed");
            self.compacting.remove(number);
            disk.close(file.id);
            self.removals.push_back(file_name(*number));
            if self.active == Some(*number) {
                self.active = None;
            }
        }
        dead.len()
    }

    /// Returns the file to compact next: one marked by an operator; or, if the unwanted bytes
    /// exceed the wanted ones plus four files, the one with the smallest share of wanted bytes, if
    /// that is below half.
    pub(crate) fn emptiest(&self, file_bytes: u64) -> Option<u64> {
        if let Some(number) = self.next_compacted() {
            return Some(number);
        }
        let wanted: u64 = self.files.values().map(|file| file.wanted).sum();
        let waste = self.bytes() - wanted;
        if waste <= wanted + 4 * file_bytes {
            return None;
        }
        let growing = self.open_file(file_bytes);
        let candidates = self.files.iter().filter(|(number, file)| {
            growing != Some(**number) && file.wanted > 0 && file.wanted * 2 < file.len
        });
        candidates.min_by_key(|(_, file)| file.wanted * 1024 / file.len).map(|(number, _)| *number)
    }

    /// Reads a part.
    pub(crate) fn read_part<D: Disk>(
        &self,
        disk: &mut D,
        file: u64,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, DiskError> {
        let mut bytes = vec![0; length as usize];
        let read = disk.read(self.files[&file].id, offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}
