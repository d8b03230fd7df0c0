//! The measurements of a run: latencies from due and from sent times, the generator's own lag, the
//! stages.
//!
//! All times in nanoseconds. A quantile with fewer than ten samples beyond it is not reported. A
//! run whose generator was late for too many orders has figures but no verdict.

use hdrhistogram::Histogram;
use serde::Serialize;
use weir_types::Nanos;
use weir_wire::report::StageTimes;

/// The longest time resolved; longer ones count as this one.
const TIME_MAX: u64 = 600_000_000_000;

/// The spans between a node's probe points, in order, by their names in the design.
pub const STAGE_NAMES: [&str; 6] = [
    "t0-t1 gateway to partition",
    "t1-t2 to the sequencer",
    "t2-t3 sequenced, committed",
    "t3-t4 wait for the engine",
    "t4-t5 matched",
    "t5-t6 answer leaves",
];

/// A distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// The number of samples.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The minimum.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile; absent if the samples do not support it, as the ones below.
    pub p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p99_9: Option<u64>,
    /// The 99.99th percentile.
    pub p99_99: Option<u64>,
    /// The maximum.
    pub max: u64,
}

impl Quantiles {
    /// Computes the quantiles of a histogram; zeros for an empty one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of samples, for a threshold")]
    pub fn of(histogram: &Histogram<u64>) -> Quantiles {
        let count = histogram.len();
        if count == 0 {
            return Quantiles::default();
        }
        let supported = |quantile: f64| {
            let is_supported = count as f64 * (1.0 - quantile) >= 10.0;
            is_supported.then(|| histogram.value_at_quantile(quantile))
        };
        Quantiles {
            count,
            mean: histogram.mean(),
            min: histogram.min(),
            p50: histogram.value_at_quantile(0.5),
            p90: supported(0.9),
            p99: supported(0.99),
            p99_9: supported(0.999),
            p99_99: supported(0.9999),
            max: histogram.max(),
        }
    }
}

/// Creates a histogram of three significant digits.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_MAX, 3).expect("the bounds are valid")
}

/// The validity of a run's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The generator was punctual.
    Valid,
    /// The generator was late for too many orders: the figures measure it as much as the node.
    GeneratorLate,
    /// Requests were unanswered, or held back because too many were.
    Unanswered,
}

/// The counters and histograms of a run.
#[derive(Debug)]
pub struct Recorder {
    from_due: Histogram<u64>,
    from_sent: Histogram<u64>,
    lag: Histogram<u64>,
    stages: [Histogram<u64>; 6],
    door_to_door: Histogram<u64>,
    outside: Histogram<u64>,
    late_after: Nanos,
    late_count: u64,
    /// Counts over the whole run, warm-up included.
    pub counts: Counts,
}

/// The counts of a run, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests refused by the engine.
    pub rejected: u64,
    /// Requests refused by the gateway.
    pub refused: u64,
    /// Requests due and not sent: too many were unanswered.
    pub held_back: u64,
    /// Reports of trades, of both sides.
    pub trades: u64,
    /// Execution reports in all.
    pub reports: u64,
    /// Requests without an answer at the end.
    pub unanswered: u64,
    /// Answers to requests that had one: executed twice, if the node is wrong.
    pub answered_again: u64,
    /// Lost connections that came back.
    pub reconnects: u64,
}

impl Recorder {
    /// Creates an empty recorder; an order sent more than `late_after` after its due time is late.
    #[must_use]
    pub fn new(late_after: Nanos) -> Recorder {
        Recorder {
            from_due: histogram(),
            from_sent: histogram(),
            lag: histogram(),
            stages: std::array::from_fn(|_| histogram()),
            door_to_door: histogram(),
            outside: histogram(),
            late_after,
            late_count: 0,
            counts: Counts::default(),
        }
    }

    /// The median so far, for a progress line.
    #[must_use]
    pub fn median(&self) -> u64 {
        if self.from_due.is_empty() { 0 } else { self.from_due.value_at_quantile(0.5) }
    }

    /// Records an answer received at `now` for a request due and sent at `times`.
    #[inline]
    pub fn record(&mut self, times: crate::session::Times, now: Nanos) {
        let lag = times.sent.since(times.due);
        self.late_count += u64::from(lag > self.late_after);
        self.lag.saturating_record(lag.0);
        self.from_due.saturating_record(now.since(times.due).0);
        self.from_sent.saturating_record(now.since(times.sent).0);
    }

    /// Records the answer's stage times; `round_trip` is the time from sent to received.
    #[inline]
    pub fn record_stages(&mut self, stages: &StageTimes, round_trip: Nanos) {
        if stages.t0.0 == 0 {
            return;
        }
        let mut before = 0;
        for (stage, after_t0) in self.stages.iter_mut().zip(stages.after_t0) {
            stage.saturating_record(u64::from(after_t0.saturating_sub(before)));
            before = after_t0;
        }
        self.door_to_door.saturating_record(u64::from(before));
        self.outside.saturating_record(round_trip.0.saturating_sub(u64::from(before)));
    }

