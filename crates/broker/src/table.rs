//! The table of subscriptions: their names, their acknowledgements, and the number of the run.
//!
//! Two slots are overwritten alternately, in place and synced: a full disk does not prevent the
//! saving of an eviction, and a torn write leaves the other slot. docs/protocols/broker-format.md
//! specifies the bytes.

use weir_types::{Durability, Epoch, Nanos, Position};

use crate::block::{NUMBER_MAX, put, u32_at, u64_at};
use crate::config::Quota;
use crate::error::EvictReason;
use crate::name::{
    MessageNo, NAME_BYTES_MAX, Name, OriginMark, OriginMarks, Source, Topic, TopicKind,
};

/// The files of the two slots.
pub(crate) const SLOTS: [&str; 2] = ["subscriptions-0.wtable", "subscriptions-1.wtable"];
/// The highest format version. In version 1, served time is unknown, and who created a
/// subscription.
const TABLE_VERSION: u32 = 3;
/// The version of a table with one place at most, in its header: programs from before several
/// places read it.
pub(crate) const VERSION_OF_ONE_PLACE: u32 = 2;
/// The most bytes of a named token.
pub const TOKEN_BYTES_MAX: usize = 4096;

const MAGIC: [u8; 8] = *b"WEIRSUBS";
const HEADER: usize = 128;
/// The limit of run numbers: the number after it has 24 bits.
const RUN_MAX: u32 = (1 << 24) - 1;
const CRC_AT: usize = HEADER - 4;

/// The time of detaching while a client is attached.
pub const ATTACHED: Nanos = Nanos(u64::MAX);

/// The kind of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// Messages of a topic.
    Queue {
        /// The topic.
        topic: Topic,
        /// The last message taken: all up to this one are taken.
        acked: MessageNo,
        /// The last mark of each source that was taken.
        taken: OriginMarks,
    },
    /// State: a token that names the client's position in it.
    Token(Vec<u8>),
}

/// The status of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It gets published messages.
    Live,
    /// It was evicted.
    Evicted(EvictReason),
    /// No client attached for too long.
    Expired,
}

/// A subscription in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: RowKind,
    /// Its status.
    pub status: Status,
    /// Its quota.
    pub quota: Quota,
    /// The time without an attached client after which it is removed.
    pub expire_after: Nanos,
    /// The served time at which the last client detached; [`ATTACHED`] while one is attached.
    pub detached_at: Nanos,
    /// The participant that created it; zero for none.
    pub created_by: u32,
    /// True when messages may have been lost and no client was told yet.
    pub may_have_lost: bool,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The broker's identity.
    pub id: u128,
    /// The number of its saving, from 1.
    pub generation: u64,
    /// The run that saved it, from 1.
    pub run: u32,
    /// The level of that run.
    pub level: Durability,
    /// True when the run had ended by closing.
    pub is_closed: bool,
    /// The machine's boot.
    pub boot_id: [u8; 16],
    /// The highest block that was on the medium.
    pub synced_seq: u64,
    /// The newest spill file, zero for none, and the bytes of it that were on the medium.
    pub synced_end: (u64, u64),
    /// The place in each partition's events up to which all messages were on disk or taken.
    pub places: OriginMarks,
    /// Served time when it was saved; zero for unknown.
    pub served: Nanos,
    /// The subscriptions, sorted by name.
    pub rows: Vec<Row>,
}

/// The reason that a slot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFault {
    /// It is invalid: torn, or damaged.
    Unsound,
    /// It has a newer format version.
    Newer(u32),
}

fn level_code(level: Durability) -> u8 {
    match level {
        Durability::Memory => 1,
        Durability::Os => 2,
        Durability::Disk => 3,
    }
}

fn level_from(code: u8) -> Option<Durability> {
    [Durability::Memory, Durability::Os, Durability::Disk]
        .into_iter()
        .find(|level| level_code(*level) == code)
}

