//! A thread's requests to the scheduler: a core of its own, a smaller share of a common core, or
//! only the time that others leave.
//!
//! On few cores the scheduler determines the tail of the latencies: a thread that wakes with an
//! order may find another thread on its core in the middle of a slice, which lasts a millisecond or
//! more.

use std::io;

use crate::sys;

/// Pins the calling thread to a core.
///
/// # Errors
///
/// Fails when the system refuses: the core does not exist, or this process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    sys::pin_to_core(core)
}

/// Returns the cores that this process may use, in ascending order.
#[must_use]
pub fn usable_cores() -> Vec<usize> {
    // Fails with more than 1,024 cores; core 0 exists in any case.
    sys::usable_cores().unwrap_or_else(|_| vec![0])
}

/// The way in which the system shares a core between the calling thread and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A share like any other thread's, by its nice level.
    Fair {
        /// The nice level: 1 to 19 for less time than others, -20 to -1 for more (requires
        /// `CAP_SYS_NICE`); each level is worth a tenth of the thread's time.
        niceness: i32,
    },
    /// Only time that no other thread wants. Any other thread preempts this one at once, and the
    /// system chooses a core for it as if this thread did not exist.
    Leftover,
}

/// Requests this share of the core from the system.
///
/// # Errors
///
/// Fails when the system refuses: going back to a larger share needs a privilege, and a sandbox may
/// forbid the call.
pub fn ask_for(share: Share) -> io::Result<()> {
    match share {
        Share::Fair { niceness } => sys::schedule(libc::SCHED_OTHER, niceness),
        Share::Leftover => sys::schedule(libc::SCHED_IDLE, 0),
    }
}

/// Returns true if a thread that takes leftovers may ask for a share like any other's again. Tried
/// once, by a thread of its own.
#[must_use]
pub fn can_ask_back() -> bool {
    static CAN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *CAN.get_or_init(|| {
        let there_and_back =
            || ask_for(Share::Leftover).is_ok() && ask_for(Share::Fair { niceness: 0 }).is_ok();
        std::thread::spawn(there_and_back).join().unwrap_or(false)
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Returns the calling thread's policy and nice level, as reported by the system.
    fn policy_and_niceness() -> (u64, i64) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // proc_pid_stat(5): field 19 is the nice level, field 41 the policy; `fields` begins with
        // field 3.
        (fields[41 - 3].parse().expect("a number"), fields[19 - 3].parse().expect("a number"))
    }

    #[test]
    fn a_thread_gets_the_share_that_it_asked_for() {
        // The highest level, which a program started with another level may also choose. `Leftover`
        // has no level; the system keeps reporting the previous one.
        let cases = [
            (Share::Fair { niceness: 19 }, libc::SCHED_OTHER as u64, Some(19)),
            (Share::Leftover, libc::SCHED_IDLE as u64, None),
        ];
        for (share, policy, niceness) in cases {
            let thread = std::thread::spawn(move || {
                ask_for(share).expect("lowering oneself needs no right");
                policy_and_niceness()
            });
            let (has_policy, has_niceness) = thread.join().unwrap();
            assert_eq!(has_policy, policy, "{share:?}");
            assert!(niceness.is_none_or(|wanted| wanted == has_niceness), "{share:?}");
        }
    }
}
