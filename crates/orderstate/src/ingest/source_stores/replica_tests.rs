//! A source and a replica with other limits, both of which are killed now and then, and readers
//! that move between them with their tokens. The core opens epochs that disown changes, and sends
//! all again batch by batch. In the end both nodes have the same orders, and each reader is ONLINE
//! at both with the current rows.
//!
//! One thing is not checked: an ended order that a full resend leaves out may stay with a reader
//! that moves while it catches up, to a node that had discarded the order and so has no tombstone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use weir_delivery::stream::SourceStream;
use weir_delivery::{
    ChunkOutcome, Desk, DeskConfig, Entitlement, FetchOutcome, Filter, NonceCounter, OrderStore,
    PageSink, Question, Retention, StoreConfig, TokenKey, TokenSealer,
};
use weir_runtime::Wake;
use weir_types::{
    AccountId, BatchNo, ChangeId, Epoch, FirmId, InstrumentId, OrdStatus, PartitionId, Position,
    Reason, Rec, Seq, SessionId, Switch,
};
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, PageFlags, RowFlags};
use weir_wire::dialogue::{NodeMessage, put_source_batch};
use weir_wire::frame::{RawMessage, put_frame};
use weir_wire::ingest::{BatchFlags, OpenSource};
use weir_wire::replica::{FollowSource, FollowState, snapshot_chunk_of};

use super::*;
use crate::cold::row_of;
use crate::ingest::followers::History;
use crate::ingest::handoff::StorePort;
use crate::ingest::ingest_to_store;
use crate::replica::{FollowPort, Update, UpdateData, UpdateTicket, follow_to_store};
use crate::stores::tail::EntryTail;
use crate::stores::{WINDOW, journal};

const SOURCE: PartitionId = PartitionId(1);
const SESSION: SessionId = SessionId(1);
/// The history of the source's log, which a kill does not end.
const HISTORY: History = History { high: 7, low: 1 };
/// Above all records that a test creates.
const LAST_REC: Rec = Rec(1 << 40);
/// A step of time longer than a replica's request waits.
const STEP: u64 = 300_000_000;

/// The core's knowledge of its orders.
#[derive(Clone, Default)]
struct Core {
    records: BTreeMap<Rec, OrderRow>,
    forgotten: BTreeSet<Rec>,
    seq: u64,
    rec: u64,
}

/// A reader and its received rows.
struct Reader {
    token: Vec<u8>,
    mirror: BTreeMap<Rec, OrderRow>,
    /// Later changes must be sent.
    since: u64,
    /// True when it was refused and its next page starts again.
    begins: bool,
    resyncs: u32,
    /// The refusals for its epoch.
    epoch_resyncs: u32,
}

impl Reader {
    fn new() -> Reader {
        let (token, mirror) = (Vec::new(), BTreeMap::new());
        Reader { token, mirror, since: 0, begins: true, resyncs: 0, epoch_resyncs: 0 }
    }

    fn take(&mut self, row: &OrderRow) {
        if row.flags.contains(RowFlags::TOMBSTONE) || row.flags.contains(RowFlags::LEAVE) {
            self.mirror.remove(&row.rec);
            return;
        }
        let before = self.mirror.insert(row.rec, *row);
        assert!(before.is_none_or(|before| before.seq < row.seq), "an order goes back");
    }

    /// Takes a page's head; returns true when it is ONLINE.
    fn head(&mut self, page: &OrderPage, token: &[u8], said: u64) -> bool {
        if self.begins && page.reason == Reason::None {
            (self.since, self.begins) = (said, false);
        }
        if page.reason != Reason::None {
            assert!(matches!(page.reason, Reason::ResyncFloor | Reason::ResyncEpoch), "{page:?}");
            self.mirror.clear();
            self.begins = true;
            self.resyncs += 1;
            self.epoch_resyncs += u32::from(page.reason == Reason::ResyncEpoch);
        }
        self.token = token.to_vec();
        page.flags.contains(PageFlags::ONLINE)
    }
}

