//! Repeating groups and data fields, as SBE's standard composites: a group is a block length and a
//! count (2 bytes each), then the entries; a data field is a length (2 bytes), then the bytes.

use core::marker::PhantomData;

use crate::message::{DecodeError, Message};

/// Appends a group of entries.
///
/// # Panics
/// When there are more than 65,535 entries; the caller limits them.
pub fn put_group<E: Message>(entries: &[E], out: &mut Vec<u8>) {
    put_group_header::<E>(entries.len(), out);
    for entry in entries {
        entry.encode_block(out);
    }
}

/// Appends a group's header; the caller then appends `count` blocks of `E`.
///
/// # Panics
/// When `count` exceeds 65,535.
pub fn put_group_header<E: Message>(count: usize, out: &mut Vec<u8>) {
    put_dimensions(E::BLOCK_LENGTH, count, out);
}

fn put_dimensions(block_length: usize, count: usize, out: &mut Vec<u8>) {
    let block_length = u16::try_from(block_length).expect("no block is as long as 64 KiB");
    let count = u16::try_from(count).expect("a group has at most 65,535 entries");
    out.extend_from_slice(&block_length.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
}

/// The entries of a group, decoded one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a, E> {
    bytes: &'a [u8],
    block_length: usize,
    count: usize,
    entry: PhantomData<E>,
}

/// Parses the group at the head of `bytes`; returns it and the rest.
///
/// # Errors
/// [`DecodeError::Truncated`] when entries are missing, [`DecodeError::BlockTooShort`] when they
/// are shorter than `E`.
pub fn take_group<'a, E: Message>(
    bytes: &'a [u8],
) -> Result<(Group<'a, E>, &'a [u8]), DecodeError> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(DecodeError::Truncated("group header"));
    };
    let block_length = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if block_length < E::BLOCK_LENGTH && count > 0 {
        return Err(DecodeError::BlockTooShort {
            message: E::NAME,
            got: block_length,
            want: E::BLOCK_LENGTH,
        });
    }
    let Some((entries, rest)) = rest.split_at_checked(block_length * count) else {
        return Err(DecodeError::Truncated("group"));
    };
    Ok((Group { bytes: entries, block_length, count, entry: PhantomData }, rest))
}

impl<E: Message> Group<'_, E> {
    /// Appends the group's remaining entries unchanged, with a header. A longer entry, of a later
    /// version, keeps its length.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_dimensions(self.block_length, self.count, out);
        out.extend_from_slice(self.bytes);
    }
}

impl<E: Message> Iterator for Group<'_, E> {
    type Item = Result<E, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let (block, rest) = self.bytes.split_at(self.block_length);
        self.bytes = rest;
        self.count -= 1;
        Some(E::decode_block(block))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl<E: Message> ExactSizeIterator for Group<'_, E> {}

/// Appends a data field.
///
/// # Panics
/// When `data` has more than 65,535 bytes; the caller limits it.
pub fn put_data(data: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(data.len()).expect("a data field has at most 65,535 bytes");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(data);
}

/// Parses the data field at the head of `bytes`; returns it and the rest.
///
/// # Errors
/// [`DecodeError::Truncated`].
pub fn take_data(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else {
        return Err(DecodeError::Truncated("data length"));
    };
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
        .ok_or(DecodeError::Truncated("data"))
}
