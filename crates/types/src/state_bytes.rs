//! The bytes of a view's state: numbers in groups of seven bits, the lowest first, and the eighth
//! bit set in all groups but the last.
//!
//! INVARIANT: reading allocates no more than a multiple of the bytes that are there.

/// Appends a number.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends numbers that ascend: their count, then the difference of each from the one before.
///
/// # Panics
/// When one is below the one before it, or there is another number of them.
pub fn put_ascending(out: &mut Vec<u8>, count: usize, numbers: impl Iterator<Item = u64>) {
    put_number(out, count as u64);
    let (mut before, mut put) = (0, 0);
    for number in numbers {
        put_number(out, number.checked_sub(before).expect("they ascend"));
        (before, put) = (number, put + 1);
    }
    assert_eq!(put, count, "as many as were announced");
}

/// The rest of a state's bytes. Each read is `None` when they are not what was put there.
#[derive(Clone, Copy, Debug)]
pub struct StateBytes<'a>(&'a [u8]);

impl<'a> StateBytes<'a> {
    /// Returns the bytes of a whole state.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> StateBytes<'a> {
        StateBytes(bytes)
    }

    /// Returns true when all is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a number.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                return None;
            }
            number |= group << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads bytes as they are.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// Reads a number of a narrower type.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// Reads a count of things of at least one byte each.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// Reads ascending numbers, and passes each to `take`.
    pub fn ascending(&mut self, mut take: impl FnMut(u64)) -> Option<()> {
        let mut number: u64 = 0;
        for _ in 0..self.count()? {
            number = number.checked_add(self.number()?)?;
            take(number);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_read_back(
            numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0..300_u64], 0..50),
        ) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put_number(&mut bytes, *number));
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            put_ascending(&mut bytes, sorted.len(), sorted.iter().copied());
            let mut state = StateBytes::new(&bytes);
            for number in numbers {
                prop_assert_eq!(state.number(), Some(number));
            }
            let mut read = Vec::new();
            prop_assert_eq!(state.ascending(|number| read.push(number)), Some(()));
            prop_assert_eq!(read, sorted);
            prop_assert!(state.is_empty() && state.number().is_none());
        }

        #[test]
        fn any_bytes_are_numbers_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut state = StateBytes::new(&bytes);
            let mut count = 0;
            let _ = state.ascending(|_| count += 1);
            prop_assert!(count <= bytes.len());
            while state.number().is_some() {}
        }
    }

    #[test]
    fn a_number_above_64_bits_is_none() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x01);
        assert_eq!(StateBytes::new(&bytes).number(), Some(u64::MAX));
        *bytes.last_mut().unwrap() = 0x02;
        assert_eq!(StateBytes::new(&bytes).number(), None);
        assert_eq!(StateBytes::new(&[0x80; 11]).number(), None);
        assert_eq!(StateBytes::new(&[0x05]).narrow::<u8>(), Some(5));
        assert_eq!(StateBytes::new(&[0x80, 0x02]).narrow::<u8>(), None);
    }
}
