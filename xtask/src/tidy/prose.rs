//! Prose: the openings of doc comments, free relatives, and the widths of pages.
//!
//! A doc comment opens with a noun phrase or a verb, not with a question word; a file's opening and
//! a page name a thing by its noun, not by a free relative; a page's lines of text break at 100
//! characters, and a table's cell holds a phrase. The ratchet counts offenders by crate and page,
//! and the aim is none. Code blocks, tables and lines that are one link are as long as they need.

use super::Finding;
use super::ratchet::{Excess, Excesses};
use super::source::Source;
use crate::tree::{TextFile, Tree};

/// Words that open a free relative clause.
const OPENERS: &[&str] = &[
    "What",
    "Whatever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Where",
    "Wherever",
    "How",
    "When",
    "Whenever",
    "Whether",
    "Which",
    "Whichever",
    "That which",
];
/// Pronouns of free relative clauses. Code and quotations may have them.
const FREE_RELATIVES: &[&str] = &["what", "whoever", "whatever"];
/// Characters in a line of a page's text.
const LINE_CHARS_MAX: usize = 100;
/// Characters that a reader sees in a table's cell.
const CELL_CHARS_MAX: usize = 120;
/// Pages outside of these folders that are held to the widths.
const PAGES: &[&str] = &["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
const PAGE_DIRS: &[&str] = &["docs/", "bench/"];

/// One offender: the ratchet's entry that counts it, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offender {
    key: String,
    pub(crate) finding: Finding,
}

/// The number of offenders of each crate and page; each points at the first of them.
pub(crate) fn excesses(tree: &Tree, sources: &[Source]) -> Excesses {
    let mut found = Excesses::new();
    for Offender { key, finding } in offenders(tree, sources) {
        let Finding { path, line, message } = finding;
        let message = format!("{message} (`xtask prose` lists all)");
        let first = Excess { size: 0, path, line, message };
        found.entry(key).or_insert(first).size += 1;
    }
    found
}

/// All offenders, by path and line within each kind.
pub(crate) fn offenders(tree: &Tree, sources: &[Source]) -> Vec<Offender> {
    let mut offenders = Vec::new();
    for source in sources {
        let key = format!("opener {}", tree.crate_of(&source.path));
        for (line, opener) in openers(source) {
            let message =
                format!("doc comment opens with `{opener}`: open it with a noun or a verb");
            let finding = Finding::new(&source.path, line, message);
            offenders.push(Offender { key: key.clone(), finding });
        }
        let key = format!("relative {}", tree.crate_of(&source.path));
        let openings = source
            .lines
            .iter()
            .map(|line| line.trim_start().strip_prefix("//!").unwrap_or_default());
        offenders.extend(relatives(&key, &source.path, openings));
    }
    for page in tree.with_extension("md").filter(|page| is_ours(&page.path)) {
        offenders.extend(wide(page));
        offenders.extend(relatives(
            &format!("relative {}", page.path),
            &page.path,
            page.text.lines(),
        ));
    }
    offenders
}

/// The lines with one of [`FREE_RELATIVES`] outside of code and quotations.
fn relatives<'a>(key: &str, path: &str, lines: impl Iterator<Item = &'a str>) -> Vec<Offender> {
    let mut offenders = Vec::new();
    let mut is_fenced = false;
    let mut open = None;
    for (index, line) in lines.enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```") || text.starts_with("~~~");
        is_fenced ^= is_fence;
        if is_fenced || is_fence || text.is_empty() {
            open = None;
            continue;
        }
        let said = unquoted(text, &mut open);
        let mut words = said.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
        let is_one = |word: &&str| FREE_RELATIVES.iter().any(|one| word.eq_ignore_ascii_case(one));
        if let Some(word) = words.find(is_one) {
            let message = format!("free relative `{word}`: name the noun");
            let finding = Finding::new(path, index + 1, message);
            offenders.push(Offender { key: key.to_string(), finding });
        }
    }
    offenders
}

/// The text without code and quotations. `open` is the mark of the one that the line before left
/// open, and then of the one that this line leaves open.
fn unquoted(text: &str, open: &mut Option<char>) -> String {
    let mut said = String::new();
    for c in text.chars() {
        match *open {
            Some(mark) if c == mark => *open = None,
            Some(_) => {}
            None if c == '`' || c == '"' => *open = Some(c),
            None => said.push(c),
        }
    }
    said
}

