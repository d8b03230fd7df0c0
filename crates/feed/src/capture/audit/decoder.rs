//! The reader of audit captures: lines, datagrams with both times, gaps, the end.

use weir_types::Nanos;

use super::super::{CaptureError, Decoded, Decoder, datagram};
use super::*;

/// The next element of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedAudit<'a> {
    /// The name of the next line.
    Line(&'a str),
    /// A datagram.
    Datagram(AuditDatagram<'a>),
    /// A run of missing datagrams.
    Gap(AuditGap),
    /// The totals of one line at the file's end.
    End(LineNo, LineTotals),
    /// A block that an audit reader ignores.
    Other,
}

/// A reader of one audit.
#[derive(Clone, Debug, Default)]
pub struct AuditDecoder {
    decoder: Decoder,
    /// Datagrams missing so far, by line.
    missing: Vec<u64>,
    is_audit: bool,
}

impl AuditDecoder {
    /// Creates a reader at the beginning of a file.
    #[must_use]
    pub fn new() -> AuditDecoder {
        AuditDecoder::default()
    }

    /// Returns the number of bytes of the file consumed so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Decodes the next element from `bytes`, which begin after all bytes consumed so far.
    /// `is_last` states that the file has no more bytes than these.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing after this offset can be read, or the file is no audit.
    pub fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        is_last: bool,
    ) -> Result<AuditNext<'a>, CaptureError> {
        let offset = self.decoder.offset();
        let (used, frame) = match self.decoder.next(bytes, is_last)? {
            Decoded::Frame { used, frame } => (used, Some(frame)),
            Decoded::Other { used } => (used, None),
            Decoded::More { len } => return Ok(AuditNext::More { len }),
            Decoded::End => return Ok(AuditNext::End),
        };
        let damaged = |what| CaptureError::Damaged { offset, what };
        let block = Block { bytes: &bytes[..used] };
        let step = match (frame, block.kind()) {
            (_, Some(SECTION_HEADER)) => self.section(&block).map_err(damaged)?,
            _ if !self.is_audit => return Err(damaged("the capture is no audit of Weir's")),
            (Some(frame), Some(PACKET)) => {
                let found = datagram(&frame).map_err(|_| damaged("a frame without a datagram"))?;
                DecodedAudit::Datagram(block.packet(found).map_err(damaged)?)
            }
            (_, Some(INTERFACE)) => {
                self.missing.push(0);
                let name = block.option(16, IF_NAME).unwrap_or_default();
                let name = str::from_utf8(name).map_err(|_| damaged("a line's name"))?;
                DecodedAudit::Line(name)
            }
            (_, Some(STATISTICS)) => self.statistics(&block).map_err(damaged)?,
            _ => DecodedAudit::Other,
        };
        Ok(AuditNext::Decoded { used, step })
    }

    fn section(&mut self, block: &Block<'_>) -> Result<DecodedAudit<'static>, &'static str> {
        self.is_audit = block.option(24, SHB_USERAPPL) == Some(APPLICATION.as_bytes());
        self.missing.clear();
        if !self.is_audit {
            return Err("the capture is no audit of Weir's");
        }
        Ok(DecodedAudit::Other)
    }

    fn statistics(&mut self, block: &Block<'_>) -> Result<DecodedAudit<'static>, &'static str> {
        let line = block.line()?;
        let missing = (self.missing.get_mut(usize::from(line.0)))
            .ok_or("statistics of a line that has no name")?;
        let said = block.number(20, ISB_IFDROP).ok_or("statistics without a count")?;
        match block.option(20, OPT_COMMENT) {
            Some(comment) if comment == GAP.as_bytes() => {
                let datagrams = said.checked_sub(*missing).ok_or("a count that goes back")?;
                *missing = said;
                let time = |code| block.time(20, code).ok_or("a gap without its times");
                let (from, to) = (time(ISB_STARTTIME)?, time(ISB_ENDTIME)?);
                Ok(DecodedAudit::Gap(AuditGap { line, datagrams, from, to }))
            }
            Some(comment) if comment == END.as_bytes() => {
                let written = block.number(20, ISB_USRDELIV).ok_or("an end without a count")?;
                Ok(DecodedAudit::End(line, LineTotals { written, missing: said }))
            }
            _ => Ok(DecodedAudit::Other),
        }
    }
}

/// The result of decoding the next bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditNext<'a> {
    /// The bytes begin with a whole element.
    Decoded {
        /// The bytes it consumed.
        used: usize,
        /// The element.
        step: DecodedAudit<'a>,
    },
    /// At least `len` bytes are needed to continue.
    More {
        /// Counted from the first byte of `bytes`.
        len: usize,
    },
    /// The file ends here.
    End,
}

/// A block, little-endian, that the capture decoder accepted.
struct Block<'a> {
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    fn word(&self, at: usize) -> Option<u32> {
        let word = self.bytes.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*word))
    }

    fn kind(&self) -> Option<u32> {
        self.word(0)
    }

    fn line(&self) -> Result<LineNo, &'static str> {
        let line = self.word(8).and_then(|line| u16::try_from(line).ok());
        line.map(LineNo).ok_or("a line's number that cannot be")
    }

    /// Returns the first option with this code in a block whose options begin at `at`.
    fn option(&self, at: usize, code: u16) -> Option<&'a [u8]> {
        let end = self.bytes.len().checked_sub(4)?;
        let mut rest = self.bytes.get(at..end)?;
        while let Some((head, tail)) = rest.split_first_chunk::<4>() {
            let said = u16::from_le_bytes([head[0], head[1]]);
            let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
            let value = tail.get(..len)?;
            if said == code {
                return Some(value);
            }
            if said == 0 {
                return None;
            }
            rest = tail.get(len.next_multiple_of(4)..)?;
        }
        None
    }

    fn number(&self, at: usize, code: u16) -> Option<u64> {
        Some(u64::from_le_bytes(*self.option(at, code)?.first_chunk()?))
    }

    /// Reads a time, whose upper half comes first.
    fn time(&self, at: usize, code: u16) -> Option<Nanos> {
        Some(Nanos(self.number(at, code)?.rotate_left(32)))
    }

    fn packet(&self, datagram: Datagram<'a>) -> Result<AuditDatagram<'a>, &'static str> {
        let captured = self.word(20).ok_or("a packet without its length")? as usize;
        let comment = self.option(28 + captured.next_multiple_of(4), OPT_COMMENT);
        let polled = comment.and_then(|comment| polled(comment, datagram.ts_recv));
        let polled = polled.ok_or("a packet that does not say when it was polled")?;
        Ok(AuditDatagram { line: self.line()?, polled, datagram })
    }
}

fn polled(comment: &[u8], came: Nanos) -> Option<Nanos> {
    let text = str::from_utf8(comment).ok()?.strip_prefix(POLLED)?.strip_suffix(" ns")?;
    let later: i128 = text.parse().ok()?;
    u64::try_from(i128::from(came.0).checked_add(later)?).ok().map(Nanos)
}
