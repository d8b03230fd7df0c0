//! What the allocator keeps of memory that was freed.
//!
//! A first copy of all orders comes in pages of up to 256 KiB, and readers may come by the
//! thousand. The C library's allocator takes buffers of 128 KiB and more from the system one by
//! one, and gives them back when they are freed; but it raises that bound to the size of each that
//! it sees freed, up to 32 MiB, and from then on keeps such buffers in its heaps, among small ones
//! that outlive them. A node that ten thousand readers came to at once kept 2.5 GB of what it had
//! long freed.

/// Buffers of this length and more are the system's own, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 128 * 1024;

/// From now on a large buffer goes back to the system when it is freed, whatever was freed before.
/// Call it once, when the process starts. Where the C library is another one, nothing is done.
pub fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and no pointer, and sets a number of the allocator
        // under the allocator's own lock. A parameter that it does not know changes nothing.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        debug_assert!(is_set <= 1, "it says 1 for done and 0 for not known");
    }
}
