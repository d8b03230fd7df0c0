//! A venue behind a router: sources with their histories, stores that follow them at their own
//! pace, a router in front, and clients that keep a copy by its pages.

use std::collections::BTreeMap;

use weir_delivery::filter::Keys;
use weir_delivery::model::change_id_of;
use weir_delivery::router::LocalBackends;
use weir_delivery::{
    BackendId, BackendInfo, BackendRole, Desk, DeskConfig, Entitlement, FetchOutcome, Filter,
    Kinds, NonceCounter, OrderStore, PageSink, Question, Retention, Router, RouterConfig, Scope,
    SourceCursor, StoreConfig, TokenKey, TokenSealer,
};
use weir_types::{
    ChangeId, Epoch, Nanos, OrdStatus, OrderId, PartitionId, Reason, Rec, Seq, SessionId,
    SourceStatus, Switch,
};
use weir_wire::NodeMessage;
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, PageFlags};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, next_frame};

use crate::support::event;

pub const MS: u64 = 1_000_000;

/// A change of a source.
#[allow(clippy::large_enum_variant)] // Nearly all are orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Order(OrderEvent),
    Delete(ChangeId),
    /// Its epoch ended at the place; later changes are of this one.
    Epoch(Epoch, ChangeId),
}

/// A source's valid changes and its next numbers.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub changes: Vec<Change>,
    pub epoch: u32,
    pub seq: u64,
    pub rec: u64,
}

impl History {
    pub fn head(&self) -> ChangeId {
        let change_id = |change: &Change| match change {
            Change::Order(event) => ChangeId::new(event.seq, event.rec),
            Change::Delete(change_id) | Change::Epoch(_, change_id) => *change_id,
        };
        self.changes.last().map_or(ChangeId::START, change_id)
    }
}

/// A store behind the router.
#[derive(Clone, Debug)]
pub struct Follower {
    pub id: BackendId,
    pub source: PartitionId,
    pub is_up: bool,
    /// The index of the history that it follows: another one once the source has lost its tail.
    pub history_no: usize,
    /// Changes that it has taken in.
    pub fed_count: usize,
    pub info: BackendInfo,
    pub kinds: Kinds,
}

#[derive(Default)]
pub struct Sink {
    pub out: BTreeMap<u64, Vec<u8>>,
    pub full: Vec<u64>,
}

impl PageSink for Sink {
    fn buffer(&mut self, connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        if self.full.contains(&connection) {
            return None;
        }
        Some(self.out.entry(connection).or_default())
    }
}

#[derive(Debug)]
pub struct Answer {
    pub header: OrderPage,
    pub token: Vec<u8>,
    pub rows: Vec<OrderRow>,
    /// The sources' statuses, if the page has them.
    pub sources: Vec<(u16, SourceStatus)>,
}

impl Answer {
    pub fn is(&self, flag: PageFlags) -> bool {
        self.header.flags.contains(flag)
    }

    /// Returns (source, rec) of each row.
    pub fn recs(&self) -> Vec<(u16, u64)> {
        self.rows.iter().map(|row| (row.order_id.partition().0, row.rec.0)).collect()
    }
}

pub struct Venue {
    pub router: Router,
    pub local: LocalBackends,
    pub sink: Sink,
    pub now: Nanos,
    /// Each source's histories; the last one is valid.
    pub histories: BTreeMap<PartitionId, Vec<History>>,
    pub followers: Vec<Follower>,
    pub retained_max: u32,
    makers: u32,
}

pub fn sealer(maker: u32) -> TokenSealer {
    TokenSealer::new(TokenKey::new(1, &[5; 32]), NonceCounter::new(maker, Nanos(1)))
}

pub fn fetch() -> FetchOrders {
    fetch_of(&Filter::ALL)
}

