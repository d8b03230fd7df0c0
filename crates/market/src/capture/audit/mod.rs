//! Audit captures: each datagram that came, on which line, when by the kernel's clock and when it
//! was polled, and what is missing.
//!
//! Format: pcapng 1.0 (draft-ietf-opsawg-pcapng), little-endian, one section, so that every tool
//! for captures reads it; field by field in `docs/protocols/audit.md`. A line is an interface, a
//! datagram an enhanced packet whose comment says when it was polled; a gap and the end of a file
//! are interface statistics. Here it is written and read over bytes; files are the caller's.
//!
//! Ports and addresses come back, flow labels and scopes of IPv6 do not.

mod decoder;
mod writer;

pub use decoder::{AuditDecoder, AuditNext, AuditStep};
pub use writer::{put_audit_datagram, put_audit_end, put_audit_gap, put_audit_head};

use weir_types::Nanos;

use super::Datagram;

/// The number of a line in an audit, from 0 in the order in which the lines were named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineNo(pub u16);

/// A datagram with what is known of its coming. Its `ts_recv` is the kernel's time, or that of
/// whoever received it where the kernel does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditDatagram<'a> {
    /// The line it came on.
    pub line: LineNo,
    /// When it was polled, since the Unix epoch.
    pub polled: Nanos,
    /// It.
    pub datagram: Datagram<'a>,
}

/// Datagrams of a line that came and are not in the audit. They came one after the other, with
/// none of their line between that is there; between those of other lines their place is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditGap {
    /// The line.
    pub line: LineNo,
    /// How many.
    pub datagrams: u64,
    /// The first one's time by the kernel.
    pub from: Nanos,
    /// The last one's time by the kernel.
    pub to: Nanos,
}

impl AuditGap {
    /// Adds a later one of the same line.
    pub fn add(&mut self, later: &AuditGap) {
        if self.datagrams == 0 {
            *self = *later;
            return;
        }
        self.datagrams = self.datagrams.saturating_add(later.datagrams);
        self.to = later.to;
    }
}

/// What a line has in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTotals {
    /// Datagrams.
    pub written: u64,
    /// Datagrams missing.
    pub missing: u64,
}

/// What a section of an audit says of who wrote it.
const APPLICATION: &str = "weir audit 1";
const POLLED: &str = "polled ";
const GAP: &str = "gap";
const END: &str = "end";

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFDROP: u16 = 5;
const ISB_USRDELIV: u16 = 8;

#[cfg(test)]
mod tests;
