//! The encoding of markets for snapshots.
//!
//! ```text
//! whole u8; then for each instrument: its number u32, eight phases kept, the phase, the time of
//! its last change, the last price, the static reference, three uncrossings, the cause of the
//! change, the operator's session u32, and whether an operator's halt holds
//! ```
//! A phase is its code, 255 for none, and so is the hold: 0 or 1. An optional value follows a byte
//! that is 1 when it is present. Times and prices have 64 bits, uncrossings are blocks as on the
//! wire; all is little-endian. Without a time of the last change its cause and session are zero.
//!
//! The form before ended with the uncrossings: its causes are unknown, and so are its holds where
//! there may be one.

use weir_types::{InstrumentId, Nanos, Phase, PhaseCause, PhaseOrigin, Price, SessionId};
use weir_wire::Message;
use weir_wire::event::Uncrossed;
use weir_wire::field::Field;

use super::{Market, Markets};
use crate::plant::{self, Plant};

/// The code for no phase.
const NO_PHASE: u8 = u8::MAX;
/// The code for a hold that is not known.
const NO_HOLD: u8 = u8::MAX;

/// A form of the encoding, which the bytes do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketsForm {
    /// Without the causes of phases.
    WithoutCauses,
    /// The one that is written.
    Present,
}

impl Markets {
    /// Appends the state of all instruments.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_whole));
        for (instrument_id, market) in &self.all {
            out.extend_from_slice(&instrument_id.0.to_le_bytes());
            market.put(out);
        }
    }

    /// Decodes the state, all of it to be published again; `None` when the bytes are invalid.
    #[must_use]
    pub fn from_state(bytes: &[u8], form: MarketsForm) -> Option<Markets> {
        let mut from = Reader(bytes);
        let mut markets = Markets::new(from.flag()?);
        while !from.0.is_empty() {
            let instrument_id = InstrumentId(u32::from_le_bytes(from.array()?));
            markets.all.insert(instrument_id, from.market(form)?);
        }
        markets.changed = markets.all.clone();
        Some(markets)
    }
}

impl Market {
    fn put(&self, out: &mut Vec<u8>) {
        let phases = self.phases.iter().chain([&self.phase]);
        out.extend(phases.map(|phase| phase.map_or(NO_PHASE, Field::to_wire)));
        let origin = self.origin.filter(|_| !plant::is(Plant::CauseForgottenAtRestart));
        put_word(origin.map(|origin| origin.at.0), out);
        put_word(self.last_price.map(|price| price.0 as u64), out);
        put_word(self.static_reference.map(|price| price.0 as u64), out);
        for uncrossed in [&self.last_uncrossing, &self.opening, &self.closing] {
            out.push(u8::from(uncrossed.is_some()));
            uncrossed.iter().for_each(|uncrossed| uncrossed.encode_block(out));
        }
        let (cause, session_id) =
            origin.map_or((0, 0), |origin| (origin.cause.code(), origin.session_id.0));
        out.push(cause);
        out.extend_from_slice(&session_id.to_le_bytes());
        out.push(self.is_held.map_or(NO_HOLD, u8::from));
    }
}

