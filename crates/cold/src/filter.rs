//! Keys and filters, with the same meaning as in the order store, and the bytes of a change id.
//!
//! The two crates do not depend on each other: the caller that joins them converts. Numbers in
//! files are little-endian.

use weir_types::{AccountId, ChangeId, FirmId, InstrumentId, Rec, Seq};

/// Bytes of a change id.
pub(crate) const CHANGE_ID_LEN: usize = 16;

/// Appends a change id.
pub(crate) fn put_change_id(change_id: ChangeId, out: &mut Vec<u8>) {
    out.extend_from_slice(&change_id.seq.0.to_le_bytes());
    out.extend_from_slice(&change_id.rec.0.to_le_bytes());
}

/// Reads the change id at an offset.
pub(crate) fn change_id_at(bytes: &[u8], at: usize) -> ChangeId {
    ChangeId::new(Seq(u64_at(bytes, at)), Rec(u64_at(bytes, at + 8)))
}

/// The values of an order that filters use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The firm.
    pub firm_id: FirmId,
    /// The account.
    pub account_id: AccountId,
    /// The instrument.
    pub instrument_id: InstrumentId,
}

impl Keys {
    pub(crate) const fn to_words(self) -> [u32; 3] {
        [self.firm_id.0, self.account_id.0, self.instrument_id.0]
    }

    pub(crate) const fn from_words([firm, account, instrument]: [u32; 3]) -> Keys {
        Keys {
            firm_id: FirmId(firm),
            account_id: AccountId(account),
            instrument_id: InstrumentId(instrument),
        }
    }
}

/// A reader's filter; "none" in a field means any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this firm's orders.
    pub firm_id: FirmId,
    /// Only this account's orders.
    pub account_id: AccountId,
    /// Only this instrument's orders.
    pub instrument_id: InstrumentId,
    /// Only live orders, and the ends of those that were live at the reader's cursor.
    pub live_only: bool,
}

impl Filter {
    /// Returns the filter's three keys; zero for any.
    pub(crate) const fn to_words(self) -> [u32; 3] {
        [self.firm_id.0, self.account_id.0, self.instrument_id.0]
    }

    /// True when the filter names an order with these keys; `live_only` is not checked.
    #[must_use]
    #[inline]
    pub fn matches(&self, keys: &Keys) -> bool {
        let (asked, got) = (self.to_words(), keys.to_words());
        (0..3).all(|key| asked[key] == 0 || asked[key] == got[key])
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("the caller knows the length"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the caller knows the length"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the caller knows the length"))
}
