//! Hiccups: time that the machine takes from a core, independent of the program.
//!
//! One thread per core does nothing but read the time. In `Sleep` mode it wakes every millisecond
//! and counts its lateness: cheap, but on a core whose own thread spins it also sees the scheduler
//! share the core. In `Spin` mode it owns the core and counts every gap between two reads of the
//! counter. A latency quantile that is not well above these figures says more about the machine
//! than about the program.
//!
//! It never touches the order path: a core's thread has its own histogram and, if wanted, its own
//! ring, in which each theft beyond the threshold is a record for the capture file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use crate::clock::{ClockReader, Tsc};
use crate::histogram::{Histogram, HistogramReader, Snapshot};
use crate::recorder::Recorder;
use crate::sys;
use crate::thread::pin_to_core;

/// The way in which a hiccup thread watches its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HiccupMode {
    /// Sleeps to absolute times and counts the lateness; under 1 % of a core.
    #[default]
    Sleep,
    /// Reads the counter without pause and counts the gaps; takes the whole core.
    Spin,
}

/// The options of the hiccup threads; the default suits production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiccupOptions {
    /// The mode of each thread.
    pub mode: HiccupMode,
    /// Time between wake-ups in `Sleep` mode, ns, at least 10,000.
    pub interval_ns: u64,
    /// The lateness or gap from which time counts as stolen, ns.
    pub threshold_ns: u64,
}

impl Default for HiccupOptions {
    fn default() -> HiccupOptions {
        HiccupOptions { mode: HiccupMode::Sleep, interval_ns: 1_000_000, threshold_ns: 500_000 }
    }
}

impl HiccupOptions {
    const INTERVAL_NS_MIN: u64 = 10_000;
}

/// The reason that the threads could not be started.
#[derive(Debug, Error)]
pub enum HiccupError {
    /// A core does not exist, or this process may not use it.
    #[error("cannot pin a hiccup thread to core {core}: {source}")]
    Pin {
        /// The core.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no room for another thread.
    #[error("cannot start a hiccup thread: {0}")]
    Spawn(io::Error),
    /// The interval is so short that waking would take the whole core.
    #[error("an interval of {interval_ns} ns between looks is under 10,000")]
    Interval {
        /// The requested interval.
        interval_ns: u64,
    },
}

/// The time taken from one core since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct HiccupReport {
    /// The core.
    pub core: usize,
    /// Lateness of wake-ups, or gaps beyond 1 µs between reads, ns.
    pub lateness: Snapshot,
    /// Thefts beyond the threshold.
    pub stolen_count: u64,
    /// Their sum, ns.
    pub stolen_ns: u64,
    /// The time for which the core was watched, ns.
    pub watched_ns: u64,
}

impl HiccupReport {
    /// Returns the share of the time that was stolen, 0 to 1.
    #[must_use]
    pub fn stolen_share(&self) -> f64 {
        if self.watched_ns == 0 { 0.0 } else { self.stolen_ns as f64 / self.watched_ns as f64 }
    }
}

/// The counters of one thread, for others to read.
#[derive(Debug, Default)]
struct Counts {
    stolen_count: AtomicU64,
    stolen_ns: AtomicU64,
    watched_ns: AtomicU64,
}

#[derive(Debug)]
struct Watched {
    core: usize,
    lateness: HistogramReader,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// The running hiccup threads; dropping this ends them.
#[derive(Debug)]
pub struct Hiccups {
    cores: Vec<Watched>,
    stop: Arc<AtomicBool>,
}

impl Hiccups {
    /// Starts a thread on each core. Its recorder takes the thefts for the capture file; pass
    /// [`Recorder::disabled`] to leave them out.
    ///
    /// # Errors
    ///
    /// Returns [`HiccupError`]; no thread runs then.
    pub fn start(
        cores: Vec<(usize, Recorder)>,
        options: HiccupOptions,
        clock: &ClockReader,
    ) -> Result<Hiccups, HiccupError> {
        if options.interval_ns < HiccupOptions::INTERVAL_NS_MIN {
            return Err(HiccupError::Interval { interval_ns: options.interval_ns });
        }
        let mut hiccups = Hiccups { cores: Vec::new(), stop: Arc::new(AtomicBool::new(false)) };
        for (core, recorder) in cores {
            // On an error, the drop ends the threads started so far.
            let watched = hiccups.watch(core, recorder, options, clock.clone())?;
            hiccups.cores.push(watched);
        }
        Ok(hiccups)
    }

