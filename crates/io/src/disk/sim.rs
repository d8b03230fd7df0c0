//! A disk in memory that can lose power.
//!
//! Fault model:
//! * Each file has a live image, which reads see, and a durable image, which is on the medium. A
//!   write changes the live image; a sync copies all writes since the last sync to the durable one.
//! * At a power loss each write since the last sync is, by choice, lost, kept or torn: any subset
//!   of its 512-byte sectors is kept (a sector itself is never torn). Directory changes since the
//!   last directory sync are each lost or kept likewise.
//! * A failed sync marks the file's writes clean without making them durable: reads still see them,
//!   later syncs succeed, and only writing the bytes again can make them durable.
//! * A write may be short, fail, find the disk full, or store a bit wrong without an error; a read
//!   may fail; a bit may flip at rest.
//! * For as long as its owner says, the disk has no room, or its process no free descriptor
//!   ([`Shortage`]). The sync of a directory takes a descriptor unless the directory is locked, as
//!   on the real disks.
//! * Operations in flight complete one at a time, in an order that the seed determines.
//!
//! Not modelled: misdirected writes, which a reader cannot tell from a run of flipped bits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Access, Completion, Disk, DiskAction, DiskError, DiskErrorKind, FileId, IN_FLIGHT_MAX, Op,
    Outcome,
};
use crate::rng::{Rng, SeededRng};

mod crash;
mod image;

pub use crash::CrashChoice;
use image::Image;
pub use image::{SECTOR, TraceOp};

/// Faults to inject. Calls are counted from zero when the faults are set; `Some(n)` hits the n-th.
#[derive(Clone, Debug, Default)]
pub struct SimFaults {
    /// The write that fails with an I/O error.
    pub write_fails_at: Option<u64>,
    /// The first write that finds the disk full; all later writes that lengthen a file do too.
    pub full_from: Option<u64>,
    /// The sync (of a file or the directory) that fails.
    pub sync_fails_at: Option<u64>,
    /// The read that fails.
    pub read_fails_at: Option<u64>,
    /// The write that takes only part of its bytes.
    pub short_write_at: Option<u64>,
    /// The number of short writes among 1,000.
    pub short_writes_per_mille: u64,
    /// The write of which one bit is stored wrong, without an error.
    pub write_flips_at: Option<u64>,
    /// The call, of any kind, that fails, and the kind of its error.
    pub call_fails_at: Option<(u64, DiskErrorKind)>,
}

/// The conditions of a disk that last until they are set anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// The room for new bytes.
    pub room: Room,
    /// True while the process has no free descriptor: nothing can be opened, created or listed.
    pub lacks_descriptors: bool,
}

/// The room of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    #[default]
    Plenty,
    /// No file grows and none is renamed; bytes that a file has are overwritten in place.
    ForOldBytes,
    /// Nothing is written: the file system copies on each write.
    None,
}

/// The number of calls of each kind since the faults were set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounts {
    /// Writes, including failed ones.
    pub writes: u64,
    /// Syncs of files and of the directory.
    pub syncs: u64,
    /// Reads.
    pub reads: u64,
    /// Calls of every kind, including those above.
    pub calls: u64,
}

/// The room that a disk's files take, and its open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimUsage {
    /// The number of files.
    pub file_count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of open files.
    pub open_count: u64,
}

/// A simulated disk. Clones are handles to the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

pub(in crate::disk) struct State {
    image: Image,
    open: Vec<Option<(usize, String)>>,
    queue: Vec<(u64, Op)>,
    rng: SeededRng,
    faults: SimFaults,
    counts: SimCounts,
    failed: Option<(DiskAction, String)>,
    shortage: Shortage,
    trace: Option<Vec<TraceOp>>,
    boot: u64,
    locked: bool,
}

