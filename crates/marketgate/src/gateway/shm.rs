//! The gateway's messages in a ring in shared memory, for strategies on the same machine.
//!
//! The ring is a subscriber of its flush thread like any other, except that the configuration holds
//! its subscriptions and that its messages go into the ring, one frame per record, instead of a
//! socket. Any number of processes read the ring; the gateway does not track them, and none can
//! block or harm it. A reader that is too slow detects from the ring that it lost records.
//!
//! A reader that starts late or lost records requests snapshots with a datagram to the socket next
//! to the ring. A second subscriber then receives, for the whole configuration, the first state of
//! each instrument, and writes only those. It is polled only when the first one has nothing left,
//! so that no older state follows a snapshot and no change of an order is written twice.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use mio::net::UnixDatagram;
use serde::{Deserialize, Serialize};
use weir_feed::Definition;
use weir_feed::line::State;
use weir_io::net::{Registry, Token};
use weir_market::conflate::{
    Content, Fanout, Pattern, Poll, PollOutcome, SubscriberId, Subscription, Urgency,
};
use weir_runtime::ConfigError;
use weir_shm::{Options, Writer};
use weir_types::{InstrumentId, Nanos, SessionId};
use weir_wire::frame::{Framing, next_frame};

use super::flush_slot::ChannelIndex;
use super::mirror::Mirror;
use super::stages::FlushProbe;
use super::writing::{Address, Drafts, instrument_of, put_channel, put_instrument, put_message};

/// The value that stands for a connection's number in probes.
pub(super) const SHM_LINK: u64 = u64::MAX;
/// The datagram that requests snapshots.
pub use weir_client::market_ring::ASK;
/// The maximum number of messages written in one duty cycle: more than one cycle produces.
const MESSAGES_MAX: usize = 4_096;
/// The maximum number of requests for snapshots read in one duty cycle: a reader that sends them
/// without end must not hold up messages.
const ASKS_MAX: usize = 4;
/// The maximum number of snapshot messages in one duty cycle: they must not delay live messages.
const SNAPSHOTS_MAX: usize = 64;

/// The ring in shared memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShmSection {
    /// The ring's file, in a memory file system such as `/dev/shm`. `PATH.ask` is the socket.
    pub path: PathBuf,
    /// The size of the ring in bytes, a power of two: the limit of a reader's lag.
    #[serde(default = "default_ring_bytes")]
    pub ring_bytes: u64,
    /// The permissions to read the ring and to request snapshots, in octal; `640` if absent: the
    /// node's user and group. Only the node's user may write.
    #[serde(default = "default_mode")]
    pub mode: String,
    /// The instruments: `AAPL`, `AAPL*` or `*`.
    #[serde(default = "default_patterns")]
    pub patterns: Vec<String>,
    /// The contents: bbo, depth, levels, orders, trades, statistics, status.
    #[serde(default = "default_content")]
    pub content: Vec<ShmContent>,
    /// The number of levels of each side, for depth.
    #[serde(default = "default_depth")]
    pub depth: u16,
    /// The least time between two messages of an instrument unless it is urgent, in microseconds.
    #[serde(default)]
    pub interval_us: u64,
    /// The least time between two full snapshots, in milliseconds.
    #[serde(default = "default_snapshot_ms")]
    pub snapshot_ms: u64,
}

/// The contents of the ring for an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are the contents of subscriptions")]
pub enum ShmContent {
    Bbo,
    Depth,
    Levels,
    Orders,
    Trades,
    Statistics,
    Status,
}

fn default_ring_bytes() -> u64 {
    16 << 20
}

fn default_mode() -> String {
    "640".to_owned()
}

fn default_patterns() -> Vec<String> {
    vec!["*".to_owned()]
}

fn default_content() -> Vec<ShmContent> {
    vec![ShmContent::Bbo, ShmContent::Trades, ShmContent::Status]
}

fn default_depth() -> u16 {
    10
}

fn default_snapshot_ms() -> u64 {
    100
}

fn refused<T>(
    key: &'static str,
    value: impl ToString,
    want: &'static str,
) -> Result<T, ConfigError> {
    Err(ConfigError::OutOfRange { key, value: value.to_string(), want })
}

