//! Newcomers in their first copy, at two stores with other limits on ended orders, one of which
//! lags: none is refused while its floor is not above the change at which the newcomer began, and
//! each ends with the live orders of its filter.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::{SOURCE, event, keys};
use weir_delivery::filter::Keys;
use weir_delivery::model::{Model, is_live};
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, Filter, NonceCounter, OrderStore, PageSink,
    Question, Retention, StoreConfig, TokenKey, TokenSealer,
};
use weir_types::{ChangeId, Epoch, Nanos, OrdStatus, PartitionId, Reason, Rec, SessionId, Switch};
use weir_wire::NodeMessage;
use weir_wire::delivery::{FetchOrders, OrderRow, PageFlags, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, next_frame};

#[derive(Clone, Debug)]
enum Op {
    Insert(Keys),
    /// A change of a live order, perhaps its end, perhaps of other keys.
    Change {
        pick: usize,
        ends: bool,
        keys: Option<Keys>,
    },
    /// The ends of the oldest live orders, all at one `seq`.
    EndMany(usize),
    /// The store that lags takes some of the changes that it lacks.
    Follow(usize),
    /// A newcomer goes on at the first store, or at the one that lags.
    Read {
        reader: usize,
        at_lagging: bool,
        rows_max: u32,
    },
    /// A newcomer begins again.
    Begin {
        reader: usize,
    },
}

fn any_keys() -> impl Strategy<Value = Keys> {
    (1..3u32, 1..3u32, 1..3u32)
        .prop_map(|(firm, account, instrument)| keys(firm, account, instrument))
}

fn any_filter() -> impl Strategy<Value = Filter> {
    (0..3u32, 0..3u32, 0..3u32, any::<bool>()).prop_map(|(firm, account, instrument, live_only)| {
        let Keys { firm_id, account_id, instrument_id } = keys(firm, account, instrument);
        Filter { firm_id, account_id, instrument_id, live_only }
    })
}

fn any_step() -> impl Strategy<Value = Op> {
    let pick = 0..1_000_000usize;
    prop_oneof![
        5 => any_keys().prop_map(Op::Insert),
        5 => (pick, prop::bool::weighted(0.6), prop::option::weighted(0.2, any_keys()))
            .prop_map(|(pick, ends, keys)| Op::Change { pick, ends, keys }),
        1 => (2..9usize).prop_map(Op::EndMany),
        2 => (1..9usize).prop_map(Op::Follow),
        8 => (0..3usize, prop::bool::weighted(0.3), 1..4u32)
            .prop_map(|(reader, at_lagging, rows_max)| Op::Read { reader, at_lagging, rows_max }),
        1 => (0..3usize).prop_map(|reader| Op::Begin { reader }),
    ]
}

#[derive(Default)]
struct Sink(Vec<u8>);

