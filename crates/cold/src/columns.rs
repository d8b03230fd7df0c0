//! Images split into columns of bytes, and reassembled.
//!
//! All first bytes of a field come together, then all second ones: similar bytes are adjacent, and
//! a plane of a single value takes two bytes. Numbers that grow are stored as differences to the
//! row before, numbers close to another one of their row as differences to that. Differences are
//! zigzag, so that small ones of either sign have zero high bytes.

use weir_wire::Message;
use weir_wire::delivery::{OrderRow, row_offset_of};

use crate::entry::{
    ACCOUNT_AT, ATTRIBUTES_LEN_AT, CHANGE_COUNT_AT, FIRM_AT, FIRST_AT, HISTORY_AT, HISTORY_LEN,
    IMAGE_LEN, INSTRUMENT_AT, NEXT_KEYS_AT, REC_AT, SEQ_AT, STANDING_AT, TRANSACT_TIME_AT,
};
use crate::filter::u64_at;

/// The encoding of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Unchanged.
    Plain,
    /// As differences to the row before; eight bytes.
    Step,
    /// As differences to the field at this offset; eight bytes.
    Near(usize),
}

#[derive(Clone, Copy, Debug)]
struct Column {
    at: usize,
    size: usize,
    coding: Coding,
}

const fn plain(at: usize, size: usize) -> Column {
    Column { at, size, coding: Coding::Plain }
}

const fn step(at: usize) -> Column {
    Column { at, size: 8, coding: Coding::Step }
}

const fn near(at: usize, other: usize) -> Column {
    Column { at, size: 8, coding: Coding::Near(other) }
}

/// The columns that filters and places use.
const KEY_COLUMNS: &[Column] = &[
    step(SEQ_AT),
    step(REC_AT),
    plain(FIRM_AT, 4),
    plain(ACCOUNT_AT, 4),
    plain(INSTRUMENT_AT, 4),
    plain(STANDING_AT, 1),
    plain(ATTRIBUTES_LEN_AT, 2),
];

const KEY_FIELDS: &[usize] = &[SEQ_AT, REC_AT, FIRM_AT, ACCOUNT_AT, INSTRUMENT_AT];
/// The fields of a row that are not with the keys, and the metadata besides the row.
const BODY_COLUMN_COUNT: usize = OrderRow::FIELDS.len() - KEY_FIELDS.len() + 4;
const BODY_COLUMNS: [Column; BODY_COLUMN_COUNT] = body_columns();

const fn body_columns() -> [Column; BODY_COLUMN_COUNT] {
    let mut columns = [plain(0, 0); BODY_COLUMN_COUNT];
    let (mut field, mut count) = (0, 0);
    while field < OrderRow::FIELDS.len() {
        let info = OrderRow::FIELDS[field];
        if !is_key(info.offset) {
            columns[count] = body_column(info.offset, info.size);
            count += 1;
        }
        field += 1;
    }
    columns[count] = near(FIRST_AT, SEQ_AT);
    columns[count + 1] = plain(CHANGE_COUNT_AT, 4);
    columns[count + 2] = plain(HISTORY_AT, 4 * HISTORY_LEN);
    columns[count + 3] = plain(NEXT_KEYS_AT, 12);
    columns
}

const fn is_key(at: usize) -> bool {
    let mut index = 0;
    while index < KEY_FIELDS.len() {
        if KEY_FIELDS[index] == at {
            return true;
        }
        index += 1;
    }
    false
}

const fn body_column(at: usize, size: usize) -> Column {
    if at == row_offset_of("order_id") {
        return near(at, REC_AT);
    }
    if at == TRANSACT_TIME_AT || at == row_offset_of("price") {
        return step(at);
    }
    if at == row_offset_of("created_time") {
        return near(at, TRANSACT_TIME_AT);
    }
    plain(at, size)
}

/// A set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Keys,
    Body,
}

impl Part {
    fn columns(self) -> &'static [Column] {
        match self {
            Part::Keys => KEY_COLUMNS,
            Part::Body => &BODY_COLUMNS,
        }
    }

    /// Returns the most bytes that `count` images take in columns.
    pub(crate) fn len_max(self, count: usize) -> usize {
        let planes: usize = self.columns().iter().map(|column| column.size).sum();
        planes * (1 + count.max(1))
    }
}

/// A plane's first byte: one byte follows for all rows, or one per row.
const SAME: u8 = 0;
const EACH: u8 = 1;

const fn zigzag(step: u64) -> u64 {
    (step << 1) ^ (step as i64 >> 63) as u64
}

const fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Appends the columns of `images`.
pub(crate) fn put_columns(part: Part, images: &[u8], out: &mut Vec<u8>) {
    let mut codes = Vec::with_capacity(images.len() / IMAGE_LEN);
    for column in part.columns() {
        if column.coding == Coding::Plain {
            for at in column.at..column.at + column.size {
                put_plane(images.chunks_exact(IMAGE_LEN).map(|image| image[at]), out);
            }
            continue;
        }
        codes.clear();
        let mut before = 0u64;
        for image in images.chunks_exact(IMAGE_LEN) {
            let value = u64_at(image, column.at);
            let from = match column.coding {
                Coding::Near(other) => u64_at(image, other),
                _ => core::mem::replace(&mut before, value),
            };
            codes.push(zigzag(value.wrapping_sub(from)));
        }
        for plane in 0..8 {
            put_plane(codes.iter().map(|code| code.to_le_bytes()[plane]), out);
        }
    }
}

fn put_plane(bytes: impl Iterator<Item = u8> + Clone, out: &mut Vec<u8>) {
    let first = bytes.clone().next().unwrap_or(0);
    if bytes.clone().all(|byte| byte == first) {
        out.extend_from_slice(&[SAME, first]);
    } else {
        out.push(EACH);
        out.extend(bytes);
    }
}

/// A plane in its encoded form.
#[derive(Clone, Copy)]
enum Plane<'a> {
    Same(u8),
    Each(&'a [u8]),
}

/// Fills in one part of `count` images from its columns; `None` if the bytes are not exactly such
/// columns. The other parts stay unchanged.
pub(crate) fn take_columns(part: Part, bytes: &[u8], images: &mut [u8]) -> Option<()> {
    let count = images.len() / IMAGE_LEN;
    let mut rest = bytes;
    let mut codes = vec![0u64; count];
    for column in part.columns() {
        if column.coding == Coding::Plain {
            for at in column.at..column.at + column.size {
                fill_plane(take_plane(&mut rest, count)?, at, images);
            }
            continue;
        }
        codes.fill(0);
        for plane in 0..8 {
            match take_plane(&mut rest, count)? {
                Plane::Same(0) => {}
                Plane::Same(byte) => {
                    codes.iter_mut().for_each(|code| *code |= u64::from(byte) << (8 * plane));
                }
                Plane::Each(bytes) => {
                    let pairs = codes.iter_mut().zip(bytes);
                    pairs.for_each(|(code, byte)| *code |= u64::from(*byte) << (8 * plane));
                }
            }
        }
        put_values(column, &codes, images);
    }
    rest.is_empty().then_some(())
}

fn put_values(column: &Column, codes: &[u64], images: &mut [u8]) {
    let mut before = 0u64;
    for (image, code) in images.chunks_exact_mut(IMAGE_LEN).zip(codes) {
        let from = match column.coding {
            Coding::Near(other) => u64_at(image, other),
            _ => before,
        };
        before = from.wrapping_add(unzigzag(*code));
        image[column.at..column.at + 8].copy_from_slice(&before.to_le_bytes());
    }
}

fn take_plane<'a>(rest: &mut &'a [u8], count: usize) -> Option<Plane<'a>> {
    let (kind, behind) = rest.split_first()?;
    match *kind {
        SAME => {
            let (byte, behind) = behind.split_first()?;
            *rest = behind;
            Some(Plane::Same(*byte))
        }
        EACH => {
            let (bytes, behind) = behind.split_at_checked(count)?;
            *rest = behind;
            Some(Plane::Each(bytes))
        }
        _ => None,
    }
}

fn fill_plane(plane: Plane<'_>, at: usize, images: &mut [u8]) {
    let to = images.chunks_exact_mut(IMAGE_LEN).map(|image| &mut image[at]);
    match plane {
        Plane::Same(byte) => to.for_each(|to| *to = byte),
        Plane::Each(bytes) => to.zip(bytes).for_each(|(to, byte)| *to = *byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_of_an_image_is_in_one_column() {
        let mut seen = [0u8; IMAGE_LEN];
        for column in KEY_COLUMNS.iter().chain(&BODY_COLUMNS) {
            seen[column.at..column.at + column.size].iter_mut().for_each(|count| *count += 1);
        }
        assert_eq!(seen, [1; IMAGE_LEN]);
    }

    proptest! {
        #[test]
        fn images_come_back_whatever_they_hold(
            images in prop::collection::vec(prop::collection::vec(
                prop_oneof![Just(0u8), any::<u8>()], IMAGE_LEN), 0..20),
        ) {
            let images = images.concat();
            let mut back = vec![0; images.len()];
            for part in [Part::Keys, Part::Body] {
                let mut columns = Vec::new();
                put_columns(part, &images, &mut columns);
                prop_assert!(columns.len() <= part.len_max(images.len() / IMAGE_LEN));
                prop_assert_eq!(take_columns(part, &columns, &mut back), Some(()));
                columns.push(0);
                prop_assert_eq!(take_columns(part, &columns, &mut back), None);
            }
            prop_assert_eq!(back, images);
        }
    }
}
