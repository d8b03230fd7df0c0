//! The clock of the probes: raw counter reads on the order path, time of day off it.
//!
//! A probe stores the raw counter. One owner, the [`ClockWriter`] of the host's drain, ties the
//! counter to the wall clock about every 100 ms with an [`Anchor`] and publishes the result; any
//! thread converts with a [`ClockReader`] without a lock. Intervals use integers only.
//!
//! The clock never guesses. At the start it refuses a counter that is not invariant, has an
//! impossible rate or changes its rate between two measurements. A later break is counted and
//! restarts the rate measurement.
//!
//! INVARIANT: a published calibration's multiplier is never zero and lies within the rates of
//! `HZ_MIN..=HZ_MAX`.

use std::collections::VecDeque;
use std::time::Duration;

use thiserror::Error;

use crate::sync::{Arc, AtomicU64, Ordering, fence, relax};
use crate::sys;

/// Fraction bits of the multiplier: fine enough that a day's worth of ticks stays within 1 ns of
/// the exact product, small enough that the slowest accepted counter fits 64 bits.
const FRACTION_BITS: u32 = 48;
/// The bounds of plausible counter rates; no known counter is slower or faster.
const HZ_MIN: u64 = 1_000_000;
const HZ_MAX: u64 = 20_000_000_000;
/// The maximum difference between successive rates. NTP slews by at most 500 ppm.
const RATE_DISAGREEMENT_PPM_MAX: u64 = 1_000;
/// Attempts per anchor; the narrowest bracket wins, so that a preemption does no harm.
const ANCHOR_TRIES: usize = 32;
/// The maximum error of an anchor; a less exact one is skipped.
const ANCHOR_ERROR_NS_MAX: u64 = 20_000;
/// Anchors kept for the rate: at 100 ms each the rate is taken over about 6 s.
const WINDOW_ANCHORS: usize = 64;
/// A change of the wall clock against the monotonic one beyond this counts as a step, not a slew.
const WALL_STEP_NS: u64 = 1_000_000;

/// A raw reading of the processor's time-stamp counter, in ticks.
///
/// On processors other than x86-64 one tick is one nanosecond of the monotonic clock. Zero means
/// "not stamped".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tsc(pub u64);

impl Tsc {
    /// Not stamped.
    pub const ZERO: Tsc = Tsc(0);

    /// Reads the counter. Not serialising: the read may happen some 10 ns early or late.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Tsc {
        Tsc(sys::counter())
    }

    /// Returns the ticks from `earlier` to this reading, 0 if `earlier` is not earlier.
    #[inline]
    #[must_use]
    pub const fn ticks_since(self, earlier: Tsc) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The reason that the counter cannot be used as a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClockError {
    /// The processor does not guarantee a constant rate in every power state.
    #[error("the processor's time-stamp counter is not invariant")]
    NotInvariant,
    /// The counter went backwards or stood still between two anchors.
    #[error("the time-stamp counter did not advance between two anchors")]
    NotAdvancing,
    /// The rate is outside the range of any known processor.
    #[error("the time-stamp counter calibrates to {hz} Hz, which no processor has")]
    RateOutOfRange {
        /// The measured rate, in ticks per second.
        hz: u64,
    },
    /// Two successive rates disagree.
    #[error("the time-stamp counter's rate is unsteady: {first_hz} Hz, then {second_hz} Hz")]
    Unsteady {
        /// The earlier rate, in ticks per second.
        first_hz: u64,
        /// The later rate, in ticks per second.
        second_hz: u64,
    },
}

/// The counter and the system's clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The counter in the middle of the read of the wall clock.
    pub tsc: Tsc,
    /// The wall clock, ns since the Unix epoch.
    pub unix_ns: u64,
    /// The counter in the middle of the read of the monotonic clock.
    pub mono_tsc: Tsc,
    /// The monotonic clock, ns.
    pub mono_ns: u64,
    /// Half the wider bracket, in ticks: the bound on the error of both pairings.
    pub error_ticks: u64,
}

