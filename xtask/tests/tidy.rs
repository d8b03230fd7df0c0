//! The whole project is tidy: the checks of `xtask tidy`, run by the ordinary test command.

use std::path::Path;

use xtask::tidy::Ratchet;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let report =
        xtask::tidy::run(&root, Ratchet::Keep).expect("the project's own files can be read");
    assert!(report.source_count > 10, "too few sources seen: {report}");
    assert!(report.findings.is_empty(), "\n{report}\n");
}
