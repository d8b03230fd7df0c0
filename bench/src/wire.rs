//! `weir-bench wire`: the codec's hot path, in nanoseconds per message and operation.
//!
//! Reads and writes frames of a working set that fits the cache, in rounds. Reports the median of
//! the rounds' means and the fastest round. It asserts nothing about time.

use std::hint::black_box;
use std::time::Instant;

use weir_types::{
    AccountId, ClOrdId, EventNo, ExecId, ExecInst, ExecType, FirmId, InstrumentId, Liquidity,
    MatchId, Nanos, OrdStatus, OrdType, OrderId, PartitionId, Position, Price, Qty, Reason, Rec,
    RequestNo, SelfTradePrevention, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::frame::{Framing, next_frame, put_extended_frame, put_frame};
use weir_wire::order_entry::NewOrder;
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::{ClientMessage, Event, Message, NodeMessage, PlainEvent};

/// The number of messages in the working set.
const MESSAGE_COUNT: usize = 64;
/// The number of passes over the working set in a round.
const PASS_COUNT: usize = 1_000;
const ROUND_COUNT: usize = 101;

/// Runs the benchmark.
pub fn run() -> anyhow::Result<()> {
    let orders: Vec<NewOrder> = (0..MESSAGE_COUNT as u64).map(new_order).collect();
    let events: Vec<OrderEvent> = (0..MESSAGE_COUNT as u64).map(order_event).collect();
    let order_frames = frames_of(&orders);
    let report_frames = frames_of(&events.iter().map(report).collect::<Vec<_>>());
    let mut records = Vec::new();
    let mut out = Vec::with_capacity(1 << 20);
    let event_values: Vec<Event> =
        events.iter().map(|e| Event::Plain(PlainEvent::OrderEvent(*e))).collect();
    for event in &event_values {
        let start = records.len();
        event.encode(&mut records);
        assert_eq!(records.len() - start, 8 + OrderEvent::BLOCK_LENGTH);
    }

    let figures = [
        ("new_order_decode_ns", measure(|| read_all(&order_frames))),
        ("new_order_encode_ns", measure(|| write_all(&orders, &mut out))),
        ("order_event_encode_ns", measure(|| encode_all(&event_values, &mut out))),
        ("order_event_decode_ns", measure(|| decode_all(&records))),
        ("report_extend_ns", measure(|| extend_all(&records, &mut out))),
        ("report_decode_ns", measure(|| read_reports(&report_frames))),
    ];
    let fields: Vec<String> = figures
        .iter()
        .map(|(name, (median, min))| {
            format!("\"{name}\":{{\"median\":{median:.1},\"min\":{min:.1}}}")
        })
        .collect();
    println!("{{\"bench\":\"wire\",{}}}", fields.join(","));
    Ok(())
}

/// Returns the median and the minimum of the rounds' nanoseconds per message.
fn measure(mut pass: impl FnMut()) -> (f64, f64) {
    let mut rounds: Vec<f64> = (0..ROUND_COUNT)
        .map(|_| {
            let start = Instant::now();
            (0..PASS_COUNT).for_each(|_| pass());
            start.elapsed().as_nanos() as f64 / (PASS_COUNT * MESSAGE_COUNT) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUND_COUNT / 2], rounds[0])
}

fn read_all(mut bytes: &[u8]) {
    while let Framing::Frame { len, message: Ok(raw) } = next_frame(black_box(bytes), 4_096) {
        black_box(&ClientMessage::decode(&raw));
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "every frame was read");
}

fn read_reports(mut bytes: &[u8]) {
    while let Framing::Frame { len, message: Ok(raw) } = next_frame(black_box(bytes), 4_096) {
        black_box(&NodeMessage::decode(&raw));
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "every frame was read");
}

fn write_all(orders: &[NewOrder], out: &mut Vec<u8>) {
    out.clear();
    orders.iter().for_each(|order| put_frame(black_box(order), out));
    black_box(out);
}

fn encode_all(events: &[Event], out: &mut Vec<u8>) {
    out.clear();
    events.iter().for_each(|event| black_box(event).encode(out));
    black_box(out);
}

fn decode_all(records: &[u8]) {
    for record in black_box(records).chunks_exact(8 + OrderEvent::BLOCK_LENGTH) {
        black_box(&Event::decode(record));
    }
}

/// Makes reports from event records as a gateway does: without reading a field.
fn extend_all(records: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for record in black_box(records).chunks_exact(8 + OrderEvent::BLOCK_LENGTH) {
        put_extended_frame(ExecutionReport::TEMPLATE_ID, &record[8..], black_box(&[7; 32]), out);
    }
    black_box(out);
}

fn frames_of<M: Message>(messages: &[M]) -> Vec<u8> {
    let mut frames = vec![];
    messages.iter().for_each(|message| put_frame(message, &mut frames));
    frames
}

fn new_order(i: u64) -> NewOrder {
    NewOrder {
        request_no: RequestNo(i + 1),
        // Names of all lengths: equal lengths would favour the branch predictor.
        cl_ord_id: ClOrdId::new(&"order-0123456789"[..1 + (i as usize * 7) % 16]).expect("short"),
        price: Price(58_653 + i as i64),
        order_qty: Qty(100),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: Nanos(0),
        sending_time: Nanos(1_760_000_000_000_000_000 + i),
        session_id: SessionId(3),
        instrument_id: InstrumentId(1 + i as u32 % 8),
        account_id: AccountId(21),
        side: if i.is_multiple_of(3) { Side::Buy } else { Side::Sell },
        ord_type: OrdType::Limit,
        time_in_force: if i.is_multiple_of(5) { TimeInForce::Ioc } else { TimeInForce::Day },
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
    }
}

fn order_event(i: u64) -> OrderEvent {
    let order = new_order(i);
    OrderEvent {
        position: Position(i),
        event_no: EventNo(i),
        request_no: order.request_no,
        rec: Rec(i),
        seq: Seq(i),
        order_id: OrderId::new(PartitionId(1), Rec(i)),
        exec_id: ExecId(i),
        match_id: MatchId(i),
        transact_time: order.sending_time,
        created_time: order.sending_time,
        cl_ord_id: order.cl_ord_id,
        orig_cl_ord_id: ClOrdId::NONE,
        price: order.price,
        stop_px: Price(0),
        last_px: order.price,
        last_qty: Qty(i),
        order_qty: order.order_qty,
        leaves_qty: Qty(100 - i),
        cum_qty: Qty(i),
        display_qty: Qty(0),
        min_qty: Qty(0),
        expire_time: Nanos(0),
        session_id: order.session_id,
        firm_id: FirmId(2),
        account_id: order.account_id,
        instrument_id: order.instrument_id,
        partition_id: PartitionId(1),
        reason: Reason::None,
        side: order.side,
        ord_type: order.ord_type,
        time_in_force: order.time_in_force,
        exec_inst: order.exec_inst,
        self_trade_prevention: order.self_trade_prevention,
        exec_type: ExecType::Trade,
        ord_status: OrdStatus::PartiallyFilled,
        liquidity: if i.is_multiple_of(2) { Liquidity::Maker } else { Liquidity::Taker },
    }
}

fn report(event: &OrderEvent) -> ExecutionReport {
    ExecutionReport { event: *event, stage_times: StageTimes { t0: Nanos(9), after_t0: [1; 6] } }
}
