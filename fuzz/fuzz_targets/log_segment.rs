//! Arbitrary bytes as a segment file: scanned alone, opened as a command log, read as an event log.
//!
//! Blind bytes stop at the first checksum. So the bytes also serve as a recipe for a segment whose
//! header and frames have valid checksums and whose fields deviate from a valid history as the
//! recipe chooses. Checks that opening never panics, that it repairs only once (a second opening
//! finds nothing to cut), and that an opened log can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_io::SimDisk;
use weir_log::frame::{FRAME_HEADER, FrameHeader, FrameKind, decode_frame, first_link};
use weir_log::recovery::decode_segment;
use weir_log::segment::{Opening, SegmentHeader};
use weir_log::{Durability, EmbeddedLog, LogConfig, LogReader, SegmentKind};
use weir_types::{Epoch, Nanos, PartitionId, Position};

const LOG_ID: u128 = 0x5745_4952;

fuzz_target!(|bytes: &[u8]| {
    // The crate's own entry point: a real log of two segments with the bytes planted in it.
    weir_log::fuzzing::fuzz_decode_segment(bytes);
    let _ = decode_frame(bytes);
    let _ = decode_segment(bytes);
    for kind in [SegmentKind::Command, SegmentKind::Event] {
        let (name, segment) = shaped_segment(kind, &mut Recipe::new(bytes));
        let _ = decode_segment(&segment);
        open(&name, &segment, kind);
        open(&name, bytes, kind);
    }
});

fn open(name: &str, segment: &[u8], kind: SegmentKind) {
    let disk = SimDisk::new(1);
    disk.plant(name, segment);
    if let Ok(mut reader) = LogReader::open(disk.clone(), kind, Position(0)) {
        while let Ok(Some(entry)) = reader.next_entry() {
            assert!(entry.bytes.len() <= segment.len(), "an entry longer than its file");
        }
    }
    if kind == SegmentKind::Command {
        open_log(&disk);
    }
}

fn open_log(disk: &SimDisk) {
    let config = || LogConfig {
        segment_bytes: 8192,
        durability: Durability::Memory,
        ..LogConfig::new(PartitionId(1), LOG_ID)
    };
    let Ok((mut log, _)) = EmbeddedLog::open(config(), disk.clone()) else { return };
    let last = log.committed();
    let mut reader = log.read(Position(0)).ok();
    while let Some(entry) = reader.as_mut().and_then(|reader| reader.next_entry().ok().flatten()) {
        assert!(entry.position <= last, "an entry behind the end of the log");
    }
    drop(reader);
    log.close().expect("the simulated disk was asked for no fault");
    drop(log);
    let (log, report) = EmbeddedLog::open(config(), disk.after_process_crash())
        .expect("what was opened and closed opens again");
    assert!(report.cut.is_none(), "opening twice cuts twice: {report:?}");
    assert_eq!(log.committed(), last, "opening changed history");
}

/// Makes a segment with a valid header and consecutive frames, unless the recipe deviates.
fn shaped_segment(kind: SegmentKind, recipe: &mut Recipe<'_>) -> (String, Vec<u8>) {
    let mut header = SegmentHeader {
        kind,
        log_id: LOG_ID,
        partition: PartitionId(1),
        epoch: Epoch(1),
        first_frame: 1,
        first_position: Position(1),
        link: first_link(LOG_ID),
        synced_frame: 0,
        log_time: Nanos(0),
        opening: Opening { boot_id: [0; 16], durability: Durability::Disk, rules: 1 },
        ended: Vec::new(),
    };
    if recipe.one_in(8) {
        header.first_frame = recipe.number();
        header.first_position = Position(recipe.number());
        header.synced_frame = recipe.number();
        header.log_time = Nanos(recipe.number());
        header.epoch = Epoch(recipe.number() as u32);
        header.partition = PartitionId(u16::from(recipe.byte()));
    }
    let mut segment = header.encode();
    let mut next = FrameHeader {
        length: 0,
        body_crc: 0,
        kind: FrameKind::Open,
        durability: Durability::Disk,
        frame: header.first_frame,
        first_position: header.first_position,
        log_time: Nanos(header.log_time.0.saturating_add(1)),
        synced_frame: 0,
        link: header.link,
        count: 0,
        epoch: header.epoch,
    };
    while !recipe.is_empty() {
        put_frame(&mut segment, &mut next, recipe);
    }
    if recipe.one_in(2) {
        segment.resize(segment.len() + 4096, 0);
    }
    (header.file_name(), segment)
}

fn put_frame(segment: &mut Vec<u8>, next: &mut FrameHeader, recipe: &mut Recipe<'_>) {
    let mut frame = *next;
    let mut body = Vec::new();
    frame.kind = match recipe.byte() % 4 {
        0 => FrameKind::Mark,
        1 => FrameKind::Open,
        2 => FrameKind::Close,
        _ => FrameKind::Entries,
    };
    frame.count = 0;
    if frame.kind == FrameKind::Entries {
        for _ in 0..1 + recipe.byte() % 4 {
            let entry = recipe.bytes_up_to(64);
            body.extend_from_slice(&(entry.len() as u32).to_le_bytes());
            body.extend_from_slice(entry);
            frame.count += 1;
        }
        body.resize(body.len().next_multiple_of(8), 0);
    }
    if recipe.one_in(8) {
        deviate(&mut frame, recipe);
    }
    frame.length = (FRAME_HEADER + body.len()) as u32;
    frame.body_crc = crc32c::crc32c(&body);
    let (head, crc) = frame.encode();
    segment.extend_from_slice(&head);
    segment.extend_from_slice(&body);
    next.frame = frame.frame.wrapping_add(1);
    next.first_position = Position(frame.first_position.0.wrapping_add(frame.count.into()));
    next.log_time = Nanos(frame.log_time.0.saturating_add(1));
    next.epoch = frame.epoch;
    next.link = frame.next_link(crc);
}

fn deviate(frame: &mut FrameHeader, recipe: &mut Recipe<'_>) {
    let value = recipe.number();
    match recipe.byte() % 8 {
        0 => frame.frame = value,
        1 => frame.first_position = Position(value),
        2 => frame.log_time = Nanos(value),
        3 => frame.synced_frame = value,
        4 => frame.link = value,
        5 => frame.count = value as u32,
        6 => frame.epoch = Epoch(value as u32),
        _ => frame.durability = Durability::Memory,
    }
}
