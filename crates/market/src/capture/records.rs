//! Day files: messages one after the other, each behind its length.
//!
//! Format: Nasdaq's files of historical TotalView-ITCH ("BinaryFILE"): two bytes of length,
//! big-endian, then the message; a length of zero ends the session.

use super::CaptureError;

/// What the next bytes of a day file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message; it and its length took `used` bytes.
    Message {
        /// Bytes that were used.
        used: usize,
        /// The message.
        message: &'a [u8],
    },
    /// The session is over, which took two bytes; a file may go on with another one.
    EndOfSession {
        /// Bytes that were used.
        used: usize,
    },
    /// So many bytes are needed at least to go on.
    More {
        /// Counted from the first byte that was handed over.
        len: usize,
    },
    /// The file ends here.
    End,
}

/// Looks at the next bytes of a day file, which stand at `offset`. `is_last` says that the file has
/// no more than these.
///
/// # Errors
/// [`CaptureError::Truncated`]: the file ends inside a message.
pub fn next_record(bytes: &[u8], offset: u64, is_last: bool) -> Result<Record<'_>, CaptureError> {
    if bytes.is_empty() && is_last {
        return Ok(Record::End);
    }
    let len = match bytes.first_chunk::<2>() {
        Some([0, 0]) => return Ok(Record::EndOfSession { used: 2 }),
        Some(len) => 2 + usize::from(u16::from_be_bytes(*len)),
        None => 2,
    };
    match bytes.get(2..len) {
        Some(message) if len > 2 => Ok(Record::Message { used: len, message }),
        _ if is_last => Err(CaptureError::Truncated { offset, len: bytes.len() }),
        _ => Ok(Record::More { len }),
    }
}
