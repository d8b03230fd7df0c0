//! Reads an audit's file back: the same datagrams, lines and times, and what is missing.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use weir_market::capture::audit::{
    AuditDatagram, AuditDecoder, AuditGap, AuditNext, AuditStep, LineNo, LineTotals,
};

use super::super::super::capture::FileError;
use super::super::super::capture::pieces::{PIECE_LEN, Pieces};

/// The next of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditItem<'a> {
    /// The name of the next line.
    Line(&'a str),
    /// A datagram.
    Datagram(AuditDatagram<'a>),
    /// Datagrams of a line that are missing.
    Gap(AuditGap),
    /// The file was ended in order, and has this of a line.
    End(LineNo, LineTotals),
}

/// An audit's file that is read.
pub struct AuditFile {
    pieces: Pieces,
    decoder: AuditDecoder,
    /// Lines that were named, and lines whose end was said.
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

    /// Hands the next item to `take`; false at the end of the file.
    ///
    /// # Errors
    /// [`FileError`]: nothing more can be read. All before it was handed on.
    pub fn next(&mut self, take: &mut dyn FnMut(&AuditItem<'_>)) -> Result<bool, FileError> {
        loop {
            let (bytes, is_last) = self.pieces.at_hand();
            let needed = match self.decoder.next(bytes, is_last)? {
                AuditNext::End => {
                    self.is_over = true;
                    return Ok(false);
                }
                AuditNext::More { len } => len,
                AuditNext::Step { used, step } => {
                    // Before the section of an audit there is none.
                    self.is_audit = true;
                    let item = match step {
                        AuditStep::Line(name) => {
                            self.lines += 1;
                            Some(AuditItem::Line(name))
                        }
                        AuditStep::Datagram(datagram) => Some(AuditItem::Datagram(datagram)),
                        AuditStep::Gap(gap) => Some(AuditItem::Gap(gap)),
                        AuditStep::End(line, totals) => {
                            self.ends += 1;
                            Some(AuditItem::End(line, totals))
                        }
                        AuditStep::Other => None,
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

    /// True as soon as its beginning was read and is an audit's.
    #[must_use]
    pub fn is_audit(&self) -> bool {
        self.is_audit
    }

    /// True when the file was read to its end, and that was in order; otherwise it was cut off,
    /// even where its end reads as if nothing followed, or is still written.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.is_over && self.lines > 0 && self.ends == self.lines
    }
}
