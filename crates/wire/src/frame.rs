//! Frames: FIX's Simple Open Framing Header, then SBE's message header, then the message.
//!
//! ```text
//! 0  message length, 4 bytes big-endian, this header included   SOFH (FIX Trading Community,
//! 4  encoding type 0xEB50, 2 bytes big-endian                   v1.0; SBE 1.0 little-endian)
//! 6  block length, 2 bytes little-endian                        SBE 1.0 message header
//! 8  template id
//! 10 schema id
//! 12 version
//! 14 block, then groups and data
//! ```
//! A reader takes the length from the frame and refuses one above its own limit.

use crate::message::{DecodeError, Message};
use crate::{SCHEMA_ID, SCHEMA_VERSION};

/// Bytes of the framing header.
pub const SOFH_LEN: usize = 6;
/// Bytes of the message header.
pub const MESSAGE_HEADER_LEN: usize = 8;
/// Bytes before a message's block in a frame.
pub const FRAME_HEADER_LEN: usize = SOFH_LEN + MESSAGE_HEADER_LEN;
/// SOFH's encoding type of SBE 1.0 little-endian.
pub const ENCODING_SBE_LE: u16 = 0xEB50;
/// The longest frame a client may send, in bytes: a fetch with two tokens of as many sources as a
/// token names. Readers lend their buffers or let them grow, so an idle connection pays nothing.
pub const CLIENT_FRAME_LEN_MAX: usize = 8192;

/// A message's header and the bytes behind it: block, groups, data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMessage<'a> {
    /// The template id.
    pub template_id: u16,
    /// The sender's version of the schema, ours or later.
    pub version: u16,
    /// The block's length by the sender's version.
    pub block_length: usize,
    /// Block, groups and data.
    pub body: &'a [u8],
}

/// The state of the bytes at the head of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing<'a> {
    /// A whole frame of `len` bytes.
    Frame {
        /// The frame's length in bytes.
        len: usize,
        /// The message, or the error in its header.
        message: Result<RawMessage<'a>, DecodeError>,
    },
    /// More bytes are needed.
    Incomplete,
    /// The stream cannot be parsed any further: close the connection.
    Broken(BrokenFrame),
}

/// The reason why a byte stream cannot be parsed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenFrame {
    /// The encoding type is not SBE little-endian.
    #[error("encoding type {0:#06x} is not SBE 1.0 little-endian")]
    Encoding(u16),
    /// The length is shorter than the headers or longer than the limit.
    #[error("frame length {0} is out of range")]
    Length(u32),
}

/// Parses the frame at the head of `bytes`, of at most `len_max` bytes.
#[must_use]
pub fn next_frame(bytes: &[u8], len_max: usize) -> Framing<'_> {
    let Some((sofh, _)) = bytes.split_first_chunk::<SOFH_LEN>() else {
        return Framing::Incomplete;
    };
    let len = u32::from_be_bytes([sofh[0], sofh[1], sofh[2], sofh[3]]);
    let encoding = u16::from_be_bytes([sofh[4], sofh[5]]);
    if encoding != ENCODING_SBE_LE {
        return Framing::Broken(BrokenFrame::Encoding(encoding));
    }
    let frame_len = len as usize;
    if !(FRAME_HEADER_LEN..=len_max).contains(&frame_len) {
        return Framing::Broken(BrokenFrame::Length(len));
    }
    match bytes.get(SOFH_LEN..frame_len) {
        None => Framing::Incomplete,
        Some(message) => Framing::Frame { len: frame_len, message: parse_message(message) },
    }
}

/// Reads a message header and checks that the schema is known and the block complete.
///
/// # Errors
/// [`DecodeError::Truncated`], [`DecodeError::UnknownSchema`].
pub fn parse_message(bytes: &[u8]) -> Result<RawMessage<'_>, DecodeError> {
    let Some((head, body)) = bytes.split_first_chunk::<MESSAGE_HEADER_LEN>() else {
        return Err(DecodeError::Truncated("message header"));
    };
    let word = |i: usize| u16::from_le_bytes([head[i], head[i + 1]]);
    let (block_length, template_id, schema, version) = (word(0), word(2), word(4), word(6));
    if schema != SCHEMA_ID || version < SCHEMA_VERSION {
        // Versions only append fields: a later one decodes as ours, an earlier one lacks fields.
        return Err(DecodeError::UnknownSchema { schema, version });
    }
    let block_length = usize::from(block_length);
    if body.len() < block_length {
        return Err(DecodeError::Truncated("block"));
    }
    Ok(RawMessage { template_id, version, block_length, body })
}

impl<'a> RawMessage<'a> {
    /// The block.
    #[must_use]
    pub fn block(&self) -> &'a [u8] {
        &self.body[..self.block_length]
    }

    /// Groups and data.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.body[self.block_length..]
    }

    /// Checks that `rest`, the bytes behind `M` and its tail, is empty. A later version may append
    /// data; ours may not, so that a second message behind the first is never dropped.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`].
    #[inline]
    pub fn expect_end<M: Message>(&self, rest: &[u8]) -> Result<(), DecodeError> {
        if rest.is_empty() || self.version > SCHEMA_VERSION {
            return Ok(());
        }
        Err(DecodeError::TrailingBytes { message: M::NAME, count: rest.len() })
    }

    /// Decodes a message `M` without groups or data.
    ///
    /// # Errors
    /// As [`Message::decode_block`], and [`DecodeError::TrailingBytes`].
    #[inline]
    pub fn decode_whole<M: Message>(&self) -> Result<M, DecodeError> {
        self.expect_end::<M>(self.rest())?;
        self.decode()
    }

    /// Decodes the block as message `M`.
    ///
    /// # Errors
    /// As [`Message::decode_block`].
    pub fn decode<M: Message>(&self) -> Result<M, DecodeError> {
        M::decode_block(self.block())
    }
}

/// Appends the message header of `M`.
pub fn put_message_header<M: Message>(out: &mut Vec<u8>) {
    put_header(M::BLOCK_LENGTH, M::TEMPLATE_ID, out);
}

fn put_header(block_length: usize, template_id: u16, out: &mut Vec<u8>) {
    let block_length = u16::try_from(block_length).expect("no block is as long as 64 KiB");
    let words = [block_length, template_id, SCHEMA_ID, SCHEMA_VERSION];
    let mut bytes = [0; MESSAGE_HEADER_LEN];
    for (to, word) in bytes.chunks_exact_mut(2).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&bytes);
}

/// Appends a message's header and block, without a framing header.
pub fn put_message<M: Message>(message: &M, out: &mut Vec<u8>) {
    put_message_header::<M>(out);
    message.encode_block(out);
}

/// Appends a frame; `fill` appends everything behind the framing header.
pub fn put_frame_with(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; SOFH_LEN]);
    fill(out);
    let len = u32::try_from(out.len() - start).expect("a frame is far shorter than 4 GiB");
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    out[start + 4..start + SOFH_LEN].copy_from_slice(&ENCODING_SBE_LE.to_be_bytes());
}

/// Appends a frame with a message that has neither groups nor data.
pub fn put_frame<M: Message>(message: &M, out: &mut Vec<u8>) {
    put_frame_with(out, |out| put_message(message, out));
}

/// Appends a frame whose block is `block` followed by `tail`: a gateway makes an execution report
/// of an event record this way.
pub fn put_extended_frame(template_id: u16, block: &[u8], tail: &[u8], out: &mut Vec<u8>) {
    put_frame_with(out, |out| {
        put_header(block.len() + tail.len(), template_id, out);
        out.extend_from_slice(block);
        out.extend_from_slice(tail);
    });
}
