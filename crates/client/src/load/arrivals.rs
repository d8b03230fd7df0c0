//! Arrival processes: the due times of orders, drawn beforehand and independent of any answer.
//!
//! Times are nanoseconds from the start of the run and never decrease. One seed gives one schedule.

use std::str::FromStr;

use weir_types::Nanos;

use super::Rng;

const SECOND: f64 = 1e9;

/// The distribution of arrivals in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Independent arrivals, as of many participants.
    #[default]
    Poisson,
    /// Evenly spaced.
    Uniform,
    /// Bursts of this many at once, evenly spaced.
    Bursts(u32),
    /// Poisson at a sequence of rates, each for a time: (orders per second, seconds). The last one
    /// holds until the end.
    Staircase(Vec<(f64, f64)>),
}

impl FromStr for Arrivals {
    type Err = String;

    /// Parses `poisson`, `uniform`, `bursts:SIZE`, `staircase:RATE*SECONDS,RATE*SECONDS,...`, where
    /// the seconds may end in `s`.
    fn from_str(text: &str) -> Result<Arrivals, String> {
        let seconds = |text: &str| text.strip_suffix('s').unwrap_or(text).parse().ok();
        Arrivals::parse_with(text, seconds)
    }
}

impl Arrivals {
    /// Parses as [`Arrivals::from_str`], with the times of a staircase as `seconds` reads them.
    ///
    /// # Errors
    /// The accepted forms.
    pub fn parse_with(
        text: &str,
        seconds: impl Fn(&str) -> Option<f64>,
    ) -> Result<Arrivals, String> {
        let wrong = || {
            format!(
                "arrivals {text:?}: want poisson, uniform, bursts:SIZE or staircase:RATE*TIME,..., \
                 such as staircase:500*4s,2000*250ms"
            )
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match (name, rest) {
            ("poisson", "") => Ok(Arrivals::Poisson),
            ("uniform", "") => Ok(Arrivals::Uniform),
            ("bursts", size) => match size.parse() {
                Ok(size) if size > 0 => Ok(Arrivals::Bursts(size)),
                _ => Err(wrong()),
            },
            ("staircase", steps) => {
                let step = |step: &str| {
                    let (rate, time) = step.split_once('*')?;
                    let (rate, seconds): (f64, f64) = (rate.parse().ok()?, seconds(time)?);
                    (rate > 0.0 && seconds > 0.0).then_some((rate, seconds))
                };
                let steps: Option<Vec<_>> = steps.split(',').map(step).collect();
                Ok(Arrivals::Staircase(steps.ok_or_else(wrong)?))
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arrivals::Poisson => f.write_str("poisson"),
            Arrivals::Uniform => f.write_str("uniform"),
            Arrivals::Bursts(size) => write!(f, "bursts:{size}"),
            Arrivals::Staircase(steps) => {
                let steps: Vec<_> = steps.iter().map(|(r, s)| format!("{r}*{s}s")).collect();
                write!(f, "staircase:{}", steps.join(","))
            }
        }
    }
}

/// The due times of a run, in order.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    rate: f64,
    rng: Rng,
    /// In ns, with the fraction kept, so that rounding errors do not add up over a million gaps.
    next: f64,
    left_in_burst: u32,
}

impl Schedule {
    /// Creates arrivals at `rate` per second on average; a staircase has its own rates.
    ///
    /// # Panics
    /// When the rate is not above zero.
    #[must_use]
    pub fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Schedule {
        assert!(rate > 0.0, "orders must be due at some rate");
        let rng = Rng::new(seed);
        let mut schedule = Schedule { arrivals, rate, rng, next: 0.0, left_in_burst: 0 };
        schedule.advance();
        schedule
    }

    /// The next due time.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a run")]
    pub fn peek(&self) -> Nanos {
        Nanos(self.next as u64)
    }

    /// Advances to the due time after.
    #[inline]
    pub fn advance(&mut self) {
        self.next += match &self.arrivals {
            Arrivals::Poisson => exponential(&mut self.rng, self.rate),
            Arrivals::Uniform => SECOND / self.rate,
            Arrivals::Bursts(size) => {
                if self.left_in_burst > 1 {
                    self.left_in_burst -= 1;
                    0.0
                } else {
                    self.left_in_burst = *size;
                    f64::from(*size) * SECOND / self.rate
                }
            }
            Arrivals::Staircase(steps) => {
                let rate = rate_at(steps, self.next / SECOND);
                exponential(&mut self.rng, rate)
            }
        };
    }
}

fn exponential(rng: &mut Rng, rate: f64) -> f64 {
    -rng.unit().ln() * SECOND / rate
}

fn rate_at(steps: &[(f64, f64)], seconds: f64) -> f64 {
    let mut end = 0.0;
    for (rate, length) in steps {
        end += length;
        if seconds < end {
            return *rate;
        }
    }
    steps.last().expect("a staircase has a step").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_before(arrivals: &str, rate: f64, seconds: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals.parse().unwrap(), rate, 1);
        let mut times = Vec::new();
        while schedule.peek().0 < seconds * 1_000_000_000 {
            times.push(schedule.peek().0);
            schedule.advance();
        }
        times
    }

    #[test]
    fn every_process_keeps_its_rate_and_its_order() {
        let cases = [
            ("poisson", 10_000),
            ("uniform", 10_000),
            ("bursts:50", 10_000),
            ("staircase:500*4,2000*4,4000*1", 14_000),
        ];
        for (arrivals, want) in cases {
            let times =
                due_before(arrivals, 1_000.0, if arrivals.starts_with('s') { 9 } else { 10 });
            let (got, slack) = (times.len(), want / 20);
            assert!(got.abs_diff(want) <= slack, "{arrivals}: {got} of {want}");
            assert!(times.is_sorted(), "{arrivals}");
        }
    }

    #[test]
    fn bursts_come_at_once_and_even_arrivals_evenly() {
        let bursts = due_before("bursts:4", 1_000.0, 1);
        assert_eq!(bursts[0], bursts[3]);
        assert_eq!(bursts[4] - bursts[3], 4_000_000);
        let even = due_before("uniform", 1_000.0, 1);
        assert!(even.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    #[test]
    fn one_seed_gives_one_schedule() {
        assert_eq!(due_before("poisson", 500.0, 2), due_before("poisson", 500.0, 2));
    }

    #[test]
    fn names_read_back_and_nonsense_is_refused() {
        for text in ["poisson", "uniform", "bursts:3", "staircase:1000*2s,5000*0.5s"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!("staircase:5*2".parse::<Arrivals>(), "staircase:5*2s".parse());
        for text in ["", "bursts", "bursts:0", "staircase:", "staircase:1*0", "poisson:3"] {
            assert!(text.parse::<Arrivals>().is_err(), "{text:?}");
        }
    }
}
