//! The ratchet: excesses over the limits of the house that are there already.
//!
//! `xtask/ratchet.txt` holds each as `KIND NAME SIZE`. An entry may shrink or go, never grow: an
//! excess that grew past its entry, a new one, and an entry that no longer tells the truth are all
//! findings. Checks only measure; this file compares.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Finding;
use crate::tree::Tree;

/// The file of the entries.
pub(crate) const RATCHET_PATH: &str = "xtask/ratchet.txt";

const RATCHET_HEADER: &str = "\
# Excesses over the limits of the house: KIND NAME SIZE. Entries may shrink or go, never grow:
# `cargo run -p xtask -- tidy --tighten` lowers them to today's sizes and raises none. After a merge
# of branches `tidy --write-ratchet` writes them anew; read its difference before you commit it.
";

/// Something over a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) size: usize,
    /// The place to point at; the line is 0 for a whole file.
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The excess and its remedy, without the size: `function of more than 70 lines: split it`.
    pub(crate) message: String,
}

/// Excesses by `KIND NAME`.
pub(crate) type Excesses = BTreeMap<String, Excess>;

/// Excesses that are new or have grown, and entries that are out of date.
pub(crate) fn check(tree: &Tree, excesses: &Excesses) -> Vec<Finding> {
    let (allowed, mut findings) = read(tree);
    for (key, Excess { size, path, line, message }) in excesses {
        let found = match allowed.get(key) {
            None => format!("{message} ({key}: {size})"),
            Some(was) if size > was => format!("{message} ({key}: {size}, grew from {was})"),
            Some(was) if size < was => {
                format!("shrank from {was} to {size} ({key}): run tidy --tighten")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(path, *line, found));
    }
    for key in allowed.keys().filter(|key| !excesses.contains_key(*key)) {
        let message = format!("`{key}` is within its limit now or gone: run tidy --tighten");
        findings.push(Finding::new(RATCHET_PATH, 0, message));
    }
    findings
}

/// The ratchet with each entry at today's size; entries that are no longer needed are gone.
pub(crate) fn tightened(tree: &Tree, excesses: &Excesses) -> String {
    let (allowed, _) = read(tree);
    text_of(excesses.iter().filter_map(|(key, excess)| {
        let was = allowed.get(key)?;
        Some((key.as_str(), excess.size.min(*was)))
    }))
}

/// The ratchet with every excess of today, whatever stood there.
pub(crate) fn written(excesses: &Excesses) -> String {
    text_of(excesses.iter().map(|(key, excess)| (key.as_str(), excess.size)))
}

fn text_of<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> String {
    let mut text = RATCHET_HEADER.to_string();
    for (key, size) in entries {
        writeln!(text, "{key} {size}").expect("a string takes any text");
    }
    text
}

fn read(tree: &Tree) -> (BTreeMap<String, usize>, Vec<Finding>) {
    let mut allowed = BTreeMap::new();
    let mut findings = Vec::new();
    let text = tree.text(RATCHET_PATH).unwrap_or("");
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.rsplit_once(' ').and_then(|(key, size)| Some((key, size.parse().ok()?)));
        match entry {
            Some((key, size)) => {
                allowed.insert(key.to_string(), size);
            }
            None => {
                let message = "an entry reads KIND NAME SIZE";
                findings.push(Finding::new(RATCHET_PATH, index + 1, message));
            }
        }
    }
    (allowed, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[(&str, usize)]) -> Excesses {
        let excess = |size| Excess {
            size,
            path: "a.rs".to_string(),
            line: 7,
            message: "split it".to_string(),
        };
        sizes.iter().map(|(key, size)| ((*key).to_string(), excess(*size))).collect()
    }

    fn findings(sizes: &[(&str, usize)], ratchet: &str) -> Vec<String> {
        let tree = Tree::of(&[(RATCHET_PATH, ratchet)]);
        check(&tree, &of(sizes)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn growth_is_held_and_a_ratchet_that_is_too_high_is_found() {
        let key = "function a.rs::a";
        let cases = [
            ("function a.rs::a 80\n", ""),
            ("", "a.rs:7: split it (function a.rs::a: 80)"),
            ("function a.rs::a 79\n", "a.rs:7: split it (function a.rs::a: 80, grew from 79)"),
            ("function a.rs::a 90\n", "a.rs:7: shrank from 90 to 80 (function a.rs::a): run tidy"),
        ];
        for (ratchet, wanted) in cases {
            let found = findings(&[(key, 80)], ratchet).join("\n");
            assert!(found.starts_with(wanted) && found.is_empty() == wanted.is_empty(), "{found}");
        }
        assert!(findings(&[], "# a comment\nfunction a.rs::a 90\n")[0].contains("gone"));
        assert!(findings(&[], "function\n")[0].starts_with("xtask/ratchet.txt:1:"));
    }

    #[test]
    fn tightening_lowers_and_never_adds_and_writing_takes_all() {
        let tighten = |sizes: &[(&str, usize)], ratchet: &str| {
            let text = tightened(&Tree::of(&[(RATCHET_PATH, ratchet)]), &of(sizes));
            text.strip_prefix(RATCHET_HEADER).unwrap().to_string()
        };
        assert_eq!(tighten(&[("function a", 80)], "function a 90\n"), "function a 80\n");
        assert_eq!(tighten(&[("function a", 80)], "function a 75\n"), "function a 75\n");
        assert_eq!(tighten(&[("function a", 80)], "function b 75\n"), "");
        let all = written(&of(&[("file a", 5), ("function a", 80)]));
        assert!(all.ends_with("\nfile a 5\nfunction a 80\n"), "{all}");
    }
}
