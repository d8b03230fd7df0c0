//! The capture file: every stamp of a run, raw, with the clock data needed to date it.
//!
//! All numbers are little-endian. The file begins with a header of 32 bytes: `WEIRCAP1`, version
//! u32 (1), zero u32, counter ticks per second u64, start in ns since the Unix epoch u64. Frames
//! follow: kind u32, ring u32, payload bytes u32, zero u32, then the payload:
//!
//! | kind | payload |
//! | --- | --- |
//! | 1 ring | the name of that ring, UTF-8; comes before its records |
//! | 2 records | 16 bytes each: `trace id << 8 \| code` u64, counter u64 |
//! | 3 anchor | counter, unix ns, counter, monotonic ns, error in ticks, each u64; ring is 0 |
//! | 4 loss | u64: records the ring has dropped since it was made |
//!
//! A file that ends inside a frame was cut off by a crash; all frames before it are good. Frames of
//! other kinds are skipped by their length. No bytes make the decoder panic.

use std::io::{self, Write};

use thiserror::Error;

use crate::clock::{Anchor, Calibration, Tsc};
use crate::ring::Record;

const MAGIC: [u8; 8] = *b"WEIRCAP1";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 16;
const RECORD_BYTES: usize = 16;
const ANCHOR_BYTES: usize = 40;
/// The maximum payload of a frame in bytes; a longer one is malformed.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 24;

const KIND_RING: u32 = 1;
const KIND_RECORDS: u32 = 2;
const KIND_ANCHOR: u32 = 3;
const KIND_LOSS: u32 = 4;

/// Writes a capture file.
pub struct CaptureWriter {
    out: Box<dyn Write + Send>,
    pending: Vec<u8>,
}

impl CaptureWriter {
    /// Begins a capture by writing the header. `out` should be buffered.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn begin(
        mut out: Box<dyn Write + Send>,
        calibration: &Calibration,
        start_unix_ns: u64,
    ) -> io::Result<CaptureWriter> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&0_u32.to_le_bytes())?;
        out.write_all(&calibration.hz().to_le_bytes())?;
        out.write_all(&start_unix_ns.to_le_bytes())?;
        Ok(CaptureWriter { out, pending: Vec::new() })
    }

    /// Names a ring.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn ring(&mut self, ring: u32, name: &str) -> io::Result<()> {
        self.frame(KIND_RING, ring, name.as_bytes())
    }

    /// Adds a record to the next frame.
    #[inline]
    pub fn add(&mut self, record: Record) {
        self.pending.extend_from_slice(&record.word.to_le_bytes());
        self.pending.extend_from_slice(&record.tsc.0.to_le_bytes());
    }

    /// Writes the records added since the last call as one frame of this ring.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn end_records(&mut self, ring: u32) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let limit = PAYLOAD_BYTES_MAX as usize / RECORD_BYTES * RECORD_BYTES;
        for payload in pending.chunks(limit) {
            self.frame(KIND_RECORDS, ring, payload)?;
        }
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    /// Writes an anchor.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn anchor(&mut self, anchor: &Anchor) -> io::Result<()> {
        let words =
            [anchor.tsc.0, anchor.unix_ns, anchor.mono_tsc.0, anchor.mono_ns, anchor.error_ticks];
        let mut payload = [0; ANCHOR_BYTES];
        for (bytes, word) in payload.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.frame(KIND_ANCHOR, 0, &payload)
    }

    /// Writes the number of records that the ring has dropped so far.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn loss(&mut self, ring: u32, dropped: u64) -> io::Result<()> {
        self.frame(KIND_LOSS, ring, &dropped.to_le_bytes())
    }

    /// Flushes everything to the operating system.
    ///
    /// # Errors
    ///
    /// Fails when the writer does.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn frame(&mut self, kind: u32, ring: u32, payload: &[u8]) -> io::Result<()> {
        let length =
            u32::try_from(payload.len()).ok().filter(|length| *length <= PAYLOAD_BYTES_MAX);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        for word in [kind, ring, length, 0] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(payload)
    }
}

impl std::fmt::Debug for CaptureWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter").finish_non_exhaustive()
    }
}

/// The reason that bytes are not a capture file, or the place where it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CaptureError {
    /// The file does not begin like a capture.
    #[error("the file is no capture of probes")]
    NotACapture,
    /// The decoder does not know the file's version.
    #[error("captures of version {version} are unknown here")]
    Version {
        /// The file's version.
        version: u32,
    },
    /// The file ends inside a frame.
    #[error("the capture was cut inside the frame at byte {at}")]
    Cut {
        /// The offset of the cut frame.
        at: usize,
    },
    /// A payload is longer than the maximum.
    #[error("the frame at byte {at} says that it holds {bytes} bytes")]
    TooLong {
        /// The offset of the frame.
        at: usize,
        /// The length in the frame's header.
        bytes: u32,
    },
    /// A payload does not match its frame's kind.
    #[error("the frame at byte {at} of kind {kind} is malformed")]
    Malformed {
        /// The offset of the frame.
        at: usize,
        /// The frame's kind.
        kind: u32,
    },
}

