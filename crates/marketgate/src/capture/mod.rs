//! Captures and day files on disk: opens, decompresses, checks and reads them in pieces; writes
//! captures.

mod check;
mod dbn;
mod file;
mod pace;
pub(crate) mod pieces;
mod writer;

pub use check::{FileCheck, FileProblem, open_for};
pub use file::{CaptureFile, CaptureReplay, FileCounts, FileError, FileKind, Item};
pub use pace::{Pace, Speed};
pub use writer::CaptureWriter;

#[cfg(test)]
mod tests;