pub fn fetch_of(filter: &Filter) -> FetchOrders {
    FetchOrders {
        correlation_id: 77,
        session_id: SessionId(4),
        firm_id: filter.firm_id,
        account_id: filter.account_id,
        instrument_id: filter.instrument_id,
        rows_max: 0,
        rows_min: 1,
        bytes_max: 0,
        wait_max_us: 500,
        credit: 1,
        live_only: if filter.live_only { Switch::On } else { Switch::Off },
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

impl Venue {
    pub fn new(config: RouterConfig) -> Venue {
        Venue {
            router: Router::new(config, sealer(1)),
            local: LocalBackends::default(),
            sink: Sink::default(),
            now: Nanos(MS),
            histories: BTreeMap::new(),
            followers: Vec::new(),
            retained_max: 1_000,
            makers: 1,
        }
    }

    /// Returns sources 1 to `count`, each with a master and without orders.
    pub fn with_sources(count: u16) -> Venue {
        let mut venue = Venue::new(RouterConfig::default());
        for source in 1..=count {
            venue.add_master(source);
        }
        venue
    }

    pub fn add_master(&mut self, source: u16) -> usize {
        self.add(source, BackendRole::Master, Kinds::FULL)
    }

    /// Adds a master that the router asks under rights of its own, which see all orders.
    pub fn add_for_all(&mut self, source: u16) -> usize {
        let index = self.histories.len();
        self.histories
            .insert(PartitionId(source), vec![History { epoch: 1, ..History::default() }]);
        let info = BackendInfo {
            source: PartitionId(source),
            role: BackendRole::Master,
            is_indexed: true,
            entitlement: Some(Entitlement::all()),
        };
        let id = self.router.add_backend(info).expect("few sources");
        let (source, kinds) = (PartitionId(source), Kinds::FULL);
        self.followers.push(Follower {
            id,
            source,
            is_up: false,
            history_no: 0,
            fed_count: 0,
            info,
            kinds,
        });
        self.start(index);
        index
    }

    pub fn add_replica(&mut self, source: u16, kinds: Kinds) -> usize {
        self.add(source, BackendRole::Replica, kinds)
    }

    fn add(&mut self, source: u16, role: BackendRole, kinds: Kinds) -> usize {
        let source = PartitionId(source);
        let histories = self
            .histories
            .entry(source)
            .or_insert_with(|| vec![History { epoch: 1, ..History::default() }]);
        let history_no = histories.len() - 1;
        let is_indexed = kinds != Kinds::NONE;
        let info = BackendInfo { source, role, is_indexed, entitlement: None };
        let id = self.router.add_backend(info).expect("few sources");
        self.followers.push(Follower {
            id,
            source,
            is_up: false,
            history_no,
            fed_count: 0,
            info,
            kinds,
        });
        let index = self.followers.len() - 1;
        self.start(index);
        index
    }

    /// Starts an empty store as a follower.
    pub fn start(&mut self, index: usize) {
        self.makers += 1;
        let desk = self.empty_desk(index);
        let follower = &mut self.followers[index];
        (follower.fed_count, follower.is_up) = (0, true);
        follower.history_no = self.histories[&follower.source].len() - 1;
        self.local.insert(follower.id, desk);
        self.router.backend_up(follower.id);
    }

    /// Replaces a store by one that has taken in the same changes. Its fetches are lost, and the
    /// router is not told.
    pub fn replace_quietly(&mut self, index: usize) {
        let before = self.followers[index].clone();
        self.makers += 1;
        let desk = self.empty_desk(index);
        self.local.insert(before.id, desk);
        let desk = self.local.get_mut(before.id).expect("inserted above");
        let history = &self.histories[&before.source][before.history_no];
        history.changes.iter().take(before.fed_count).for_each(|change| take_in(desk, change));
    }

    fn empty_desk(&self, index: usize) -> Desk {
        let follower = &self.followers[index];
        let retention = Retention { count_max: self.retained_max, bytes_max: u64::MAX };
        let config = StoreConfig {
            retention,
            kinds: follower.kinds,
            ..StoreConfig::new(follower.source, Epoch(1))
        };
        Desk::new(DeskConfig::default(), OrderStore::new(config), sealer(self.makers))
    }

    pub fn stop(&mut self, index: usize) {
        let follower = &mut self.followers[index];
        follower.is_up = false;
        self.router.backend_down(follower.id);
        self.local.remove(follower.id);
    }

    pub fn history(&mut self, source: u16) -> &mut History {
        let histories = self.histories.get_mut(&PartitionId(source)).expect("a source");
        histories.last_mut().expect("there is always one")
    }

    /// Adds a change to a source, which its followers have not taken in yet.
    pub fn say(&mut self, source: u16, rec: u64, keys: Keys, status: OrdStatus) -> OrderEvent {
        let time = self.now;
        let history = self.history(source);
        history.seq += 1;
        history.rec = history.rec.max(rec);
        let event = OrderEvent {
            partition_id: PartitionId(source),
            order_id: OrderId::new(PartitionId(source), Rec(rec)),
            transact_time: time,
            ..event(history.seq, rec, keys, status)
        };
        history.changes.push(Change::Order(event));
        event
    }

    /// Lets a follower take in `count` more changes, and switch to the valid history once it has
    /// all of an older one: with an empty store if it had taken in void changes.
    pub fn feed(&mut self, index: usize, count: usize) {
        let follower = &mut self.followers[index];
        let histories = &self.histories[&follower.source];
        let desk = self.local.get_mut(follower.id).expect("it is up");
        let history = &histories[follower.history_no];
        for change in history.changes.iter().skip(follower.fed_count).take(count) {
            take_in(desk, change);
            follower.fed_count += 1;
        }
        if follower.history_no + 1 == histories.len() || follower.fed_count < history.changes.len()
        {
            return;
        }
        let common = common_len(histories, follower.history_no);
        if common < follower.fed_count {
            self.stop(index);
            self.start(index);
        }
        self.followers[index].history_no = self.histories[&self.followers[index].source].len() - 1;
    }

    /// Lets all followers take in all changes.
    pub fn feed_all(&mut self) {
        for index in 0..self.followers.len() {
            while self.followers[index].is_up && !self.is_fed(index) {
                assert!(self.local.get_mut(self.followers[index].id).is_some());
                self.feed(index, usize::MAX);
            }
        }
    }

    pub fn is_fed(&self, index: usize) -> bool {
        let follower = &self.followers[index];
        let histories = &self.histories[&follower.source];
        follower.history_no + 1 == histories.len()
            && follower.fed_count == histories[follower.history_no].changes.len()
    }

    /// Makes the source fail, lose its last `lost_count` changes, and go on in the next epoch.
    pub fn fail(&mut self, source: u16, lost_count: usize) {
        let histories = self.histories.get_mut(&PartitionId(source)).expect("a source");
        let mut history = histories.last().expect("there is always one").clone();
        // The beginning of an epoch is never lost: it was agreed on.
        let is_order = |change: &Change| !matches!(change, Change::Epoch(..));
        for _ in 0..lost_count {
            if history.changes.last().is_some_and(is_order) {
                history.changes.pop();
            }
        }
        history.epoch += 1;
        let head = history.head();
        // Numbers of lost changes are reused for other ones.
        history.seq = head.seq.0;
        let recs = history.changes.iter().map(|change| match change {
            Change::Order(event) => event.rec.0,
            Change::Delete(change_id) | Change::Epoch(_, change_id) => change_id.rec.0,
        });
        history.rec = recs.max().unwrap_or(0);
        history.changes.push(Change::Epoch(Epoch(history.epoch), head));
        histories.push(history);
    }

    pub fn ask(&mut self, connection: u64, fetch: &FetchOrders, token: &[u8]) -> FetchOutcome {
        let entitlement = Entitlement::all();
        self.router
            .ask(&Question { connection, fetch, token, min_token: &[], entitlement }, self.now)
    }

    /// Runs everything that needs no time.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let more = self.local.pump(&mut self.router, self.now);
            let polled = self.router.poll(self.now, &mut self.local, &mut self.sink);
            let is_due = |deadline: Option<Nanos>| deadline.is_some_and(|time| time <= self.now);
            let is_idle =
                !is_due(self.router.next_deadline()) && !is_due(self.local.next_deadline());
            if !more && !polled.has_more && is_idle {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Moves on to the next deadline; false if there is none.
    pub fn advance(&mut self) -> bool {
        let deadlines = [self.router.next_deadline(), self.local.next_deadline()];
        let Some(next) = deadlines.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        self.settle();
        true
    }

    pub fn advance_by(&mut self, span: Nanos) {
        let until = Nanos(self.now.0 + span.0);
        loop {
            let deadlines = [self.router.next_deadline(), self.local.next_deadline()];
            match deadlines.into_iter().flatten().min() {
                Some(next) if next <= until => {
                    self.now = self.now.max(next);
                    self.settle();
                }
                _ => break,
            }
        }
        self.now = until;
        self.settle();
    }

    pub fn answers(&mut self, connection: u64) -> Vec<Answer> {
        answers(&self.sink.out.remove(&connection).unwrap_or_default())
    }

    pub fn answer(&mut self, connection: u64) -> Answer {
        let mut answers = self.answers(connection);
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Fetches, and waits for the answer as long as it takes.
    pub fn fetch(&mut self, fetch: &FetchOrders, token: &[u8]) -> Answer {
        assert_eq!(self.ask(9, fetch, token), FetchOutcome::Accepted);
        self.settle();
        for _ in 0..1_000 {
            if self.sink.out.contains_key(&9) {
                return self.answer(9);
            }
            assert!(self.advance(), "nothing ever answers");
        }
        panic!("no answer");
    }

    /// Reads until a page is ONLINE.
    pub fn fetch_all(&mut self, fetch: &FetchOrders, token: &[u8]) -> (Vec<OrderRow>, Vec<u8>) {
        let (mut rows, mut token) = (Vec::new(), token.to_vec());
        for _ in 0..1_000 {
            let answer = self.fetch(fetch, &token);
            assert_eq!(answer.header.reason, Reason::None);
            let is_online = answer.is(PageFlags::ONLINE);
            rows.extend(answer.rows);
            token = answer.token;
            if is_online {
                return (rows, token);
            }
        }
        panic!("never online");
    }
}

fn take_in(desk: &mut Desk, change: &Change) {
    match change {
        Change::Order(event) => {
            let _ = desk.ingest(event).expect("changes come in order");
        }
        Change::Delete(change_id) => {
            let _ = desk.store_mut().delete(*change_id);
        }
        Change::Epoch(epoch, valid_to) => {
            desk.store_mut().begin_epoch(*epoch, *valid_to).expect("epochs grow");
        }
    }
}

/// Returns the number of changes that a history shares with the valid one.
fn common_len(histories: &[History], no: usize) -> usize {
    let last = histories.last().expect("there is always one");
    let pairs = histories[no].changes.iter().zip(&last.changes);
    pairs.take_while(|(one, other)| one == other).count()
}

/// Returns the pages in the bytes written to a connection.
pub fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::<Answer>::new();
    while let Framing::Frame { len, message } = next_frame(bytes, 1 << 24) {
        match NodeMessage::decode(&message.expect("a header")).expect("a node's message") {
            NodeMessage::OrderPage(header, token) => {
                let (token, rows, sources) = (token.to_vec(), Vec::new(), Vec::new());
                answers.push(Answer { header, token, rows, sources });
            }
            NodeMessage::SourceStates(_, sources) => {
                let answer = answers.last_mut().expect("the header comes first");
                assert!(answer.rows.is_empty(), "they come before the rows");
                let state = sources.map(|state| state.expect("a state decodes"));
                answer.sources = state.map(|state| (state.source_id.0, state.status)).collect();
            }
            NodeMessage::OrderPageBody(_, rows) => {
                let answer = answers.last_mut().expect("the header comes first");
                answer.rows = rows.map(|row| row.expect("a row decodes").0).collect();
            }
            other => panic!("{other:?}"),
        }
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "whole frames only");
    let is_told =
        |answer: &Answer| !answer.is(PageFlags::SOURCE_AWAY) || !answer.sources.is_empty();
    assert!(answers.iter().all(is_told), "who is away is said");
    let is_counted = |answer: &Answer| answer.header.row_count as usize == answer.rows.len();
    assert!(answers.iter().all(is_counted));
    answers
}

/// Returns the cursors in a token.
pub fn cursors(token: &[u8]) -> Vec<SourceCursor> {
    sealer(0).peek(token).expect("a token")
}

pub fn change_id_in(token: &[u8], source: u16) -> ChangeId {
    let cursors = cursors(token);
    cursors
        .iter()
        .find(|at| at.source == PartitionId(source))
        .expect("the source is named")
        .change_id
}

/// Returns a token of these cursors, for readers of everything.
pub fn token_of(cursors: &[(u16, u32, u64, u64)]) -> Vec<u8> {
    let scope = Scope::new(Filter::ALL, Entitlement::all()).expect("all may see all");
    let cursor = |(source, epoch, seq, rec): &(u16, u32, u64, u64)| {
        let change_id = ChangeId::new(Seq(*seq), Rec(*rec));
        SourceCursor::new(PartitionId(*source), Epoch(*epoch), change_id)
    };
    let cursors: Vec<SourceCursor> = cursors.iter().map(cursor).collect();
    let mut token = Vec::new();
    sealer(99).seal(&scope, &cursors, &mut token);
    token
}

/// Asserts that the rows of each source are in the order of their places.
pub fn assert_in_order(rows: &[OrderRow]) {
    let mut last: BTreeMap<PartitionId, ChangeId> = BTreeMap::new();
    for row in rows {
        let before = last.insert(row.order_id.partition(), change_id_of(row));
        assert!(before.is_none_or(|before| before < change_id_of(row)), "{row:?} goes back");
    }
}