impl SimDisk {
    /// Creates an empty disk whose completion order and random faults follow `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::from_image(Image::default(), seed, 1)
    }

    fn from_image(image: Image, seed: u64, boot: u64) -> SimDisk {
        let state = State {
            image,
            open: Vec::new(),
            queue: Vec::new(),
            rng: SeededRng::new(seed, "disk"),
            faults: SimFaults::default(),
            counts: SimCounts::default(),
            failed: None,
            shortage: Shortage::default(),
            trace: None,
            boot,
            locked: false,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the faults to inject and resets the counts.
    pub fn set_faults(&self, faults: SimFaults) {
        let mut state = self.state();
        state.faults = faults;
        state.counts = SimCounts::default();
        state.failed = None;
    }

    /// Sets the conditions from now on. The faults and the counts of calls stay as they are.
    pub fn set_shortage(&self, shortage: Shortage) {
        self.state().shortage = shortage;
    }

    /// Returns the action and file of the call that [`SimFaults::call_fails_at`] made fail.
    #[must_use]
    pub fn failed_call(&self) -> Option<(DiskAction, String)> {
        self.state().failed.clone()
    }

    /// Returns the counts of calls since the faults were set.
    #[must_use]
    pub fn counts(&self) -> SimCounts {
        self.state().counts
    }

    /// Starts to record the operations on the medium.
    pub fn record(&self) {
        self.state().trace = Some(Vec::new());
    }

    /// Returns the number of recorded operations.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.state().trace.as_ref().map_or(0, Vec::len)
    }

    /// Takes the recording and stops it.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceOp> {
        self.state().trace.take().unwrap_or_default()
    }

    /// Applies one recorded operation to this disk.
    pub fn apply(&self, op: &TraceOp) {
        self.state().image.apply(op);
    }

    /// Flips one bit of a file in both images. `bit` counts from the lowest bit of the file's first
    /// byte.
    ///
    /// # Panics
    /// Panics when the file or the bit does not exist.
    pub fn flip_bit(&self, name: &str, bit: u64) {
        self.state().image.flip_bit(name, bit);
    }

    /// Returns a file's bytes as reads see them.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.state().image.contents(name)
    }

    /// Creates or replaces a file durably, to set up a test.
    pub fn plant(&self, name: &str, bytes: &[u8]) {
        self.state().image.plant(name, bytes);
    }

    /// Returns the room that the files take, as a listing of the directory shows it.
    #[must_use]
    pub fn usage(&self) -> SimUsage {
        let state = self.state();
        let (file_count, bytes) = state.image.usage();
        let open_count = state.open.iter().flatten().count() as u64;
        SimUsage { file_count, bytes, open_count }
    }

    /// Frees the memory of removed files that no crash can bring back and that nobody has open.
    /// The disk keeps them otherwise, as crash states are copies with the same files.
    pub fn forget_removed(&self) {
        let state = &mut *self.state();
        state.image.forget_removed(state.open.iter().flatten().map(|(ino, _)| *ino));
    }

    /// Returns the disk after a crash of the process alone: every write is still visible.
    #[must_use]
    pub fn after_process_crash(&self) -> SimDisk {
        let state = self.state();
        SimDisk::from_image(state.image.clone(), 0, state.boot)
    }
}

impl State {
    fn note(&mut self, op: TraceOp) {
        self.image.apply(&op);
        if let Some(trace) = &mut self.trace {
            trace.push(op);
        }
    }

    fn ino(&self, file: FileId) -> usize {
        self.open[file.0 as usize].as_ref().expect("the caller has not closed the file").0
    }

    fn fail(&self, action: DiskAction, file: Option<FileId>, kind: DiskErrorKind) -> DiskError {
        let name = file.map(|f| self.open[f.0 as usize].as_ref().expect("it is open").1.clone());
        let reason = format!("simulated: {kind:?}");
        DiskError { action, name: name.unwrap_or_default(), kind, reason }
    }

    /// Counts a call and fails it when a fault is set for it, or the process lacks a descriptor.
    fn call(&mut self, action: DiskAction, name: &str) -> Result<(), DiskError> {
        let count = self.counts.calls;
        self.counts.calls += 1;
        let kind = match self.faults.call_fails_at {
            Some((at, kind)) if at == count => {
                self.failed = Some((action, name.to_owned()));
                kind
            }
            _ if self.lacks_descriptor_for(action, name) => DiskErrorKind::NoDescriptors,
            _ => return Ok(()),
        };
        let reason = format!("simulated: {kind:?}");
        Err(DiskError { action, name: name.to_owned(), kind, reason })
    }

