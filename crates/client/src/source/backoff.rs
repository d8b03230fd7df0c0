//! Backoff after failures: a circuit breaker whose pauses double, each drawn at random between half
//! of its length and all of it, so that clients that failed together do not return together.

use std::time::Duration;

use weir_types::Nanos;

/// The pause after the first failure, in nanoseconds.
const REST_MIN: u64 = 10_000_000;
/// The longest pause, in nanoseconds.
const REST_MAX: u64 = 5_000_000_000;

/// A circuit breaker.
#[derive(Clone, Debug)]
pub struct Backoff {
    rest: u64,
    until: Option<Nanos>,
    random: u64,
}

impl Backoff {
    /// Creates a breaker without failures; `seed` should differ among those that may fail together.
    #[must_use]
    pub fn new(seed: u64) -> Backoff {
        Backoff { rest: REST_MIN, until: None, random: seed }
    }

    /// Returns a seed from the system, or the process id if there is none.
    #[must_use]
    pub fn seed() -> u64 {
        let mut bytes = [0; 8];
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => u64::from_ne_bytes(bytes),
            _ => u64::from(std::process::id()),
        }
    }

    /// The rest of the pause; `None` when the next try is allowed.
    #[must_use]
    pub fn left(&self, now: Nanos) -> Option<Duration> {
        let until = self.until.filter(|until| *until > now)?;
        Some(Duration::from_nanos(until.since(now).0))
    }

    /// Records a failure: the next try comes after a pause.
    pub fn failed(&mut self, now: Nanos) {
        let jitter = self.next() % (self.rest / 2);
        self.until = Some(Nanos(now.0 + self.rest - jitter));
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// Records a success: the next failure starts with the shortest pause.
    pub fn succeeded(&mut self) {
        self.rest = REST_MIN;
        self.until = None;
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_a_bound_and_no_two_writers_rest_alike() {
        let rests = |seed| {
            let mut backoff = Backoff::new(seed);
            let rests: Vec<u64> = (0..12)
                .map(|_| {
                    backoff.failed(Nanos(7));
                    backoff.left(Nanos(7)).map_or(0, |left| left.as_nanos() as u64)
                })
                .collect();
            backoff.succeeded();
            assert_eq!(backoff.left(Nanos(7)), None);
            backoff.failed(Nanos(7));
            assert!(backoff.left(Nanos(7)) <= Some(Duration::from_nanos(REST_MIN)));
            rests
        };
        let (one, other) = (rests(1), rests(2));
        for (index, rest) in one.iter().enumerate() {
            let most = (REST_MIN << index).min(REST_MAX);
            assert!((most / 2..=most).contains(rest), "{index}: {rest}");
        }
        assert_ne!(one, other);
    }
}
