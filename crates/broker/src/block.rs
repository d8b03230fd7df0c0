//! The format of a spill file: a header, then blocks of parts, each part messages of one topic.
//!
//! A part is never split, joined or changed: moved to another file it keeps its bytes, so that
//! (topic, first number) identifies it in any file. A block is either written whole or counts as
//! not written. docs/protocols/broker-format.md specifies the bytes. No input is trusted: invalid
//! bytes are refused and never cause a panic.

use weir_types::{Epoch, Nanos, Position};

use crate::name::{MessageNo, OriginMark, Source, Topic, TopicKind};

/// The format version of the spill files that are written.
pub const FORMAT_VERSION: u32 = 1;
/// The alignment of blocks: a power loss keeps or loses units of this size whole.
pub(crate) const ALIGN: usize = 512;
pub(crate) const FILE_HEADER: usize = ALIGN;
pub(crate) const BLOCK_HEADER: usize = 64;
pub(crate) const PART_HEADER: usize = 56;
pub(crate) const MESSAGE_HEADER: usize = 40;
/// The longest block: room for the largest configured one, its last message and its parts.
const BLOCK_MAX: u64 = 64 << 20;

/// The limit of file and block numbers: counting on from a lower one never overflows.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

const FILE_MAGIC: [u8; 8] = *b"WEIRSPIL";
const BLOCK_MAGIC: [u8; 4] = *b"WBLK";

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The head of a spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The broker's identity.
    pub id: u128,
    /// The file's number, from 1.
    pub file: u64,
    /// The number of its first block.
    pub first_seq: u64,
    /// The highest block known to be on the medium when this file was begun.
    pub synced_seq: u64,
}

/// The reason that a file's header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// It is invalid.
    Unsound,
    /// It is valid and of a newer format version.
    Newer(u32),
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        put(&mut bytes, 0, &FILE_MAGIC);
        put(&mut bytes, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut bytes, 16, &self.id.to_le_bytes());
        put(&mut bytes, 32, &self.file.to_le_bytes());
        put(&mut bytes, 40, &self.first_seq.to_le_bytes());
        put(&mut bytes, 48, &self.synced_seq.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..FILE_HEADER - 4]);
        put(&mut bytes, FILE_HEADER - 4, &crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<FileHeader, HeaderFault> {
        let bytes = bytes.get(..FILE_HEADER).ok_or(HeaderFault::Unsound)?;
        let crc = crc32c::crc32c(&bytes[..FILE_HEADER - 4]);
        if bytes[..8] != FILE_MAGIC || crc != u32_at(bytes, FILE_HEADER - 4) {
            return Err(HeaderFault::Unsound);
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            return Err(HeaderFault::Newer(version));
        }
        let (file, first_seq) = (u64_at(bytes, 32), u64_at(bytes, 40));
        if file.max(first_seq) > NUMBER_MAX {
            return Err(HeaderFault::Unsound);
        }
        Ok(FileHeader {
            id: u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen bytes")),
            file,
            first_seq,
            synced_seq: u64_at(bytes, 48),
        })
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) parts: u32,
    /// The bytes of its parts.
    pub(crate) length: u64,
    /// Its number: dense over the files of a broker.
    pub(crate) seq: u64,
    /// The highest block known to be on the medium when this one was made.
    pub(crate) synced_seq: u64,
    /// The number of the file that it is in.
    pub(crate) file: u64,
}

impl BlockHeader {
    /// Fills the head of a block whose parts follow it in `bytes`.
    pub(crate) fn seal(&self, bytes: &mut [u8]) {
        let (head, body) = bytes.split_at_mut(BLOCK_HEADER);
        head.fill(0);
        put(head, 0, &BLOCK_MAGIC);
        put(head, 8, &crc32c::crc32c(body).to_le_bytes());
        put(head, 12, &self.parts.to_le_bytes());
        put(head, 16, &self.length.to_le_bytes());
        put(head, 24, &self.seq.to_le_bytes());
        put(head, 32, &self.synced_seq.to_le_bytes());
        put(head, 40, &self.file.to_le_bytes());
        let crc = crc32c::crc32c(head);
        put(head, 4, &crc.to_le_bytes());
    }

    /// Returns the block at the start of `bytes` and its parts, if it is complete and valid.
    pub(crate) fn open(bytes: &[u8]) -> Option<(BlockHeader, &[u8])> {
        let mut head: [u8; BLOCK_HEADER] = bytes.get(..BLOCK_HEADER)?.try_into().ok()?;
        let crc = u32_at(&head, 4);
        head[4..8].fill(0);
        if head[..4] != BLOCK_MAGIC || crc32c::crc32c(&head) != crc {
            return None;
        }
        let length = u64_at(&head, 16);
        if length > BLOCK_MAX {
            return None;
        }
        let body = bytes.get(BLOCK_HEADER..BLOCK_HEADER + usize::try_from(length).ok()?)?;
        let header = BlockHeader {
            parts: u32_at(&head, 12),
            length,
            seq: u64_at(&head, 24),
            synced_seq: u64_at(&head, 32),
            file: u64_at(&head, 40),
        };
        (crc32c::crc32c(body) == u32_at(&head, 8)).then_some((header, body))
    }

