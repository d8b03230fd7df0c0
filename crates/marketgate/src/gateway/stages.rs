//! Latency by stage: the points of a message's path through a gateway, and the times between them.
//!
//! ```text
//!  kernel ─► taken from its socket ─► in the book ─► in the ring ─► taken by flush ─► sent
//!        receive                update       queue / held      flush            socket
//!            └───────────────── inside, less the time held on purpose ─────────────────┘
//!     └──────────────────────── total, less the time held on purpose ──────────────────┘
//! ```
//! Only a sample of the messages is timed, so that the others cost nothing: of a fast feed about
//! 16,000 a second. A timed message carries its times across every ring; each thread keeps its own
//! histograms. All times are of the clock that never steps; only the age of a datagram is a
//! difference of the wall clock, with which the kernel stamps it.
//!
//! Timing never changes the output and never blocks. A message that is not followed to its end is
//! missing from the later stages: it has no subscriber, a subscription's interval holds it, or the
//! subscriber's socket has no room.

mod report;
#[cfg(test)]
mod tests;

use weir_io::{Clock as _, SystemClock, monotonic_now};
use weir_market::conflate::{Body, Entry, Kind, Outcome};
use weir_probe::histogram::{Histogram, HistogramReader};
use weir_types::{InstrumentId, Nanos};

pub use report::{FlushReaders, StageReaders, StageReport, StagesReport, UpdateReaders};

/// The number of samples over which the sampling period is adjusted.
const GROUP: u32 = 16;
/// The target duration of a group, in nanoseconds.
const GROUP_TIME: u64 = 1_000_000;
/// The longest sampling period, in messages. Odd, as all periods are, so that no position in a
/// batch is preferred.
const PERIOD_MAX: u32 = 4_095;
/// The time without a sample after which the next message is one, in nanoseconds.
const SAMPLE_TIME_MAX: u64 = 100_000_000;
/// The time after which a held message counts as never sent, in nanoseconds: its interest has
/// ended.
const PATIENCE: u64 = 1_000_000_000;

/// Reads a clock.
type Now = fn() -> Nanos;

fn system_now() -> Nanos {
    SystemClock.now()
}

/// A timed message, as taken from the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedMessage {
    /// The time from the kernel's stamp of the datagram until the receiver took it; `None` for a
    /// file or a connection.
    pub in_kernel: Option<Nanos>,
    /// The time at which the receiver took it.
    pub received: Nanos,
}

/// A timed message, as passed to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    begun: TimedMessage,
    told: Nanos,
    held: Nanos,
}

/// Selects the messages to time; used by the receiving thread.
#[derive(Debug)]
pub struct Sampler {
    now: Now,
    /// The wall clock, for the age of a datagram by the kernel's stamp.
    wall: Now,
    has_kernel_time: bool,
    period: u32,
    left: u32,
    due_by: Nanos,
    in_group: u32,
    group_began: Nanos,
    begun: Option<TimedMessage>,
    receive: Histogram,
}

impl Sampler {
    /// Creates a sampler for a feed whose datagrams have the kernel's time stamp, or for one
    /// without.
    #[must_use]
    pub fn new(has_kernel_time: bool) -> Sampler {
        Sampler {
            now: monotonic_now,
            wall: system_now,
            has_kernel_time,
            period: 1,
            left: 1,
            due_by: Nanos(0),
            in_group: 0,
            group_began: Nanos(0),
            begun: None,
            receive: Histogram::new(),
        }
    }

    /// Returns true if datagrams have the kernel's time stamp.
    #[must_use]
    pub fn has_kernel_time(&self) -> bool {
        self.has_kernel_time
    }

    /// Notes a datagram with the kernel's time stamp `kernel`, taken in the poll at `ts_poll`.
    #[inline]
    pub fn datagram(&mut self, kernel: Nanos, ts_poll: Nanos) {
        if self.has_kernel_time {
            self.begun = None;
            if self.is_next(ts_poll) {
                self.begin_datagram(kernel, ts_poll);
            }
        }
    }

    #[cold]
    fn begin_datagram(&mut self, kernel: Nanos, ts_poll: Nanos) {
        let in_kernel = (self.wall)().since(kernel);
        self.receive.record(in_kernel.0);
        self.begun = Some(TimedMessage { in_kernel: Some(in_kernel), ..self.begin(ts_poll) });
    }

