//! A segment file: the latest state of each record that changed between two places, in blocks of
//! columns followed by an index. `docs/protocols/cold-format.md` specifies it byte by byte.
//!
//! A checksum covers each byte of a file. A file is written under a temporary name, synced,
//! renamed, and its directory synced: it is either complete or absent.

use weir_types::{ChangeId, Epoch, Nanos, PartitionId, Rec, Seq};

use crate::filter::{CHANGE_ID_LEN, Filter, change_id_at, put_change_id, u16_at, u32_at, u64_at};

/// The version of the format.
pub const FORMAT_VERSION: u32 = 1;
/// The suffix of a segment's file name.
pub const SUFFIX: &str = ".wcold";
/// The suffix of an unfinished file's name.
pub(crate) const PART_SUFFIX: &str = ".part";
/// The most entries of a block.
pub const BLOCK_ENTRIES_MAX: u32 = 16_384;

const MAGIC: [u8; 8] = *b"WEIRCOLD";
const END_MAGIC: [u8; 8] = *b"WEIRCEND";
pub(crate) const HEADER_LEN: usize = 128;
const HEADER_CRC_AT: usize = HEADER_LEN - 4;
pub(crate) const FOOTER_LEN: usize = 64;
const FOOTER_CRC_AT: usize = FOOTER_LEN - 4;
/// Parts of a block: keys, body, attributes.
pub(crate) const PART_COUNT: usize = 3;
/// Bits of a key's bitmap in a block's index entry.
const MAP_BITS: u32 = 2_048;
const MAP_LEN: usize = MAP_BITS as usize / 8;
const PARTS_AT: usize = 12 + 2 * CHANGE_ID_LEN;
const RANGES_AT: usize = PARTS_AT + 12 * PART_COUNT;
const MAPS_AT: usize = RANGES_AT + 3 * 8;
/// Bytes of an index entry.
pub(crate) const ENTRY_LEN: usize = MAPS_AT + 3 * MAP_LEN;

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not begin as a segment, or its header is damaged.
    #[error("the header is damaged (offset 0)")]
    Header,
    /// It was written by a newer program.
    #[error("format version {0} is newer than this program")]
    Newer(u32),
    /// Its header does not match its name.
    #[error("the header is of another file")]
    OtherName,
    /// The file is shorter than its parts.
    #[error("the file ends at {0}, within what it holds")]
    Truncated(u64),
    /// The footer is damaged.
    #[error("the footer is damaged (offset {0})")]
    Footer(u64),
    /// The index is damaged or contradicts itself.
    #[error("the index is damaged (offset {0})")]
    Index(u64),
    /// A block is damaged.
    #[error("{part} of block {block} are damaged (offset {offset})")]
    Block {
        /// The block's number in the file.
        block: u32,
        /// Keys, body or attributes.
        part: &'static str,
        /// The offset of the part.
        offset: u64,
    },
}

/// The range and origin of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source of the records.
    pub source: PartitionId,
    /// The epoch of the last change.
    pub epoch: Epoch,
    /// The changes are after this place,
    pub after: ChangeId,
    /// and up to this one.
    pub to: ChangeId,
    /// The earliest time of a change; zero if no change has one.
    pub first_time: Nanos,
    /// The latest time of a change.
    pub last_time: Nanos,
    /// The archive's time when the segment was closed, from which its age counts; zero for unknown,
    /// as in segments of before.
    pub closed_at: Nanos,
}

impl Header {
    /// Returns the name of the file.
    #[must_use]
    pub fn file_name(&self) -> String {
        let Header { source, epoch, after, to, .. } = self;
        format!(
            "{:05}-{:010}-{:020}.{:020}-{:020}.{:020}{SUFFIX}",
            source.0, epoch.0, after.seq.0, after.rec.0, to.seq.0, to.rec.0
        )
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        bytes.extend_from_slice(&self.source.0.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.epoch.0.to_le_bytes());
        put_change_id(self.after, &mut bytes);
        put_change_id(self.to, &mut bytes);
        bytes.extend_from_slice(&self.first_time.0.to_le_bytes());
        bytes.extend_from_slice(&self.last_time.0.to_le_bytes());
        bytes.extend_from_slice(&self.closed_at.0.to_le_bytes());
        bytes.resize(HEADER_CRC_AT, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.try_into().expect("a header has its length")
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`Fault::Header`], [`Fault::Newer`].
    pub fn decode(bytes: &[u8]) -> Result<Header, Fault> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else { return Err(Fault::Header) };
        let crc = u32_at(bytes, HEADER_CRC_AT);
        if bytes[..8] != MAGIC || crc32c::crc32c(&bytes[..HEADER_CRC_AT]) != crc {
            return Err(Fault::Header);
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            return Err(Fault::Newer(version));
        }
        let header = Header {
            source: PartitionId(u16_at(bytes, 16)),
            epoch: Epoch(u32_at(bytes, 20)),
            after: change_id_at(bytes, 24),
            to: change_id_at(bytes, 40),
            first_time: Nanos(u64_at(bytes, 56)),
            last_time: Nanos(u64_at(bytes, 64)),
            closed_at: Nanos(u64_at(bytes, 72)),
        };
        let is_sound = version == FORMAT_VERSION
            && u32_at(bytes, 12) == HEADER_LEN as u32
            && header.after < header.to;
        if is_sound { Ok(header) } else { Err(Fault::Header) }
    }
}

