//! A disk that submits linked write → fdatasync pairs to the kernel's io_uring.
//!
//! One submission starts both. The completion is read from shared memory, without a system call and
//! without another thread's wake-up. Slow operations run on a lane as in the thread disk. The ring
//! owns buffers while they are in flight: they are never moved or freed before their completion,
//! not even when the disk is dropped.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::dir::{Dir, OpenFile, blocking_calls};
use super::lane::{Done, Lane, Work};
use super::{Access, Completion, Disk, DiskAction, DiskError, FileId, IN_FLIGHT_MAX, Op, Outcome};
use crate::wake::WakeFd;

/// Two queue entries, write and sync, for each operation in flight.
const RING_ENTRIES: u32 = 2 * IN_FLIGHT_MAX as u32;

/// A disk on io_uring, with a lane for slow operations.
pub struct UringDisk {
    dir: Dir,
    ring: IoUring,
    // INVARIANT: a slot is filled from submission until all of its completions were taken; while it
    // is filled, its buffer and file stay in place.
    slots: Vec<Option<Slot>>,
    ring_in_flight: usize,
    slow: Lane,
    done: Arc<Done>,
    slow_in_flight: usize,
    // The ring writes to it, so it is declared after the ring and closed after it.
    _wake: Option<WakeFd>,
}

struct Slot {
    tag: u64,
    file: Arc<OpenFile>,
    buf: Vec<u8>,
    from: usize,
    write: Option<i32>,
    sync: Option<i32>,
    wants_write: bool,
    wants_sync: bool,
}

impl UringDisk {
    /// Opens a disk over `path`, which is created when missing. `wake` is signalled after each
    /// completion.
    ///
    /// # Errors
    /// Fails when the directory cannot be created, or the kernel refuses io_uring or lacks an
    /// operation.
    pub fn open(path: &Path, wake: Option<WakeFd>) -> Result<UringDisk, DiskError> {
        let dir = Dir::open(path)?;
        let fail = |e: std::io::Error| DiskError::from_system(DiskAction::Open, "io_uring", &e);
        let ring = IoUring::new(RING_ENTRIES).map_err(fail)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(fail)?;
        if !probe.is_supported(opcode::Write::CODE) || !probe.is_supported(opcode::Fsync::CODE) {
            let unsupported = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(fail(unsupported));
        }
        if let Some(wake) = &wake {
            ring.submitter().register_eventfd(wake.as_raw_fd()).map_err(fail)?;
        }
        let done = Done::new(wake.as_ref().map(WakeFd::waker));
        Ok(UringDisk {
            slow: Lane::new("weir-disk-slow", dir.names().clone(), done.clone()),
            dir,
            ring,
            slots: (0..IN_FLIGHT_MAX).map(|_| None).collect(),
            ring_in_flight: 0,
            done,
            slow_in_flight: 0,
            _wake: wake,
        })
    }

    fn start(&mut self, slot: Slot, offset: u64) {
        let index = self.slots.iter().position(Option::is_none).expect("in flight is bounded");
        let slot = self.slots[index].insert(slot);
        let fd = types::Fd(slot.file.file.as_raw_fd());
        let bytes = &slot.buf[slot.from..];
        let (at, len) = (bytes.as_ptr(), u32::try_from(bytes.len()).expect("a write < 4 GiB"));
        let data = (index as u64) << 1;
        let write = opcode::Write::new(fd, at, len).offset(offset).build().user_data(data);
        let sync =
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(data | 1);
        let pair = [write.clone().flags(squeue::Flags::IO_LINK), sync.clone()];
        let entries: &[squeue::Entry] = match (slot.wants_write, slot.wants_sync) {
            (true, true) => &pair,
            (true, false) => std::slice::from_ref(&write),
            _ => std::slice::from_ref(&sync),
        };
        // SAFETY: the entries name a descriptor and a buffer that the filled slot keeps alive and
        // unmoved until their completions were taken (`Drop` waits for them).
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.expect("the queue has room for two entries of each operation in flight");
        self.ring_in_flight += 1;
        // Errors of single operations arrive as completions. A failure here is a lack of kernel
        // memory, after which the entries wait in the queue for the next submission.
        while let Err(e) = self.ring.submit() {
            assert!(
                e.kind() == std::io::ErrorKind::Interrupted
                    || e.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error())
                    || e.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()),
                "io_uring refuses submissions: {e}"
            );
        }
    }

    fn reap_ring(&mut self, out: &mut Vec<Completion>) {
        let mut finished = 0;
        for entry in self.ring.completion() {
            let index = usize::try_from(entry.user_data() >> 1).expect("a slot's index");
            let place = &mut self.slots[index];
            let slot = place.as_mut().expect("a completion belongs to a filled slot");
            if entry.user_data() & 1 == 0 {
                slot.write = Some(entry.result());
            } else {
                slot.sync = Some(entry.result());
            }
            if slot.write.is_some() == slot.wants_write && slot.sync.is_some() == slot.wants_sync {
                let slot = place.take().expect("it was there a line above");
                finished += 1;
                let outcome = slot.outcome();
                out.push(Completion { tag: slot.tag, buf: slot.buf, outcome });
            }
        }
        self.ring_in_flight -= finished;
    }
}

