//! Rows in the wire's form, in blocks.

use weir_wire::rows::put_attributes;

use crate::data::{Data, FIRM_AT};
use crate::{Format, Packer};

const BLOCK_ROWS: usize = 2_048;
const ROW_LEN: usize = 159;

pub struct RowBlocks {
    pub packer: Packer,
}

impl Format for RowBlocks {
    fn name(&self) -> String {
        format!("rows, {:?}", self.packer)
    }

    fn write(&self, data: &Data) -> Vec<u8> {
        let (mut file, mut raw) = (Vec::new(), Vec::new());
        for rows in data.rows.chunks(BLOCK_ROWS) {
            raw.clear();
            for (block, attributes) in rows {
                raw.extend_from_slice(block);
                put_attributes(attributes, &mut raw);
            }
            let packed = self.packer.pack(&raw);
            file.extend_from_slice(&(raw.len() as u32).to_le_bytes());
            file.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            file.extend_from_slice(&packed);
        }
        file
    }

    fn read(&self, file: &[u8], firm: u32, out: &mut Vec<u8>) -> usize {
        let (mut rest, mut raw, mut count) = (file, Vec::new(), 0);
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
        while !rest.is_empty() {
            let (len, packed_len) = (word(rest), word(&rest[4..]));
            self.packer.unpack(&rest[8..8 + packed_len], len, &mut raw);
            rest = &rest[8 + packed_len..];
            let mut at = 0;
            while at < raw.len() {
                let end = at
                    + ROW_LEN
                    + 2
                    + usize::from(u16::from_le_bytes([raw[at + ROW_LEN], raw[at + ROW_LEN + 1]]));
                if firm == 0 || raw[at + FIRM_AT..at + FIRM_AT + 4] == firm.to_le_bytes() {
                    out.extend_from_slice(&raw[at..end]);
                    count += 1;
                }
                at = end;
            }
        }
        count
    }
}
