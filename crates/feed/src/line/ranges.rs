//! A bounded memory of the last ranges that were given up.

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
}
