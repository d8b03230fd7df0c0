//! The tables and examples of the format page match the code: each is laid out here by hand, by the
//! page's offsets, and compared.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use weir_io::SimDisk;
use weir_log::frame::{FrameHeader, FrameKind, first_link, next_link};
use weir_log::segment::Opening;
use weir_log::{Batch, Durability, EpochEnd, Push, SegmentHeader, SegmentKind, SnapshotStore};
use weir_types::{Epoch, Nanos, PartitionId, Position};

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

/// Formats rows of sixteen bytes, without the rows that are all zeros.
fn rows(bytes: &[u8]) -> String {
    let line = |(at, row): (usize, &[u8])| {
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        (row.iter().any(|&byte| byte != 0)).then(|| format!("{:4}  {}", at * 16, hex.join(" ")))
    };
    bytes.chunks(16).enumerate().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Writes a number of `size` bytes at the page's offset.
fn put(bytes: &mut [u8], at: usize, size: usize, value: u128) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

const LOG_ID: u128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;

/// Returns the segment header of the page's example, laid out by the page's table.
fn header_by_hand() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"WEIRCLOG");
    put(&mut bytes, 8, 4, 1);
    put(&mut bytes, 12, 4, 4096);
    put(&mut bytes, 16, 16, LOG_ID);
    put(&mut bytes, 32, 4, 1);
    put(&mut bytes, 36, 4, 3);
    put(&mut bytes, 40, 8, 7);
    put(&mut bytes, 48, 8, 12);
    put(&mut bytes, 56, 8, 0x0123_4567_89ab_cdef);
    put(&mut bytes, 64, 8, 6);
    put(&mut bytes, 72, 8, 1_700_000_000_000_000_000);
    put(&mut bytes, 80, 4, 1);
    put(&mut bytes, 84, 1, 3);
    bytes[88..104].copy_from_slice(&[0xb0; 16]);
    put(&mut bytes, 104, 4, 1);
    put(&mut bytes, 128, 4, 2);
    put(&mut bytes, 136, 8, 11);
    let crc = crc32c::crc32c(&bytes[..4092]);
    put(&mut bytes, 4092, 4, crc.into());
    bytes
}

#[test]
fn a_segment_header_is_what_the_page_says_byte_by_byte() {
    let header = SegmentHeader {
        kind: SegmentKind::Command,
        log_id: LOG_ID,
        partition: PartitionId(1),
        epoch: Epoch(3),
        first_frame: 7,
        first_position: Position(12),
        link: 0x0123_4567_89ab_cdef,
        synced_frame: 6,
        log_time: Nanos(1_700_000_000_000_000_000),
        opening: Opening { boot_id: [0xb0; 16], durability: Durability::Disk, rules: 1 },
        ended: vec![EpochEnd { epoch: Epoch(2), last_valid: Position(11) }],
    };
    assert_eq!(header.encode(), header_by_hand());
    let shown = rows(&header_by_hand());
    assert!(PAGE.contains(&shown), "the page should show:\n{shown}");
    assert!(PAGE.contains(&header.file_name()), "the page should name {}", header.file_name());
}

#[test]
fn a_frame_is_what_the_page_says_byte_by_byte() {
    let body = [&11_u64.to_le_bytes()[..], b"hello, weir", &[0; 5]].concat();
    let mut bytes = vec![0; 64];
    put(&mut bytes, 0, 4, 88);
    put(&mut bytes, 8, 4, crc32c::crc32c(&body).into());
    put(&mut bytes, 12, 1, 1);
    put(&mut bytes, 13, 1, 3);
    put(&mut bytes, 16, 8, 7);
    put(&mut bytes, 24, 8, 12);
    put(&mut bytes, 32, 8, 1_700_000_000_000_000_001);
    put(&mut bytes, 40, 8, 6);
    put(&mut bytes, 48, 8, 0x0123_4567_89ab_cdef);
    put(&mut bytes, 56, 4, 1);
    put(&mut bytes, 60, 4, 3);
    let crc = crc32c::crc32c(&bytes);
    put(&mut bytes, 4, 4, crc.into());
    bytes.extend_from_slice(&body);
    let lines = |(at, row): (usize, &[u8])| {
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:3}  {}", at * 16, hex.join(" "))
    };
    let shown = bytes.chunks(16).enumerate().map(lines).collect::<Vec<_>>().join("\n");
    assert_eq!(shown, example());
}

#[test]
fn the_link_is_what_the_page_says() {
    let mix = |link: u64, crc: u32| {
        let z = link.rotate_left(32) ^ u64::from(crc).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    assert_eq!(
        next_link(0x0123_4567_89ab_cdef, 0xf246_b8e7),
        mix(0x0123_4567_89ab_cdef, 0xf246_b8e7)
    );
    let id = LOG_ID.to_le_bytes();
    let halves = [0, 8].map(|at| u64::from_le_bytes(id[at..at + 8].try_into().unwrap()));
    let first = mix(halves[0] ^ halves[1].rotate_left(1), crc32c::crc32c(&id));
    assert_eq!(first_link(LOG_ID), first);
}

#[test]
fn a_snapshot_file_is_what_the_page_says_byte_by_byte() {
    let state = b"the state at 12";
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(b"WEIRSNAP");
    put(&mut bytes, 8, 4, 1);
    put(&mut bytes, 12, 4, 1);
    put(&mut bytes, 16, 16, LOG_ID);
    put(&mut bytes, 32, 8, 12);
    put(&mut bytes, 40, 8, state.len() as u128);
    let crc = crc32c::crc32c(&bytes[..60]);
    put(&mut bytes, 60, 4, crc.into());
    bytes.extend_from_slice(state);
    let crc = crc32c::crc32c(&[&0_u64.to_le_bytes()[..], state].concat());
    bytes.extend_from_slice(&u64::from(crc).to_le_bytes());

    let disk = SimDisk::new(1);
    let mut store = SnapshotStore::new(disk.clone(), LOG_ID, PartitionId(1));
    store.write(Position(12), state).unwrap();
    assert_eq!(disk.contents("00000000000000000012.wsnap"), Some(bytes.clone()));
    let shown = rows(&bytes);
    assert!(PAGE.contains(&shown), "the page should show:\n{shown}");
}

#[test]
fn the_pages_example_frame_is_what_the_code_writes() {
    assert!(PAGE.contains(&example()), "the page should show:\n{}", example());
}