impl Anchor {
    /// Takes an anchor: the narrowest of several brackets around reads of both clocks.
    #[must_use]
    pub fn take() -> Anchor {
        let mut best = Anchor::take_once();
        for _ in 1..ANCHOR_TRIES {
            let next = Anchor::take_once();
            if next.error_ticks < best.error_ticks {
                best = next;
            }
        }
        best
    }

    fn take_once() -> Anchor {
        let before = Tsc::now().0;
        let mono_ns = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let between = Tsc::now().0;
        let unix_ns = sys::clock_ns(libc::CLOCK_REALTIME);
        let after = Tsc::now().0;
        // A migration to a processor with another counter may appear as a step back; such a bracket
        // must lose.
        let mono_width = between.checked_sub(before).unwrap_or(u64::MAX / 2);
        let unix_width = after.checked_sub(between).unwrap_or(u64::MAX / 2);
        Anchor {
            tsc: Tsc(between.saturating_add(unix_width / 2)),
            unix_ns,
            mono_tsc: Tsc(before.saturating_add(mono_width / 2)),
            mono_ns,
            error_ticks: mono_width.max(unix_width) / 2,
        }
    }
}

/// The conversion of ticks to nanoseconds and of readings to time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    tsc: Tsc,
    unix_ns: u64,
    multiplier: u64,
}

impl Calibration {
    /// Creates a calibration for a counter of known rate: simulated time, or a file's own anchors.
    ///
    /// # Panics
    ///
    /// Panics if `hz` is not within 1 MHz to 20 GHz.
    #[must_use]
    pub fn with_rate(hz: u64, tsc: Tsc, unix_ns: u64) -> Calibration {
        assert!((HZ_MIN..=HZ_MAX).contains(&hz), "a counter of {hz} Hz");
        Calibration { tsc, unix_ns, multiplier: multiplier(1_000_000_000, hz) }
    }

    /// Converts a duration in ticks to nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.multiplier)) >> FRACTION_BITS;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Converts a duration in nanoseconds to ticks, rounded down.
    #[must_use]
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << FRACTION_BITS) / u128::from(self.multiplier);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Converts a reading to nanoseconds since the Unix epoch. Meant for readings near the last
    /// anchor; two calibrations may differ by some 10 ns for the same reading.
    #[inline]
    #[must_use]
    pub fn unix_ns(&self, tsc: Tsc) -> u64 {
        if tsc >= self.tsc {
            self.unix_ns.saturating_add(self.ticks_to_ns(tsc.0 - self.tsc.0))
        } else {
            self.unix_ns.saturating_sub(self.ticks_to_ns(self.tsc.0 - tsc.0))
        }
    }

    /// Returns the counter's rate in ticks per second.
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.ns_to_ticks(1_000_000_000)
    }
}

/// The result of taking a new anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AnchorOutcome {
    /// The published calibration is now based on this anchor.
    Applied(Anchor),
    /// Every bracket was too wide because the machine was preempted; the old calibration stays.
    Skipped,
    /// Simulated time has no anchors.
    Simulated,
}

/// The counters of the clock since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockHealth {
    /// Anchors applied.
    pub anchors: u64,
    /// Anchors skipped as too inexact.
    pub skipped: u64,
    /// Breaks of the counter or its rate (suspend, migration); cross-host stamps are then in doubt.
    pub breaks: u64,
    /// Steps of the wall clock against the monotonic one.
    pub wall_steps: u64,
    /// The bound on the last anchor's error, ns.
    pub error_ns: u64,
}

/// The only owner of the clock: takes anchors and publishes calibrations.
#[derive(Debug)]
pub struct ClockWriter {
    cell: Arc<CalibrationCell>,
    current: Calibration,
    window: VecDeque<Anchor>,
    health: ClockHealth,
    simulated: bool,
}