    /// Returns the start of timing of the next update, in the poll at `ts_poll`, if it is timed.
    #[inline]
    pub fn update(&mut self, ts_poll: Nanos) -> Option<TimedMessage> {
        if self.has_kernel_time {
            return self.begun.take();
        }
        self.is_next(ts_poll).then(|| self.begin(ts_poll))
    }

    /// Ends the packet of the current sample.
    #[inline]
    pub fn end_of_packet(&mut self) {
        self.begun = None;
    }

    #[inline]
    fn is_next(&mut self, ts_poll: Nanos) -> bool {
        self.left -= 1;
        self.left == 0 || self.is_due(ts_poll)
    }

    /// Returns true when no sample was taken for long.
    #[inline]
    fn is_due(&self, ts_poll: Nanos) -> bool {
        ts_poll >= self.due_by
    }

    /// Begins a sample. Its intervals are between polls, by the poller's clock alone.
    #[cold]
    fn begin(&mut self, ts_poll: Nanos) -> TimedMessage {
        let is_late = self.is_due(ts_poll);
        self.in_group += 1;
        let took = ts_poll.since(self.group_began).0;
        if is_late {
            self.period = 1;
        } else if self.in_group >= GROUP {
            if took < GROUP_TIME / 2 {
                self.period = (self.period * 2 + 1).min(PERIOD_MAX);
            } else if took > GROUP_TIME * 2 {
                self.period = (self.period / 2).max(1);
            }
        }
        if is_late || self.in_group >= GROUP {
            (self.in_group, self.group_began) = (0, ts_poll);
        }
        self.left = self.period;
        self.due_by = Nanos(ts_poll.0.saturating_add(SAMPLE_TIME_MAX));
        TimedMessage { in_kernel: None, received: (self.now)() }
    }

    /// Returns a reader of the measurements.
    #[must_use]
    pub fn reader(&self) -> HistogramReader {
        self.receive.reader()
    }
}

/// Identifies a message between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    instrument_id: InstrumentId,
    kind: Kind,
    sequence: u64,
}

impl Mark {
    fn of(entry: &Entry) -> Mark {
        let (instrument_id, kind) = (entry.instrument_id, entry.body.kind());
        Mark { instrument_id, kind, sequence: entry.merged.last_sequence }
    }

    /// Returns true if an entry contains the message, or supersedes it.
    fn is_over_with(&self, entry: &Entry) -> bool {
        entry.instrument_id == self.instrument_id
            && entry.body.kind() == self.kind
            && entry.merged.change_count > 0
            && entry.merged.last_sequence >= self.sequence
    }

