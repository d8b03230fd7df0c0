//! What the fuzz targets share: turning arbitrary bytes into inputs that get past the first check.
//!
//! A decoder's first checks (a magic number, a schema id, a checksum) keep blind mutation out of
//! the code behind them. Each target therefore also takes its bytes as a recipe for an input whose
//! envelope is right and whose content is arbitrary.

pub mod market;

use weir_wire::catalogue::catalogue;
use weir_wire::frame::{SOFH_LEN, put_frame_with};
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

/// A message of some template of the schema with `bytes` as its content: the first one picks the
/// template, the rest fills the block (with zeros where it is too short) and what follows it.
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

/// A stream of frames: `bytes` are cut at each of its own length bytes into shaped messages.
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

/// Arbitrary bytes as a source of choices; when they are used up, every choice is zero.
#[derive(Debug)]
pub struct Recipe<'a> {
    rest: &'a [u8],
}

impl<'a> Recipe<'a> {
    /// Choices from `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Recipe<'a> {
        Recipe { rest: bytes }
    }

    /// True when no choice is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
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

    /// True for one in `count` of the next byte's values, never when no choice is left.
    pub fn one_in(&mut self, count: u8) -> bool {
        !self.is_empty() && self.byte() % count == 1 % count
    }

    /// A run of bytes, at most `len_max` long; the next byte says how long.
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