#[derive(Default)]
struct Sink(Vec<u8>);

impl PageSink for Sink {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

/// The replica's requests: the history and position that it has, and the snapshot that it receives.
#[derive(Default)]
struct Follow {
    connection: u64,
    history: (u64, u64),
    position: u64,
    snapshot: Option<Incoming>,
    ticket: UpdateTicket,
}

/// A snapshot being received.
struct Incoming {
    position: u64,
    history: (u64, u64),
    next_chunk: u32,
    bytes: Vec<u8>,
}

struct World {
    source: SourceStores,
    port: StorePort,
    core_connection: u64,
    replica: SourceStores,
    follower: FollowPort,
    follow: Follow,
    /// The entries that the source took or has still to take.
    sent: Vec<Vec<u8>>,
    /// A snapshot of the source's store, with the number of entries in it.
    snapshot: Option<(usize, Vec<u8>)>,
    /// Batches that the core has yet to send.
    outbox: VecDeque<(BatchFlags, Vec<OrderRow>)>,
    core: Core,
    remembered: Core,
    epoch: u32,
    batch_no: u64,
    /// All changes that were sent and not disowned.
    history: Vec<OrderRow>,
    /// True when a reader may have been refused for its epoch.
    has_lost: bool,
    limits: Limits,
    now: u64,
}

/// The limits on the ended orders of both stores.
#[derive(Clone, Copy, Debug)]
struct Limits {
    source: u32,
    replica: u32,
    /// True when the source discards nothing while it reads its log, as with an archive.
    replays_all: bool,
}

fn config(ended_max: u32) -> StoreConfig {
    let retention = Retention { count_max: ended_max, bytes_max: u64::MAX };
    StoreConfig { retention, ..StoreConfig::new(SOURCE, Epoch::NONE) }
}

fn desk(store: OrderStore) -> Desk {
    let sealer = TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(1, Nanos(1)));
    Desk::new(DeskConfig::default(), store, sealer)
}

fn new_source(
    store: OrderStore,
    stream: SourceStream,
    tail: EntryTail,
) -> (StorePort, SourceStores) {
    let (port, from_ingest) = ingest_to_store(Wake::new(), Wake::new());
    let parts = SourceStoreParts {
        desk: desk(store),
        stream,
        journal: None,
        tail,
        is_replica: false,
        own: None,
        snapshot_every: u64::MAX,
        cold: None,
    };
    let figures = Arc::new(IngestFigures::default());
    let mut stores = SourceStores::new(vec![parts], Some(from_ingest), None, None, figures);
    let store = &mut stores.source_stores[0];
    store.followers.begin_history(HISTORY, store.desk.store_mut());
    (port, stores)
}

fn new_replica(ended_max: u32) -> (FollowPort, SourceStores) {
    let (follower, port) = follow_to_store(Wake::new(), Wake::new());
    let parts = SourceStoreParts::replica(SOURCE, desk(OrderStore::new(config(ended_max))));
    let updates = Some((port, Arc::new(ReplicaFigures::default())));
    let figures = Arc::new(IngestFigures::default());
    (follower, SourceStores::new(vec![parts], None, updates, None, figures))
}

/// Returns the next message and the bytes behind it.
fn next_of(bytes: &[u8]) -> (RawMessage<'_>, &[u8]) {
    match next_frame(bytes, SOURCE_FRAME_LEN_MAX) {
        Framing::Frame { message: Ok(raw), len } => (raw, &bytes[len..]),
        other => panic!("whole frames: {other:?}"),
    }
}

/// The source's side.
impl World {
    fn new(limits: Limits) -> World {
        let store = OrderStore::new(config(limits.source));
        let stream = SourceStream::new(SOURCE, WINDOW);
        let (port, source) = new_source(store, stream, EntryTail::new(Position::NONE));
        let (follower, replica) = new_replica(limits.replica);
        let mut world = World {
            source,
            port,
            core_connection: 1,
            replica,
            follower,
            follow: Follow { connection: 1_000_000, ..Follow::default() },
            sent: Vec::new(),
            snapshot: None,
            outbox: VecDeque::new(),
            core: Core::default(),
            remembered: Core::default(),
            epoch: 0,
            batch_no: 0,
            history: Vec::new(),
            has_lost: false,
            limits,
            now: STEP,
        };
        world.begin_epoch(ChangeId::START, Switch::On);
        world.resend(2);
        world.flush();
        // A token from before the first order starts again.
        world.insert(1);
        world
    }

