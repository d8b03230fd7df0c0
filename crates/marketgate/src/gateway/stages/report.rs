//! The measurements of a gateway's stages: for the status page, `weir market top` and Prometheus.

use serde::{Deserialize, Serialize};
use weir_probe::histogram::HistogramReader;
use weir_probe::{Snapshot, prometheus};

/// The measurements of the update stage.
#[derive(Clone, Debug)]
pub struct UpdateReaders {
    pub(super) update: HistogramReader,
    pub(super) queue: HistogramReader,
    pub(super) held: HistogramReader,
}

/// The measurements of a flush thread.
#[derive(Clone, Debug)]
pub struct FlushReaders {
    pub(super) flush: HistogramReader,
    pub(super) socket: HistogramReader,
    pub(super) inside: HistogramReader,
    pub(super) total: HistogramReader,
}

/// The measurements of all threads of a gateway.
#[derive(Debug)]
pub struct StageReaders {
    /// True if datagrams have the kernel's time stamp.
    pub has_kernel_time: bool,
    /// The receiving thread.
    pub receive: HistogramReader,
    /// The update stage.
    pub update: UpdateReaders,
    /// The flush threads.
    pub flush: Vec<FlushReaders>,
}

/// The durations of stages since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StagesReport {
    /// True if datagrams have the kernel's time stamp; otherwise stages that begin with it are
    /// absent.
    pub has_kernel_time: bool,
    /// The stages in order, then `inside` and `total`.
    pub stages: Vec<StageReport>,
}

/// The duration of one stage in nanoseconds, over the timed messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// The stage's name.
    pub stage: String,
    /// The number of timed messages.
    pub count: u64,
    /// The median; this and the following are `None` if none was timed.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// The maximum.
    pub max_ns: Option<u64>,
    #[serde(skip)]
    snapshot: Snapshot,
}

impl StageReport {
    fn of(stage: &str, snapshot: Snapshot) -> StageReport {
        let at = |quantile| (!snapshot.is_empty()).then(|| snapshot.quantile_ns(quantile));
        StageReport {
            stage: stage.to_owned(),
            count: snapshot.count(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
            snapshot,
        }
    }
}

impl StageReaders {
    /// The report for the status page.
    #[must_use]
    pub fn report(&self) -> StagesReport {
        let of_flush = |reader: fn(&FlushReaders) -> &HistogramReader| {
            let mut sum = Snapshot::default();
            self.flush.iter().for_each(|one| sum.merge(&reader(one).snapshot()));
            sum
        };
        let mut stages = vec![
            StageReport::of("update", self.update.update.snapshot()),
            StageReport::of("queue", self.update.queue.snapshot()),
            StageReport::of("held", self.update.held.snapshot()),
            StageReport::of("flush", of_flush(|one| &one.flush)),
            StageReport::of("socket", of_flush(|one| &one.socket)),
            StageReport::of("inside", of_flush(|one| &one.inside)),
        ];
        if self.has_kernel_time {
            stages.insert(0, StageReport::of("receive", self.receive.snapshot()));
            stages.push(StageReport::of("total", of_flush(|one| &one.total)));
        }
        StagesReport { has_kernel_time: self.has_kernel_time, stages }
    }
}

impl StagesReport {
    /// Appends a Prometheus histogram of each stage.
    pub fn put_metrics(&self, text: &mut String) {
        let rows = self.stages.iter().map(|one| (("stage", one.stage.as_str()), &one.snapshot));
        let help = "Time of a message in a stage of the gateway, of those that were timed.";
        prometheus::put_histograms(text, "weir_market_stage_seconds", help, rows);
    }
}
