//! Counts heap allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, with a count of allocations.
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the trait's requirements on callers are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SYNC: a statistic; it orders nothing.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the trait's requirements on callers are passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SYNC: a statistic; it orders nothing.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the trait's requirements on callers are passed on.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SYNC: a statistic; it orders nothing.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.realloc(block, layout, size) }
    }

    // SAFETY: the trait's requirements on callers are passed on.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the number of heap allocations of the whole process so far.
pub(crate) fn allocation_count() -> u64 {
    // SYNC: a statistic; it orders nothing.
    ALLOCATIONS.load(Ordering::Relaxed)
}
