//! The thread that queries the master: one connection, one request at a time, alternating between
//! sources.
//!
//! It blocks, for limited times, on its socket and on nothing else; a store that does not keep up
//! delays its own source's next request. After failures it waits before it retries, longer each
//! time. It builds the store of a snapshot itself, so that the delivery thread only swaps it in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_client::source::Backoff;
use weir_client::{Connection, Limits, Target};
use weir_delivery::replay::STREAM_STATE_LEN;
use weir_delivery::stream::SourceStream;
use weir_delivery::{OrderStore, Restore, StoreConfig};
use weir_runtime::Agent;
use weir_types::{Epoch, Nanos, SessionId, Switch};
use weir_wire::Message;
use weir_wire::dialogue::{NodeMessage, put_logon};
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame};
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;
use weir_wire::replica::{FollowSource, FollowState, SnapshotChunk, snapshot_chunk_of};
use weir_wire::session::{ApiKey, Heartbeat, Logon};

use super::{FollowPort, ReplicaFigures, UPDATES_OF_SOURCE_MAX, Update, UpdateData, UpdateTicket};
use crate::stores::{StoreSettings, WINDOW};

/// The time limit for connecting, and for the answer to a logon.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The time that the master may be silent; it normally answers within a quarter of a second.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The requested heartbeat interval, in milliseconds; requests are far more frequent.
const HEARTBEAT_MS: u32 = 10_000;
/// The interval in nanoseconds at which a full ring to the store is polled.
const RETRY_INTERVAL: u64 = 1_000_000;

/// The parts of the agent.
pub struct ReplicaParts {
    /// The master's ingest listener.
    pub master: Target,
    /// A session of the role `Supervisor` there.
    pub session_id: SessionId,
    /// The session's key.
    pub api_key: ApiKey,
    /// The settings of the stores to build.
    pub stores: Vec<StoreSettings>,
    /// The ring to the store.
    pub port: FollowPort,
    /// Figures for other threads to read.
    pub figures: Arc<ReplicaFigures>,
}

/// A followed source.
struct FollowedState {
    settings: StoreSettings,
    /// The history that the position belongs to.
    history: (u64, u64),
    /// The last entry passed to the store.
    position: u64,
    snapshot: Option<Incoming>,
    /// Its clones are the updates that are not in the store yet.
    ticket: UpdateTicket,
}

/// A snapshot being received.
struct Incoming {
    history: (u64, u64),
    position: u64,
    next_chunk: u32,
    stream: SourceStream,
    restore: Restore,
}

/// A logged-on connection.
struct Link {
    connection: Connection,
}

/// The replica's agent.
pub struct ReplicaAgent {
    parts: ReplicaParts,
    sources: Vec<FollowedState>,
    turn: usize,
    link: Option<Link>,
    backoff: Backoff,
    /// An update for which the ring was full.
    waiting: Option<Update>,
}

impl ReplicaAgent {
    /// Returns a follower without any data.
    #[must_use]
    pub fn new(mut parts: ReplicaParts) -> ReplicaAgent {
        let followed = |settings| FollowedState {
            settings,
            history: (0, 0),
            position: 0,
            snapshot: None,
            ticket: UpdateTicket::default(),
        };
        let sources = std::mem::take(&mut parts.stores).into_iter().map(followed).collect();
        let backoff = Backoff::new(Backoff::seed());
        ReplicaAgent { parts, sources, turn: 0, link: None, backoff, waiting: None }
    }

    /// Makes one request and takes its answer, after connecting where needed; false when it could
    /// not ask.
    fn follow(&mut self, now: Nanos) -> anyhow::Result<bool> {
        while let Ok(broken) = self.parts.port.broken.pop() {
            let source = self.sources.iter_mut().find(|s| s.settings.source == broken);
            let source = source.context("a source that is not followed")?;
            (source.history, source.position, source.snapshot) = ((0, 0), 0, None);
        }
        if self.link.is_none() {
            if self.backoff.left(now).is_some() {
                return Ok(false);
            }
            let link = Link::log_on(&self.parts)?;
            self.link = Some(link);
            self.parts.figures.master.is_connected.store(true, Ordering::Relaxed);
            self.sources.iter_mut().for_each(|source| source.snapshot = None);
        }
        let link = self.link.as_mut().expect("made above");
        let Some(turn) = next_turn(&self.sources, self.turn) else { return Ok(false) };
        self.turn = turn;
        let source = &mut self.sources[self.turn];
        let update = source.ask(link, self.parts.session_id)?;
        self.backoff.succeeded();
        self.waiting = update;
        self.hand_on();
        Ok(true)
    }

