//! The format page's example frame is what the code writes.

use weir_log::frame::{FrameHeader, FrameKind};
use weir_log::{Batch, Durability, Push};
use weir_types::{Epoch, Nanos, Position};

const PAGE: &str = include_str!("../../../docs/protocols/log-format.md");

fn example() -> String {
    let mut batch = Batch::new();
    assert_eq!(batch.push(b"hello, weir"), Push::Taken);
    let header = FrameHeader {
        length: 64 + u32::try_from(batch.bytes().len()).unwrap_or(0),
        body_crc: crc32c::crc32c(batch.bytes()),
        kind: FrameKind::Entries,
        durability: Durability::Disk,
        frame: 7,
        first_position: Position(12),
        log_time: Nanos(1_700_000_000_000_000_001),
        synced_frame: 6,
        link: 0x0123_4567_89ab_cdef,
        count: 1,
        epoch: Epoch(3),
    };
    let mut bytes = header.encode().0.to_vec();
    bytes.extend_from_slice(batch.bytes());
    let line = |(at, row): (usize, &[u8])| {
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:3}  {}", at * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_pages_example_frame_is_what_the_code_writes() {
    assert!(PAGE.contains(&example()), "the page should show:\n{}", example());
}
