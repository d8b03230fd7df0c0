//! The commands and configurations of README and the pages below `docs`, run word for word.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

mod capture;
mod configurations;
mod documents;
mod pages;
mod shell;

use std::path::{Path, PathBuf};

use shell::{blocks, commands_of, is_in_background};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands in the `sh` blocks of the section "By hand".
fn by_hand(page: &str) -> Vec<String> {
    let (_, text) = page.split_once("\n## By hand\n").unwrap_or_default();
    let text = text.split_once("\n## ").map_or(text, |(text, _)| text);
    blocks(text, "sh").into_iter().flat_map(commands_of).collect()
}

#[test]
fn commands_of_the_readme_work_as_printed() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let commands = by_hand(&page);
    assert!(commands.len() > 20, "the section has its commands: {commands:?}");
    assert!(page.contains("`WEIR_PORT_BASE`"), "the page says how the test moves ports");
    let empty = tempfile::tempdir().unwrap();
    shell::run(&commands, empty.path(), shell::port_base(0));
}

#[test]
fn commands_are_taken_from_the_blocks_of_the_section_alone() {
    let page = "# A\n\n```sh\nno\n```\n\n## By hand\n\n\
                ```sh\none &   # a\n# two\ntwo \\\n  2\n```\n\
                ```toml\nno\n```\n\n## After\n\n```sh\nno\n```\n";
    let found = by_hand(page);
    assert_eq!(found, ["one &   # a", "two    2"]);
    assert!(is_in_background(&found[0]) && !is_in_background(&found[1]));
}
