//! A source and a replica with other limits, both of which are killed now and then, and readers
//! that move between them with their tokens, or wait at one of them. The core deletes orders, opens
//! epochs that disown changes, and sends all again batch by batch. In the end both nodes have the
//! same orders, and each reader is ONLINE at both with the current rows of its filter.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_delivery::stream::SourceStream;
use weir_delivery::{
    ChunkOutcome, Desk, DeskConfig, Entitlement, FetchOutcome, Filter, NonceCounter, OrderStore,
    PageSink, Question, Retention, StoreConfig, TokenKey, TokenSealer,
};
use weir_runtime::Wake;
use weir_types::{
    AccountId, ChangeId, Epoch, FirmId, InstrumentId, OrdStatus, PartitionId, Position, Reason,
    Rec, Seq, SessionId, Switch,
};
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, PageFlags, RowFlags};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::RawMessage;
use weir_wire::replica::{FollowSource, FollowState, snapshot_chunk_of};

use super::*;
use crate::ingest::followers::History;
use crate::ingest::handoff::StorePort;
use crate::ingest::ingest_to_store;
use crate::replica::{FollowPort, Update, UpdateData, UpdateTicket, follow_to_store};
use crate::simulated_core::{Claims, SESSION, SOURCE, SimulatedCore, frame_of};
use crate::stores::tail::EntryTail;
use crate::stores::{WINDOW, journal};

/// The history of the source's log, which a kill does not end.
const HISTORY: History = History { high: 7, low: 1 };
/// A step of time longer than a replica's request waits.
const STEP: u64 = 300_000_000;

/// A reader and its received rows.
struct Reader {
    /// Its connection.
    number: u64,
    firm_id: FirmId,
    live_only: bool,
    /// True when a fetch of it waits at the replica, false at the source.
    waits_at_replica: Option<bool>,
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
    /// Returns four readers with different filters.
    fn all() -> [Reader; 4] {
        [(1, 0, false), (2, 0, true), (3, 1, false), (4, 2, true)].map(
            |(number, firm, live_only)| Reader {
                number,
                firm_id: FirmId(firm),
                live_only,
                waits_at_replica: None,
                token: Vec::new(),
                mirror: BTreeMap::new(),
                since: 0,
                begins: true,
                resyncs: 0,
                epoch_resyncs: 0,
            },
        )
    }

    fn fetch(&self, rows_max: u32, rows_min: u32) -> FetchOrders {
        FetchOrders {
            correlation_id: 1,
            session_id: SESSION,
            firm_id: self.firm_id,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max,
            rows_min,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: if self.live_only { Switch::On } else { Switch::Off },
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        }
    }

