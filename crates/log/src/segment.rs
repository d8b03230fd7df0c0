//! The segment file: its name and its header, which opens the history that its frames go on with.
//!
//! A header is written and synced before the file gets its name, and never changed after. So a
//! named segment with an unsound header is damaged, never merely unfinished.

use weir_types::{Durability, Epoch, Nanos, PartitionId, Position};

use crate::frame::{durability_code, durability_from_code, u32_at, u64_at};

/// The header's size in bytes: frames begin at this offset.
pub const SEGMENT_HEADER: usize = 4096;

/// The version of the format that this program writes and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// How many ended epochs a header holds; older ones are forgotten.
pub const EPOCHS_MAX: usize = 240;

/// Frame numbers, positions and log times in nanoseconds stay below this, so that no arithmetic on
/// what a file says can overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 63;
/// Epochs stay below this, likewise.
pub(crate) const EPOCH_MAX: u32 = 1 << 31;

const EPOCHS_AT: usize = 128;
const CRC_AT: usize = SEGMENT_HEADER - 4;

/// What a segment file is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// A command log.
    Command,
    /// An event log.
    Event,
}

impl SegmentKind {
    fn magic(self) -> [u8; 8] {
        match self {
            SegmentKind::Command => *b"WEIRCLOG",
            SegmentKind::Event => *b"WEIRELOG",
        }
    }

    /// The end of the file names of this kind.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            SegmentKind::Command => ".wlog",
            SegmentKind::Event => ".wevt",
        }
    }
}

/// An epoch that has ended, and the last position that is valid of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: Epoch,
    /// Its last valid position; later ones that were seen under it are lost.
    pub last_valid: Position,
}

/// What is noted of the run of the program that writes: in each opening mark, and again in each
/// header, because the segment that holds the mark may be truncated away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The machine's boot.
    pub boot_id: [u8; 16],
    /// The durability level.
    pub durability: Durability,
}

/// A segment's header: where in history its first frame stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// What it is a part of.
    pub kind: SegmentKind,
    /// The log's identity, drawn at its creation.
    pub log_id: u128,
    /// The partition whose log it is.
    pub partition: PartitionId,
    /// The epoch at the time of writing.
    pub epoch: Epoch,
    /// The number of its first frame.
    pub first_frame: u64,
    /// The position of its first entry.
    pub first_position: Position,
    /// The link that its first frame carries.
    pub link: u64,
    /// The highest frame known to be on the medium at the time of writing.
    pub synced_frame: u64,
    /// The log time of the last frame before it.
    pub log_time: Nanos,
    /// The run that wrote it.
    pub opening: Opening,
    /// The epochs that ended before, oldest first, the newest [`EPOCHS_MAX`] of them.
    pub ended: Vec<EpochEnd>,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// Damaged, or not a header at all.
    Unsound,
    /// Sound, of a version that this program does not know.
    Newer(u32),
    /// Sound, of the other kind of log.
    OtherKind,
}

impl SegmentHeader {
    /// The file's name: sorting by name sorts by history.
    #[must_use]
    pub fn file_name(&self) -> String {
        let (position, frame) = (self.first_position.0, self.first_frame);
        format!("{position:020}-{frame:020}{}", self.kind.suffix())
    }

