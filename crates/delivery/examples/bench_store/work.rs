//! The work that all sides do: orders with keys, changes of them, and what they are made of.

use weir_delivery::filter::Keys;
use weir_delivery::row_of;
use weir_types::{AccountId, FirmId, InstrumentId, OrdStatus};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;

use crate::support::event;

/// Firms, accounts and instruments.
pub(crate) const FIRMS: u64 = 200;
const ACCOUNTS: u64 = 20_000;
const INSTRUMENTS: u64 = 500;
/// Orders that the hot pattern changes: the last so many.
pub(crate) const HOT: u64 = 2_000;

pub(crate) fn keys_of(rec: u64) -> Keys {
    Keys {
        firm_id: FirmId((rec % FIRMS) as u32 + 1),
        account_id: AccountId((rec % ACCOUNTS) as u32 + 1),
        instrument_id: InstrumentId((rec % INSTRUMENTS) as u32 + 1),
    }
}

/// Which orders change.
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

/// Makes an order's row as a core sends it: a block whose fields are set, and its attributes.
pub(crate) struct RowMaker {
    block: Vec<u8>,
    pub(crate) attributes: Vec<u8>,
}

fn field(name: &str) -> usize {
    OrderRow::FIELDS.iter().find(|field| field.name == name).expect("a field").offset
}

impl RowMaker {
    pub(crate) fn new(attributes_len: usize) -> RowMaker {
        let mut block = Vec::new();
        row_of(&event(1, 1, keys_of(1), OrdStatus::PartiallyFilled)).encode_block(&mut block);
        RowMaker { block, attributes: vec![b'x'; attributes_len] }
    }

    /// The block of a change. Attributes change in one byte.
    pub(crate) fn make(&mut self, seq: u64, rec: u64) -> &[u8] {
        let keys = keys_of(rec);
        let mut put = |name: &str, bytes: &[u8]| {
            let at = field(name);
            self.block[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put("rec", &rec.to_le_bytes());
        put("seq", &seq.to_le_bytes());
        put("order_id", &rec.to_le_bytes());
        put("transact_time", &seq.to_le_bytes());
        put("firm_id", &keys.firm_id.0.to_le_bytes());
        put("account_id", &keys.account_id.0.to_le_bytes());
        put("instrument_id", &keys.instrument_id.0.to_le_bytes());
        if let Some(first) = self.attributes.first_mut() {
            *first = seq as u8;
        }
        &self.block
    }

    pub(crate) fn row(&mut self, seq: u64, rec: u64) -> (&[u8], &[u8]) {
        self.make(seq, rec);
        (&self.block, &self.attributes)
    }
}
