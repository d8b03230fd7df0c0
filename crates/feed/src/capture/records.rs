//! Day files: consecutive messages, each behind its length.
//!
//! Format: Nasdaq's files of historical TotalView-ITCH ("BinaryFILE"): two bytes of length,
//! big-endian, then the message; a length of zero ends the session.

use super::CaptureError;

/// The next element of a day file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message, behind its length.
    Message {
        /// Bytes consumed, including the length.
        used: usize,
        /// The message.
        message: &'a [u8],
    },
    /// The end of a session; the file may continue with another session.
    EndOfSession {
        /// Bytes consumed: two.
        used: usize,
    },
    /// At least `len` bytes are needed to continue.
    More {
        /// Counted from the first byte of `bytes`.
        len: usize,
    },
    /// The file ends here.
    End,
}

/// Decodes the next element of a day file from `bytes`, which begin at `offset` of the file.
/// `is_last` states that the file has no more bytes than these.
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