impl Table {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        let (version, in_header) = match self.places.as_slice() {
            [] => (VERSION_OF_ONE_PLACE, None),
            [place] => (VERSION_OF_ONE_PLACE, Some(*place)),
            _ => {
                put_marks(&self.places, &mut bytes);
                (TABLE_VERSION, None)
            }
        };
        for row in &self.rows {
            encode_row(row, &mut bytes);
        }
        let length = (bytes.len() - HEADER) as u64;
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &version.to_le_bytes());
        put(&mut bytes, 12, &self.run.to_le_bytes());
        put(&mut bytes, 16, &self.id.to_le_bytes());
        put(&mut bytes, 32, &self.generation.to_le_bytes());
        put(&mut bytes, 40, &length.to_le_bytes());
        let count = u32::try_from(self.rows.len()).expect("fewer than 2^32 subscriptions");
        put(&mut bytes, 48, &count.to_le_bytes());
        bytes[52] = level_code(self.level);
        bytes[53] = u8::from(self.is_closed);
        put(&mut bytes, 56, &self.boot_id);
        put(&mut bytes, 72, &self.synced_seq.to_le_bytes());
        put(&mut bytes, 80, &self.synced_end.0.to_le_bytes());
        put(&mut bytes, 88, &self.synced_end.1.to_le_bytes());
        if let Some(OriginMark { source, epoch, record }) = in_header {
            bytes[54] = 1;
            put(&mut bytes, 96, &record.0.to_le_bytes());
            put(&mut bytes, 104, &source.0.to_le_bytes());
            put(&mut bytes, 108, &epoch.0.to_le_bytes());
        }
        put(&mut bytes, 112, &self.served.0.to_le_bytes());
        let crc = crc_of(&bytes, bytes.len());
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    /// Reads a slot; bytes after the table belong to an older, longer one.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn decode(bytes: &[u8]) -> Result<Table, TableFault> {
        let head = bytes.get(..HEADER).ok_or(TableFault::Unsound)?;
        let end = usize::try_from(u64_at(head, 40)).ok().and_then(|len| len.checked_add(HEADER));
        let end = end.filter(|end| *end <= bytes.len()).ok_or(TableFault::Unsound)?;
        if head[..8] != MAGIC || crc_of(bytes, end) != u32_at(head, CRC_AT) {
            return Err(TableFault::Unsound);
        }
        if u32_at(head, 8) > TABLE_VERSION {
            return Err(TableFault::Newer(u32_at(head, 8)));
        }
        decode_sound(head, &bytes[HEADER..end]).ok_or(TableFault::Unsound)
    }
}

/// Returns the checksum of a table's bytes without its own four.
fn crc_of(bytes: &[u8], end: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), &bytes[HEADER..end])
}

fn decode_sound(head: &[u8], body: &[u8]) -> Option<Table> {
    let mut reader = Reader(body);
    let in_header = flag(head[54])?.then(|| OriginMark {
        source: Source(u32_at(head, 104)),
        epoch: Epoch(u32_at(head, 108)),
        record: Position(u64_at(head, 96)),
    });
    let mut places = OriginMarks::default();
    if u32_at(head, 8) > VERSION_OF_ONE_PLACE {
        places = reader.marks()?;
        if in_header.is_some() || places.as_slice().len() < 2 {
            return None;
        }
    }
    in_header.into_iter().for_each(|place| places.set(place));
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..u32_at(head, 48) {
        let row = decode_row(&mut reader, u32_at(head, 8))?;
        if rows.last().is_some_and(|before| before.name >= row.name) {
            return None;
        }
        rows.push(row);
    }
    if !reader.0.is_empty() {
        return None;
    }
    let run = u32_at(head, 12);
    let numbers = [32, 72, 80].map(|at| u64_at(head, at));
    if run >= RUN_MAX || numbers.into_iter().any(|number| number > NUMBER_MAX) {
        return None;
    }
    Some(Table {
        id: u128::from_le_bytes(head[16..32].try_into().ok()?),
        generation: u64_at(head, 32),
        run,
        level: level_from(head[52])?,
        is_closed: flag(head[53])?,
        boot_id: head[56..72].try_into().ok()?,
        synced_seq: u64_at(head, 72),
        synced_end: (u64_at(head, 80), u64_at(head, 88)),
        places,
        served: Nanos(u64_at(head, 112)),
        rows,
    })
}

fn flag(byte: u8) -> Option<bool> {
    (byte <= 1).then_some(byte == 1)
}

