//! The rules of a command log that has no room, or no descriptor, for its next file.
//!
//! | rule | judged |
//! | --- | --- |
//! | a request is refused only while the node says that its log is full | at each refusal |
//! | the node says that there is room again only when there is | at each change |
//! | behind a spell requests are taken again | at each refusal |

use weir_types::Nanos;

use crate::oracle::{Violation, ensure};
use crate::weather::Weather;

/// The time for which requests are refused at once after a refusal, and the longest step.
const ECHO: Nanos = Nanos(10_000_000 + 100_000_000);

/// The figures of a partition after a cycle.
#[derive(Clone, Copy, Debug)]
pub struct FullnessFigures {
    /// True while the node says that the log is full.
    pub is_full: bool,
    /// The requests refused so far.
    pub refused: u64,
}

/// Watches a life.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullnessWatch {
    is_full: bool,
    /// The last time at which it was full.
    full_at: Option<Nanos>,
    refused: u64,
    /// The spell in which it became full, if nothing else could be the cause.
    cause: Option<u64>,
    /// True in a life in which a fault of its own fills the disk.
    has_own_cause: bool,
}

impl FullnessWatch {
    /// Watches a new process; `has_own_cause` in a life in which a fault of its own fills the disk.
    #[must_use]
    pub fn new(has_own_cause: bool) -> FullnessWatch {
        FullnessWatch { has_own_cause, ..FullnessWatch::default() }
    }

    /// Judges a cycle of the partition.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn judge(
        &mut self,
        after: FullnessFigures,
        weather: &Weather,
        now: Nanos,
    ) -> Result<(), Violation> {
        let refused = after.refused - std::mem::replace(&mut self.refused, after.refused);
        let was_full = std::mem::replace(&mut self.is_full, after.is_full);
        if refused > 0 {
            let is_told = was_full || self.full_at.is_some_and(|at| now.since(at) <= ECHO);
            ensure(is_told, "requests are refused and nobody is told why", || {
                format!("{refused} at {}", now.0)
            })?;
            let is_fair = weather.has_settled() && !self.has_own_cause;
            ensure(!is_fair, "requests are refused although the disk has room", || {
                format!("{refused} at {}", now.0)
            })?;
        }
        let shortage = weather.shortage().filter(|_| !self.has_own_cause);
        match (was_full, after.is_full) {
            (false, true) => self.cause = shortage,
            (true, false) => {
                let is_true = self.cause.is_none() || self.cause != shortage;
                ensure(is_true, "the node says that there is room while there is none", || {
                    format!("at {}", now.0)
                })?;
            }
            _ => {}
        }
        if was_full || after.is_full {
            self.full_at = Some(now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weather::{Extent, Spell, SpellCounts, Trouble};
    use weir_io::disk::sim::Room;

    const MS: u64 = 1_000_000;

    /// A cycle: its time in milliseconds, the node's word after it, and the requests refused in it.
    type Cycle = (u64, bool, u64);

    /// Judges cycles, each a millisecond after the one before, in a life whose disk has no room
    /// from 10 ms to 30 ms; returns the rule that was broken.
    fn judge(cycles: &[Cycle], has_own_cause: bool) -> Option<&'static str> {
        let trouble = Trouble::Full(Room::ForOldBytes, Extent::All);
        let spell = Spell { trouble, begins_at: 9, lasts: Nanos(20 * MS) };
        let mut weather = Weather::of(spell);
        let mut watch = FullnessWatch::new(has_own_cause);
        let (mut refused, mut is_full) = (0, false);
        for ms in 1..=3_000 {
            let now = Nanos(ms * MS);
            weather.step(now, &mut SpellCounts::default());
            let cycle = cycles.iter().find(|(at, ..)| *at == ms);
            refused += cycle.map_or(0, |(_, _, refused)| *refused);
            is_full = cycle.map_or(is_full, |(_, is_full, _)| *is_full);
            let broken = watch.judge(FullnessFigures { is_full, refused }, &weather, now).err();
            if let Some(violation) = broken {
                return Some(violation.what);
            }
        }
        None
    }

    #[test]
    fn a_full_log_is_told_once_and_refuses_for_as_long_as_it_is_full() {
        let untold = Some("requests are refused and nobody is told why");
        let late = Some("requests are refused although the disk has room");
        let early = Some("the node says that there is room while there is none");
        let cases: [(&[Cycle], Option<&str>); 7] = [
            (&[(12, true, 0), (13, true, 5), (130, false, 5)], None),
            (&[(12, false, 1)], untold),
            (&[(12, true, 0), (20, false, 0)], early),
            (&[(12, true, 0), (130, false, 0), (131, false, 2)], None),
            (&[(12, true, 0), (130, false, 0), (300, false, 2)], untold),
            (&[(12, true, 0), (2_000, true, 1)], late),
            (&[(4, true, 0), (5, true, 1)], late),
        ];
        for (cycles, broken) in cases {
            assert_eq!(judge(cycles, false), broken, "{cycles:?}");
        }
        assert_eq!(judge(&[(12, true, 0), (20, false, 0), (2_000, true, 1)], true), untold);
    }
}