    /// Gives the source a request and a cycle; returns the answers to the replica.
    fn ask(&mut self, connection: u64, what: StoreRequest) -> Vec<u8> {
        self.port.requests.push(IngestRequest { connection, what }).expect("the ring has room");
        self.cycle()
    }

    fn cycle(&mut self) -> Vec<u8> {
        self.source.work(Nanos(self.now));
        let mut to_replica = Vec::new();
        while let Ok(answer) = self.port.answers.pop() {
            assert!(!answer.is_refusal, "{:?}", answer.bytes);
            if answer.connection == self.follow.connection {
                to_replica.extend_from_slice(&answer.bytes);
            }
        }
        to_replica
    }

    /// Returns the number of entries that the source has taken.
    fn taken(&self) -> usize {
        self.source.source_stores[0].tail.last().0 as usize
    }

    fn opening(&self, valid_to: ChangeId, full_resend: Switch) -> OpenSource {
        OpenSource {
            valid_seq: valid_to.seq,
            valid_rec: valid_to.rec,
            session_id: SESSION,
            epoch: Epoch(self.epoch),
            valid_epoch: Epoch(self.epoch - 1),
            source_id: SOURCE,
            full_resend,
        }
    }

    fn begin_epoch(&mut self, valid_to: ChangeId, full_resend: Switch) {
        (self.epoch, self.batch_no) = (self.epoch + 1, 0);
        let open = self.opening(valid_to, full_resend);
        let mut entry = Vec::new();
        put_frame(&open, &mut entry);
        self.sent.push(entry);
        self.ask(self.core_connection, StoreRequest::Open(open));
    }

    fn batch(&mut self, flags: BatchFlags, rows: &[OrderRow]) {
        self.batch_no += 1;
        let head = SourceBatch {
            batch_no: BatchNo(self.batch_no),
            sending_time: Nanos(1),
            session_id: SESSION,
            epoch: Epoch(self.epoch),
            source_id: SOURCE,
            flags,
        };
        let mut entry = Vec::new();
        put_source_batch(&head, rows.iter().map(|row| (*row, &[][..])), &mut entry);
        self.sent.push(entry.clone());
        self.ask(self.core_connection, StoreRequest::Batch(entry));
    }

    /// Begins a full resend with at most `rows_max` orders per batch.
    fn resend(&mut self, rows_max: usize) {
        let head = self.source.source_stores[0].desk.store().complete_to();
        let seq = self.core.seq.max(head.seq.0) + 1;
        self.core.records.values_mut().for_each(|row| row.seq = Seq(seq));
        let rows: Vec<OrderRow> = self.core.records.values().copied().collect();
        self.history.extend(&rows);
        // The resend's end takes a number too.
        self.core.seq = seq + 1;
        let mut batches: VecDeque<_> =
            rows.chunks(rows_max).map(|rows| (BatchFlags::default(), rows.to_vec())).collect();
        if batches.is_empty() {
            batches.push_back((BatchFlags::default(), Vec::new()));
        }
        let (first, last) = (0, batches.len() - 1);
        batches[first].0 = batches[first].0.with(BatchFlags::RESEND_BEGIN);
        batches[last].0 = batches[last].0.with(BatchFlags::RESEND_END);
        self.outbox = batches;
    }

    fn send_one(&mut self) {
        match self.outbox.pop_front() {
            Some((flags, rows)) => self.batch(flags, &rows),
            None => drop(self.cycle()),
        }
    }

