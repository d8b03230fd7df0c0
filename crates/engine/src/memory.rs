//! Hints to processor and system about memory. They change speed, never what is observed.

/// Asks the processor to bring `value`'s first cache line nearer.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of the address of a live reference; it reads nothing architecturally.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Asks the processor to bring all cache lines of `value` nearer.
#[inline]
pub(crate) fn prefetch_all<T>(value: &T) {
    const LINE: usize = 64;
    let bytes = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        // SAFETY: the offset is inside `value`.
        prefetch(unsafe { &*bytes.add(offset) });
    }
}

/// Asks the system to back a large vector's memory, reserved but unused parts included, with huge
/// pages as it is touched: a random access then misses the cache, but not the page tables too. A
/// system that cannot, does not.
pub(crate) fn advise_huge_pages<T>(vector: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        const HUGE_PAGE: usize = 2 << 20;
        let bytes = vector.capacity() * size_of::<T>();
        let start = (vector.as_ptr() as usize).next_multiple_of(HUGE_PAGE);
        let end = (vector.as_ptr() as usize + bytes) / HUGE_PAGE * HUGE_PAGE;
        if start < end {
            // SAFETY: the range is whole pages inside one live allocation of ours; the advice
            // changes neither contents nor addresses, and its failure changes nothing at all.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = vector;
}