impl ClockWriter {
    /// Checks the counter and calibrates it; takes about 20 ms.
    ///
    /// # Errors
    ///
    /// Returns [`ClockError`] if the counter is unfit; the caller then runs without probes. The
    /// agreement of several cores' counters is checked separately by [`crate::cores`].
    pub fn start() -> Result<ClockWriter, ClockError> {
        if !counter_is_invariant() {
            return Err(ClockError::NotInvariant);
        }
        let first = Anchor::take();
        std::thread::sleep(Duration::from_millis(10));
        let middle = Anchor::take();
        std::thread::sleep(Duration::from_millis(10));
        let last = Anchor::take();
        ClockWriter::from_anchors(first, middle, last)
    }

    fn from_anchors(
        first: Anchor,
        middle: Anchor,
        last: Anchor,
    ) -> Result<ClockWriter, ClockError> {
        let first_hz = rate_hz(&first, &middle)?;
        let second_hz = rate_hz(&middle, &last)?;
        if !rates_agree(first_hz, second_hz) {
            return Err(ClockError::Unsteady { first_hz, second_hz });
        }
        let current = calibration(&first, &last)?;
        let window = VecDeque::from([first, middle, last]);
        let health = ClockHealth {
            anchors: 3,
            error_ns: current.ticks_to_ns(last.error_ticks),
            ..ClockHealth::default()
        };
        let cell = Arc::new(CalibrationCell::new(current));
        Ok(ClockWriter { cell, current, window, health, simulated: false })
    }

    /// Creates a clock for simulated time: `hz` ticks per second, tick 0 at `unix_ns`; never
    /// re-anchored.
    ///
    /// # Panics
    ///
    /// Panics if `hz` is not within 1 MHz to 20 GHz.
    #[must_use]
    pub fn simulated(hz: u64, unix_ns: u64) -> ClockWriter {
        let current = Calibration::with_rate(hz, Tsc::ZERO, unix_ns);
        let cell = Arc::new(CalibrationCell::new(current));
        let (window, health) = (VecDeque::new(), ClockHealth::default());
        ClockWriter { cell, current, window, health, simulated: true }
    }

    /// Takes an anchor and publishes the resulting calibration. Takes about 3 µs; call it about
    /// every 100 ms.
    pub fn reanchor(&mut self) -> AnchorOutcome {
        if self.simulated {
            return AnchorOutcome::Simulated;
        }
        self.apply(Anchor::take())
    }

    fn apply(&mut self, anchor: Anchor) -> AnchorOutcome {
        let error_ns = self.current.ticks_to_ns(anchor.error_ticks);
        if error_ns > ANCHOR_ERROR_NS_MAX {
            self.health.skipped += 1;
            return AnchorOutcome::Skipped;
        }
        self.count_wall_step(&anchor);
        let oldest = self.window.front().copied().unwrap_or(anchor);
        match calibration(&oldest, &anchor) {
            Ok(next) if rates_agree(next.hz(), self.current.hz()) => self.current = next,
            // The rate no longer holds: keep it for durations, and restart its window.
            _ => {
                self.health.breaks += 1;
                self.window.clear();
                self.current.tsc = anchor.tsc;
                self.current.unix_ns = anchor.unix_ns;
            }
        }
        if self.window.len() == WINDOW_ANCHORS {
            self.window.pop_front();
        }
        self.window.push_back(anchor);
        self.health.anchors += 1;
        self.health.error_ns = error_ns;
        self.cell.publish(self.current);
        AnchorOutcome::Applied(anchor)
    }

    fn count_wall_step(&mut self, anchor: &Anchor) {
        let Some(last) = self.window.back() else { return };
        let wall = i128::from(anchor.unix_ns) - i128::from(last.unix_ns);
        let mono = i128::from(anchor.mono_ns) - i128::from(last.mono_ns);
        if (wall - mono).unsigned_abs() > u128::from(WALL_STEP_NS) {
            self.health.wall_steps += 1;
        }
    }

    /// Returns the published calibration.
    #[must_use]
    pub fn calibration(&self) -> Calibration {
        self.current
    }