impl ShmSection {
    /// Checks the values without opening anything.
    ///
    /// # Errors
    /// [`ConfigError`], naming the value.
    pub fn check(&self) -> Result<(), ConfigError> {
        // The longest message, a thousand levels, is far below an eighth of the smallest ring.
        let is_len =
            self.ring_bytes.is_power_of_two() && (1 << 20..=1 << 34).contains(&self.ring_bytes);
        if !is_len {
            let want = "a power of two, 1 MiB to 16 GiB";
            return refused("market_gateway.shm.ring_bytes", self.ring_bytes, want);
        }
        if self.mode().is_none() {
            let want = "permissions in octal, 600 to 666, for reading and writing alone";
            return refused("market_gateway.shm.mode", &self.mode, want);
        }
        let is_pattern = |text: &String| Pattern::parse(text.as_bytes()).is_some();
        if self.patterns.is_empty() || !self.patterns.iter().all(is_pattern) {
            let want = "symbols, beginnings of symbols and a star, or a star";
            return refused("market_gateway.shm.patterns", format!("{:?}", self.patterns), want);
        }
        if self.content.is_empty() {
            return refused("market_gateway.shm.content", "[]", "one content at least");
        }
        if self.depth == 0 {
            return refused("market_gateway.shm.depth", 0, "1 to 65535");
        }
        if self.interval_us > 60_000_000 {
            return refused("market_gateway.shm.interval_us", self.interval_us, "0 to 60000000");
        }
        if !(1..=3_600_000).contains(&self.snapshot_ms) {
            return refused("market_gateway.shm.snapshot_ms", self.snapshot_ms, "1 to 3600000");
        }
        Ok(())
    }

    /// Parses the permissions: the owner may always read and write.
    fn mode(&self) -> Option<u32> {
        let mode = u32::from_str_radix(&self.mode, 8).ok()?;
        (mode & !0o666 == 0 && mode & 0o600 == 0o600).then_some(mode)
    }

    /// The subscriptions, in order of their handles from 1.
    fn terms(&self, queue_len_max: u32) -> Vec<Subscription> {
        let patterns = self.patterns.iter().filter_map(|text| Pattern::parse(text.as_bytes()));
        let of = |pattern| {
            self.content.iter().map(move |content| {
                let mut terms = Subscription::new(pattern, content.content(self.depth));
                terms.queue_len_max = queue_len_max;
                if terms.content.kind().may_wait() {
                    terms.interval = Nanos(self.interval_us * 1_000);
                    terms.urgency = Urgency { move_ppm: Some(10_000), move_abs: None };
                }
                terms
            })
        };
        patterns.flat_map(of).collect()
    }
}

impl ShmContent {
    fn content(self, depth: u16) -> Content {
        match self {
            ShmContent::Bbo => Content::Bbo,
            ShmContent::Depth => Content::Depth(depth),
            ShmContent::Levels => Content::Levels,
            ShmContent::Orders => Content::Orders,
            ShmContent::Trades => Content::Trades,
            ShmContent::Statistics => Content::Statistics,
            ShmContent::Status => Content::Status,
        }
    }
}

weir_runtime::figures! {
    /// The counters of the ring.
    #[derive(Copy, PartialEq, Eq, Deserialize)]
    #[serde(default)]
    pub struct ShmCounts in ShmCounters {
        /// Records written.
        counter records,
        /// Snapshots requested by readers.
        counter asks,
        /// Full snapshots begun.
        counter snapshots,
        /// Messages too long for a record.
        counter too_long,
    }
}

/// The ring's counters.
#[derive(Debug, Default)]
pub struct ShmFigures {
    path: PathBuf,
    counters: ShmCounters,
}

/// The ring's report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ShmReport {
    /// The ring's file.
    pub path: String,
    /// The counters.
    #[serde(flatten)]
    pub counts: ShmCounts,
}

impl ShmFigures {
    /// The report for the status page.
    #[must_use]
    pub fn report(&self) -> ShmReport {
        ShmReport { path: self.path.display().to_string(), counts: self.counters.report() }
    }
}

/// The parts of a flush thread that the ring uses.
pub(super) struct RingParts<'a> {
    pub now: Nanos,
    /// The wall clock, for stamps.
    pub wall: Nanos,
    pub fanout: &'a mut Fanout,
    pub mirror: &'a Mirror,
    pub definitions: &'a [Option<Definition>],
    pub channels: &'a [State],
    pub drafts: &'a mut Drafts,
    pub probe: &'a mut FlushProbe,
}

/// Writes messages to the ring and answers requests for snapshots.
#[derive(Debug)]
pub struct ShmDoor {
    ring: Ring,
    asks: UnixDatagram,
    asks_at: PathBuf,
    is_asking: bool,
    is_asked: bool,
    not_before: Nanos,
    snapshot_interval: Nanos,
    terms: Vec<Subscription>,
    subscriber: Option<SubscriberId>,
    snapshots: Option<SubscriberId>,
    /// True if the subscriber may have messages to write.
    is_hot: bool,
}

