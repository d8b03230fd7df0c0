//! An entry: a record's state at a place, or the mark that it had other keys before, with the
//! metadata that a page needs. In memory an entry is an image of fixed length, the row first, and
//! its attributes are stored separately.
//!
//! INVARIANT: in an image the row's keys are the entry's: for a mark those before the change, for a
//! tombstone the last ones. A reader's row of a mark or tombstone has no keys.

use weir_types::{ChangeId, Nanos, Rec, Seq};
use weir_wire::delivery::{OrderRow, RowFlags, row_offset_of};
use weir_wire::rows::{ATTRIBUTES_LEN_MAX, put_attributes};
use weir_wire::{DecodeError, Message};

use crate::filter::{Filter, Keys, u16_at, u32_at, u64_at};

/// Bytes of a row's fixed fields.
pub const ROW_LEN: usize = OrderRow::BLOCK_LENGTH;
/// The number of changes before the latest whose distances are remembered.
pub const HISTORY_LEN: usize = 7;

pub(crate) const REC_AT: usize = row_offset_of("rec");
pub(crate) const SEQ_AT: usize = row_offset_of("seq");
pub(crate) const FIRM_AT: usize = row_offset_of("firm_id");
pub(crate) const ACCOUNT_AT: usize = row_offset_of("account_id");
pub(crate) const INSTRUMENT_AT: usize = row_offset_of("instrument_id");
pub(crate) const TRANSACT_TIME_AT: usize = row_offset_of("transact_time");
const MERGED_COUNT_AT: usize = row_offset_of("merged_count");

pub(crate) const FIRST_AT: usize = ROW_LEN;
pub(crate) const CHANGE_COUNT_AT: usize = FIRST_AT + 8;
pub(crate) const HISTORY_AT: usize = CHANGE_COUNT_AT + 4;
pub(crate) const NEXT_KEYS_AT: usize = HISTORY_AT + 4 * HISTORY_LEN;
pub(crate) const STANDING_AT: usize = NEXT_KEYS_AT + 12;
pub(crate) const ATTRIBUTES_LEN_AT: usize = STANDING_AT + 1;
/// Bytes of an image.
pub(crate) const IMAGE_LEN: usize = ATTRIBUTES_LEN_AT + 2;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// An order that can still change.
    Live = 1,
    /// An order that ended.
    Ended = 2,
    /// A deleted record.
    Tombstone = 3,
    /// The mark that a record had other keys before.
    Leave = 4,
}

impl EntryKind {
    pub(crate) fn from_code(code: u8) -> Option<EntryKind> {
        [EntryKind::Live, EntryKind::Ended, EntryKind::Tombstone, EntryKind::Leave]
            .into_iter()
            .find(|standing| *standing as u8 == code)
    }

    fn flags(self) -> RowFlags {
        match self {
            EntryKind::Live | EntryKind::Ended => RowFlags::default(),
            EntryKind::Tombstone => RowFlags::TOMBSTONE,
            EntryKind::Leave => RowFlags::LEAVE,
        }
    }
}

/// A change as the order store exports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Its kind.
    pub standing: EntryKind,
    /// The `seq` of the record's first change.
    pub first: Seq,
    /// The number of the record's changes so far, including this one.
    pub change_count: u32,
    /// Distances in `seq` from each change to the one before, latest first; zero if there is no
    /// earlier change, `u32::MAX` if the distance does not fit.
    pub history: [u32; HISTORY_LEN],
    /// The record's keys: for a mark, those before the change; for a tombstone, the last ones.
    pub keys: Keys,
    /// The keys after the change, for a mark; else none.
    pub next_keys: Keys,
    /// The row in wire format, [`ROW_LEN`] bytes.
    pub row: &'a [u8],
    /// Bytes that only the source understands, at most 600.
    pub attributes: &'a [u8],
}

