//! Rows split into columns of bytes: growing numbers as differences, first all first bytes of a
//! column, then the second ones. Keys are packed separately, so that a filter without matches
//! unpacks nothing else.

use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::rows::put_attributes;

use crate::data::{Data, FIRM_AT};
use crate::{Format, Packer};

const BLOCK_ROWS: usize = 2_048;
const ROW_LEN: usize = 159;
const KEYS: [&str; 5] = ["rec", "seq", "firm_id", "account_id", "instrument_id"];
const GROWING: [&str; 6] = ["rec", "seq", "order_id", "transact_time", "created_time", "price"];

pub struct ColumnBlocks {
    pub packer: Packer,
}

fn columns(of_keys: bool) -> impl Iterator<Item = (usize, usize, bool)> {
    OrderRow::FIELDS
        .iter()
        .filter(move |field| KEYS.contains(&field.name) == of_keys)
        .map(|field| (field.offset, field.size, GROWING.contains(&field.name)))
}

fn load(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn put_columns(rows: &[(Vec<u8>, Vec<u8>)], of_keys: bool, out: &mut Vec<u8>) {
    for (offset, size, is_growing) in columns(of_keys) {
        let start = out.len();
        out.resize(start + size * rows.len(), 0);
        let mut before = 0u64;
        for (index, (block, _)) in rows.iter().enumerate() {
            let mut bytes = [0; 16];
            bytes[..size].copy_from_slice(&block[offset..offset + size]);
            if is_growing {
                let value = load(&bytes);
                let step = value.wrapping_sub(before) as i64;
                bytes[..8].copy_from_slice(&(((step << 1) ^ (step >> 63)) as u64).to_le_bytes());
                before = value;
            }
            for (plane, byte) in bytes[..size].iter().enumerate() {
                out[start + plane * rows.len() + index] = *byte;
            }
        }
    }
}

fn take_columns(raw: &[u8], count: usize, of_keys: bool, rows: &mut [u8]) {
    let mut at = 0;
    for (offset, size, is_growing) in columns(of_keys) {
        let planes = &raw[at..at + size * count];
        at += size * count;
        if is_growing {
            let mut before = 0u64;
            for index in 0..count {
                let mut code = 0u64;
                for plane in 0..8 {
                    code |= u64::from(planes[plane * count + index]) << (8 * plane);
                }
                before = before.wrapping_add(((code >> 1) as i64 ^ -((code & 1) as i64)) as u64);
                let to = index * ROW_LEN + offset;
                rows[to..to + 8].copy_from_slice(&before.to_le_bytes());
            }
            continue;
        }
        for plane in 0..size {
            let bytes = &planes[plane * count..(plane + 1) * count];
            for (row, byte) in rows.chunks_exact_mut(ROW_LEN).zip(bytes) {
                row[offset + plane] = *byte;
            }
        }
    }
}

impl Format for ColumnBlocks {
    fn name(&self) -> String {
        format!("columns, {:?}", self.packer)
    }

    fn write(&self, data: &Data) -> Vec<u8> {
        let mut file = Vec::new();
        for rows in data.rows.chunks(BLOCK_ROWS) {
            let (mut keys, mut bodies, mut lens, mut texts) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            put_columns(rows, true, &mut keys);
            put_columns(rows, false, &mut bodies);
            for (_, attributes) in rows {
                lens.extend_from_slice(&(attributes.len() as u16).to_le_bytes());
                texts.extend_from_slice(attributes);
            }
            keys.extend_from_slice(&lens);
            file.extend_from_slice(&(rows.len() as u32).to_le_bytes());
            for raw in [&keys, &bodies, &texts] {
                let packed = self.packer.pack(raw);
                file.extend_from_slice(&(raw.len() as u32).to_le_bytes());
                file.extend_from_slice(&(packed.len() as u32).to_le_bytes());
                file.extend_from_slice(&packed);
            }
        }
        file
    }

    fn read(&self, file: &[u8], firm: u32, out: &mut Vec<u8>) -> usize {
        let (mut rest, mut total) = (file, 0);
        let (mut keys, mut bodies, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = Vec::new();
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
        while !rest.is_empty() {
            let count = word(rest);
            rest = &rest[4..];
            let mut parts = [(0, rest); 3];
            for part in &mut parts {
                let packed_len = word(&rest[4..]);
                *part = (word(rest), &rest[8..8 + packed_len]);
                rest = &rest[8 + packed_len..];
            }
            rows.resize(count * ROW_LEN, 0);
            self.packer.unpack(parts[0].1, parts[0].0, &mut keys);
            take_columns(&keys, count, true, &mut rows);
            let is_wanted = |row: &[u8]| firm == 0 || row[FIRM_AT..][..4] == firm.to_le_bytes();
            if !rows.chunks_exact(ROW_LEN).any(is_wanted) {
                continue;
            }
            self.packer.unpack(parts[1].1, parts[1].0, &mut bodies);
            take_columns(&bodies, count, false, &mut rows);
            self.packer.unpack(parts[2].1, parts[2].0, &mut texts);
            let lens = &keys[keys.len() - 2 * count..];
            let mut text_at = 0;
            for (row, len) in rows.chunks_exact(ROW_LEN).zip(lens.chunks_exact(2)) {
                let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
                if is_wanted(row) {
                    out.extend_from_slice(row);
                    put_attributes(&texts[text_at..text_at + len], out);
                    total += 1;
                }
                text_at += len;
            }
        }
        total
    }
}
