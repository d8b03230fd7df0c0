//! Bounded memories of the last ranges that were given up, and of the last sessions.

/// The number of ranges remembered.
const RANGES_MAX: usize = 16;

/// The last ranges that were given up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenUpRanges {
    ranges: [(u64, u64); RANGES_MAX],
    next: usize,
}

impl GivenUpRanges {
    pub(super) fn push(&mut self, from: u64, to: u64) {
        self.ranges[self.next] = (from, to);
        self.next = (self.next + 1) % RANGES_MAX;
    }

    pub(super) fn clear(&mut self) {
        *self = GivenUpRanges::default();
    }

    /// Returns how many of the numbers `from..to` are in a range.
    pub(super) fn count_in(&self, from: u64, to: u64) -> u64 {
        let inside = |range: &(u64, u64)| range.1.min(to).saturating_sub(range.0.max(from));
        self.ranges.iter().map(inside).sum::<u64>().min(to.saturating_sub(from))
    }
}

/// The number of sessions remembered.
const SESSIONS_MAX: usize = 4;

/// The last past sessions, each with the number it reached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PastSessions {
    sessions: [Option<(u64, u64)>; SESSIONS_MAX],
    next: usize,
}

impl PastSessions {
    pub(super) fn push(&mut self, session: u64, reached: u64) {
        self.sessions[self.next] = Some((session, reached));
        self.next = (self.next + 1) % SESSIONS_MAX;
    }

    /// Returns the number that a past session reached, for reading and updating.
    pub(super) fn reached(&mut self, session: u64) -> Option<&mut u64> {
        self.sessions.iter_mut().flatten().find(|past| past.0 == session).map(|past| &mut past.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_counted_once_however_often_it_was() {
        let mut given_up = GivenUpRanges::default();
        given_up.push(10, 20);
        given_up.push(15, 30);
        for (from, to, want) in [(0, 10, 0), (0, 12, 2), (16, 18, 2), (25, 40, 5), (30, 31, 0)] {
            assert_eq!(given_up.count_in(from, to), want, "{from}..{to}");
        }
        given_up.clear();
        assert_eq!(given_up.count_in(0, 100), 0);
    }

    #[test]
    fn the_oldest_session_is_forgotten_first() {
        let mut past = PastSessions::default();
        (1..=5).for_each(|session| past.push(session, session * 10));
        assert_eq!(past.reached(1), None);
        assert_eq!(past.reached(2), Some(&mut 20));
        assert_eq!(past.reached(5), Some(&mut 50));
    }
}
