//! Identifiers and numberings. Zero means "none" in every numeric identifier.

use core::fmt;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The value that means "none".
            pub const NONE: $name = $name(0);

            /// True for the value that means "none".
            #[inline]
            #[must_use]
            pub fn is_none(self) -> bool {
                self.0 == 0
            }

            /// The next one.
            #[must_use]
            pub fn next(self) -> $name {
                $name(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

numbers! {
    /// A tradable instrument.
    InstrumentId(u32);
    /// A member firm.
    FirmId(u32);
    /// A trading account of a firm.
    AccountId(u32);
    /// A trading session: one participant's connection identity, bound to one API key.
    SessionId(u32);
    /// A partition: an instrument set with its own command log. The control log is partition 0,
    /// the only numeric identifier in which zero is a value.
    PartitionId(u16);
    /// An order, unique over all partitions: see [`OrderId::new`].
    OrderId(u64);
    /// The number of a record (an order) of a source, in order of creation, from 1.
    Rec(u64);
    /// The number of a change of a source's records, from 1.
    Seq(u64);
    /// The place of a command in its log, dense, from 1.
    Position(u64);
    /// A term of one writer of a log, from 1.
    Epoch(u32);
    /// A session's number for its request to a partition, strictly increasing, from 1.
    RequestNo(u64);
    /// The number of an engine event addressed to a session by a partition, dense, from 1.
    EventNo(u64);
    /// The number of a report among all that a partition says, as a copy of it carries: rising, not
    /// dense for one firm, from 1.
    CopyNo(u64);
    /// A batch of an outside core's changes, numbered from 1 in each epoch of its source.
    BatchNo(u64);
    /// An execution report's own number within its partition.
    ExecId(u64);
    /// A trade's number within its partition: both sides' reports carry it.
    MatchId(u64);
}

impl OrderId {
    /// The identifier of the order created as `rec` in `partition`: the partition in the upper
    /// 16 bits, the record number in the lower 48.
    ///
    /// # Panics
    /// When `rec` needs more than 48 bits: 281 million million orders in one partition.
    #[inline]
    #[must_use]
    pub fn new(partition: PartitionId, rec: Rec) -> OrderId {
        assert!(rec.0 < 1 << 48, "record number exceeds 48 bits");
        OrderId(u64::from(partition.0) << 48 | rec.0)
    }

    /// The partition that created the order.
    #[inline]
    #[must_use]
    pub fn partition(self) -> PartitionId {
        PartitionId((self.0 >> 48) as u16)
    }

    /// The record number it was created as.
    #[inline]
    #[must_use]
    pub fn rec(self) -> Rec {
        Rec(self.0 & ((1 << 48) - 1))
    }
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// No text at all.
            pub const NONE: $name = $name([0; 16]);

            /// True when empty.
            #[inline]
            #[must_use]
            pub fn is_none(self) -> bool {
                self.0[0] == 0
            }

            /// The first 16 bytes of `text`; `None` when it is longer.
            #[must_use]
            pub fn new(text: &str) -> Option<$name> {
                let mut bytes = [0; 16];
                bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
                Some($name(bytes))
            }

            /// True when the bytes are printable ASCII, padded with zeroes to the right only.
            #[must_use]
            pub fn is_valid(self) -> bool {
                let len = self.len();
                self.0[..len].iter().all(|b| (0x21..=0x7e).contains(b))
                    && self.0[len..].iter().all(|b| *b == 0)
            }

            fn len(self) -> usize {
                self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for byte in &self.0[..self.len()] {
                    fmt::Write::write_char(f, if byte.is_ascii() { *byte as char } else { '?' })?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    )*};
}

texts! {
    /// The client's own name for an order: up to 16 printable ASCII characters, unique among the
    /// session's live orders.
    ClOrdId;
    /// An instrument's name as people write it: up to 16 printable ASCII characters.
    Symbol;
}

impl ClOrdId {
    /// The identifier that writes `number` in hexadecimal: how tools that count name orders.
    #[inline]
    #[must_use]
    pub fn from_number(number: u64) -> ClOrdId {
        // Tools seldom count past 2^32.
        let head = if number >> 32 == 0 { const { hex(0) } } else { hex((number >> 32) as u32) };
        let tail = hex(number as u32);
        ClOrdId((u128::from(head) << 64 | u128::from(tail)).to_be_bytes())
    }

    /// The number written by [`ClOrdId::from_number`], `None` for other texts.
    #[inline]
    #[must_use]
    pub fn to_number(self) -> Option<u64> {
        let whole = u128::from_be_bytes(self.0);
        let number = u64::from(unhex((whole >> 64) as u64)) << 32 | u64::from(unhex(whole as u64));
        (ClOrdId::from_number(number) == self).then_some(number)
    }
}

/// The eight hexadecimal digits of `number` in ASCII, the first in the highest byte: all at once,
/// since tools name millions of orders.
#[inline]
const fn hex(number: u32) -> u64 {
    let mut digits = number as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    digits + 0x3030_3030_3030_3030 + letters * 0x27
}

/// The number of eight digits as [`hex`] writes them; of others, some number.
#[inline]
const fn unhex(text: u64) -> u32 {
    let letters = text >> 6 & 0x0101_0101_0101_0101;
    let mut digits = (text & 0x0f0f_0f0f_0f0f_0f0f).wrapping_add(letters * 9);
    digits &= 0x0f0f_0f0f_0f0f_0f0f;
    digits = (digits | digits >> 4) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits >> 8) & 0x0000_ffff_0000_ffff;
    (digits | digits >> 16) as u32
}

/// What a node keeps of a session's secret, which itself is never stored: the BLAKE3 hash of an API
/// key, or an Ed25519 public key; a [`CredentialKind`](crate::CredentialKind) says which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential(pub [u8; 32]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_id_keeps_partition_and_record() {
        let id = OrderId::new(PartitionId(7), Rec(123_456_789));
        assert_eq!((id.partition(), id.rec()), (PartitionId(7), Rec(123_456_789)));
    }

    #[test]
    fn a_counted_cl_ord_id_reads_back_as_its_number() {
        for number in [0, 1, 0xdead_beef, u64::MAX] {
            let id = ClOrdId::from_number(number);
            assert!(id.is_valid());
            assert_eq!(id.to_number(), Some(number));
        }
        assert_eq!(ClOrdId::new("abc").unwrap().to_number(), None);
    }

    #[test]
    fn texts_know_their_valid_form() {
        let cases: &[(&[u8], bool)] =
            &[(b"AAPL", true), (b"a b", false), (b"\x01", false), (b"", true), (b"a\0b", false)];
        for (bytes, valid) in cases {
            let mut text = [0; 16];
            text[..bytes.len()].copy_from_slice(bytes);
            assert_eq!(Symbol(text).is_valid(), *valid, "{bytes:?}");
        }
        assert_eq!(Symbol::new("seventeen letters"), None);
        assert_eq!(Symbol::new("AAPL").unwrap().to_string(), "AAPL");
    }
}