    fn watch(
        &self,
        core: usize,
        recorder: Recorder,
        options: HiccupOptions,
        clock: ClockReader,
    ) -> Result<Watched, HiccupError> {
        let histogram = Histogram::new();
        let lateness = histogram.reader();
        let counts = Arc::new(Counts::default());
        let stop = Arc::clone(&self.stop);
        let (told, pinned) = std::sync::mpsc::sync_channel(1);
        let mut watcher =
            Watcher { options, clock, histogram, counts: Arc::clone(&counts), recorder, stop };
        let thread = thread::Builder::new()
            .name(format!("hiccup-{core}"))
            .spawn(move || {
                let result = pin_to_core(core);
                let go_on = result.is_ok();
                // The starter waits for this result; only a panic could have ended it.
                let _ = told.send(result);
                if go_on {
                    watcher.run();
                }
            })
            .map_err(HiccupError::Spawn)?;
        pinned
            .recv()
            .expect("the thread tells before it does anything else")
            .map_err(|source| HiccupError::Pin { core, source })?;
        Ok(Watched { core, lateness, counts, thread: Some(thread) })
    }

    /// Returns the time taken so far from each core.
    #[must_use]
    pub fn report(&self) -> Vec<HiccupReport> {
        self.cores.iter().map(Watched::report).collect()
    }

    /// Ends the threads and returns the final reports.
    #[must_use]
    pub fn stop(mut self) -> Vec<HiccupReport> {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        // SYNC: a plain flag; the threads' counters are read after the join.
        self.stop.store(true, Ordering::Relaxed);
        for watched in &mut self.cores {
            if let Some(thread) = watched.thread.take() {
                thread.join().expect("a hiccup thread does nothing that panics");
            }
        }
    }
}

impl Drop for Hiccups {
    fn drop(&mut self) {
        self.end();
    }
}

impl Watched {
    fn report(&self) -> HiccupReport {
        // SYNC: counters with a single writer, each exact by itself.
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HiccupReport {
            core: self.core,
            lateness: self.lateness.snapshot(),
            stolen_count: load(&self.counts.stolen_count),
            stolen_ns: load(&self.counts.stolen_ns),
            watched_ns: load(&self.counts.watched_ns),
        }
    }
}

/// The state of one core's thread.
struct Watcher {
    options: HiccupOptions,
    clock: ClockReader,
    histogram: Histogram,
    counts: Arc<Counts>,
    recorder: Recorder,
    stop: Arc<AtomicBool>,
}

impl Watcher {
    fn run(&mut self) {
        match self.options.mode {
            HiccupMode::Sleep => self.sleep(),
            HiccupMode::Spin => self.spin(),
        }
    }

    fn is_stopped(&self) -> bool {
        // SYNC: a plain flag, set in `Hiccups::end`; it orders nothing.
        self.stop.load(Ordering::Relaxed)
    }

    fn sleep(&mut self) {
        sys::ask_for_exact_wakeups();
        let mut looked = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let mut deadline = looked + self.options.interval_ns;
        while !self.is_stopped() {
            sys::sleep_until_ns(deadline);
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
            let late_ns = now.saturating_sub(deadline);
            self.histogram.record(late_ns);
            self.count(late_ns, now - looked);
            looked = now;
            // Missed wake-ups are not made up, so that one theft is counted once.
            deadline = (deadline + self.options.interval_ns).max(now);
        }
    }

    fn spin(&mut self) {
        const GAP_NS_MIN: u64 = 1_000;
        const READS: usize = 4_096;
        let mut calibration = self.clock.calibration();
        let mut last = Tsc::now();
        let mut looked = last;
        while !self.is_stopped() {
            let threshold = calibration.ns_to_ticks(GAP_NS_MIN);
            for _ in 0..READS {
                let now = Tsc::now();
                let gap = now.ticks_since(last);
                last = now;
                if gap >= threshold {
                    let gap_ns = calibration.ticks_to_ns(gap);
                    self.histogram.record(gap_ns);
                    self.count(gap_ns, 0);
                }
            }
            self.count(0, calibration.ticks_to_ns(last.ticks_since(looked)));
            looked = last;
            calibration = self.clock.calibration();
        }
    }

