//! A thread's requests to the scheduler: a core of its own, a smaller share of a common core, or
//! only the time that others leave.
//!
//! On few cores the scheduler determines the tail of the latencies: a thread that wakes with an
//! order may find another thread on its core in the middle of a slice, which lasts a millisecond or
//! more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

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
    ask_for_thread(0, share)
}

fn ask_for_thread(thread: libc::pid_t, share: Share) -> io::Result<()> {
    match share {
        Share::Fair { niceness } => sys::schedule(thread, libc::SCHED_OTHER, niceness),
        Share::Leftover => sys::schedule(thread, libc::SCHED_IDLE, 0),
    }
}

/// A thread with less than its usual share that others may hurry. On busy cores it would see only
/// after many seconds that somebody waits for it, since it does not run until then.
#[derive(Debug, Default)]
pub struct Hurried {
    /// The system's number of the thread; zero for none.
    thread: AtomicI32,
    was_hurried: AtomicBool,
}

impl Hurried {
    /// Makes the calling thread the one that is hurried, until the returned value is dropped.
    /// Called before the thread asks for less.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> HurriedHere {
        // SYNC: a number alone; it orders nothing.
        self.thread.store(sys::thread_id(), Ordering::Relaxed);
        HurriedHere(Arc::clone(self))
    }

    /// Gives the thread a share like any other's. Called by any thread; without the right to do so
    /// the thread keeps its share.
    pub fn hurry(&self) {
        // SYNC: a number alone; it orders nothing.
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 {
            let _ = ask_for_thread(thread, Share::Fair { niceness: 0 });
            // SYNC: pairs with the swap in `take_hurried`. It follows the request, so the thread
            // does not miss one that comes after its own request for less.
            self.was_hurried.store(true, Ordering::Release);
        }
    }
}

/// The thread's own end of [`Hurried`]: while it lives, the thread is hurried.
#[derive(Debug)]
pub struct HurriedHere(Arc<Hurried>);

impl HurriedHere {
    /// Returns true once after the thread was hurried: it may ask for less again.
    #[must_use]
    pub fn take_hurried(&self) -> bool {
        // SYNC: pairs with the store in `hurry`.
        self.0.was_hurried.swap(false, Ordering::Acquire)
    }
}

impl Drop for HurriedHere {
    fn drop(&mut self) {
        // SYNC: a number alone; it orders nothing.
        self.0.thread.store(0, Ordering::Relaxed);
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
    fn a_thread_of_leftovers_is_hurried_by_another_that_waits_for_it() {
        let hurried = Arc::new(Hurried::default());
        let here = hurried.enter();
        assert!(!here.take_hurried());
        ask_for(Share::Leftover).unwrap();
        std::thread::scope(|scope| scope.spawn(|| hurried.hurry()).join().unwrap());
        let policy = if can_ask_back() { libc::SCHED_OTHER } else { libc::SCHED_IDLE };
        assert_eq!(policy_and_niceness().0, policy as u64);
        assert!(here.take_hurried());
        assert!(!here.take_hurried(), "told once");

        drop(here);
        ask_for(Share::Leftover).unwrap();
        hurried.hurry();
        assert_eq!(policy_and_niceness().0, libc::SCHED_IDLE as u64, "it is nobody's thread");
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
