//! What the probes of a gateway's stages come to: for the status page, `weir market top` and
//! Prometheus.

use serde::{Deserialize, Serialize};
use weir_probe::histogram::HistogramReader;
use weir_probe::{Snapshot, prometheus};

/// What the update stage measured.
#[derive(Clone, Debug)]
pub struct UpdateReaders {
    pub(super) update: HistogramReader,
    pub(super) queue: HistogramReader,
    pub(super) held: HistogramReader,
}

/// What a flush thread measured.
#[derive(Clone, Debug)]
pub struct FlushReaders {
    pub(super) flush: HistogramReader,
    pub(super) socket: HistogramReader,
    pub(super) inside: HistogramReader,
    pub(super) total: HistogramReader,
}

/// What all threads of a gateway measured.
#[derive(Debug)]
pub struct StageReaders {
    /// Whether datagrams have the kernel's time.
    pub has_kernel_time: bool,
    /// Of the receiving thread.
    pub receive: HistogramReader,
    /// Of the update stage.
    pub update: UpdateReaders,
    /// Of the flush threads.
    pub flush: Vec<FlushReaders>,
}

/// How long the stages took, since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StagesReport {
    /// Whether datagrams have the kernel's time; what begins with it is absent where they do not.
    pub has_kernel_time: bool,
    /// The stages in their order, then `inside` and `total`.
    pub stages: Vec<StageReport>,
}

/// How long one took: of those that were timed, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub stage: String,
    /// How many were timed.
    pub count: u64,
    /// Half took no longer; `None`, as the others, where none was timed.
    pub p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub p99_ns: Option<u64>,
    /// 999 of 1,000 took no longer.
    pub p999_ns: Option<u64>,
    /// The longest.
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
    /// For the status page.
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
    /// Appends a histogram of each stage, for Prometheus.
    pub fn put_metrics(&self, text: &mut String) {
        let rows = self.stages.iter().map(|one| (("stage", one.stage.as_str()), &one.snapshot));
        let help = "Time of a message in a stage of the gateway, of those that were timed.";
        prometheus::put_histograms(text, ("weir_market_stage_seconds", help), rows);
    }
}
