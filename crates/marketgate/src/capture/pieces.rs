//! Reads a file in pieces, decompressed; the buffer always holds the unused bytes.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// The minimum number of bytes of one read.
pub(crate) const PIECE_LEN: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A buffered reader that exposes its unused bytes.
pub(crate) struct Pieces {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The range of unused bytes in the buffer.
    start: usize,
    end: usize,
    is_last: bool,
}

impl Pieces {
    /// Reads bytes that may be compressed by gzip or Zstandard, in any number of members.
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

    /// Returns the unused bytes, and true if the file has no more.
    pub(crate) fn at_hand(&self) -> (&[u8], bool) {
        (&self.buffer[self.start..self.end], self.is_last)
    }

    /// The number of unused bytes.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Marks the first `len` unused bytes as used.
    pub(crate) fn used(&mut self, len: usize) {
        self.start += len;
    }

    /// Reads until at least `len` unused bytes are buffered, or the file ends.
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
