//! The benchmark's orders: a day's changes of 202 firms in 500 instruments, the same in each run.

use weir_types::*;
use weir_wire::delivery::{OrderRow, RowFlags};

use super::SOURCE;

/// The time between two changes of the day, in nanoseconds: 50,000 per second.
const CHANGE_NS: u64 = 20_000;
/// A firm with a tenth of the orders, and one with half a percent.
pub(super) const FIRM_LARGE: u32 = 1;
pub(super) const FIRM_SMALL: u32 = 77;

/// A SplitMix64 random number generator.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Returns a change of the record `rec`, which keeps its firm.
pub(super) fn row(seq: u64, rec: u64, ord_status: OrdStatus, chance: &mut Chance) -> OrderRow {
    let mut keys = Chance(rec);
    let firm = match keys.below(1_000) {
        0..100 => FIRM_LARGE,
        100..105 => FIRM_SMALL,
        _ => 100 + keys.below(200) as u32,
    };
    let time = 1_790_000_000_000_000_000 + seq * CHANGE_NS;
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(SOURCE, Rec(rec)),
        transact_time: Nanos(time),
        created_time: Nanos(time),
        cl_ord_id: ClOrdId::from_number(keys.next() >> 24),
        price: Price(100 * (50_000 + chance.below(4_000).cast_signed())),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(100 * (1 + chance.below(50))),
        leaves_qty: Qty(if ord_status.is_live() { 100 } else { 0 }),
        cum_qty: Qty(0),
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(firm * 4),
        firm_id: FirmId(firm),
        account_id: AccountId(firm * 100 + keys.below(100) as u32),
        instrument_id: InstrumentId(1 + keys.below(500) as u32),
        partition_id: SOURCE,
        reason: Reason::None,
        side: if chance.below(2) == 0 { Side::Buy } else { Side::Sell },
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::Canceled,
        ord_status,
        flags: RowFlags::default(),
        display_qty: Qty(0),
    }
}

/// Writes the attributes of an order, a third of them unique.
pub(super) fn attributes(len: usize, chance: &mut Chance, out: &mut Vec<u8>) {
    out.clear();
    while out.len() < len {
        let part = match chance.below(4) {
            0 => format!("11={:016x}|", chance.next()),
            1 => format!("58=client {} desk {}|", chance.below(5_000), chance.below(9)),
            2 => "581=3|44=0.0|9412=USR|".to_owned(),
            _ => format!("336=TQBR|376={}|", chance.below(4)),
        };
        out.extend_from_slice(part.as_bytes());
    }
    out.truncate(len);
}