    /// Returns the counters of the clock since the start.
    #[must_use]
    pub fn health(&self) -> ClockHealth {
        self.health
    }

    /// Returns true if time is simulated and has no anchors.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// Returns a reader for another thread.
    #[must_use]
    pub fn reader(&self) -> ClockReader {
        ClockReader { cell: Arc::clone(&self.cell) }
    }
}

/// Reads the published calibration from any thread.
#[derive(Clone, Debug)]
pub struct ClockReader {
    cell: Arc<CalibrationCell>,
}

impl ClockReader {
    /// Returns the newest calibration. Never blocks; retries while a calibration is being written
    /// (a few ns, ten times a second).
    #[must_use]
    pub fn calibration(&self) -> Calibration {
        self.cell.read()
    }

    /// Converts a reading to nanoseconds since the Unix epoch; 0 for [`Tsc::ZERO`], which is no
    /// stamp.
    #[must_use]
    pub fn unix_ns(&self, tsc: Tsc) -> u64 {
        if tsc == Tsc::ZERO { 0 } else { self.calibration().unix_ns(tsc) }
    }
}

/// A calibration under a sequence lock, for one writer and any number of readers.
#[derive(Debug)]
struct CalibrationCell {
    /// Odd while the writer is writing.
    version: AtomicU64,
    tsc: AtomicU64,
    unix_ns: AtomicU64,
    multiplier: AtomicU64,
}

impl CalibrationCell {
    fn new(calibration: Calibration) -> CalibrationCell {
        CalibrationCell {
            version: AtomicU64::new(0),
            tsc: AtomicU64::new(calibration.tsc.0),
            unix_ns: AtomicU64::new(calibration.unix_ns),
            multiplier: AtomicU64::new(calibration.multiplier),
        }
    }

    /// Publishes a calibration. Only the [`ClockWriter`], the single writer, calls this.
    fn publish(&self, calibration: Calibration) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // SYNC: pairs with the acquire fence in `read`: a reader that saw any field below also sees
        // the odd version when it checks again.
        fence(Ordering::Release);
        self.tsc.store(calibration.tsc.0, Ordering::Relaxed);
        self.unix_ns.store(calibration.unix_ns, Ordering::Relaxed);
        self.multiplier.store(calibration.multiplier, Ordering::Relaxed);
        // SYNC: pairs with the acquire load in `read`: the even version carries the fields.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    fn read(&self) -> Calibration {
        loop {
            // SYNC: pairs with the release store of the even version in `publish`.
            let before = self.version.load(Ordering::Acquire);
            let calibration = Calibration {
                tsc: Tsc(self.tsc.load(Ordering::Relaxed)),
                unix_ns: self.unix_ns.load(Ordering::Relaxed),
                multiplier: self.multiplier.load(Ordering::Relaxed),
            };
            // SYNC: pairs with the release fence in `publish`.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return calibration;
            }
            relax();
        }
    }
}

fn multiplier(ns: u64, ticks: u64) -> u64 {
    let fixed = ((u128::from(ns) << FRACTION_BITS) + u128::from(ticks / 2)) / u128::from(ticks);
    u64::try_from(fixed).expect("a rate of at least HZ_MIN keeps the multiplier below 2^58")
}

fn rate_hz(earlier: &Anchor, later: &Anchor) -> Result<u64, ClockError> {
    let ticks = later.mono_tsc.ticks_since(earlier.mono_tsc);
    let ns = later.mono_ns.saturating_sub(earlier.mono_ns);
    if ticks == 0 || ns == 0 {
        return Err(ClockError::NotAdvancing);
    }
    let hz = u128::from(ticks) * 1_000_000_000 / u128::from(ns);
    let hz = u64::try_from(hz).unwrap_or(u64::MAX);
    if (HZ_MIN..=HZ_MAX).contains(&hz) { Ok(hz) } else { Err(ClockError::RateOutOfRange { hz }) }
}