/// The header of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureHeader {
    /// Counter ticks per second at the start of the capture.
    pub ticks_per_second: u64,
    /// The start of the capture, ns since the Unix epoch.
    pub start_unix_ns: u64,
}

/// One frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The name of a ring.
    Ring {
        /// The ring's number in this file.
        ring: u32,
        /// Its name, as given by the process.
        name: &'a str,
    },
    /// Stamps of one ring, in the order of taking.
    Records {
        /// The ring's number in this file.
        ring: u32,
        /// The stamps.
        records: Records<'a>,
    },
    /// The counter and the clocks, read together.
    Anchor(Anchor),
    /// The number of records that the ring has dropped since its creation.
    Loss {
        /// The ring's number in this file.
        ring: u32,
        /// The running total.
        dropped: u64,
    },
}

/// The stamps of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    bytes: &'a [u8],
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let (record, rest) = self.bytes.split_first_chunk::<RECORD_BYTES>()?;
        self.bytes = rest;
        Some(Record { word: word_at(record, 0), tsc: Tsc(word_at(record, 1)) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.bytes.len() / RECORD_BYTES;
        (count, Some(count))
    }
}

impl ExactSizeIterator for Records<'_> {}

/// Decodes a capture from its bytes; an iterator that ends after the first error.
#[derive(Clone, Debug)]
pub struct CaptureDecoder<'a> {
    bytes: &'a [u8],
    at: usize,
    header: CaptureHeader,
    failed: bool,
}

