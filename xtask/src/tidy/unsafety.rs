//! `unsafe` only where it is allowed and argued; atomics only with the other end named.
//!
//! `xtask/unsafe-files.txt` lists the files that may hold `unsafe`, each with its reason and the
//! tests that exercise it under Miri, loom or AddressSanitizer. Each use stands under a `//
//! SAFETY:` comment (a trait's `unsafe fn` has its contract there); each ordering that synchronises
//! (`Acquire`, `Release`, `AcqRel`) has a `// SYNC:` comment near, which names the other end.

use std::collections::BTreeSet;

use super::Finding;
use super::source::Source;
use crate::tree::Tree;

/// Files that may hold `unsafe`: `PATH  reason`, and indented below it `CHECK TEST`.
const ALLOWED_PATH: &str = "xtask/unsafe-files.txt";
/// The checks that find a test's undefined behaviour; `./x campaign` has one of each name.
const CHECKS: [&str; 3] = ["miri", "loom", "asan"];
/// The largest distance of a `SYNC:` comment's first line above its ordering, in lines.
const SYNC_REACH: usize = 8;
/// The most lines of one statement between a `SAFETY:` comment and its `unsafe`.
const STATEMENT_REACH: usize = 4;

pub(crate) fn check(tree: &Tree, sources: &[Source], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let text = tree.text(ALLOWED_PATH).unwrap_or("");
    let (allowed, mut findings) = read_allowed(text, tests);
    for source in sources {
        let is_allowed = allowed.iter().any(|(path, _)| *path == source.path);
        findings.extend(check_unsafe(source, is_allowed));
        findings.extend(check_sync(source));
    }
    for (path, line) in allowed {
        let source = sources.iter().find(|source| source.path == path);
        if source.is_none_or(|source| unsafe_lines(source).next().is_none()) {
            let message = format!("`{path}` holds no `unsafe`: take it off the list");
            findings.push(Finding::new(ALLOWED_PATH, line, message));
        }
    }
    findings
}

fn read_allowed(text: &str, tests: &BTreeSet<&str>) -> (Vec<(String, usize)>, Vec<Finding>) {
    let mut allowed = Vec::new();
    let mut findings = Vec::new();
    // Where an entry stands that has named no test so far.
    let mut bare: Option<usize> = None;
    let unwatched = |line| {
        let message = format!("an entry has its tests below it: `    CHECK TEST` of {CHECKS:?}");
        Finding::new(ALLOWED_PATH, line, message)
    };
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(char::is_whitespace) {
            let problem = wrong_check(line.trim(), tests);
            findings.extend(problem.map(|p| Finding::new(ALLOWED_PATH, index + 1, p)));
            bare = None;
            continue;
        }
        findings.extend(bare.replace(index + 1).map(unwatched));
        match line.split_once(char::is_whitespace) {
            Some((path, reason)) if !reason.trim().is_empty() => {
                allowed.push((path.to_string(), index + 1));
            }
            _ => findings.push(Finding::new(ALLOWED_PATH, index + 1, "an entry is PATH  reason")),
        }
    }
    findings.extend(bare.map(unwatched));
    (allowed, findings)
}

/// Returns the problem with an entry's line `CHECK TEST`, if there is one.
fn wrong_check(text: &str, tests: &BTreeSet<&str>) -> Option<String> {
    match text.split_once(' ') {
        None => Some(format!("`{text}` is not CHECK TEST")),
        Some((check, _)) if !CHECKS.contains(&check) => {
            Some(format!("`{check}` is none of {CHECKS:?}"))
        }
        Some((_, test)) if !tests.contains(test) => Some(format!("no test has the name `{test}`")),
        Some(_) => None,
    }
}

/// Lines on which `unsafe` opens a block, an implementation or a function.
fn unsafe_lines(source: &Source) -> impl Iterator<Item = usize> {
    source.tokens.windows(2).filter_map(|pair| {
        let opens = ["{", "impl", "fn", "extern", "trait"].contains(&pair[1].text.as_str());
        (pair[0].text == "unsafe" && opens).then_some(pair[0].line)
    })
}

fn check_unsafe(source: &Source, is_allowed: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in unsafe_lines(source) {
        if !is_allowed {
            let message = format!("`unsafe` in a file that is not listed in {ALLOWED_PATH}");
            findings.push(Finding::new(&source.path, line, message));
        }
        if !source.contract_lines.contains(&line) && !is_argued(source, line) {
            let message = "`unsafe` without a `// SAFETY:` comment directly above";
            findings.push(Finding::new(&source.path, line, message));
        }
    }
    findings
}

/// True when a comment block with `SAFETY:` (or `# Safety`, for a function) ends just above the
/// statement or item that holds `line`.
fn is_argued(source: &Source, line: usize) -> bool {
    let argues = |text: &str| text.contains("SAFETY:") || text.contains("# Safety");
    if source.line(line).split_once("//").is_some_and(|(_, comment)| argues(comment)) {
        return true;
    }
    let mut above = line - 1;
    for _ in 0..STATEMENT_REACH {
        let text = source.line(above).trim();
        if is_comment(text) || is_attribute(text) || ends_statement(text) {
            break;
        }
        above = above.saturating_sub(1);
    }
    while is_comment(source.line(above).trim()) || is_attribute(source.line(above).trim()) {
        if argues(source.line(above)) {
            return true;
        }
        above -= 1;
    }
    false
}