    /// Sends all remaining batches and ingests them.
    fn flush(&mut self) {
        while !self.outbox.is_empty() {
            self.send_one();
        }
        while self.taken() < self.sent.len() || self.source.source_stores[0].stream.is_sweeping() {
            self.cycle();
        }
    }

    fn say(&mut self, rec: u64, firm: u32, status: OrdStatus) {
        while !self.outbox.is_empty() {
            self.send_one();
        }
        self.core.seq += 1;
        let row = row_of(self.core.seq, rec, firm, status);
        self.core.records.insert(row.rec, row);
        self.history.push(row);
        self.batch(BatchFlags::default(), &[row]);
    }

    fn insert(&mut self, firm: u32) {
        self.core.rec += 1;
        self.say(self.core.rec, firm, OrdStatus::New);
    }

    fn change(&mut self, pick: usize, firm: u32, ends: bool) {
        let live = self.core.records.values().filter(|row| row.ord_status.is_live());
        let live: Vec<u64> = live.map(|row| row.rec.0).collect();
        if !live.is_empty() {
            let status = if ends { OrdStatus::Canceled } else { OrdStatus::New };
            self.say(live[pick % live.len()], firm, status);
        }
    }

    /// Drops the core's ended orders: a full resend does not include them.
    fn forget(&mut self) {
        self.flush();
        let Core { records, forgotten, .. } = &mut self.core;
        forgotten.extend(records.values().filter(|r| !r.ord_status.is_live()).map(|row| row.rec));
        records.retain(|_, row| row.ord_status.is_live());
    }

    /// Resets the core to its remembered state, which continues in a new epoch. It claims all
    /// changes of its last `seq`, or, `by_row`, those up to its last row alone.
    fn fall_back(&mut self, rows_max: usize, is_asked: bool, by_row: bool) {
        self.flush();
        self.core = self.remembered.clone();
        let valid_to = ChangeId::new(Seq(self.core.seq), LAST_REC);
        let rows = self.history.iter().map(|row| ChangeId::new(row.seq, row.rec));
        let last_row = rows.filter(|at| *at <= valid_to).max();
        let valid_to = last_row.filter(|_| by_row).unwrap_or(valid_to);
        self.history.retain(|row| row.seq <= valid_to.seq);
        let store = self.source.source_stores[0].desk.store();
        let has_lost = valid_to < store.head();
        // A full resend may also disown the tombstones of the one before.
        self.has_lost |= has_lost || is_asked && valid_to < store.complete_to();
        if has_lost || is_asked {
            self.begin_epoch(valid_to, Switch::On);
            self.resend(rows_max);
        } else {
            self.begin_epoch(valid_to, Switch::Off);
        }
        self.remembered = self.core.clone();
    }

    /// Takes a snapshot of the source's store, unless a replica gets one.
    fn take_snapshot(&mut self) {
        let at = self.taken();
        let source = &mut self.source.source_stores[0];
        if source.desk.store().is_snapshot_under_way() {
            return;
        }
        let mut state = Vec::new();
        source.stream.put_state(&mut state);
        let store = source.desk.store_mut();
        store.begin_snapshot();
        while store.snapshot_chunk(1 << 16, &mut state).unwrap() == ChunkOutcome::More {}
        self.snapshot = Some((at, state));
    }

    /// Kills the source, which comes back from its snapshot and its log; the core opens it again
    /// and sends what was not taken.
    fn kill_source(&mut self) {
        let unsent = self.sent.split_off(self.taken());
        let Limits { source: ended_max, replays_all, .. } = self.limits;
        let limits = config(if replays_all { u32::MAX } else { ended_max });
        let (at, mut store, mut stream) = match &self.snapshot {
            Some((at, state)) => {
                let (store, stream) = journal::decode(state, limits, WINDOW).unwrap();
                (*at, store, stream)
            }
            None => (0, OrderStore::new(limits), SourceStream::new(SOURCE, WINDOW)),
        };
        let mut tail = EntryTail::new(Position(at as u64));
        for entry in &self.sent[at..] {
            stream.replay(entry, &mut store).expect("it was taken before");
            tail.push(entry.clone());
        }
        let _ = stream.end_replay(&mut store);
        store.set_retention(config(ended_max).retention);
        (self.port, self.source) = new_source(store, stream, tail);
        self.lose_link();
        self.core_connection += 1;
        let open = self.opening(ChangeId::START, Switch::Off);
        self.ask(self.core_connection, StoreRequest::Open(open));
        for entry in unsent {
            self.sent.push(entry.clone());
            self.ask(self.core_connection, StoreRequest::Batch(entry));
        }
    }
}