    fn hand_on(&mut self) {
        let Some(update) = self.waiting.take() else { return };
        match self.parts.port.updates.push(update) {
            Ok(()) => self.parts.port.wake.wake(),
            Err(rtrb::PushError::Full(update)) => self.waiting = Some(update),
        }
    }

    fn fail(&mut self, error: &anyhow::Error, now: Nanos) {
        let master = self.parts.master.address();
        tracing::warn!(%master, %error, "the master cannot be followed");
        self.parts.figures.master.failures.fetch_add(1, Ordering::Relaxed);
        self.parts.figures.master.is_connected.store(false, Ordering::Relaxed);
        self.link = None;
        self.backoff.failed(now);
    }
}

/// Returns the index of the source to ask next: the first after `last` whose store keeps up.
fn next_turn(sources: &[FollowedState], last: usize) -> Option<usize> {
    let turns = (1..=sources.len()).map(|step| (last + step) % sources.len());
    turns.into_iter().find(|turn| sources[*turn].ticket.others() < UPDATES_OF_SOURCE_MAX)
}

impl FollowedState {
    /// Requests the next entries and takes the answer; `None` while a snapshot is being received.
    fn ask(&mut self, link: &mut Link, session_id: SessionId) -> anyhow::Result<Option<Update>> {
        let (history, position, chunk_no) = match &self.snapshot {
            Some(incoming) => (incoming.history, incoming.position, incoming.next_chunk),
            None => (self.history, self.position, 0),
        };
        let follow = FollowSource {
            history_high: history.0,
            history_low: history.1,
            position,
            session_id,
            chunk_no,
            source_id: self.settings.source,
        };
        put_frame(&follow, link.connection.outbox());
        let state = link.state()?;
        anyhow::ensure!(state.source_id == self.settings.source, "another source's answer");
        if state.is_snapshot == Switch::On {
            return self.take_chunk(state, link);
        }
        // An answer without entries may name another history: one whose snapshot has to wait.
        self.snapshot = None;
        let is_known = (state.history_high, state.history_low) == self.history;
        anyhow::ensure!(is_known || state.entry_count == 0, "entries of another history");
        let frames = link.frames(state.entry_count)?;
        if !is_known {
            return Ok(None);
        }
        self.position = state.position;
        Ok(Some(self.update(state, UpdateData::Entries(frames))))
    }

    fn take_chunk(
        &mut self,
        state: FollowState,
        link: &mut Link,
    ) -> anyhow::Result<Option<Update>> {
        let history = (state.history_high, state.history_low);
        let settings = self.settings;
        let snapshot = &mut self.snapshot;
        let is_last = link.chunk(|chunk, bytes| {
            anyhow::ensure!(chunk.position == state.position, "a chunk of another snapshot");
            if chunk.chunk_no == 0 {
                *snapshot = Some(Incoming::begin(&settings, history, state.position, bytes)?);
                return Ok(false);
            }
            let incoming = snapshot.as_mut().context("a chunk without a snapshot")?;
            let is_due = (incoming.next_chunk, incoming.history) == (chunk.chunk_no, history);
            anyhow::ensure!(is_due, "chunk {} is not due", chunk.chunk_no);
            incoming.take(bytes)?;
            Ok(chunk.is_last == Switch::On)
        })?;
        if !is_last {
            return Ok(None);
        }
        let incoming = self.snapshot.take().expect("its last chunk was taken");
        let (store, stream) = incoming.finish(&self.settings)?;
        (self.history, self.position) = (history, state.position);
        Ok(Some(self.update(state, UpdateData::Store(Box::new((store, stream))))))
    }

    fn update(&self, state: FollowState, what: UpdateData) -> Update {
        Update { state, what, ticket: self.ticket.clone() }
    }
}

impl Incoming {
    fn begin(
        settings: &StoreSettings,
        history: (u64, u64),
        position: u64,
        state: &[u8],
    ) -> anyhow::Result<Incoming> {
        anyhow::ensure!(state.len() == STREAM_STATE_LEN, "a stream's state of other length");
        let stream = SourceStream::from_state(settings.source, WINDOW, state);
        let stream = stream.context("a stream's state that cannot be read")?;
        let restore =
            Restore::new(StoreConfig { bytes_max: u64::MAX, ..settings.config(Epoch::NONE) });
        Ok(Incoming { history, position, next_chunk: 1, stream, restore })
    }

