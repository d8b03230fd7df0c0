//! Bounds-checked reading and writing of little-endian integers and length-prefixed blocks.

use weir_types::Price;

use super::{NUMBER_MAX, SnapshotError};

pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn i128(&mut self, value: i128) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn optional_price(&mut self, price: Option<Price>) {
        self.flag(price.is_some());
        self.u64(price.unwrap_or(Price(0)).0.cast_unsigned());
    }

    pub(super) fn count(&mut self, value: usize) {
        self.u32(u32::try_from(value).expect("limits are below 2^32"));
    }

    /// Appends the bytes that `fill` writes, behind their length.
    pub(super) fn block(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        self.u32(0);
        fill(self.0);
        let len = u32::try_from(self.0.len() - start - 4).expect("a block is one message");
        self.0[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], SnapshotError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, SnapshotError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Result<bool, SnapshotError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SnapshotError::Invalid("flag")),
        }
    }

    pub(super) fn u16(&mut self) -> Result<u16, SnapshotError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads an ascending number.
    pub(super) fn number(&mut self) -> Result<u64, SnapshotError> {
        let number = self.u64()?;
        if number <= NUMBER_MAX { Ok(number) } else { Err(SnapshotError::Invalid("number")) }
    }

    /// Reads the number of rows that follow, at most `allowed`.
    pub(super) fn count(&mut self, what: &'static str, allowed: u32) -> Result<u32, SnapshotError> {
        let held = self.u32()?;
        if held <= allowed {
            return Ok(held);
        }
        Err(SnapshotError::LimitReached { what, held, allowed })
    }

    pub(super) fn i128(&mut self) -> Result<i128, SnapshotError> {
        self.array().map(i128::from_le_bytes)
    }

    pub(super) fn optional_price(&mut self) -> Result<Option<Price>, SnapshotError> {
        let is_some = self.flag()?;
        let price = Price(self.u64()?.cast_signed());
        Ok(is_some.then_some(price))
    }

    pub(super) fn block(&mut self) -> Result<&'a [u8], SnapshotError> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}
