//! Rows of orders with their attributes: the group at the end of a page's body and of a batch. Each
//! entry is a block of [`OrderRow`], then a data field with bytes that only the source understands.
//!
//! [`take_rows`] walks the lengths once, which finds the end of the group and lets rows be taken
//! without further bounds checks. Fields and the attributes' length are checked as the rows are
//! taken, so that an error names its row.

use crate::delivery::OrderRow;
use crate::group::{put_data, take_data};
use crate::message::{DecodeError, Message};

/// The most bytes of a row's attributes.
pub const ATTRIBUTES_LEN_MAX: usize = 600;
/// The longest row on the wire in bytes: block, length, attributes.
pub const ROW_WIRE_LEN_MAX: usize = OrderRow::BLOCK_LENGTH + 2 + ATTRIBUTES_LEN_MAX;

/// Rows with their attributes, decoded one by one. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows<'a> {
    bytes: &'a [u8],
    block_length: usize,
    count: usize,
}

/// Parses the rows at the head of `bytes`; returns them and the rest.
///
/// # Errors
/// [`DecodeError::Truncated`] when rows are missing, [`DecodeError::BlockTooShort`] when their
/// blocks are shorter than a row's.
pub fn take_rows(bytes: &[u8]) -> Result<(Rows<'_>, &[u8]), DecodeError> {
    let Some((head, entries)) = bytes.split_first_chunk::<4>() else {
        return Err(DecodeError::Truncated("group header"));
    };
    let block_length = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if block_length < OrderRow::BLOCK_LENGTH && count > 0 {
        let (got, want) = (block_length, OrderRow::BLOCK_LENGTH);
        return Err(DecodeError::BlockTooShort { message: OrderRow::NAME, got, want });
    }
    let mut rest = entries;
    for _ in 0..count {
        let Some((_, behind)) = rest.split_at_checked(block_length) else {
            return Err(DecodeError::Truncated("group"));
        };
        rest = take_data(behind)?.1;
    }
    let bytes = &entries[..entries.len() - rest.len()];
    Ok((Rows { bytes, block_length, count }, rest))
}

impl<'a> Rows<'a> {
    /// Returns the next row as bytes: a block of at least [`OrderRow::BLOCK_LENGTH`] bytes with
    /// unchecked fields, and its attributes, which may be too long.
    #[inline]
    pub fn next_raw(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        if self.count == 0 {
            return None;
        }
        let (block, behind) = self.bytes.split_at(self.block_length);
        let (attributes, rest) = take_data(behind).expect("the lengths were walked");
        self.bytes = rest;
        self.count -= 1;
        Some((block, attributes))
    }

    /// Appends the remaining rows unchanged, with a group header.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_rows_header(self.block_length, self.count, out);
        out.extend_from_slice(self.bytes);
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<(OrderRow, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (block, attributes) = self.next_raw()?;
        Some(OrderRow::decode_block(block).and_then(|row| {
            check_attributes(attributes)?;
            Ok((row, attributes))
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Rows<'_> {}

/// Checks that attributes are not longer than a row may carry.
///
/// # Errors
/// [`DecodeError::FieldOutOfRange`] that names the attributes.
pub fn check_attributes(attributes: &[u8]) -> Result<(), DecodeError> {
    if attributes.len() <= ATTRIBUTES_LEN_MAX {
        return Ok(());
    }
    let index = u16::try_from(OrderRow::FIELDS.len() + 1).expect("a row has few fields");
    Err(DecodeError::FieldOutOfRange { message: OrderRow::NAME, field: "attributes", index })
}

/// Appends the header of a group of `count` rows; the caller then appends each by [`put_row`].
///
/// # Panics
/// When `count` exceeds 65,535.
pub fn put_row_count(count: usize, out: &mut Vec<u8>) {
    put_rows_header(OrderRow::BLOCK_LENGTH, count, out);
}

fn put_rows_header(block_length: usize, count: usize, out: &mut Vec<u8>) {
    let block_length = u16::try_from(block_length).expect("no block is as long as 64 KiB");
    let count = u16::try_from(count).expect("a group has at most 65,535 entries");
    out.extend_from_slice(&block_length.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
}

/// Appends a row.
///
/// # Panics
/// When the attributes are longer than [`ATTRIBUTES_LEN_MAX`].
#[inline]
pub fn put_row(row: &OrderRow, attributes: &[u8], out: &mut Vec<u8>) {
    row.encode_block(out);
    put_attributes(attributes, out);
}

/// Appends a row's attributes, which follow its block.
///
/// # Panics
/// When the attributes are longer than [`ATTRIBUTES_LEN_MAX`].
#[inline]
pub fn put_attributes(attributes: &[u8], out: &mut Vec<u8>) {
    assert!(attributes.len() <= ATTRIBUTES_LEN_MAX, "{} bytes of attributes", attributes.len());
    put_data(attributes, out);
}
