//! What an audit holds: its files, its lines, and what is missing of each and when.
//!
//! It counts datagrams and never looks into them.

use std::io;
use std::path::{Path, PathBuf};

use weir_market::capture::audit::{AuditGap, LineNo};
use weir_types::Nanos;

use super::{AuditFile, AuditItem, is_audit_name};
use crate::capture::FileError;

/// Gaps that are kept; of more the number alone.
const GAPS_MAX: usize = 1 << 16;

/// A line, in all files in which it is named so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLine {
    /// Its name.
    pub name: String,
    /// Datagrams that are there.
    pub datagrams: u64,
    /// Datagrams that are missing.
    pub missing: u64,
    /// Gaps.
    pub gaps: u64,
    /// When the first datagram came that is there, by the kernel's clock.
    pub first: Option<Nanos>,
    /// When the last one came.
    pub last: Nanos,
}

/// What is missing at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The place of its line in [`AuditOverview::lines`].
    pub line: usize,
    /// The place of its file in [`AuditOverview::files`].
    pub file: usize,
    /// Datagrams.
    pub datagrams: u64,
    /// When the first of them came, by the kernel's clock.
    pub from: Nanos,
    /// When the last of them came.
    pub to: Nanos,
}

/// A file.
#[derive(Debug)]
pub struct OverviewFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it was ended in order; else it was cut off, or is still written.
    pub has_end: bool,
    /// Why no more of it is read.
    pub error: Option<FileError>,
}

/// What the files of an audit hold together.
#[derive(Debug, Default)]
pub struct AuditOverview {
    /// Files, in the order in which they were read.
    pub files: Vec<OverviewFile>,
    /// Lines, in the order in which they were named first.
    pub lines: Vec<AuditLine>,
    /// What is missing, in the order of the files: the first 65,536 places.
    pub gaps: Vec<Missing>,
}

impl AuditOverview {
    /// Reads one more file, to its end or as far as it can be read. What is no audit, by its name
    /// and by what is in it, is passed over.
    pub fn add(&mut self, path: &Path) {
        let Ok(mut file) = AuditFile::open(path) else { return };
        // The places of this file's lines.
        let mut places = Vec::new();
        let error = loop {
            match file.next(&mut |item| self.note(&mut places, item)) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        let name = path.file_name().and_then(|name| name.to_str());
        if file.is_audit() || name.is_some_and(is_audit_name) {
            let has_end = file.has_end();
            self.files.push(OverviewFile { path: path.to_owned(), has_end, error });
        }
    }

    /// Gaps, and the datagrams in them.
    #[must_use]
    pub fn missing(&self) -> (u64, u64) {
        let sum = |sum: (u64, u64), line: &AuditLine| {
            (sum.0.saturating_add(line.gaps), sum.1.saturating_add(line.missing))
        };
        self.lines.iter().fold((0, 0), sum)
    }

    fn note(&mut self, places: &mut Vec<usize>, item: &AuditItem<'_>) {
        let of = |line: LineNo| places.get(usize::from(line.0)).copied();
        match item {
            AuditItem::Line(name) => places.push(self.place_of(name)),
            AuditItem::Datagram(it) => {
                let Some(line) = of(it.line).map(|place| &mut self.lines[place]) else { return };
                line.datagrams += 1;
                line.first.get_or_insert(it.datagram.ts_recv);
                line.last = it.datagram.ts_recv;
            }
            AuditItem::Gap(gap) => {
                if let Some(place) = of(gap.line) {
                    self.note_gap(place, gap);
                }
            }
            AuditItem::End(..) => {}
        }
    }

    fn note_gap(&mut self, place: usize, gap: &AuditGap) {
        let line = &mut self.lines[place];
        line.gaps += 1;
        line.missing = line.missing.saturating_add(gap.datagrams);
        if self.gaps.len() < GAPS_MAX {
            let &AuditGap { datagrams, from, to, .. } = gap;
            let file = self.files.len();
            self.gaps.push(Missing { line: place, file, datagrams, from, to });
        }
    }

    fn place_of(&mut self, name: &str) -> usize {
        let known = self.lines.iter().position(|line| line.name == name);
        known.unwrap_or_else(|| {
            self.lines.push(AuditLine { name: name.to_owned(), ..AuditLine::default() });
            self.lines.len() - 1
        })
    }
}

/// The files of the audit in a directory, the oldest first.
///
/// # Errors
/// An I/O error of the operating system.
pub fn audit_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_audit_name) {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}