fn calibration(earlier: &Anchor, later: &Anchor) -> Result<Calibration, ClockError> {
    rate_hz(earlier, later)?;
    let ticks = later.mono_tsc.ticks_since(earlier.mono_tsc);
    let ns = later.mono_ns.saturating_sub(earlier.mono_ns);
    let multiplier = multiplier(ns, ticks);
    Ok(Calibration { tsc: later.tsc, unix_ns: later.unix_ns, multiplier })
}

fn rates_agree(first_hz: u64, second_hz: u64) -> bool {
    let difference = u128::from(first_hz.abs_diff(second_hz));
    difference * 1_000_000 <= u128::from(first_hz) * u128::from(RATE_DISAGREEMENT_PPM_MAX)
}

/// Returns true if the processor guarantees a counter of constant rate.
#[must_use]
pub fn counter_is_invariant() -> bool {
    sys::counter_is_invariant()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WALL: u64 = 1_700_000_000_000_000_000;

    /// Returns the exact anchor of a counter of `hz` after `ns`.
    fn anchor(hz: u64, ns: u64) -> Anchor {
        let ticks = (u128::from(ns) * u128::from(hz) / 1_000_000_000) as u64;
        let tsc = Tsc(1_000_000 + ticks);
        let mono_ns = 5_000 + ns;
        Anchor { tsc, unix_ns: WALL + ns, mono_tsc: tsc, mono_ns, error_ticks: 40 }
    }

    fn started(hz: u64) -> ClockWriter {
        let at = |ms: u64| anchor(hz, ms * 1_000_000);
        ClockWriter::from_anchors(at(0), at(10), at(20)).expect("a steady counter")
    }

    #[test]
    fn the_machine_s_own_counter_agrees_with_the_system_clock() {
        let Ok(mut clock) = ClockWriter::start() else {
            assert!(!counter_is_invariant(), "an invariant counter must calibrate");
            return;
        };
        let _ = clock.reanchor();
        let before = sys::clock_ns(libc::CLOCK_REALTIME);
        let converted = clock.reader().unix_ns(Tsc::now());
        let after = sys::clock_ns(libc::CLOCK_REALTIME);
        let slack = 1_000_000;
        assert!(before - slack <= converted && converted <= after + slack);
        assert_eq!(clock.reader().unix_ns(Tsc::ZERO), 0);
    }

    #[test]
    fn ticks_become_nanoseconds_to_within_one_for_every_usual_rate() {
        for hz in [1_000_000, 24_000_000, 1_000_000_000, 2_596_123_457, 5_000_000_000] {
            let calibration = Calibration::with_rate(hz, Tsc(0), WALL);
            for ns in [0_u64, 1, 999, 1_000_000, 3_600_000_000_000, 86_400_000_000_000] {
                let ticks = (u128::from(ns) * u128::from(hz) / 1_000_000_000) as u64;
                let back = calibration.ticks_to_ns(ticks);
                let tick_ns = 1_000_000_000 / hz + 1;
                assert!(ns.abs_diff(back) <= 1 + tick_ns, "{hz} Hz: {ns} became {back}");
            }
            assert!(calibration.hz().abs_diff(hz) <= 1);
        }
    }

    #[test]
    fn readings_before_and_after_the_anchor_convert() {
        let calibration = Calibration::with_rate(2_000_000_000, Tsc(1_000), WALL);
        assert_eq!(calibration.unix_ns(Tsc(1_000)), WALL);
        assert_eq!(calibration.unix_ns(Tsc(3_000)), WALL + 1_000);
        assert_eq!(calibration.unix_ns(Tsc(0)), WALL - 500);
        assert_eq!(Tsc(5).ticks_since(Tsc(9)), 0);
    }

    #[test]
    fn nonsense_rates_are_refused() {
        let at = |ticks: u64, ns: u64| Anchor {
            tsc: Tsc(ticks),
            unix_ns: WALL + ns,
            mono_tsc: Tsc(ticks),
            mono_ns: ns,
            error_ticks: 1,
        };
        let cases = [
            ([(9, 1_000), (9, 2_000), (9, 3_000)], ClockError::NotAdvancing),
            ([(9, 1_000), (5, 2_000), (1, 3_000)], ClockError::NotAdvancing),
            ([(0, 7), (9, 7), (12, 7)], ClockError::NotAdvancing),
            ([(0, 0), (1, 1_000_000), (2, 2_000_000)], ClockError::RateOutOfRange { hz: 1_000 }),
            (
                [(0, 0), (2_000_000, 1_000_000), (5_000_000, 2_000_000)],
                ClockError::Unsteady { first_hz: 2_000_000_000, second_hz: 3_000_000_000 },
            ),
        ];
        for (points, expected) in cases {
            let [a, b, c] = points.map(|(ticks, ns)| at(ticks, ns));
            assert_eq!(ClockWriter::from_anchors(a, b, c).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_new_anchor_corrects_rate_and_time() {
        let mut clock = started(2_000_000_000);
        // The counter turns out 10 ppm faster over the next seconds.
        for tenth in 1..=200_u64 {
            let applied = clock.apply(anchor(2_000_020_000, 20_000_000 + tenth * 100_000_000));
            assert!(matches!(applied, AnchorOutcome::Applied(_)));
        }
        let rate = clock.reader().calibration().hz();
        assert!(rate.abs_diff(2_000_020_000) < 20, "{rate}");
        assert_eq!(clock.health().breaks, 0);
        assert_eq!(clock.health().anchors, 203);
    }

    #[test]
    fn a_wide_bracket_is_skipped() {
        let mut clock = started(2_000_000_000);
        let before = clock.calibration();
        let wide = Anchor { error_ticks: 100_000, ..anchor(2_000_000_000, 120_000_000) };
        assert_eq!(clock.apply(wide), AnchorOutcome::Skipped);
        assert_eq!(clock.calibration(), before);
        assert_eq!(clock.health().skipped, 1);
    }

    #[test]
    fn a_counter_that_starts_anew_is_a_break_and_keeps_the_rate() {
        let mut clock = started(2_000_000_000);
        let reset =
            Anchor { tsc: Tsc(50), mono_tsc: Tsc(50), ..anchor(2_000_000_000, 5_000_000_000) };
        assert_eq!(clock.apply(reset), AnchorOutcome::Applied(reset));
        assert_eq!(clock.health().breaks, 1);
        assert!(clock.calibration().hz().abs_diff(2_000_000_000) <= 1);
        assert_eq!(clock.reader().unix_ns(Tsc(50)), WALL + 5_000_000_000);
    }

    #[test]
    fn a_stepped_wall_clock_is_counted_and_followed() {
        let mut clock = started(2_000_000_000);
        let plain = anchor(2_000_000_000, 120_000_000);
        let stepped = Anchor { unix_ns: plain.unix_ns + 3_000_000_000, ..plain };
        let _ = clock.apply(stepped);
        assert_eq!(clock.health().wall_steps, 1);
        assert_eq!(clock.reader().unix_ns(stepped.tsc), stepped.unix_ns);
    }

    #[test]
    fn simulated_time_has_no_anchors() {
        let mut clock = ClockWriter::simulated(1_000_000_000, WALL);
        assert_eq!(clock.reanchor(), AnchorOutcome::Simulated);
        assert_eq!(clock.reader().unix_ns(Tsc(25)), WALL + 25);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p weir-probe --release --lib loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn loom_a_reader_never_sees_halves_of_two_calibrations() {
        loom::model(|| {
            let of = |n: u64| Calibration { tsc: Tsc(n), unix_ns: n, multiplier: n };
            let cell = Arc::new(CalibrationCell::new(of(1)));
            let writer = {
                let cell = Arc::clone(&cell);
                loom::thread::spawn(move || cell.publish(of(2)))
            };
            let seen = cell.read();
            assert!(seen == of(1) || seen == of(2), "{seen:?}");
            writer.join().unwrap();
            assert_eq!(cell.read(), of(2));
        });
    }
}