/// The ring, and the instruments defined in it.
#[derive(Debug)]
struct Ring {
    writer: Writer,
    figures: Arc<ShmFigures>,
    out: Vec<u8>,
    /// A bit set of the instruments whose definitions were written.
    told: Vec<u64>,
}

impl ShmDoor {
    /// Creates the ring and the socket next to it.
    ///
    /// # Errors
    /// An error of the operating system, or another process writes to the ring.
    pub fn open(section: &ShmSection, queue_len_max: u32) -> anyhow::Result<ShmDoor> {
        let mode = section.mode().context("market_gateway.shm.mode")?;
        let options = Options { len: section.ring_bytes, mode };
        let writer = Writer::create(&section.path, &options).context("market_gateway.shm.path")?;
        let asks_at = weir_client::market_ring::asks_at(&section.path);
        let asks = bind(&asks_at, mode)
            .with_context(|| format!("market_gateway.shm: the socket {}", asks_at.display()))?;
        let path = section.path.clone();
        let figures = Arc::new(ShmFigures { path, ..ShmFigures::default() });
        Ok(ShmDoor {
            ring: Ring { writer, figures, out: Vec::new(), told: Vec::new() },
            asks,
            asks_at,
            is_asking: true,
            is_asked: false,
            not_before: Nanos(0),
            snapshot_interval: Nanos(section.snapshot_ms * 1_000_000),
            terms: section.terms(queue_len_max),
            subscriber: None,
            snapshots: None,
            is_hot: true,
        })
    }

    /// The ring's counters.
    #[must_use]
    pub fn figures(&self) -> Arc<ShmFigures> {
        self.ring.figures.clone()
    }

    /// Registers the socket under this token and starts the subscriptions.
    pub(super) fn begin(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        fanout: &mut Fanout,
    ) -> io::Result<()> {
        registry.register_other(&mut self.asks, token)?;
        self.subscriber = Some(subscribe(fanout, Nanos(0), &self.terms));
        Ok(())
    }

    /// Notes that the socket is readable: a reader may have sent a request.
    pub(super) fn is_readable(&mut self) {
        self.is_asking = true;
    }

    /// Notes that a subscriber may have messages.
    pub(super) fn note_ready(&mut self, subscriber: SubscriberId) {
        self.is_hot |= self.subscriber == Some(subscriber);
    }

