//! Reads a capture, a day file or a DBN file piece by piece, plain or compressed by gzip or
//! Zstandard.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use weir_feed::capture::{
    CaptureError, Datagram, Decoded, Decoder, FrameError, Record, datagram, next_record,
};
use weir_types::Nanos;

use super::super::{Datagrams, ReceiveCounts};
use super::dbn::{DbnError, DbnFile, MAGIC, Next};
use super::pieces::{PIECE_LEN, Pieces};

/// The first four bytes of each form of pcap file, and of pcapng files.
const CAPTURE_MAGICS: [[u8; 4]; 6] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];
/// The bytes that tell a capture from others. A file of fewer is one that was cut off.
const HEAD_LEN_MIN: usize = 4;
/// The longest message of any feed that has day files.
const RECORD_LEN_MAX: u16 = 1_024;

/// An error that ends the reading of a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// An I/O error, or damaged compression.
    #[error("after {offset} bytes: {error}")]
    Io {
        /// Decompressed bytes read before the error.
        offset: u64,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// It begins like no file that is read.
    #[error("neither a capture nor a day file nor a file of DBN: it begins with \"{}\"",
        .first.escape_ascii())]
    Unknown {
        /// Its first eight bytes, or all of fewer.
        first: Vec<u8>,
    },
    /// The content of a capture or a day file is damaged.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The content of a DBN file is damaged.
    #[error(transparent)]
    Dbn(#[from] DbnError),
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Frames: pcap or pcapng.
    Capture,
    /// Messages, each prefixed with its length.
    Records,
    /// Databento's DBN.
    Dbn,
}

/// The next item of a file.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A datagram of a capture.
    Datagram(Datagram<'a>),
    /// A frame without a UDP datagram.
    Other(FrameError),
    /// A message of a day file, or a record of a DBN file, and its own time.
    Message {
        /// Day file: nanoseconds since midnight, from the time field of ITCH 5.0, or zero if the
        /// message is too short for one. DBN: since the Unix epoch.
        ts_event: Nanos,
        /// The message.
        message: &'a [u8],
    },
    /// A symbol mapping from the metadata of a DBN file, in the form of a record.
    Name {
        /// The time of the record that follows.
        ts_event: Nanos,
        /// The record.
        message: &'a [u8],
    },
}

/// Counters of the items found so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Frames of a capture.
    pub frames: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Frames without UDP.
    pub other: u64,
    /// Fragments of datagrams.
    pub fragments: u64,
    /// Datagrams that the capture truncated.
    pub cut: u64,
    /// Frames with malformed headers.
    pub damaged: u64,
    /// Messages of a day file, or records of a DBN file.
    pub messages: u64,
}

impl std::ops::AddAssign for FileCounts {
    fn add_assign(&mut self, more: FileCounts) {
        let FileCounts { frames, datagrams, other, fragments, cut, damaged, messages } = more;
        self.frames += frames;
        self.datagrams += datagrams;
        self.other += other;
        self.fragments += fragments;
        self.cut += cut;
        self.damaged += damaged;
        self.messages += messages;
    }
}

/// A capture, day file or DBN file open for reading.
pub struct CaptureFile {
    pieces: Pieces,
    offset: u64,
    kind: FileKind,
    decoder: Decoder,
    dbn: Option<Box<DbnFile>>,
    counts: FileCounts,
}

impl std::fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureFile")
            .field("kind", &self.kind)
            .field("offset", &self.offset)
            .finish()
    }
}

impl CaptureFile {
    /// Opens a file and detects its format from its first bytes.
    ///
    /// # Errors
    /// An I/O error of the operating system, a file that begins like none, or unsupported DBN
    /// metadata.
    pub fn open(path: &Path) -> Result<CaptureFile, FileError> {
        let file = File::open(path).map_err(|error| FileError::Io { offset: 0, error })?;
        CaptureFile::new(Box::new(BufReader::with_capacity(PIECE_LEN, file)))
    }

    /// Reads from any source of bytes.
    ///
    /// # Errors
    /// The errors of `reader`, bytes that begin like no file, or unsupported DBN metadata.
    pub fn new(reader: Box<dyn Read + Send>) -> Result<CaptureFile, FileError> {
        let error = |error| FileError::Io { offset: 0, error };
        let mut file = CaptureFile {
            pieces: Pieces::new(reader).map_err(error)?,
            offset: 0,
            kind: FileKind::Capture,
            decoder: Decoder::new(),
            dbn: None,
            counts: FileCounts::default(),
        };
        file.fill(8)?;
        let (head, _) = file.pieces.at_hand();
        if head.starts_with(&MAGIC) {
            file.dbn = Some(Box::new(DbnFile::new(&mut file.pieces)?));
            file.kind = FileKind::Dbn;
            return Ok(file);
        }
        let is_capture = CAPTURE_MAGICS.iter().any(|magic| head.starts_with(magic));
        let len = head.first_chunk::<2>().map_or(0, |len| u16::from_be_bytes(*len));
        if !is_capture && (1..=RECORD_LEN_MAX).contains(&len) {
            file.kind = FileKind::Records;
        } else if !is_capture && head.len() >= HEAD_LEN_MIN {
            return Err(FileError::Unknown { first: head[..head.len().min(8)].to_vec() });
        }
        Ok(file)
    }

