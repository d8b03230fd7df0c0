//! Memory operations that plain code cannot express: prefetch hints, preallocation of pages and a
//! comparison of sixteen bytes at once. They change speed, never results.

use rustix::mm::{Advice, madvise};

/// The smallest page size of the supported systems; with larger pages the kernel refuses the
/// advice.
const PAGE_BYTES: usize = 4096;
/// The least size for which the advice is worth its system calls: one huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Prefetches the first cache line of `value`.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_line(core::ptr::from_ref(value).cast());
}

/// Prefetches all cache lines of `value`.
#[inline]
pub fn prefetch_all<T>(value: &T) {
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

/// Populates a vector's whole capacity now, in huge pages where the system has them. Pages that the
/// system refuses are populated as the vector fills.
pub fn take_ahead<T>(vec: &mut Vec<T>) {
    let start = vec.as_mut_ptr().cast::<u8>();
    // Only whole pages within the vector: the memory around it belongs to others.
    let first = start.align_offset(PAGE_BYTES);
    let bytes = (vec.capacity() * size_of::<T>()).saturating_sub(first) / PAGE_BYTES * PAGE_BYTES;
    if bytes < HUGE_PAGE_BYTES || cfg!(miri) {
        return;
    }
    for advice in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
        // SAFETY: the pages lie within the vector's own allocation, and neither advice changes
        // the values read from them.
        // Ignored: an older kernel that lacks one of them costs only the speed-up.
        let _ = unsafe { madvise(start.wrapping_add(first).cast(), bytes, advice) };
    }
}

/// Returns a mask of the bytes that equal `byte`: bit `i` for the byte at `i`.
#[must_use]
#[inline]
pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of every x86-64 processor; the load takes 16 bytes of any alignment,
    // and the array has them.
    unsafe {
        use core::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        let all = _mm_loadu_si128(bytes.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(byte as i8))) as u32
    }
    #[cfg(not(target_arch = "x86_64"))]
    equal_bytes_plainly(bytes, byte)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn equal_bytes_plainly(bytes: &[u8; 16], byte: u8) -> u32 {
    bytes.iter().enumerate().map(|(i, other)| u32::from(*other == byte) << i).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_taken_ahead_is_what_it_was() {
        // Miri populates nothing and is slow.
        let capacity = if cfg!(miri) { 1 << 11 } else { 1 << 20 };
        let mut vec: Vec<u64> = Vec::with_capacity(capacity);
        vec.extend(0..1000);
        take_ahead(&mut vec);
        assert!(vec.iter().copied().eq(0..1000));
        vec.resize(capacity, 7);
        take_ahead(&mut Vec::<u64>::new());
        assert_eq!(vec[capacity - 1], 7);
    }

    #[test]
    fn bytes_looked_at_together_are_those_looked_at_one_by_one() {
        let mut bytes = [0; 16];
        for round in 0..=u8::MAX {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = round.wrapping_mul(i as u8 | 1).wrapping_add(i as u8 & round);
            }
            for byte in [0, 1, 0x7f, 0x80, 0xff, bytes[3]] {
                assert_eq!(equal_bytes(&bytes, byte), equal_bytes_plainly(&bytes, byte));
            }
        }
    }
}
