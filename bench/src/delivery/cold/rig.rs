//! The store's desk with the archive behind it, as in the delivery agent, and its readers.

use std::sync::Arc;

use anyhow::Context;
use weir_cold::ColdConfig;
use weir_delivery::{
    Desk, DeskConfig, Entitlement, FetchOutcome, Kinds, NonceCounter, OrderStore, PageSink,
    Question, Retention, StoreConfig, TokenKey, TokenSealer,
};
use weir_io::{Clock, SystemClock};
use weir_orderstate::cold::agent::pace_of;
use weir_orderstate::cold::{ArchiveSender, ColdAgent, ColdFigures, ColdParts};
use weir_runtime::{Runner, RunningThread, WaitStrategy, Wake};
use weir_types::*;
use weir_wire::Message;
use weir_wire::delivery::{FetchOrders, OrderPage, OrderRow, PageFlags};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{Framing, next_frame};

use super::flow::{self, Chance};
use super::{ColdArgs, SOURCE};

/// The number of live orders, which include those that change during the runs.
const LIVE: u64 = 200_000;

pub(super) struct Rig {
    pub(super) desk: Desk,
    sender: ArchiveSender,
    pub(super) figures: Arc<ColdFigures>,
    chance: Chance,
    text: Vec<u8>,
    attributes: usize,
    seq: u64,
}

/// Pages by connection.
#[derive(Default)]
pub(super) struct Sink(Vec<(u64, Vec<u8>)>);

impl PageSink for Sink {
    fn buffer(&mut self, connection: u64, _session_id: SessionId) -> Option<&mut Vec<u8>> {
        self.0.push((connection, Vec::new()));
        self.0.last_mut().map(|(_, bytes)| bytes)
    }
}

/// The fields of a page's header that a reader needs.
pub(super) struct ReceivedPage {
    pub(super) connection: u64,
    pub(super) token: Vec<u8>,
    pub(super) row_count: u32,
    pub(super) is_online: bool,
}

fn sealer(maker: u32) -> TokenSealer {
    TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(maker, SystemClock.now()))
}

fn now() -> Nanos {
    SystemClock.now()
}

impl Rig {
    /// Creates an empty store and an archive in `dir`, and the wake of the archive's thread.
    pub(super) fn new(args: &ColdArgs, dir: &std::path::Path) -> anyhow::Result<(Rig, Wake)> {
        let figures = Arc::<ColdFigures>::default();
        let wake = Wake::new();
        let config = ColdConfig { keep_for: Nanos(u64::MAX), ..ColdConfig::new(SOURCE, Epoch(1)) };
        let parts = ColdParts {
            dir: dir.to_owned(),
            config,
            pace: pace_of(args.pace),
            readers_max: 64,
            sealer: sealer(2),
            store: Wake::new(),
            wake: wake.clone(),
            figures: figures.clone(),
        };
        let (port, agent) = ColdAgent::open(parts, &mut Vec::new())?;
        let sender = ArchiveSender::new(port, agent);
        let retention = Retention { count_max: args.kept, bytes_max: u64::MAX };
        let config = StoreConfig::new(SOURCE, Epoch(1));
        let store = OrderStore::new(StoreConfig { retention, kinds: Kinds::FULL, ..config });
        let mut desk = Desk::new(DeskConfig::default(), store, sealer(1));
        desk.keep_older(sender.out_max());
        let (chance, text, attributes) = (Chance(1), Vec::new(), args.attributes);
        Ok((Rig { desk, sender, figures, chance, text, attributes, seq: 0 }, wake))
    }

    fn say(&mut self, rec: u64, status: OrdStatus) {
        self.seq += 1;
        let row = flow::row(self.seq, rec, status, &mut self.chance);
        let mut block = Vec::with_capacity(OrderRow::BLOCK_LENGTH);
        row.encode_block(&mut block);
        flow::attributes(self.attributes, &mut self.chance, &mut self.text);
        let taken = self.desk.store_mut().ingest_row(&block, &self.text);
        let _ = taken.expect("it is a row");
    }

    /// Feeds `rows` orders: the first of the day stay live, the others end at once.
    pub(super) fn fill(&mut self, rows: u64) {
        for at in 0..rows {
            let rec = self.seq + 1;
            let status = if rec <= LIVE { OrdStatus::New } else { OrdStatus::Canceled };
            self.say(rec, status);
            if at % 128 == 0 {
                self.sender.send_at_start(self.desk.store_mut());
            }
        }
    }

    /// The number of changes so far.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Starts the archive's thread, once the store is full.
    pub(super) fn start(&mut self, wake: Wake) -> anyhow::Result<RunningThread> {
        let agent = self.sender.take_agent();
        let runner = Runner::new("cold", wake, WaitStrategy::Park)
            .sharing(weir_orderstate::cold::COLD_SHARE)
            .giving_way()
            .with_agent(agent);
        runner.start().context("there is no thread for the archive")
    }

    /// Feeds a change of a live order.
    pub(super) fn change(&mut self) {
        let rec = 1 + self.chance.below(LIVE);
        self.say(rec, OrdStatus::New);
    }

    pub(super) fn ask(&mut self, connection: u64, token: &[u8], rows_max: u32, firm: u32) {
        let fetch = FetchOrders {
            correlation_id: 1,
            session_id: SessionId(1),
            firm_id: FirmId(firm),
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
        let entitlement = Entitlement::all();
        let question = Question { connection, fetch: &fetch, token, min_token: &[], entitlement };
        assert_eq!(self.desk.ask(&question, now()), FetchOutcome::Accepted);
    }

    /// Runs a duty cycle like the delivery agent's; returns the pages that arrived.
    pub(super) fn cycle(&mut self) -> Vec<ReceivedPage> {
        let at = now();
        let _ = self.sender.send(self.desk.store_mut(), at);
        self.sender.take_answers(&mut self.desk);
        let mut sink = Sink::default();
        let _ = self.desk.poll(at, &mut sink);
        self.sender.ask(&mut self.desk);
        sink.0.iter().map(|(connection, bytes)| got(*connection, bytes)).collect()
    }
}

fn got(connection: u64, bytes: &[u8]) -> ReceivedPage {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(bytes, 1 << 24) else {
        unreachable!("the desk writes whole frames");
    };
    let Ok(NodeMessage::OrderPage(page, token)) = NodeMessage::decode(&raw) else {
        unreachable!("a page begins with its header");
    };
    let OrderPage { row_count, flags, reason, .. } = page;
    assert_eq!(reason, Reason::None, "no reader is refused");
    let is_online = flags.contains(PageFlags::ONLINE);
    ReceivedPage { connection, token: token.to_vec(), row_count, is_online }
}