/// A change that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The row's bytes are not a row.
    #[error(transparent)]
    Row(#[from] DecodeError),
    /// The row is longer than this version's.
    #[error("a row of {0} bytes where {ROW_LEN} are known")]
    RowLen(usize),
    /// The row has no record number.
    #[error("the row has no record number (field rec)")]
    NoRecord,
    /// The row's flags do not match the kind of the change.
    #[error("the row's flags do not fit {0:?}")]
    Flags(EntryKind),
    /// The row's keys differ from those of the change.
    #[error("the row's keys are not those of the change")]
    Keys,
    /// The record's first change would be after this one.
    #[error("a record that began at {first} changes at {at}")]
    First {
        /// The record's first `seq`.
        first: Seq,
        /// The `seq` of the change.
        at: Seq,
    },
    /// The change count is zero.
    #[error("no change is counted (field change_count)")]
    ChangeCount,
    /// The attributes are longer than a row may have.
    #[error("{0} bytes of attributes are more than {ATTRIBUTES_LEN_MAX}")]
    AttributesTooLong(usize),
}

impl Change<'_> {
    /// Checks the change and appends its image; returns its place.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<ChangeId, ChangeError> {
        let row = self.check()?;
        let start = out.len();
        out.extend_from_slice(self.row);
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.extend_from_slice(&self.change_count.to_le_bytes());
        for distance in self.history {
            out.extend_from_slice(&distance.to_le_bytes());
        }
        for word in self.next_keys.to_words() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.push(self.standing as u8);
        let len = u16::try_from(self.attributes.len()).expect("it was checked");
        out.extend_from_slice(&len.to_le_bytes());
        let image = &mut out[start..];
        image[MERGED_COUNT_AT..MERGED_COUNT_AT + 4].fill(0);
        for (at, word) in KEYS_AT.into_iter().zip(self.keys.to_words()) {
            image[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(ChangeId::new(row.seq, row.rec))
    }

    fn check(&self) -> Result<OrderRow, ChangeError> {
        let row = OrderRow::decode_block(self.row)?;
        if self.row.len() != ROW_LEN {
            return Err(ChangeError::RowLen(self.row.len()));
        }
        if row.rec.is_none() {
            return Err(ChangeError::NoRecord);
        }
        if row.flags != self.standing.flags() {
            return Err(ChangeError::Flags(self.standing));
        }
        let of_row = [row.firm_id.0, row.account_id.0, row.instrument_id.0];
        let want = if self.standing.has_body() { self.keys } else { Keys::default() };
        if of_row != want.to_words() {
            return Err(ChangeError::Keys);
        }
        if self.first > row.seq {
            return Err(ChangeError::First { first: self.first, at: row.seq });
        }
        if self.change_count == 0 {
            return Err(ChangeError::ChangeCount);
        }
        if self.attributes.len() > ATTRIBUTES_LEN_MAX {
            return Err(ChangeError::AttributesTooLong(self.attributes.len()));
        }
        Ok(row)
    }
}

impl EntryKind {
    pub(crate) fn has_body(self) -> bool {
        matches!(self, EntryKind::Live | EntryKind::Ended)
    }
}

/// Changes on their way from a store to an archive.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) images: Vec<u8>,
    pub(crate) attributes: Vec<u8>,
    /// The changes are all those after this place: the last place handed over, or the store's floor
    /// if that is later.
    pub from: ChangeId,
    /// There are no other changes up to this place.
    pub to: ChangeId,
}

impl Batch {
    /// Returns an empty batch of changes after `from`.
    #[must_use]
    pub fn after(from: ChangeId) -> Batch {
        Batch { from, to: from, ..Batch::default() }
    }

    /// Adds a change.
    ///
    /// # Errors
    /// [`ChangeError`]; the batch is unchanged.
    pub fn push(&mut self, change: &Change<'_>) -> Result<(), ChangeError> {
        self.to = change.put(&mut self.images)?;
        self.attributes.extend_from_slice(change.attributes);
        Ok(())
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len() / IMAGE_LEN
    }

    /// True when there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Empties the batch for reuse.
    pub fn clear(&mut self) {
        self.images.clear();
        self.attributes.clear();
    }
}

pub(crate) const KEYS_AT: [usize; 3] = [FIRM_AT, ACCOUNT_AT, INSTRUMENT_AT];

/// An entry's image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a>(pub(crate) &'a [u8]);

