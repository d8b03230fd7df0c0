//! Captures: the datagrams in a pcap or pcapng file, and the messages of a day file, over bytes.
//!
//! Whoever has the file hands its bytes over piece by piece and is told how many were used; nothing
//! here reads, waits or keeps bytes. What can be read of a damaged or cut-off file is read, then an
//! error says at which byte it ends.
//!
//! * [`Decoder`]: pcap (both byte orders, microseconds and nanoseconds) and pcapng.
//! * [`datagram`]: the UDP datagram in a captured frame.
//! * [`put_file_header`], [`put_datagram`]: writes a pcap file.
//! * [`next_record`]: messages with a length of two bytes before each, as Nasdaq's day files.

mod decoder;
mod frame;
mod records;
mod writer;

pub use decoder::{Decoder, Step};
pub use frame::{Datagram, Frame, FrameError, LinkType, datagram};
pub use records::{Record, next_record};
pub use writer::{WriteError, put_datagram, put_file_header};

/// Bytes of the longest block or frame that is read: more is a sign of damage.
pub const BLOCK_LEN_MAX: usize = 16 << 20;

/// Why no more of a capture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The file does not begin as a capture does.
    #[error("not a capture: it begins with {first:#010x}")]
    NotACapture {
        /// The first four bytes, the first one highest.
        first: u32,
    },
    /// The file ends inside a block.
    #[error("the file ends inside what begins at byte {offset}: {len} of its bytes are there")]
    Truncated {
        /// Where the block begins.
        offset: u64,
        /// What there is of it.
        len: usize,
    },
    /// A block has a length that cannot be.
    #[error("the block at byte {offset} has a length of {len}")]
    Length {
        /// Where it begins.
        offset: u64,
        /// What it says.
        len: u64,
    },
    /// A block cannot be read.
    #[error("the block at byte {offset} is damaged: {what}")]
    Damaged {
        /// Where it begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
