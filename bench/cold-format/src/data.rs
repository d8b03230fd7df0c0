//! The rows to write: of the recorded day, and synthetic ones with the volumes of a busy venue.

use std::collections::HashMap;

use weir_client::flow::{FlowItem, FlowKind, decode};
use weir_types::*;
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::rows::put_attributes;

pub const FIRM_LARGE: u32 = 1;
pub const FIRM_SMALL: u32 = 77;
pub const FIRM_NONE: u32 = 9_999;
/// The offset of the firm in a row.
pub const FIRM_AT: usize = at("firm_id");

/// The offset of a field in a row.
pub const fn at(name: &str) -> usize {
    let mut index = 0;
    while index < OrderRow::FIELDS.len() {
        let (one, other) = (OrderRow::FIELDS[index].name.as_bytes(), name.as_bytes());
        let mut same = one.len() == other.len();
        let mut i = 0;
        while same && i < one.len() {
            same = one[i] == other[i];
            i += 1;
        }
        if same {
            return OrderRow::FIELDS[index].offset;
        }
        index += 1;
    }
    panic!("a row has this field")
}

pub struct Data {
    pub name: &'static str,
    pub attributes: usize,
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Data {
    pub fn wire_of(&self, firm: u32) -> Vec<u8> {
        let mut out = Vec::new();
        for (block, attributes) in &self.rows {
            if firm == 0 || block[FIRM_AT..FIRM_AT + 4] == firm.to_le_bytes() {
                out.extend_from_slice(block);
                put_attributes(attributes, &mut out);
            }
        }
        out
    }

    fn push(&mut self, row: &OrderRow, chance: &mut Chance) {
        let mut block = Vec::new();
        row.encode_block(&mut block);
        self.rows.push((block, attributes(self.attributes, row, chance)));
    }
}

/// A random generator (SplitMix64).
pub struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Attributes typical of an outside core: tags and values, some repeating, some not.
fn attributes(len: usize, row: &OrderRow, chance: &mut Chance) -> Vec<u8> {
    let mut text = String::new();
    while text.len() < len {
        let part = match chance.below(6) {
            0 => format!("11={:016x}|", chance.next()),
            1 => format!("1=L01-{:05}|", row.account_id.0),
            2 => format!("336=TQBR|376={}|", chance.below(4)),
            3 => format!("5020={}|", row.transact_time.0 / 1_000),
            4 => format!("58=client {} desk {}|", chance.below(5_000), chance.below(9)),
            _ => "581=3|44=0.0|9412=USR|".to_owned(),
        };
        text.push_str(&part);
    }
    let mut bytes = text.into_bytes();
    bytes.truncate(len);
    bytes
}

fn firm(chance: &mut Chance) -> u32 {
    match chance.below(1_000) {
        0..100 => FIRM_LARGE,
        100..105 => FIRM_SMALL,
        _ => 100 + chance.below(200) as u32,
    }
}

fn row(rec: u64, seq: u64, time: u64, chance: &mut Chance) -> OrderRow {
    let firm = firm(chance);
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(PartitionId(1), Rec(rec)),
        transact_time: Nanos(time),
        created_time: Nanos(time),
        cl_ord_id: ClOrdId::new(&format!("{firm}-{:x}", chance.next() >> 30)).unwrap_or_default(),
        price: Price(0),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(0),
        leaves_qty: Qty(0),
        cum_qty: Qty(0),
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(firm * 4 + chance.below(4) as u32),
        firm_id: FirmId(firm),
        account_id: AccountId(firm * 100 + chance.below(100) as u32),
        instrument_id: InstrumentId(1),
        partition_id: PartitionId(1),
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::New,
        ord_status: OrdStatus::New,
        flags: RowFlags::default(),
        display_qty: Qty(0),
    }
}

/// The last change of each order in the recorded five hours.
pub fn recorded(attributes: usize) -> Data {
    let bytes =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/bitstamp-2015-05-01.wflow"))
            .expect("the recorded day is in the repository");
    let mut chance = Chance(1);
    let mut latest: HashMap<u64, OrderRow> = HashMap::new();
    let mut seq = 0;
    for item in decode(&bytes).expect("the recorded day is sound").items {
        let FlowItem::Event(event) = item else { continue };
        seq += 1;
        let rec = latest.len() as u64 + 1;
        let of = latest.entry(event.source_order_id).or_insert_with(|| {
            let mut row = row(rec, seq, event.ts.0, &mut chance);
            (row.price, row.order_qty, row.leaves_qty) = (event.price, event.qty, event.qty);
            row.side = event.side;
            row
        });
        (of.seq, of.transact_time) = (Seq(seq), event.ts);
        if !event.kind.leaves() {
            continue;
        }
        of.leaves_qty = Qty(of.leaves_qty.0.saturating_sub(event.qty.0));
        if matches!(event.kind, FlowKind::Fill | FlowKind::ExecuteVisible) {
            of.cum_qty = Qty(of.cum_qty.0 + event.qty.0);
            (of.last_px, of.last_qty) = (event.price, event.qty);
            (of.exec_type, of.ord_status) = (ExecType::Trade, OrdStatus::PartiallyFilled);
        } else {
            (of.exec_type, of.ord_status) = (ExecType::Canceled, OrdStatus::Canceled);
        }
        if of.leaves_qty == Qty(0) && of.exec_type == ExecType::Trade {
            of.ord_status = OrdStatus::Filled;
        }
    }
    let mut rows: Vec<OrderRow> = latest.into_values().collect();
    rows.sort_by_key(|row| (row.seq, row.rec));
    let mut data = Data { name: "recorded", attributes, rows: Vec::new() };
    rows.iter().for_each(|row| data.push(row, &mut chance));
    data
}

/// Orders of 202 firms in 500 instruments; three in ten of the changes are to an earlier order.
pub fn synthetic(count: u64, attributes: usize) -> Data {
    let mut chance = Chance(2);
    let mut data = Data { name: "synthetic", attributes, rows: Vec::new() };
    let (mut rec, mut time) = (10_000_000, 1_790_000_000_000_000_000);
    for index in 0..count {
        time += chance.below(10_000);
        let is_new = chance.below(10) < 7;
        rec += u64::from(is_new);
        let of = if is_new { rec } else { rec - 1 - chance.below(9_000_000) };
        let mut row = row(of, 30_000_000 + index, time, &mut chance);
        row.created_time = Nanos(if is_new { time } else { time - chance.below(1 << 40) });
        row.instrument_id = InstrumentId(1 + chance.below(500) as u32);
        row.price = Price(100 * (50_000 + chance.below(4_000) as i64));
        row.order_qty = Qty(100 * (1 + chance.below(50)));
        row.leaves_qty = row.order_qty;
        row.side = if chance.below(2) == 0 { Side::Buy } else { Side::Sell };
        if !is_new {
            let part = 1 + chance.below(row.order_qty.0);
            (row.cum_qty, row.last_qty, row.last_px) = (Qty(part), Qty(part), row.price);
            row.leaves_qty = Qty(row.order_qty.0 - part);
            row.exec_type = ExecType::Trade;
            row.ord_status = OrdStatus::PartiallyFilled;
        }
        data.push(&row, &mut chance);
    }
    data
}
