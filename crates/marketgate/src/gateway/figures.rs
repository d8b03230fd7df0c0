//! A market-data gateway's counters, for the status page, Prometheus and `weir market top`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weir_door::{DoorFigures, DoorReport};
use weir_probe::histogram::{Histogram, HistogramReader};
use weir_runtime::Metric;
use weir_types::SessionId;

use super::shm::{ShmFigures, ShmReport};
use super::stages::{StageReaders, StagesReport};
use super::update::UpdateStage;
use crate::post::{PostFigures, PostWatch};
use crate::receiver::Receiver;

/// The receiving thread's counters.
#[derive(Debug, Default)]
pub struct ReceiveFigures {
    report: Mutex<ReceiveReport>,
}

/// Counters of received data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReceiveReport {
    /// Datagrams taken from sockets.
    pub datagrams: u64,
    /// Datagrams dropped by the kernel for lack of buffer space.
    pub dropped: u64,
    /// Datagrams dropped because the ring to the updating thread was full.
    #[serde(default)]
    pub ring_dropped: u64,
    /// Datagrams that are not of the feed.
    pub strangers: u64,
    /// Messages decoded.
    pub messages: u64,
    /// Updates decoded from the messages.
    pub updates: u64,
    /// Messages decoded to no update.
    #[serde(default)]
    pub without_update: u64,
    /// Messages that could not be decoded.
    pub refused: u64,
    /// The last decoding error.
    pub last_error: Option<String>,
    /// Requests for lost messages.
    pub requests: u64,
    /// Snapshots begun.
    pub snapshots: u64,
    /// True when a file is at its end.
    pub is_over: bool,
    /// The channels.
    pub channels: Vec<ChannelReport>,
}

/// The state of a channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChannelReport {
    /// The pair of lines.
    pub pair: u32,
    /// Its number among the channels of the pair.
    pub number: u32,
    /// The channel's state.
    pub state: String,
    /// True while nothing arrives on it.
    pub is_silent: bool,
    /// The sequence number of the next message.
    pub next: u64,
    /// Messages given up.
    pub lost: u64,
    /// Messages delivered.
    pub handed_on: u64,
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
        report.snapshots = receiver.snapshots().map(|(_, counts)| counts.attempts).sum();
        report.is_over = receiver.is_over();
        report.channels.clear();
        report.channels.extend(receiver.channels().map(|channel| ChannelReport {
            pair: channel.key.pair,
            number: channel.key.number,
            state: format!("{:?}", channel.state),
            is_silent: channel.is_silent,
            next: channel.next,
            lost: channel.counts.lost,
            handed_on: channel.counts.delivered,
        }));
    }
}

/// The update stage's counters.
#[derive(Debug, Default)]
pub struct UpdateFigures {
    report: Mutex<UpdateReport>,
}

/// Counters of changes before fan-out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UpdateReport {
    /// Updates applied.
    pub updates: u64,
    /// Resting orders.
    pub orders: u64,
    /// Contradictions in the feed's data.
    pub anomalies: u64,
    /// Changes without interest.
    pub unwanted: u64,
    /// Changes queued in the priority queue at once.
    pub queued: u64,
    /// Changes that waited in the throttle queue.
    pub waited: u64,
    /// Changes merged into waiting ones.
    pub merged: u64,
    /// Trades and orders lost and reported as gaps.
    pub lost: u64,
    /// States in the throttle queue now.
    pub waiting: u64,
    /// Entries in the priority queue now.
    pub queue_len: u64,
    /// Slots sent to the flush threads.
    pub told: u64,
    /// Times that the ring to the flush threads was full.
    pub ring_full: u64,
}

impl UpdateFigures {
    pub(super) fn show(&self, stage: &UpdateStage) {
        let (counts, conflated) = (stage.counts(), stage.conflated());
        let (waiting, queue_len) = stage.queue_lens();
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = UpdateReport {
            updates: counts.updates,
            orders: u64::from(stage.books().order_count()),
            anomalies: stage.books().anomalies().total(),
            unwanted: conflated.unwanted,
            queued: conflated.queued,
            waited: conflated.waiting,
            merged: conflated.merged,
            lost: conflated.lost,
            waiting: waiting as u64,
            queue_len: queue_len as u64,
            told: counts.told,
            ring_full: counts.full,
        };
    }
}

/// A flush thread's counters.
#[derive(Debug, Default)]
pub struct FlushFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// Subscribers that did not keep up, under a policy that disconnects them.
    pub disconnected: AtomicU64,
    /// Subscriptions begun.
    pub subscribed: AtomicU64,
    /// Requests refused.
    pub refused: AtomicU64,
    /// Messages written.
    pub messages: AtomicU64,
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
    /// Subscribers that did not keep up, under a policy that disconnects them.
    pub disconnected: u64,
    /// Subscriptions begun.
    pub subscribed: u64,
    /// Requests refused.
    pub refused: u64,
    /// Messages written.
    pub messages: u64,
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
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
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
            disconnected: load(&self.disconnected),
            subscribed: load(&self.subscribed),
            refused: load(&self.refused),
            messages: load(&self.messages),
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