    fn take(&mut self, mut bytes: &[u8]) -> anyhow::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.restore.take(bytes)?..];
        }
        self.next_chunk += 1;
        Ok(())
    }

    fn finish(self, settings: &StoreSettings) -> anyhow::Result<(OrderStore, SourceStream)> {
        let mut store = self.restore.finish()?;
        store.set_bytes_max(settings.bytes_max);
        self.stream.join(&mut store);
        Ok((store, self.stream))
    }
}

impl Link {
    fn log_on(parts: &ReplicaParts) -> anyhow::Result<Link> {
        let limits = Limits {
            frame_len_max: SOURCE_FRAME_LEN_MAX,
            connect_timeout: CONNECT_TIME,
            ..Limits::default()
        };
        let connection = Connection::open(parts.master.clone(), limits)?;
        let mut link = Link { connection };
        let logon = Logon {
            api_key: parts.api_key,
            session_id: parts.session_id,
            heartbeat_interval_ms: HEARTBEAT_MS,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_logon(&logon, &[], link.connection.outbox());
        link.next(|raw| match NodeMessage::decode(raw)? {
            NodeMessage::LogonAck(..) => Ok(()),
            NodeMessage::LogonReject(reject) => anyhow::bail!("refused: {:?}", reject.reason),
            other => anyhow::bail!("an unexpected answer to a logon: {other:?}"),
        })?;
        Ok(link)
    }

    /// Passes the next whole frame to `take`, once it has arrived.
    fn next_frame<T>(
        &mut self,
        take: impl FnOnce(&[u8]) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + ANSWER_TIME;
        loop {
            if let Some(frame) = self.connection.next_whole_frame()? {
                return take(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            anyhow::ensure!(!left.is_zero(), "the master is silent");
            self.connection.exchange(left)?;
        }
    }

    /// Takes the next message, skipping heartbeats.
    fn next<T>(
        &mut self,
        take: impl FnOnce(&RawMessage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut take = Some(take);
        loop {
            let taken = self.next_frame(|frame| {
                let raw = parse_message_of(frame)?;
                if raw.template_id == Heartbeat::TEMPLATE_ID {
                    return Ok(None);
                }
                let take = take.take().expect("one message is taken");
                take(&raw).map(Some)
            })?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    fn state(&mut self) -> anyhow::Result<FollowState> {
        self.next(|raw| match raw.template_id {
            FollowState::TEMPLATE_ID => Ok(raw.decode()?),
            _ => match NodeMessage::decode(raw)? {
                NodeMessage::SourceReject(reject) => anyhow::bail!("refused: {:?}", reject.reason),
                other => anyhow::bail!("an unexpected answer: {other:?}"),
            },
        })
    }

    fn chunk(
        &mut self,
        take: impl FnOnce(&SnapshotChunk, &[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        self.next(|raw| {
            anyhow::ensure!(raw.template_id == SnapshotChunk::TEMPLATE_ID, "not a chunk");
            let (chunk, bytes) = snapshot_chunk_of(raw)?;
            take(&chunk, bytes)
        })
    }

    /// Returns the next frames as they are: the master's agent sends no heartbeat between them.
    fn frames(&mut self, count: u32) -> anyhow::Result<Vec<u8>> {
        let mut frames = Vec::new();
        for _ in 0..count {
            self.next_frame(|frame| {
                frames.extend_from_slice(frame);
                Ok(())
            })?;
        }
        Ok(frames)
    }
}

/// Parses the message of a whole frame.
fn parse_message_of(frame: &[u8]) -> anyhow::Result<RawMessage<'_>> {
    match next_frame(frame, SOURCE_FRAME_LEN_MAX) {
        Framing::Frame { message, .. } => Ok(message?),
        other => anyhow::bail!("not a frame: {other:?}"),
    }
}

impl Agent for ReplicaAgent {
    fn name(&self) -> &'static str {
        "replica"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        while let Ok(retired) = self.parts.port.retired.pop() {
            drop(retired);
        }
        if self.waiting.is_some() {
            self.hand_on();
            return usize::from(self.waiting.is_none());
        }
        match self.follow(now) {
            Ok(has_asked) => usize::from(has_asked),
            Err(error) => {
                self.fail(&error, now);
                0
            }
        }
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let wait = self.backoff.left(now).map_or(0, |left| left.as_nanos() as u64);
        Some(Nanos(now.0 + wait.max(RETRY_INTERVAL)))
    }
}
