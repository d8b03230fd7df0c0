//! A block: images packed into the parts of a file, and unpacked.
//!
//! The three parts (keys, body, attributes) are compressed separately, so that a filter reads the
//! keys alone. No input is trusted: the checksum, lengths and content of each part are checked.

use weir_io::{Disk, DiskError, FileId};
use weir_types::ChangeId;
use weir_wire::rows::ATTRIBUTES_LEN_MAX;

use crate::columns::{Part, put_columns, take_columns};
use crate::entry::{EntryKind, IMAGE_LEN, Image, STANDING_AT};
use crate::segment::{BlockIndex, Fault, PART_COUNT, PART_NAMES, PartIndex};

/// The reason that a block cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    Disk(DiskError),
    Fault(Fault),
}

impl From<DiskError> for BlockError {
    fn from(error: DiskError) -> BlockError {
        BlockError::Disk(error)
    }
}

/// The compression level: higher ones cost more and save almost nothing on columns.
const LEVEL: i32 = 1;
const KEYS: usize = 0;
const BODY: usize = 1;
const ATTRIBUTES: usize = 2;

/// Appends the parts of a block; a part that compresses badly is stored uncompressed.
pub(crate) fn pack(images: &[u8], attributes: &[u8], out: &mut Vec<u8>) -> [PartIndex; PART_COUNT] {
    let mut raw = Vec::new();
    let mut parts = [PartIndex::default(); PART_COUNT];
    put_columns(Part::Keys, images, &mut raw);
    parts[KEYS] = pack_part(&raw, out);
    raw.clear();
    put_columns(Part::Body, images, &mut raw);
    parts[BODY] = pack_part(&raw, out);
    parts[ATTRIBUTES] = pack_part(attributes, out);
    parts
}

fn pack_part(raw: &[u8], out: &mut Vec<u8>) -> PartIndex {
    let packed = zstd::bulk::compress(raw, LEVEL).expect("memory suffices for a block");
    let bytes = if packed.len() < raw.len() { &packed[..] } else { raw };
    out.extend_from_slice(bytes);
    PartIndex {
        packed_len: u32::try_from(bytes.len()).expect("a block is far below 4 GiB"),
        raw_len: u32::try_from(raw.len()).expect("a block is far below 4 GiB"),
        crc: crc32c::crc32c(bytes),
    }
}

/// A block in memory: keys only, or complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    images: Vec<u8>,
    /// The start of each entry's attributes, and the end of the last.
    attributes_at: Vec<u32>,
    attributes: Vec<u8>,
    has_body: bool,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.images.len() / IMAGE_LEN
    }

    pub(crate) fn image(&self, index: usize) -> Image<'_> {
        Image(&self.images[index * IMAGE_LEN..(index + 1) * IMAGE_LEN])
    }

    pub(crate) fn attributes(&self, index: usize) -> &[u8] {
        &self.attributes[self.attributes_at[index] as usize..self.attributes_at[index + 1] as usize]
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let places = self.attributes_at.capacity() * 4;
        (self.images.capacity() + self.attributes.capacity() + places) as u64
    }

    pub(crate) fn has_body(&self) -> bool {
        self.has_body
    }

    /// Reads and checks the keys; the block has no body afterwards.
    pub(crate) fn read_keys<D: Disk>(
        &mut self,
        stored: &mut StoredBlock<'_, D>,
    ) -> Result<(), BlockError> {
        self.has_body = false;
        let count = stored.index.count() as usize;
        self.images.clear();
        self.images.resize(count * IMAGE_LEN, 0);
        let raw = stored.read_part(KEYS, Part::Keys.len_max(count))?;
        let fault = || stored.fault(KEYS);
        take_columns(Part::Keys, &raw, &mut self.images).ok_or_else(fault)?;
        self.check_keys(stored.index).ok_or_else(fault)
    }

    /// Checks properties that a checksum does not cover: a writer's own mistakes.
    fn check_keys(&mut self, index: BlockIndex<'_>) -> Option<()> {
        self.attributes_at.clear();
        self.attributes_at.push(0);
        let (mut before, mut at): (Option<(ChangeId, bool)>, u32) = (None, 0);
        for number in 0..self.len() {
            let image = self.image(number);
            EntryKind::from_code(image.0[STANDING_AT])?;
            let (change_id, len) = (image.change_id(), image.attributes_len());
            let follows = before.is_none_or(|(last, is_mark)| {
                change_id > last || change_id == last && image.is_mark() && !is_mark
            });
            if !follows || len > ATTRIBUTES_LEN_MAX {
                return None;
            }
            before = Some((change_id, image.is_mark()));
            at += u32::try_from(len).expect("at most 600");
            self.attributes_at.push(at);
        }
        let ends = [self.image(0).change_id(), self.image(self.len() - 1).change_id()];
        (ends == [index.first(), index.last()]).then_some(())
    }

    /// Reads and checks the body and the attributes.
    pub(crate) fn read_body<D: Disk>(
        &mut self,
        stored: &mut StoredBlock<'_, D>,
    ) -> Result<(), BlockError> {
        let raw = stored.read_part(BODY, Part::Body.len_max(self.len()))?;
        take_columns(Part::Body, &raw, &mut self.images).ok_or_else(|| stored.fault(BODY))?;
        let want = *self.attributes_at.last().expect("keys were read") as usize;
        self.attributes = stored.read_part(ATTRIBUTES, want)?;
        if self.attributes.len() != want {
            return Err(stored.fault(ATTRIBUTES));
        }
        self.has_body = true;
        Ok(())
    }
}

/// A block in an open file of a segment.
pub(crate) struct StoredBlock<'a, D> {
    pub(crate) disk: &'a mut D,
    pub(crate) file: FileId,
    /// Its number in the segment.
    pub(crate) number: usize,
    pub(crate) index: BlockIndex<'a>,
}

impl<D: Disk> StoredBlock<'_, D> {
    fn fault(&self, part: usize) -> BlockError {
        BlockError::Fault(Fault::Block {
            block: u32::try_from(self.number).expect("the footer counts blocks by u32"),
            part: PART_NAMES[part],
            offset: self.index.part_offset(part),
        })
    }

    /// Reads, checks and unpacks a part that has at most `len_max` bytes.
    fn read_part(&mut self, part: usize, len_max: usize) -> Result<Vec<u8>, BlockError> {
        let PartIndex { packed_len, raw_len, crc, .. } = self.index.part(part);
        let (packed_len, raw_len) = (packed_len as usize, raw_len as usize);
        if raw_len > len_max || packed_len > raw_len {
            return Err(self.fault(part));
        }
        let mut packed = vec![0; packed_len];
        let got = self.disk.read(self.file, self.index.part_offset(part), &mut packed)?;
        if got != packed_len || crc32c::crc32c(&packed) != crc {
            return Err(self.fault(part));
        }
        if packed_len == raw_len {
            return Ok(packed);
        }
        match zstd::bulk::decompress(&packed, raw_len) {
            Ok(raw) if raw.len() == raw_len => Ok(raw),
            _ => Err(self.fault(part)),
        }
    }
}