fn encode_row(row: &Row, out: &mut Vec<u8>) {
    let (is_token, reason) = (
        matches!(row.kind, RowKind::Token(_)),
        match row.status {
            Status::Evicted(reason) => reason as u8,
            Status::Live | Status::Expired => 0,
        },
    );
    let status = match row.status {
        Status::Live => 0,
        Status::Evicted(_) => 1,
        Status::Expired => 2,
    };
    let name = row.name.as_str().as_bytes();
    let name_len = u8::try_from(name.len()).expect("a name is at most 64 bytes");
    out.extend_from_slice(&[
        u8::from(is_token),
        status,
        reason,
        u8::from(row.may_have_lost),
        name_len,
    ]);
    out.extend_from_slice(name);
    let Quota { bytes_max, messages_max, age_max } = row.quota;
    for number in [bytes_max, messages_max, age_max.0, row.expire_after.0, row.detached_at.0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&row.created_by.to_le_bytes());
    match &row.kind {
        RowKind::Token(token) => {
            let len = u16::try_from(token.len()).expect("a token is at most 4 KiB");
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(token);
        }
        RowKind::Queue { topic, acked, taken } => {
            out.push(topic.kind as u8);
            out.extend_from_slice(&topic.key.to_le_bytes());
            out.extend_from_slice(&acked.0.to_le_bytes());
            put_marks(taken, out);
        }
    }
}

fn put_marks(marks: &OriginMarks, out: &mut Vec<u8>) {
    let marks = marks.as_slice();
    let len = u32::try_from(marks.len()).expect("there are fewer than 2^32 sources");
    out.extend_from_slice(&len.to_le_bytes());
    for mark in marks {
        out.extend_from_slice(&mark.source.0.to_le_bytes());
        out.extend_from_slice(&mark.epoch.0.to_le_bytes());
        out.extend_from_slice(&mark.record.0.to_le_bytes());
    }
}

/// Reads values from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32_at(bytes, 0))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64_at(bytes, 0))
    }

    /// Reads marks, which are sorted by source.
    fn marks(&mut self) -> Option<OriginMarks> {
        let mut marks = OriginMarks::default();
        let mut before = None;
        for _ in 0..self.u32()? {
            let source = Source(self.u32()?);
            let (epoch, record) = (Epoch(self.u32()?), Position(self.u64()?));
            if before.is_some_and(|before| before >= source) {
                return None;
            }
            before = Some(source);
            marks.set(OriginMark { source, epoch, record });
        }
        Some(marks)
    }
}

fn decode_row(reader: &mut Reader<'_>, version: u32) -> Option<Row> {
    let is_token = flag(reader.u8()?)?;
    let (status, reason) = (reader.u8()?, reader.u8()?);
    let may_have_lost = flag(reader.u8()?)?;
    let status = match (status, reason) {
        (0, 0) => Status::Live,
        (1, code) => Status::Evicted(EvictReason::from_code(code)?),
        (2, 0) => Status::Expired,
        _ => return None,
    };
    let name_len = usize::from(reader.u8()?);
    if name_len > NAME_BYTES_MAX {
        return None;
    }
    let name = Name::new(std::str::from_utf8(reader.take(name_len)?).ok()?)?;
    let (bytes_max, messages_max) = (reader.u64()?, reader.u64()?);
    let quota = Quota { bytes_max, messages_max, age_max: Nanos(reader.u64()?) };
    let expire_after = Nanos(reader.u64()?);
    let detached_at = Nanos(reader.u64()?);
    let created_by = if version < 2 { 0 } else { reader.u32()? };
    let kind = if is_token {
        let len = usize::from(reader.u16()?);
        if len > TOKEN_BYTES_MAX {
            return None;
        }
        RowKind::Token(reader.take(len)?.to_vec())
    } else {
        decode_queue(reader)?
    };
    Some(Row { name, kind, status, quota, expire_after, detached_at, created_by, may_have_lost })
}

fn decode_queue(reader: &mut Reader<'_>) -> Option<RowKind> {
    let kind = TopicKind::from_code(reader.u8()?)?;
    let topic = Topic { kind, key: reader.u32()? };
    let acked = MessageNo(reader.u64()?);
    let taken = reader.marks()?;
    Some(RowKind::Queue { topic, acked, taken })
}
