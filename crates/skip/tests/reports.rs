//! Reports of skipped tests, as `./x test` reads them.
//!
//! The environment of a process is set when it starts, so each check starts this program again
//! for one of the tests at the end.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::path::Path;
use std::process::{Command, Output};

use weir_skip::{DATA, Need, SKIPS_FILE, recorded, skip};

/// Set in the processes that the checks start.
const CHILD: &str = "WEIR_SKIP_TEST_CHILD";

fn run_child(test: &str, skips: &Path, data: Option<&str>) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test]).env(CHILD, "1").env(SKIPS_FILE, skips).env_remove(DATA);
    if let Some(data) = data {
        child.env(DATA, data);
    }
    child.output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn a_skip_is_one_line_on_standard_error_and_one_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let skips = dir.path().join("skips of a test");
    let output = run_child("child_that_skips", &skips, None);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let line = "SKIPPED: reports: child_that_skips: needs FUSE: no /dev/fuse, and no right\n";
    assert_eq!(said, line, "the harness of a passing test does not capture it");
    run_child("child_that_skips", &skips, None);
    let line = "reports\tchild_that_skips\tFUSE\tno /dev/fuse, and no right\n";
    assert_eq!(std::fs::read_to_string(&skips).unwrap(), line.repeat(2));
}

#[test]
fn a_report_that_cannot_be_kept_fails_the_test() {
    let output = run_child("child_that_skips", Path::new("/no/such/folder/skips"), None);
    assert!(!output.status.success());
}

#[test]
fn recorded_data_that_is_not_there_is_a_skip_and_data_that_is_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let skips = dir.path().join("skips");
    for unset in [None, Some("")] {
        let _ = std::fs::remove_file(&skips);
        assert!(run_child("child_that_reads_data", &skips, unset).status.success());
        let line = "reports\tchild_that_reads_data\trecorded data\tWEIR_DATA is not set\n";
        assert_eq!(std::fs::read_to_string(&skips).unwrap(), line);
    }
    std::fs::remove_file(&skips).unwrap();
    assert!(run_child("child_that_reads_data", &skips, Some("/a b")).status.success());
    assert!(!skips.exists());
}

#[test]
fn child_that_skips() {
    if is_child() {
        skip(Need::Fuse, "no /dev/fuse,\n\tand no right\n");
    }
}

#[test]
fn child_that_reads_data() {
    if is_child() {
        let path = recorded("a/day.gz");
        assert_eq!(
            path.as_deref(),
            std::env::var_os(DATA)
                .filter(|data| !data.is_empty())
                .map(|data| Path::new(&data).join("a/day.gz"))
                .as_deref()
        );
    }
}
