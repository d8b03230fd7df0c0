//! The pace of ticks while more is due than one tick carries out: mass cancels, cancels of lost
//! sessions, expiries and closes of many instruments.
//!
//! Such work is urgent for nobody who trades, so it takes the time that others leave:
//!
//! | others' commands | ticks |
//! | --- | --- |
//! | none for `QUIET_AFTER` | some in a batch; the next batch once these are applied |
//! | arrive | one per `INTERVAL`; where a commit takes longer, one for each that has passed |
//!
//! Where a commit waits for the disk, a batch has up to `TICKS_MAX`. At `memory` a quiet one has
//! `QUIET_TICKS`: the first order behind it waits for no more, and neither does the session whose
//! reports they are fall behind.
//!
//! A tick waits only if the one before left something due that no command has done since: a single
//! timer is on time, and takes one tick. The pace decides the places of ticks in the log, and the
//! log everything else: a replay has the same ticks at the same places.

use weir_types::Nanos;

/// Decides the times of ticks.
#[derive(Debug)]
pub(crate) struct TickPace {
    /// The time of the last ticks.
    ticked_at: Nanos,
    /// The time of others' last command.
    heard_at: Option<Nanos>,
    /// The ticks that are sequenced and not yet applied.
    under_way: u32,
    /// True if the last applied tick left something due, which may still be.
    is_behind: bool,
    /// The ticks of a batch while no other commands arrive, and the most while they do.
    quiet_count: u32,
    busy_max: u32,
}

impl TickPace {
    /// The interval in nanoseconds of ticks while others' commands arrive: 512 us.
    pub(crate) const INTERVAL: u64 = 512_000;
    /// The most ticks of a batch: as many orders end by them as by one command.
    pub(crate) const TICKS_MAX: u32 = 16;
    /// The ticks of a batch at `memory` while no other commands arrive.
    const QUIET_TICKS: u32 = 4;
    /// The time in nanoseconds without others' commands after which ticks follow one another: 10
    /// ms. At 1,000 orders a second hardly a gap is so long.
    pub(crate) const QUIET_AFTER: u64 = 10_000_000;

    /// Returns the pace before the first tick. `waits_for_disk`: where a commit waits for the disk,
    /// the thread is free meanwhile, and the next batch has the ticks of the whole time.
    pub(crate) fn new(waits_for_disk: bool) -> TickPace {
        TickPace {
            ticked_at: Nanos(0),
            heard_at: None,
            under_way: 0,
            is_behind: false,
            quiet_count: if waits_for_disk { TickPace::TICKS_MAX } else { TickPace::QUIET_TICKS },
            busy_max: if waits_for_disk { TickPace::TICKS_MAX } else { 1 },
        }
    }

    /// Notes that others' commands have arrived.
    pub(crate) fn hear(&mut self, now: Nanos) {
        self.heard_at = Some(now);
    }

    /// Returns the number of ticks that may be sequenced now, when something is due.
    pub(crate) fn ticks_now(&self, now: Nanos) -> u32 {
        if self.under_way > 0 {
            return 0;
        }
        if !self.is_behind {
            return 1;
        }
        if self.is_quiet(now) {
            return self.quiet_count;
        }
        let intervals = now.since(self.ticked_at).0 / TickPace::INTERVAL;
        u32::try_from(intervals).unwrap_or(u32::MAX).min(self.busy_max)
    }

    /// Returns the time of the next tick, when something is due: `due` or later. `None` while ticks
    /// are not yet applied.
    pub(crate) fn next(&self, due: Nanos, now: Nanos) -> Option<Nanos> {
        if self.under_way > 0 {
            return None;
        }
        let waits = self.is_behind && !self.is_quiet(now);
        let next = if waits { self.ticked_at.0.saturating_add(TickPace::INTERVAL) } else { 0 };
        Some(due.max(Nanos(next)))
    }

    /// Notes a sequenced tick.
    pub(crate) fn tick(&mut self, now: Nanos) {
        self.ticked_at = now;
        self.under_way += 1;
    }

    /// Notes an applied tick, which may have left something due.
    pub(crate) fn applied(&mut self, is_behind: bool) {
        self.under_way = self.under_way.checked_sub(1).expect("each tick is sequenced first");
        self.is_behind = is_behind;
    }

    /// Returns true if the last applied tick left something due.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Notes that nothing is due any more: another command has done the rest.
    pub(crate) fn catch_up(&mut self) {
        self.is_behind = false;
    }

    /// Notes a tick that the log did not take.
    pub(crate) fn refused(&mut self) {
        self.under_way = self.under_way.checked_sub(1).expect("each tick is sequenced first");
    }

    fn is_quiet(&self, now: Nanos) -> bool {
        self.heard_at.is_none_or(|heard_at| now.since(heard_at).0 >= TickPace::QUIET_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = TickPace::INTERVAL;

    /// Sequences and applies a tick that leaves something due.
    fn tick(pace: &mut TickPace, now: Nanos) {
        pace.tick(now);
        assert_eq!((pace.ticks_now(now), pace.next(Nanos(0), now)), (0, None));
        pace.applied(true);
    }

    #[test]
    fn ticks_follow_one_another_at_once_while_no_other_commands_arrive() {
        let mut pace = TickPace::new(false);
        let now = Nanos(5);
        assert_eq!((pace.ticks_now(now), pace.next(Nanos(3), now)), (1, Some(Nanos(3))));
        tick(&mut pace, now);
        assert_eq!(pace.ticks_now(now), TickPace::QUIET_TICKS);
        pace.hear(now);
        assert_eq!(pace.ticks_now(Nanos(5 + INTERVAL - 1)), 0);
        assert_eq!(pace.next(Nanos(3), now), Some(Nanos(5 + INTERVAL)));
        assert_eq!(pace.ticks_now(Nanos(5 + INTERVAL)), 1);
        assert_eq!(pace.ticks_now(Nanos(5 + TickPace::QUIET_AFTER)), TickPace::QUIET_TICKS);
    }

    #[test]
    fn a_tick_behind_one_that_left_nothing_waits_for_nothing() {
        let mut pace = TickPace::new(false);
        let now = Nanos(5);
        pace.hear(now);
        tick(&mut pace, now);
        pace.tick(Nanos(5 + INTERVAL));
        pace.applied(false);
        assert_eq!(pace.ticks_now(Nanos(6 + INTERVAL)), 1);
        assert_eq!(pace.next(Nanos(9), Nanos(6 + INTERVAL)), Some(Nanos(9)));
    }

    #[test]
    fn a_batch_has_the_ticks_of_the_time_for_which_the_disk_was_waited_for() {
        for (waits_for_disk, intervals, ticks) in
            [(false, 1, 1), (false, 7, 1), (true, 1, 1), (true, 7, 7), (true, 30, 16)]
        {
            let mut pace = TickPace::new(waits_for_disk);
            tick(&mut pace, Nanos(5));
            let now = Nanos(5 + intervals * INTERVAL);
            pace.hear(now);
            assert_eq!(pace.ticks_now(now), ticks, "{waits_for_disk} {intervals}");
        }
    }

    #[test]
    fn a_tick_that_the_log_refuses_is_sequenced_again() {
        let mut pace = TickPace::new(true);
        pace.tick(Nanos(5));
        pace.refused();
        assert_eq!(pace.ticks_now(Nanos(6)), 1);
    }
}
