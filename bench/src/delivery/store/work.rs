//! The work that all sides do: orders with keys, changes of them, and their rows.

use weir_delivery::filter::Keys;
use weir_delivery::row_of;
use weir_types::{AccountId, FirmId, InstrumentId, OrdStatus};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;

use super::super::support::event;

/// The numbers of firms, accounts and instruments.
pub(crate) const FIRMS: u64 = 200;
const ACCOUNTS: u64 = 20_000;
const INSTRUMENTS: u64 = 500;
/// The orders that the hot pattern changes: the last ones.
pub(crate) const HOT: u64 = 2_000;

pub(crate) fn keys_of(rec: u64) -> Keys {
    Keys {
        firm_id: FirmId((rec % FIRMS) as u32 + 1),
        account_id: AccountId((rec % ACCOUNTS) as u32 + 1),
        instrument_id: InstrumentId((rec % INSTRUMENTS) as u32 + 1),
    }
}

/// The choice of the orders that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Rand,
    Hot,
}

impl Pattern {
    pub(crate) const BOTH: [Pattern; 2] = [Pattern::Rand, Pattern::Hot];

    pub(crate) fn name(self) -> &'static str {
        if self == Pattern::Rand { "rand" } else { "hot" }
    }

    pub(crate) fn pick(self, orders: u64, random: &mut Random) -> u64 {
        match self {
            Pattern::Rand => random.below(orders) + 1,
            Pattern::Hot => orders - random.below(HOT.min(orders)),
        }
    }
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Builds an order's row as a core sends it: a block whose fields are set, and its attributes.
pub(crate) struct RowMaker {
    block: Vec<u8>,
    attributes: Vec<u8>,
    /// The offsets of the fields that differ, found once.
    at: [usize; 7],
}

fn field(name: &str) -> usize {
    OrderRow::FIELDS.iter().find(|field| field.name == name).expect("a field").offset
}

impl RowMaker {
    pub(crate) fn new(attributes_len: usize) -> RowMaker {
        let mut block = Vec::new();
        row_of(&event(1, 1, keys_of(1), OrdStatus::PartiallyFilled)).encode_block(&mut block);
        let numbers = ["rec", "seq", "order_id", "transact_time"].map(field);
        let keys = ["firm_id", "account_id", "instrument_id"].map(field);
        let [a, b, c, d] = numbers;
        let [e, f, g] = keys;
        RowMaker { block, attributes: vec![b'x'; attributes_len], at: [a, b, c, d, e, f, g] }
    }

    /// Returns the block of a change and its attributes, in which one byte differs.
    pub(crate) fn row(&mut self, seq: u64, rec: u64) -> (&[u8], &[u8]) {
        let Keys { firm_id, account_id, instrument_id } = keys_of(rec);
        for (at, number) in self.at.into_iter().zip([rec, seq, rec, seq]) {
            self.block[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let keys = [firm_id.0, account_id.0, instrument_id.0];
        for (at, key) in self.at[4..].iter().zip(keys) {
            self.block[*at..*at + 4].copy_from_slice(&key.to_le_bytes());
        }
        if let Some(first) = self.attributes.first_mut() {
            *first = seq as u8;
        }
        (&self.block, &self.attributes)
    }
}
