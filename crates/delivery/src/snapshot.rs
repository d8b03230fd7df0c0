//! A store as a stream of bounded chunks, and a store built from one: for restarts and followers.
//!
//! The stream is the store as it was when the snapshot began, regardless of later changes: if a
//! slot changes before its turn, its state before the change is kept and sent. A follower that is
//! restored and then takes in the changes after the [`OrderStore::head`] of that moment ends in the
//! same state as the original: tokens, floors, LEAVE marks and merged counts included. If the
//! stream had each row as it is at its turn, the keys that an order had at the beginning would be
//! lost, and with them the marks that readers of those keys need.
//!
//! ```text
//! chunk     magic u32, version u16, kind u8, 0 u8, number u32, bytes of the payload u32,
//!           entries u32, CRC-32C of all this and the payload u32; then the payload
//! head      source u16, epoch u32, kinds u8, head, floor, slots u64, digest u64, the highest
//!           record number so far u64, the source's log u64, count u32 of past epochs, each: epoch
//!           u32, its last valid place
//! slots     each: place, first place, keys, next keys, standing u8, with the bit 128 if the store
//!           may have discarded the record before, changes u32, 7 distances u32, bytes of the row
//!           u16, the row
//! keys      each: kind u8, value u64, floor
//! end       slots u64, keys u64, chain u64: XXH3-64 of each chunk before, seeded by the one before
//! ```
//! A place is `seq` u64 and `rec` u64, keys are firm, account and instrument, u32 each. The first
//! place of a record all of whose changes are void is twice the highest number. All numbers are
//! little-endian. Chunks come in the order of their numbers: one head, slots, keys, one end.
//! Versions 1 to 3 are read too: a record with the bit 128 begins at the start there. The heads of
//! 1 and 2 lack the log, that of 1 the highest record number.
//!
//! A record has one slot, its latest entry, and perhaps earlier ones: ends that keep their places
//! beside a tombstone, or a row of other keys or of another order.

use weir_types::{AccountId, ChangeId, FirmId, InstrumentId, PartitionId, Rec, Seq};
use weir_wire::DecodeError;

use crate::bounds::RowNumber;
use crate::filter::Keys;

pub use crate::restore::Restore;

/// The version of the stream.
pub const SNAPSHOT_VERSION: u16 = 4;
/// The version without the bit [`OLDER`], which is read too.
pub(crate) const VERSION_WITHOUT_OLDER: u16 = 3;
/// The version without the source's log, which is read too.
pub(crate) const VERSION_WITHOUT_LOG: u16 = 2;
/// The version without the log and the highest record number, which is read too.
pub(crate) const VERSION_WITHOUT_HIGHEST: u16 = 1;
/// The bit of a slot's standing that says that the store may have discarded the record before.
pub(crate) const OLDER: u8 = 1 << 7;
/// Bytes of a chunk's header.
pub const CHUNK_HEADER_LEN: usize = 24;
pub(crate) const MAGIC: [u8; 4] = *b"WOSS";
pub(crate) const CRC_AT: usize = 20;
/// Bytes of a slot's entry without its row.
pub(crate) const SLOT_ENTRY_LEN: usize = 16 + 16 + 12 + 12 + 1 + 4 + 28 + 2;
/// Bytes of a key's entry.
pub(crate) const KEY_ENTRY_LEN: usize = 1 + 8 + 16;
/// The longest payload that is read.
pub(crate) const PAYLOAD_LEN_MAX: usize = 1 << 24;

/// The result of a call of [`OrderStore::snapshot_chunk`](crate::OrderStore::snapshot_chunk).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ChunkOutcome {
    /// A chunk was appended, and there are more.
    More,
    /// The last chunk was appended.
    Done,
}

/// The reason that there is no next chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// No snapshot was begun, or it is complete.
    #[error("no snapshot is under way")]
    NotBegun,
    /// The copies of slots that changed since it began took too much memory, so it was cancelled.
    #[error("the snapshot was given up: the store is at its limit of memory")]
    GivenUp,
}

