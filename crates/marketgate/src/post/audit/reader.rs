//! Reads an audit file back: the same datagrams, lines and times, and the gaps.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use weir_feed::capture::audit::{
    AuditDatagram, AuditDecoder, AuditGap, AuditNext, DecodedAudit, LineNo, LineTotals,
};

use super::super::super::capture::FileError;
use super::super::super::capture::pieces::{PIECE_LEN, Pieces};

/// The next item of an audit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditItem<'a> {
    /// The name of the next line.
    Line(&'a str),
    /// A datagram.
    Datagram(AuditDatagram<'a>),
    /// Missing datagrams of a line.
    Gap(AuditGap),
    /// The totals of a line, from the regular end of the file.
    End(LineNo, LineTotals),
}

/// An audit file open for reading.
pub struct AuditFile {
    pieces: Pieces,
    decoder: AuditDecoder,
    /// The number of lines named, and the number of lines with totals.
    lines: usize,
    ends: usize,
    is_audit: bool,
    is_over: bool,
}

impl std::fmt::Debug for AuditFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditFile").field("offset", &self.decoder.offset()).finish_non_exhaustive()
    }
}

impl AuditFile {
    /// Opens a file.
    ///
    /// # Errors
    /// An I/O error of the operating system.
    pub fn open(path: &Path) -> Result<AuditFile, FileError> {
        let error = |error| FileError::Io { offset: 0, error };
        let file = BufReader::with_capacity(PIECE_LEN, File::open(path).map_err(error)?);
        let pieces = Pieces::new(Box::new(file)).map_err(error)?;
        Ok(AuditFile {
            pieces,
            decoder: AuditDecoder::new(),
            lines: 0,
            ends: 0,
            is_audit: false,
            is_over: false,
        })
    }

    /// Passes the next item to `take`; returns false at the end of the file.
    ///
    /// # Errors
    /// [`FileError`]: nothing more can be read. All items before it were passed on.
    pub fn next(&mut self, take: &mut dyn FnMut(&AuditItem<'_>)) -> Result<bool, FileError> {
        loop {
            let (bytes, is_last) = self.pieces.at_hand();
            let needed = match self.decoder.next(bytes, is_last)? {
                AuditNext::End => {
                    self.is_over = true;
                    return Ok(false);
                }
                AuditNext::More { len } => len,
                AuditNext::Decoded { used, step } => {
                    // The decoder yields no step before the section of an audit.
                    self.is_audit = true;
                    let item = match step {
                        DecodedAudit::Line(name) => {
                            self.lines += 1;
                            Some(AuditItem::Line(name))
                        }
                        DecodedAudit::Datagram(datagram) => Some(AuditItem::Datagram(datagram)),
                        DecodedAudit::Gap(gap) => Some(AuditItem::Gap(gap)),
                        DecodedAudit::End(line, totals) => {
                            self.ends += 1;
                            Some(AuditItem::End(line, totals))
                        }
                        DecodedAudit::Other => None,
                    };
                    if let Some(item) = &item {
                        take(item);
                    }
                    let is_item = item.is_some();
                    self.pieces.used(used);
                    if is_item {
                        return Ok(true);
                    }
                    1
                }
            };
            if needed > self.pieces.len() {
                let offset = self.decoder.offset() + self.pieces.len() as u64;
                self.pieces.fill(needed).map_err(|error| FileError::Io { offset, error })?;
            }
        }
    }

    /// Returns true once the beginning of the file was read and is that of an audit.
    #[must_use]
    pub fn is_audit(&self) -> bool {
        self.is_audit
    }

    /// Returns true when the file was read to its regular end. Otherwise it was truncated, even at
    /// a block boundary, or is still being written.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.is_over && self.lines > 0 && self.ends == self.lines
    }
}
