//! A desk whose connections carry several sessions, against a model of their fetches: sessions use
//! the same numbers, log out and on, lose their rights, add credit to each other's fetches and
//! cancel them, while orders change and connections take no data.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::{SOURCE, event, keys};
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, NonceCounter, OrderStore, PageSink, Question,
    StoreConfig, TokenKey, TokenSealer,
};
use weir_types::{
    AccountId, Epoch, FirmId, InstrumentId, Nanos, OrdStatus, PartitionId, Reason, SessionId,
    Switch,
};
use weir_wire::NodeMessage;
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders, OrderPage, OrderRow};
use weir_wire::frame::{Framing, next_frame};

const CONNECTIONS: u64 = 2;
const SESSIONS: u32 = 3;
const NUMBERS: u64 = 2;
const RECORDS: u64 = 8;
/// Longer than the idle wait: every fetch with credit gets a page.
const LONG: u64 = 3_000_000_000;

/// A session's fetch of a number through a connection.
type FetchKey = (u64, SessionId, u64);

#[derive(Clone, Copy, Debug)]
enum Op {
    Ask {
        key: FetchKey,
        pages: u32,
        rows: u32,
    },
    AddCredit {
        key: FetchKey,
        pages: u32,
        rows: u32,
    },
    Cancel {
        key: FetchKey,
    },
    EndSession {
        connection: u64,
        session_id: SessionId,
    },
    DropConnection {
        connection: u64,
    },
    /// A connection takes no data, or takes it again.
    Turn {
        connection: u64,
    },
    Change {
        rec: u64,
        is_end: bool,
    },
    Wait {
        nanos: u64,
    },
}

fn any_key() -> impl Strategy<Value = FetchKey> {
    let session = (1..=SESSIONS).prop_map(SessionId);
    (0..CONNECTIONS, session, 1..=NUMBERS)
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any_key(), 1..5u32, 0..4u32).prop_map(|(key, pages, rows)| Op::Ask {
            key, pages, rows,
        }),
        4 => (any_key(), 0..3u32, 0..3u32).prop_map(|(key, pages, rows)| Op::AddCredit {
            key, pages, rows,
        }),
        2 => any_key().prop_map(|key| Op::Cancel { key }),
        2 => any_key().prop_map(|(connection, session_id, _)| Op::EndSession {
            connection, session_id,
        }),
        1 => (0..CONNECTIONS).prop_map(|connection| Op::DropConnection { connection }),
        1 => (0..CONNECTIONS).prop_map(|connection| Op::Turn { connection }),
        8 => (1..=RECORDS, any::<bool>()).prop_map(|(rec, is_end)| Op::Change { rec, is_end }),
        4 => prop_oneof![Just(1_000_000), Just(LONG)].prop_map(|nanos| Op::Wait { nanos }),
    ]
}

/// A fetch in the model.
#[derive(Clone, Copy, Debug)]
struct Open {
    pages_left: u32,
    rows_left: Option<u32>,
    /// Pages that it was served.
    served: u32,
}

#[derive(Default)]
struct Sink {
    out: Vec<(u64, SessionId, Vec<u8>)>,
    full: Vec<u64>,
}

impl PageSink for Sink {
    fn buffer(&mut self, connection: u64, session_id: SessionId) -> Option<&mut Vec<u8>> {
        if self.full.contains(&connection) {
            return None;
        }
        self.out.push((connection, session_id, Vec::new()));
        self.out.last_mut().map(|(_, _, bytes)| bytes)
    }
}

struct World {
    desk: Desk,
    sink: Sink,
    open: BTreeMap<FetchKey, Open>,
    seq: u64,
    /// Orders that are live.
    live: BTreeMap<u64, u64>,
    next_rec: u64,
    now: Nanos,
}

/// Each session is of a firm of its own.
fn firm_of(session_id: SessionId) -> FirmId {
    FirmId(session_id.0)
}

impl World {
    fn new() -> World {
        let store = OrderStore::new(StoreConfig::new(SOURCE, Epoch(1)));
        let sealer = TokenSealer::new(TokenKey::new(1, &[5; 32]), NonceCounter::new(1, Nanos(1)));
        World {
            desk: Desk::new(DeskConfig::default(), store, sealer),
            sink: Sink::default(),
            open: BTreeMap::new(),
            seq: 0,
            live: BTreeMap::new(),
            next_rec: 0,
            now: Nanos(1_000_000),
        }
    }

