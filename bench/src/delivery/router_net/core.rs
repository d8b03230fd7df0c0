//! The benchmark's outside core: enters all orders, then changes one at a time.

use std::net::SocketAddr;
use std::time::Duration;

use weir_client::SessionConfig;
use weir_client::source::{SourceConfig, SourceEvent, SourceWriter};
use weir_types::{
    AccountId, ClOrdId, Epoch, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::ingest::BatchFlags;

use super::key_of;

/// The number of rows in a batch while orders are entered.
const BATCH_LEN: u32 = 50;
/// The number of polls without an acknowledgement after which the node counts as gone.
const TURNS_MAX: u32 = 60_000;

/// The session that feeds a source.
pub(super) fn session_of(source: u16) -> SessionId {
    SessionId(u32::from(source) + 100)
}

pub(super) struct Core {
    source: PartitionId,
    writer: SourceWriter,
    seq: u64,
    order_count: u64,
    pushed: u64,
    acked: u64,
}

impl Core {
    pub(super) fn new(ingest: SocketAddr, source: u16) -> anyhow::Result<Core> {
        let session_id = session_of(source);
        let session = SessionConfig {
            heartbeat_interval_ms: 60_000,
            ..SessionConfig::new(session_id, key_of(session_id))
        };
        let config = SourceConfig::full(session_id, PartitionId(source), Epoch(1));
        let writer = SourceWriter::new(ingest, session, config);
        let source = PartitionId(source);
        let mut core = Core { source, writer, seq: 1, order_count: 0, pushed: 0, acked: 0 };
        let flags = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
        core.push(&[], flags)?;
        Ok(core)
    }

    /// Enters `count` orders and waits until the node has them.
    pub(super) fn enter(&mut self, count: u32) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            let len = left.min(BATCH_LEN);
            let rows: Vec<OrderRow> = (0..len).map(|_| self.new_row()).collect();
            self.push(&rows, BatchFlags::default())?;
            left -= len;
            if self.pushed - self.acked > 64 {
                self.turn(Duration::from_millis(1))?;
            }
        }
        for _ in 0..TURNS_MAX {
            if self.acked == self.pushed {
                return Ok(());
            }
            self.turn(Duration::from_millis(1))?;
        }
        anyhow::bail!("the node does not take the orders of source {}", self.source)
    }

    /// Changes one order.
    pub(super) fn change(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        let rec = Rec(1 + self.seq * 7_919 % self.order_count);
        let row = row(self.source, Seq(self.seq), rec);
        self.push(&[row], BatchFlags::default())?;
        self.turn(Duration::ZERO)
    }

    fn new_row(&mut self) -> OrderRow {
        self.seq += 1;
        self.order_count += 1;
        row(self.source, Seq(self.seq), Rec(self.order_count))
    }

    fn push(&mut self, rows: &[OrderRow], flags: BatchFlags) -> anyhow::Result<()> {
        let rows: Vec<(OrderRow, &[u8])> = rows.iter().map(|row| (*row, &[][..])).collect();
        self.writer.push(&rows, flags)?;
        self.pushed += 1;
        Ok(())
    }

    fn turn(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let (acked, mut refused) = (&mut self.acked, None);
        self.writer.poll(timeout, |event| match event {
            SourceEvent::Acknowledged(batch_no) => *acked = (*acked).max(batch_no.0),
            SourceEvent::Refused(reject) => refused = Some(reject.reason),
            SourceEvent::Opened { .. } | SourceEvent::SentAgain { .. } | SourceEvent::NotOurs => {}
        })?;
        match refused {
            None => Ok(()),
            Some(reason) => anyhow::bail!("the node refuses source {}: {reason:?}", self.source),
        }
    }
}

fn row(source: PartitionId, seq: Seq, rec: Rec) -> OrderRow {
    OrderRow {
        rec,
        seq,
        order_id: OrderId::new(source, rec),
        transact_time: Nanos(seq.0),
        created_time: Nanos(rec.0),
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
        firm_id: FirmId(1),
        account_id: AccountId(1),
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