    fn is_of(&self, row: &OrderRow) -> bool {
        self.firm_id.is_none() || self.firm_id == row.firm_id
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

/// A page to ask for, at the replica or at the source.
#[derive(Clone, Copy, Debug)]
struct PageAt {
    at_replica: bool,
    rows_max: u32,
}

/// The pages made for each connection.
#[derive(Default)]
struct Sink(BTreeMap<u64, Vec<u8>>);

impl PageSink for Sink {
    fn buffer(&mut self, connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(self.0.entry(connection).or_default())
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
    core: SimulatedCore,
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
        failure: None,
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
            core: SimulatedCore::default(),
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

    fn begin_epoch(&mut self, valid_to: ChangeId, full_resend: Switch) {
        let open = self.core.next_epoch(valid_to, full_resend);
        self.sent.push(frame_of(&open));
        self.ask(self.core_connection, StoreRequest::Open(open));
    }

    fn send(&mut self, batch: Vec<u8>) {
        self.sent.push(batch.clone());
        self.ask(self.core_connection, StoreRequest::Batch(batch));
    }

    /// Begins a full resend with at most `rows_max` orders per batch.
    fn resend(&mut self, rows_max: usize) {
        let complete_to = self.source.source_stores[0].desk.store().complete_to();
        self.core.prepare_resend(complete_to, rows_max);
    }

    fn send_one(&mut self) {
        match self.core.next_batch() {
            Some(batch) => self.send(batch),
            None => drop(self.cycle()),
        }
    }

    fn send_rest(&mut self) {
        while self.core.has_more() {
            self.send_one();
        }
    }

    /// Sends all remaining batches and ingests them.
    fn flush(&mut self) {
        self.send_rest();
        while self.taken() < self.sent.len() || self.source.source_stores[0].stream.is_sweeping() {
            self.cycle();
        }
    }

    fn insert(&mut self, firm: u32) {
        self.send_rest();
        let batch = self.core.insert(firm);
        self.send(batch);
    }

    /// Changes one of the live orders.
    fn change(&mut self, pick: usize, firm: u32, ends: bool) {
        self.change_one(pick, true, firm, ends);
    }

    /// Changes one of the orders that are live, or of those that have ended.
    fn change_one(&mut self, pick: usize, is_live: bool, firm: u32, ends: bool) {
        self.send_rest();
        let batch = self.core.change(pick, is_live, firm, ends);
        batch.into_iter().for_each(|batch| self.send(batch));
    }

    /// Deletes one of the core's orders.
    fn delete(&mut self, pick: usize) {
        self.flush();
        let batch = self.core.delete(pick);
        batch.into_iter().for_each(|batch| self.send(batch));
    }

    /// Drops the core's ended orders: a full resend does not include them.
    fn forget(&mut self) {
        self.flush();
        self.core.forget();
    }

    fn remember(&mut self) {
        self.flush();
        self.core.remember();
    }

    /// Resets the core to its remembered state, which continues in a new epoch.
    fn fall_back(&mut self, rows_max: usize, is_asked: bool, claims: Claims) {
        self.flush();
        let valid_to = self.core.fall_back(claims);
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
        self.core.remember();
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
        let open = self.core.opening_again();
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

    /// Asks for a page at the source or the replica; false if that has no whole store.
    fn fetch(&mut self, reader: &Reader, page: PageAt, rows_min: u32) -> bool {
        let PageAt { at_replica, rows_max } = page;
        // A token of an epoch that the replica does not know yet is refused there.
        let epochs = [&self.source, &self.replica].map(|at| at.store_of(SOURCE).unwrap().epoch());
        self.has_lost |= at_replica && epochs[0] != epochs[1];
        let stores = if at_replica { &mut self.replica } else { &mut self.source };
        let Ok(desk) = stores.desk_of(SOURCE) else { return false };
        let question = Question {
            connection: reader.number,
            fetch: &reader.fetch(rows_max, rows_min),
            token: &reader.token,
            min_token: &[],
            entitlement: Entitlement::all(),
        };
        assert_eq!(desk.ask(&question, Nanos(self.now)), FetchOutcome::Accepted);
        true
    }

    /// Lets the desks that may serve make pages.
    fn serve(&mut self) -> (BTreeMap<u64, Vec<u8>>, u64) {
        let head = self.source.source_stores[0].desk.store().head();
        let said = self.core.history.last().map_or(Seq(0), |row| row.seq).max(head.seq).0;
        let mut sink = Sink::default();
        self.now += STEP;
        for desk in self.source.serving_desks().chain(self.replica.serving_desks()) {
            let _ = desk.poll(Nanos(self.now), &mut sink);
        }
        (sink.0, said)
    }

    /// Hands out the pages of readers that wait.
    fn serve_waiting(&mut self, readers: &mut [Reader]) {
        let (pages, said) = self.serve();
        for (number, page) in pages {
            let reader = &mut readers[number as usize - 1];
            assert!(reader.waits_at_replica.take().is_some(), "reader {number} asked for nothing");
            take_page(reader, &page, said);
        }
    }

    /// Lets a reader wait for rows at the source or the replica.
    fn wait(&mut self, reader: &mut Reader, page: PageAt) {
        self.stop_waiting(reader);
        let waits = self.fetch(reader, page, 1);
        reader.waits_at_replica = waits.then_some(page.at_replica);
    }

    fn stop_waiting(&mut self, reader: &mut Reader) {
        let Some(at_replica) = reader.waits_at_replica.take() else { return };
        let stores = if at_replica { &mut self.replica } else { &mut self.source };
        stores.desks().for_each(|desk| desk.drop_connection(reader.number));
    }

    /// Reads on for a reader at the source or the replica, which has everything, and checks the
    /// reader's rows.
    fn read_all(&mut self, readers: &mut [Reader], at: usize, at_replica: bool) {
        // Several pages: the first copy of a reader also ends at a source that says nothing more.
        let page = PageAt { at_replica, rows_max: 3 };
        let is_online = (0..1_000).any(|_| self.read(readers, at, page));
        assert!(is_online, "a reader never gets online; at the replica: {at_replica}");
        self.check(&readers[at]);
    }

    /// Reads a page for a reader at the source or the replica; returns true when it is ONLINE.
    fn read(&mut self, readers: &mut [Reader], at: usize, page: PageAt) -> bool {
        self.stop_waiting(&mut readers[at]);
        if !self.fetch(&readers[at], page, 0) {
            return false;
        }
        for _ in 0..10_000 {
            let (mut pages, said) = self.serve();
            let page = pages.remove(&readers[at].number);
            for (number, page) in pages {
                let other = &mut readers[number as usize - 1];
                assert!(other.waits_at_replica.take().is_some(), "{number} asked for nothing");
                take_page(other, &page, said);
            }
            if let Some(page) = page {
                return take_page(&mut readers[at], &page, said);
            }
        }
        panic!("no page comes");
    }

    /// Checks that an online reader has all rows of its filter, and no other live ones. It may keep
    /// the end of an order that was deleted, or left its filter, later: a store that had discarded
    /// the order does not tell of that.
    fn check(&self, reader: &Reader) {
        let latest = self.core.latest();
        let discards = self.limits.source.min(self.limits.replica) < 1_000;
        for (rec, has) in &reader.mirror {
            let has = OrderRow { merged_count: 0, ..*has };
            let may_stay = discards || self.core.has_forgotten(*rec);
            let is_end = may_stay && !has.ord_status.is_live() && self.core.history.contains(&has);
            assert!(
                latest.get(rec) == Some(&has) || is_end,
                "{has:?} is not {:?}",
                latest.get(rec)
            );
        }
        for (rec, row) in latest.iter().filter(|(_, row)| reader.is_of(row)) {
            let is_new = row.seq.0 > reader.since && !self.core.has_forgotten(*rec);
            let is_due = row.ord_status.is_live() || is_new && !reader.live_only;
            assert!(!is_due || reader.mirror.contains_key(rec), "{row:?} was not told");
        }
    }

    fn step(&mut self, step: Op, readers: &mut [Reader; 4]) {
        match step {
            Op::Insert(firm) => self.insert(firm),
            Op::Change(pick, firm, ends) => self.change(pick, firm, ends),
            Op::Amend(pick, firm, ends) => self.change_one(pick, false, firm, ends),
            Op::Send => self.send_one(),
            Op::Delete(pick) => self.delete(pick),
            Op::Forget => self.forget(),
            Op::Remember => self.remember(),
            Op::FallBack(rows_max, is_asked, by_row) => {
                let claims = if by_row { Claims::LastRow } else { Claims::WholeSeq };
                self.fall_back(rows_max, is_asked, claims);
            }
            Op::Snapshot => self.take_snapshot(),
            Op::KillSource => {
                readers.iter_mut().for_each(|reader| self.stop_waiting(reader));
                self.kill_source();
            }
            Op::KillReplica => {
                readers.iter_mut().for_each(|reader| self.stop_waiting(reader));
                self.kill_replica();
            }
            Op::LoseLink => self.lose_link(),
            Op::Follow => self.follow(),
            Op::Read(reader, at_replica, rows_max) => {
                _ = self.read(readers, reader, PageAt { at_replica, rows_max });
            }
            Op::Wait(reader, at_replica, rows_max) => {
                self.wait(&mut readers[reader], PageAt { at_replica, rows_max });
            }
            Op::Serve => self.serve_waiting(readers),
            Op::Cross(reader, at_replica, rows_max) => {
                self.flush();
                self.catch_up();
                _ = self.read(readers, reader, PageAt { at_replica, rows_max });
                self.read_all(readers, reader, !at_replica);
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
        for number in 0..readers.len() {
            for turn in 0..4 {
                self.read_all(readers, number, (number + turn) % 2 == 0);
            }
            let reader = &readers[number];
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
            // A full resend has begun.
            NodeMessage::Reject(reject) => assert_eq!(reject.reason, Reason::PartitionAway),
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
    /// An order that had ended changes, and may be live again.
    Amend(usize, u32, bool),
    Send,
    Delete(usize),
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
    /// A reader waits for a page there.
    Wait(usize, bool, u32),
    /// Readers that wait get their pages.
    Serve,
    /// A reader reads a page there, and everything else at the other node.
    Cross(usize, bool, u32),
}

fn any_step() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (1..4u32).prop_map(Op::Insert),
        20 => (0..1_000_000usize, 1..4u32, prop::bool::weighted(0.5))
            .prop_map(|(pick, firm, ends)| Op::Change(pick, firm, ends)),
        3 => (0..1_000_000usize, 1..4u32, any::<bool>())
            .prop_map(|(pick, firm, ends)| Op::Amend(pick, firm, ends)),
        6 => Just(Op::Send),
        3 => (0..1_000_000usize).prop_map(Op::Delete),
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
        5 => (0..4usize, any::<bool>(), 1..6u32)
            .prop_map(|(reader, at_replica, rows)| Op::Wait(reader, at_replica, rows)),
        5 => Just(Op::Serve),
        5 => (0..4usize, any::<bool>(), 1..6u32)
            .prop_map(|(reader, at_replica, rows)| Op::Cross(reader, at_replica, rows)),
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
    let mut readers = Reader::all();
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
    world.remember();
    world.fall_back(1, true, Claims::LastRow);
    world.flush();
    world.catch_up();
    let mut readers = Reader::all();
    for number in 0..readers.len() {
        while !world.read(&mut readers, number, PageAt { at_replica: true, rows_max: 50 }) {}
        readers[number].resyncs = 0;
    }
    world.fall_back(1, false, Claims::LastRow);
    assert!(!world.has_lost);
    world.end(&mut readers);
    assert!(readers.iter().all(|reader| reader.resyncs == 0), "nothing was lost");
}

/// Returns a world whose source has discarded the ended order 2, and whose replica has not; and
/// readers that have the order live.
fn world_with_an_order_that_the_source_discarded() -> (World, [Reader; 4]) {
    let limits = Limits { source: 1, replica: 1_000_000, replays_all: false };
    let mut world = World::new(limits);
    world.insert(1);
    world.catch_up();
    let mut readers = Reader::all();
    for number in 0..readers.len() {
        while !world.read(&mut readers, number, PageAt { at_replica: true, rows_max: 50 }) {}
    }
    assert!(readers[..3].iter().all(|reader| reader.mirror.contains_key(&Rec(2))));
    world.remember();
    world.change(usize::MAX, 1, true);
    world.insert(1);
    world.change(usize::MAX, 1, true);
    (world, readers)
}

/// Lets the readers read at the replica, row by row, and go on at the source after each row.
fn the_order_ends_everywhere(world: &mut World, readers: &mut [Reader; 4]) {
    world.insert(1);
    world.insert(1);
    world.catch_up();
    for rows in 1..6 {
        let mut mover = Reader::all();
        for number in 0..readers.len() {
            let (token, mirror) = (readers[number].token.clone(), readers[number].mirror.clone());
            (mover[number].token, mover[number].mirror) = (token, mirror);
            (mover[number].begins, mover[number].since) = (false, readers[number].since);
            for _ in 0..rows {
                _ = world.read(&mut mover, number, PageAt { at_replica: true, rows_max: 1 });
            }
            world.read_all(&mut mover, number, false);
        }
    }
    world.end(readers);
}

#[test]
fn an_order_that_a_resend_leaves_out_ends_for_a_reader_at_a_store_that_discarded_it() {
    let (mut world, mut readers) = world_with_an_order_that_the_source_discarded();
    world.forget();
    world.remember();
    world.fall_back(1, true, Claims::LastRow);
    world.flush();
    the_order_ends_everywhere(&mut world, &mut readers);
}

#[test]
fn an_ended_order_that_is_deleted_ends_for_a_reader_at_a_store_that_discarded_it() {
    let (mut world, mut readers) = world_with_an_order_that_the_source_discarded();
    world.delete(1);
    the_order_ends_everywhere(&mut world, &mut readers);
}

#[test]
fn an_ended_order_that_gets_other_keys_ends_for_a_reader_at_a_store_that_discarded_it() {
    let (mut world, mut readers) = world_with_an_order_that_the_source_discarded();
    let batch = world.core.say(2, 2, OrdStatus::Canceled);
    world.send(batch);
    the_order_ends_everywhere(&mut world, &mut readers);
}

#[test]
fn an_order_whose_end_is_void_and_that_is_left_out_ends_at_a_store_that_discarded_it() {
    let (mut world, mut readers) = world_with_an_order_that_the_source_discarded();
    // The core comes back from before the end, and the order ends while it sends nothing.
    world.flush();
    world.core.lose(Rec(2));
    world.fall_back(1, true, Claims::LastRow);
    world.flush();
    the_order_ends_everywhere(&mut world, &mut readers);
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