    /// Returns true if an entry contains the message.
    fn is_in(&self, entry: &Entry) -> bool {
        self.is_over_with(entry)
            && entry.merged.first_sequence <= self.sequence
            && !matches!(entry.body, Body::Gap(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    mark: Mark,
    begun: TimedMessage,
    updated: Nanos,
}

/// The update stage's points.
#[derive(Debug)]
pub struct UpdateProbe {
    now: Now,
    begun: Option<TimedMessage>,
    updated: Nanos,
    /// One message that is queued at once and one that is held: neither prevents timing the other.
    going: Option<UnderWay>,
    waiting: Option<UnderWay>,
    update: Histogram,
    queue: Histogram,
    held: Histogram,
}

impl Default for UpdateProbe {
    fn default() -> UpdateProbe {
        UpdateProbe {
            now: monotonic_now,
            begun: None,
            updated: Nanos(0),
            going: None,
            waiting: None,
            update: Histogram::new(),
            queue: Histogram::new(),
            held: Histogram::new(),
        }
    }
}

impl UpdateProbe {
    /// Marks the next update as timed.
    pub fn begin(&mut self, begun: TimedMessage) {
        self.begun = Some(begun);
    }

    /// Records that an update is in the book.
    #[inline]
    pub fn updated(&mut self) {
        if let Some(begun) = &self.begun {
            self.updated = (self.now)();
            self.update.record(self.updated.since(begun.received).0);
        }
    }

    /// Records the outcome of offering a change of the update to conflation.
    #[inline]
    pub fn offered(&mut self, entry: &Entry, outcome: Outcome) {
        if self.begun.is_some() {
            self.note(entry, outcome);
        }
    }

    #[cold]
    fn note(&mut self, entry: &Entry, outcome: Outcome) {
        let Some(begun) = self.begun else { return };
        let is_held = match outcome {
            Outcome::Queued | Outcome::Merged => false,
            Outcome::Waiting => true,
            Outcome::Unwanted | Outcome::Lost | Outcome::Refused => return,
        };
        let updated = self.updated;
        let place = if is_held { &mut self.waiting } else { &mut self.going };
        if place.is_none_or(|one| updated.since(one.updated).0 > PATIENCE) {
            *place = Some(UnderWay { mark: Mark::of(entry), begun, updated });
        }
    }

    /// Ends the update: all its changes were offered.
    #[inline]
    pub fn end_of_update(&mut self) {
        self.begun = None;
    }

    /// Returns the times of the timed message in an entry that goes into the ring, if any.
    #[inline]
    pub fn told(&mut self, entry: &Entry) -> Option<Trace> {
        if self.going.is_some() || self.waiting.is_some() { self.take(entry) } else { None }
    }

    #[cold]
    fn take(&mut self, entry: &Entry) -> Option<Trace> {
        let take = |place: &mut Option<UnderWay>| {
            place.take_if(|one| one.mark.is_over_with(entry)).filter(|one| one.mark.is_in(entry))
        };
        let (going, waiting) = (take(&mut self.going), take(&mut self.waiting));
        let one = going.or(waiting)?;
        let told = (self.now)();
        let waited = told.since(one.updated);
        if going.is_some() {
            self.queue.record(waited.0);
            return Some(Trace { begun: one.begun, told, held: Nanos(0) });
        }
        self.held.record(waited.0);
        Some(Trace { begun: one.begun, told, held: waited })
    }

    /// Returns readers of the measurements.
    #[must_use]
    pub fn readers(&self) -> UpdateReaders {
        UpdateReaders {
            update: self.update.reader(),
            queue: self.queue.reader(),
            held: self.held.reader(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    mark: Mark,
    trace: Trace,
    at: Nanos,
    /// The first subscriber to receive the message.
    link: Option<u64>,
}

/// A flush thread's points.
#[derive(Debug)]
pub struct FlushProbe {
    now: Now,
    heard: Option<Heard>,
    flush: Histogram,
    socket: Histogram,
    inside: Histogram,
    total: Histogram,
}

impl Default for FlushProbe {
    fn default() -> FlushProbe {
        FlushProbe {
            now: monotonic_now,
            heard: None,
            flush: Histogram::new(),
            socket: Histogram::new(),
            inside: Histogram::new(),
            total: Histogram::new(),
        }
    }
}

impl FlushProbe {
    /// Records that an entry was taken from the ring, with the times of its message.
    #[cold]
    pub fn heard(&mut self, entry: &Entry, trace: &Trace) {
        let at = (self.now)();
        self.flush.record(at.since(trace.told).0);
        if self.heard.is_none() {
            self.heard = Some(Heard { mark: Mark::of(entry), trace: *trace, at, link: None });
        }
    }

    /// Records that a message was written to a subscriber's buffer.
    #[inline]
    pub fn written(&mut self, link: u64, entry: &Entry) {
        if let Some(heard) = &mut self.heard
            && heard.link.is_none()
            && heard.mark.is_in(entry)
        {
            heard.link = Some(link);
        }
    }

    /// Ends a round over the subscribers; `has_more` when some receive the rest at once.
    #[inline]
    pub fn end_of_telling(&mut self, has_more: bool) {
        if self.heard.is_some_and(|heard| heard.link.is_none()) && !has_more {
            self.heard = None;
        }
    }

    /// Records that a subscriber's buffer was passed to its socket, which accepted all of it or
    /// not.
    #[inline]
    pub fn flushed(&mut self, link: u64, is_all: bool) {
        if self.heard.is_some_and(|heard| heard.link == Some(link)) {
            self.sent(is_all);
        }
    }

    #[cold]
    fn sent(&mut self, is_all: bool) {
        let Some(Heard { trace, at, .. }) = self.heard.take().filter(|_| is_all) else { return };
        let Trace { begun: TimedMessage { in_kernel, received }, held, .. } = trace;
        let now = (self.now)();
        self.socket.record(now.since(at).0);
        let inside = now.since(received).since(held);
        self.inside.record(inside.0);
        if let Some(in_kernel) = in_kernel {
            self.total.record(inside.0.saturating_add(in_kernel.0));
        }
    }

    /// Returns readers of the measurements.
    #[must_use]
    pub fn readers(&self) -> FlushReaders {
        FlushReaders {
            flush: self.flush.reader(),
            socket: self.socket.reader(),
            inside: self.inside.reader(),
            total: self.total.reader(),
        }
    }
}
