//! Skipped tests: a test that lacks a privilege, a facility of the kernel or recorded data reports
//! it here and returns.
//!
//! The report is one line on standard error and, where [`SKIPS_FILE`] names a file, one line there.
//! `./x test` names that file, counts its lines and lists them in its summary. Standard error is
//! written directly: the test harness captures the print macros and drops the output of a passing
//! test.
//!
//! Only tests depend on this crate. It decides nothing: a test itself finds the missing facility.

use std::ffi::OsStr;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The environment variable with the path of the file that collects reports.
pub const SKIPS_FILE: &str = "WEIR_SKIPS_FILE";

/// The environment variable with the path of the recorded market data.
pub const DATA: &str = "WEIR_DATA";

/// A requirement of a test beyond a file system and a loopback interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `/dev/fuse`, and the right to mount a file system that this process serves.
    Fuse,
    /// The right to mount a `tmpfs`.
    Mount,
    /// A mount namespace of its own, with `/proc` mounted in it.
    MountNamespace,
    /// The right to stop a thread of a child.
    Ptrace,
    /// A kernel, and a sandbox, that allow `io_uring`.
    IoUring,
    /// A processor's counter that is fit as a clock.
    Counter,
    /// The program `curl`.
    Curl,
    /// Recorded market data, which does not ship with the project.
    Data,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Fuse => "FUSE",
            Need::Mount => "the right to mount",
            Need::MountNamespace => "a mount namespace",
            Need::Ptrace => "ptrace",
            Need::IoUring => "io_uring",
            Need::Counter => "a counter fit as a clock",
            Need::Curl => "curl",
            Need::Data => "recorded data",
        })
    }
}

/// Reports that the calling test is skipped, or a part of it, for want of `need`. The caller
/// returns after it.
///
/// # Panics
/// If the report cannot be written to the file that [`SKIPS_FILE`] names: it would be lost.
pub fn skip(need: Need, why: impl fmt::Display) {
    let report = Report { program: program(), test: test(), need, why: one_line(&why.to_string()) };
    // A closed standard error loses nothing: the file counts.
    let _ = std::io::stderr().write_all(report.for_people().as_bytes());
    if let Some(path) = std::env::var_os(SKIPS_FILE) {
        append(Path::new(&path), &report).unwrap_or_else(|error| {
            panic!("{SKIPS_FILE}={}: {error}", path.display());
        });
    }
}

/// Returns the path of a recorded file; reports the calling test as skipped where there are none.
#[must_use]
pub fn recorded(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os(DATA).filter(|root| !root.is_empty());
    if root.is_none() {
        skip(Need::Data, format_args!("{DATA} is not set"));
    }
    root.map(|root| Path::new(&root).join(path))
}

struct Report {
    program: String,
    test: String,
    need: Need,
    why: String,
}

impl Report {
    /// One line, written by one call: lines of the harness never get into the middle of it.
    fn for_people(&self) -> String {
        let Report { program, test, need, why } = self;
        format!("SKIPPED: {program}: {test}: needs {need}: {why}\n")
    }

    /// Fields separated by tabs: program, test, need, reason.
    fn for_the_file(&self) -> String {
        let Report { program, test, need, why } = self;
        format!("{program}\t{test}\t{need}\t{why}\n")
    }
}

/// One write to a file open for appending: reports of many processes never mix.
fn append(path: &Path, report: &Report) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(report.for_the_file().as_bytes())
}

/// The test program's name, without the hash that Cargo appends.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
    let without_hash = name.rsplit_once('-').map(|(name, _)| name);
    without_hash.unwrap_or(&name).to_owned()
}

/// The test's name, which the harness gives to the test's thread.
fn test() -> String {
    std::thread::current().name().unwrap_or("a thread of a test").to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
