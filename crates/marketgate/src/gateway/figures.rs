//! A market-data gateway's counters, for the status page, Prometheus and `weir market top`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weir_door::{DoorFigures, DoorReport};
use weir_probe::histogram::{Histogram, HistogramReader};
use weir_runtime::figures::{Kind, MetricsPage, total};
use weir_types::SessionId;

use super::shm::{ShmFigures, ShmReport};
use super::stages::{StageReaders, StagesReport};
use crate::plant::{self, Plant};
use crate::post::{PostFigures, PostWatch};
use crate::receiver::Receiver;

/// The receiving thread's counters.
#[derive(Debug, Default)]
pub struct ReceiveFigures {
    report: Mutex<ReceiveReport>,
}

weir_runtime::figures! {
    /// Counters of received data.
    #[derive(Deserialize)]
    #[serde(default)]
    pub struct ReceiveReport {
        /// Datagrams taken from sockets.
        counter datagrams,
        /// Datagrams dropped by the kernel for lack of buffer space.
        counter dropped,
        /// Datagrams dropped because the ring to the updating thread was full.
        counter ring_dropped,
        /// Datagrams that are not of the feed.
        counter strangers,
        /// Messages decoded.
        counter messages,
        /// Updates decoded from the messages.
        counter updates as "decoded_updates_total",
        /// Messages decoded to no update.
        counter without_update as "passed_over_total",
        /// Messages that could not be decoded.
        counter refused as "not_understood_total",
        /// Requests for lost messages.
        counter requests,
        /// Snapshots begun.
        counter snapshots,
        /// True when a file is at its end.
        flag is_over as "at_end",
        /// True when a file could not be read to its end, or is not of the feed.
        flag is_failed as "file_failed",
    } and {
        /// The reason a file was not read to its end, or is not of the feed.
        pub file_problem: Option<String>,
        /// The last decoding error.
        pub last_error: Option<String>,
        /// The channels.
        pub channels: Vec<ChannelReport>,
    }
}

weir_runtime::figures! {
    /// The state of a channel.
    #[derive(Deserialize)]
    pub struct ChannelReport {
        /// True while nothing arrives on the channel.
        flag is_silent as "silent",
        /// The sequence number of the next message.
        gauge next,
        /// Messages given up.
        counter lost,
        /// Messages delivered.
        counter handed_on,
        /// Messages that came again: on the other line, or repeated.
        counter repeated,
        /// Times that numbers began anew within a session.
        counter restarts,
        /// Packets of a session that is over, or sent before a restart.
        counter old_packets,
        /// Packets that contradict the numbers, times or contents of those before them.
        counter contradictions,
    } and {
        /// The pair of lines.
        pub pair: u32,
        /// Its number among the channels of the pair.
        pub number: u32,
        /// The channel's state.
        pub state: String,
    }
}

impl ReceiveFigures {
    pub(super) fn show(&self, receiver: &Receiver) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let decode = receiver.decode_counts();
        report.datagrams = 0;
        report.dropped = 0;
        report.strangers = 0;
        for (_, socket) in receiver.sockets() {
            report.datagrams += socket.counts.received.datagrams;
            report.dropped += socket.counts.received.kernel_drops.unwrap_or(0);
            report.strangers += socket.counts.strangers;
        }
        report.ring_dropped = receiver.dropped();
        report.messages = decode.messages;
        report.updates = decode.updates;
        report.without_update = decode.without_update;
        report.refused = decode.refused();
        report.last_error = receiver.last_error().map(|error| error.to_string());
        report.requests = receiver.request_counts().sent;
        report.snapshots = total(receiver.snapshots().map(|(_, counts)| counts.attempts));
        report.is_over = receiver.is_over();
        report.is_failed = receiver.file_problem().is_some();
        report.file_problem = receiver.file_problem().map(ToString::to_string);
        report.channels.clear();
        report.channels.extend(receiver.channels().map(|channel| ChannelReport {
            pair: channel.key.pair,
            number: channel.key.number,
            state: format!("{:?}", channel.state),
            is_silent: channel.is_silent,
            next: channel.next,
            lost: channel.counts.lost,
            handed_on: channel.counts.delivered,
            repeated: channel.counts.repeated(),
            restarts: channel.counts.restarts,
            old_packets: channel.counts.old_session_packets,
            contradictions: channel.counts.contradictions,
        }));
    }
}

