//! The packed form of a stream: a real market's day in a few hundred kilobytes.
//!
//! Never trusts its input: every length is bounded, the checksum is verified first, and a stream
//! with inconsistent events (an order that leaves without having entered) is refused.
//! `docs/real-flow.md` specifies the layout byte by byte; a change of it takes a new version.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::model::FlowItem;
use super::packed_items::{ItemReader, ItemWriter};

const MAGIC: &[u8; 8] = b"WEIRFLOW";
const VERSION: u8 = 1;
const CRC_LEN: usize = 4;

/// The most bytes that the items may unpack to.
pub const BODY_LEN_MAX: usize = 64 << 20;

/// The most items of a stream.
pub const ITEM_COUNT_MAX: u32 = 8_000_000;

/// The origin of a stream's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TimeBase {
    /// 1970-01-01T00:00Z.
    UnixEpoch = 0,
    /// Midnight of the trading day, at the exchange.
    Midnight = 1,
}

/// The description of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowHeader {
    /// The origin of the data, as text; at most 65,535 bytes.
    pub source: String,
    /// The instrument, as the source names it; at most 255 bytes.
    pub instrument: String,
    /// The decimal exponent of prices.
    pub price_exponent: i8,
    /// The decimal exponent of quantities.
    pub qty_exponent: i8,
    /// The origin of its times.
    pub time_base: TimeBase,
}

/// A stream with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFlow {
    /// The stream's description.
    pub header: FlowHeader,
    /// Events and rows.
    pub items: Vec<FlowItem>,
}

