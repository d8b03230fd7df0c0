//! The frame: a 64-byte header and a body, the unit that is written whole or not at all.
//!
//! The header has its own checksum, so that its statement about earlier frames (the highest synced
//! one) is reliable even when its body is damaged. Every frame carries the link, a hash of all
//! frames before it. Layout and reasons: `docs/protocols/log-format.md`.

use weir_types::{Durability, Epoch, Nanos, Position};

use crate::batch::split_entry;
use crate::plant::{self, Plant};

/// The size of a frame's header in bytes.
pub const FRAME_HEADER: usize = 64;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The entries of one batch.
    Entries = 1,
    /// A mark written when idle: all frames before it are synced.
    Mark = 2,
    /// A mark written at a clean stop.
    Close = 3,
    /// A mark written at each opening; its body holds the boot id and the version of rules.
    Open = 4,
}

impl FrameKind {
    fn from_code(code: u8) -> Option<FrameKind> {
        [FrameKind::Entries, FrameKind::Mark, FrameKind::Close, FrameKind::Open]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The whole frame's length in bytes, a multiple of eight.
    pub length: u32,
    /// CRC-32C of the body.
    pub body_crc: u32,
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The durability level of the writer.
    pub durability: Durability,
    /// The frame's number, dense from 1.
    pub frame: u64,
    /// The position of the first entry, or of the next entry to come when the frame has none.
    pub first_position: Position,
    /// The batch's log time.
    pub log_time: Nanos,
    /// The highest frame known to be on the medium when this frame was made.
    pub synced_frame: u64,
    /// The hash of all earlier frames.
    pub link: u64,
    /// The number of entries.
    pub count: u32,
    /// The writer's epoch.
    pub epoch: Epoch,
}

/// The place of the header's own checksum.
const CRC_AT: std::ops::Range<usize> = 4..8;

impl FrameHeader {
    /// Encodes the header with its checksum; also returns the checksum, which the next link
    /// includes.
    #[must_use]
    pub fn encode(&self) -> ([u8; FRAME_HEADER], u32) {
        let mut bytes = [0u8; FRAME_HEADER];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[12] = self.kind as u8;
        bytes[13] = durability_code(self.durability);
        bytes[16..24].copy_from_slice(&self.frame.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_position.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.log_time.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced_frame.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.link.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.count.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.epoch.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC_AT].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// Decodes a header and its checksum; `None` when the bytes are not a sound header.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(FrameHeader, u32)> {
        let bytes = bytes.first_chunk::<FRAME_HEADER>()?;
        let length = u32_at(bytes, 0);
        if (length as usize) < FRAME_HEADER || !length.is_multiple_of(8) {
            return None;
        }
        let kind = FrameKind::from_code(bytes[12])?;
        let durability = durability_from_code(bytes[13])?;
        let crc = u32_at(bytes, CRC_AT.start);
        let mut unsummed = *bytes;
        unsummed[CRC_AT].fill(0);
        if bytes[14..16] != [0, 0] || crc32c::crc32c(&unsummed) != crc {
            return None;
        }
        let header = FrameHeader {
            length,
            body_crc: u32_at(bytes, 8),
            kind,
            durability,
            frame: u64_at(bytes, 16),
            first_position: Position(u64_at(bytes, 24)),
            log_time: Nanos(u64_at(bytes, 32)),
            synced_frame: u64_at(bytes, 40),
            link: u64_at(bytes, 48),
            count: u32_at(bytes, 56),
            epoch: Epoch(u32_at(bytes, 60)),
        };
        Some((header, crc))
    }

    /// Returns the link of the next frame.
    #[must_use]
    pub fn next_link(&self, header_crc: u32) -> u64 {
        next_link(self.link, header_crc)
    }
}

/// Returns the link after a frame: a mix of the frame's own link and its header checksum, which
/// covers the body's checksum too.
#[must_use]
pub fn next_link(link: u64, header_crc: u32) -> u64 {
    let mut z = link.rotate_left(32) ^ u64::from(header_crc).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the link of a log's first frame.
#[must_use]
pub fn first_link(log_id: u128) -> u64 {
    let bytes = log_id.to_le_bytes();
    next_link(u64_at(&bytes, 0) ^ u64_at(&bytes, 8).rotate_left(1), crc32c::crc32c(&bytes))
}

/// The reason that the bytes at an offset are not the expected frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file ends inside the frame.
    Truncated,
    /// The bytes are neither a sound header nor zeros.
    BadHeader,
    /// The body does not match its checksum or its entries do not add up.
    BadBody,
    /// Zeros with other bytes after them.
    Hole,
    /// A sound frame from another place or history: number, position, time, epoch or link differ.
    Misplaced,
}

/// The content at an offset of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A sound frame.
    Frame {
        /// The frame's header.
        header: FrameHeader,
        /// The header's checksum.
        header_crc: u32,
        /// The frame's body.
        body: &'a [u8],
    },
    /// Zeros in place of a header: nothing was written here.
    Zeros,
    /// Neither a frame nor zeros.
    Fault(Fault),
}

