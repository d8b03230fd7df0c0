//! Files of Databento's DBN: what is around their records. The records themselves are decoded by
//! [`weir_feed::dbn`].
//!
//! A file is metadata and records. Records of versions 1 and 2 are brought into the form of version
//! 3; files of version 4 and later are refused. What the metadata says of instruments' names is
//! handed on as records of symbol mappings, at the beginning of the day for which it is said.

use std::collections::VecDeque;

use dbn::decode::dbn::fsm::{DbnFsm, ProcessResult};
use dbn::{Metadata, RecordRef, SType, VersionUpgradePolicy, v1, v2, v3};
use weir_feed::dbn::received;
use weir_feed::dbn::record::{RecordHeader, rtype};
use weir_types::Nanos;

use super::pieces::Pieces;

/// How files begin.
pub(super) const MAGIC: [u8; 3] = *b"DBN";
/// The versions that are read.
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=3;
/// Bytes before the metadata: how files begin, the version, the metadata's length.
const PRELUDE_LEN: usize = 8;
/// More metadata than this is damage: a name a line of all options of a day takes a tenth of it.
const METADATA_LEN_MAX: u32 = 1 << 30;
/// Records are read where they lie, which has to be at a multiple of this.
const ALIGNED: usize = 8;
/// Bytes of a symbol mapping of version 3.
const MAPPING_LEN: usize = 176;

/// Why no more of a file is read.
#[derive(Debug, thiserror::Error)]
pub enum DbnError {
    /// A version that is not read.
    #[error("DBN version {version}; 1, 2 and 3 are read")]
    Version {
        /// Which.
        version: u8,
    },
    /// Metadata longer than any.
    #[error("metadata of {len} bytes")]
    Metadata {
        /// Its length.
        len: u32,
    },
    /// A record of a length that none has: where the next one begins it could not be read in place.
    #[error("at byte {offset}: a record of {len} bytes; all are multiples of {ALIGNED}")]
    Record {
        /// Where it begins.
        offset: u64,
        /// The length that it says.
        len: usize,
    },
    /// The file ends within the metadata or a record.
    #[error("at byte {offset}: the file ends {len} bytes into the metadata or a record")]
    Truncated {
        /// Where that begins.
        offset: u64,
        /// What is there of it.
        len: usize,
    },
    /// What is there is neither metadata nor a record.
    #[error("at byte {offset}: {error}")]
    Damaged {
        /// Where it begins.
        offset: u64,
        /// Why.
        error: Box<dbn::Error>,
    },
}

