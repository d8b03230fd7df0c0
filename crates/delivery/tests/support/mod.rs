//! Events as an engine would send them, with the values that tests and benchmarks vary.

use weir_delivery::filter::Keys;
use weir_delivery::row_of;
use weir_types::{
    AccountId, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Position, Price, Qty, Reason, Rec,
    RequestNo, SelfTradePrevention, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;

pub(crate) const SOURCE: PartitionId = PartitionId(1);

#[allow(dead_code, reason = "not every target that uses this file has keys of its own")]
pub(crate) fn keys(firm: u32, account: u32, instrument: u32) -> Keys {
    Keys {
        firm_id: FirmId(firm),
        account_id: AccountId(account),
        instrument_id: InstrumentId(instrument),
    }
}

pub(crate) fn event(seq: u64, rec: u64, keys: Keys, ord_status: OrdStatus) -> OrderEvent {
    OrderEvent {
        position: Position(seq),
        event_no: EventNo(seq),
        request_no: RequestNo(seq),
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(SOURCE, Rec(rec)),
        exec_id: ExecId(seq),
        match_id: MatchId::NONE,
        transact_time: Nanos(1_000_000 + seq),
        created_time: Nanos(1_000_000),
        cl_ord_id: ClOrdId::from_number(rec),
        orig_cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty::ZERO,
        order_qty: Qty(10),
        leaves_qty: if ord_status.is_live() { Qty(10) } else { Qty::ZERO },
        cum_qty: Qty::ZERO,
        display_qty: Qty::ZERO,
        min_qty: Qty::ZERO,
        expire_time: Nanos(0),
        session_id: SessionId(1),
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
        partition_id: SOURCE,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
        exec_type: ExecType::New,
        ord_status,
        liquidity: Liquidity::None,
    }
}

/// Returns a row of an outside core, encoded: the same content as an event of ours.
#[allow(dead_code, reason = "not every test that uses this file feeds rows")]
pub(crate) fn block(seq: u64, rec: u64, keys: Keys, ord_status: OrdStatus) -> Vec<u8> {
    encoded(&row_of(&event(seq, rec, keys, ord_status)))
}

/// Returns the row of a record's deletion.
#[allow(dead_code, reason = "not every test that uses this file feeds rows")]
pub(crate) fn tombstone(seq: u64, rec: u64) -> Vec<u8> {
    let row = row_of(&event(seq, rec, Keys::NONE, OrdStatus::Canceled));
    encoded(&OrderRow { flags: RowFlags::TOMBSTONE, ..row })
}

#[allow(dead_code, reason = "not every test that uses this file feeds rows")]
pub(crate) fn encoded(row: &OrderRow) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.encode_block(&mut bytes);
    bytes
}