/// The lengths and the checksum of a part of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartIndex {
    pub(crate) packed_len: u32,
    pub(crate) raw_len: u32,
    pub(crate) crc: u32,
}

pub(crate) const PART_NAMES: [&str; PART_COUNT] = ["keys", "body", "attributes"];

/// A block's index entry, before it is written.
#[derive(Clone, Debug)]
pub(crate) struct BlockSummary {
    pub(crate) offset: u64,
    pub(crate) count: u32,
    pub(crate) first: ChangeId,
    pub(crate) last: ChangeId,
    pub(crate) parts: [PartIndex; PART_COUNT],
    ranges: [(u32, u32); 3],
    maps: [[u8; MAP_LEN]; 3],
}

fn map_bit(word: u32) -> (usize, u8) {
    let bit = word.wrapping_mul(0x9e37_79b1) >> (32 - MAP_BITS.ilog2());
    ((bit / 8) as usize, 1 << (bit % 8))
}

impl BlockSummary {
    pub(crate) fn new(offset: u64) -> BlockSummary {
        BlockSummary {
            offset,
            count: 0,
            first: ChangeId::START,
            last: ChangeId::START,
            parts: Default::default(),
            ranges: [(u32::MAX, 0); 3],
            maps: [[0; MAP_LEN]; 3],
        }
    }

    pub(crate) fn add(&mut self, change_id: ChangeId, keys: [u32; 3]) {
        if self.count == 0 {
            self.first = change_id;
        }
        self.last = change_id;
        self.count += 1;
        for (key, word) in keys.into_iter().enumerate() {
            let (least, most) = self.ranges[key];
            self.ranges[key] = (least.min(word), most.max(word));
            let (at, bit) = map_bit(word);
            self.maps[key][at] |= bit;
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        put_change_id(self.first, out);
        put_change_id(self.last, out);
        for part in self.parts {
            for word in [part.packed_len, part.raw_len, part.crc] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        for (least, most) in self.ranges {
            out.extend_from_slice(&least.to_le_bytes());
            out.extend_from_slice(&most.to_le_bytes());
        }
        self.maps.iter().for_each(|map| out.extend_from_slice(map));
    }
}

/// An index entry in its encoded form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockIndex<'a>(&'a [u8]);

impl BlockIndex<'_> {
    pub(crate) fn offset(self) -> u64 {
        u64_at(self.0, 0)
    }

    pub(crate) fn count(self) -> u32 {
        u32_at(self.0, 8)
    }

    pub(crate) fn first(self) -> ChangeId {
        change_id_at(self.0, 12)
    }

    pub(crate) fn last(self) -> ChangeId {
        change_id_at(self.0, 12 + CHANGE_ID_LEN)
    }

    pub(crate) fn part(self, part: usize) -> PartIndex {
        let at = PARTS_AT + 12 * part;
        PartIndex {
            packed_len: u32_at(self.0, at),
            raw_len: u32_at(self.0, at + 4),
            crc: u32_at(self.0, at + 8),
        }
    }

    pub(crate) fn part_offset(self, part: usize) -> u64 {
        let before = (0..part).map(|part| u64::from(self.part(part).packed_len));
        self.offset() + before.sum::<u64>()
    }

    pub(crate) fn end(self) -> u64 {
        self.part_offset(PART_COUNT)
    }

    /// False when no entry can pass the filter.
    pub(crate) fn may_match(self, filter: &Filter) -> bool {
        filter.to_words().into_iter().enumerate().filter(|(_, word)| *word != 0).all(
            |(key, word)| {
                let at = RANGES_AT + 8 * key;
                let (map_at, bit) = map_bit(word);
                (u32_at(self.0, at)..=u32_at(self.0, at + 4)).contains(&word)
                    && self.0[MAPS_AT + MAP_LEN * key + map_at] & bit != 0
            },
        )
    }
}

/// A segment without its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its range and origin.
    pub header: Header,
    /// The number of its entries.
    pub entry_count: u64,
    /// The bytes of its file.
    pub file_len: u64,
    index: Vec<u8>,
}

