//! Tests named in documents and lists: each of them exists.
//!
//! Each section of the operator's page, and each entry of its troubleshooting, ends its advice with
//! "tests:" and the names of the tests that follow it. A name stands in backquotes; names of one
//! place are separated by commas or "and". On the pages of `docs/testing/` every name that reads
//! like a test's is one.
//!
//! `./x test` also checks that each named test has passed, by the output of Cargo: a test that a
//! condition leaves out of the build proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;
use crate::tree::Tree;

const PAGE: &str = "docs/operations.md";
/// The section of which each entry, which begins in bold, names a test of its own.
const ENTRIES: &str = "## Troubleshooting";
const MARK: &str = "tests:";
/// Pages on which each name in backquotes that reads like a test's is one.
const TESTING_DIR: &str = "docs/testing/";
/// The beginning of the names of loom's tests: their campaign checks that each of them runs.
const LOOM_PREFIX: &str = "loom_";
/// Words of a test's name, at least; shorter names are of files and functions.
const NAME_WORDS_MIN: usize = 5;

/// The names of all tests, also of those that a macro makes.
pub(crate) fn test_names(sources: &[Source]) -> BTreeSet<&str> {
    sources.iter().flat_map(names_in).collect()
}

fn names_in(source: &Source) -> Vec<&str> {
    let text = |index: usize| source.tokens.get(index).map_or("", |token| token.text.as_str());
    // `#[test]` and `#[tokio::test]`.
    let is_mark = |index: usize| {
        let is_path = |index: &usize| matches!(text(*index), "tokio" | "::" | ":");
        let name = (index + 2..).find(|index| !is_path(index)).unwrap_or(index);
        [text(index), text(index + 1), text(name), text(name + 1)] == ["#", "[", "test", "]"]
    };
    let mut names = Vec::new();
    for mark in (0..source.tokens.len()).filter(|index| is_mark(*index)) {
        // Other attributes may stand between; a body may not.
        let head = (mark..source.tokens.len()).take_while(|index| text(*index) != "{");
        if let Some(keyword) = head.into_iter().find(|index| text(*index) == "fn") {
            names.push(text(keyword + 1));
        }
    }
    names
}

/// A section of the page.
struct Section<'a> {
    line: usize,
    title: &'a str,
    /// True when a paragraph of it names a test.
    is_proven: bool,
}

pub(crate) fn check(tree: &Tree, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(text) = tree.text(PAGE) else {
        return vec![Finding::new(PAGE, 0, "is missing: it holds the advice for operators")];
    };
    let mut findings = Vec::new();
    let mut section: Option<Section<'_>> = None;
    for (line, paragraph) in paragraphs(text) {
        if paragraph.starts_with("## ") {
            findings.extend(section.and_then(unproven));
            section = Some(Section { line, title: paragraph, is_proven: false });
            continue;
        }
        let named = named_tests(paragraph);
        for name in named.iter().filter(|name| !tests.contains(**name)) {
            let message = format!("names the test `{name}`, and no test has that name");
            findings.push(Finding::new(PAGE, line, message));
        }
        if let Some(section) = &mut section {
            section.is_proven |= !named.is_empty();
            if section.title == ENTRIES && paragraph.starts_with("**") && named.is_empty() {
                findings.push(Finding::new(PAGE, line, "an entry names its test"));
            }
        }
    }
    findings.extend(section.and_then(unproven));
    findings.extend(check_names(tree, tests));
    findings
}

/// Names of tests that do not exist, on the pages about testing.
fn check_names(tree: &Tree, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let missing = on_testing_pages(tree).filter(|named| !tests.contains(named.name));
    missing.map(|named| named.finding("and no test has that name")).collect()
}

/// A name of a test, and its place on a page.
struct NamedTest<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
}

impl NamedTest<'_> {
    fn finding(&self, trouble: &str) -> Finding {
        Finding::new(self.path, self.line, format!("names `{}`, {trouble}", self.name))
    }
}