/// The replica's side, and the readers'.
impl World {
    /// The replica's connection is lost, and with it the snapshot that it received.
    fn lose_link(&mut self) {
        self.ask(self.follow.connection, StoreRequest::Gone);
        (self.follow.connection, self.follow.snapshot) = (self.follow.connection + 1, None);
    }

    fn kill_replica(&mut self) {
        self.lose_link();
        (self.follower, self.replica) = new_replica(self.limits.replica);
        self.follow = Follow { connection: self.follow.connection, ..Follow::default() };
    }

    /// Lets the replica ask for more, and take the answer.
    fn follow(&mut self) {
        let (history, position, chunk_no) = match &self.follow.snapshot {
            Some(incoming) => (incoming.history, incoming.position, incoming.next_chunk),
            None => (self.follow.history, self.follow.position, 0),
        };
        let follow = FollowSource {
            history_high: history.0,
            history_low: history.1,
            position,
            session_id: SESSION,
            chunk_no,
            source_id: SOURCE,
        };
        let mut answer = self.ask(self.follow.connection, StoreRequest::Follow(follow));
        if answer.is_empty() {
            self.now += STEP;
            answer = self.cycle();
        }
        let (raw, rest) = next_of(&answer);
        let state: FollowState = raw.decode().unwrap();
        if let Some(what) = self.take_answer(&state, rest) {
            self.follow.position = state.position;
            let update = Update { state, what, ticket: self.follow.ticket.clone() };
            self.follower.updates.push(update).expect("the ring has room");
        }
        self.replica_works();
    }

    /// Takes an answer's data; `None` while a snapshot is being received.
    fn take_answer(&mut self, state: &FollowState, rest: &[u8]) -> Option<UpdateData> {
        let history = (state.history_high, state.history_low);
        if state.is_snapshot == Switch::Off {
            self.follow.snapshot = None;
            let is_known = history == self.follow.history;
            return is_known.then(|| UpdateData::Entries(rest.to_vec()));
        }
        let (raw, _) = next_of(rest);
        let (chunk, bytes) = snapshot_chunk_of(&raw).unwrap();
        if chunk.chunk_no == 0 {
            let (position, bytes) = (state.position, Vec::new());
            self.follow.snapshot = Some(Incoming { position, history, next_chunk: 0, bytes });
        }
        let incoming = self.follow.snapshot.as_mut().expect("the first piece came first");
        assert_eq!(incoming.next_chunk, chunk.chunk_no);
        incoming.bytes.extend_from_slice(bytes);
        incoming.next_chunk += 1;
        if chunk.is_last == Switch::Off {
            return None;
        }
        let Incoming { bytes: all, .. } = self.follow.snapshot.take().expect("looked at above");
        self.follow.history = history;
        let made = journal::decode(&all, config(self.limits.replica), WINDOW).unwrap();
        Some(UpdateData::Store(Box::new(made)))
    }

    fn replica_works(&mut self) {
        self.replica.work(Nanos(self.now));
        while self.follower.retired.pop().is_ok() {}
        assert_eq!(self.follower.broken.pop().ok(), None, "the entries do not continue it");
    }

    /// Lets the replica follow to the end of the source's log.
    fn catch_up(&mut self) {
        for _ in 0..10_000 {
            let replica = &self.replica.source_stores[0];
            let position = replica.follow_figures().unwrap().position;
            if position == self.sent.len() as u64 && !replica.stream.is_sweeping() {
                return;
            }
            self.follow();
        }
        panic!("the replica never catches up");
    }

