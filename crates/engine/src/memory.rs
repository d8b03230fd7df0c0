//! What the processor does with memory better than plain code says it: hints, which change speed
//! and never what is observed, and a look at sixteen bytes at once.

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

/// Which of the bytes equal `byte`: bit `i` for the byte at `i`.
#[inline]
pub(crate) fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
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
