//! Databento's DBN: recorded feeds of many venues in one format. This is the codec of its records;
//! the file around them (metadata, versions, compression) is read elsewhere.
//!
//! * [`record`]: the records' bytes.
//! * `decode`: the records' translation into updates. `orders`, `levels`: the state it needs.
//!
//! A record is a message behind its length. Records of versions before 3 must first be converted to
//! version 3. Instruments are renumbered from 1 in order of appearance, because the dataset's
//! numbers have up to 32 bits. An instrument without a name has its dataset number as symbol.
//!
//! The page `docs/protocols/dbn.md` lists the updates of each record.

mod decode;
mod levels;
mod orders;
pub mod record;

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::{InstrumentId, Nanos, Qty};

use self::levels::Levels;
use self::orders::Orders;
use super::consolidate::Consolidator;
use super::{
    Context, Feed, FeedError, OrderIds, Packet, Profile, Transport, UpdateSink, moldudp64,
};
use crate::instrument::{Definition, SymbolText};

/// The feed's profile. A file mixes many venues, each with its own numbering of orders.
pub const PROFILE: Profile = Profile {
    transport: Transport::DbnFiles,
    kind_at: (1, 2),
    book_kinds: &[record::rtype::MBO, record::rtype::MBP_10],
    order_ids: OrderIds::OfInstrument,
    ..Profile::new("dbn")
};

/// The state of an instrument.
#[derive(Clone, Debug)]
struct Known {
    id: InstrumentId,
    is_named: bool,
    /// The type of the records that build its book; records of other types would repeat it.
    source: Option<u8>,
    /// The publisher of its orders or levels; those of others would form another book.
    publisher: Option<u16>,
    levels: Option<Box<Levels>>,
}

/// The codec of DBN's records.
#[derive(Clone, Debug)]
pub struct Dbn {
    known: HashMap<u32, Known, FxBuildHasher>,
    orders: Orders,
    /// The best bid and offer over an instrument's publishers.
    best: Consolidator,
}

impl Default for Dbn {
    fn default() -> Dbn {
        Dbn::new()
    }
}

impl Dbn {
    /// Creates a codec before the first record.
    #[must_use]
    pub fn new() -> Dbn {
        let best = Consolidator::new(&[]);
        Dbn { known: HashMap::default(), orders: Orders::default(), best }
    }

    /// Returns the instrument of a dataset's number; defines a new one in `sink`, with its number
    /// as symbol.
    fn instrument(&mut self, number: u32, sink: &mut impl UpdateSink) -> &mut Known {
        let known = self.known_or_new(number);
        if !std::mem::replace(&mut known.is_named, true) {
            let symbol = SymbolText::new(number.to_string().as_bytes());
            let symbol = symbol.expect("ten digits are a symbol");
            sink.define(&definition(known.id, symbol, 0));
        }
        known
    }

    fn known_or_new(&mut self, number: u32) -> &mut Known {
        // There are fewer than 2^32, like the dataset's numbers.
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX).saturating_add(1);
        let new = || Known {
            id: InstrumentId(next),
            is_named: false,
            source: None,
            publisher: None,
            levels: None,
        };
        self.known.entry(number).or_insert_with(new)
    }

    /// Sets the symbol of an instrument.
    fn name(&mut self, number: u32, symbol: SymbolText, lot: i32, sink: &mut impl UpdateSink) {
        let known = self.known_or_new(number);
        known.is_named = true;
        sink.define(&definition(known.id, symbol, lot));
    }
}

/// Returns a definition. A `lot` of at most zero or of `i32::MAX` means none.
fn definition(id: InstrumentId, symbol: SymbolText, lot: i32) -> Definition {
    let lot = u64::try_from(lot).ok().filter(|lot| *lot < i32::MAX as u64);
    Definition { instrument_id: id, symbol, round_lot: Qty(lot.unwrap_or(0)), previous_close: None }
}

/// Returns the time at which the recorder received a record, since the Unix epoch, or without that
/// the time of its event; `None` when it has neither.
#[must_use]
pub fn received(record: &[u8]) -> Option<Nanos> {
    use record::rtype;
    let header = record::RecordHeader::read(record)?;
    let at = match header.rtype {
        rtype::MBO => 40,
        rtype::MBP_0 | rtype::MBP_1 | rtype::MBP_10 | rtype::BBO_1S | rtype::BBO_1M => 32,
        rtype::STATUS | rtype::INSTRUMENT_DEF | rtype::STATISTICS => 16,
        _ => record.len(),
    };
    let received = record.get(at..).and_then(<[u8]>::first_chunk).copied().map(u64::from_le_bytes);
    let known = [received, Some(header.ts_event)].into_iter().flatten();
    known.into_iter().find(|ts| *ts != u64::MAX).map(Nanos)
}

impl Feed for Dbn {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    /// Fails always: DBN has no datagrams.
    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        Err(FeedError::Header { field: "a datagram's length", value: datagram.len() as u64 })
    }

    #[inline]
    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        moldudp64::next_message(messages)
    }

    #[inline]
    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        self.record(context, message, sink)
    }
}