/// The update stage's counters.
#[derive(Debug, Default)]
pub struct UpdateFigures {
    report: Mutex<UpdateReport>,
}

weir_runtime::figures! {
    /// Counters of changes before fan-out.
    #[derive(Deserialize)]
    pub struct UpdateReport {
        /// Updates applied.
        counter updates,
        /// Resting orders.
        gauge orders,
        /// Contradictions in the feed's data.
        counter anomalies,
        /// Changes without interest.
        counter unwanted,
        /// Changes queued in the priority queue at once.
        counter queued,
        /// Changes that waited in the throttle queue.
        counter waited as "throttled_total",
        /// Changes merged into waiting ones.
        counter merged,
        /// Trades and orders lost and reported as gaps.
        counter lost as "gaps_total",
        /// States in the throttle queue now.
        gauge waiting as "throttle_queue",
        /// Entries in the priority queue now.
        gauge queue_len as "priority_queue",
        /// Slots sent to the flush threads.
        counter told as "slots_total",
        /// Times that the ring to the flush threads was full.
        counter ring_full,
    }
}

impl UpdateFigures {
    pub(super) fn show(&self, report: UpdateReport) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }
}

weir_runtime::figures! {
    /// The counters of subscriptions and their messages.
    #[derive(Copy, PartialEq, Eq, Deserialize)]
    #[serde(default)]
    pub struct FlushCounts in FlushCounters {
        /// Subscribers that did not keep up, under a policy that disconnects them.
        counter disconnected as "slow_total",
        /// Subscriptions begun.
        counter subscribed,
        /// Requests refused.
        counter refused as "requests_refused_total",
        /// Subscriptions refused or ended for want of slots.
        counter slots_refused,
        /// Slots of all subscriptions: instruments, summed up over subscriptions.
        gauge slots as "subscribed_slots",
        /// Steps of subscribing and leaving.
        counter steps as "subscribing_steps_total",
        /// Messages written.
        counter messages as "told_total",
    }
}

/// A flush thread's counters.
#[derive(Debug, Default)]
pub struct FlushFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// The counters of subscriptions.
    pub counters: FlushCounters,
    shown: Mutex<Vec<SubscriberReport>>,
    times: Mutex<Option<TimeReaders>>,
}

/// Durations on a flush thread, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct FlushTimes {
    /// The time from the update stage to the flush thread.
    pub handed: Histogram,
    /// The time from the receipt of a change to the writing of its message: the message's age.
    pub age: Histogram,
}

#[derive(Debug)]
struct TimeReaders {
    handed: HistogramReader,
    age: HistogramReader,
}

/// The state of a subscriber.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubscriberReport {
    /// Its session.
    pub session_id: SessionNumber,
    /// True if it reads over a WebSocket.
    #[serde(default)]
    pub is_web: bool,
    /// The connections of its session at the flush thread.
    #[serde(default)]
    pub connections: u32,
    /// The slots of its session: instruments, summed up over subscriptions.
    #[serde(default)]
    pub slots: u64,
    /// The most slots that its session may have.
    #[serde(default)]
    pub slots_max: u64,
    /// The steps of subscribing and leaving that its session has still to take, about.
    #[serde(default)]
    pub steps_left: u64,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages written to it.
    pub messages: u64,
    /// The age of the last one when it was written, in nanoseconds.
    pub last_age_ns: u64,
    /// Messages ready to be sent.
    pub queue_len: usize,
    /// States waiting for their interval.
    pub waiting: usize,
    /// Changes merged into others.
    pub merged: u64,
    /// Messages reported to it as lost.
    pub lost: u64,
}

/// A session's number in reports.
pub type SessionNumber = u32;

