//! Audit capture: every datagram that came, on which line and when, in files that read bit for bit.
//!
//! [`audit_queue`] hands datagrams over without ever waiting, [`AuditWriter`] writes them down,
//! [`AuditFile`] reads them back, [`AuditOverview`] says what there is and what is missing. The
//! form is that of [`weir_feed::capture::audit`], compressed in blocks by Zstandard.

mod files;
mod overview;
mod queue;
mod reader;
mod writer;

pub use files::{file_name, is_audit_name};
pub use overview::{AuditLine, AuditOverview, Missing, OverviewFile, audit_files};
pub use queue::{AuditReceiver, AuditRecord, AuditSender, Handed, QueueFigures, audit_queue};
pub use reader::{AuditFile, AuditItem};
pub use writer::{AuditFigures, AuditWriter};

#[cfg(test)]
mod tests;
