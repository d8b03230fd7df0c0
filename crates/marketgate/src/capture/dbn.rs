//! The container of Databento's DBN files. [`weir_feed::dbn`] decodes the records
//! themselves.
//!
//! A file is metadata followed by records. Records of versions 1 and 2 are upgraded to version 3;
//! files of version 4 and later are refused. The symbol mappings of the metadata are passed on as
//! records, each at the start of the day for which it is valid.

use std::collections::VecDeque;

use dbn::decode::dbn::fsm::{DbnFsm, ProcessResult};
use dbn::{Metadata, RecordRef, SType, VersionUpgradePolicy, v1, v2, v3};
use weir_feed::dbn::received;
use weir_feed::dbn::record::{RecordHeader, rtype};
use weir_types::Nanos;

use super::pieces::Pieces;

/// The first bytes of a DBN file.
pub(super) const MAGIC: [u8; 3] = *b"DBN";
/// The supported versions.
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=3;
/// Bytes before the metadata: the magic, the version, the metadata's length.
const PRELUDE_LEN: usize = 8;
/// The limit of the metadata's length, for which the decoder takes room at once: the number is a
/// stranger's. A mapping of every option of a day takes less than half of it.
const METADATA_LEN_MAX: u32 = 1 << 28;
/// The alignment of records, which are read in place.
const ALIGNED: usize = 8;
/// The length of a symbol mapping of version 3, in bytes.
const MAPPING_LEN: usize = 176;

/// An error that ends the reading of a DBN file.
#[derive(Debug, thiserror::Error)]
pub enum DbnError {
    /// The version is not supported.
    #[error("DBN version {version}; 1, 2 and 3 are read")]
    Version {
        /// The file's version.
        version: u8,
    },
    /// The metadata exceeds the limit.
    #[error("metadata of {len} bytes")]
    Metadata {
        /// The metadata's length.
        len: u32,
    },
    /// A record has an invalid length: the record after it could not be read in place.
    #[error("at byte {offset}: a record of {len} bytes; all are multiples of {ALIGNED}")]
    Record {
        /// The record's offset.
        offset: u64,
        /// The length in its header.
        len: usize,
    },
    /// The file ends within the metadata or a record.
    #[error("at byte {offset}: the file ends {len} bytes into the metadata or a record")]
    Truncated {
        /// The offset of the incomplete metadata or record.
        offset: u64,
        /// The number of bytes present.
        len: usize,
    },
    /// The bytes are neither metadata nor a record.
    #[error("at byte {offset}: {error}")]
    Damaged {
        /// Their offset.
        offset: u64,
        /// The cause.
        error: Box<dbn::Error>,
    },
}

/// The next item of a file.
pub(super) enum Next<'a> {
    /// A record in the form of version 3, and the time at which the recorder received it.
    Record(Nanos, &'a [u8]),
    /// A symbol mapping from the metadata, in the form of a record, and the time of the record that
    /// follows.
    Name(Nanos, &'a [u8]),
    /// The end of the file.
    End,
}

/// A symbol mapping and the time from which it is valid, in nanoseconds since the Unix epoch.
struct MappingRecord {
    from: u64,
    record: [u8; MAPPING_LEN],
}

/// Parses a DBN file.
pub(super) struct DbnFile {
    fsm: DbnFsm,
    version: u8,
    names: VecDeque<MappingRecord>,
    /// The symbol mapping returned last.
    name: [u8; MAPPING_LEN],
    /// The record parsed last.
    record: Vec<u8>,
    /// True if `record` was not returned yet.
    has_record: bool,
    /// The receive time of the last record.
    last: Nanos,
    /// Bytes passed to `fsm`.
    taken: u64,
    /// Bytes of metadata not yet passed to `fsm`.
    metadata_left: usize,
    /// Zeros to pass after the metadata, so that records are aligned.
    padding: usize,
}

impl DbnFile {
    /// Starts a file; `pieces` must hold its first eight bytes, unless the file is shorter.
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
            // The library's own upgrade panics on records that are too short.
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

    /// The offset of the first unparsed byte.
    pub fn offset(&self) -> u64 {
        // The difference is negative only while `fsm` holds padding of the metadata: offset 0.
        self.taken.saturating_sub(self.fsm.data().len() as u64)
    }

    /// Returns the next item; `None` when `pieces` must be filled first.
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

    /// Passes as many bytes to `fsm` as it has room for; returns their number.
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

    /// Stores the record that `fsm` found.
    fn take_record(&mut self) {
        let Some(record) = self.fsm.last_record() else { return };
        self.record.clear();
        put_as_v3(self.version, &record, &mut self.record);
        // Times may step back slightly between records; mappings are never withdrawn for that.
        self.last = received(&self.record).unwrap_or(self.last);
        self.has_record = true;
    }

    /// Handles the lack of further bytes. Mappings that no record needed are returned before the
    /// end.
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

/// Writes a record in the form of version 3. A record shorter than its type requires is written as
/// a header alone, which no decoder accepts as a whole record.
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

/// Returns the symbol mappings of the metadata, the earliest first. Symbols without a number, and
/// numbers without a symbol, are omitted.
fn names_of(metadata: &Metadata) -> VecDeque<MappingRecord> {
    // A file maps either requested symbols to numbers, or requested numbers to symbols.
    let is_by_number = metadata.stype_in == Some(SType::InstrumentId);
    if !is_by_number && metadata.stype_out != SType::InstrumentId {
        return VecDeque::new();
    }
    let mut names: Vec<MappingRecord> = Vec::new();
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

/// Builds a symbol mapping of version 3; `None` for a symbol longer than its field.
fn record_of(number: u32, symbol: &str, from: u64) -> Option<MappingRecord> {
    let mut record = [0; MAPPING_LEN];
    (record[0], record[1]) = ((MAPPING_LEN / 4) as u8, rtype::SYMBOL_MAPPING);
    record[4..8].copy_from_slice(&number.to_le_bytes());
    record[8..16].copy_from_slice(&from.to_le_bytes());
    let place = record.get_mut(89..160)?;
    place.get_mut(..symbol.len()).filter(|_| symbol.len() < 71)?.copy_from_slice(symbol.as_bytes());
    record[160..168].copy_from_slice(&from.to_le_bytes());
    Some(MappingRecord { from, record })
}
