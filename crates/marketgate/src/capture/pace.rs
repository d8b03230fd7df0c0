//! The pace at which a capture is replayed: its own, a multiple of it, or as fast as possible.

use std::time::Duration;

use weir_types::Nanos;

/// The replay speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A multiple of the recorded speed.
    Times(f64),
    /// As fast as possible.
    Max,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
        times
            .map(Speed::Times)
            .ok_or_else(|| format!("`{text}` is neither a number above 0 nor max"))
    }
}

/// Computes the time at which each datagram of a capture is due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    speed: Speed,
    first: Option<Nanos>,
}

impl Pace {
    /// Creates a pace of this speed; it starts with the first call of [`Pace::due`].
    #[must_use]
    pub fn new(speed: Speed) -> Pace {
        Pace { speed, first: None }
    }

    /// Returns the time from the first datagram to the one that arrived at `ts_recv`; `None` if it
    /// is due immediately.
    pub fn due(&mut self, ts_recv: Nanos) -> Option<Duration> {
        let since = ts_recv.since(*self.first.get_or_insert(ts_recv));
        match self.speed {
            Speed::Times(times) => Some(Duration::from_nanos((since.0 as f64 / times) as u64)),
            Speed::Max => None,
        }
    }
}