    /// Reads a page for a reader at the source or the replica; returns true when it is ONLINE.
    fn read(&mut self, reader: &mut Reader, at_replica: bool, rows_max: u32) -> bool {
        let head = self.source.source_stores[0].desk.store().head();
        let said = self.history.last().map_or(Seq(0), |row| row.seq).max(head.seq).0;
        // A token of an epoch that the replica does not know yet is refused there.
        let epochs = [&self.source, &self.replica].map(|at| at.store_of(SOURCE).unwrap().epoch());
        self.has_lost |= at_replica && epochs[0] != epochs[1];
        let stores = if at_replica { &mut self.replica } else { &mut self.source };
        let Ok(desk) = stores.desk_of(SOURCE) else { return false };
        let fetch = FetchOrders {
            correlation_id: 1,
            session_id: SESSION,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        let question = Question {
            connection: 1,
            fetch: &fetch,
            token: &reader.token,
            min_token: &[],
            entitlement: Entitlement::all(),
        };
        assert_eq!(desk.ask(&question, Nanos(self.now)), FetchOutcome::Accepted);
        let mut sink = Sink::default();
        for _ in 0..10_000 {
            self.now += STEP;
            let _ = desk.poll(Nanos(self.now), &mut sink);
            if !sink.0.is_empty() {
                return take_page(reader, &sink.0, said);
            }
        }
        panic!("no page comes");
    }

    /// Checks that an online reader has all rows.
    fn check(&self, reader: &Reader) {
        let mut latest: BTreeMap<Rec, OrderRow> = BTreeMap::new();
        latest.extend(self.history.iter().map(|row| (row.rec, *row)));
        for (rec, has) in reader.mirror.iter().filter(|(rec, _)| !self.core.forgotten.contains(rec))
        {
            assert_eq!(Some(&OrderRow { merged_count: 0, ..*has }), latest.get(rec), "{rec}");
        }
        for (rec, row) in &latest {
            let is_kept = row.seq.0 > reader.since && !self.core.forgotten.contains(rec);
            let is_due = row.ord_status.is_live() || is_kept;
            assert!(!is_due || reader.mirror.contains_key(rec), "{row:?} was not told");
        }
    }

    fn step(&mut self, step: Op, readers: &mut [Reader; 4]) {
        match step {
            Op::Insert(firm) => self.insert(firm),
            Op::Change(pick, firm, ends) => self.change(pick, firm, ends),
            Op::Send => self.send_one(),
            Op::Forget => self.forget(),
            Op::Remember => {
                self.flush();
                self.remembered = self.core.clone();
            }
            Op::FallBack(rows_max, is_asked, by_row) => {
                self.fall_back(rows_max, is_asked, by_row);
            }
            Op::Snapshot => self.take_snapshot(),
            Op::KillSource => self.kill_source(),
            Op::KillReplica => self.kill_replica(),
            Op::LoseLink => self.lose_link(),
            Op::Follow => self.follow(),
            Op::Read(reader, at_replica, rows_max) => {
                _ = self.read(&mut readers[reader], at_replica, rows_max);
            }
        }
    }

    /// Checks that both nodes have the same orders, and that all readers have them at both.
    fn end(&mut self, readers: &mut [Reader; 4]) {
        self.flush();
        self.catch_up();
        let stores = [&self.source, &self.replica].map(|at| at.store_of(SOURCE).unwrap());
        let [one, other] = stores.map(|store| {
            (store.epoch(), store.complete_to(), store.live_count(), store.digest(&Filter::ALL))
        });
        assert_eq!(one, other);
        let keeps_all = self.limits.source.min(self.limits.replica) > 1_000;
        for (number, reader) in readers.iter_mut().enumerate() {
            for turn in 0..4 {
                let at_replica = (number + turn) % 2 == 0;
                let is_online = (0..1_000).any(|_| self.read(reader, at_replica, 50));
                assert!(is_online, "a reader never gets online; at the replica: {at_replica}");
                self.check(reader);
            }
            assert!(self.has_lost || !keeps_all || reader.resyncs == 0, "nothing was lost");
            assert!(self.has_lost || reader.epoch_resyncs == 0, "no change was disowned");
        }
        self.follow();
        let (here, source) = self.replica.source_stores[0].follow_figures().unwrap().seqs;
        assert_eq!(here, source, "the replica lags behind");
    }
}

fn take_page(reader: &mut Reader, mut bytes: &[u8], said: u64) -> bool {
    let mut is_online = false;
    while !bytes.is_empty() {
        let (raw, rest) = next_of(bytes);
        match NodeMessage::decode(&raw).unwrap() {
            NodeMessage::OrderPage(page, token) => is_online = reader.head(&page, token, said),
            NodeMessage::OrderPageBody(_, rows) => {
                rows.map(Result::unwrap).for_each(|(row, _)| reader.take(&row));
            }
            other => panic!("{other:?}"),
        }
        bytes = rest;
    }
    is_online
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Change(usize, u32, bool),
    Send,
    Forget,
    Remember,
    FallBack(usize, bool, bool),
    Snapshot,
    KillSource,
    KillReplica,
    LoseLink,
    Follow,
    /// A reader reads a page at the source, or at the replica.
    Read(usize, bool, u32),
}

fn any_step() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (1..4u32).prop_map(Op::Insert),
        20 => (0..1_000_000usize, 1..4u32, prop::bool::weighted(0.5))
            .prop_map(|(pick, firm, ends)| Op::Change(pick, firm, ends)),
        6 => Just(Op::Send),
        2 => Just(Op::Forget),
        3 => Just(Op::Remember),
        3 => (1..4usize, any::<bool>(), any::<bool>())
            .prop_map(|(rows, asked, by_row)| Op::FallBack(rows, asked, by_row)),
        3 => Just(Op::Snapshot),
        2 => Just(Op::KillSource),
        1 => Just(Op::KillReplica),
        1 => Just(Op::LoseLink),
        16 => Just(Op::Follow),
        16 => (0..4usize, any::<bool>(), 1..6u32)
            .prop_map(|(reader, at_replica, rows)| Op::Read(reader, at_replica, rows)),
    ]
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let ended_max = || prop_oneof![3 => 1..12u32, 1 => Just(1_000_000)];
    (ended_max(), ended_max(), any::<bool>()).prop_map(|(source, replica, replays_all)| Limits {
        source,
        replica,
        replays_all,
    })
}

