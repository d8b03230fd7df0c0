//! The encoding of markets for snapshots.
//!
//! ```text
//! whole u8; then for each instrument: its number u32, eight phases kept, the phase, its time, the
//! last price, the static reference, and three uncrossings
//! ```
//! A phase is its code, 255 for none. An optional value follows a byte that is 1 when it is
//! present. Times and prices have 64 bits, uncrossings are blocks as on the wire; all is
//! little-endian.

use weir_types::{InstrumentId, Nanos, Phase, Price};
use weir_wire::Message;
use weir_wire::event::Uncrossed;
use weir_wire::field::Field;

use super::{Market, Markets};

/// The code for no phase.
const NO_PHASE: u8 = u8::MAX;

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
    pub fn from_state(bytes: &[u8]) -> Option<Markets> {
        let mut from = Reader(bytes);
        let mut markets = Markets::new(from.flag()?);
        while !from.0.is_empty() {
            let instrument_id = InstrumentId(u32::from_le_bytes(from.array()?));
            markets.all.insert(instrument_id, from.market()?);
        }
        markets.changed = markets.all.clone();
        Some(markets)
    }
}

impl Market {
    fn put(&self, out: &mut Vec<u8>) {
        let phases = self.phases.iter().chain([&self.phase]);
        out.extend(phases.map(|phase| phase.map_or(NO_PHASE, Field::to_wire)));
        put_word(self.phase_since.map(|at| at.0), out);
        put_word(self.last_price.map(|price| price.0 as u64), out);
        put_word(self.static_reference.map(|price| price.0 as u64), out);
        for uncrossed in [&self.last_uncrossing, &self.opening, &self.closing] {
            out.push(u8::from(uncrossed.is_some()));
            uncrossed.iter().for_each(|uncrossed| uncrossed.encode_block(out));
        }
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

    fn market(&mut self) -> Option<Market> {
        let mut market = Market::default();
        for phase in &mut market.phases {
            *phase = self.phase()?;
        }
        market.phase = self.phase()?;
        market.phase_since = self.word()?.map(Nanos);
        market.last_price = self.word()?.map(|word| Price(word as i64));
        market.static_reference = self.word()?.map(|word| Price(word as i64));
        market.last_uncrossing = self.uncrossed()?;
        market.opening = self.uncrossed()?;
        market.closing = self.uncrossed()?;
        Some(market)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{PartitionId, Position, Qty};

    use super::*;

    #[test]
    fn markets_come_back_as_they_were_and_bytes_that_are_none_do_not() {
        let uncrossed = Uncrossed {
            position: Position(2),
            transact_time: Nanos(8),
            price: Price(-100),
            qty: Qty(5),
            surplus: -3,
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
        };
        let mut market = Market {
            phase_since: Some(Nanos(7)),
            last_price: Some(Price(-1)),
            static_reference: Some(Price(i64::MAX)),
            last_uncrossing: Some(uncrossed),
            closing: Some(uncrossed),
            ..Market::default()
        };
        market.enter(Phase::Continuous);
        let mut markets = Markets::new(true);
        markets.all.insert(InstrumentId(1), market);
        markets.all.insert(InstrumentId(u32::MAX), Market::default());
        let mut bytes = Vec::new();
        markets.put_state(&mut bytes);
        let back = Markets::from_state(&bytes).expect("they are markets");
        assert_eq!((&back.all, back.is_whole), (&markets.all, true));
        assert_eq!(back.changed, markets.all, "all of it is to be published");
        for len in 0..bytes.len() {
            let cut = Markets::from_state(&bytes[..len]);
            assert!(cut.is_none_or(|cut| cut.all.len() < 2), "{len} bytes");
        }
        for (at, byte) in [(0, 2), (5, 254), (14, 2)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert!(Markets::from_state(&wrong).is_none(), "byte {at}");
        }
    }
}
