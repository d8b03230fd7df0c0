//! Databento's DBN: recorded feeds of many venues in one form. The codec of its records; the file
//! around them (metadata, versions, compression) is read elsewhere.
//!
//! * [`record`]: the records' bytes.
//! * `decode`: what each says. `orders`, `levels`: what must be remembered for it.
//!
//! A record is a message behind its length. Records of versions before 3 are to be brought into
//! version 3 first. Instruments get numbers of our own, from 1 on as they come: the dataset's have
//! up to 32 bits. An instrument that nothing names is called by the dataset's number.
//!
//! Which record becomes what is on the page `docs/protocols/dbn.md`.

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
use super::{Context, Feed, FeedError, Packet, Sink, moldudp64};
use crate::instrument::{Definition, SymbolText};

/// What is remembered of an instrument.
#[derive(Clone, Debug)]
struct Known {
    id: InstrumentId,
    is_named: bool,
    /// The type of records that its book is made of: those of others say the same once more.
    source: Option<u8>,
    /// Who publishes its orders or levels: those of others would be another book.
    publisher: Option<u16>,
    levels: Option<Box<Levels>>,
}

/// The codec of DBN's records.
#[derive(Clone, Debug)]
pub struct Dbn {
    known: HashMap<u32, Known, FxBuildHasher>,
    orders: Orders,
    /// The best over an instrument's publishers.
    best: Consolidator,
}

impl Default for Dbn {
    fn default() -> Dbn {
        Dbn::new()
    }
}

impl Dbn {
    /// The codec before the first record.
    #[must_use]
    pub fn new() -> Dbn {
        let best = Consolidator::new(&[]);
        Dbn { known: HashMap::default(), orders: Orders::default(), best }
    }

    /// The instrument of a dataset's number; a new one is told to `sink` by its number.
    fn instrument(&mut self, number: u32, sink: &mut impl Sink) -> &mut Known {
        let known = self.known_or_new(number);
        if !std::mem::replace(&mut known.is_named, true) {
            let symbol = SymbolText::new(number.to_string().as_bytes());
            let symbol = symbol.expect("ten digits are a symbol");
            sink.define(&definition(known.id, symbol, 0));
        }
        known
    }

    fn known_or_new(&mut self, number: u32) -> &mut Known {
        // Fewer than 2^32, as the numbers that they stand for are.
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

    /// An instrument has this name.
    fn name(&mut self, number: u32, symbol: SymbolText, lot: i32, sink: &mut impl Sink) {
        let known = self.known_or_new(number);
        known.is_named = true;
        sink.define(&definition(known.id, symbol, lot));
    }
}

/// `lot` is that of a definition: zero, less, or the greatest for none.
fn definition(id: InstrumentId, symbol: SymbolText, lot: i32) -> Definition {
    let lot = u64::try_from(lot).ok().filter(|lot| *lot < i32::MAX as u64);
    Definition { instrument_id: id, symbol, round_lot: Qty(lot.unwrap_or(0)), previous_close: None }
}

/// When a record came to whoever recorded it, since the Unix epoch, or, where it does not say,
/// when it happened; `None` where it says neither.
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
    fn name(&self) -> &'static str {
        "dbn"
    }

    /// There are no datagrams of DBN.
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
        sink: &mut impl Sink,
    ) -> Result<(), FeedError> {
        self.record(context, message, sink)
    }
}

#[cfg(test)]
mod tests;
