//! The audit: records every received datagram bit for bit, with its line and times.
//!
//! [`audit_queue`] passes datagrams on without blocking, [`AuditWriter`] writes them, [`AuditFile`]
//! reads them back, [`AuditOverview`] lists recorded and missing datagrams. The format is that of
//! [`weir_feed::capture::audit`], compressed in blocks by Zstandard.

mod files;
mod overview;
mod queue;
mod reader;
mod writer;

pub use files::{file_name, is_audit_name};
pub use overview::{AuditHole, AuditLine, AuditOverview, OverviewFile, audit_files};
pub use queue::{AuditReceiver, AuditRecord, AuditSender, QueueFigures, SendOutcome, audit_queue};
pub use reader::{AuditFile, AuditItem};
pub use writer::{AuditFigures, AuditWriter};

#[cfg(test)]
mod tests;
