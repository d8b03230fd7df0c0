//! `commits`: each commit after a given one has a body, which gives its reason.
//!
//! Merges need none. The check reads version control, so it is no part of `tidy`; where the history
//! is not there (an unpacked archive, a shallow clone), it says so and passes.

use std::io;
use std::path::Path;
use std::process::Command;

/// The file that names the commit from which on the rule is checked.
const SINCE_PATH: &str = "xtask/commits-since.txt";

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// All commits were looked at; these have no body.
    Without(Vec<String>),
    /// The history does not reach back to the first commit to check.
    NoHistory,
}

/// Checks the commits of the clone at `root`.
///
/// # Errors
/// When the file of the first commit cannot be read.
pub fn check(root: &Path) -> io::Result<Checked> {
    let text = std::fs::read_to_string(root.join(SINCE_PATH))?;
    let since = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default().trim();
    let log = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["log", "--no-merges", "--format=%h %s%x00%b%x01"])
        .arg(format!("{since}..HEAD"))
        .output();
    Ok(match log {
        Ok(log) if log.status.success() => {
            Checked::Without(without_body(&String::from_utf8_lossy(&log.stdout)))
        }
        // Without git, or without that commit, there is nothing to check.
        Ok(_) | Err(_) => Checked::NoHistory,
    })
}

/// The commits without a body in a log of `HASH SUBJECT 0 BODY 1` each.
fn without_body(log: &str) -> Vec<String> {
    log.split('\u{1}')
        .filter_map(|commit| commit.split_once('\0'))
        .filter(|(_, body)| body.trim().is_empty())
        .map(|(head, _)| head.trim().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_without_a_body_is_found_with_its_subject() {
        let log = "a1 log: sync once\0The second sync\n\nwas not needed.\n\u{1}\n\
                   b2 log: sync\0\n\u{1}\nc3 door: close\0\u{1}\n";
        assert_eq!(without_body(log), ["b2 log: sync", "c3 door: close"]);
        assert_eq!(without_body(""), [""; 0]);
    }

    #[test]
    fn a_tree_without_that_history_passes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("xtask")).unwrap();
        std::fs::write(dir.path().join(SINCE_PATH), "# A comment.\n0000\n").unwrap();
        assert_eq!(check(dir.path()).unwrap(), Checked::NoHistory);
    }
}
