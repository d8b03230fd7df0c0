//! Names that requests under way reserve: symbols that they give to instruments, and identifiers
//! that they define.
//!
//! A new instrument is defined in the control partition, and a standing one is renamed in the
//! partition that trades it: no engine orders the two, and the directory has neither before it is
//! done. An instrument whose symbol is another's by the time of its import cannot be traded, and
//! its identifier is used up. So the gateway reserves the symbol of each request that it hands
//! over, and refuses others that give it to another instrument.
//!
//! A definition that names no fields is a new one's or a change, by the directory. One that is sent
//! before the answer to another of its identifier is a change too: as a new one's it would take
//! limits away that the other sets. It reserves nothing itself: behind a definition that is refused
//! it is refused too, and those after it are not.
//!
//! INVARIANT: a symbol is reserved from its request's way into a ring to the request's answer,
//! which follows the definition in the partition's events.

use std::collections::BTreeMap;

use weir_types::{AccountId, FirmId, InstrumentId, Reason, RequestNo, SessionId, Symbol};
use weir_wire::Request;
use weir_wire::reference::{DefineInstrument, field_bit, is_change};

use super::identifiers::Refused;

/// A request that has no answer yet: its port, session and number.
type Pending = (usize, SessionId, RequestNo);

/// The name that a request under way reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReservedName {
    /// The symbol that it gives to an instrument.
    Symbol(Symbol, InstrumentId),
    /// The identifier that it defines.
    Firm(FirmId),
    Account(AccountId),
    Session(SessionId),
}

/// The reservation of a request under way.
#[derive(Debug)]
struct Reserved {
    named: ReservedName,
    /// True when it is counted; false for a change, which is here for its copies.
    is_counted: bool,
    /// The number of times that the request was handed over, less those that were refused.
    copies: u32,
}

/// The names that requests under way reserve.
#[derive(Debug, Default)]
pub(super) struct ReservedNames {
    by_request: BTreeMap<Pending, Reserved>,
    /// The number of requests that reserve it; never zero.
    counts: BTreeMap<ReservedName, u32>,
}