fn on_testing_pages(tree: &Tree) -> impl Iterator<Item = NamedTest<'_>> {
    let pages = tree.with_extension("md").filter(|page| page.path.starts_with(TESTING_DIR));
    pages.flat_map(|page| {
        page.text.lines().zip(1..).flat_map(move |(text, line)| {
            let names = text.split('`').skip(1).step_by(2).filter(|name| is_like_a_test(name));
            names.map(move |name| NamedTest { path: &page.path, line, name })
        })
    })
}

fn on_operators_page(tree: &Tree) -> impl Iterator<Item = NamedTest<'_>> {
    paragraphs(tree.text(PAGE).unwrap_or_default()).into_iter().flat_map(|(line, paragraph)| {
        let names = named_tests(paragraph).into_iter();
        names.map(move |name| NamedTest { path: PAGE, line, name })
    })
}

/// Returns the named tests that did not pass in this output of `cargo test`.
pub(crate) fn not_passed(tree: &Tree, output: &str) -> Vec<Finding> {
    let passed: BTreeSet<&str> = output.lines().filter_map(passed_test).collect();
    let named = on_operators_page(tree).chain(on_testing_pages(tree));
    let elsewhere = |name: &str| name.starts_with(LOOM_PREFIX);
    let missing = named.filter(|named| !passed.contains(named.name) && !elsewhere(named.name));
    missing.map(|named| named.finding("and no test of that name has passed")).collect()
}

/// Returns the named tests that were skipped, whole or in part, by the lines of their reports:
/// program, test, need and reason, between tabs (`crates/skip`). They prove nothing here.
pub(crate) fn skipped(tree: &Tree, reports: &str) -> Vec<Finding> {
    let needs: BTreeMap<&str, &str> = reports.lines().filter_map(skipped_test).collect();
    let named = on_operators_page(tree).chain(on_testing_pages(tree));
    let found = named.filter_map(|named| {
        let need = needs.get(named.name)?;
        Some(named.finding(&format!("which was skipped: it needs {need}")))
    });
    found.collect()
}

/// Returns the test's name and its need if it is a line of a report.
fn skipped_test(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split('\t').skip(1);
    let (test, need) = (words.next()?, words.next()?);
    Some((test.rsplit("::").next()?, need))
}

/// Returns the test's name if it is a line such as `test module::name ... ok`.
fn passed_test(line: &str) -> Option<&str> {
    let path = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
    // A test that must panic says so behind its name.
    let path = path.strip_suffix(" - should panic").unwrap_or(path);
    path.rsplit("::").next()
}

fn is_like_a_test(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(is_plain) && name.split('_').count() >= NAME_WORDS_MIN
}

fn unproven(section: Section<'_>) -> Option<Finding> {
    let message = format!("the section {:?} names no test", section.title);
    (!section.is_proven).then(|| Finding::new(PAGE, section.line, message))
}

/// Stretches between empty lines, each with its first line's number; a heading is one by itself.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, text);
    while !rest.is_empty() {
        let (paragraph, behind) = rest.split_once("\n\n").unwrap_or((rest, ""));
        let begun = paragraph.trim_start_matches('\n');
        found.push((line + paragraph.len() - begun.len(), begun.trim_end()));
        line += paragraph.lines().count() + 1;
        rest = behind;
    }
    found
}

