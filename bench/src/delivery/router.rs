//! `weir-bench delivery-router`: the cost of a router over 1, 2, 4 and 8 sources in one process,
//! compared with one desk that has the same orders and is asked directly, in the same rounds.
//!
//! * `live`: one order changes, the page with it comes, the next fetch follows. Nanoseconds of one
//!   thread per change, the change itself included, and duty cycles until the page is there.
//! * `full`: 50 orders change, alternating over the sources, and one page of 50 rows comes.
//! * `copy`: a first copy of all orders in pages of 1,000. Rows per second and core.
//!
//! The two sides alternate, and so does the side that goes first; figures are medians, ratios are
//! medians of the rounds' ratios.

use std::hint::black_box;
use std::time::Instant;

use weir_delivery::router::LocalBackends;
use weir_delivery::{
    BackendInfo, BackendRole, Desk, DeskConfig, Entitlement, FetchOutcome, Kinds, NonceCounter,
    OrderStore, PageSink, Question, Router, RouterConfig, StoreConfig, TokenKey, TokenSealer,
};
use weir_types::{
    AccountId, Epoch, FirmId, InstrumentId, Nanos, OrdStatus, OrderId, PartitionId, Reason, Rec,
    SessionId, Switch,
};
use weir_wire::NodeMessage;
use weir_wire::delivery::{FetchOrders, OrderPage, PageFlags};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, next_frame};

use super::support::{event, keys};

const ORDERS: u64 = 80_000;
const ROUNDS: usize = 15;
const LIVE_CHANGES: u64 = 4_000;
const FULL_PAGES: u64 = 400;
const FULL_ROWS: u64 = 50;
const CYCLES_MAX: u32 = 1_000;

fn fetch(rows_max: u32, rows_min: u32) -> FetchOrders {
    FetchOrders {
        correlation_id: 1,
        session_id: SessionId(1),
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        rows_max,
        rows_min,
        bytes_max: 0,
        wait_max_us: 500,
        credit: 1,
        live_only: Switch::Off,
        source_id: PartitionId::NONE,
        min_wait_us: 0,
        credit_rows: 0,
        credit_bytes: 0,
    }
}

#[derive(Default)]
struct Sink(Vec<u8>);

