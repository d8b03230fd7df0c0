//! Captures and day files on disk: opened, decompressed, read in pieces; and captures written.

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
