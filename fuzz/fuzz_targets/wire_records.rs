//! Arbitrary bytes as an entry of a command log and as a record of an event log.
//!
//! Checks that a decoded entry encodes to bytes that decode to the same, and that every event
//! returns its position and its address.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::shaped_message;
use weir_wire::{Command, Event};

fuzz_target!(|bytes: &[u8]| {
    read_back(bytes);
    read_back(&shaped_message(bytes));
    // A definition's event and an import hold a second message behind their own.
    if let Some((len, tail)) = bytes.split_first() {
        let (outer, inner) = tail.split_at(usize::from(*len).min(tail.len()));
        let mut record = shaped_message(outer);
        record.extend_from_slice(&shaped_message(inner));
        read_back(&record);
    }
});

fn read_back(bytes: &[u8]) {
    let mut written = Vec::new();
    if let Ok(command) = Command::decode(bytes) {
        command.encode(&mut written);
        assert_eq!(Command::decode(&written), Ok(command));
        written.clear();
    }
    if let Ok(event) = Event::decode(bytes) {
        event.encode(&mut written);
        assert_eq!(Event::decode(&written), Ok(event));
        let _ = (event.position(), event.address());
    }
}