    /// Returns the bytes from this block's start to the next one's.
    pub(crate) fn stride(&self) -> usize {
        (BLOCK_HEADER + self.length as usize).next_multiple_of(ALIGN)
    }
}

/// The head of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    /// The topic of its messages.
    pub topic: Topic,
    /// The number of the first.
    pub first: MessageNo,
    /// The number of the last.
    pub last: MessageNo,
    /// The time at which the first was published.
    pub first_at: Nanos,
    /// The time at which the last was published.
    pub last_at: Nanos,
    /// The number of its messages.
    pub count: u32,
    /// The bytes of their bodies.
    pub body_bytes: u32,
    /// The bytes of the part, this head included.
    pub length: u32,
}

/// A message in its encoded form in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// Its number.
    pub no: MessageNo,
    /// Its mark.
    pub mark: OriginMark,
    /// The time at which it was published.
    pub at: Nanos,
    /// Its bytes.
    pub body: &'a [u8],
}

/// Returns the bytes that a message with a body of `len` bytes takes in a part.
pub(crate) fn message_bytes(len: usize) -> usize {
    MESSAGE_HEADER + len.next_multiple_of(8)
}

/// Begins a part at the end of `out`; returns its offset.
pub(crate) fn begin_part(out: &mut Vec<u8>) -> usize {
    out.resize(out.len() + PART_HEADER, 0);
    out.len() - PART_HEADER
}

/// Adds a message to the part at the end of `out`.
pub(crate) fn put_message(out: &mut Vec<u8>, message: &StoredMessage<'_>) {
    let at = out.len();
    out.resize(at + message_bytes(message.body.len()), 0);
    let bytes = &mut out[at..];
    put(bytes, 0, &message.no.0.to_le_bytes());
    put(bytes, 8, &message.mark.source.0.to_le_bytes());
    put(bytes, 12, &message.mark.epoch.0.to_le_bytes());
    put(bytes, 16, &message.mark.record.0.to_le_bytes());
    put(bytes, 24, &message.at.0.to_le_bytes());
    let len = u32::try_from(message.body.len()).expect("a body is at most 64 KiB");
    put(bytes, 32, &len.to_le_bytes());
    put(bytes, MESSAGE_HEADER, message.body);
}

/// Ends the part from `at` to the end of `out`: fills in its header and checksum.
pub(crate) fn end_part(out: &mut [u8], at: usize, mut header: PartHeader) -> PartHeader {
    let bytes = &mut out[at..];
    header.length = u32::try_from(bytes.len()).expect("a part is shorter than 4 GiB");
    bytes[0] = header.topic.kind as u8;
    put(bytes, 4, &header.topic.key.to_le_bytes());
    put(bytes, 8, &header.first.0.to_le_bytes());
    put(bytes, 16, &header.last.0.to_le_bytes());
    put(bytes, 24, &header.count.to_le_bytes());
    put(bytes, 28, &header.length.to_le_bytes());
    put(bytes, 32, &header.first_at.0.to_le_bytes());
    put(bytes, 40, &header.last_at.0.to_le_bytes());
    put(bytes, 52, &header.body_bytes.to_le_bytes());
    let crc = crc32c::crc32c(bytes);
    put(bytes, 48, &crc.to_le_bytes());
    header
}

/// Returns the part at the start of `bytes`, if all its messages are valid, and their offsets.
#[must_use]
pub fn open_part(bytes: &[u8]) -> Option<(PartHeader, Vec<u32>)> {
    let head = bytes.get(..PART_HEADER)?;
    let length = u32_at(head, 28);
    let part = bytes.get(..usize::try_from(length).ok()?)?;
    let mut crc = crc32c::crc32c(part.get(..48)?);
    crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc = crc32c::crc32c_append(crc, part.get(52..)?);
    if crc != u32_at(head, 48) {
        return None;
    }
    let header = PartHeader {
        topic: Topic { kind: TopicKind::from_code(head[0])?, key: u32_at(head, 4) },
        first: MessageNo(u64_at(head, 8)),
        last: MessageNo(u64_at(head, 16)),
        first_at: Nanos(u64_at(head, 32)),
        last_at: Nanos(u64_at(head, 40)),
        count: u32_at(head, 24),
        body_bytes: u32_at(head, 52),
        length,
    };
    let starts = message_starts(part, &header)?;
    Some((header, starts))
}

