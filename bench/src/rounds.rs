//! Wall and processor time of a piece of work, and statistics of rounds.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Seconds of the wall clock and of this thread's processor time, and the work done in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) count: f64,
}

impl Spent {
    /// Returns the work per second of the wall clock and of the processor.
    pub(crate) fn rates(self) -> [f64; 2] {
        [self.count / self.wall, self.count / self.cpu]
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub(crate) fn spent(work: impl FnOnce() -> u64) -> Spent {
    let (start, ran) = (Instant::now(), cpu_seconds());
    let count = work() as f64;
    Spent { wall: start.elapsed().as_secs_f64(), cpu: cpu_seconds() - ran, count }
}

/// The values of some rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns the median; zero without values.
    pub(crate) fn median(&self) -> f64 {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }

    /// Returns the median, the lowest and the highest value, as JSON.
    pub(crate) fn json(&self, digits: usize) -> String {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        match (values.first(), values.last()) {
            (Some(low), Some(high)) => {
                let median = values[values.len() / 2];
                let spread = format!("\"low\":{low:.digits$},\"high\":{high:.digits$}");
                format!("{{\"median\":{median:.digits$},{spread}}}")
            }
            _ => "null".to_owned(),
        }
    }
}
