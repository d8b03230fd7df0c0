//! Shared code of the fuzz targets: converts arbitrary bytes to inputs that pass the first checks.
//!
//! A decoder's first checks (a magic number, a schema id, a checksum) keep blind mutation out of
//! the code behind them. Each target therefore also uses its bytes as a recipe for an input with a
//! valid envelope and arbitrary content.

pub mod market;

use weir_wire::catalogue::catalogue;
use weir_wire::frame::{SOFH_LEN, put_frame_with};
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

/// Makes a message of some template of the schema with `bytes` as its content: the first byte picks
/// the template, the rest fills the block (with zeros where it is too short) and its tail.
#[must_use]
pub fn shaped_message(bytes: &[u8]) -> Vec<u8> {
    let (pick, content) = bytes.split_first().unwrap_or((&0, &[]));
    let info = &catalogue()[usize::from(*pick) % catalogue().len()];
    let block_length = u16::try_from(info.block_length).expect("blocks are far under 64 KiB");
    let mut message = Vec::with_capacity(8 + content.len());
    for word in [block_length, info.template_id, SCHEMA_ID, SCHEMA_VERSION] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.extend_from_slice(content);
    message.resize(message.len().max(8 + info.block_length), 0);
    message
}

/// Makes a stream of frames: length bytes in `bytes` cut it into shaped messages.
#[must_use]
pub fn shaped_stream(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut rest = bytes;
    while let Some((len, tail)) = rest.split_first() {
        let (content, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        put_frame_with(&mut stream, |out| out.extend_from_slice(&shaped_message(content)));
        assert!(stream.len() > SOFH_LEN, "a frame is never empty");
        rest = tail;
    }
    stream
}

/// Arbitrary bytes as a source of choices; once used up, every choice is zero.
#[derive(Debug)]
pub struct Recipe<'a> {
    rest: &'a [u8],
}

impl<'a> Recipe<'a> {
    /// Takes choices from `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Recipe<'a> {
        Recipe { rest: bytes }
    }

    /// True when no bytes are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes all bytes left.
    #[must_use]
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// The next two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next eight bytes as a number.
    pub fn number(&mut self) -> u64 {
        let mut word = [0; 8];
        let taken = self.take(8);
        word[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(word)
    }

    /// Returns true for one in `count` of the next byte's values, never when no bytes are left.
    pub fn one_in(&mut self, count: u8) -> bool {
        !self.is_empty() && self.byte() % count == 1 % count
    }

    /// Takes a run of at most `len_max` bytes; the next byte gives the length.
    pub fn bytes_up_to(&mut self, len_max: u8) -> &'a [u8] {
        let len = usize::from(self.byte()) % (usize::from(len_max) + 1);
        self.take(len)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}