impl Slot {
    fn outcome(&self) -> Outcome {
        let fail = |action, result: i32| {
            let error = std::io::Error::from_raw_os_error(-result);
            Outcome::Failed(self.file.fail(action, &error))
        };
        let bytes = match self.write {
            Some(result) if result < 0 => return fail(DiskAction::Write, result),
            Some(0) if self.from < self.buf.len() => {
                let zero = std::io::Error::from(std::io::ErrorKind::WriteZero);
                return Outcome::Failed(self.file.fail(DiskAction::Write, &zero));
            }
            Some(result) => usize::try_from(result).expect("not negative"),
            None => 0,
        };
        // A short write breaks the link: the kernel cancels the sync, which does not count as
        // failed.
        let full = bytes == self.buf.len() - self.from;
        match self.sync {
            Some(result) if result < 0 && full => fail(DiskAction::Sync, result),
            Some(_) if !self.wants_write => Outcome::Done,
            sync => Outcome::Written { bytes, synced: full && sync == Some(0) },
        }
    }
}

impl Disk for UringDisk {
    fn submit(&mut self, tag: u64, op: Op) {
        assert!(self.in_flight() < IN_FLIGHT_MAX, "at most {IN_FLIGHT_MAX} operations in flight");
        let slot = |file, buf, from, wants_write, wants_sync| Slot {
            tag,
            file,
            buf,
            from,
            write: None,
            sync: None,
            wants_write,
            wants_sync,
        };
        match op {
            Op::Write { file, offset, buf, from, sync } => {
                let file = self.dir.file(file).clone();
                self.start(slot(file, buf, from, true, sync), offset);
            }
            Op::Sync { file } => {
                let file = self.dir.file(file).clone();
                self.start(slot(file, Vec::new(), 0, false, true), 0);
            }
            Op::Prepare { name, len } => {
                self.slow_in_flight += 1;
                self.slow.push(tag, Work::Prepare { name, len });
            }
            Op::Remove { name } => {
                self.slow_in_flight += 1;
                self.slow.push(tag, Work::Remove { name });
            }
            Op::Rename { from, to } => {
                self.slow_in_flight += 1;
                self.slow.push(tag, Work::Rename { from, to });
            }
        }
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        if self.ring_in_flight > 0 {
            self.reap_ring(out);
        }
        if self.slow_in_flight > 0 {
            self.slow_in_flight -= self.done.take(out);
        }
    }

    fn wait(&mut self) {
        if self.ring_in_flight > 0 {
            // An interruption is a spurious wake-up, which the caller's loop tolerates.
            let _ = self.ring.submit_and_wait(1);
        } else if self.slow_in_flight > 0 {
            self.done.wait();
        }
    }

    fn in_flight(&self) -> usize {
        self.ring_in_flight + self.slow_in_flight
    }

    blocking_calls!();
}

impl Drop for UringDisk {
    fn drop(&mut self) {
        let mut last = Vec::new();
        while self.ring_in_flight > 0 {
            self.wait();
            self.reap_ring(&mut last);
        }
    }
}