/// The next of a file.
pub(super) enum Next<'a> {
    /// A record of version 3, and when it came to whoever recorded it.
    Record(Nanos, &'a [u8]),
    /// What the metadata says of a name, as a record, and from when on.
    Name(Nanos, &'a [u8]),
    /// There is no more.
    End,
}

/// A name and the number that it has from a time on.
struct Named {
    from: u64,
    record: [u8; MAPPING_LEN],
}

/// Takes a file apart.
pub(super) struct DbnFile {
    fsm: DbnFsm,
    version: u8,
    names: VecDeque<Named>,
    /// The name that was handed on last.
    name: [u8; MAPPING_LEN],
    /// The record that was found last.
    record: Vec<u8>,
    /// It was not handed on yet.
    has_record: bool,
    /// When the last record came.
    last: Nanos,
    /// Bytes that were given to `fsm`.
    taken: u64,
    /// Bytes of metadata that are still to be given.
    metadata_left: usize,
    /// Zeros that are given behind them, so that records begin where they can be read.
    padding: usize,
}

impl DbnFile {
    /// Of a file whose first eight bytes are at hand, if it has as many.
    pub fn new(pieces: &mut Pieces) -> Result<DbnFile, DbnError> {
        let (head, _) = pieces.at_hand();
        let version = head.get(MAGIC.len()).copied().unwrap_or(0);
        if !VERSIONS.contains(&version) {
            return Err(DbnError::Version { version });
        }
        let len = head.get(4..PRELUDE_LEN).and_then(|len| len.try_into().ok());
        let len = len.map_or(0, u32::from_le_bytes);
        if len > METADATA_LEN_MAX {
            return Err(DbnError::Metadata { len });
        }
        let mut fsm: DbnFsm = DbnFsm::builder()
            // Its own upgrading panics on records that are too short.
            .upgrade_policy(VersionUpgradePolicy::AsIs)
            .build()
            .map_err(|error| damaged(0, error))?;
        let prelude_len = head.len().min(PRELUDE_LEN);
        let padding = len.next_multiple_of(ALIGNED as u32) - len;
        fsm.write_all(&head[..prelude_len.min(MAGIC.len() + 1)]);
        if prelude_len == PRELUDE_LEN {
            fsm.write_all(&(len + padding).to_le_bytes());
        }
        pieces.used(prelude_len);
        Ok(DbnFile {
            fsm,
            version,
            names: VecDeque::new(),
            name: [0; MAPPING_LEN],
            record: Vec::with_capacity(1_024),
            has_record: false,
            last: Nanos(0),
            taken: prelude_len as u64,
            metadata_left: len as usize,
            padding: padding as usize,
        })
    }

    /// Where what was not taken apart yet begins.
    pub fn offset(&self) -> u64 {
        // Less only while there is padding, and then it is metadata: the beginning.
        self.taken.saturating_sub(self.fsm.data().len() as u64)
    }

    /// Finds the next of a file; `None` when `pieces` must be filled first.
    pub fn next(&mut self, pieces: &mut Pieces) -> Result<Option<Next<'_>>, DbnError> {
        while !self.has_record {
            let offset = self.offset();
            if self.fsm.has_decoded_metadata()
                && let Some(len) = self.fsm.data().first().map(|units| usize::from(*units) * 4)
                && !len.is_multiple_of(ALIGNED)
            {
                return Err(DbnError::Record { offset, len });
            }
            match self.fsm.process() {
                ProcessResult::Record(()) => self.take_record(),
                ProcessResult::Metadata(metadata) => self.names = names_of(&metadata),
                ProcessResult::Err(error) => return Err(damaged(offset, error)),
                ProcessResult::ReadMore(_) => {
                    let (bytes, is_last) = pieces.at_hand();
                    let len = self.give(bytes);
                    if len == 0 {
                        return self.at_end(is_last, offset);
                    }
                    pieces.used(len);
                }
            }
        }
        let last = self.last;
        if self.names.front().is_some_and(|named| named.from <= last.0)
            && let Some(named) = self.names.pop_front()
        {
            self.name = named.record;
            return Ok(Some(Next::Name(last, &self.name)));
        }
        self.has_record = false;
        Ok(Some(Next::Record(last, &self.record)))
    }

    /// Gives `fsm` what it has room for; how many bytes that was.
    fn give(&mut self, bytes: &[u8]) -> usize {
        let space = self.fsm.space();
        let mut len = bytes.len().min(space.len());
        if self.metadata_left > 0 {
            len = len.min(self.metadata_left);
        }
        space[..len].copy_from_slice(&bytes[..len]);
        self.fsm.fill(len);
        self.taken += len as u64;
        self.metadata_left = self.metadata_left.saturating_sub(len);
        if self.metadata_left == 0 && self.padding > 0 {
            self.fsm.write_all(&[0; ALIGNED][..std::mem::take(&mut self.padding)]);
        }
        len
    }

    /// A record was found.
    fn take_record(&mut self) {
        let Some(record) = self.fsm.last_record() else { return };
        self.record.clear();
        put_as_v3(self.version, &record, &mut self.record);
        // Times may go back a little from record to record; names are not taken back for it.
        self.last = received(&self.record).unwrap_or(self.last);
        self.has_record = true;
    }

    /// No more bytes are at hand. Names that no record needed are told all the same.
    fn at_end(&mut self, is_last: bool, offset: u64) -> Result<Option<Next<'_>>, DbnError> {
        if !is_last {
            return Ok(None);
        }
        match self.fsm.data().len() {
            0 if self.fsm.has_decoded_metadata() => {}
            len => return Err(DbnError::Truncated { offset, len }),
        }
        let Some(named) = self.names.pop_front() else { return Ok(Some(Next::End)) };
        self.name = named.record;
        Ok(Some(Next::Name(self.last, &self.name)))
    }
}