fn is_comment(text: &str) -> bool {
    text.starts_with("//")
}

fn is_attribute(text: &str) -> bool {
    text.starts_with("#[")
}

fn ends_statement(text: &str) -> bool {
    text.is_empty() || text.ends_with([';', '{', '}'])
}

fn check_sync(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        let synchronises = ["Acquire", "Release", "AcqRel"].contains(&token.text.as_str());
        if !synchronises || source.is_test_line(token.line) || !is_ordering(source, index) {
            continue;
        }
        let first = token.line.saturating_sub(SYNC_REACH).max(1);
        if !(first..=token.line).any(|line| source.line(line).contains("SYNC:")) {
            let message = format!(
                "Ordering::{} without a `// SYNC: pairs with ...` comment near",
                token.text
            );
            findings.push(Finding::new(&source.path, token.line, message));
        }
    }
    findings
}

/// `Ordering::X`, or a bare imported `X` as an argument.
fn is_ordering(source: &Source, index: usize) -> bool {
    let text = |offset: usize| {
        index.checked_sub(offset).map_or("", |index| source.tokens[index].text.as_str())
    };
    if text(1) == ":" {
        return text(3) == "Ordering";
    }
    [",", "("].contains(&text(1))
        && source.tokens.get(index + 1).is_some_and(|next| [",", ")"].contains(&&*next.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str, allowed: &str) -> Vec<String> {
        let tree = Tree::of(&[("a.rs", text), (ALLOWED_PATH, allowed)]);
        let sources = [Source::parse("a.rs", text).unwrap()];
        let tests = BTreeSet::from(["reads_it", "reads_it_again"]);
        check(&tree, &sources, &tests).iter().map(ToString::to_string).collect()
    }

    const LISTED: &str = "a.rs  reads a counter\n    miri reads_it\n    loom reads_it_again\n";

    #[test]
    fn unsafe_in_an_unlisted_file_is_found() {
        let text = "fn a() {\n    // SAFETY: b holds.\n    unsafe { b() }\n}";
        assert_eq!(findings(text, LISTED), [""; 0]);
        assert!(findings(text, "")[0].starts_with("a.rs:3: `unsafe` in a file"));
    }

    #[test]
    fn unsafe_without_its_argument_is_found() {
        let cases = [
            ("fn a() {\n    unsafe { b() }\n}", 1),
            ("fn a() {\n    // SAFETY: old.\n    c();\n    unsafe { b() }\n}", 1),
            ("unsafe impl Send for A {}", 1),
            ("// SAFETY: a.\nlet_it!();\nunsafe impl Send for A {}", 1),
            ("// SAFETY: one owner.\nunsafe impl Send for A {}", 0),
            ("fn a() {\n    // SAFETY: b.\n    let c =\n        unsafe { b() };\n}", 0),
            ("/// # Safety\n/// Only once.\n#[inline]\nunsafe fn a() {}", 0),
            ("// SAFETY: a.\nunsafe impl A for B {\n    unsafe fn c() {}\n}", 0),
            ("impl B {\n    unsafe fn c() {}\n}", 1),
            ("// the word unsafe in prose\nfn a() {}", 0),
        ];
        for (text, count) in cases {
            let found = findings(text, LISTED);
            let found: Vec<_> = found.iter().filter(|f| f.contains("SAFETY")).collect();
            assert_eq!(found.len(), count, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_list_that_names_too_much_or_gives_no_reason_is_found() {
        assert!(findings("fn a() {}", LISTED)[0].starts_with("xtask/unsafe-files.txt:1: `a.rs`"));
        assert!(findings("fn a() {}", "# note\na.rs\n")[0].contains("PATH  reason"));
    }

    #[test]
    fn a_listed_file_without_a_test_that_exists_is_found() {
        let text = "fn a() {\n    // SAFETY: b holds.\n    unsafe { b() }\n}";
        let cases = [
            ("", "tests below it"),
            ("    miri\n", "is not CHECK TEST"),
            ("    eyes reads_it\n", "none of"),
            ("    miri forgets_it\n", "`forgets_it`"),
            ("    loom reads_it\n    asan forgets_it\n", "`forgets_it`"),
        ];
        for (checks, said) in cases {
            let found = findings(text, &format!("a.rs  reads a counter\n{checks}"));
            assert!(found.len() == 1 && found[0].contains(said), "{checks}: {found:?}");
        }
        let found = findings(text, &format!("# note\nb.rs  reads\n{LISTED}"));
        assert!(found.iter().any(|f| f.contains(":2: an entry has its tests")), "{found:?}");
    }

    #[test]
    fn an_ordering_without_its_other_end_is_found() {
        let cases = [
            ("fn a() {\n    b.store(1, Ordering::Release);\n}", 1),
            ("fn a() {\n    b.load(Acquire);\n}", 1),
            ("fn a() {\n    // SYNC: pairs with c.\n    b.store(1, Ordering::Release);\n}", 0),
            ("fn a() {\n    b.store(1, Ordering::Relaxed);\n}", 0),
            ("fn a() -> Lock {\n    Lock::Release\n}", 0),
            ("#[test]\nfn a() {\n    b.store(1, Ordering::Release);\n}", 0),
        ];
        for (text, count) in cases {
            assert_eq!(findings(text, "").len(), count, "{text}");
        }
    }
}
