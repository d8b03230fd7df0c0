//! The segment file: its name and its header, which states the point in history where its frames
//! start.
//!
//! A header is written and synced before the file gets its name, and never changes after. So a
//! named segment with an unsound header is damaged, not unfinished.

use weir_types::{Durability, Epoch, Nanos, PartitionId, Position};

use crate::frame::{durability_code, durability_from_code, u32_at, u64_at};

/// The header's size in bytes: frames begin at this offset.
pub const SEGMENT_HEADER: usize = 4096;

/// The format version that this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The maximum number of ended epochs in a header; older ones are dropped.
pub const EPOCHS_MAX: usize = 240;

/// The bound of frame numbers, positions and log times in nanoseconds; it keeps arithmetic on a
/// file's numbers from overflowing.
pub(crate) const NUMBER_MAX: u64 = 1 << 63;
/// The bound of epochs, for the same reason.
pub(crate) const EPOCH_MAX: u32 = 1 << 31;

const EPOCHS_AT: usize = 128;
const CRC_AT: usize = SEGMENT_HEADER - 4;

/// The kind of log that a segment belongs to.
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

    /// Returns the file name suffix of this kind.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            SegmentKind::Command => ".wlog",
            SegmentKind::Event => ".wevt",
        }
    }
}

/// An ended epoch and its last valid position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: Epoch,
    /// The epoch's last valid position; later ones seen in this epoch are lost.
    pub last_valid: Position,
}

/// The version of rules of a run whose opening mark or header names none.
pub const RULES_FIRST: u32 = 1;

/// The record of the writing process's start. It stands in each opening mark, and again in each
/// header, because the segment with the mark may be truncated away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The boot id of the machine.
    pub boot_id: [u8; 16],
    /// The durability level.
    pub durability: Durability,
    /// The version of the rules by which the process executed the entries; opaque to the log.
    pub rules: u32,
}

/// The size of an opening mark's body in bytes.
const OPENING_BODY: usize = 24;

impl Opening {
    /// Returns the body of the opening mark.
    pub(crate) fn body(&self) -> [u8; OPENING_BODY] {
        let mut bytes = [0; OPENING_BODY];
        bytes[..16].copy_from_slice(&self.boot_id);
        bytes[16..20].copy_from_slice(&self.rules.to_le_bytes());
        bytes
    }

    /// Decodes an opening mark's body: one of the first programs ends after the boot id.
    pub(crate) fn of_body(body: &[u8], durability: Durability) -> Option<Opening> {
        let rules = if body.len() < OPENING_BODY { 0 } else { u32_at(body, 16) };
        let boot_id = *body.first_chunk::<16>()?;
        Some(Opening { boot_id, durability, rules: rules_of(rules) })
    }
}

/// Returns the version of rules for its number in a file, which is zero in the oldest ones.
fn rules_of(number: u32) -> u32 {
    if number == 0 { RULES_FIRST } else { number }
}

/// The version of the rules by which a log's entries from a position on were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesSince {
    /// The position of the first entry.
    pub from: Position,
    /// The version.
    pub rules: u32,
}

/// Returns the last entry of a log that another version than `own` executed, and that version.
/// `rules` are the log's, oldest first, and `end` is one after its last position.
#[must_use]
pub fn last_of_other_rules(
    rules: &[RulesSince],
    end: Position,
    own: u32,
) -> Option<(Position, u32)> {
    let mut end = end;
    for since in rules.iter().rev() {
        if since.rules != own && since.from < end {
            return Some((Position(end.0 - 1), since.rules));
        }
        end = since.from;
    }
    None
}

/// A segment's header: the point in history of its first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The kind of log.
    pub kind: SegmentKind,
    /// The log's identity, drawn at its creation.
    pub log_id: u128,
    /// The log's partition.
    pub partition: PartitionId,
    /// The epoch at the time of writing.
    pub epoch: Epoch,
    /// The number of its first frame.
    pub first_frame: u64,
    /// The position of its first entry.
    pub first_position: Position,
    /// The link of its first frame.
    pub link: u64,
    /// The highest frame known to be on the medium at the time of writing.
    pub synced_frame: u64,
    /// The log time of the last frame before the segment.
    pub log_time: Nanos,
    /// The start of the process that wrote it.
    pub opening: Opening,
    /// The epochs that ended before it, oldest first, limited to the newest [`EPOCHS_MAX`].
    pub ended: Vec<EpochEnd>,
}