/// The state of post-processing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PostReport {
    /// Datagrams written to the audit.
    pub audited: u64,
    /// Datagrams dropped for lack of room in the queue.
    pub audit_dropped: u64,
    /// Datagrams in the queue.
    pub audit_waiting: u64,
    /// The audit's backlog, in nanoseconds.
    pub audit_behind_ns: u64,
    /// The size of the audit's files in bytes.
    pub audit_bytes: u64,
    /// Write failures of the audit.
    pub audit_failures: u64,
    /// Events sent to bars and statistics: trades, quotes and others.
    pub trades: u64,
    /// Events dropped for lack of room in the ring.
    pub trades_dropped: u64,
    /// Events in the ring.
    pub trades_waiting: u64,
    /// The backlog of events, in nanoseconds of the venue's clock.
    #[serde(default)]
    pub trades_behind_ns: u64,
    /// Bars built.
    #[serde(default)]
    pub bars: u64,
    /// Bars and corrections that could not be written.
    #[serde(default)]
    pub bars_lost: u64,
    /// Intervals of statistics built.
    #[serde(default)]
    pub intervals: u64,
    /// Intervals that could not be written.
    #[serde(default)]
    pub intervals_lost: u64,
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
    /// The report as metrics.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let (gauge, counter) = ("gauge", "counter");
        let (receive, update) = (&self.receive, &self.update);
        let sum = |figure: fn(&FlushReport) -> u64| self.flush.iter().map(figure).sum::<u64>();
        let post = self.post.clone().unwrap_or_default();
        let shm = self.shm.clone().unwrap_or_default();
        let subscribers = self.flush.iter().flat_map(|flush| &flush.subscribers);
        let websockets = subscribers.filter(|one| one.is_web).count() as u64;
        let lost = receive.channels.iter().map(|channel| channel.lost).sum();
        let doors = self.flush.iter().map(|flush| &flush.door);
        let door = doors.fold(DoorReport::default(), |sum, door| sum.plus(door));
        let own = [
            ("weir_market_datagrams_total", "Datagrams taken.", counter, receive.datagrams),
            ("weir_market_dropped_total", "The kernel had no room.", counter, receive.dropped),
            ("weir_market_ring_dropped_total", "Ring full.", counter, receive.ring_dropped),
            ("weir_market_strangers_total", "Not of the feed.", counter, receive.strangers),
            ("weir_market_messages_total", "Messages decoded.", counter, receive.messages),
            ("weir_market_passed_over_total", "No update.", counter, receive.without_update),
            ("weir_market_not_understood_total", "Malformed.", counter, receive.refused),
            ("weir_market_lost_total", "Messages given up.", counter, lost),
            ("weir_market_requests_total", "Asked for again.", counter, receive.requests),
            ("weir_market_updates_total", "Updates taken in.", counter, update.updates),
            ("weir_market_orders", "Orders that rest.", gauge, update.orders),
            ("weir_market_anomalies_total", "What cannot be.", counter, update.anomalies),
            ("weir_market_throttled_total", "Waited to be told.", counter, update.waited),
            ("weir_market_merged_total", "Merged before fan-out.", counter, update.merged),
            ("weir_market_gaps_total", "Lost before fan-out.", counter, update.lost),
            ("weir_market_throttle_queue", "States that wait.", gauge, update.waiting),
            ("weir_market_priority_queue", "Entries to be told.", gauge, update.queue_len),
            ("weir_market_ring_full_total", "Flush was behind.", counter, update.ring_full),
            ("weir_market_websockets", "Of them over WebSocket.", gauge, websockets),
            ("weir_market_subscribed_total", "Begun.", counter, sum(|f| f.subscribed)),
            ("weir_market_told_total", "Messages written.", counter, sum(|f| f.messages)),
            ("weir_market_slow_total", "Disconnected.", counter, sum(|f| f.disconnected)),
            ("weir_market_shm_records_total", "In shared memory.", counter, shm.records),
            ("weir_market_shm_snapshots_total", "Of everything.", counter, shm.snapshots),
            ("weir_market_audited_total", "Datagrams kept.", counter, post.audited),
            ("weir_market_audit_dropped_total", "Not kept: no room.", counter, post.audit_dropped),
            ("weir_market_audit_waiting", "Datagrams to be kept.", gauge, post.audit_waiting),
            ("weir_market_audit_bytes", "Bytes of audits.", gauge, post.audit_bytes),
            ("weir_market_audit_failures_total", "Disk failures.", counter, post.audit_failures),
            ("weir_market_bar_trades_total", "Events for bars.", counter, post.trades),
            ("weir_market_bar_dropped_total", "Not in bars.", counter, post.trades_dropped),
            ("weir_market_bars_total", "Bars made.", counter, post.bars),
            ("weir_market_bars_lost_total", "Not written.", counter, post.bars_lost),
            ("weir_market_intervals_total", "Of statistics.", counter, post.intervals),
            ("weir_market_intervals_lost_total", "Not written.", counter, post.intervals_lost),
        ];
        weir_door::door_metrics!("weir_market", door).into_iter().chain(own).collect()
    }
}

/// A session's number in reports.
pub(super) const fn number_of(session_id: SessionId) -> SessionNumber {
    session_id.0
}
