//! A limit on diagnostic lines that outsiders can cause at will: refused logons, broken streams.

use weir_types::Nanos;

/// Lines of one kind per second.
const LINES_PER_SECOND: u32 = 20;
const SECOND: u64 = 1_000_000_000;

/// Permits [`LINES_PER_SECOND`] lines of one kind per second and counts the suppressed ones.
#[derive(Debug, Default)]
pub struct LineLimit {
    second: u64,
    count: u32,
    suppressed: u64,
}

impl LineLimit {
    /// Returns the number of lines suppressed since the last permitted one; `None` when this line
    /// must be suppressed too.
    pub fn permit(&mut self, now: Nanos) -> Option<u64> {
        let second = now.0 / SECOND;
        if second != self.second {
            self.second = second;
            self.count = 0;
        }
        if self.count == LINES_PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_suppressed_and_counted_in_the_next_one() {
        let mut limit = LineLimit::default();
        let now = Nanos(5 * SECOND);
        let written = (0..LINES_PER_SECOND + 7).filter_map(|_| limit.permit(now)).count();
        assert_eq!(written, LINES_PER_SECOND as usize);
        assert_eq!(limit.permit(Nanos(6 * SECOND)), Some(7));
        assert_eq!(limit.permit(Nanos(6 * SECOND)), Some(0));
    }
}
