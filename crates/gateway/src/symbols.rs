//! Symbols that requests under way give to instruments.
//!
//! A new instrument is defined in the control partition, and a standing one is renamed in the
//! partition that trades it: no engine orders the two, and the directory has neither before it is
//! done. An instrument whose symbol is another's by the time of its import cannot be traded, and
//! its identifier is used up. So the gateway reserves the symbol of each request that it hands
//! over, and refuses others that give it to another instrument.
//!
//! INVARIANT: a symbol is reserved from its request's way into a ring to the request's answer,
//! which follows the definition in the partition's events.

use std::collections::BTreeMap;

use weir_types::{InstrumentId, Reason, RequestNo, SessionId, Symbol};
use weir_wire::Request;
use weir_wire::reference::{DefineInstrument, field_bit, is_change};

use super::identifiers::Refused;

/// A request that has no answer yet: its port, session and number.
type Pending = (usize, SessionId, RequestNo);

/// The symbol of a request under way.
#[derive(Debug)]
struct Reserved {
    named: (Symbol, InstrumentId),
    /// The number of times that the request was handed over, less those that were refused.
    copies: u32,
}

/// The reserved symbols.
#[derive(Debug, Default)]
pub(super) struct SymbolsUnderWay {
    by_request: BTreeMap<Pending, Reserved>,
    /// The number of requests that give a symbol to an instrument; never zero.
    counts: BTreeMap<(Symbol, InstrumentId), u32>,
}

impl SymbolsUnderWay {
    /// Checks that no request under way gives the symbol of this one to another instrument.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refused> {
        let Some((symbol, instrument_id)) = symbol_of(request) else { return Ok(()) };
        let all = (symbol, InstrumentId(0))..=(symbol, InstrumentId(u32::MAX));
        let is_taken = self.counts.range(all).any(|((_, other), _)| *other != instrument_id);
        if is_taken { Err(("symbol", Reason::InvalidDefinition)) } else { Ok(()) }
    }

    /// Reserves the symbol of a request that is handed over to a partition. A request that is sent
    /// again keeps the symbol of the first.
    pub(super) fn reserve(&mut self, port: usize, request: &Request) {
        let Some(named) = symbol_of(request) else { return };
        let pending = (port, request.session_id(), request.request_no());
        let reserved = self.by_request.entry(pending).or_insert_with(|| {
            *self.counts.entry(named).or_default() += 1;
            Reserved { named, copies: 0 }
        });
        reserved.copies += 1;
    }

    /// Frees the symbol of a request that was handed over and refused, unless it was handed over
    /// more than once: a copy before this one may be on its way to the partition.
    pub(super) fn refused(&mut self, port: usize, session_id: SessionId, request_no: RequestNo) {
        let Some(reserved) = self.by_request.get_mut(&(port, session_id, request_no)) else {
            return;
        };
        reserved.copies -= 1;
        if reserved.copies == 0 {
            self.settle(port, session_id, request_no);
        }
    }

    /// Frees the symbol of a request that is answered by the partition, which carries out no copy
    /// of it any more.
    pub(super) fn settle(&mut self, port: usize, session_id: SessionId, request_no: RequestNo) {
        if self.by_request.is_empty() {
            return;
        }
        let Some(reserved) = self.by_request.remove(&(port, session_id, request_no)) else {
            return;
        };
        let count = self.counts.get_mut(&reserved.named).expect("each pending request is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&reserved.named);
        }
    }
}

/// Returns the symbol that a request gives to an instrument.
fn symbol_of(request: &Request) -> Option<(Symbol, InstrumentId)> {
    let Request::DefineInstrument(d) = request else { return None };
    let is_set = !is_change(d.fields) || d.fields & field_bit::<DefineInstrument>("symbol") != 0;
    is_set.then_some((d.symbol, d.instrument_id))
}

#[cfg(test)]
mod tests {
    use weir_types::{Nanos, PartitionId, Phase, Price, Qty};
    use weir_wire::reference::NEW;

    use super::*;

    const CONTROL: usize = 0;
    const TRADING: usize = 1;

    fn request(request_no: u64, id: u32, symbol: &str, fields: u32) -> Request {
        Request::DefineInstrument(DefineInstrument {
            request_no: RequestNo(request_no),
            symbol: Symbol::new(symbol).unwrap(),
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: Qty(1),
            price_min: Price(1),
            price_max: Price(1),
            reference_price: Price(0),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id: SessionId(1),
            instrument_id: InstrumentId(id),
            partition_id: PartitionId(1),
            price_exponent: 0,
            qty_exponent: 0,
            phase: Phase::Continuous,
            fields,
        })
    }

    #[test]
    fn a_symbol_is_reserved_until_its_request_is_answered() {
        let renames = field_bit::<DefineInstrument>("symbol");
        let taken = Err(("symbol", Reason::InvalidDefinition));
        let mut symbols = SymbolsUnderWay::default();
        symbols.reserve(TRADING, &request(5, 1, "ABC", renames));
        for fields in [0, NEW, renames] {
            assert_eq!(symbols.check(&request(9, 2, "ABC", fields)), taken, "{fields}");
            assert_eq!(symbols.check(&request(9, 2, "ABD", fields)), Ok(()), "{fields}");
            assert_eq!(symbols.check(&request(9, 1, "ABC", fields)), Ok(()), "its own");
        }
        let ticks = field_bit::<DefineInstrument>("tick_size");
        assert_eq!(symbols.check(&request(9, 2, "ABC", ticks)), Ok(()), "it names nothing");
        // Answers of other requests, and of the same number in the other partition.
        symbols.settle(TRADING, SessionId(1), RequestNo(6));
        symbols.settle(TRADING, SessionId(2), RequestNo(5));
        symbols.settle(CONTROL, SessionId(1), RequestNo(5));
        assert_eq!(symbols.check(&request(9, 2, "ABC", NEW)), taken);
        symbols.settle(TRADING, SessionId(1), RequestNo(5));
        assert_eq!(symbols.check(&request(9, 2, "ABC", NEW)), Ok(()));
    }

    #[test]
    fn each_of_two_requests_for_a_symbol_reserves_it_and_one_that_is_repeated_does_once() {
        let mut symbols = SymbolsUnderWay::default();
        symbols.reserve(CONTROL, &request(5, 1, "ABC", NEW));
        symbols.reserve(CONTROL, &request(5, 1, "ABC", NEW));
        symbols.reserve(CONTROL, &request(6, 1, "ABC", NEW));
        let other = request(9, 2, "ABC", NEW);
        for (request_no, is_free) in [(5, false), (6, true)] {
            symbols.settle(CONTROL, SessionId(1), RequestNo(request_no));
            assert_eq!(symbols.check(&other).is_ok(), is_free, "behind {request_no}");
        }
    }

    #[test]
    fn a_copy_that_is_refused_does_not_free_the_symbol_of_the_one_before() {
        let mut symbols = SymbolsUnderWay::default();
        let other = request(9, 2, "ABC", NEW);
        for copies in 1..=2 {
            symbols.reserve(CONTROL, &request(5, 1, "ABC", NEW));
            for _ in 1..copies {
                symbols.reserve(CONTROL, &request(5, 1, "ABC", NEW));
                symbols.refused(CONTROL, SessionId(1), RequestNo(5));
                assert!(symbols.check(&other).is_err());
            }
            symbols.refused(CONTROL, SessionId(1), RequestNo(5));
            assert_eq!(symbols.check(&other), Ok(()));
        }
        symbols.refused(CONTROL, SessionId(1), RequestNo(5));
    }
}