    /// The header's bytes.
    ///
    /// # Panics
    /// With more ended epochs than fit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.ended.len() <= EPOCHS_MAX, "the oldest epochs are dropped before");
        let mut bytes = vec![0u8; SEGMENT_HEADER];
        bytes[0..8].copy_from_slice(&self.kind.magic());
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(SEGMENT_HEADER as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log_id.to_le_bytes());
        bytes[32..36].copy_from_slice(&u32::from(self.partition.0).to_le_bytes());
        bytes[36..40].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_frame.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.first_position.0.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.link.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.synced_frame.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.log_time.0.to_le_bytes());
        bytes[80..84].copy_from_slice(&(self.ended.len() as u32).to_le_bytes());
        bytes[84] = durability_code(self.opening.durability);
        bytes[88..104].copy_from_slice(&self.opening.boot_id);
        for (end, slot) in self.ended.iter().zip(bytes[EPOCHS_AT..CRC_AT].chunks_exact_mut(16)) {
            slot[0..4].copy_from_slice(&end.epoch.0.to_le_bytes());
            slot[8..16].copy_from_slice(&end.last_valid.0.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// True when its numbers can stand in a log.
    fn is_possible(&self) -> bool {
        (1..NUMBER_MAX).contains(&self.first_frame)
            && (1..NUMBER_MAX).contains(&self.first_position.0)
            && self.log_time.0 < NUMBER_MAX
            && self.synced_frame < self.first_frame
            && (1..EPOCH_MAX).contains(&self.epoch.0)
    }

    /// Reads a header of a `kind` log.
    ///
    /// # Errors
    /// When it is damaged, newer, or of the other kind.
    pub fn decode(bytes: &[u8], kind: SegmentKind) -> Result<SegmentHeader, HeaderFault> {
        let bytes = bytes.get(..SEGMENT_HEADER).ok_or(HeaderFault::Unsound)?;
        // The checksum's place and meaning are the same in all versions: a newer one is refused
        // as newer only when it is whole.
        if crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
            return Err(HeaderFault::Unsound);
        }
        let other = match kind {
            SegmentKind::Command => SegmentKind::Event,
            SegmentKind::Event => SegmentKind::Command,
        };
        if bytes[0..8] == other.magic() {
            return Err(HeaderFault::OtherKind);
        }
        let version = u32_at(bytes, 8);
        let count = u32_at(bytes, 80) as usize;
        if bytes[0..8] != kind.magic() || version == 0 {
            return Err(HeaderFault::Unsound);
        }
        if version > FORMAT_VERSION {
            return Err(HeaderFault::Newer(version));
        }
        let partition = u16::try_from(u32_at(bytes, 32)).map_err(|_| HeaderFault::Unsound)?;
        if count > EPOCHS_MAX || u32_at(bytes, 12) as usize != SEGMENT_HEADER {
            return Err(HeaderFault::Unsound);
        }
        let durability = durability_from_code(bytes[84]).ok_or(HeaderFault::Unsound)?;
        let boot_id = bytes[88..104].try_into().expect("sixteen bytes");
        let ended = bytes[EPOCHS_AT..CRC_AT].chunks_exact(16).take(count).map(|slot| EpochEnd {
            epoch: Epoch(u32_at(slot, 0)),
            last_valid: Position(u64_at(slot, 8)),
        });
        let header = SegmentHeader {
            kind,
            log_id: u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen bytes")),
            partition: PartitionId(partition),
            epoch: Epoch(u32_at(bytes, 36)),
            first_frame: u64_at(bytes, 40),
            first_position: Position(u64_at(bytes, 48)),
            link: u64_at(bytes, 56),
            synced_frame: u64_at(bytes, 64),
            log_time: Nanos(u64_at(bytes, 72)),
            opening: Opening { boot_id, durability },
            ended: ended.collect(),
        };
        if header.is_possible() { Ok(header) } else { Err(HeaderFault::Unsound) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        let ended = (1..4).map(|n| EpochEnd { epoch: Epoch(n), last_valid: Position(10) });
        SegmentHeader {
            kind: SegmentKind::Command,
            log_id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
            partition: PartitionId(3),
            epoch: Epoch(4),
            first_frame: 17,
            first_position: Position(33),
            link: 0xfeed,
            synced_frame: 16,
            log_time: Nanos(1_000),
            opening: Opening { boot_id: [7; 16], durability: Durability::Os },
            ended: ended.collect(),
        }
    }

    #[test]
    fn a_header_reads_back() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes, SegmentKind::Command), Ok(header()));
        assert_eq!(header().file_name(), "00000000000000000033-00000000000000000017.wlog");
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let bytes = header().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = SegmentHeader::decode(&damaged, SegmentKind::Command);
            assert_eq!(read, Err(HeaderFault::Unsound), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_and_the_other_kind_are_refused_as_such() {
        let mut bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes, SegmentKind::Event), Err(HeaderFault::OtherKind));
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes, SegmentKind::Command), Err(HeaderFault::Newer(2)));
    }
}