/// The reason why bytes are not a packed stream.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The file lacks the magic.
    #[error("not a packed order flow: it does not begin with WEIRFLOW")]
    NotAFlow,
    /// A version that this program does not know.
    #[error("version {0} of the packed form is not known here")]
    Version(u8),
    /// The file ends early.
    #[error("the file ends within its {0}")]
    Truncated(&'static str),
    /// The checksum over the file is wrong.
    #[error("the checksum is {found:#010x}, the file says {expected:#010x}")]
    Checksum {
        /// The checksum of the bytes.
        found: u32,
        /// The checksum in the file.
        expected: u32,
    },
    /// A field of the header is invalid.
    #[error("header: {0}")]
    Header(&'static str),
    /// The items cannot be unpacked.
    #[error("the compressed items are damaged or longer than the header says")]
    Inflate,
    /// An item is invalid in its context.
    #[error("item {index}, byte {offset}: {why}")]
    Item {
        /// Its number, from 0.
        index: u32,
        /// Its offset in the unpacked items.
        offset: usize,
        /// The cause.
        why: &'static str,
    },
}

/// The reason why a stream cannot be packed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// An item is invalid in its context.
    #[error("item {index}: {why}")]
    Item {
        /// Its number, from 0.
        index: usize,
        /// The cause.
        why: &'static str,
    },
    /// A part is longer than the packed form can hold.
    #[error("{0} too long for the packed form")]
    TooLong(&'static str),
}

/// Packs a stream.
///
/// # Errors
/// An event names an order that is not live, times decrease, or a part is too long.
pub fn encode(header: &FlowHeader, items: &[FlowItem]) -> Result<Vec<u8>, PackError> {
    let count = u32::try_from(items.len()).ok().filter(|count| *count <= ITEM_COUNT_MAX);
    let count = count.ok_or(PackError::TooLong("stream"))?;
    let mut writer = ItemWriter::new(ItemWriter::time_unit(items));
    for (index, item) in items.iter().enumerate() {
        writer.push(item).map_err(|why| PackError::Item { index, why })?;
    }
    let unit = writer.time_unit_ns();
    let body = writer.into_body();
    let body_len = u32::try_from(body.len()).ok().filter(|len| *len as usize <= BODY_LEN_MAX);
    let mut out = Vec::with_capacity(body.len() / 2 + 256);
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(header.time_base as u8);
    out.extend(header.price_exponent.to_le_bytes());
    out.extend(header.qty_exponent.to_le_bytes());
    out.extend(unit.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(body_len.ok_or(PackError::TooLong("stream"))?.to_le_bytes());
    let source = u16::try_from(header.source.len()).map_err(|_| PackError::TooLong("source"))?;
    let instrument =
        u8::try_from(header.instrument.len()).map_err(|_| PackError::TooLong("instrument"))?;
    out.extend(source.to_le_bytes());
    out.push(instrument);
    out.extend_from_slice(header.source.as_bytes());
    out.extend_from_slice(header.instrument.as_bytes());
    let mut deflate = DeflateEncoder::new(out, Compression::best());
    deflate.write_all(&body).expect("a vector takes all bytes");
    let mut out = deflate.finish().expect("a vector takes all bytes");
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    Ok(out)
}

/// Unpacks a whole stream.
///
/// # Errors
/// The bytes are not a stream of this form, or not a whole and consistent one.
pub fn decode(bytes: &[u8]) -> Result<PackedFlow, UnpackError> {
    if !bytes.starts_with(MAGIC) {
        return Err(UnpackError::NotAFlow);
    }
    let split = bytes.len().checked_sub(CRC_LEN).filter(|at| *at > MAGIC.len());
    let (content, crc) = bytes.split_at(split.ok_or(UnpackError::Truncated("header"))?);
    if content[MAGIC.len()] != VERSION {
        return Err(UnpackError::Version(content[MAGIC.len()]));
    }
    let expected = u32::from_le_bytes(crc.try_into().expect("four bytes were split off"));
    let found = crc32c::crc32c(content);
    if found != expected {
        return Err(UnpackError::Checksum { found, expected });
    }
    unpack(&content[MAGIC.len() + 1..])
}

/// Unpacks the bytes between the version and the checksum, so that a fuzzer reaches them without
/// guessing a checksum.
///
/// # Errors
/// As [`decode`].
pub fn unpack(content: &[u8]) -> Result<PackedFlow, UnpackError> {
    let mut fields = Fields { rest: content };
    let [base, price_exponent, qty_exponent] = fields.array("header")?;
    let unit_ns = u32::from_le_bytes(fields.array("header")?);
    let count = u32::from_le_bytes(fields.array("header")?);
    let body_len = u32::from_le_bytes(fields.array("header")?) as usize;
    let source_len = u16::from_le_bytes(fields.array("header")?);
    let [instrument_len] = fields.array("header")?;
    let source = fields.text(usize::from(source_len), "source")?;
    let instrument = fields.text(usize::from(instrument_len), "instrument")?;
    let time_base = match base {
        0 => TimeBase::UnixEpoch,
        1 => TimeBase::Midnight,
        _ => return Err(UnpackError::Header("unknown time base")),
    };
    if unit_ns == 0 || count > ITEM_COUNT_MAX || body_len > BODY_LEN_MAX {
        return Err(UnpackError::Header("a time unit, a count or a length out of range"));
    }
    let mut body = Vec::new();
    let mut inflate = DeflateDecoder::new(fields.rest).take(body_len as u64 + 1);
    inflate.read_to_end(&mut body).map_err(|_| UnpackError::Inflate)?;
    if body.len() != body_len {
        return Err(UnpackError::Inflate);
    }
    let mut reader = ItemReader::new(&body, unit_ns);
    let mut items = Vec::new();
    for index in 0..count {
        let offset = reader.offset();
        items.push(reader.item().map_err(|why| UnpackError::Item { index, offset, why })?);
    }
    if reader.offset() != body.len() {
        return Err(UnpackError::Header("fewer items than bytes"));
    }
    let (price_exponent, qty_exponent) = (price_exponent as i8, qty_exponent as i8);
    let header = FlowHeader { source, instrument, price_exponent, qty_exponent, time_base };
    Ok(PackedFlow { header, items })
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], UnpackError> {
        let (head, rest) =
            self.rest.split_first_chunk::<N>().ok_or(UnpackError::Truncated(what))?;
        self.rest = rest;
        Ok(*head)
    }

    fn text(&mut self, len: usize, what: &'static str) -> Result<String, UnpackError> {
        if len > self.rest.len() {
            return Err(UnpackError::Truncated(what));
        }
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        let text = std::str::from_utf8(text).map_err(|_| UnpackError::Header("not UTF-8"))?;
        Ok(text.to_owned())
    }
}
