//! What a thread may ask of the system: a core of its own, a smaller part of one that it shares, or
//! only what others leave.
//!
//! On few cores the scheduler decides over the tail of the latencies: a thread that wakes with an
//! order may find the one on its core in the middle of a slice, which is a millisecond and more.

use std::io;

use crate::sys;

/// Pins the calling thread to a core.
///
/// # Errors
///
/// What the system says: no such core, or not one of ours.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    sys::pin_to_core(core)
}

/// The cores that this process may use, in rising order.
#[must_use]
pub fn usable_cores() -> Vec<usize> {
    // More than 1,024 cores: there is a first one in any case.
    sys::usable_cores().unwrap_or_else(|_| vec![0])
}

/// How the system shares a core between the calling thread and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A part like any other thread's, by its nice level.
    Fair {
        /// How far it stands behind others, 1 to 19, or before them, -20 to -1 (with the right
        /// to, `CAP_SYS_NICE`): each level is worth a tenth of its time.
        niceness: i32,
    },
    /// Only time that no other thread wants: any other that wakes goes first, at once, and the
    /// system looks for a core for it as if this thread were not there.
    Leftover,
}

/// Asks the system to share the core in this way.
///
/// # Errors
///
/// What the system says: no right to go back to a larger part, or a sandbox that forbids the call.
pub fn ask_for(share: Share) -> io::Result<()> {
    match share {
        Share::Fair { niceness } => sys::schedule(libc::SCHED_OTHER, niceness),
        Share::Leftover => sys::schedule(libc::SCHED_IDLE, 0),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// The policy and the nice level that the system says the calling thread has.
    fn policy_and_niceness() -> (u64, i64) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // proc_pid_stat(5): field 19 is the nice level, field 41 the policy; ours begin with 3.
        (fields[41 - 3].parse().expect("a number"), fields[19 - 3].parse().expect("a number"))
    }

    #[test]
    fn a_thread_gets_the_share_that_it_asked_for() {
        // The highest level, which a program that was started with another may go to as well. What
        // is left over has no level; the one of before stays written there.
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
