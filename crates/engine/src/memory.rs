//! Hints to the processor about memory. They change speed, never what is observed.

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
