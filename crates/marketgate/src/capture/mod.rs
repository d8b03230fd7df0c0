//! Captures and day files on disk: opens, decompresses and reads them in pieces; writes captures.

mod dbn;
mod file;
mod pace;
pub(crate) mod pieces;
mod writer;

pub use file::{CaptureFile, CaptureReplay, FileCounts, FileError, FileKind, Item};
pub use pace::{Pace, Speed};
pub use writer::CaptureWriter;

#[cfg(test)]
mod tests;
