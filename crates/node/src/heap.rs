//! The C allocator's setting for returning freed memory to the system.
//!
//! A first copy of all orders comes in pages of up to 256 KiB, and readers may come by the
//! thousand. The C library's allocator maps buffers of 128 KiB and more individually and unmaps
//! them when they are freed. But it raises that threshold to the size of each such buffer freed, up
//! to 32 MiB, and from then on keeps such buffers in its heaps, among small ones that outlive them.
//! A node that served ten thousand readers at once retained 2.5 GB of long-freed memory.

/// The size in bytes from which a buffer is mapped individually.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 128 * 1024;

/// Fixes the threshold, so that a large buffer returns to the system whenever it is freed. Must be
/// called once, at the start of the process. Does nothing with other C libraries.
pub fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and no pointer, and sets a number of the allocator
        // under the allocator's own lock. A parameter that it does not know changes nothing.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        debug_assert!(is_set <= 1, "it says 1 for done and 0 for not known");
    }
}