    /// The file's format.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The counters so far.
    #[must_use]
    pub fn counts(&self) -> &FileCounts {
        &self.counts
    }

    /// The number of bytes used so far, decompressed.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes the next item to `take`; returns false at the end of the file.
    ///
    /// # Errors
    /// [`FileError`]: nothing more can be read. All items before it were passed on.
    pub fn next(&mut self, take: &mut dyn FnMut(&Item<'_>)) -> Result<bool, FileError> {
        if self.dbn.is_some() {
            return self.next_of_dbn(take);
        }
        loop {
            let (bytes, is_last) = self.pieces.at_hand();
            let (used, needed) = match self.kind {
                FileKind::Capture => match self.decoder.next(bytes, is_last)? {
                    Decoded::Frame { used, frame } => {
                        self.counts.frames += 1;
                        let item = datagram(&frame).map_or_else(Item::Other, Item::Datagram);
                        count(&mut self.counts, &item);
                        take(&item);
                        (used, None)
                    }
                    Decoded::Other { used } => (used, Some(0)),
                    Decoded::More { len } => (0, Some(len)),
                    Decoded::End => return Ok(false),
                },
                FileKind::Records => match next_record(bytes, self.offset, is_last)? {
                    Record::Message { used, message } => {
                        self.counts.messages += 1;
                        take(&Item::Message { ts_event: time_of_day(message), message });
                        (used, None)
                    }
                    Record::EndOfSession { used } => (used, Some(0)),
                    Record::More { len } => (0, Some(len)),
                    Record::End => return Ok(false),
                },
                FileKind::Dbn => return Ok(false),
            };
            self.pieces.used(used);
            self.offset += used as u64;
            match needed {
                None => return Ok(true),
                Some(len) if len > self.pieces.len() => self.fill(len)?,
                Some(_) => {}
            }
        }
    }

    fn next_of_dbn(&mut self, take: &mut dyn FnMut(&Item<'_>)) -> Result<bool, FileError> {
        loop {
            let CaptureFile { pieces, dbn: Some(dbn), counts, .. } = self else { return Ok(false) };
            match dbn.next(pieces)? {
                Some(Next::Record(ts_event, message)) => {
                    counts.messages += 1;
                    take(&Item::Message { ts_event, message });
                    return Ok(true);
                }
                Some(Next::Name(ts_event, message)) => {
                    take(&Item::Name { ts_event, message });
                    return Ok(true);
                }
                Some(Next::End) => return Ok(false),
                None => {
                    self.offset = dbn.offset();
                    self.fill(1)?;
                }
            }
        }
    }

    /// Reads until at least `len` bytes are buffered, or the file ends.
    fn fill(&mut self, len: usize) -> Result<(), FileError> {
        self.pieces.fill(len).map_err(|error| {
            let offset = self.offset + self.pieces.len() as u64;
            FileError::Io { offset, error }
        })
    }
}

fn count(counts: &mut FileCounts, item: &Item<'_>) {
    let place = match item {
        Item::Datagram(_) => &mut counts.datagrams,
        Item::Other(FrameError::Fragment) => &mut counts.fragments,
        Item::Other(FrameError::Cut { .. }) => &mut counts.cut,
        Item::Other(FrameError::Damaged) => &mut counts.damaged,
        Item::Other(FrameError::NotUdp | FrameError::Link(_)) => &mut counts.other,
        Item::Message { .. } | Item::Name { .. } => &mut counts.messages,
    };
    *place += 1;
}

/// Reads the time of an ITCH 5.0 message: type, stock locate, tracking number, then six bytes of
/// nanoseconds since midnight.
fn time_of_day(message: &[u8]) -> Nanos {
    message.get(5..11).map_or(Nanos(0), |time| {
        Nanos(time.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    })
}

/// A capture as a source of datagrams, read as fast as possible.
#[derive(Debug)]
pub struct CaptureReplay {
    file: CaptureFile,
    counts: ReceiveCounts,
    is_over: bool,
}

impl CaptureReplay {
    /// Creates a source from a capture.
    #[must_use]
    pub fn new(file: CaptureFile) -> CaptureReplay {
        CaptureReplay { file, counts: ReceiveCounts::default(), is_over: false }
    }
}

impl Datagrams for CaptureReplay {
    fn receive(&mut self, take: &mut dyn FnMut(&Datagram<'_>)) -> io::Result<usize> {
        let mut received = 0;
        while received == 0 && !self.is_over {
            let counts = &mut self.counts;
            let more = self.file.next(&mut |item| {
                if let Item::Datagram(datagram) = item {
                    counts.datagrams += 1;
                    counts.bytes += datagram.payload.len() as u64;
                    received += 1;
                    take(datagram);
                }
            });
            self.is_over = !more.map_err(io::Error::other)?;
        }
        Ok(received)
    }

    fn counts(&self) -> ReceiveCounts {
        self.counts
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