/// A flush thread's report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlushReport {
    /// The counters of the listener.
    #[serde(flatten)]
    pub door: DoorReport,
    /// The counters of subscriptions.
    #[serde(flatten)]
    pub counts: FlushCounts,
    /// The time from the update stage to this thread: p50, p99, p99.9, in nanoseconds.
    pub handed_ns: [u64; 3],
    /// The time from receipt to writing: p50, p99, p99.9, in nanoseconds.
    pub age_ns: [u64; 3],
    /// The subscribers.
    pub subscribers: Vec<SubscriberReport>,
}

impl FlushFigures {
    /// Creates the counters, and the histograms that belong to them.
    pub(super) fn with_times() -> (Arc<FlushFigures>, FlushTimes) {
        let times = FlushTimes::default();
        let readers = TimeReaders { handed: times.handed.reader(), age: times.age.reader() };
        let figures = FlushFigures { times: Mutex::new(Some(readers)), ..FlushFigures::default() };
        (Arc::new(figures), times)
    }

    pub(super) fn show(&self, subscribers: impl Iterator<Item = SubscriberReport>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clear();
        shown.extend(subscribers);
    }

    fn report(&self) -> FlushReport {
        let subscribers = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let quantiles = |reader: &HistogramReader| {
            let snapshot = reader.snapshot();
            [0.5, 0.99, 0.999].map(|quantile| snapshot.quantile_ns(quantile))
        };
        let (handed_ns, age_ns) = times.as_ref().map_or(([0; 3], [0; 3]), |readers| {
            (quantiles(&readers.handed), quantiles(&readers.age))
        });
        FlushReport {
            door: self.door.report(),
            counts: self.counters.report(),
            handed_ns,
            age_ns,
            subscribers,
        }
    }
}

/// All figures of a gateway.
#[derive(Debug)]
pub struct MarketFigures {
    /// The listening address of each flush thread.
    pub addresses: Vec<SocketAddr>,
    /// The receiving thread.
    pub receive: Arc<ReceiveFigures>,
    /// The update stage.
    pub update: Arc<UpdateFigures>,
    /// The flush threads.
    pub flush: Vec<Arc<FlushFigures>>,
    /// Post-processing, if configured.
    pub post: Option<PostWatch>,
    /// Latency by stage.
    pub stages: StageReaders,
    /// The ring in shared memory, if configured.
    pub shm: Option<Arc<ShmFigures>>,
}

/// A gateway on the status page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MarketReport {
    /// The listening address of each flush thread.
    pub addresses: Vec<String>,
    /// The receiving thread.
    pub receive: ReceiveReport,
    /// The update stage.
    pub update: UpdateReport,
    /// The flush threads.
    pub flush: Vec<FlushReport>,
    /// Post-processing; absent if not configured.
    pub post: Option<PostReport>,
    /// Latency by stage.
    #[serde(default)]
    pub stages: StagesReport,
    /// The ring in shared memory; absent if not configured.
    pub shm: Option<ShmReport>,
}

weir_runtime::figures! {
    /// The state of post-processing.
    #[derive(Deserialize)]
    #[serde(default)]
    pub struct PostReport {
        /// Datagrams written to the audit.
        counter audited,
        /// Datagrams dropped for lack of room in the queue.
        counter audit_dropped,
        /// Datagrams in the queue.
        gauge audit_waiting,
        /// The audit's backlog.
        gauge audit_behind_ns in nanoseconds,
        /// The size of the audit's files.
        gauge audit_bytes in bytes,
        /// Write failures of the audit.
        counter audit_failures,
        /// Events sent to bars and statistics: trades, quotes and others.
        counter trades as "bar_trades_total",
        /// Events dropped for lack of room in the ring.
        counter trades_dropped as "bar_dropped_total",
        /// Events in the ring.
        gauge trades_waiting as "bar_waiting",
        /// The backlog of events, by the venue's clock.
        gauge trades_behind_ns in nanoseconds as "bar_behind_ns",
        /// Bars built.
        counter bars,
        /// Bars and corrections that could not be written.
        counter bars_lost,
        /// Intervals of statistics built.
        counter intervals,
        /// Intervals that could not be written.
        counter intervals_lost,
    }
}

