//! Hints to processor and system about memory. They change speed, never what is observed.

/// Asks the processor to bring `value`'s first cache line nearer.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    prefetch_line(core::ptr::from_ref(value).cast());
}

/// Asks the processor to bring all cache lines of `value` nearer.
#[inline]
pub(crate) fn prefetch_all<T>(value: &T) {
    const LINE: usize = 64;
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(core::ptr::from_ref(value).cast::<i8>().wrapping_add(offset));
    }
}

#[inline]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and faults at no address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
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
