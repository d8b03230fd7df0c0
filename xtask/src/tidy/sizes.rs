//! Sizes of files, functions and lines, with a ratchet for what is already over.
//!
//! `xtask/ratchet.txt` holds what is over a limit and how far. An entry may shrink or go, never
//! grow: something that grew past its entry, something new over a limit, and an entry that no
//! longer tells the truth are all findings.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Finding;
use super::source::Source;
use super::tree::{TextFile, Tree};

/// Lines in a file.
const FILE_LINES_MAX: usize = 1000;
/// Lines in a function, signature to closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters in a line of code.
const LINE_CHARS_MAX: usize = 100;
/// What counts as code, besides shell scripts without an extension.
const CODE_EXTENSIONS: &[&str] = &["rs", "sh", "py", "java"];

/// Where the exceptions stand.
pub(crate) const RATCHET_PATH: &str = "xtask/ratchet.txt";

const RATCHET_HEADER: &str = "\
# What is over a size limit of the house: KIND NAME LINES. Entries may shrink or go, never grow;
# `cargo run -p xtask -- tidy --tighten` lowers them to today's sizes and raises none.
";

/// Sizes over the limit by `KIND NAME`, with the line to point at.
type Oversized = BTreeMap<String, (usize, usize)>;

pub(crate) fn check(tree: &Tree, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (allowed, errors) = read_ratchet(tree);
    findings.extend(errors);
    let oversized = oversized(tree, sources);
    for (key, (size, line)) in &oversized {
        let (kind, path) = split_key(key);
        let limit = limit_of(kind);
        match allowed.get(key) {
            None => findings.push(Finding::new(
                path,
                *line,
                format!("{kind} of {size} lines, limit {limit}: split it ({key})"),
            )),
            Some(was) if size > was => findings.push(Finding::new(
                path,
                *line,
                format!("{kind} grew from {was} to {size} lines over the limit {limit}: split it"),
            )),
            Some(was) if size < was => findings.push(Finding::new(
                path,
                *line,
                format!("{kind} shrank from {was} to {size} lines: run tidy --tighten"),
            )),
            Some(_) => {}
        }
    }
    for key in allowed.keys().filter(|key| !oversized.contains_key(*key)) {
        let message = format!("`{key}` is within its limit now or gone: run tidy --tighten");
        findings.push(Finding::new(RATCHET_PATH, 0, message));
    }
    findings.extend(tree.files.iter().flat_map(long_lines));
    findings
}

/// The ratchet with each entry at today's size; entries that are no longer needed are gone.
pub(crate) fn tightened(tree: &Tree, sources: &[Source]) -> String {
    let (allowed, _) = read_ratchet(tree);
    let mut text = RATCHET_HEADER.to_string();
    for (key, (size, _)) in oversized(tree, sources) {
        if let Some(was) = allowed.get(&key) {
            writeln!(text, "{key} {}", size.min(*was)).expect("a string takes any text");
        }
    }
    text
}

fn oversized(tree: &Tree, sources: &[Source]) -> Oversized {
    let mut found = Oversized::new();
    for file in tree.files.iter().filter(|file| is_code(file)) {
        let size = file.text.lines().count();
        if size > FILE_LINES_MAX {
            found.insert(format!("file {}", file.path), (size, 0));
        }
    }
    for source in sources {
        for function in source.functions.iter().filter(|f| f.line_count > FUNCTION_LINES_MAX) {
            let key = format!("function {}::{}", source.path, function.name);
            found.insert(key, (function.line_count, function.line));
        }
    }
    found
}

fn limit_of(kind: &str) -> usize {
    if kind == "file" { FILE_LINES_MAX } else { FUNCTION_LINES_MAX }
}

/// `function a/b.rs::C::d` is a function of `a/b.rs`.
fn split_key(key: &str) -> (&str, &str) {
    let (kind, name) = key.split_once(' ').unwrap_or(("", key));
    (kind, name.split("::").next().unwrap_or(name))
}

fn read_ratchet(tree: &Tree) -> (BTreeMap<String, usize>, Vec<Finding>) {
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
            None => findings.push(Finding::new(
                RATCHET_PATH,
                index + 1,
                "an entry reads KIND NAME LINES",
            )),
        }
    }
    (allowed, findings)
}

fn is_code(file: &TextFile) -> bool {
    let extension = file.path.rsplit_once('.').map_or("", |(_, extension)| extension);
    CODE_EXTENSIONS.contains(&extension) || file.text.starts_with("#!")
}

fn long_lines(file: &TextFile) -> Vec<Finding> {
    if !is_code(file) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let size = line.chars().count();
        if size > LINE_CHARS_MAX {
            let message = format!("line of {size} characters, limit {LINE_CHARS_MAX}");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(line_count: usize) -> String {
        format!("fn a() {{\n{}}}\n", "    b();\n".repeat(line_count - 2))
    }

    fn findings(text: &str, ratchet: &str) -> Vec<String> {
        let tree = Tree::of(&[("a.rs", text), (RATCHET_PATH, ratchet)]);
        let sources = [Source::parse("a.rs", text).unwrap()];
        check(&tree, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_size_over_its_limit_is_found_and_at_the_limit_is_not() {
        assert_eq!(findings(&function_of(70), ""), [""; 0]);
        let found = findings(&function_of(71), "");
        assert_eq!(found, ["a.rs:1: function of 71 lines, limit 70: split it (function a.rs::a)"]);
        assert_eq!(findings(&"//\n".repeat(1000), ""), [""; 0]);
        let found = findings(&"//\n".repeat(1001), "");
        assert_eq!(found, ["a.rs: file of 1001 lines, limit 1000: split it (file a.rs)"]);
        let found = findings(&format!("//{}", "x".repeat(99)), "");
        assert_eq!(found, ["a.rs:1: line of 101 characters, limit 100"]);
    }

    #[test]
    fn the_ratchet_holds_growth_and_asks_to_be_lowered() {
        let text = function_of(80);
        assert_eq!(findings(&text, "function a.rs::a 80\n"), [""; 0]);
        let grown = findings(&text, "function a.rs::a 79\n");
        assert!(grown[0].contains("grew from 79 to 80"), "{grown:?}");
        let shrunk = findings(&text, "function a.rs::a 90\n");
        assert!(shrunk[0].contains("shrank from 90 to 80"), "{shrunk:?}");
        let stale = findings("", "# a comment\nfunction a.rs::a 90\n");
        assert!(stale[0].contains("gone"), "{stale:?}");
        let broken = findings("", "function\n");
        assert!(broken[0].starts_with("xtask/ratchet.txt:1:"), "{broken:?}");
    }

    #[test]
    fn tightening_lowers_and_never_adds() {
        let tighten = |text: &str, ratchet: &str| {
            let tree = Tree::of(&[("a.rs", text), (RATCHET_PATH, ratchet)]);
            tightened(&tree, &[Source::parse("a.rs", text).unwrap()])
        };
        let text = function_of(80);
        assert!(tighten(&text, "function a.rs::a 90\n").ends_with("function a.rs::a 80\n"));
        assert!(tighten(&text, "function a.rs::a 75\n").ends_with("function a.rs::a 75\n"));
        assert_eq!(tighten(&text, ""), RATCHET_HEADER);
    }
}
