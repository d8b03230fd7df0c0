//! Option series: OPRA's form, and the names assigned by OCC.

use weir_types::{InstrumentId, Price};

use crate::instrument::{SymbolText, Symbols};

/// Returns the number of decimals of a denominator code; `None` for an unknown one.
#[must_use]
pub fn decimals(code: u8) -> Option<u32> {
    match code {
        b'A'..=b'H' => Some(u32::from(code - b'A') + 1),
        b'I' => Some(0),
        _ => None,
    }
}

/// Returns a number with that many decimals in 10^-9; `None` for an unknown code or on overflow.
#[must_use]
pub fn price(code: u8, number: i64) -> Option<Price> {
    number.checked_mul(10_i64.pow(9 - decimals(code)?)).map(Price)
}

/// An option series by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// The root, padded with spaces.
    pub root: [u8; 5],
    /// The expiration month: `A` to `L` calls of January to December, `M` to `X` puts.
    pub month: u8,
    /// The expiration day, 1 to 31.
    pub day: u8,
    /// The expiration year, as years since 2000.
    pub year: u8,
    /// The strike price in 10^-3, as in OCC's names.
    pub strike: u64,
}

impl Series {
    /// Returns the series of these parts; `None` for a strike finer than 10^-3 or an unknown code.
    #[must_use]
    pub fn new(root: [u8; 5], expiration: [u8; 3], code: u8, strike: u32) -> Option<Series> {
        let [month, day, year] = expiration;
        let thousandths = match decimals(code)? {
            few @ 0..=3 => u64::from(strike) * 10_u64.pow(3 - few),
            many => {
                let divisor = 10_u64.pow(many - 3);
                let strike = u64::from(strike);
                strike.is_multiple_of(divisor).then_some(strike / divisor)?
            }
        };
        Some(Series { root, month, day, year, strike: thousandths })
    }

    /// Returns OCC's name: root, expiration as year, month and day, `C` or `P`, strike in 10^-3, as
    /// in `AMZN  240119C00165250`. `None` when a part is out of range.
    #[must_use]
    pub fn name(&self) -> Option<SymbolText> {
        if !self.has_name() {
            return None;
        }
        let (january, right) = if self.month < b'M' { (b'A', b'C') } else { (b'M', b'P') };
        let month = self.month - january + 1;
        let mut text = [b' '; 21];
        text[..5].copy_from_slice(&self.root);
        for (at, number) in [(6, self.year), (8, month), (10, self.day)] {
            text[at] = b'0' + number / 10;
            text[at + 1] = b'0' + number % 10;
        }
        text[12] = right;
        let mut strike = self.strike;
        for digit in text[13..].iter_mut().rev() {
            *digit = b'0' + (strike % 10) as u8;
            strike /= 10;
        }
        SymbolText::new(&text)
    }

    /// Returns true when all parts are in range, so that the series has a name.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.root[0].is_ascii_graphic()
            && self.root.iter().all(|byte| matches!(byte, b' '..=b'~'))
            && (b'A'..=b'X').contains(&self.month)
            && (1..=31).contains(&self.day)
            && self.year < 100
            && self.strike < 100_000_000
    }

    /// Packs the series into one number; the strike of a series with a name takes 27 bits.
    fn key(&self) -> u128 {
        let mut key = u128::from(self.strike);
        for byte in self.root.into_iter().chain([self.month, self.day, self.year]) {
            key = key << 8 | u128::from(byte);
        }
        key
    }
}

/// An entry of the table; free while its number is zero.
#[derive(Clone, Copy, Debug, Default)]
struct SeriesSlot {
    key: u128,
    number: u32,
}

/// The size of an empty table in entries, a power of two.
const SLOTS_MIN: usize = 1_024;

/// The numbers of series. Only the first lookup of a series builds its name.
///
/// A table of its own, because a day's 1.5 million series fit no cache: a lookup costs one miss,
/// and the lookups of a block's messages can be prefetched together. At most half of the entries
/// are used.
#[derive(Clone, Debug)]
pub struct AllSeries {
    places: Vec<SeriesSlot>,
    count: usize,
    pub(super) symbols: Symbols,
}

impl Default for AllSeries {
    fn default() -> AllSeries {
        let places = vec![SeriesSlot::default(); SLOTS_MIN];
        AllSeries { places, count: 0, symbols: Symbols::default() }
    }
}

