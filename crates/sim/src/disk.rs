//! The simulated disk as one process sees it: it can stall, and with a planted bug it lies about
//! syncs.
//!
//! [`SimDisk`] does everything else. While the gate is closed, no submitted operation completes;
//! blocking calls go through, because a blocked process loses no simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::{Access, Completion, Disk, DiskError, FileId, Op, Outcome, SimDisk};

/// The gate for operations in flight: closed, none completes. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    closed: Arc<AtomicBool>,
}

impl Gate {
    /// Opens or closes the gate.
    pub fn set_closed(&self, closed: bool) {
        // SYNC: one thread; the atomic is there because agents must be `Send`.
        self.closed.store(closed, Ordering::Relaxed);
    }
}

/// The gates of a process.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// Of the command log.
    pub commands: Gate,
    /// Of the event log.
    pub events: Gate,
}

/// A simulated disk with a gate, for one process.
pub struct ProcessDisk {
    inner: SimDisk,
    gate: Gate,
    skips_syncs: bool,
    /// Writes whose sync was skipped: their tags and start offsets.
    cheated: Vec<(u64, usize)>,
    /// Syncs that were skipped and will be reported as done.
    unsynced: Vec<u64>,
}

impl ProcessDisk {
    /// Creates a handle on `inner`; with `skips_syncs`, submitted syncs are reported as done
    /// without being done.
    #[must_use]
    pub fn new(inner: SimDisk, gate: Gate, skips_syncs: bool) -> ProcessDisk {
        ProcessDisk { inner, gate, skips_syncs, cheated: Vec::new(), unsynced: Vec::new() }
    }

    fn cheat(&mut self, tag: u64, op: Op) {
        match op {
            Op::Write { file, offset, buf, from, sync: true } => {
                self.cheated.push((tag, from));
                self.inner.submit(tag, Op::Write { file, offset, buf, from, sync: false });
            }
            Op::Sync { .. } => self.unsynced.push(tag),
            op => self.inner.submit(tag, op),
        }
    }

    fn lie(&mut self, out: &mut Vec<Completion>) {
        for completion in out.iter_mut() {
            let Some(at) = self.cheated.iter().position(|(tag, _)| *tag == completion.tag) else {
                continue;
            };
            let (_, from) = self.cheated.swap_remove(at);
            if let Outcome::Written { bytes, synced } = &mut completion.outcome {
                *synced = *bytes == completion.buf.len() - from;
            }
        }
        for tag in self.unsynced.drain(..) {
            out.push(Completion { tag, buf: Vec::new(), outcome: Outcome::Done });
        }
    }
}

impl Disk for ProcessDisk {
    fn open(&mut self, name: &str, access: Access) -> Result<FileId, DiskError> {
        self.inner.open(name, access)
    }

    fn create(&mut self, name: &str) -> Result<FileId, DiskError> {
        self.inner.create(name)
    }

    fn close(&mut self, file: FileId) {
        self.inner.close(file);
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.inner.len(file)
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.inner.list()
    }

    fn read(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<usize, DiskError> {
        self.inner.read(file, offset, buf)
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<usize, DiskError> {
        self.inner.write(file, offset, bytes)
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        self.inner.sync(file)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.inner.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.inner.remove(name)
    }

    fn sync_dir(&mut self) -> Result<(), DiskError> {
        self.inner.sync_dir()
    }

    fn lock(&mut self) -> Result<(), DiskError> {
        self.inner.lock()
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }

    fn submit(&mut self, tag: u64, op: Op) {
        if self.skips_syncs { self.cheat(tag, op) } else { self.inner.submit(tag, op) }
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        if self.gate.closed.load(Ordering::Relaxed) {
            return;
        }
        self.inner.reap(out);
        self.lie(out);
    }

    fn wait(&mut self) {
        self.gate.set_closed(false);
        self.inner.wait();
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.unsynced.len()
    }
}