    fn lacks_descriptor_for(&self, action: DiskAction, name: &str) -> bool {
        let takes_one = match action {
            DiskAction::Open | DiskAction::List | DiskAction::Lock => true,
            // Of the directory. A locked one is open.
            DiskAction::Sync => name.is_empty() && !self.locked,
            DiskAction::Read | DiskAction::Write | DiskAction::Rename | DiskAction::Remove => false,
        };
        takes_one && self.shortage.lacks_descriptors
    }

    /// Returns true when the disk has no room for a write of a file up to `end`.
    fn lacks_room_for(&self, count: u64, ino: usize, end: u64) -> bool {
        let grows = end > self.image.len(ino);
        match self.shortage.room {
            Room::None => return true,
            Room::ForOldBytes if grows => return true,
            Room::ForOldBytes | Room::Plenty => {}
        }
        let is_at = self.faults.full_from == Some(count);
        self.faults.full_from.is_some_and(|n| count >= n) && (grows || is_at)
    }

    fn name_of(&self, file: FileId) -> String {
        self.open[file.0 as usize].as_ref().expect("the caller has not closed the file").1.clone()
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        let count = self.counts.writes;
        self.counts.writes += 1;
        self.call(DiskAction::Write, &self.name_of(file))?;
        let ino = self.ino(file);
        if self.faults.write_fails_at == Some(count) {
            return Err(self.fail(DiskAction::Write, Some(file), DiskErrorKind::Io));
        }
        if self.lacks_room_for(count, ino, offset + bytes.len() as u64) {
            return Err(self.fail(DiskAction::Write, Some(file), DiskErrorKind::Full));
        }
        let drawn = self.faults.short_writes_per_mille > 0
            && self.rng.chance(self.faults.short_writes_per_mille, 1000);
        let mut taken = bytes.len();
        if bytes.len() > 1 && (drawn || self.faults.short_write_at == Some(count)) {
            let part = 1 + self.rng.below(bytes.len() as u64 - 1);
            taken = usize::try_from(part).expect("less than the length");
        }
        let mut flipped = Vec::new();
        let mut stored = &bytes[..taken];
        if self.faults.write_flips_at == Some(count) {
            flipped.extend_from_slice(stored);
            flipped.iter_mut().take(1).for_each(|byte| *byte ^= 1);
            stored = &flipped;
        }
        self.note(TraceOp::Write { ino, offset, bytes: stored.into() });
        Ok(taken)
    }

    fn sync(&mut self, file: Option<FileId>) -> Result<(), DiskError> {
        let count = self.counts.syncs;
        self.counts.syncs += 1;
        let ino = file.map(|f| self.ino(f));
        let name = file.map(|f| self.name_of(f)).unwrap_or_default();
        let called = self.call(DiskAction::Sync, &name);
        let called = called.and_then(|()| match self.faults.sync_fails_at == Some(count) {
            true => Err(self.fail(DiskAction::Sync, file, DiskErrorKind::Io)),
            false => Ok(()),
        });
        if let (Err(_), Some(ino)) = (&called, ino) {
            self.note(TraceOp::SyncFailed { ino });
        }
        called?;
        self.note(ino.map_or(TraceOp::SyncDir, |ino| TraceOp::Sync { ino }));
        Ok(())
    }