    fn ask(&mut self, key: FetchKey, pages: u32, rows: u32) {
        let (connection, session_id, correlation_id) = key;
        // A session that uses a number twice cannot tell the answers apart.
        if self.open.contains_key(&key) {
            return;
        }
        let fetch = FetchOrders {
            correlation_id,
            session_id,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 2,
            rows_min: 1,
            bytes_max: 0,
            wait_max_us: 0,
            credit: pages,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: rows,
            credit_bytes: 0,
        };
        let entitlement = Entitlement::firm(firm_of(session_id));
        let question =
            Question { connection, fetch: &fetch, token: &[], min_token: &[], entitlement };
        assert_eq!(self.desk.ask(&question, self.now), FetchOutcome::Accepted);
        let rows_left = (rows > 0).then_some(rows);
        self.open.insert(key, Open { pages_left: pages, rows_left, served: 0 });
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Ask { key, pages, rows } => self.ask(key, pages, rows),
            Op::AddCredit { key: (connection, session_id, correlation_id), pages, rows } => {
                let more = AddCredit { correlation_id, session_id, pages, rows, bytes: 0 };
                self.desk.add_credit(connection, &more, self.now);
                if let Some(open) = self.open.get_mut(&(connection, session_id, correlation_id)) {
                    open.pages_left += pages;
                    open.rows_left = open.rows_left.map(|left| left + rows);
                }
            }
            Op::Cancel { key: (connection, session_id, correlation_id) } => {
                self.desk.cancel(connection, &CancelFetch { correlation_id, session_id });
                self.open.remove(&(connection, session_id, correlation_id));
            }
            Op::EndSession { connection, session_id } => {
                self.desk.end_session(connection, session_id);
                self.open.retain(|key, _| (key.0, key.1) != (connection, session_id));
            }
            Op::DropConnection { connection } => {
                self.desk.drop_connection(connection);
                self.open.retain(|key, _| key.0 != connection);
            }
            Op::Turn { connection } => self.turn(connection),
            Op::Change { rec, is_end } => self.change(rec, is_end),
            Op::Wait { nanos } => self.now.0 += nanos,
        }
    }

    fn turn(&mut self, connection: u64) {
        if self.sink.full.contains(&connection) {
            self.sink.full.retain(|full| *full != connection);
            self.desk.resume(connection);
        } else {
            self.sink.full.push(connection);
        }
    }

    /// Changes the order in one of the places; it is of the firm of its record.
    fn change(&mut self, place: u64, is_end: bool) {
        let rec = *self.live.entry(place).or_insert_with(|| {
            self.next_rec += 1;
            self.next_rec
        });
        if is_end {
            self.live.remove(&place);
        }
        self.seq += 1;
        let firm = 1 + (rec % u64::from(SESSIONS)) as u32;
        let status = if is_end { OrdStatus::Filled } else { OrdStatus::PartiallyFilled };
        let event = event(self.seq, rec, keys(firm, 1, 1), status);
        let _ = self.desk.ingest(&event).expect("events come in order");
    }

    fn poll(&mut self) {
        while self.desk.poll(self.now, &mut self.sink).has_more {}
        for (connection, session_id, bytes) in std::mem::take(&mut self.sink.out) {
            self.take_page(connection, session_id, &bytes);
        }
        assert_eq!(self.desk.reader_count(), self.open.len(), "open: {:?}", self.open);
    }

    fn take_page(&mut self, connection: u64, session_id: SessionId, bytes: &[u8]) {
        let (page, rows) = page_of(bytes);
        assert_eq!((page.session_id, page.reason), (session_id, Reason::None));
        let firms = rows.iter().map(|row| row.firm_id);
        assert!(firms.into_iter().all(|firm_id| firm_id == firm_of(session_id)), "{rows:?}");
        let key = (connection, session_id, page.correlation_id);
        let open = self.open.get_mut(&key);
        let open = open.unwrap_or_else(|| panic!("a page for {key:?}, which has no fetch"));
        open.pages_left -= 1;
        open.served += 1;
        assert_eq!(page.credit_left, open.pages_left, "{key:?}");
        if let Some(left) = &mut open.rows_left {
            *left = left.checked_sub(page.row_count).expect("no page exceeds the credit");
        }
        if open.pages_left == 0 {
            self.open.remove(&key);
        }
    }

    /// Checks that each fetch that may get a page does.
    fn finish(&mut self) {
        for connection in std::mem::take(&mut self.sink.full) {
            self.desk.resume(connection);
        }
        self.poll();
        let due: Vec<(FetchKey, u32)> = self
            .open
            .iter()
            .filter(|(_, open)| open.rows_left != Some(0))
            .map(|(key, open)| (*key, open.served))
            .collect();
        self.now.0 += LONG;
        self.poll();
        for (key, served) in due {
            let is_served = self.open.get(&key).is_none_or(|open| open.served > served);
            assert!(is_served, "{key:?} got nothing");
        }
    }
}

fn page_of(bytes: &[u8]) -> (OrderPage, Vec<OrderRow>) {
    let (mut rest, mut head, mut rows) = (bytes, None, Vec::new());
    while let Framing::Frame { len, message } = next_frame(rest, 1 << 24) {
        match NodeMessage::decode(&message.expect("a message")).expect("a node's message") {
            NodeMessage::OrderPage(page, _) => head = Some(page),
            NodeMessage::OrderPageBody(_, body) => {
                rows.extend(body.map(|row| row.expect("a row decodes").0));
            }
            other => panic!("{other:?}"),
        }
        rest = &rest[len..];
    }
    assert!(rest.is_empty(), "whole frames only");
    (head.expect("the header comes first"), rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_session_is_served_its_own_fetches_until_it_ends(
        ops in prop::collection::vec(any_op(), 1..120),
    ) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
            world.poll();
        }
        world.finish();
    }
}
