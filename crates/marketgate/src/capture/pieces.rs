//! A file's bytes in pieces, decompressed: at hand are always those that were not used yet.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// Bytes that are read at once at least.
pub(crate) const PIECE_LEN: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes that are read on as they are used up.
pub(crate) struct Pieces {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// What is in the buffer and was not used yet.
    start: usize,
    end: usize,
    is_last: bool,
}

impl Pieces {
    /// Of bytes that may be compressed by gzip or Zstandard, in any number of parts.
    pub(crate) fn new(mut reader: Box<dyn Read + Send>) -> io::Result<Pieces> {
        let mut head = Vec::new();
        reader.by_ref().take(4).read_to_end(&mut head)?;
        let is_gzip = head.starts_with(&GZIP_MAGIC);
        let is_zstd = head == ZSTD_MAGIC;
        let whole = Cursor::new(head).chain(reader);
        let reader: Box<dyn Read + Send> = match () {
            () if is_gzip => Box::new(MultiGzDecoder::new(whole)),
            () if is_zstd => Box::new(zstd::Decoder::new(whole)?),
            () => Box::new(whole),
        };
        let (start, end, is_last) = (0, 0, false);
        Ok(Pieces { reader, buffer: vec![0; PIECE_LEN], start, end, is_last })
    }

    /// The bytes at hand, and whether the file has no more.
    pub(crate) fn at_hand(&self) -> (&[u8], bool) {
        (&self.buffer[self.start..self.end], self.is_last)
    }

    /// How many bytes are at hand.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The first `len` bytes at hand were used.
    pub(crate) fn used(&mut self, len: usize) {
        self.start += len;
    }

    /// Reads on until there are at least `len` bytes at hand, or the file ends.
    pub(crate) fn fill(&mut self, len: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() < len {
            self.buffer.resize(len.next_multiple_of(PIECE_LEN), 0);
        }
        while self.end < len && !self.is_last {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_last = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