impl PostReport {
    fn of(figures: &PostFigures) -> PostReport {
        PostReport {
            audited: figures.audit.datagrams,
            audit_dropped: figures.queue.dropped,
            audit_waiting: figures.queue.waiting,
            audit_behind_ns: figures.queue.behind.0,
            audit_bytes: figures.audit.kept_bytes,
            audit_failures: figures.audit.failures,
            trades: figures.events.taken,
            trades_dropped: figures.events.dropped,
            trades_waiting: figures.events.waiting,
            trades_behind_ns: figures.events.behind.0,
            bars: figures.bars.bars.bars,
            bars_lost: figures.bars.bar_files.lost + figures.bars.correction_files.lost,
            intervals: figures.statistics.intervals.told,
            intervals_lost: figures.statistics.files.lost,
        }
    }
}

impl MarketFigures {
    /// The report for the status page.
    #[must_use]
    pub fn report(&self) -> MarketReport {
        MarketReport {
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            receive: self.receive.report.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            update: self.update.report.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            flush: self.flush.iter().map(|flush| flush.report()).collect(),
            post: self.post.as_ref().map(|watch| PostReport::of(&watch.figures())),
            stages: self.stages.report(),
            shm: self.shm.as_ref().map(|figures| figures.report()),
        }
    }
}

impl MarketReport {
    /// Writes the report's metrics.
    pub fn put_metrics(&self, page: &mut MetricsPage) {
        let flush = || self.flush.iter();
        let door = flush().fold(DoorReport::default(), |sum, flush| sum.plus(&flush.door));
        let counts = flush().fold(FlushCounts::default(), |sum, flush| sum.plus(&flush.counts));
        let channels = || self.receive.channels.iter();
        let label = |c: &ChannelReport| format!("pair=\"{}\",channel=\"{}\"", c.pair, c.number);
        let rows: Vec<_> = channels().map(|channel| (label(channel), channel)).collect();
        let web = flush().flat_map(|flush| &flush.subscribers).filter(|one| one.is_web).count();
        page.put("weir_market", &door);
        page.put("weir_market", &self.receive);
        page.put_rows("weir_market_channel", &rows);
        let lost = lost_by_all(channels().map(|channel| channel.lost));
        let row = |value: u64| [(String::new(), value)];
        let name = "weir_market_lost_total";
        page.put_derived(name, Kind::Counter, "Messages given up, on all channels.", &row(lost));
        page.put("weir_market", &self.update);
        page.put("weir_market", &counts);
        let name = "weir_market_websockets";
        page.put_derived(name, Kind::Gauge, "Subscribers over a WebSocket.", &row(web as u64));
        page.put("weir_market_shm", &self.shm.clone().unwrap_or_default().counts);
        page.put("weir_market", &self.post.clone().unwrap_or_default());
        let mut stages = String::new();
        self.stages.put_metrics(&mut stages);
        page.append(&stages);
    }
}

/// Returns the sum of the messages that channels have given up, or the greatest number if it is
/// larger: the numbers are of strangers and may be anything.
pub(super) fn lost_by_all(channels: impl Iterator<Item = u64>) -> u64 {
    if plant::is(Plant::LostSumUnbounded) {
        return channels.sum();
    }
    total(channels)
}

/// A session's number in reports.
pub(super) const fn number_of(session_id: SessionId) -> SessionNumber {
    session_id.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metrics_page_of_channels_that_lost_all_there_is_has_the_greatest_number() {
        let lost_all = || ChannelReport { lost: u64::MAX, ..ChannelReport::default() };
        let channels = vec![lost_all(), lost_all()];
        let report = MarketReport {
            addresses: Vec::new(),
            receive: ReceiveReport { channels, ..ReceiveReport::default() },
            update: UpdateReport::default(),
            flush: Vec::new(),
            post: None,
            stages: StagesReport::default(),
            shm: None,
        };
        let mut page = MetricsPage::default();
        report.put_metrics(&mut page);
        let page = page.into_text();
        assert!(page.contains(&format!("\nweir_market_lost_total {}\n", u64::MAX)), "{page}");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_an_unbounded_sum_is_found_on_the_metrics_page() {
        plant::set(Some(Plant::LostSumUnbounded));
        let test = a_metrics_page_of_channels_that_lost_all_there_is_has_the_greatest_number;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }
}
