//! The files of an audit in their directory: names, sizes and order of age.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use weir_types::Nanos;

use super::super::moment::{MOMENT_LEN, moment, moment_of};
use super::super::storage::Storage;

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".pcapng.zst";

/// Returns the name of a file begun at this time: `audit-20261122T224108.000000001Z.pcapng.zst`.
/// Names sort by time.
#[must_use]
pub fn file_name(began: Nanos) -> String {
    format!("{PREFIX}{}{SUFFIX}", moment(began))
}

fn middle(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

/// Returns true for the name of an audit file.
#[must_use]
pub fn is_audit_name(name: &str) -> bool {
    middle(name).is_some_and(|moment| {
        moment.len() == MOMENT_LEN
            && moment.bytes().all(|sign| sign.is_ascii_digit() || b"T.Z".contains(&sign))
    })
}

/// The closed files, the oldest first.
#[derive(Debug)]
pub(super) struct KeptFiles {
    dir: PathBuf,
    files: VecDeque<(String, u64)>,
    bytes: u64,
}

impl KeptFiles {
    /// Lists a directory, which is created if missing.
    pub(super) fn of(dir: &Path, storage: &mut dyn Storage) -> io::Result<KeptFiles> {
        let mut files: Vec<_> =
            storage.list(dir)?.into_iter().filter(|(name, _)| is_audit_name(name)).collect();
        files.sort_unstable();
        let bytes = files.iter().map(|(_, len)| len).sum();
        Ok(KeptFiles { dir: dir.to_owned(), files: files.into(), bytes })
    }

    /// The total size of all files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The time in the name of the newest file; zero if there is none.
    pub(super) fn newest(&self) -> Nanos {
        let newest = self.files.iter().rev().find_map(|(name, _)| moment_of(middle(name)?));
        newest.unwrap_or_default()
    }

    /// Adds the newest file.
    pub(super) fn add(&mut self, name: String, len: u64) {
        self.files.push_back((name, len));
        self.bytes += len;
    }

    /// Removes the oldest file, or only its entry if the file no longer exists; returns false if
    /// there is none.
    pub(super) fn remove_oldest(&mut self, storage: &mut dyn Storage) -> io::Result<bool> {
        let Some((name, len)) = self.files.front() else { return Ok(false) };
        match storage.remove(&self.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.bytes -= len;
        self.files.pop_front();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when_a_file_began_and_sort_by_it() {
        let moments = [0, 1, 999_999_999, 1_000_000_000, 1_790_000_000_000_000_001, u64::MAX];
        let names = moments.map(|moment| file_name(Nanos(moment)));
        assert_eq!(names[1], "audit-19700101T000000.000000001Z.pcapng.zst");
        assert_eq!(names[4], "audit-20260921T141320.000000001Z.pcapng.zst");
        assert!(names.is_sorted() && names.iter().all(|name| is_audit_name(name)), "{names:?}");
        for other in ["audit-.pcapng.zst", "a.pcapng.zst", "audit-20260921T141320.pcapng.zst", "x"]
        {
            assert!(!is_audit_name(other), "{other}");
        }
    }
}