    fn count(&mut self, lost_ns: u64, watched_ns: u64) {
        // SYNC: counters with a single writer; readers need no order.
        let add = |counter: &AtomicU64, amount: u64| {
            let total = counter.load(Ordering::Relaxed).wrapping_add(amount);
            counter.store(total, Ordering::Relaxed);
        };
        add(&self.counts.watched_ns, watched_ns);
        if lost_ns >= self.options.threshold_ns {
            add(&self.counts.stolen_count, 1);
            add(&self.counts.stolen_ns, lost_ns);
            self.recorder.record_stolen(lost_ns, Tsc::now());
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::clock::ClockWriter;
    use crate::thread::usable_cores;

    fn options(mode: HiccupMode) -> HiccupOptions {
        HiccupOptions { mode, interval_ns: 100_000, threshold_ns: 0 }
    }

    fn wait_for_a_look(hiccups: &Hiccups) {
        while hiccups.report().iter().any(|report| report.watched_ns == 0) {
            thread::yield_now();
        }
    }

    #[test]
    fn each_core_is_watched_and_its_thefts_add_up() {
        let clock = ClockWriter::simulated(1_000_000_000, 0);
        let cores = usable_cores();
        let with = |core: &usize| (*core, Recorder::disabled());
        let options = options(HiccupMode::Sleep);
        let hiccups =
            Hiccups::start(cores.iter().map(with).collect(), options, &clock.reader()).unwrap();
        wait_for_a_look(&hiccups);
        let reports = hiccups.stop();
        assert_eq!(reports.iter().map(|report| report.core).collect::<Vec<_>>(), cores);
        for report in reports {
            // With a threshold of zero every wake-up counts as a theft of its lateness.
            assert_eq!(report.stolen_count, report.lateness.count());
            assert_eq!(report.stolen_ns, report.lateness.sum_ns());
            assert!(report.stolen_ns <= report.watched_ns);
            assert!((0.0..=1.0).contains(&report.stolen_share()));
        }
    }

    #[cfg(not(feature = "off"))]
    #[test]
    fn thefts_go_into_the_ring() {
        let clock = ClockWriter::simulated(1_000_000_000, 0);
        let (producer, mut consumer) = crate::ring::heap_ring(1 << 12).unwrap();
        let cores = vec![(usable_cores()[0], Recorder::new(producer))];
        let hiccups = Hiccups::start(cores, options(HiccupMode::Sleep), &clock.reader()).unwrap();
        wait_for_a_look(&hiccups);
        let reports = hiccups.stop();
        let mut lost = 0;
        let taken = consumer.poll(usize::MAX, |record| lost += record.trace().get());
        assert_eq!((taken as u64, lost), (reports[0].stolen_count, reports[0].stolen_ns));
    }

    #[test]
    fn a_spinning_thread_watches_too() {
        let clock = ClockWriter::simulated(1_000_000_000, 0);
        let cores = vec![(usable_cores()[0], Recorder::disabled())];
        let hiccups = Hiccups::start(cores, options(HiccupMode::Spin), &clock.reader()).unwrap();
        wait_for_a_look(&hiccups);
        assert!(hiccups.stop()[0].watched_ns > 0);
    }

    #[test]
    fn cores_that_do_not_exist_and_intervals_too_short_are_refused() {
        let clock = ClockWriter::simulated(1_000_000_000, 0).reader();
        let on = |core| vec![(core, Recorder::disabled())];
        for core in [1_023, 5_000] {
            let refused = Hiccups::start(on(core), HiccupOptions::default(), &clock);
            assert!(matches!(refused, Err(HiccupError::Pin { core: c, .. }) if c == core));
        }
        let short = HiccupOptions { interval_ns: 9_999, ..HiccupOptions::default() };
        assert!(matches!(Hiccups::start(on(0), short, &clock), Err(HiccupError::Interval { .. })));
    }
}