/// The names behind each "tests:".
fn named_tests(paragraph: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, mark) in paragraph.match_indices(MARK) {
        let mut rest = paragraph[at + mark.len()..].trim_start();
        while let Some((name, behind)) = rest.strip_prefix('`').and_then(|r| r.split_once('`')) {
            names.push(name);
            let behind = behind.trim_start_matches(',').trim_start();
            rest = behind.strip_prefix("and ").unwrap_or(behind);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(page: &str) -> Vec<String> {
        let text = "#[test]\nfn one() {}\nm! {\n    #[test]\n    #[cfg(x)]\n    fn two() {}\n}";
        let sources = [Source::parse("a.rs", text).unwrap()];
        let tree = Tree::of(&[(PAGE, page)]);
        check(&tree, &test_names(&sources)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let cases = [
            ("## A\n\nDo it (tests: `one`).\n", 0),
            ("## A\n\nDo it (tests:\n`one`, `two`\nand `one`).\n", 0),
            ("## A\n\nDo it (tests: `three`).\n", 1),
            ("## A\n\nDo it (tests: `one`, `three` and `four`).\n", 2),
            ("## A\n\n`one` does it (tests: `two`); `three` is no test.\n", 0),
        ];
        for (page, count) in cases {
            assert_eq!(findings(page).len(), count, "{page}: {:?}", findings(page));
        }
    }

    #[test]
    fn a_section_or_an_entry_that_names_no_test_is_found() {
        assert!(findings("## A\n\nDo it.\n\n## B\n\ntests: `one`\n")[0].contains("\"## A\""));
        let entries = "## Troubleshooting\n\n**It burns.** Run (tests: `one`).\n\n**It rains.** \
                       Wait.\n\nWho waits gets dry.\n";
        assert_eq!(findings(entries), [format!("{PAGE}:5: an entry names its test")]);
    }

    #[test]
    fn a_page_about_testing_names_only_tests_that_exist() {
        let text = "#[test]\nfn it_is_kept_as_it_was() {}";
        let sources = [Source::parse("a.rs", text).unwrap()];
        let page = "| a bug | `it_is_kept_as_it_was` |\n| b | `it_is_lost_as_it_was`, `a_b` |\n";
        let tree = Tree::of(&[("docs/testing/a.md", page), ("docs/b.md", page)]);
        let found = check_names(&tree, &test_names(&sources));
        let wanted = "docs/testing/a.md:2: names `it_is_lost_as_it_was`, and no test has that name";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
    }

    #[test]
    fn a_named_test_that_did_not_pass_is_found() {
        let page = "| a bug | `it_is_kept_as_it_was`, `loom_it_is_kept_as_it_was` |\n";
        let operators = "## A\n\nDo it (tests: `one`).\n";
        let tree = Tree::of(&[("docs/testing/a.md", page), (PAGE, operators)]);
        let count = |output: &str| not_passed(&tree, output).len();
        let one = "test a::b::one ... ok\n";
        assert_eq!(count(""), 2);
        assert_eq!(count(one), 1);
        assert_eq!(count(&format!("{one}test it_is_kept_as_it_was - should panic ... ok\n")), 0);
        for outcome in ["FAILED", "ignored", "ok, it says"] {
            let line = format!("test it_is_kept_as_it_was ... {outcome}\n");
            assert_eq!(count(&format!("{one}{line}")), 1, "{line}");
        }
    }

    #[test]
    fn a_named_test_that_was_skipped_is_told_with_its_need() {
        let page = "| a bug | `it_is_kept_as_it_was` |\n";
        let tree = Tree::of(&[("docs/testing/a.md", page), (PAGE, "## A\n\nDo (tests: `one`).\n")]);
        let told = |reports: &str| {
            skipped(&tree, reports).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told("system\ta::other\tFUSE\tno device\n"), Vec::<String>::new());
        let reports = "system\ta::it_is_kept_as_it_was\tFUSE\tno device\nsystem\tone\tptrace\tx\n";
        assert_eq!(
            told(reports),
            [
                format!("{PAGE}:3: names `one`, which was skipped: it needs ptrace"),
                "docs/testing/a.md:1: names `it_is_kept_as_it_was`, which was skipped: it needs \
                 FUSE"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn a_function_that_is_no_test_is_no_proof() {
        let text = "fn one() {}\n#[test]\nfn two() {}\nfn three() {}\n\
                    #[tokio::test]\nasync fn four() {}\n#[tokio::main]\nasync fn five() {}";
        let sources = [Source::parse("a.rs", text).unwrap()];
        assert_eq!(test_names(&sources).into_iter().collect::<Vec<_>>(), ["four", "two"]);
    }
}
