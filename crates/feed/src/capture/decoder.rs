//! The decoder of pcap and pcapng files, block by block.
//!
//! Formats: the libpcap file format 2.4 with the magic numbers for microseconds, nanoseconds and
//! the modified form; pcapng 1.0 (draft-ietf-opsawg-pcapng): section headers in either byte order,
//! interface descriptions with `if_tsresol` and `if_tsoffset`, enhanced and simple packets. Other
//! blocks are skipped. `pcap-parser` parses the blocks themselves.

use pcap_parser::nom::IResult;
use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    LegacyPcapBlock, PcapError, PcapHeader, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
};
use weir_types::Nanos;

use super::{BLOCK_LEN_MAX, CaptureError, Frame, LinkType};

const NANOS: u64 = 1_000_000_000;
const PCAP_HEADER_LEN: usize = 24;
/// The type of a section header, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// A section's byte-order magic in a little-endian file.
const LITTLE_ENDIAN_MAGIC: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
const BIG_ENDIAN_MAGIC: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];

/// The next element of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The bytes begin with a whole frame.
    Frame {
        /// The bytes it consumed.
        used: usize,
        /// The frame.
        frame: Frame<'a>,
    },
    /// The bytes begin with a header or block that is no frame.
    Other {
        /// The bytes it consumed.
        used: usize,
    },
    /// At least `len` bytes are needed to continue.
    More {
        /// Counted from the first byte of `bytes`.
        len: usize,
    },
    /// The file ends here, after a whole block.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Time stamp units per second.
    resolution: u64,
    /// Seconds to add to each time stamp.
    offset: i64,
    snap_len: u32,
}

#[derive(Clone, Debug)]
enum Format {
    Unknown,
    Pcap { header: PcapHeader },
    Pcapng { is_big_endian: bool, interfaces: Vec<Interface> },
}

/// A reader of one capture.
#[derive(Clone, Debug)]
pub struct Decoder {
    format: Format,
    /// Bytes of the file consumed so far.
    offset: u64,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Creates a decoder at the beginning of a file.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder { format: Format::Unknown, offset: 0 }
    }

    /// Returns the number of bytes of the file consumed so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Decodes the next element from `bytes`, which begin after all bytes consumed so far.
    /// `is_last` states that the file has no more bytes than these.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing after this offset can be read.
    pub fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        is_last: bool,
    ) -> Result<Decoded<'a>, CaptureError> {
        if bytes.is_empty() && is_last && !matches!(self.format, Format::Unknown) {
            return Ok(Decoded::End);
        }
        let step = match &self.format {
            Format::Unknown => self.begin(bytes),
            Format::Pcap { header } => pcap_frame(header, self.offset, bytes),
            Format::Pcapng { .. } => self.block(bytes),
        }?;
        match step {
            Decoded::More { .. } if is_last => {
                Err(CaptureError::Truncated { offset: self.offset, len: bytes.len() })
            }
            Decoded::Frame { used, .. } | Decoded::Other { used } => {
                self.offset += used as u64;
                Ok(step)
            }
            step => Ok(step),
        }
    }

    fn begin<'a>(&mut self, bytes: &'a [u8]) -> Result<Decoded<'a>, CaptureError> {
        let Some(first) = bytes.first_chunk::<4>() else { return Ok(Decoded::More { len: 4 }) };
        if *first == SECTION_HEADER {
            self.format = Format::Pcapng { is_big_endian: false, interfaces: Vec::new() };
            return self.block(bytes);
        }
        match parse_pcap_header(bytes) {
            Ok((_, header)) => {
                self.format = Format::Pcap { header };
                Ok(Decoded::Other { used: PCAP_HEADER_LEN })
            }
            Err(error) if error.is_incomplete() => Ok(Decoded::More { len: PCAP_HEADER_LEN }),
            Err(_) => Err(CaptureError::NotACapture { first: u32::from_be_bytes(*first) }),
        }
    }

    /// Decodes a block of a pcapng file.
    fn block<'a>(&mut self, bytes: &'a [u8]) -> Result<Decoded<'a>, CaptureError> {
        let offset = self.offset;
        let Format::Pcapng { is_big_endian, interfaces } = &mut self.format else {
            return Ok(Decoded::More { len: 0 });
        };
        let Some(head) = bytes.first_chunk::<12>() else { return Ok(Decoded::More { len: 12 }) };
        if head[..4] == SECTION_HEADER {
            *is_big_endian = match head[8..12] {
                ref magic if *magic == LITTLE_ENDIAN_MAGIC => false,
                ref magic if *magic == BIG_ENDIAN_MAGIC => true,
                _ => return Err(damaged(offset, "a section without its byte order")),
            };
            interfaces.clear();
        }
        let said = [head[4], head[5], head[6], head[7]];
        let said = if *is_big_endian { u32::from_be_bytes(said) } else { u32::from_le_bytes(said) };
        let len = (said as usize).next_multiple_of(4);
        // Lengths of 9 to 11 round up to 12, but are too short as well, and the parser subtracts
        // 12.
        if said < 12 || len > BLOCK_LEN_MAX {
            return Err(CaptureError::Length { offset, len: u64::from(said) });
        }
        let Some(block) = bytes.get(..len) else { return Ok(Decoded::More { len }) };
        let parsed = if *is_big_endian { parse_block_be(block) } else { parse_block_le(block) };
        let block = whole(parsed).ok_or(damaged(offset, "its contents do not fit its length"))?;
        let read = read_block(block, *is_big_endian, interfaces);
        match read.map_err(|what| damaged(offset, what))? {
            Some(frame) => Ok(Decoded::Frame { used: len, frame }),
            None => Ok(Decoded::Other { used: len }),
        }
    }
}

