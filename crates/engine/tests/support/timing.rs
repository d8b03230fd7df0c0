//! Wall and processor time of a stretch, and the time of single operations by the time-stamp
//! counter. Processor time counts only this thread's execution, so it is the fairer one on a shared
//! machine.

use std::time::Instant;

/// Seconds of wall-clock time and of processor time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) wall: f64,
    pub(crate) processor: f64,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.wall += more.wall;
        self.processor += more.processor;
    }
}

pub(crate) fn time_spent(work: impl FnOnce()) -> Spent {
    let (start, ran) = (Instant::now(), processor_seconds());
    work();
    Spent { wall: start.elapsed().as_secs_f64(), processor: processor_seconds() - ran }
}

fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to the given place and keeps no reference to it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "the thread's clock can be read");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Latency percentiles in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// Durations of single operations.
pub(crate) struct Ticks {
    durations: Vec<u32>,
    overhead: u32,
    ns_per_tick: f64,
}

#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    let mut processor = 0;
    // SAFETY: every x86-64 processor that this runs on has rdtscp; it writes the given word only.
    // It waits for the operation before it to finish, which rdtsc would not.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Ticks {
    pub(crate) fn new(capacity: usize) -> Ticks {
        let (start, first) = (Instant::now(), now());
        while start.elapsed().as_millis() < 50 {}
        let ns_per_tick = start.elapsed().as_nanos() as f64 / (now() - first) as f64;
        let mut empty = Ticks { durations: Vec::new(), overhead: 0, ns_per_tick };
        for _ in 0..10_000 {
            empty.time(|| {});
        }
        empty.durations.sort_unstable();
        let overhead = empty.durations[empty.durations.len() / 2];
        Ticks { durations: Vec::with_capacity(capacity), overhead, ns_per_tick }
    }

    #[inline]
    pub(crate) fn time(&mut self, work: impl FnOnce()) {
        let start = now();
        work();
        let ticks = now() - start;
        self.durations.push(ticks.min(u64::from(u32::MAX)) as u32);
    }

    pub(crate) fn latency(mut self) -> Latency {
        self.durations.sort_unstable();
        let count = self.durations.len();
        let at = |share: f64| {
            let index = ((count as f64 * share) as usize).min(count - 1);
            f64::from(self.durations[index].saturating_sub(self.overhead)) * self.ns_per_tick
        };
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}
