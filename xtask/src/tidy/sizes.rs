//! Sizes of files, functions and lines.
//!
//! Files and functions that are over their limit already stand in the ratchet (`ratchet.rs`) and
//! may shrink; a line of code over its limit is always a finding.

use super::Finding;
use super::ratchet::{Excess, Excesses};
use super::source::Source;
use crate::tree::{TextFile, Tree};

/// Lines in a file.
const FILE_LINES_MAX: usize = 1000;
/// Lines in a function, signature to closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters in a line of code.
const LINE_CHARS_MAX: usize = 100;
/// The extensions of code files; shell scripts without an extension are code too.
const CODE_EXTENSIONS: &[&str] = &["rs", "sh", "py", "java"];

/// Lines of code that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(long_lines).collect()
}

/// Files and functions over their limit.
pub(crate) fn excesses(tree: &Tree, sources: &[Source]) -> Excesses {
    let mut found = Excesses::new();
    let message = |limit: usize| format!("more lines than the limit of {limit}: split it");
    for file in tree.files.iter().filter(|file| is_code(file)) {
        let size = file.text.lines().count();
        if size > FILE_LINES_MAX {
            let (path, message) = (file.path.clone(), message(FILE_LINES_MAX));
            found.insert(format!("file {path}"), Excess { size, path, line: 0, message });
        }
    }
    for source in sources {
        for function in source.functions.iter().filter(|f| f.line_count > FUNCTION_LINES_MAX) {
            let (path, message) = (source.path.clone(), message(FUNCTION_LINES_MAX));
            let key = format!("function {path}::{}", function.name);
            let (size, line) = (function.line_count, function.line);
            found.insert(key, Excess { size, path, line, message });
        }
    }
    found
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

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("a.rs", text)]);
        let sources = [Source::parse("a.rs", text).unwrap()];
        let excesses = excesses(&tree, &sources);
        let lines = check(&tree).iter().map(ToString::to_string).collect::<Vec<_>>();
        let sizes = excesses.iter().map(|(key, e)| format!("{key} {} at line {}", e.size, e.line));
        sizes.chain(lines).collect()
    }

    #[test]
    fn each_size_over_its_limit_is_found_and_at_the_limit_is_not() {
        let cases = [
            (function_of(70), ""),
            (function_of(71), "function a.rs::a 71 at line 1"),
            ("//\n".repeat(1000), ""),
            ("//\n".repeat(1001), "file a.rs 1001 at line 0"),
            (format!("//{}", "x".repeat(98)), ""),
            (format!("//{}", "x".repeat(99)), "a.rs:1: line of 101 characters, limit 100"),
        ];
        for (text, wanted) in cases {
            assert_eq!(found(&text).join("; "), wanted);
        }
    }
}