fn damaged(offset: u64, what: &'static str) -> CaptureError {
    CaptureError::Damaged { offset, what }
}

fn whole<'a, T>(parsed: IResult<&'a [u8], T, PcapError<&'a [u8]>>) -> Option<T> {
    parsed.ok().map(|(_, value)| value)
}

fn pcap_frame<'a>(
    header: &PcapHeader,
    offset: u64,
    bytes: &'a [u8],
) -> Result<Decoded<'a>, CaptureError> {
    let head_len = if header.is_modified_format() { 24 } else { 16 };
    let Some(head) = bytes.get(..head_len) else { return Ok(Decoded::More { len: head_len }) };
    let said = [head[8], head[9], head[10], head[11]];
    let is_big_endian = header.is_bigendian();
    let said = if is_big_endian { u32::from_be_bytes(said) } else { u32::from_le_bytes(said) };
    if said as usize > BLOCK_LEN_MAX {
        return Err(CaptureError::Length { offset, len: u64::from(said) });
    }
    let used = head_len + said as usize;
    let Some(record) = bytes.get(..used) else { return Ok(Decoded::More { len: used }) };
    let parsed = match () {
        () if is_big_endian => parse_pcap_frame_be(record),
        () if header.is_modified_format() => parse_pcap_frame_modified(record),
        () => parse_pcap_frame(record),
    };
    let record = whole(parsed).ok_or(damaged(offset, "its contents do not fit its length"))?;
    let LegacyPcapBlock { ts_sec, ts_usec, origlen, data, .. } = record;
    let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    // 2^32 seconds are under 2^63 nanoseconds, and a fraction of 2^32 microseconds under 2^42.
    let ts_recv = Nanos(u64::from(ts_sec) * NANOS + u64::from(ts_usec) * unit);
    // The upper bits of the link type describe the frames' check sequence.
    let link = LinkType(header.network.0 as u32 & 0xffff);
    Ok(Decoded::Frame { used, frame: Frame { ts_recv, link, data, original_len: origlen } })
}

/// Records an interface description; returns the frame of a packet block.
fn read_block<'a>(
    block: Block<'a>,
    is_big_endian: bool,
    interfaces: &mut Vec<Interface>,
) -> Result<Option<Frame<'a>>, &'static str> {
    match block {
        Block::InterfaceDescription(described) => {
            let resolution = resolution(described.if_tsresol);
            // `pcap-parser` reads the offset as little-endian in sections of either byte order.
            let offset = described.if_tsoffset;
            interfaces.push(Interface {
                link: LinkType(described.linktype.0 as u32 & 0xffff),
                resolution: resolution.ok_or("a resolution of time that cannot be")?,
                offset: if is_big_endian { offset.swap_bytes() } else { offset },
                snap_len: described.snaplen,
            });
            Ok(None)
        }
        Block::EnhancedPacket(packet) => {
            let interface = interfaces.get(packet.if_id as usize);
            let interface = interface.ok_or("a packet of an interface that is not described")?;
            if packet.caplen as usize > packet.data.len() {
                return Err("a packet longer than its block");
            }
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let data = &packet.data[..packet.caplen as usize];
            let ts_recv = moment(ticks, interface);
            Ok(Some(Frame { ts_recv, link: interface.link, data, original_len: packet.origlen }))
        }
        Block::SimplePacket(packet) => {
            let interface = interfaces.first();
            let interface = interface.ok_or("a packet before any interface was described")?;
            let snap_len = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
            let len = packet.orig_len().min(snap_len) as usize;
            let data = packet.data.get(..len).ok_or("a packet longer than its block")?;
            let original_len = packet.orig_len();
            Ok(Some(Frame { ts_recv: Nanos(0), link: interface.link, data, original_len }))
        }
        _ => Ok(None),
    }
}

/// Returns the units per second of `if_tsresol`: a power of ten, or of two when its highest bit is
/// set.
fn resolution(code: u8) -> Option<u64> {
    let power = u32::from(code & 0x7f);
    if code & 0x80 == 0 { 10_u64.checked_pow(power) } else { 1_u64.checked_shl(power) }
}

/// Converts a time stamp to time since the Unix epoch, saturating at the limits of 64 bits.
fn moment(ticks: u64, interface: &Interface) -> Nanos {
    let nanos = u128::from(ticks) * u128::from(NANOS) / u128::from(interface.resolution);
    let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
    let nanos = nanos.saturating_add(i128::from(interface.offset) * i128::from(NANOS));
    Nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
