//! Rules about text: opening comments, words that promise work, traces of one machine.

use super::Finding;
use super::source::Source;
use crate::tree::{TextFile, Tree};

/// Comment words that mean "not done"; written in two halves so that this file passes.
const UNDONE_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Macros and attributes that leave work or tests out.
const UNDONE_CALLS: &[(&str, &str)] = &[("todo", "!"), ("unimplemented", "!"), ("[", "ignore")];
/// First folders of absolute paths that exist on one machine only.
const MACHINE_DIRS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(crate) fn check(tree: &Tree, sources: &[Source]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = sources.iter().flat_map(check_source).collect();
    for file in &tree.files {
        // Names and checksums of packages: not our words.
        if !file.path.ends_with("Cargo.lock") {
            findings.extend(check_text(file));
        }
    }
    findings
}

fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.lines.first().is_some_and(|line| line.starts_with("//!")) {
        let message = "opens without `//!`: say what the file is for and what it never does";
        findings.push(Finding::new(&source.path, 1, message));
    }
    for pair in source.tokens.windows(2) {
        if UNDONE_CALLS.iter().any(|(a, b)| pair[0].text == *a && pair[1].text == *b) {
            let call = format!("`{}{}`", pair[0].text, pair[1].text);
            let message = format!("{call}: finish it, or take it out");
            findings.push(Finding::new(&source.path, pair[0].line, message));
        }
    }
    findings
}

fn check_text(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for word in UNDONE_WORDS.iter().filter(|word| has_word(line, word)) {
            let message = format!("{word}: do it, or file it where work is planned");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
        for dir in MACHINE_DIRS.iter().filter(|dir| has_absolute(line, dir)) {
            let message = format!("a path of one machine ({dir}...): make it relative");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

/// True where `dir` begins a path: `a/b/` inside a longer path or an address does not.
fn has_absolute(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}$~*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        let sources: Vec<Source> =
            tree.with_extension("rs").map(|f| Source::parse(&f.path, &f.text).unwrap()).collect();
        check(&tree, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_source_without_its_opening_comment_is_found() {
        assert_eq!(findings("a.rs", "//! Says what for.\nfn a() {}"), [""; 0]);
        assert!(findings("a.rs", "// a\nfn a() {}")[0].starts_with("a.rs:1: opens without"));
        assert!(findings("a.rs", "")[0].starts_with("a.rs:1: opens without"));
    }

    #[test]
    fn work_left_out_is_found() {
        for (a, b) in UNDONE_CALLS {
            let call = format!("{a}{b}");
            let body = if *b == "!" {
                format!("fn a() {{ {call}() }}")
            } else {
                format!("#{call}]\nfn a() {{}}")
            };
            let found = findings("a.rs", &format!("//! A.\n{body}"));
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].starts_with("a.rs:2:"), "{found:?}");
        }
        for word in UNDONE_WORDS {
            assert_eq!(findings("a.md", &format!("({word}: later)")).len(), 1, "{word}");
            assert_eq!(findings("a.md", &format!("{word}S and A{word}")), [""; 0]);
        }
    }

    #[test]
    fn paths_of_one_machine_are_found_and_other_paths_are_not() {
        for dir in MACHINE_DIRS {
            assert_eq!(findings("a.md", &format!("see `{dir}main`")).len(), 1, "{dir}");
            assert_eq!(findings("a.md", &format!("{dir}main")).len(), 1, "{dir}");
            assert_eq!(findings("a.md", &format!("docs{dir}main ../..{dir}x")), [""; 0]);
        }
    }
}
