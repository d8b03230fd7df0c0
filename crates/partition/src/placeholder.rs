//! Placeholders: records in the place of those that do not concern a gateway process.
//!
//! A link carries a part of a partition's records, and the gateway numbers all of them. A
//! placeholder stands for one that was left out: 16 bytes, addressed to nobody.

use weir_types::Position;
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

/// The template of a placeholder; the schema has none of this number.
const TEMPLATE_ID: u16 = u16::MAX;
/// The length of its block: the position of a command, with which each record begins.
const BLOCK_LENGTH: u16 = 8;

/// Returns the placeholder of a record after the command at `position`.
#[must_use]
pub fn placeholder(position: Position) -> [u8; 16] {
    let mut record = [0; 16];
    let head = [BLOCK_LENGTH, TEMPLATE_ID, SCHEMA_ID, SCHEMA_VERSION];
    for (word, number) in record.as_chunks_mut::<2>().0.iter_mut().zip(head) {
        *word = number.to_le_bytes();
    }
    record[8..].copy_from_slice(&position.0.to_le_bytes());
    record
}

/// Returns true if a record is a placeholder.
#[inline]
#[must_use]
pub fn is_placeholder(record: &[u8]) -> bool {
    record.get(2..4) == Some(&TEMPLATE_ID.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_reader::position_of;
    use crate::event_record::EventRecord;

    #[test]
    fn a_placeholder_is_a_record_that_is_addressed_to_nobody() {
        let record = placeholder(Position(7));
        let read = EventRecord::new(&record);
        assert!(is_placeholder(&record) && read.address().is_none() && read.event().is_none());
        assert_eq!((position_of(&record), read.position()), (Position(7), 7));
    }

    #[test]
    fn a_record_of_another_template_is_no_placeholder() {
        let mut record = placeholder(Position(7));
        record[2] = 44;
        assert!(!is_placeholder(&record) && !is_placeholder(&[]));
    }
}