/// The reason that a stream of chunks is not a valid store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes end inside a chunk, or before the last one.
    #[error("chunk {chunk}: the bytes end early")]
    Truncated {
        /// The chunk's number.
        chunk: u32,
    },
    /// The bytes are no chunk of a snapshot.
    #[error("chunk {chunk}: not a snapshot's")]
    Magic {
        /// The chunk's number.
        chunk: u32,
    },
    /// The stream has an unknown version.
    #[error("chunk {chunk}: version {version} is not read")]
    Version {
        /// The chunk's number.
        chunk: u32,
        /// The version found.
        version: u16,
    },
    /// The bytes are damaged.
    #[error("chunk {chunk}: its checksum does not hold")]
    Checksum {
        /// The chunk's number.
        chunk: u32,
    },
    /// A chunk is missing, is there twice or is out of place.
    #[error("chunk {chunk}: out of order")]
    OutOfOrder {
        /// The number of the chunk that was due.
        chunk: u32,
    },
    /// A value in an entry is impossible.
    #[error("chunk {chunk}: {what} cannot be")]
    Entry {
        /// The chunk's number.
        chunk: u32,
        /// The value.
        what: &'static str,
    },
    /// A row's field has a value without meaning.
    #[error("chunk {chunk}: {error}")]
    Row {
        /// The chunk's number.
        chunk: u32,
        /// The field and its error.
        error: DecodeError,
    },
    /// A row's number is beyond its bound.
    #[error("chunk {chunk}: {number}")]
    Number {
        /// The chunk's number.
        chunk: u32,
        /// The field.
        number: RowNumber,
    },
    /// The snapshot is of another source.
    #[error("a snapshot of partition {got} for the store of partition {want}")]
    WrongSource {
        /// The snapshot's source.
        got: PartitionId,
        /// The store's source.
        want: PartitionId,
    },
    /// The counts or the chain of the last chunk do not match the chunks received.
    #[error("what came is not what the last chunk says: {what}")]
    Incomplete {
        /// The part that does not match.
        what: &'static str,
    },
    /// The digest of the live orders differs from that of the original.
    #[error("the digest of the live orders is {got:016x}, not {want:016x}")]
    Digest {
        /// The digest of the restored orders.
        got: u64,
        /// The digest of the original.
        want: u64,
    },
    /// The snapshot needs more memory than the store's limit.
    #[error("the snapshot does not fit in {bytes_max} bytes")]
    StoreFull {
        /// The limit in bytes.
        bytes_max: u64,
    },
}

/// The kinds of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    Head = 1,
    Slots = 2,
    Keys = 3,
    End = 4,
}

impl ChunkKind {
    pub(crate) fn from_code(code: u8) -> Option<ChunkKind> {
        [ChunkKind::Head, ChunkKind::Slots, ChunkKind::Keys, ChunkKind::End]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

pub(crate) fn put_change_id(change_id: ChangeId, out: &mut Vec<u8>) {
    out.extend_from_slice(&change_id.seq.0.to_le_bytes());
    out.extend_from_slice(&change_id.rec.0.to_le_bytes());
}

pub(crate) fn put_keys(keys: &Keys, out: &mut Vec<u8>) {
    for number in [keys.firm_id.0, keys.account_id.0, keys.instrument_id.0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// A reader of a payload's values, one after the other; `None` if the payload ends early.
pub(crate) struct Payload<'a>(pub(crate) &'a [u8]);

impl<'a> Payload<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn change_id(&mut self) -> Option<ChangeId> {
        Some(ChangeId::new(Seq(self.u64()?), Rec(self.u64()?)))
    }

    pub(crate) fn keys(&mut self) -> Option<Keys> {
        Some(Keys {
            firm_id: FirmId(self.u32()?),
            account_id: AccountId(self.u32()?),
            instrument_id: InstrumentId(self.u32()?),
        })
    }
}
