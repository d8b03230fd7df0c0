//! Entry points for the fuzz targets: the decoders of the file formats, on any bytes.

use crate::block::{FileHeader, scan, u32_at};
use crate::table::{Table, VERSION_OF_ONE_PLACE};

/// Reads bytes as a spill file and as a slot of the table; returns the number of valid parts. Never
/// panics; a table that decodes encodes to the same table.
pub fn decode(bytes: &[u8]) -> usize {
    if let Ok(table) = Table::decode(bytes) {
        let again = table.encode();
        assert_eq!(Table::decode(&again).as_ref(), Ok(&table), "a table reads back");
        // Bytes that no field uses may differ, and with them the checksum; nothing else. Rows of
        // before have a field less.
        let is_old = u32_at(bytes, 8) < VERSION_OF_ONE_PLACE;
        assert!(is_old || again.len() <= bytes.len(), "a table is not longer than its slot");
    }
    let Ok(header) = FileHeader::decode(bytes) else { return 0 };
    let found = scan(bytes, &header);
    assert!(found.end <= (bytes.len() as u64).next_multiple_of(512), "it ends within the file");
    found.blocks.iter().map(|block| block.parts.len()).sum()
}