    /// Returns the report of a run that measured for `duration`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a run, for shares and rates")]
    pub fn report(&self, duration: Nanos, late_share_max: f64) -> LoadReport {
        let measured = self.from_due.len();
        let late_share = if measured == 0 { 0.0 } else { self.late_count as f64 / measured as f64 };
        let verdict = if self.counts.unanswered > 0 || self.counts.held_back > 0 || measured == 0 {
            Verdict::Unanswered
        } else if late_share > late_share_max {
            Verdict::GeneratorLate
        } else {
            Verdict::Valid
        };
        let named = STAGE_NAMES.iter().zip(&self.stages);
        LoadReport {
            verdict,
            rate_measured: measured as f64 / (duration.0.max(1) as f64 / 1e9),
            late_share,
            late_after_ns: self.late_after.0,
            latency: Quantiles::of(&self.from_due),
            latency_from_sent: Quantiles::of(&self.from_sent),
            generator_lag: Quantiles::of(&self.lag),
            stages: named
                .map(|(name, histogram)| Stage { name, span: Quantiles::of(histogram) })
                .collect(),
            t0_to_t6: Quantiles::of(&self.door_to_door),
            outside: Quantiles::of(&self.outside),
            counts: self.counts,
        }
    }
}

/// One span of the node's own time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Its two points.
    pub name: &'static str,
    /// Its duration.
    pub span: Quantiles,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadReport {
    /// The validity of the figures.
    pub verdict: Verdict,
    /// Answers per second of the measured time.
    pub rate_measured: f64,
    /// The share of orders that the generator sent late.
    pub late_share: f64,
    /// The lateness from which an order counts as late.
    pub late_after_ns: u64,
    /// The time from an order's due time until its answer was read: the latency.
    pub latency: Quantiles,
    /// The time from sending until the answer was read: flatters a late generator.
    pub latency_from_sent: Quantiles,
    /// The time from due to sent: the generator's own lag.
    pub generator_lag: Quantiles,
    /// The node's stages, from its reports.
    #[serde(rename = "segments")]
    pub stages: Vec<Stage>,
    /// The sum of the stages.
    pub t0_to_t6: Quantiles,
    /// The time from sent to received less the stages: sockets, gateway, client.
    pub outside: Quantiles,
    /// The counts.
    pub counts: Counts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Times;

    #[test]
    fn latency_counts_from_when_an_order_was_due() {
        let mut recorder = Recorder::new(Nanos(100));
        for i in 0..100 {
            // One in four is sent 1,000 ns late and answered 50 ns after that.
            let lag = if i % 4 == 0 { 1_000 } else { 0 };
            let times = Times { due: Nanos(i), sent: Nanos(i + lag) };
            recorder.record(times, Nanos(i + lag + 50));
        }
        let report = recorder.report(Nanos(1_000_000_000), 0.2);
        assert_eq!(report.latency.max, 1_050);
        assert_eq!((report.latency.p50, report.latency_from_sent.max), (50, 50));
        assert_eq!(report.late_share, 0.25);
        assert_eq!(report.verdict, Verdict::GeneratorLate);
        assert_eq!(recorder.report(Nanos(1), 0.25).verdict, Verdict::Valid);
        assert_eq!(report.rate_measured, 100.0);
    }

    #[test]
    fn stages_are_told_as_spans_that_add_up() {
        let mut recorder = Recorder::new(Nanos(1));
        let stages = StageTimes { t0: Nanos(5), after_t0: [10, 30, 60, 100, 150, 210] };
        recorder.record_stages(&stages, Nanos(300));
        recorder.record_stages(&StageTimes::default(), Nanos(300));
        let report = recorder.report(Nanos(1), 1.0);
        let spans: Vec<u64> = report.stages.iter().map(|stage| stage.span.max).collect();
        assert_eq!(spans, [10, 20, 30, 40, 50, 60]);
        assert_eq!((report.t0_to_t6.max, report.outside.max), (210, 90));
        assert_eq!(report.t0_to_t6.count, 1, "a report sent again has no times");
    }

    #[test]
    fn quantiles_beyond_the_samples_are_not_told_and_unanswered_gives_no_verdict() {
        let mut recorder = Recorder::new(Nanos(1));
        for _ in 0..1_000 {
            recorder.record(Times::default(), Nanos(7));
        }
        recorder.counts.unanswered = 1;
        let report = recorder.report(Nanos(1), 1.0);
        assert_eq!((report.latency.p99, report.latency.p99_9), (Some(7), None));
        assert_eq!(report.verdict, Verdict::Unanswered);
    }
}
