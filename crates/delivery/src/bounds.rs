//! The bounds on the numbers of outside cores: the numbers that are compared and summed here stay
//! far from the ends of their types.

use weir_types::{Reason, Rec};
use weir_wire::delivery::{OrderRow, RowFlags};

/// The highest record number and `seq` of a row: the highest signed number of 64 bits.
pub const ROW_NUMBER_MAX: u64 = u64::MAX >> 1;
/// The latest time of a row, in nanoseconds since the Unix epoch: in the year 2262.
pub const ROW_TIME_MAX: u64 = u64::MAX >> 1;
/// The highest epoch of a source: one remains above it.
pub const EPOCH_MAX: u32 = u32::MAX - 1;

/// A field of a row that is beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowNumber {
    /// The record's number.
    #[error("field rec is above 2^63 - 1")]
    Rec,
    /// The change's number.
    #[error("field seq is above 2^63 - 1")]
    Seq,
    /// One of the times.
    #[error("field {0} is above 2^63 - 1 ns")]
    Time(&'static str),
}

impl RowNumber {
    /// Returns the reason code of the wire format.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            RowNumber::Rec => Reason::RecOutOfRange,
            RowNumber::Seq => Reason::SeqOutOfRange,
            RowNumber::Time(_) => Reason::TimeOutOfRange,
        }
    }
}

/// Checks a record's number.
///
/// # Errors
/// [`RowNumber::Rec`].
pub fn check_rec(rec: Rec) -> Result<(), RowNumber> {
    if rec.0 > ROW_NUMBER_MAX { Err(RowNumber::Rec) } else { Ok(()) }
}

/// Checks the numbers that name a change.
///
/// # Errors
/// The first field that is beyond its bound.
pub fn check_place(row: &OrderRow) -> Result<(), RowNumber> {
    check_rec(row.rec)?;
    if row.seq.0 > ROW_NUMBER_MAX { Err(RowNumber::Seq) } else { Ok(()) }
}

/// Checks the numbers of an outside core's row. Of a tombstone only those that name the change are
/// read.
///
/// # Errors
/// The first field that is beyond its bound.
pub fn check_numbers(row: &OrderRow) -> Result<(), RowNumber> {
    check_place(row)?;
    let times = [
        ("transact_time", row.transact_time),
        ("created_time", row.created_time),
        ("expire_time", row.expire_time),
    ];
    let late = times.into_iter().find(|(_, time)| time.0 > ROW_TIME_MAX);
    match late {
        Some((field, _)) if !row.flags.contains(RowFlags::TOMBSTONE) => Err(RowNumber::Time(field)),
        _ => Ok(()),
    }
}
