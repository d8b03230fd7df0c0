//! Audit captures: each received datagram with its line, the kernel's receive time and the poll
//! time, and a record of missing datagrams.
//!
//! Format: pcapng 1.0 (draft-ietf-opsawg-pcapng), little-endian, one section, so that every capture
//! tool can read it; field by field in `docs/protocols/audit.md`. A line is an interface. A
//! datagram is an enhanced packet whose comment holds the poll time. Gaps and the end of a file are
//! interface statistics. This module reads and writes bytes; files are the caller's.
//!
//! Ports and addresses are preserved; IPv6 flow labels and scopes are not.

mod decoder;
mod writer;

pub use decoder::{AuditDecoder, AuditNext, DecodedAudit};
pub use writer::{put_audit_datagram, put_audit_end, put_audit_gap, put_audit_head};

use weir_types::Nanos;

use super::Datagram;

/// The number of a line in an audit, from 0 in the order in which lines were named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineNo(pub u16);

/// A datagram with its line and times. Its `ts_recv` is the kernel's time, or the receiver's own
/// where the kernel gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditDatagram<'a> {
    /// The line it arrived on.
    pub line: LineNo,
    /// The poll time, since the Unix epoch.
    pub polled: Nanos,
    /// The datagram.
    pub datagram: Datagram<'a>,
}

/// Datagrams that were received on a line but are missing from the audit. They are consecutive on
/// their line; their order among datagrams of other lines is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditGap {
    /// The line.
    pub line: LineNo,
    /// The number of missing datagrams.
    pub datagrams: u64,
    /// The kernel time of the first one.
    pub from: Nanos,
    /// The kernel time of the last one.
    pub to: Nanos,
}

impl AuditGap {
    /// Merges a later gap of the same line into this one.
    pub fn add(&mut self, later: &AuditGap) {
        if self.datagrams == 0 {
            *self = *later;
            return;
        }
        self.datagrams = self.datagrams.saturating_add(later.datagrams);
        self.to = later.to;
    }
}

/// The totals of a line in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTotals {
    /// Datagrams written.
    pub written: u64,
    /// Datagrams missing.
    pub missing: u64,
}

/// The application name in the section header of an audit.
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