impl PageSink for Sink {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

struct Newcomer {
    filter: Filter,
    token: Vec<u8>,
    mirror: BTreeMap<Rec, OrderRow>,
}

struct World {
    desks: [Desk; 2],
    events: Vec<OrderEvent>,
    /// The number of events that the store that lags has.
    followed: usize,
    live: Vec<(u64, Keys)>,
    seq: u64,
    rec: u64,
    now: u64,
    /// Opens the tokens of both.
    sealer: TokenSealer,
}

fn sealer(maker: u32) -> TokenSealer {
    TokenSealer::new(TokenKey::new(1, &[5; 32]), NonceCounter::new(maker, Nanos(1)))
}

fn fetch_of(filter: &Filter, rows_max: u32) -> FetchOrders {
    FetchOrders {
        correlation_id: 1,
        session_id: SessionId(4),
        firm_id: filter.firm_id,
        account_id: filter.account_id,
        instrument_id: filter.instrument_id,
        rows_max,
        rows_min: 0,
        bytes_max: 0,
        wait_max_us: 0,
        credit: 1,
        live_only: if filter.live_only { Switch::On } else { Switch::Off },
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

impl World {
    fn new(retained_max: [u32; 2]) -> World {
        let desk = |at: usize| {
            let retention = Retention { count_max: retained_max[at], bytes_max: u64::MAX };
            let config = StoreConfig { retention, ..StoreConfig::new(SOURCE, Epoch(1)) };
            let maker = u32::try_from(at).unwrap() + 1;
            Desk::new(DeskConfig::default(), OrderStore::new(config), sealer(maker))
        };
        World {
            desks: [desk(0), desk(1)],
            events: Vec::new(),
            followed: 0,
            live: Vec::new(),
            seq: 0,
            rec: 0,
            now: 1,
            sealer: sealer(3),
        }
    }

    fn say(&mut self, rec: u64, keys: Keys, status: OrdStatus) {
        self.seq += 1;
        self.say_at_same_seq(rec, keys, status);
    }

    fn say_at_same_seq(&mut self, rec: u64, keys: Keys, status: OrdStatus) {
        let event = event(self.seq, rec, keys, status);
        let _ = self.desks[0].ingest(&event).expect("events come in order");
        self.events.push(event);
    }

    fn insert(&mut self, keys: Keys) {
        self.rec += 1;
        self.live.push((self.rec, keys));
        self.say(self.rec, keys, OrdStatus::New);
    }

    fn change(&mut self, pick: usize, ends: bool, keys: Option<Keys>) {
        let Some(at) = pick.checked_rem(self.live.len()) else { return };
        let (rec, before) = self.live[at];
        let keys = keys.unwrap_or(before);
        if ends {
            self.live.swap_remove(at);
        } else {
            self.live[at].1 = keys;
        }
        self.say(rec, keys, if ends { OrdStatus::Filled } else { OrdStatus::PartiallyFilled });
    }

    fn end_many(&mut self, count: usize) {
        self.live.sort_unstable_by_key(|(rec, _)| *rec);
        let ended: Vec<_> = self.live.drain(..count.min(self.live.len())).collect();
        self.seq += 1;
        for (rec, keys) in ended {
            self.say_at_same_seq(rec, keys, OrdStatus::Filled);
        }
    }

    fn follow(&mut self, count: usize) {
        for event in self.events.iter().skip(self.followed).take(count) {
            let _ = self.desks[1].ingest(event).expect("events come in order");
        }
        self.followed = self.events.len().min(self.followed.saturating_add(count));
    }

    /// Reads a page; true when it is ONLINE at a store that has all.
    fn read(&mut self, reader: &mut Newcomer, at_lagging: bool, rows_max: u32) -> bool {
        self.now += 10_000_000_000;
        let desk = &mut self.desks[usize::from(at_lagging)];
        let question = Question {
            connection: 1,
            fetch: &fetch_of(&reader.filter, rows_max),
            token: &reader.token,
            min_token: &[],
            entitlement: Entitlement::all(),
        };
        assert_eq!(desk.ask(&question, Nanos(self.now)), FetchOutcome::Accepted);
        let mut sink = Sink::default();
        while sink.0.is_empty() {
            self.now += 10_000_000_000;
            let _ = desk.poll(Nanos(self.now), &mut sink);
        }
        let floor = desk.store().floor_of(&reader.filter);
        self.take(reader, &sink.0, floor)
    }

    fn take(&self, reader: &mut Newcomer, mut bytes: &[u8], floor: ChangeId) -> bool {
        let mut is_online = false;
        while let Framing::Frame { len, message } = next_frame(bytes, 1 << 24) {
            match NodeMessage::decode(&message.unwrap()).unwrap() {
                NodeMessage::OrderPage(page, token) => {
                    if page.reason != Reason::None {
                        assert_eq!(page.reason, Reason::ResyncFloor);
                        let since = self.sealer.peek(&reader.token).unwrap()[0].since;
                        assert!(floor > since, "the floor {floor:?} is not above {since:?}");
                        reader.mirror.clear();
                    }
                    reader.token = token.to_vec();
                    is_online = page.flags.contains(PageFlags::ONLINE);
                }
                NodeMessage::OrderPageBody(_, rows) => {
                    for (row, _) in rows.map(Result::unwrap) {
                        match row.flags == RowFlags::default() {
                            true => _ = reader.mirror.insert(row.rec, row),
                            false => _ = reader.mirror.remove(&row.rec),
                        }
                    }
                }
                other => panic!("{other:?}"),
            }
            bytes = &bytes[len..];
        }
        is_online
    }

    /// Lets a newcomer read to the end at a store, and checks its live orders.
    fn read_all(&mut self, reader: &mut Newcomer, at_lagging: bool) {
        let is_online = (0..1_000).any(|_| self.read(reader, at_lagging, 2));
        assert!(is_online, "a first copy never ends");
        let mut model = Model::default();
        self.events.iter().for_each(|event| model.ingest(event));
        let strip = |row: &OrderRow| OrderRow { merged_count: 0, ..*row };
        let has: Vec<_> = reader.mirror.values().filter(|row| is_live(row)).map(strip).collect();
        let want: Vec<_> = model.live(&reader.filter).values().map(strip).collect();
        assert_eq!(has, want, "{:?}", reader.filter);
    }
}

fn run(steps: Vec<Op>, filters: [Filter; 3], retained_max: [u32; 2]) {
    let mut world = World::new(retained_max);
    let begin = |filter: Filter| Newcomer { filter, token: Vec::new(), mirror: BTreeMap::new() };
    let mut readers = filters.map(begin);
    for step in steps {
        match step {
            Op::Insert(keys) => world.insert(keys),
            Op::Change { pick, ends, keys } => world.change(pick, ends, keys),
            Op::EndMany(count) => world.end_many(count),
            Op::Follow(count) => world.follow(count),
            Op::Read { reader, at_lagging, rows_max } => {
                world.read(&mut readers[reader], at_lagging, rows_max);
            }
            Op::Begin { reader } => readers[reader] = begin(filters[reader]),
        }
    }
    world.follow(usize::MAX);
    for reader in &mut readers {
        world.read_all(reader, true);
        world.read_all(reader, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_newcomer_is_not_refused_while_the_floor_is_not_above_its_beginning(
        steps in prop::collection::vec(any_step(), 1..150),
        filters in [any_filter(), any_filter(), any_filter()],
        retained_max in [2..8u32, 2..8u32],
    ) {
        run(steps, filters, retained_max);
    }
}
