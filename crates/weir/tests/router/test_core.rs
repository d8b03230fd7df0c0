//! An outside core that loses nothing: its orders, and the writer that feeds them to a node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use weir_client::clock::unix_time;
use weir_client::load::Rng;
use weir_client::source::{SourceConfig, SourceEvent, SourceWriter};
use weir_types::{
    AccountId, ClOrdId, Epoch, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, Rec, Role, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::ingest::BatchFlags;

use crate::support::{ALICE, BOB, OPERATOR, Who};

/// The most rows in a batch.
const BATCH_LEN: usize = 50;

/// Returns the session that feeds a source.
pub fn core_of(source: u16) -> Who {
    Who { session_id: SessionId(u32::from(source) + 100), role: Role::Source, ..OPERATOR }
}

pub struct TestCore {
    pub source: PartitionId,
    pub rows: BTreeMap<Rec, OrderRow>,
    epoch: Epoch,
    pub seq: u64,
    /// Changes not yet in a batch.
    pending: Vec<OrderRow>,
    pushed: u64,
    acked: u64,
    writer: SourceWriter,
    pub resend_count: u64,
}

impl TestCore {
    pub fn new(ingest: SocketAddr, source: u16) -> TestCore {
        let (session, source) = (core_of(source), PartitionId(source));
        let config = SourceConfig::full(session.session_id, source, Epoch(1));
        let writer = SourceWriter::new(ingest, session.patient_config(), config);
        let mut core = TestCore {
            source,
            rows: BTreeMap::new(),
            epoch: Epoch(1),
            seq: 0,
            pending: Vec::new(),
            pushed: 0,
            acked: 0,
            writer,
            resend_count: 0,
        };
        core.resend();
        core
    }

    /// Adds an order of one of two firms, or changes one.
    pub fn trade(&mut self, rng: &mut Rng) {
        self.seq += 1;
        let picked = Rec(1 + rng.below(self.rows.len().max(1) as u64));
        let row = match self.rows.get(&picked) {
            Some(row) if rng.below(3) > 0 => {
                let is_over = rng.below(4) == 0;
                let status = if is_over { OrdStatus::Filled } else { OrdStatus::PartiallyFilled };
                let price = Price(100 + self.seq.cast_signed());
                OrderRow { seq: Seq(self.seq), price, ord_status: status, ..*row }
            }
            _ => {
                let rec = Rec(self.rows.len() as u64 + 1);
                let who = if rec.0.is_multiple_of(2) { ALICE } else { BOB };
                new_row(self.source, Seq(self.seq), rec, who)
            }
        };
        self.rows.insert(row.rec, OrderRow { transact_time: time_of(self.seq), ..row });
        self.pending.push(self.rows[&row.rec]);
    }

    /// Adds an order that ends at once.
    pub fn pass(&mut self) {
        self.seq += 1;
        let rec = Rec(self.rows.len() as u64 + 1);
        let row = new_row(self.source, Seq(self.seq), rec, ALICE);
        let row = OrderRow { ord_status: OrdStatus::Canceled, leaves_qty: Qty::ZERO, ..row };
        self.rows.insert(rec, row);
        self.pending.push(row);
    }

    /// Sends all orders again in a full resend.
    fn resend(&mut self) {
        self.pending.clear();
        (self.pushed, self.acked) = (0, 0);
        let mut rows: Vec<OrderRow> = self.rows.values().copied().collect();
        rows.sort_by_key(|row| (row.seq, row.rec));
        let batches: Vec<&[OrderRow]> = rows.chunks(BATCH_LEN).collect();
        let count = batches.len().max(1);
        for index in 0..count {
            let mut flags = BatchFlags::default();
            if index == 0 {
                flags = flags.with(BatchFlags::RESEND_BEGIN);
            }
            if index + 1 == count {
                flags = flags.with(BatchFlags::RESEND_END);
            }
            push(&mut self.writer, batches.get(index).copied().unwrap_or(&[]), flags);
            self.pushed += 1;
        }
        // The end of a resend takes a sequence number too.
        self.seq += 1;
    }

    /// Sends pending changes and handles the node's messages; the node may be away.
    pub fn pump(&mut self, timeout: Duration) {
        while !self.pending.is_empty() {
            let rest = self.pending.split_off(self.pending.len().min(BATCH_LEN));
            push(&mut self.writer, &self.pending, BatchFlags::default());
            self.pending = rest;
            self.pushed += 1;
        }
        let mut is_lost = false;
        let acked = &mut self.acked;
        let polled = self.writer.poll(timeout, |event| match event {
            SourceEvent::Acknowledged(batch_no) => *acked = (*acked).max(batch_no.0),
            SourceEvent::Refused(reject) if reject.reason == Reason::ResendNeeded => is_lost = true,
            SourceEvent::Refused(reject) => panic!("{reject:?}"),
            SourceEvent::Opened { .. } | SourceEvent::SentAgain { .. } | SourceEvent::NotOurs => {}
        });
        if is_lost || polled.is_err() {
            // The node was killed and has lost its store.
            let session_id = core_of(self.source.0).session_id;
            self.writer.begin(SourceConfig::full(session_id, self.source, self.epoch));
            self.resend_count += 1;
            self.resend();
        }
    }

    /// Returns whether the node has acknowledged everything.
    pub fn is_fed(&self) -> bool {
        self.pending.is_empty() && self.acked == self.pushed
    }

    /// Moves the source to another node, which receives everything from the beginning.
    pub fn move_to(&mut self, ingest: SocketAddr) {
        let session = core_of(self.source.0);
        let config = SourceConfig::full(session.session_id, self.source, self.epoch);
        self.writer = SourceWriter::new(ingest, session.patient_config(), config);
        self.resend();
    }
}

/// Returns a change's time. All cores of a test program share the starting time, which is today's:
/// orders older than a day are not kept.
fn time_of(seq: u64) -> Nanos {
    static BEGUN: OnceLock<Nanos> = OnceLock::new();
    Nanos(BEGUN.get_or_init(unix_time).0 + seq * 1_000_000)
}

fn push(writer: &mut SourceWriter, rows: &[OrderRow], flags: BatchFlags) {
    let rows: Vec<(OrderRow, &[u8])> = rows.iter().map(|row| (*row, &[][..])).collect();
    let _ = writer.push(&rows, flags).expect("few rows wait");
}

fn new_row(source: PartitionId, seq: Seq, rec: Rec, who: Who) -> OrderRow {
    OrderRow {
        rec,
        seq,
        order_id: OrderId::new(source, rec),
        transact_time: time_of(seq.0),
        created_time: Nanos(seq.0),
        cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty::ZERO,
        order_qty: Qty(10),
        leaves_qty: Qty(10),
        cum_qty: Qty::ZERO,
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(1),
        firm_id: FirmId(who.firm_id.0),
        account_id: AccountId(who.account_id.0),
        instrument_id: InstrumentId(1),
        partition_id: source,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::New,
        ord_status: OrdStatus::New,
        flags: RowFlags::default(),
        display_qty: Qty::ZERO,
    }
}