impl ReservedNames {
    /// Checks that no request under way gives the symbol of this one to another instrument.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refused> {
        let Some(named) = named_by(request) else { return Ok(()) };
        let ReservedName::Symbol(symbol, _) = named else { return Ok(()) };
        let of = |id| ReservedName::Symbol(symbol, InstrumentId(id));
        let is_taken = self.counts.range(of(0)..=of(u32::MAX)).any(|(other, _)| *other != named);
        if is_taken { Err(("symbol", Reason::InvalidDefinition)) } else { Ok(()) }
    }

    /// Returns true when another request under way defines the firm, account or session that this
    /// one defines. A request that is sent again is a change if the first is.
    pub(super) fn is_defined_before(&self, port: usize, request: &Request) -> bool {
        let Some(named) = named_by(request) else { return false };
        let pending = (port, request.session_id(), request.request_no());
        if matches!(named, ReservedName::Symbol(..)) {
            return false;
        }
        match self.by_request.get(&pending) {
            Some(first) => !first.is_counted,
            None => self.counts.contains_key(&named),
        }
    }

    /// Reserves `name`, that of a request as it is sequenced, when the request is handed over to a
    /// partition. A request that is sent again keeps the name of the first.
    pub(super) fn reserve(&mut self, port: usize, request: &Request, name: Option<ReservedName>) {
        let Some(named) = named_by(request) else { return };
        let pending = (port, request.session_id(), request.request_no());
        let reserved = self.by_request.entry(pending).or_insert_with(|| {
            let is_counted = name.is_some();
            if is_counted {
                *self.counts.entry(named).or_default() += 1;
            }
            Reserved { named, is_counted, copies: 0 }
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
        if !reserved.is_counted {
            return;
        }
        let count = self.counts.get_mut(&reserved.named).expect("each pending request is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&reserved.named);
        }
    }
}

/// Returns the name that a request reserves.
pub(super) fn named_by(request: &Request) -> Option<ReservedName> {
    let is_new = |fields: u32| !is_change(fields);
    match request {
        Request::DefineInstrument(d) => {
            let symbol = field_bit::<DefineInstrument>("symbol");
            let is_set = is_new(d.fields) || d.fields & symbol != 0;
            is_set.then_some(ReservedName::Symbol(d.symbol, d.instrument_id))
        }
        Request::DefineFirm(d) => is_new(d.fields).then_some(ReservedName::Firm(d.firm_id)),
        Request::DefineAccount(d) => {
            is_new(d.fields).then_some(ReservedName::Account(d.account_id))
        }
        Request::DefineSession(d) => {
            is_new(d.fields).then_some(ReservedName::Session(d.defined_session_id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::reference::{DefineFirm, NEW};

    use super::*;
    use crate::second_protocol::instrument_of;

    const CONTROL: usize = 0;
    const TRADING: usize = 1;

    fn request(request_no: u64, id: u32, symbol: &str, fields: u32) -> Request {
        let symbol = Symbol::new(symbol).unwrap();
        Request::DefineInstrument(DefineInstrument {
            request_no: RequestNo(request_no),
            fields,
            ..instrument_of(InstrumentId(id), symbol)
        })
    }

    fn firm(request_no: u64, id: u32, fields: u32) -> Request {
        Request::DefineFirm(DefineFirm {
            fields,
            request_no: RequestNo(request_no),
            name: Symbol::new("FIRM").unwrap(),
            session_id: SessionId(1),
            firm_id: FirmId(id),
            live_orders_max: 0,
        })
    }

    /// Reserves the name of a request that is sequenced as it is.
    fn reserve(reserved: &mut ReservedNames, port: usize, request: Request) {
        reserved.reserve(port, &request, named_by(&request));
    }

    #[test]
    fn a_symbol_is_reserved_until_its_request_is_answered() {
        let renames = field_bit::<DefineInstrument>("symbol");
        let taken = Err(("symbol", Reason::InvalidDefinition));
        let mut reserved = ReservedNames::default();
        reserve(&mut reserved, TRADING, request(5, 1, "ABC", renames));
        for fields in [0, NEW, renames] {
            assert_eq!(reserved.check(&request(9, 2, "ABC", fields)), taken, "{fields}");
            assert_eq!(reserved.check(&request(9, 2, "ABD", fields)), Ok(()), "{fields}");
            assert_eq!(reserved.check(&request(9, 1, "ABC", fields)), Ok(()), "its own");
        }
        let ticks = field_bit::<DefineInstrument>("tick_size");
        assert_eq!(reserved.check(&request(9, 2, "ABC", ticks)), Ok(()), "it names nothing");
        // Answers of other requests, and of the same number in the other partition.
        reserved.settle(TRADING, SessionId(1), RequestNo(6));
        reserved.settle(TRADING, SessionId(2), RequestNo(5));
        reserved.settle(CONTROL, SessionId(1), RequestNo(5));
        assert_eq!(reserved.check(&request(9, 2, "ABC", NEW)), taken);
        reserved.settle(TRADING, SessionId(1), RequestNo(5));
        assert_eq!(reserved.check(&request(9, 2, "ABC", NEW)), Ok(()));
    }

    #[test]
    fn each_of_two_requests_for_a_symbol_reserves_it_and_one_that_is_repeated_does_once() {
        let mut reserved = ReservedNames::default();
        reserve(&mut reserved, CONTROL, request(5, 1, "ABC", NEW));
        reserve(&mut reserved, CONTROL, request(5, 1, "ABC", NEW));
        reserve(&mut reserved, CONTROL, request(6, 1, "ABC", NEW));
        let other = request(9, 2, "ABC", NEW);
        for (request_no, is_free) in [(5, false), (6, true)] {
            reserved.settle(CONTROL, SessionId(1), RequestNo(request_no));
            assert_eq!(reserved.check(&other).is_ok(), is_free, "behind {request_no}");
        }
    }

    #[test]
    fn a_definition_behind_another_of_its_identifier_is_known_as_such_and_a_copy_is_not() {
        let mut reserved = ReservedNames::default();
        assert!(!reserved.is_defined_before(CONTROL, &firm(5, 11, 0)));
        reserve(&mut reserved, CONTROL, firm(5, 11, 0));
        assert!(reserved.is_defined_before(CONTROL, &firm(6, 11, 0)));
        assert!(!reserved.is_defined_before(CONTROL, &firm(6, 12, 0)));
        assert!(!reserved.is_defined_before(CONTROL, &firm(5, 11, 0)), "the same, sent again");
        assert_eq!(reserved.check(&firm(6, 11, 0)), Ok(()));
        reserved.settle(CONTROL, SessionId(1), RequestNo(5));
        assert!(!reserved.is_defined_before(CONTROL, &firm(6, 11, 0)));
        // One that names its fields is a change of something that the directory has.
        reserve(&mut reserved, CONTROL, firm(7, 11, field_bit::<DefineFirm>("live_orders_max")));
        assert!(!reserved.is_defined_before(CONTROL, &firm(8, 11, 0)));
    }

    #[test]
    fn a_definition_behind_a_change_whose_definition_is_refused_is_a_new_one() {
        let limit = field_bit::<DefineFirm>("live_orders_max");
        let mut reserved = ReservedNames::default();
        reserve(&mut reserved, CONTROL, firm(5, 11, 0));
        // The second is made a change, the first is refused: the second will be too.
        let change = named_by(&firm(6, 11, limit));
        reserved.reserve(CONTROL, &firm(6, 11, 0), change);
        reserved.settle(CONTROL, SessionId(1), RequestNo(5));
        assert!(!reserved.is_defined_before(CONTROL, &firm(7, 11, 0)));
        // A copy is like the first, also behind a later definition.
        reserve(&mut reserved, CONTROL, firm(7, 11, 0));
        assert!(reserved.is_defined_before(CONTROL, &firm(8, 11, 0)));
        reserved.reserve(CONTROL, &firm(8, 11, 0), change);
        for (request_no, is_behind) in [(6, true), (7, false), (8, true)] {
            assert_eq!(reserved.is_defined_before(CONTROL, &firm(request_no, 11, 0)), is_behind);
        }
        reserved.settle(CONTROL, SessionId(1), RequestNo(6));
        reserved.refused(CONTROL, SessionId(1), RequestNo(8));
        assert!(reserved.is_defined_before(CONTROL, &firm(9, 11, 0)), "the seventh is under way");
    }

    #[test]
    fn a_copy_that_is_refused_does_not_free_the_symbol_of_the_one_before() {
        let mut reserved = ReservedNames::default();
        let other = request(9, 2, "ABC", NEW);
        for copies in 1..=2 {
            reserve(&mut reserved, CONTROL, request(5, 1, "ABC", NEW));
            for _ in 1..copies {
                reserve(&mut reserved, CONTROL, request(5, 1, "ABC", NEW));
                reserved.refused(CONTROL, SessionId(1), RequestNo(5));
                assert!(reserved.check(&other).is_err());
            }
            reserved.refused(CONTROL, SessionId(1), RequestNo(5));
            assert_eq!(reserved.check(&other), Ok(()));
        }
        reserved.refused(CONTROL, SessionId(1), RequestNo(5));
    }
}