    /// Makes the instrument's definition be written again before its next message.
    pub(super) fn forget(&mut self, id: InstrumentId) {
        if let Some(word) = self.ring.told.get_mut(id.0 as usize / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }

    /// Writes the state of a channel.
    pub(super) fn put_channel(&mut self, wall: Nanos, channel: ChannelIndex, state: State) {
        put_channel(SessionId::NONE, wall, channel, state, &mut self.ring.out);
        self.ring.flush();
    }

    /// The time of the next work that is due even if nothing arrives.
    pub(super) fn next_due(&self, fanout: &Fanout, now: Nanos) -> Option<Nanos> {
        if self.is_hot || self.is_asking || self.snapshots.is_some() {
            return Some(now);
        }
        let asked = self.is_asked.then_some(self.not_before);
        let due = self.subscriber.and_then(|subscriber| fanout.next_due(subscriber));
        asked.into_iter().chain(due).min()
    }

    /// Writes pending messages; returns their number.
    pub(super) fn tell(&mut self, lent: &mut RingParts<'_>) -> usize {
        self.hear_asks();
        let Some(subscriber) = self.subscriber else { return 0 };
        let is_due = lent.fanout.next_due(subscriber).is_some_and(|at| at <= lent.now);
        let mut told = 0;
        if self.is_hot || is_due {
            let (count, left) = self.ring.poll(subscriber, false, lent);
            (told, self.is_hot) = (count, left > 0);
        }
        if self.is_hot {
            return told;
        }
        if self.is_asked && self.snapshots.is_none() && lent.now >= self.not_before {
            self.begin_snapshots(lent);
        }
        if let Some(snapshots) = self.snapshots {
            let (count, left) = self.ring.poll(snapshots, true, lent);
            told += count;
            if left == 0 && lent.fanout.is_settled(snapshots) {
                lent.fanout.remove_subscriber(snapshots);
                self.snapshots = None;
            }
        }
        told
    }

    /// Reads requests. The rest of a flood is read in later cycles.
    fn hear_asks(&mut self) {
        let mut words = [0; 16];
        for _ in 0..ASKS_MAX {
            if !self.is_asking {
                break;
            }
            match self.asks.recv(&mut words) {
                Ok(len) if words[..len] == ASK => {
                    self.is_asked = true;
                    add(&self.ring.figures.counters.asks, 1);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_asking = false,
            }
        }
    }

    fn begin_snapshots(&mut self, lent: &mut RingParts<'_>) {
        self.is_asked = false;
        self.not_before = Nanos(lent.now.0.saturating_add(self.snapshot_interval.0));
        add(&self.ring.figures.counters.snapshots, 1);
        // The requesting reader may know no instrument and no channel.
        self.ring.told.fill(0);
        for (channel, state) in (0..).zip(lent.channels) {
            self.put_channel(lent.wall, channel, *state);
        }
        // Trades have no state and send no snapshot. The others need the same handles, which derive
        // from subscription numbers.
        let terms: Vec<_> = self.terms.iter().collect();
        self.snapshots = Some(subscribe(lent.fanout, lent.now, terms));
        // The first part follows in this cycle; the flush thread takes the other steps.
        lent.fanout.advance(lent.now, SNAPSHOTS_MAX);
    }
}

impl Drop for ShmDoor {
    fn drop(&mut self) {
        // A socket that cannot be removed is replaced by the next gateway.
        let _ = fs::remove_file(&self.asks_at);
    }
}

/// Adds a subscriber with these subscriptions, which were checked.
fn subscribe<'a>(
    fanout: &mut Fanout,
    now: Nanos,
    terms: impl IntoIterator<Item = &'a Subscription>,
) -> SubscriberId {
    let subscriber = fanout.add_subscriber();
    for one in terms {
        // An invalid subscription was refused by the configuration's check.
        let _ = fanout.subscribe(now, subscriber, one);
    }
    subscriber
}

/// Binds the socket for requests; every reader of the ring may send to it.
fn bind(path: &Path, mode: u32) -> io::Result<UnixDatagram> {
    // The ring is this process's own, so the file is left over from an earlier gateway.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixDatagram::bind(path)?;
    // Sending to a socket takes write permission on it.
    let may_ask = mode & 0o444;
    fs::set_permissions(path, Permissions::from_mode(0o600 | may_ask | may_ask >> 1))?;
    Ok(socket)
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl Ring {
    /// Writes a subscriber's pending messages; returns the number written and the number left.
    fn poll(
        &mut self,
        subscriber: SubscriberId,
        is_snapshot: bool,
        lent: &mut RingParts<'_>,
    ) -> (usize, usize) {
        let RingParts { now, wall, fanout, mirror, definitions, drafts, probe, .. } = lent;
        let room = if is_snapshot { SNAPSHOTS_MAX } else { MESSAGES_MAX };
        let poll = Poll { subscriber, now: *now, room };
        let mut count = 0;
        let polled = fanout.poll(poll, *mirror, &mut |message, mirror| {
            if is_snapshot && !message.entry.is_snapshot {
                return;
            }
            let sent_at = (*wall).max(message.entry.merged.ts_recv);
            let handle = message.subscription.0 + 1;
            let to = Address { session_id: SessionId::NONE, handle, sent_at };
            let id = instrument_of(message);
            if self.is_new(id)
                && let Some(Some(definition)) = definitions.get(id.0 as usize)
            {
                put_instrument(to, definition, &mut self.out);
            }
            put_message(to, message, mirror, drafts, &mut self.out);
            self.flush();
            probe.written(SHM_LINK, &message.entry);
            count += 1;
        });
        probe.flushed(SHM_LINK, true);
        match polled {
            PollOutcome::Sent { left, .. } => (count, left),
            PollOutcome::Disconnect(_) | PollOutcome::Unknown => (count, 0),
        }
    }

    /// Returns true on the first call for an instrument.
    fn is_new(&mut self, id: InstrumentId) -> bool {
        let (word, bit) = (id.0 as usize / 64, 1_u64 << (id.0 % 64));
        if self.told.len() <= word {
            self.told.resize(word + 1, 0);
        }
        let is_new = self.told[word] & bit == 0;
        self.told[word] |= bit;
        is_new
    }

    /// Writes the pending frames, one record each.
    fn flush(&mut self) {
        let mut rest = self.out.as_slice();
        while let Framing::Frame { len, .. } = next_frame(rest, usize::MAX) {
            let (frame, after) = rest.split_at(len);
            match self.writer.write(frame) {
                Ok(()) => add(&self.figures.counters.records, 1),
                Err(_) => add(&self.figures.counters.too_long, 1),
            }
            rest = after;
        }
        self.out.clear();
    }
}

#[cfg(test)]
mod tests;
