//! The few instructions and system calls that have no safe form elsewhere.
//!
//! Each function is one call without policy and returns its errors. All `unsafe` of this crate that
//! is not ring memory is here.

#[cfg(not(loom))]
use std::{fs::File, io, os::fd::AsRawFd};

/// Reads the time-stamp counter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction and Linux allows it to user code.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the monotonic clock, in nanoseconds.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub(crate) fn counter() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Reads the counter after every earlier load is done.
#[cfg(not(loom))]
pub(crate) fn counter_after_loads() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    counter()
}

/// Returns true if the processor guarantees a counter of constant rate.
pub(crate) fn counter_is_invariant() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::__cpuid;
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        #[allow(unused_unsafe)] // Safe in newer compilers, unsafe in the oldest supported one.
        // SAFETY: every x86-64 processor has the instruction; the leaf is checked first.
        unsafe {
            __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT_TSC != 0
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        true // One tick is one nanosecond of the monotonic clock there.
    }
}

/// Reads a clock of the system, ns.
pub(crate) fn clock_ns(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that lives through the call.
    let code = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert!(code == 0, "clock_gettime fails only for a clock that does not exist");
    let seconds = u64::try_from(time.tv_sec).expect("the clocks count from 1970 or from boot");
    let nanos = u64::try_from(time.tv_nsec).expect("a timespec's nanoseconds are not negative");
    seconds * 1_000_000_000 + nanos
}

/// Sleeps until this time of the monotonic clock, ns; a signal may end the sleep early.
#[cfg(not(loom))]
pub(crate) fn sleep_until_ns(deadline_ns: u64) {
    let time = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    let (id, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: `time` is a valid timespec; no remainder is asked for.
    unsafe {
        libc::clock_nanosleep(id, flags, &raw const time, std::ptr::null_mut());
    }
}

/// Requests exact wake-ups for this thread; otherwise the kernel may add 50 µs to save power.
#[cfg(not(loom))]
pub(crate) fn ask_for_exact_wakeups() {
    // SAFETY: plain numbers; a refusal only leaves the kernel's default.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize);
    }
}

/// Pins the calling thread to a core.
#[cfg(not(loom))]
pub(crate) fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of processors is plain bits; all zeroes is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the core is below the set's size, checked above; the set is valid and its size
    // correct.
    let code = unsafe {
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the cores that the calling thread may use, in ascending order.
#[cfg(not(loom))]
pub(crate) fn usable_cores() -> io::Result<Vec<usize>> {
    // SAFETY: a set of processors is plain bits; all zeroes is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid and its size correct.
    let code = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every index asked for is below the set's size.
    let usable = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(usable).collect())
}

/// Returns the system's number of the calling thread.
#[cfg(not(loom))]
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Sets the policy and nice level of a thread among ordinary threads; 0 is the calling one.
#[cfg(not(loom))]
pub(crate) fn schedule(thread: libc::pid_t, policy: libc::c_int, niceness: i32) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: a number that is no thread's is refused; the attributes are valid, live through the
    // call and contain their own size.
    let code = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks the file for as long as it is open; fails if another process holds the lock.
#[cfg(not(loom))]
pub(crate) fn try_lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let code = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Allocates the file's pages now, so that a full file system is an error here and not a signal
/// later.
#[cfg(not(loom))]
pub(crate) fn reserve(file: &File, bytes: libc::off_t) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) };
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