/// Returns the offsets of a part's messages; `None` if they do not match the head.
fn message_starts(part: &[u8], header: &PartHeader) -> Option<Vec<u32>> {
    let mut starts = Vec::new();
    let (mut at, mut last, mut body_bytes) = (PART_HEADER, MessageNo::NONE, 0_u64);
    while at < part.len() {
        let message = message_at(part, at)?;
        if message.no <= last {
            return None;
        }
        last = message.no;
        body_bytes += message.body.len() as u64;
        starts.push(u32::try_from(at).ok()?);
        at += message_bytes(message.body.len());
    }
    let first = message_at(part, usize::try_from(*starts.first()?).ok()?)?.no;
    let agrees = starts.len() as u64 == u64::from(header.count)
        && (first, last) == (header.first, header.last)
        && body_bytes == u64::from(header.body_bytes)
        && at == part.len();
    agrees.then_some(starts)
}

/// Returns the message that begins at `at`.
#[must_use]
pub fn message_at(part: &[u8], at: usize) -> Option<StoredMessage<'_>> {
    let head = part.get(at..at + MESSAGE_HEADER)?;
    let len = usize::try_from(u32_at(head, 32)).ok()?;
    let body = part.get(at + MESSAGE_HEADER..at + MESSAGE_HEADER + len)?;
    let mark = OriginMark {
        source: Source(u32_at(head, 8)),
        epoch: Epoch(u32_at(head, 12)),
        record: Position(u64_at(head, 16)),
    };
    Some(StoredMessage { no: MessageNo(u64_at(head, 0)), mark, at: Nanos(u64_at(head, 24)), body })
}

/// Returns the parts of a block's body with their offsets in it; `None` if their number differs
/// from the head's.
pub(crate) fn parts_of(body: &[u8], count: u32) -> Option<Vec<(usize, PartHeader)>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let (header, _) = open_part(&body[at..])?;
        parts.push((at, header));
        at += header.length as usize;
    }
    (parts.len() as u64 == u64::from(count)).then_some(parts)
}

/// The content of a spill file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Valid blocks: number, synced number, and parts with their offsets in the file.
    pub(crate) blocks: Vec<ScannedBlock>,
    /// The end of the valid blocks.
    pub(crate) end: u64,
    /// True when something other than zeros follows.
    pub(crate) is_torn: bool,
}

/// A valid block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScannedBlock {
    pub(crate) seq: u64,
    pub(crate) synced_seq: u64,
    pub(crate) parts: Vec<(u64, PartHeader)>,
}

/// Reads the blocks after a valid file header, up to the first fault.
pub(crate) fn scan(bytes: &[u8], header: &FileHeader) -> Scan {
    let mut scan = Scan { end: FILE_HEADER as u64, ..Scan::default() };
    let mut at = FILE_HEADER;
    while let Some((block, body)) = bytes.get(at..).and_then(BlockHeader::open) {
        let expected = header.first_seq.saturating_add(scan.blocks.len() as u64);
        if block.file != header.file || block.seq != expected {
            break;
        }
        let Some(parts) = parts_of(body, block.parts) else { break };
        let body_at = (at + BLOCK_HEADER) as u64;
        let parts = parts.into_iter().map(|(part, head)| (body_at + part as u64, head)).collect();
        scan.blocks.push(ScannedBlock { seq: block.seq, synced_seq: block.synced_seq, parts });
        at += block.stride();
    }
    scan.end = at as u64;
    scan.is_torn = bytes.get(at..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0));
    scan
}

/// A block under construction, after room for a file header if it opens a file.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: u32,
    start: usize,
}

impl BlockBuilder {
    /// Begins a block; `opens` is true if it is the first of its file.
    pub(crate) fn new(opens: bool) -> BlockBuilder {
        let start = if opens { FILE_HEADER } else { 0 };
        BlockBuilder { bytes: vec![0; start + BLOCK_HEADER], parts: 0, start }
    }

    /// Returns the bytes of parts so far.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.start - BLOCK_HEADER
    }

    /// Adds a part with unchanged bytes; returns its offset in `bytes`.
    pub(crate) fn add_part(&mut self, part: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(part);
        self.parts += 1;
        at
    }

    /// Ends the block: heads, checksums and padding. `file` is the file's header, which is written
    /// only if the block opens the file.
    pub(crate) fn finish(mut self, seq: u64, file: &FileHeader) -> Vec<u8> {
        let header = BlockHeader {
            parts: self.parts,
            length: self.length() as u64,
            seq,
            synced_seq: file.synced_seq,
            file: file.file,
        };
        header.seal(&mut self.bytes[self.start..]);
        if self.start > 0 {
            put(&mut self.bytes, 0, &file.encode());
        }
        let padded = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(padded, 0);
        self.bytes
    }
}