/// The reason that a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The header is damaged, or is none at all.
    Unsound,
    /// The header is sound, but of a version that this program does not know.
    Newer(u32),
    /// The header is sound, but of the other kind of log.
    OtherKind,
}

impl SegmentHeader {
    /// Returns the file name; names sort in the order of history.
    #[must_use]
    pub fn file_name(&self) -> String {
        let (position, frame) = (self.first_position.0, self.first_frame);
        format!("{position:020}-{frame:020}{}", self.kind.suffix())
    }

    /// Encodes the header.
    ///
    /// # Panics
    /// Panics when there are more ended epochs than fit.
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
        bytes[104..108].copy_from_slice(&self.opening.rules.to_le_bytes());
        for (end, slot) in self.ended.iter().zip(bytes[EPOCHS_AT..CRC_AT].chunks_exact_mut(16)) {
            slot[0..4].copy_from_slice(&end.epoch.0.to_le_bytes());
            slot[8..16].copy_from_slice(&end.last_valid.0.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns true when the header's numbers are possible in a log.
    fn is_possible(&self) -> bool {
        (1..NUMBER_MAX).contains(&self.first_frame)
            && (1..NUMBER_MAX).contains(&self.first_position.0)
            && self.log_time.0 < NUMBER_MAX
            && self.synced_frame < self.first_frame
            && (1..EPOCH_MAX).contains(&self.epoch.0)
    }

    /// Decodes a header of a `kind` log.
    ///
    /// # Errors
    /// Fails when it is damaged, newer, or of the other kind.
    pub fn decode(bytes: &[u8], kind: SegmentKind) -> Result<SegmentHeader, HeaderFault> {
        let bytes = bytes.get(..SEGMENT_HEADER).ok_or(HeaderFault::Unsound)?;
        // The checksum has the same place and meaning in all versions: only a whole header is
        // reported as newer.
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
            opening: Opening { boot_id, durability, rules: rules_of(u32_at(bytes, 104)) },
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
            opening: Opening { boot_id: [7; 16], durability: Durability::Os, rules: 3 },
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
    fn a_header_or_mark_without_a_version_of_rules_has_the_first() {
        let mut bytes = header().encode();
        bytes[104..108].fill(0);
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        let read = SegmentHeader::decode(&bytes, SegmentKind::Command).map(|read| read.opening);
        let (boot_id, durability) = ([7; 16], Durability::Os);
        let first = Opening { boot_id, durability, rules: RULES_FIRST };
        assert_eq!(read, Ok(first));
        assert_eq!(Opening::of_body(&[7; 16], durability), Some(first));
        let later = Opening { rules: 3, ..first };
        assert_eq!(Opening::of_body(&later.body(), durability), Some(later));
        assert_eq!(Opening::of_body(&[7; 15], durability), None);
    }

    #[test]
    fn the_last_entry_of_other_rules_is_found_and_runs_without_entries_do_not_count() {
        let rules = |versions: &[(u64, u32)]| -> Vec<RulesSince> {
            let since = |&(from, rules)| RulesSince { from: Position(from), rules };
            versions.iter().map(since).collect()
        };
        for (versions, end, want) in [
            (&[][..], 1, None),
            (&[(1, 2)], 9, None),
            (&[(1, 1)], 9, Some((8, 1))),
            (&[(1, 1)], 1, None),
            (&[(1, 1), (5, 2)], 9, Some((4, 1))),
            (&[(1, 2), (5, 3)], 9, Some((8, 3))),
            (&[(1, 2), (9, 3)], 9, None),
            (&[(1, 1), (5, 2), (7, 3), (8, 2)], 9, Some((7, 3))),
        ] {
            let found = last_of_other_rules(&rules(versions), Position(end), 2);
            assert_eq!(found.map(|(last, rules)| (last.0, rules)), want, "{versions:?}");
        }
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