fn run(steps: Vec<Op>, limits: Limits) {
    let mut world = World::new(limits);
    let mut readers = [(); 4].map(|()| Reader::new());
    steps.into_iter().for_each(|step| world.step(step, &mut readers));
    world.end(&mut readers);
}

#[test]
fn a_reader_of_a_tombstone_that_its_source_lacks_stays_in_the_next_epoch() {
    let limits = Limits { source: 1, replica: 1_000_000, replays_all: false };
    let mut world = World::new(limits);
    for _ in 0..2 {
        world.insert(1);
        world.change(usize::MAX, 1, true);
    }
    world.insert(1);
    world.catch_up();
    world.forget();
    // The source discards the second of the forgotten orders too, and so sweeps none.
    world.insert(1);
    world.change(usize::MAX, 1, true);
    world.remembered = world.core.clone();
    world.fall_back(1, true, true);
    world.flush();
    world.catch_up();
    let mut readers = [(); 4].map(|()| Reader::new());
    for reader in &mut readers {
        while !world.read(reader, true, 50) {}
        reader.resyncs = 0;
    }
    world.fall_back(1, false, true);
    assert!(!world.has_lost);
    world.end(&mut readers);
    assert!(readers.iter().all(|reader| reader.resyncs == 0), "nothing was lost");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn readers_move_between_a_source_and_its_replica_and_miss_nothing(
        steps in prop::collection::vec(any_step(), 1..200),
        limits in any_limits(),
    ) {
        run(steps, limits);
    }
}