impl AllSeries {
    /// Returns a series' number, and its name when it is new; `None` when it has no name.
    pub(super) fn number_of(
        &mut self,
        series: &Series,
    ) -> Option<(InstrumentId, Option<SymbolText>)> {
        let key = series.key();
        let at = self.place_of(key);
        if self.places[at].number != 0 {
            return Some((InstrumentId(self.places[at].number), None));
        }
        let name = series.name()?;
        let (number, _) = self.symbols.number_of(name);
        self.places[at] = SeriesSlot { key, number: number.0 };
        self.count += 1;
        if self.count * 2 > self.places.len() {
            self.grow();
        }
        Some((number, Some(name)))
    }

    /// Prefetches the entry at which the search for a series begins.
    #[inline]
    pub(super) fn prefetch(&self, series: &Series) {
        weir_memory::prefetch(&self.places[self.home(series.key())]);
    }

    fn home(&self, key: u128) -> usize {
        // Mixes the upper half of the key with all other bits.
        let (low, high) = (key as u64, (key >> 64) as u64);
        let mixed = (low ^ high.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 32) as usize & (self.places.len() - 1)
    }

    /// Returns the index of a series, or the index at which to insert it.
    #[inline]
    fn place_of(&self, key: u128) -> usize {
        let mut at = self.home(key);
        // The search ends at a free entry, and at least half are free.
        while self.places[at].number != 0 && self.places[at].key != key {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![SeriesSlot::default(); self.places.len() * 2];
        let old = std::mem::replace(&mut self.places, places);
        for place in old.into_iter().filter(|place| place.number != 0) {
            let at = self.place_of(place.key);
            self.places[at] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_the_name_that_occ_gives_it() {
        for (root, expiration, code, strike, want) in [
            (b"AMZN ", [b'A', 19, 24], b'B', 16_525, Some("AMZN  240119C00165250")),
            (b"AMZN ", [b'L', 29, 23], b'A', 1_330, Some("AMZN  231229C00133000")),
            (b"SPXW ", [b'X', 1, 5], b'I', 99_999, Some("SPXW  051201P99999000")),
            (b"Z    ", [b'M', 31, 99], b'D', 12_340, Some("Z     990131P00001234")),
            (b"Z    ", [b'M', 31, 99], b'D', 12_345, None),
            (b"Z    ", [b'Y', 31, 24], b'A', 1, None),
            (b"Z    ", [b'A', 0, 24], b'A', 1, None),
            (b"Z    ", [b'A', 1, 100], b'A', 1, None),
            (b"Z    ", [b'A', 1, 24], b'I', 100_000, None),
            (b"Z    ", [b'A', 1, 24], b'J', 1, None),
        ] {
            let name = Series::new(*root, expiration, code, strike).and_then(|it| it.name());
            assert_eq!(name.as_ref().map(SymbolText::as_str), want, "{root:?} {expiration:?}");
        }
    }

    #[test]
    fn a_series_has_one_number_however_its_strike_is_written() {
        let mut all = AllSeries::default();
        let series = |code, strike| Series::new(*b"SPY  ", [b'A', 2, 24], code, strike).unwrap();
        let (first, name) = all.number_of(&series(b'A', 4_500)).unwrap();
        assert!(name.is_some());
        assert_eq!(all.number_of(&series(b'B', 45_000)), Some((first, None)));
        assert_eq!(all.number_of(&series(b'I', 450)), Some((first, None)));
        assert_ne!(all.number_of(&series(b'I', 451)).unwrap().0, first);
    }

    #[test]
    fn as_many_series_as_a_day_has_keep_their_numbers_while_the_table_grows() {
        let mut all = AllSeries::default();
        let series = |index: u32| {
            let root =
                [b'A' + (index % 26) as u8, b'A' + (index / 26 % 26) as u8, b' ', b' ', b' '];
            Series::new(root, [b'A' + (index % 24) as u8, 1, 27], b'I', 1 + index / 624).unwrap()
        };
        for round in 0..2 {
            for index in 0..40_000 {
                let (number, name) = all.number_of(&series(index)).unwrap();
                assert_eq!(number, InstrumentId(index + 1));
                assert_eq!(name.is_some(), round == 0);
            }
        }
    }
}