fn put_word(word: Option<u64>, out: &mut Vec<u8>) {
    out.push(u8::from(word.is_some()));
    word.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.array::<1>()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn phase(&mut self) -> Option<Option<Phase>> {
        match self.array::<1>()? {
            [NO_PHASE] => Some(None),
            [code] => Phase::from_wire(code).map(Some),
        }
    }

    fn word(&mut self) -> Option<Option<u64>> {
        match self.flag()? {
            true => Some(Some(u64::from_le_bytes(self.array()?))),
            false => Some(None),
        }
    }

    fn uncrossed(&mut self) -> Option<Option<Uncrossed>> {
        if !self.flag()? {
            return Some(None);
        }
        let (block, rest) = self.0.split_at_checked(Uncrossed::BLOCK_LENGTH)?;
        self.0 = rest;
        Uncrossed::decode_block(block).ok().map(Some)
    }

    fn hold(&mut self) -> Option<Option<bool>> {
        match self.array::<1>()? {
            [0] => Some(Some(false)),
            [1] => Some(Some(true)),
            [NO_HOLD] => Some(None),
            _ => None,
        }
    }

    fn market(&mut self, form: MarketsForm) -> Option<Market> {
        let mut market = Market::default();
        for phase in &mut market.phases {
            *phase = self.phase()?;
        }
        market.phase = self.phase()?;
        let at = self.word()?.map(Nanos);
        market.last_price = self.word()?.map(|word| Price(word as i64));
        market.static_reference = self.word()?.map(|word| Price(word as i64));
        market.last_uncrossing = self.uncrossed()?;
        market.opening = self.uncrossed()?;
        market.closing = self.uncrossed()?;
        let (mut cause, mut session_id) = (PhaseCause::Unknown, SessionId::NONE);
        match form {
            MarketsForm::WithoutCauses => {
                let may_be_held =
                    matches!(market.phase, None | Some(Phase::Halted | Phase::Closed));
                market.is_held = (!may_be_held).then_some(false);
            }
            MarketsForm::Present => {
                cause = PhaseCause::from_code(u8::from_le_bytes(self.array()?))?;
                session_id = SessionId(u32::from_le_bytes(self.array()?));
                market.is_held = self.hold()?;
            }
        }
        market.origin = at.map(|at| PhaseOrigin { cause, session_id, at });
        Some(market)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{PartitionId, Position, Qty};

    use super::*;

    fn markets() -> Markets {
        let uncrossed = Uncrossed {
            position: Position(2),
            transact_time: Nanos(8),
            price: Price(-100),
            qty: Qty(5),
            surplus: -3,
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
        };
        let (session_id, at) = (SessionId(0x0102_0304), Nanos(7));
        let mut market = Market {
            origin: Some(PhaseOrigin { cause: PhaseCause::Operator, session_id, at }),
            is_held: Some(true),
            last_price: Some(Price(-1)),
            static_reference: Some(Price(i64::MAX)),
            last_uncrossing: Some(uncrossed),
            closing: Some(uncrossed),
            ..Market::default()
        };
        market.enter(Phase::Halted);
        let mut markets = Markets::new(true);
        markets.all.insert(InstrumentId(1), market);
        markets.all.insert(InstrumentId(2), Market { is_held: Some(false), ..Market::default() });
        markets.all.insert(InstrumentId(u32::MAX), Market::default());
        markets
    }

    #[test]
    fn markets_come_back_as_they_were_and_bytes_that_are_none_do_not() {
        let (markets, mut bytes) = (markets(), Vec::new());
        markets.put_state(&mut bytes);
        let read = |bytes: &[u8]| Markets::from_state(bytes, MarketsForm::Present);
        let back = read(&bytes).expect("they are markets");
        assert_eq!((&back.all, back.is_whole), (&markets.all, true));
        assert_eq!(back.changed, markets.all, "all of it is to be published");
        for len in 0..bytes.len() {
            let cut = read(&bytes[..len]);
            assert!(cut.is_none_or(|cut| cut.all.len() < 3), "{len} bytes");
        }
        // The last row ends with a cause, four bytes of a session and a hold.
        let end = bytes.len();
        for (at, byte) in [(0, 2), (5, 254), (14, 2), (end - 6, 9), (end - 1, 2)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert!(read(&wrong).is_none(), "byte {at}");
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn a_planted_snapshot_without_causes_is_found() {
        plant::set(Some(Plant::CauseForgottenAtRestart));
        let check = markets_come_back_as_they_were_and_bytes_that_are_none_do_not;
        let is_found = std::panic::catch_unwind(check).is_err();
        plant::set(None);
        assert!(is_found, "it is planted");
    }

    #[test]
    fn a_state_from_before_causes_has_its_phases_and_no_cause() {
        /// The bytes of a cause, a session and a hold.
        const CAUSE_LEN: usize = 6;
        let (markets, mut bytes) = (markets(), vec![1]);
        for (instrument_id, market) in &markets.all {
            bytes.extend_from_slice(&instrument_id.0.to_le_bytes());
            market.put(&mut bytes);
            bytes.truncate(bytes.len() - CAUSE_LEN);
        }
        let back = Markets::from_state(&bytes, MarketsForm::WithoutCauses).expect("it is read");
        let (row, before) = (back.all[&InstrumentId(1)], markets.all[&InstrumentId(1)]);
        let (session_id, at) = (SessionId::NONE, Nanos(7));
        let unknown = PhaseOrigin { cause: PhaseCause::Unknown, session_id, at };
        assert_eq!((row.phase, row.closing), (before.phase, before.closing));
        assert_eq!((row.origin, row.is_held), (Some(unknown), None));
    }
}