fn damaged(offset: u64, error: dbn::Error) -> DbnError {
    DbnError::Damaged { offset, error: Box::new(error) }
}

/// Writes a record as version 3 has it. One that is shorter than its type is written as a header
/// alone, which nobody takes for a whole record.
fn put_as_v3(version: u8, record: &RecordRef<'_>, out: &mut Vec<u8>) {
    fn put<'a, From_, To>(record: &RecordRef<'a>, out: &mut Vec<u8>)
    where
        From_: dbn::HasRType<Header = v3::RecordHeader>,
        To: for<'t> From<&'t From_> + AsRef<[u8]>,
    {
        match record.try_get::<From_>() {
            Ok(record) => out.extend_from_slice(To::from(record).as_ref()),
            Err(_) => out.extend(record.as_ref().iter().take(RecordHeader::LEN)),
        }
    }
    match (version, record.header().rtype) {
        (1, rtype::INSTRUMENT_DEF) => {
            put::<v1::InstrumentDefMsg, v3::InstrumentDefMsg>(record, out);
        }
        (2, rtype::INSTRUMENT_DEF) => {
            put::<v2::InstrumentDefMsg, v3::InstrumentDefMsg>(record, out);
        }
        (1, rtype::SYMBOL_MAPPING) => {
            put::<v1::SymbolMappingMsg, v3::SymbolMappingMsg>(record, out);
        }
        (1 | 2, rtype::STATISTICS) => put::<v1::StatMsg, v3::StatMsg>(record, out),
        _ => out.extend_from_slice(record.as_ref()),
    }
}

/// What the metadata says of names, the earliest first. Names that a file lists without numbers,
/// and those that have none, are left out.
fn names_of(metadata: &Metadata) -> VecDeque<Named> {
    // Either the symbols asked for have numbers, or the numbers asked for have symbols.
    let is_by_number = metadata.stype_in == Some(SType::InstrumentId);
    if !is_by_number && metadata.stype_out != SType::InstrumentId {
        return VecDeque::new();
    }
    let mut names: Vec<Named> = Vec::new();
    for mapping in &metadata.mappings {
        for interval in &mapping.intervals {
            let (number, symbol) = match is_by_number {
                true => (&mapping.raw_symbol, &interval.symbol),
                false => (&interval.symbol, &mapping.raw_symbol),
            };
            let Ok(number) = number.parse() else { continue };
            let seconds = interval.start_date.midnight().assume_utc().unix_timestamp();
            let from = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000);
            names.extend(record_of(number, symbol, from));
        }
    }
    names.sort_by_key(|named| named.from);
    names.into()
}

/// A symbol mapping as a record of version 3; `None` for a symbol longer than it has room for.
fn record_of(number: u32, symbol: &str, from: u64) -> Option<Named> {
    let mut record = [0; MAPPING_LEN];
    (record[0], record[1]) = ((MAPPING_LEN / 4) as u8, rtype::SYMBOL_MAPPING);
    record[4..8].copy_from_slice(&number.to_le_bytes());
    record[8..16].copy_from_slice(&from.to_le_bytes());
    let place = record.get_mut(89..160)?;
    place.get_mut(..symbol.len()).filter(|_| symbol.len() < 71)?.copy_from_slice(symbol.as_bytes());
    record[160..168].copy_from_slice(&from.to_le_bytes());
    Some(Named { from, record })
}