impl<'a> CaptureDecoder<'a> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NotACapture`] or [`CaptureError::Version`].
    pub fn new(bytes: &'a [u8]) -> Result<CaptureDecoder<'a>, CaptureError> {
        let header =
            bytes.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(&MAGIC));
        let header = header.ok_or(CaptureError::NotACapture)?;
        let version = half_at(header, 2);
        if version != VERSION {
            return Err(CaptureError::Version { version });
        }
        let header = CaptureHeader {
            ticks_per_second: word_at(header, 2),
            start_unix_ns: word_at(header, 3),
        };
        Ok(CaptureDecoder { bytes, at: HEADER_BYTES, header, failed: false })
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> CaptureHeader {
        self.header
    }

    /// Returns the next frame of a known kind; `None` at the end.
    fn read(&mut self) -> Result<Option<Frame<'a>>, CaptureError> {
        while self.at < self.bytes.len() {
            let at = self.at;
            let rest = &self.bytes[at..];
            let (head, rest) =
                rest.split_first_chunk::<FRAME_BYTES>().ok_or(CaptureError::Cut { at })?;
            let (kind, ring, bytes) = (half_at(head, 0), half_at(head, 1), half_at(head, 2));
            if bytes > PAYLOAD_BYTES_MAX {
                return Err(CaptureError::TooLong { at, bytes });
            }
            let payload = rest.get(..bytes as usize).ok_or(CaptureError::Cut { at })?;
            self.at = at + FRAME_BYTES + payload.len();
            if (KIND_RING..=KIND_LOSS).contains(&kind) {
                let frame = frame_of(kind, ring, payload);
                return frame.map(Some).ok_or(CaptureError::Malformed { at, kind });
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for CaptureDecoder<'a> {
    type Item = Result<Frame<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let frame = self.read();
        self.failed = frame.is_err();
        frame.transpose()
    }
}

fn frame_of(kind: u32, ring: u32, payload: &[u8]) -> Option<Frame<'_>> {
    match kind {
        KIND_RING => std::str::from_utf8(payload).ok().map(|name| Frame::Ring { ring, name }),
        KIND_RECORDS if payload.len().is_multiple_of(RECORD_BYTES) => {
            Some(Frame::Records { ring, records: Records { bytes: payload } })
        }
        KIND_ANCHOR => {
            let payload: &[u8; ANCHOR_BYTES] = payload.try_into().ok()?;
            Some(Frame::Anchor(Anchor {
                tsc: Tsc(word_at(payload, 0)),
                unix_ns: word_at(payload, 1),
                mono_tsc: Tsc(word_at(payload, 2)),
                mono_ns: word_at(payload, 3),
                error_ticks: word_at(payload, 4),
            }))
        }
        KIND_LOSS => {
            let payload: &[u8; 8] = payload.try_into().ok()?;
            Some(Frame::Loss { ring, dropped: u64::from_le_bytes(*payload) })
        }
        _ => None,
    }
}

/// Returns the u64 at a word index; every caller's array contains it.
fn word_at<const N: usize>(bytes: &[u8; N], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[index * 8..][..8]);
    u64::from_le_bytes(word)
}

/// Returns the u32 at an index; every caller's array contains it.
fn half_at<const N: usize>(bytes: &[u8; N], index: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[index * 4..][..4]);
    u32::from_le_bytes(half)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;
    use crate::point::Point;
    use crate::ring::TraceId;

    /// A file in memory that can be read while it is written.
    #[derive(Clone, Default)]
    pub(crate) struct SharedFile(Arc<Mutex<Vec<u8>>>);

    impl SharedFile {
        pub(crate) fn bytes(&self) -> Vec<u8> {
            self.0.lock().expect("no writer panicked").clone()
        }
    }

    impl Write for SharedFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn anchor() -> Anchor {
        Anchor { tsc: Tsc(11), unix_ns: 12, mono_tsc: Tsc(13), mono_ns: 14, error_ticks: 15 }
    }

    fn record(number: u64) -> Record {
        Record::at(TraceId::new(number).expect("small"), Point::T2, Tsc(number + 5))
    }

    fn sample() -> Vec<u8> {
        let file = SharedFile::default();
        let calibration = Calibration::with_rate(2_000_000_000, Tsc(1), 2);
        let mut writer = CaptureWriter::begin(Box::new(file.clone()), &calibration, 77).unwrap();
        writer.ring(3, "gateway-ü").unwrap();
        writer.anchor(&anchor()).unwrap();
        for number in 1..=3 {
            writer.add(record(number));
        }
        writer.end_records(3).unwrap();
        writer.end_records(3).unwrap();
        writer.loss(3, 9).unwrap();
        writer.flush().unwrap();
        file.bytes()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let bytes = sample();
        let mut decoder = CaptureDecoder::new(&bytes).unwrap();
        let header = decoder.header();
        assert_eq!((header.ticks_per_second, header.start_unix_ns), (2_000_000_000, 77));
        assert_eq!(decoder.next(), Some(Ok(Frame::Ring { ring: 3, name: "gateway-ü" })));
        assert_eq!(decoder.next(), Some(Ok(Frame::Anchor(anchor()))));
        let Some(Ok(Frame::Records { ring: 3, records })) = decoder.next() else {
            panic!("the records of ring 3");
        };
        assert_eq!(records.len(), 3);
        assert_eq!(records.collect::<Vec<_>>(), [1, 2, 3].map(record));
        assert_eq!(decoder.next(), Some(Ok(Frame::Loss { ring: 3, dropped: 9 })));
        assert_eq!(decoder.next(), None);
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_frames_and_then_where_it_was_cut() {
        let bytes = sample();
        let whole = CaptureDecoder::new(&bytes).unwrap().count();
        for length in 0..bytes.len() {
            let Ok(decoder) = CaptureDecoder::new(&bytes[..length]) else {
                assert!(length < HEADER_BYTES);
                continue;
            };
            let frames: Vec<_> = decoder.collect();
            let errors = frames.iter().filter(|frame| frame.is_err()).count();
            assert!(errors <= 1 && frames.len() <= whole);
            for error in frames.iter().filter_map(|frame| frame.err()) {
                assert!(matches!(error, CaptureError::Cut { at } if at < length), "{error}");
            }
        }
    }

    #[test]
    fn damage_is_named_with_its_place() {
        let bytes = sample();
        let with = |at: usize, value: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + value.len()].copy_from_slice(value);
            bytes
        };
        let first = |bytes: &[u8]| match CaptureDecoder::new(bytes) {
            Ok(decoder) => decoder.map(|frame| frame.map(|_| ())).find_map(Result::err),
            Err(error) => Some(error),
        };
        assert_eq!(first(&bytes), None);
        assert_eq!(first(&with(0, b"X")), Some(CaptureError::NotACapture));
        assert_eq!(first(&with(8, &[2])), Some(CaptureError::Version { version: 2 }));
        let long = CaptureError::TooLong { at: 32, bytes: u32::MAX };
        assert_eq!(first(&with(40, &[0xFF; 4])), Some(long));
        let kind = KIND_RING;
        assert_eq!(first(&with(48, &[0xFF])), Some(CaptureError::Malformed { at: 32, kind }));
        assert_eq!(
            first(&with(32, &[KIND_LOSS as u8])),
            Some(CaptureError::Malformed { at: 32, kind: KIND_LOSS })
        );
        assert_eq!(first(&with(32, &[99])), None, "an unknown kind is skipped");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_bytes_make_the_decoder_panic(
            damage in prop::collection::vec((0_usize..300, any::<u8>()), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = sample();
            for (at, value) in damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.extend(&noise);
            if let Ok(decoder) = CaptureDecoder::new(&bytes) {
                for frame in decoder {
                    if let Ok(Frame::Records { records, .. }) = frame {
                        prop_assert_eq!(records.len(), records.count());
                    }
                }
            }
        }
    }
}
