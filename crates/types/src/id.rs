//! Identifiers and numberings. Zero means "none" in every numeric identifier except
//! [`PartitionId`].

use core::fmt;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The value that means "none".
            pub const NONE: $name = $name(0);

            /// Returns true for the value that means "none".
            #[inline]
            #[must_use]
            pub fn is_none(self) -> bool {
                self.0 == 0
            }

            /// Returns the next number.
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
    /// A partition: a set of instruments with its own command log. The control log is partition 0;
    /// this is the only numeric identifier in which zero is a value.
    PartitionId(u16);
    /// A group of instruments, which an operator's request may name instead of one instrument.
    GroupId(u16);
    /// An order, unique over all partitions; [`OrderId::new`] gives the layout.
    OrderId(u64);
    /// The number of a source's record (order), in order of creation, from 1.
    Rec(u64);
    /// The number of a change to a source's records, from 1.
    Seq(u64);
    /// A command's position in its log, dense, from 1.
    Position(u64);
    /// The period in which a log has one writer, numbered from 1.
    Epoch(u32);
    /// The log whose order numbers a source's changes: its identity, folded to 64 bits. Sources of
    /// one number with different logs have nothing in common; none where it is not known.
    SourceLog(u64);
    /// A session's number for its request to a partition, strictly increasing, from 1.
    RequestNo(u64);
    /// The number of an engine event addressed to a session by a partition, dense, from 1.
    EventNo(u64);
    /// The number of a report in a partition's event log, as a copy of the report carries it:
    /// increasing from 1, not dense for one firm.
    CopyNo(u64);
    /// The number of a batch of an outside core's changes, from 1 in each epoch of its source.
    BatchNo(u64);
    /// The number of an execution report within its partition.
    ExecId(u64);
    /// The number of a trade within its partition; the reports of both sides carry it.
    MatchId(u64);
}

impl OrderId {
    /// Returns the identifier of the order created as `rec` in `partition`: the partition in the
    /// upper 16 bits, the record number in the lower 48.
    ///
    /// # Panics
    /// Panics when `rec` needs more than 48 bits, that is after 281 trillion orders in one
    /// partition.
    #[inline]
    #[must_use]
    pub fn new(partition: PartitionId, rec: Rec) -> OrderId {
        assert!(rec.0 < 1 << 48, "record number exceeds 48 bits");
        OrderId(u64::from(partition.0) << 48 | rec.0)
    }

    /// Returns the partition that created the order.
    #[inline]
    #[must_use]
    pub fn partition(self) -> PartitionId {
        PartitionId((self.0 >> 48) as u16)
    }

    /// Returns the order's record number in its partition.
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
            /// The empty text.
            pub const NONE: $name = $name([0; 16]);

            /// Returns true for the empty text.
            #[inline]
            #[must_use]
            pub fn is_none(self) -> bool {
                self.0[0] == 0
            }

            /// Returns `text` padded to 16 bytes with zeros, or `None` when it is longer.
            #[must_use]
            pub fn new(text: &str) -> Option<$name> {
                let mut bytes = [0; 16];
                bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
                Some($name(bytes))
            }

            /// Returns true when the bytes are printable ASCII without spaces, padded with zeros on
            /// the right only.
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
    /// The client's identifier for an order: up to 16 printable ASCII characters, unique among the
    /// session's live orders.
    ClOrdId;
    /// An instrument's symbol: up to 16 printable ASCII characters.
    Symbol;
}

impl ClOrdId {
    /// Returns the identifier that holds `number` in hexadecimal, for tools that number their
    /// orders.
    #[inline]
    #[must_use]
    pub fn from_number(number: u64) -> ClOrdId {
        // Tools seldom count past 2^32.
        let head = if number >> 32 == 0 { const { hex(0) } } else { hex((number >> 32) as u32) };
        let tail = hex(number as u32);
        ClOrdId((u128::from(head) << 64 | u128::from(tail)).to_be_bytes())
    }

    /// Returns the number written by [`ClOrdId::from_number`], or `None` for other texts.
    #[inline]
    #[must_use]
    pub fn to_number(self) -> Option<u64> {
        let whole = u128::from_be_bytes(self.0);
        let number = u64::from(unhex((whole >> 64) as u64)) << 32 | u64::from(unhex(whole as u64));
        (ClOrdId::from_number(number) == self).then_some(number)
    }
}

/// Returns the eight hexadecimal digits of `number` in ASCII, the first in the highest byte. It has
/// no loop, since tools name millions of orders.
#[inline]
const fn hex(number: u32) -> u64 {
    let mut digits = number as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    digits + 0x3030_3030_3030_3030 + letters * 0x27
}

/// Returns the number that eight digits of [`hex`] stand for; for any other input the result is
/// unspecified.
#[inline]
const fn unhex(text: u64) -> u32 {
    let letters = text >> 6 & 0x0101_0101_0101_0101;
    let mut digits = (text & 0x0f0f_0f0f_0f0f_0f0f).wrapping_add(letters * 9);
    digits &= 0x0f0f_0f0f_0f0f_0f0f;
    digits = (digits | digits >> 4) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits >> 8) & 0x0000_ffff_0000_ffff;
    (digits | digits >> 16) as u32
}

/// A session's credential as the node stores it: the BLAKE3 hash of an API key or an Ed25519 public
/// key, as [`CredentialKind`](crate::CredentialKind) says. The secret itself is never stored.
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
