//! Reads a recorded flow: entries of a little-endian u32 length and a command's bytes.

use std::path::Path;

use weir_wire::Command;

pub(crate) fn read(path: &Path) -> Vec<Command> {
    let bytes = std::fs::read(path).expect("the flow file can be read");
    let mut commands = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (entry, after) = after.split_at_checked(length).expect("the flow file ends early");
        commands.push(Command::decode(entry).expect("the flow file holds commands"));
        rest = after;
    }
    assert!(!commands.is_empty(), "the flow file is empty");
    commands
}