impl PageSink for Sink {
    fn buffer(&mut self, _connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

fn sealer(maker: u32) -> TokenSealer {
    TokenSealer::new(TokenKey::new(1, &[5; 32]), NonceCounter::new(maker, Nanos(1)))
}

fn desk(source: u16) -> Desk {
    let config = StoreConfig::new(PartitionId(source), Epoch(1));
    let config = StoreConfig { kinds: Kinds::FULL, ..config };
    Desk::new(DeskConfig::default(), OrderStore::new(config), sealer(u32::from(source)))
}

/// The service under test: one desk, or a router over several.
trait Service {
    fn ingest(&mut self, source: u16, event: &OrderEvent);
    fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome;
    /// Runs one duty cycle.
    fn cycle(&mut self, now: Nanos, sink: &mut Sink);
}

struct Direct(Desk);

impl Service for Direct {
    fn ingest(&mut self, _source: u16, event: &OrderEvent) {
        let _ = self.0.ingest(event).expect("events are in order");
    }

    fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome {
        self.0.ask(question, now)
    }

    fn cycle(&mut self, now: Nanos, sink: &mut Sink) {
        black_box(self.0.poll(now, sink));
    }
}

struct Routed {
    router: Router,
    local: LocalBackends,
    ids: Vec<weir_delivery::BackendId>,
}

impl Routed {
    fn new(source_count: u16) -> Routed {
        let mut router = Router::new(RouterConfig::default(), sealer(1_000));
        let mut local = LocalBackends::default();
        let mut ids = Vec::new();
        for source in 1..=source_count {
            let id = router.add_backend(BackendInfo {
                source: PartitionId(source),
                role: BackendRole::Master,
                is_indexed: true,
                entitlement: None,
            });
            let id = id.expect("few sources");
            local.insert(id, desk(source));
            router.backend_up(id);
            ids.push(id);
        }
        Routed { router, local, ids }
    }
}

impl Service for Routed {
    fn ingest(&mut self, source: u16, event: &OrderEvent) {
        let id = self.ids[usize::from(source) - 1];
        let desk = self.local.get_mut(id).expect("inserted");
        let _ = desk.ingest(event).expect("events are in order");
    }

    fn ask(&mut self, question: &Question<'_>, now: Nanos) -> FetchOutcome {
        self.router.ask(question, now)
    }

    fn cycle(&mut self, now: Nanos, sink: &mut Sink) {
        black_box(self.local.pump(&mut self.router, now));
        black_box(self.router.poll(now, &mut self.local, sink));
    }
}

/// A service with its orders, and one reader of all orders.
struct Side {
    service: Box<dyn Service>,
    source_count: u16,
    seqs: Vec<u64>,
    turn: u64,
    now: Nanos,
    sink: Sink,
    token: Vec<u8>,
    cycle_count: u64,
    page_count: u64,
}

impl Side {
    fn new(service: Box<dyn Service>, source_count: u16) -> Side {
        let mut side = Side {
            service,
            source_count,
            seqs: vec![0; usize::from(source_count)],
            turn: 0,
            now: Nanos(1_000_000),
            sink: Sink::default(),
            token: Vec::new(),
            cycle_count: 0,
            page_count: 0,
        };
        (0..ORDERS).for_each(|_| side.change(OrdStatus::New));
        side
    }

    /// Makes the next change, alternating over the sources and over their orders.
    fn change(&mut self, status: OrdStatus) {
        let sources = u64::from(self.source_count);
        let source = (self.turn % sources) as u16 + 1;
        let rec = self.turn / sources % (ORDERS / sources) + 1;
        self.turn += 1;
        let seq = &mut self.seqs[usize::from(source) - 1];
        *seq += 1;
        let firm = (rec % 200) as u32 + 1;
        let event = OrderEvent {
            partition_id: PartitionId(source),
            order_id: OrderId::new(PartitionId(source), Rec(rec)),
            transact_time: self.now,
            ..event(*seq, rec, keys(firm, firm * 7, (rec % 500) as u32 + 1), status)
        };
        self.service.ingest(source, &event);
    }

    fn ask(&mut self, rows_max: u32, rows_min: u32) {
        let fetch = fetch(rows_max, rows_min);
        let entitlement = Entitlement::all();
        let question = Question {
            connection: 1,
            fetch: &fetch,
            token: &self.token,
            min_token: &[],
            entitlement,
        };
        assert_eq!(self.service.ask(&question, self.now), FetchOutcome::Accepted);
    }

    /// Runs until a page is there, and keeps its token.
    fn page(&mut self) -> OrderPage {
        for _ in 0..CYCLES_MAX {
            self.now = Nanos(self.now.0 + 1_000);
            self.cycle_count += 1;
            self.service.cycle(self.now, &mut self.sink);
            if self.sink.0.is_empty() {
                continue;
            }
            self.page_count += 1;
            let Framing::Frame { message, .. } = next_frame(&self.sink.0, 1 << 24) else {
                panic!("whole frames only");
            };
            let raw = message.expect("a header");
            let Ok(NodeMessage::OrderPage(page, token)) = NodeMessage::decode(&raw) else {
                panic!("the header comes first");
            };
            assert_eq!(page.reason, Reason::None);
            self.token.clear();
            self.token.extend_from_slice(token);
            self.sink.0.clear();
            return page;
        }
        panic!("no page in {CYCLES_MAX} cycles");
    }

    /// Reads until a page is ONLINE.
    fn catch_up(&mut self, rows_max: u32) -> u64 {
        // There may be nothing to read, but not after a page that was cut.
        let mut rows_min = u32::from(self.token.is_empty());
        let mut row_count = 0;
        loop {
            self.ask(rows_max, rows_min);
            rows_min = 1;
            let page = self.page();
            row_count += u64::from(page.row_count);
            if page.flags.contains(PageFlags::ONLINE) {
                return row_count;
            }
        }
    }

    /// Returns the nanoseconds per change, each with its own page.
    fn live(&mut self) -> f64 {
        self.catch_up(1_000);
        self.ask(0, 1);
        self.service.cycle(self.now, &mut self.sink);
        let start = Instant::now();
        for _ in 0..LIVE_CHANGES {
            self.change(OrdStatus::PartiallyFilled);
            assert_eq!(self.page().row_count, 1);
            self.ask(0, 1);
        }
        let ns = start.elapsed().as_nanos() as f64;
        self.finish();
        ns / LIVE_CHANGES as f64
    }

    /// Returns the nanoseconds per row in pages of 50.
    fn full(&mut self) -> f64 {
        self.catch_up(1_000);
        let start = Instant::now();
        let mut row_count = 0;
        for _ in 0..FULL_PAGES {
            (0..FULL_ROWS).for_each(|_| self.change(OrdStatus::PartiallyFilled));
            self.ask(FULL_ROWS as u32, 1);
            row_count += u64::from(self.page().row_count);
        }
        row_count += self.catch_up(FULL_ROWS as u32);
        assert_eq!(row_count, FULL_PAGES * FULL_ROWS);
        start.elapsed().as_nanos() as f64 / row_count as f64
    }

    /// Answers the outstanding fetch.
    fn finish(&mut self) {
        self.change(OrdStatus::PartiallyFilled);
        let _ = self.page();
    }

    /// Returns the nanoseconds per row of a first copy.
    fn copy(&mut self) -> f64 {
        self.token.clear();
        let start = Instant::now();
        assert_eq!(self.catch_up(1_000), ORDERS);
        start.elapsed().as_nanos() as f64 / ORDERS as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures a figure of both sides alternately: medians of direct and routed, and of their ratio.
fn compare(sides: &mut [Side; 2], figure: fn(&mut Side) -> f64) -> [f64; 3] {
    let mut values: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let first = round % 2;
        let mut of_round = [0.0; 2];
        for which in [first, 1 - first] {
            of_round[which] = figure(&mut sides[which]);
        }
        let [direct, routed] = of_round;
        values[0].push(direct);
        values[1].push(routed);
        values[2].push(routed / direct);
    }
    values.map(median)
}

fn cycles_per_page(side: &mut Side) -> f64 {
    (side.cycle_count, side.page_count) = (0, 0);
    side.live();
    side.cycle_count as f64 / side.page_count as f64
}

/// Runs the benchmark.
pub fn run() -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for source_count in [1, 2, 4, 8] {
        let direct = Side::new(Box::new(Direct(desk(1))), 1);
        let routed = Side::new(Box::new(Routed::new(source_count)), source_count);
        let mut sides = [direct, routed];
        let live = compare(&mut sides, Side::live);
        let full = compare(&mut sides, Side::full);
        let copy = compare(&mut sides, Side::copy);
        let [one, other] = sides.each_mut().map(cycles_per_page);
        lines.push(format!(
            "{{\"sources\":{source_count},\
             \"live_direct_ns\":{:.0},\"live_routed_ns\":{:.0},\"live_added_ns\":{:.0},\
             \"cycles_direct\":{one:.2},\"cycles_routed\":{other:.2},\
             \"full_direct_rows_per_s\":{:.0},\"full_routed_rows_per_s\":{:.0},\
             \"full_ratio\":{:.2},\"copy_direct_rows_per_s\":{:.0},\
             \"copy_routed_rows_per_s\":{:.0},\"copy_ratio\":{:.2}}}",
            live[0],
            live[1],
            live[1] - live[0],
            1e9 / full[0],
            1e9 / full[1],
            full[2],
            1e9 / copy[0],
            1e9 / copy[1],
            copy[2],
        ));
    }
    println!(
        "{{\"orders\":{ORDERS},\"rounds\":{ROUNDS},\"live_changes\":{LIVE_CHANGES},\
         \"full_page_rows\":{FULL_ROWS},\"over\":[{}]}}",
        lines.join(",")
    );
    Ok(())
}