impl Image<'_> {
    pub(crate) fn change_id(self) -> ChangeId {
        ChangeId::new(Seq(u64_at(self.0, SEQ_AT)), Rec(u64_at(self.0, REC_AT)))
    }

    pub(crate) fn keys(self) -> Keys {
        Keys::from_words(KEYS_AT.map(|at| u32_at(self.0, at)))
    }

    fn next_keys(self) -> Keys {
        Keys::from_words([0, 4, 8].map(|at| u32_at(self.0, NEXT_KEYS_AT + at)))
    }

    /// Returns the kind of the entry; the code was checked when the image was made.
    pub(crate) fn standing(self) -> EntryKind {
        EntryKind::from_code(self.0[STANDING_AT]).expect("it was checked")
    }

    pub(crate) fn is_mark(self) -> bool {
        self.0[STANDING_AT] == EntryKind::Leave as u8
    }

    /// True when a later entry of its record makes this one history. A mark and an end are told
    /// at their places for good: a store that had discarded the order, to which a reader may move,
    /// does not know of a later tombstone or of the keys that the order had before.
    pub(crate) fn may_become_history(self) -> bool {
        self.0[STANDING_AT] == EntryKind::Live as u8
    }

    pub(crate) fn transact_time(self) -> Nanos {
        Nanos(u64_at(self.0, TRANSACT_TIME_AT))
    }

    pub(crate) fn attributes_len(self) -> usize {
        usize::from(u16_at(self.0, ATTRIBUTES_LEN_AT))
    }

    fn first(self) -> ChangeId {
        ChangeId::new(Seq(u64_at(self.0, FIRST_AT)), Rec(u64_at(self.0, REC_AT)))
    }

    /// Decides whether the entry is for a reader whose filter its keys pass, by the store's own
    /// rule:
    ///
    /// ```text
    /// standing         | began after the place | the entry is for the reader if
    /// -----------------+-----------------------+---------------------------------------
    /// LEAVE mark       | -                     | the filter does not match the new keys
    /// live             | -                     | always
    /// ended, tombstone | no: may be known      | always
    /// ended, tombstone | yes                   | it is not for live orders only
    /// ```
    pub(crate) fn is_for(self, after: ChangeId, filter: &Filter) -> bool {
        match self.standing() {
            EntryKind::Leave => !filter.matches(&self.next_keys()),
            EntryKind::Ended | EntryKind::Tombstone => !filter.live_only || self.first() <= after,
            EntryKind::Live => true,
        }
    }

    /// Returns the number of changes after `after` that this one stands for, as the store counts
    /// them: exact up to [`HISTORY_LEN`] and for readers that never saw the record, otherwise a
    /// lower bound.
    pub(crate) fn merged_count(self, after: ChangeId) -> u32 {
        if self.first() > after {
            return u32_at(self.0, CHANGE_COUNT_AT).saturating_sub(1);
        }
        let change_id = self.change_id();
        let mut seq = change_id.seq.0;
        let mut count = 0;
        for index in 0..HISTORY_LEN {
            let distance = u32_at(self.0, HISTORY_AT + 4 * index);
            if distance == 0 || distance == u32::MAX || u64::from(distance) > seq {
                break;
            }
            seq -= u64::from(distance);
            if ChangeId::new(Seq(seq), change_id.rec) <= after {
                break;
            }
            count += 1;
        }
        count
    }

    /// Appends the row as a page has it.
    pub(crate) fn put_row(self, merged_count: u32, attributes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.0[..ROW_LEN]);
        let row = &mut out[start..];
        row[MERGED_COUNT_AT..MERGED_COUNT_AT + 4].copy_from_slice(&merged_count.to_le_bytes());
        if !self.standing().has_body() {
            KEYS_AT.into_iter().for_each(|at| row[at..at + 4].fill(0));
        }
        put_attributes(attributes, out);
    }
}

/// Returns the bytes of an entry's row as a page has it.
pub(crate) fn row_len(image: Image<'_>) -> u32 {
    u32::try_from(ROW_LEN + 2 + image.attributes_len()).expect("rows are short")
}