impl Segment {
    /// Returns the number of blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.index.len() / ENTRY_LEN
    }

    pub(crate) fn block(&self, number: usize) -> BlockIndex<'_> {
        BlockIndex(&self.index[number * ENTRY_LEN..(number + 1) * ENTRY_LEN])
    }

    /// Returns the first block with an entry after `change_id`.
    pub(crate) fn block_after(&self, change_id: ChangeId) -> usize {
        let (mut low, mut high) = (0, self.block_count());
        while low < high {
            let middle = low.midpoint(high);
            match self.block(middle).last() > change_id {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// Returns the bytes of memory that the index takes.
    pub(crate) fn index_len(&self) -> usize {
        self.index.len()
    }

    /// Returns the segment of a header and an index, and counts its entries.
    ///
    /// # Errors
    /// [`Fault::Index`] if the blocks are not contiguous up to the index, in the order of their
    /// places, and within the header's range.
    pub(crate) fn new(header: Header, index: Vec<u8>, file_len: u64) -> Result<Segment, Fault> {
        let index_at = file_len - FOOTER_LEN as u64 - index.len() as u64;
        let mut segment = Segment { header, entry_count: 0, file_len, index };
        let (mut offset, mut last) = (HEADER_LEN as u64, header.after);
        for number in 0..segment.block_count() {
            let block = segment.block(number);
            let is_next = block.offset() == offset && block.end() <= index_at;
            // A record and the mark of its former keys share a place and a block.
            let has_entries = (1..=BLOCK_ENTRIES_MAX + 1).contains(&block.count());
            let is_in_order = block.first() > last && block.first() <= block.last();
            if !(is_next && has_entries && is_in_order && block.last() <= header.to) {
                return Err(Fault::Index(index_at));
            }
            (offset, last) = (block.end(), block.last());
            segment.entry_count += u64::from(segment.block(number).count());
        }
        if offset == index_at { Ok(segment) } else { Err(Fault::Index(index_at)) }
    }
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) index_at: u64,
    pub(crate) index_crc: u32,
    pub(crate) block_count: u32,
    pub(crate) entry_count: u64,
    pub(crate) header_crc: u32,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = Vec::with_capacity(FOOTER_LEN);
        bytes.extend_from_slice(&END_MAGIC);
        bytes.extend_from_slice(&self.index_at.to_le_bytes());
        bytes.extend_from_slice(&self.index_crc.to_le_bytes());
        bytes.extend_from_slice(&self.block_count.to_le_bytes());
        bytes.extend_from_slice(&self.entry_count.to_le_bytes());
        bytes.extend_from_slice(&self.header_crc.to_le_bytes());
        bytes.resize(FOOTER_CRC_AT, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.try_into().expect("a footer has its length")
    }

    /// Reads the footer of a file of `file_len` bytes.
    pub(crate) fn decode(bytes: &[u8; FOOTER_LEN], file_len: u64) -> Result<Footer, Fault> {
        let fault = Fault::Footer(file_len - FOOTER_LEN as u64);
        let crc = u32_at(bytes, FOOTER_CRC_AT);
        if bytes[..8] != END_MAGIC || crc32c::crc32c(&bytes[..FOOTER_CRC_AT]) != crc {
            return Err(fault);
        }
        let footer = Footer {
            index_at: u64_at(bytes, 8),
            index_crc: u32_at(bytes, 16),
            block_count: u32_at(bytes, 20),
            entry_count: u64_at(bytes, 24),
            header_crc: u32_at(bytes, 32),
        };
        let index_len = u64::from(footer.block_count) * ENTRY_LEN as u64;
        let end = footer.index_at.checked_add(index_len + FOOTER_LEN as u64);
        if end == Some(file_len) { Ok(footer) } else { Err(fault) }
    }
}

/// The name of a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) source: PartitionId,
    pub(crate) epoch: Epoch,
}

/// Reads a file's name; `None` if it is not a segment's.
pub(crate) fn parse_name(name: &str) -> Option<SegmentName> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('-');
    let change_id = |text: &str| {
        let (seq, rec) = text.split_once('.')?;
        Some(ChangeId::new(Seq(seq.parse().ok()?), Rec(rec.parse().ok()?)))
    };
    let source = PartitionId(parts.next()?.parse().ok()?);
    let epoch = Epoch(parts.next()?.parse().ok()?);
    let is_range = change_id(parts.next()?).is_some() && change_id(parts.next()?).is_some();
    (is_range && parts.next().is_none()).then_some(SegmentName { source, epoch })
}
