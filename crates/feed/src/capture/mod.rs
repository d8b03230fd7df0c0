//! Captures: the datagrams in a pcap or pcapng file, and the messages of a day file, over bytes.
//!
//! The caller passes the file's bytes piece by piece and learns how many were consumed; nothing
//! here reads files, waits or stores bytes. A damaged or truncated file is decoded up to the
//! damage; then an error reports the byte offset.
//!
//! * [`Decoder`]: pcap (both byte orders, microseconds and nanoseconds) and pcapng.
//! * [`datagram`]: the UDP datagram in a captured frame.
//! * [`put_file_header`], [`put_datagram`]: write a pcap file.
//! * [`audit`]: captures of datagrams by line, with two times each, and of missing ones.
//! * [`next_record`]: messages behind a two-byte length, as in Nasdaq's day files.

pub mod audit;
mod decoder;
mod frame;
mod records;
mod writer;

pub use decoder::{Decoded, Decoder};
pub use frame::{Datagram, Frame, FrameError, LinkType, datagram};
pub use records::{Record, next_record};
pub use writer::{WriteError, put_datagram, put_file_header};

/// The longest block or frame that is read, in bytes: a longer one is a sign of damage.
pub const BLOCK_LEN_MAX: usize = 16 << 20;

/// The reason a capture cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The file does not begin like a capture.
    #[error("not a capture: it begins with {first:#010x}")]
    NotACapture {
        /// The first four bytes, big-endian.
        first: u32,
    },
    /// The file ends inside a block.
    #[error("the file ends inside what begins at byte {offset}: {len} of its bytes are there")]
    Truncated {
        /// The offset of the block.
        offset: u64,
        /// The bytes of it that are present.
        len: usize,
    },
    /// A block has an impossible length.
    #[error("the block at byte {offset} has a length of {len}")]
    Length {
        /// The offset of the block.
        offset: u64,
        /// The length it states.
        len: u64,
    },
    /// A block is damaged.
    #[error("the block at byte {offset} is damaged: {what}")]
    Damaged {
        /// The offset of the block.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