/// Decodes the start of `bytes`. Checks the checksums and the entries' layout, not yet whether the
/// frame belongs at this place.
#[must_use]
pub fn decode_frame(bytes: &[u8]) -> Decoded<'_> {
    let head = &bytes[..bytes.len().min(FRAME_HEADER)];
    if head.iter().all(|&b| b == 0) {
        return Decoded::Zeros;
    }
    if head.len() < FRAME_HEADER {
        return Decoded::Fault(Fault::Truncated);
    }
    let Some((header, header_crc)) = FrameHeader::decode(head) else {
        return Decoded::Fault(Fault::BadHeader);
    };
    let Some(body) = bytes.get(FRAME_HEADER..header.length as usize) else {
        return Decoded::Fault(Fault::Truncated);
    };
    let is_whole = crc32c::crc32c(body) == header.body_crc || plant::is(Plant::ChecksumUnchecked);
    if !is_whole || !entries_add_up(&header, body) {
        return Decoded::Fault(Fault::BadBody);
    }
    Decoded::Frame { header, header_crc, body }
}

fn entries_add_up(header: &FrameHeader, body: &[u8]) -> bool {
    if header.kind != FrameKind::Entries {
        return header.count == 0;
    }
    let mut rest = body;
    let mut count = 0;
    while let Some((_, after)) = split_entry(rest) {
        rest = after;
        count += 1;
    }
    rest.is_empty() && count == header.count && count > 0
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn durability_code(level: Durability) -> u8 {
    match level {
        Durability::Memory => 1,
        Durability::Os => 2,
        Durability::Disk => 3,
    }
}

pub(crate) fn durability_from_code(code: u8) -> Option<Durability> {
    [Durability::Memory, Durability::Os, Durability::Disk]
        .into_iter()
        .find(|level| durability_code(*level) == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    fn frame() -> (FrameHeader, Vec<u8>) {
        let mut batch = Batch::new();
        let _ = batch.push(b"an entry");
        let _ = batch.push(b"another");
        let header = FrameHeader {
            length: (FRAME_HEADER + batch.bytes().len()) as u32,
            body_crc: crc32c::crc32c(batch.bytes()),
            kind: FrameKind::Entries,
            durability: Durability::Disk,
            frame: 7,
            first_position: Position(12),
            log_time: Nanos(99),
            synced_frame: 5,
            link: 0x0123_4567_89ab_cdef,
            count: 2,
            epoch: Epoch(3),
        };
        let mut bytes = header.encode().0.to_vec();
        bytes.extend_from_slice(batch.bytes());
        (header, bytes)
    }

    #[test]
    fn a_frame_reads_back() {
        let (wrote, bytes) = frame();
        let Decoded::Frame { header, header_crc, body } = decode_frame(&bytes) else { panic!() };
        assert_eq!(header, wrote);
        assert_eq!(header_crc, wrote.encode().1);
        assert_eq!(body, &bytes[FRAME_HEADER..]);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (_, bytes) = frame();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode_frame(&damaged), Decoded::Fault(_)), "bit {bit}");
        }
    }

    #[test]
    fn zeros_and_short_ends_are_told_apart() {
        let (_, bytes) = frame();
        assert_eq!(decode_frame(&[]), Decoded::Zeros);
        assert_eq!(decode_frame(&[0; 200]), Decoded::Zeros);
        for end in 1..bytes.len() {
            assert_eq!(decode_frame(&bytes[..end]), Decoded::Fault(Fault::Truncated), "{end}");
        }
    }

    #[test]
    fn links_differ_by_history() {
        assert_ne!(first_link(1), first_link(2));
        assert_ne!(next_link(1, 2), next_link(1, 3));
        assert_ne!(next_link(next_link(1, 2), 3), next_link(next_link(1, 3), 2));
    }
}
