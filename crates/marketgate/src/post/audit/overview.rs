//! The contents of an audit: its files and lines, and each line's missing datagrams with their
//! times.
//!
//! It counts datagrams and never parses them.

use std::io;
use std::path::{Path, PathBuf};

use weir_feed::capture::audit::{AuditGap, LineNo};
use weir_types::Nanos;

use super::{AuditFile, AuditItem, is_audit_name};
use crate::capture::FileError;

/// The most gaps kept; further ones are only counted.
const GAPS_MAX: usize = 1 << 16;

/// A line, over all files that name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLine {
    /// Its name.
    pub name: String,
    /// Recorded datagrams.
    pub datagrams: u64,
    /// Missing datagrams.
    pub missing: u64,
    /// Gaps.
    pub gaps: u64,
    /// The arrival time of the first recorded datagram, by the kernel's clock.
    pub first: Option<Nanos>,
    /// The arrival time of the last one.
    pub last: Nanos,
}

/// A gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditHole {
    /// The index of its line in [`AuditOverview::lines`].
    pub line: usize,
    /// The index of its file in [`AuditOverview::files`].
    pub file: usize,
    /// The number of datagrams.
    pub datagrams: u64,
    /// The arrival time of the first one, by the kernel's clock.
    pub from: Nanos,
    /// The arrival time of the last one.
    pub to: Nanos,
}

/// A file of the audit.
#[derive(Debug)]
pub struct OverviewFile {
    /// The file's path.
    pub path: PathBuf,
    /// True if the file was finished regularly; otherwise it was truncated, or is still being
    /// written.
    pub has_end: bool,
    /// The error that ended the reading of it.
    pub error: Option<FileError>,
}

/// The contents of all files of an audit.
#[derive(Debug, Default)]
pub struct AuditOverview {
    /// The files, in the order of reading.
    pub files: Vec<OverviewFile>,
    /// The lines, in order of first mention.
    pub lines: Vec<AuditLine>,
    /// The gaps, in the order of the files: the first 65,536.
    pub gaps: Vec<AuditHole>,
}

impl AuditOverview {
    /// Reads one more file, to its end or as far as possible. A file that is no audit by both its
    /// name and its content is ignored.
    pub fn add(&mut self, path: &Path) {
        let Ok(mut file) = AuditFile::open(path) else { return };
        // The indices of this file's lines.
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

    /// The number of gaps, and of datagrams in them.
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
            self.gaps.push(AuditHole { line: place, file, datagrams, from, to });
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

/// Lists the audit files in a directory, the oldest first.
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