    fn open(&mut self, name: &str, create: bool) -> Result<FileId, DiskError> {
        self.call(DiskAction::Open, name)?;
        if create {
            self.note(TraceOp::Create { name: name.to_owned() });
        }
        let Some(ino) = self.image.ino(name) else {
            let reason = "simulated: no such file".to_owned();
            let (action, kind) = (DiskAction::Open, DiskErrorKind::NotFound);
            return Err(DiskError { action, name: name.to_owned(), kind, reason });
        };
        let slot = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if slot == self.open.len() {
            self.open.push(None);
        }
        self.open[slot] = Some((ino, name.to_owned()));
        Ok(FileId(u32::try_from(slot).expect("few open files")))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.call(DiskAction::Rename, from)?;
        if self.image.ino(from).is_none() {
            let reason = "simulated: no such file".to_owned();
            let (action, kind) = (DiskAction::Rename, DiskErrorKind::NotFound);
            return Err(DiskError { action, name: from.to_owned(), kind, reason });
        }
        if self.shortage.room != Room::Plenty {
            let (action, kind) = (DiskAction::Rename, DiskErrorKind::Full);
            let reason = format!("simulated: {kind:?}");
            return Err(DiskError { action, name: from.to_owned(), kind, reason });
        }
        self.note(TraceOp::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.call(DiskAction::Remove, name)?;
        if self.image.ino(name).is_none() {
            let reason = "simulated: no such file".to_owned();
            let (action, kind) = (DiskAction::Remove, DiskErrorKind::NotFound);
            return Err(DiskError { action, name: name.to_owned(), kind, reason });
        }
        self.note(TraceOp::Remove { name: name.to_owned() });
        Ok(())
    }

    fn prepare(&mut self, name: &str, len: u64) -> Result<(), DiskError> {
        let file = self.open(name, true)?;
        let filled = super::zero_fill(len, |at, zeros| self.write(file, at, zeros))
            .and_then(|()| self.sync(Some(file)));
        self.open[file.0 as usize] = None;
        filled?;
        self.sync(None)
    }

    fn perform(&mut self, op: Op) -> (Vec<u8>, Outcome) {
        let ended = |result: Result<(), DiskError>| {
            (Vec::new(), result.map_or_else(Outcome::Failed, |()| Outcome::Done))
        };
        match op {
            Op::Write { file, offset, buf, from, sync } => {
                let outcome = self.write(file, offset, &buf[from..]).and_then(|bytes| {
                    let synced = sync && bytes == buf.len() - from;
                    if synced {
                        self.sync(Some(file))?;
                    }
                    Ok(Outcome::Written { bytes, synced })
                });
                (buf, outcome.unwrap_or_else(Outcome::Failed))
            }
            Op::Sync { file } => ended(self.sync(Some(file))),
            Op::Prepare { name, len } => ended(self.prepare(&name, len)),
            Op::Remove { name } => ended(self.remove(&name).and_then(|()| self.sync(None))),
            Op::Rename { from, to } => {
                ended(self.rename(&from, &to).and_then(|()| self.sync(None)))
            }
        }
    }
}

impl Disk for SimDisk {
    fn open(&mut self, name: &str, _access: Access) -> Result<FileId, DiskError> {
        self.state().open(name, false)
    }

    fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        self.state().open(name, true)
    }

    fn close(&mut self, file: FileId) {
        let closed = self.state().open[file.0 as usize].take();
        assert!(closed.is_some(), "a file is closed once");
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        let mut state = self.state();
        let name = state.name_of(file);
        state.call(DiskAction::Read, &name)?;
        Ok(state.image.len(state.ino(file)))
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        let mut state = self.state();
        state.call(DiskAction::List, "")?;
        Ok(state.image.names())
    }

    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        let mut state = self.state();
        let count = state.counts.reads;
        state.counts.reads += 1;
        let name = state.name_of(file);
        state.call(DiskAction::Read, &name)?;
        if state.faults.read_fails_at == Some(count) {
            return Err(state.fail(DiskAction::Read, Some(file), DiskErrorKind::Io));
        }
        Ok(state.image.read(state.ino(file), offset, buf))
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        self.state().write(file, offset, bytes)
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        self.state().sync(Some(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.state().rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.state().remove(name)
    }

    fn sync_dir(&mut self) -> Result<(), DiskError> {
        self.state().sync(None)
    }

    fn lock(&mut self) -> Result<(), DiskError> {
        // Two logs on handles of one simulated disk are the same mistake as two processes on one
        // directory.
        let mut state = self.state();
        state.call(DiskAction::Lock, "")?;
        if state.locked {
            return Err(state.fail(DiskAction::Lock, None, DiskErrorKind::Locked));
        }
        state.locked = true;
        Ok(())
    }

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.state().boot).to_le_bytes()
    }

    fn submit(&mut self, tag: u64, op: Op) {
        let mut state = self.state();
        assert!(state.queue.len() < IN_FLIGHT_MAX, "at most {IN_FLIGHT_MAX} in flight");
        state.queue.push((tag, op));
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        let mut state = self.state();
        let waiting = state.queue.len() as u64;
        if waiting == 0 {
            return;
        }
        let drawn = usize::try_from(state.rng.below(waiting)).expect("an index of the queue");
        let (tag, op) = state.queue.remove(drawn);
        let (buf, outcome) = state.perform(op);
        out.push(Completion { tag, buf, outcome });
    }

    fn wait(&mut self) {}

    fn in_flight(&self) -> usize {
        self.state().queue.len()
    }
}