fn is_ours(path: &str) -> bool {
    PAGES.contains(&path) || PAGE_DIRS.iter().any(|dir| path.starts_with(dir))
}

/// The first lines of doc comments that open with one of [`OPENERS`].
fn openers(source: &Source) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (index, line) in source.lines.iter().enumerate() {
        let text = line.trim_start();
        let doc = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
        if let Some(doc) = doc.filter(|_| !is_inside)
            && let Some(opener) = opener(doc.trim_start())
        {
            found.push((index + 1, opener));
        }
        is_inside = doc.is_some();
    }
    found
}

fn opener(text: &str) -> Option<&'static str> {
    let is_word = |opener: &&str| {
        text.strip_prefix(*opener)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    OPENERS.iter().copied().find(is_word)
}

/// Lines of text and cells of tables that are too wide.
fn wide(page: &TextFile) -> Vec<Offender> {
    let mut offenders = Vec::new();
    let mut add = |kind: &str, line: usize, message: String| {
        let key = format!("{kind} {}", page.path);
        offenders.push(Offender { key, finding: Finding::new(&page.path, line, message) });
    };
    let mut is_fenced = false;
    let mut is_indented = false;
    let mut is_after_blank = true;
    for (index, line) in page.text.lines().enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```") || text.starts_with("~~~");
        is_fenced ^= is_fence;
        is_indented = line.starts_with("    ") && (is_indented || is_after_blank);
        is_after_blank = text.is_empty();
        if is_fenced || is_fence || is_indented {
            continue;
        }
        if text.starts_with('|') {
            for size in cells(text).map(visible_chars).filter(|size| *size > CELL_CHARS_MAX) {
                let message = format!("cell of {size} characters, limit {CELL_CHARS_MAX}");
                add("cell", index + 1, message + ": put the paragraph under a heading");
            }
            continue;
        }
        let size = line.chars().count();
        if size > LINE_CHARS_MAX && !is_one_link(text) {
            let message = format!("line of {size} characters, limit {LINE_CHARS_MAX}: break it");
            add("text", index + 1, message);
        }
    }
    offenders
}

/// The cells of a row; `\|` separates none.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    row.split(move |c| {
        let is_border = c == '|' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_border
    })
}

/// The characters of a text without the targets of its links.
fn visible_chars(text: &str) -> usize {
    let mut count = 0;
    let mut rest = text.trim();
    while let Some((before, behind)) = rest.split_once("](") {
        count += before.chars().count();
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    count + rest.chars().count()
}

/// True for a line that is a link or an address and its punctuation, perhaps as an item of a list.
fn is_one_link(text: &str) -> bool {
    let text = text.trim_start_matches(['*', '-', '#', ' ']);
    let text = text.trim_end_matches(['.', ',', ':', ';']);
    let is_link = text.starts_with('[')
        && text.ends_with(')')
        && text.matches("](").count() == 1
        && text.split_once("](").is_some_and(|(_, target)| !target.contains(' '));
    let is_definition = text.starts_with('[') && text.contains("]: ");
    is_link || is_definition || (text.contains("://") && !text.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let sources: Vec<Source> =
            tree.with_extension("rs").map(|f| Source::parse(&f.path, &f.text).unwrap()).collect();
        let excesses = excesses(&tree, &sources);
        let told =
            excesses.iter().map(|(key, e)| format!("{key} {} {}:{}", e.size, e.path, e.line));
        told.collect()
    }

    #[test]
    fn a_crates_doc_comments_that_open_with_a_question_word_are_counted() {
        let text = "//! What it is.\n//! Who cares.\n\n/// The order.\n/// Where it stands.\n\
                    fn a() {}\n/// How it ends.\n///\n/// When.\nfn b() {}\n/// Wholly fine.\n\
                    fn c() {}\n\
                    // What is no doc comment.\n/// That which is.\nfn d() {}\n";
        let files = [
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", text),
            ("crates/a/tests/b.rs", "//! Whether it holds."),
            ("crates/b/Cargo.toml", ""),
            ("crates/b/src/lib.rs", "//! The other."),
            ("build.rs", "//! When it builds."),
        ];
        let place = "crates/a/src/lib.rs:1";
        let opener = format!("opener crates/a 4 {place}");
        let relative = format!("relative crates/a 1 {place}");
        let wanted = ["opener . 1 build.rs:1", &opener, &relative];
        assert_eq!(found(&files), wanted);
    }

    #[test]
    fn free_relatives_are_counted_in_openings_and_pages_outside_of_code_and_quotations() {
        let cases = [
            ("Keeps what comes.", 1),
            ("Whatever comes, it stays.", 1),
            ("Waits for whoever\nasks, and sends what\nis there.", 2),
            ("Says `what` and \"what is new?\".", 0),
            ("A span `over\nwhat two` lines, and what follows.", 1),
            ("An open \" mark.\n\nThen what?", 1),
            ("Somewhat, whatsoever, a-what, what_is.", 0),
            ("```text\nwhat\n```", 0),
        ];
        for (text, count) in cases {
            let told = |key: &str, path: &str| match count {
                0 => String::new(),
                _ => format!("relative {key} {count} {path}"),
            };
            let line_of = |found: Vec<String>| {
                let found = found.join("; ");
                found.rsplit_once(':').map_or(found.clone(), |(place, _)| place.to_string())
            };
            let page = found(&[("docs/a.md", text)]);
            assert_eq!(line_of(page), told("docs/a.md", "docs/a.md"), "{text}");
            let lines = text.lines().map(|line| format!("//! {line}\n"));
            let opening: String = std::iter::once("//! A.\n//!\n".into()).chain(lines).collect();
            let path = "crates/a/src/lib.rs";
            let source = found(&[("crates/a/Cargo.toml", ""), (path, &opening)]);
            assert_eq!(line_of(source), told("crates/a", path), "{text}");
        }
        let inner = "//! A.\n/// What is no opening.\n// what is none either\nfn a() {}\n";
        let kinds = found(&[("a.rs", inner)]).join("; ");
        assert!(!kinds.contains("relative"), "{kinds}");
        assert_eq!(found(&[("data/a.md", "what")]).len(), 0);
    }

    #[test]
    fn lines_of_text_are_counted_and_code_tables_and_links_are_not() {
        let long = "word ".repeat(21);
        let url = format!("https://example.org/{}", "x".repeat(100));
        let cases = [
            (format!("{}\n", "x".repeat(100)), ""),
            (format!("short\n{long}\n{long}\n"), "text docs/a.md 2 docs/a.md:2"),
            (format!("```\n{long}\n```\n"), ""),
            (format!("```\n{long}\n```\n{long}\n"), "text docs/a.md 1 docs/a.md:4"),
            (format!("Code:\n\n    {long}\n    {long}\n"), ""),
            (format!("* item\n    {long}\n"), "text docs/a.md 1 docs/a.md:2"),
            (format!("| {} |\n", "x".repeat(120)), ""),
            (format!("| a | {} |\n| b |\n", "x".repeat(121)), "cell docs/a.md 1 docs/a.md:1"),
            (
                format!("| {} \\| {} |\n", "x".repeat(80), "x".repeat(80)),
                "cell docs/a.md 1 docs/a.md:1",
            ),
            (format!("| [name]({url}) and more |\n"), ""),
            (format!("* [a name]({url}).\n"), ""),
            (format!("[name]: {url}\n"), ""),
            (format!("{url}\n"), ""),
            (format!("See [a name]({url}).\n"), "text docs/a.md 1 docs/a.md:1"),
        ];
        for (text, wanted) in cases {
            assert_eq!(found(&[("docs/a.md", &text)]).join("; "), wanted, "{text}");
        }
    }

    #[test]
    fn only_the_projects_own_pages_are_held_to_the_widths() {
        let long = "word ".repeat(21);
        let count = |path: &str| found(&[(path, &long)]).len();
        let counts =
            ["README.md", "docs/x/a.md", "bench/a.md", "data/a.md", "docs/a.txt"].map(count);
        assert_eq!(counts, [1, 1, 1, 0, 0]);
    }
}
