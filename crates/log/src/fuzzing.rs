//! Entry points for fuzzers: arbitrary bytes as a segment or a snapshot. No input may cause a
//! panic, a hang or an allocation of more than a small multiple of its size.
//!
//! Random bytes hardly ever pass a checksum. Each input is therefore also tried with its checksums,
//! frame numbers and links repaired, which lets a fuzzer reach the code after those checks.

use weir_io::{Disk, SimDisk};
use weir_types::{Durability, Nanos, PartitionId, Position};

use crate::embedded::{EmbeddedLog, LogConfig};
use crate::frame::{FRAME_HEADER, FrameHeader, u32_at};
use crate::reader::LogReader;
use crate::recovery::{decode_segment, inspect};
use crate::segment::{SEGMENT_HEADER, SegmentHeader, SegmentKind};
use crate::snapshot::decode_snapshot;

/// Reads, recovers and rereads `bytes` as the only segment of a command log.
pub fn fuzz_decode_segment(bytes: &[u8]) {
    exercise_segment(bytes);
    exercise_segment(&mended(bytes));
}

/// Decodes `bytes` as a snapshot file.
pub fn fuzz_decode_snapshot(bytes: &[u8]) {
    if let Ok((_, state)) = decode_snapshot(bytes) {
        assert!(state.len() < bytes.len(), "a file is longer than its state");
    }
}

fn exercise_segment(bytes: &[u8]) {
    let Ok((frames, _)) = decode_segment(bytes) else { return };
    assert!(frames as usize <= bytes.len() / FRAME_HEADER, "a frame has at least a header");
    let disk = SimDisk::new(1);
    disk.plant("00000000000000000001-00000000000000000001.wlog", bytes);
    let _ = read_through(disk.clone());
    let partition =
        SegmentHeader::decode(bytes, SegmentKind::Command).expect("it was decoded above").partition;
    let mut config = LogConfig::new(PartitionId(partition.0), 1);
    config.durability = Durability::Disk;
    config.segment_bytes = 8192;
    config.queue_bytes_max = 1 << 20;
    let Ok((mut log, report)) = EmbeddedLog::open(config, disk.clone()) else { return };
    assert_eq!(log.committed().0 + 1, report.positions.end, "what was recovered is committed");
    log.close().expect("a simulated disk without faults");
    drop(log);
    // Recovery must leave a sound log.
    let again = inspect(&mut disk.clone(), SegmentKind::Command).expect("a recovered log is sound");
    assert_eq!(again.map(|seen| (seen.clean, seen.positions)), Some((true, report.positions)));
}

fn read_through<D: Disk>(disk: D) -> Result<(), crate::error::LogError> {
    let mut reader = LogReader::open(disk, SegmentKind::Command, Position(0))?;
    let mut last = Nanos(0);
    while let Some(entry) = reader.next_entry()? {
        last = last.max(entry.log_time);
    }
    let _ = reader.seek(Position(1));
    Ok(())
}

/// Returns the same bytes with correct checksums, as far as the lengths allow.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < SEGMENT_HEADER {
        return bytes;
    }
    let crc = crc32c::crc32c(&bytes[..SEGMENT_HEADER - 4]);
    bytes[SEGMENT_HEADER - 4..SEGMENT_HEADER].copy_from_slice(&crc.to_le_bytes());
    let Ok(header) = SegmentHeader::decode(&bytes, SegmentKind::Command) else { return bytes };
    let (mut at, mut frame, mut link) = (SEGMENT_HEADER, header.first_frame, header.link);
    let mut position = header.first_position.0;
    while at + FRAME_HEADER <= bytes.len() {
        let length = u32_at(&bytes, at) as usize;
        if length < FRAME_HEADER || length > bytes.len() - at {
            break;
        }
        let body_crc = crc32c::crc32c(&bytes[at + FRAME_HEADER..at + length]);
        let head = &mut bytes[at..at + FRAME_HEADER];
        head[4..8].fill(0);
        head[8..12].copy_from_slice(&body_crc.to_le_bytes());
        head[16..24].copy_from_slice(&frame.to_le_bytes());
        head[24..32].copy_from_slice(&position.to_le_bytes());
        head[48..56].copy_from_slice(&link.to_le_bytes());
        let crc = crc32c::crc32c(head);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        let Some((sound, crc)) = FrameHeader::decode(head) else { break };
        link = sound.next_link(crc);
        position = position.saturating_add(sound.count.into());
        frame += 1;
        at += length;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Append, SequencedLog};
    use weir_io::{Rng, SeededRng};

    /// Returns a sound segment to start from.
    fn seed() -> Vec<u8> {
        let disk = SimDisk::new(1);
        let mut config = LogConfig::new(PartitionId(1), 1);
        config.segment_bytes = 8192;
        config.queue_bytes_max = 1 << 20;
        let mut batch = config.batch();
        let (mut log, _) = EmbeddedLog::open(config, disk.clone()).unwrap();
        for n in 1..20u8 {
            batch.clear();
            for size in 0..n % 4 + 1 {
                let _ = batch.push(&vec![n; usize::from(size) * 9]);
            }
            let time = Nanos(n.into());
            assert!(matches!(log.append(log.epoch(), time, &batch), Append::At { .. }));
            log.do_work(Nanos(0)).unwrap();
        }
        log.close().unwrap();
        let mut names = disk.clone().list().unwrap();
        names.retain(|name| name.ends_with(".wlog"));
        disk.contents(&names[0]).unwrap()
    }

    #[test]
    fn no_mutation_of_a_segment_makes_recovery_panic() {
        let seed = seed();
        let mut rng = SeededRng::new(1, "mutations");
        for _ in 0..3_000 {
            let mut bytes = seed.clone();
            for _ in 0..=rng.below(6) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(4) {
                    0 => bytes[at] = rng.next_u64() as u8,
                    1 => bytes[at] ^= 1 << rng.below(8),
                    2 => bytes.truncate(at.max(1)),
                    _ => {
                        let end = (at + 8).min(bytes.len());
                        bytes[at..end].fill(if rng.chance(1, 2) { 0xff } else { 0 });
                    }
                }
            }
            fuzz_decode_segment(&bytes);
            fuzz_decode_snapshot(&bytes);
        }
    }
}
