//! Counts heap allocations, and asks the system how much memory the process holds. Shared with
//! the test that steady state allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of its callers, passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SYNC: pairs with nothing; a statistic.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait demands of its callers, passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SYNC: pairs with nothing; a statistic.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as the trait demands of its callers, passed on.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SYNC: pairs with nothing; a statistic.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.realloc(block, layout, size) }
    }

    // SAFETY: as the trait demands of its callers, passed on.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Heap allocations so far, of the whole process.
pub(crate) fn allocation_count() -> u64 {
    // SYNC: pairs with nothing; a statistic.
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Bytes of memory that the process really holds.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells its memory");
    let pages: u64 = (statm.split_whitespace().nth(1))
        .expect("statm has a second field")
        .parse()
        .expect("which is a number");
    pages * 4096
}
