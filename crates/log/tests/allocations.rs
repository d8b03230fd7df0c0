//! A log that has warmed up appends and commits without allocating.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use support::{batch_of, config};
use weir_io::ThreadDisk;
use weir_log::{Append, Durability, EmbeddedLog, SequencedLog};
use weir_types::Nanos;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the allocations of each thread.
struct Counting;

// SAFETY: passes every call on to the system's allocator, unchanged; counting touches a
// thread-local cell that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `realloc`, which is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_log_appends_and_commits_without_allocating() {
    for level in [Durability::Memory, Durability::Os, Durability::Disk] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(level);
        config.segment_bytes = 8 << 20;
        config.queue_bytes_max = 4 << 20;
        let disk = ThreadDisk::open(dir.path(), None).unwrap();
        let (mut log, _) = EmbeddedLog::open(config, disk).unwrap();
        let batch = batch_of(&[[7u8; 128]; 3]);
        let mut round = |entries: usize| {
            let before = ALLOCATIONS.with(Cell::get);
            for n in 0..entries {
                let time = Nanos(log.last_log_time().0 + 1);
                let appended = log.append(log.epoch(), time, &batch);
                assert!(matches!(appended, Append::At { .. }));
                while n % 8 == 7 && !log.is_idle() {
                    log.do_work(Nanos(0)).unwrap();
                    std::thread::yield_now();
                }
            }
            ALLOCATIONS.with(Cell::get) - before
        };
        // At some point buffers have reached their size and the next segment is prepared. One
        // allocation per entry, or per sync, would leave no round without any.
        let quiet = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            round(800) == 0
        });
        assert!(quiet, "{level}");
    }
}
