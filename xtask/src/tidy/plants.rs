//! Planted bugs: the list of all crates' bugs, and the rules that each has a place, and that the
//! tests of them are found by their names.
//!
//! A crate declares its bugs in `src/plant.rs`. A bug that no code asks for proves nothing about
//! the campaigns that claim to find it. `./x campaign planted` runs the tests whose names have the
//! word.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::Finding;
use crate::tree::{TextFile, Tree};

/// The mark of code that only planted bugs need.
const MARK: &str = "#[cfg(feature = \"planted\")]";
/// The mark of a file of such code.
const FILE_MARK: &str = "#![cfg(feature = \"planted\")]";
/// The word in the names of tests that the campaign runs, or of the modules around them.
const WORD: &str = "planted";

/// A planted bug as its crate declares it.
#[derive(Debug, PartialEq, Eq)]
pub struct Plant {
    path: String,
    line: usize,
    crate_name: String,
    name: String,
    about: String,
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {:<28} {}", self.crate_name, self.name, self.about)
    }
}

/// All planted bugs, by crate in the order of their declarations.
pub(crate) fn list(tree: &Tree) -> Vec<Plant> {
    tree.files.iter().filter(|file| is_declaration(&file.path)).flat_map(declared).collect()
}

/// Finds planted bugs without a place, and tests of them under another name.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = without_place(tree);
    findings.extend(misnamed_tests(tree));
    findings
}

/// Finds planted bugs without a place. The simulation's own are wrappers around the parts, which it
/// plants itself.
fn without_place(tree: &Tree) -> Vec<Finding> {
    let is_placed = |plant: &Plant| {
        let own = format!("crates/{}/", plant.crate_name);
        let path = format!("weir_{}::plant", plant.crate_name);
        let name = format!("Plant::{}", plant.name);
        let mut sources = tree.with_extension("rs").filter(|file| file.path.contains("/src/"));
        sources.any(|file| {
            !is_declaration(&file.path)
                && (file.path.starts_with(&own) || file.text.contains(&path))
                && has_word(&file.text, &name)
        })
    };
    let is_asked_for = |plant: &Plant| plant.crate_name != "sim";
    let lost = list(tree).into_iter().filter(|plant| is_asked_for(plant) && !is_placed(plant));
    lost.map(|plant| {
        let message = format!("no code asks for the planted bug `{}`", plant.name);
        Finding::new(&plant.path, plant.line, message)
    })
    .collect()
}

/// Finds tests behind the feature without `planted` in their names, or in that of the module that
/// stands behind it: the campaign does not run them.
fn misnamed_tests(tree: &Tree) -> Vec<Finding> {
    let files = || tree.with_extension("rs").filter(|file| file.path.starts_with("crates/"));
    let marked: BTreeSet<String> = files().flat_map(marked_files).collect();
    files().flat_map(|file| misnamed_in(file, marked.contains(&file.path))).collect()
}

/// Finds such tests in a file, which is behind the feature as a whole if it is marked.
fn misnamed_in(file: &TextFile, is_marked: bool) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_marked = is_marked || lines.contains(&FILE_MARK);
    let modules: Vec<Range<usize>> =
        marked_modules(&lines).into_iter().filter_map(|module| module.body).collect();
    let mut findings = Vec::new();
    for at in (0..lines.len()).filter(|at| lines[*at].trim() == "#[test]") {
        let attributes = attributes_around(&lines, at);
        let head = lines.get(attributes.end).map_or("", |line| line.trim());
        let is_planted = is_marked
            || lines[attributes.clone()].iter().any(|line| line.trim() == MARK)
            || modules.iter().any(|body| body.contains(&at));
        if is_planted && !head.contains(WORD) {
            let message = format!("a test of planted bugs without `{WORD}` in its name: {head}");
            findings.push(Finding::new(&file.path, attributes.end + 1, message));
        }
    }
    findings
}

/// A module behind the feature without `planted` in its name.
struct MarkedModule {
    name: String,
    /// Its lines, from zero; `None` for one in a file of its own.
    body: Option<Range<usize>>,
}

fn marked_modules(lines: &[&str]) -> Vec<MarkedModule> {
    let module_behind = |mark: usize| -> Option<MarkedModule> {
        let at = attributes_around(lines, mark).end;
        let head = lines.get(at)?;
        let (visibility, rest) = head.trim_start().split_once("mod ")?;
        let is_module = visibility.is_empty() || visibility.starts_with("pub");
        if !is_module || rest.contains(WORD) {
            return None;
        }
        let name = rest.trim_end_matches([' ', ';', '{']).to_owned();
        let close = format!("{}}}", &head[..head.len() - head.trim_start().len()]);
        let body = rest.ends_with('{').then(|| {
            let count = lines[at..].iter().take_while(|line| **line != close).count();
            at..at + count
        });
        Some(MarkedModule { name, body })
    };
    let marks = (0..lines.len()).filter(|at| lines[*at].trim() == MARK);
    marks.filter_map(module_behind).collect()
}

/// Returns the paths that the files of such modules of a file may have.
fn marked_files(file: &TextFile) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let (dir, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    let is_target = dir.ends_with("/tests") && dir.split('/').count() == 3;
    let base = match stem {
        "main" | "lib" | "mod" => dir.to_owned(),
        _ if is_target => dir.to_owned(),
        _ => format!("{dir}/{stem}"),
    };
    let modules = marked_modules(&lines).into_iter().filter(|module| module.body.is_none());
    modules
        .flat_map(|MarkedModule { name, .. }| {
            [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
        })
        .collect()
}

/// Returns the lines of the attributes and comments around one of them; behind them is their item.
fn attributes_around(lines: &[&str], at: usize) -> Range<usize> {
    let is_part = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("#[") || line.starts_with("///")
    };
    let before = lines[..at].iter().rev().take_while(is_part).count();
    let behind = lines[at..].iter().take_while(is_part).count();
    at - before..at + behind
}

fn is_declaration(path: &str) -> bool {
    path.starts_with("crates/") && path.ends_with("/src/plant.rs")
}

/// True if `text` holds `word` and the name does not go on behind it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text[at + word.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
    })
}

/// The variants of the file's `enum Plant`, each with the first sentence of its comment.
fn declared(file: &TextFile) -> Vec<Plant> {
    let crate_name = file.path.split('/').nth(1).unwrap_or_default();
    let lines = (1..).zip(file.text.lines().map(str::trim));
    let body = lines
        .skip_while(|(_, line)| !line.contains("pub enum Plant {"))
        .skip(1)
        .take_while(|(_, line)| *line != "}");
    let (mut plants, mut about) = (Vec::new(), String::new());
    for (line, text) in body {
        if let Some(words) = text.strip_prefix("///") {
            about.push_str(words);
        } else if let Some(name) = text.strip_suffix(',') {
            let about = std::mem::take(&mut about).trim().to_owned();
            let (path, crate_name) = (file.path.clone(), crate_name.to_owned());
            // A variant with a field stands for the bugs of another crate.
            if !name.contains('(') {
                plants.push(Plant { path, line, crate_name, name: name.to_owned(), about });
            }
        }
    }
    plants
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "
        weir_plant::plants! {
            /// Bugs.
            pub enum Plant {
                /// The first
                /// one.
                First,
                /// The other.
                FirstAgain,
            }
        }";

    #[test]
    fn planted_bugs_are_listed_with_their_comments() {
        let tree = Tree::of(&[("crates/log/src/plant.rs", DECLARED)]);
        let shown: Vec<String> = list(&tree).iter().map(ToString::to_string).collect();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&shown[0]), words("log First The first one."));
        assert_eq!(words(&shown[1]), words("log FirstAgain The other."));
    }

    #[test]
    fn a_test_of_planted_bugs_that_the_campaign_passes_over_is_found() {
        let found = |name: &str| {
            let text = format!("{MARK}\n#[test]\nfn {name}() {{}}\n");
            check(&Tree::of(&[("crates/log/tests/a.rs", &text)])).len()
        };
        assert_eq!((found("a_planted_bug_is_found"), found("the_bug_is_found")), (0, 1));
        let helper = format!("{MARK}\nfn finds() {{}}\n#[test]\nfn it_works() {{}}\n");
        assert!(check(&Tree::of(&[("crates/log/tests/a.rs", &helper)])).is_empty());
    }

    #[test]
    fn a_mark_below_or_around_a_test_of_planted_bugs_counts_too() {
        let test = |name: &str| format!("#[test]\nfn {name}() {{}}\n");
        let (bad, good) = (test("the_bug_is_found"), test("a_planted_bug_is_found"));
        let module = |name: &str, test: &str| format!("{MARK}\nmod {name} {{\n{test}}}\n{bad}");
        for (text, want) in [
            (format!("#[test]\n{MARK}\nfn the_bug_is_found() {{}}\n"), vec![3]),
            (format!("#[test]\n/// All.\n{MARK}\nfn the_bug_is_found() {{}}\n"), vec![4]),
            (format!("#[test]\n{MARK}\nfn a_planted_bug_is_found() {{}}\n"), vec![]),
            (format!("{FILE_MARK}\n{bad}"), vec![3]),
            (format!("{FILE_MARK}\n{good}"), vec![]),
            // The test behind the module is not in it.
            (module("bugs", &bad), vec![4]),
            (module("bugs", &good), vec![]),
            (module("planted", &bad), vec![]),
        ] {
            let found = check(&Tree::of(&[("crates/log/tests/a.rs", &text)]));
            let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
            assert_eq!(lines, want, "{text}");
        }
    }

    #[test]
    fn the_file_of_a_module_of_planted_bugs_is_held_to_the_names() {
        let root = format!("mod other;\n{MARK}\nmod bugs;\n{MARK}\nmod planted;\n");
        let test = "#[test]\nfn the_bug_is_found() {}\n";
        for (root_path, dir) in [
            ("crates/log/tests/a/main.rs", "crates/log/tests/a"),
            ("crates/log/tests/a.rs", "crates/log/tests"),
            ("crates/log/src/lib.rs", "crates/log/src"),
            ("crates/log/src/disk/tests.rs", "crates/log/src/disk/tests"),
        ] {
            let path = |name: &str| format!("{dir}/{name}");
            let [bugs, other, planted] = ["bugs.rs", "other.rs", "planted.rs"].map(path);
            let files = [(root_path, &root[..]), (&bugs, test), (&other, test), (&planted, test)];
            let found = check(&Tree::of(&files));
            let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
            assert_eq!(paths, [bugs.as_str()], "{root_path}");
        }
    }

    #[test]
    fn a_planted_bug_without_a_place_is_found() {
        let place = |text| [("crates/log/src/plant.rs", DECLARED), ("crates/log/src/a.rs", text)];
        let found = |files: &[(&str, &str)]| check(&Tree::of(files)).len();
        assert_eq!(found(&place("is(Plant::First) || is(Plant::FirstAgain)")), 0);
        assert_eq!(found(&place("is(Plant::FirstAgain)")), 1, "a longer name is another one");
        let elsewhere = ("crates/other/src/a.rs", "use weir_log::plant; is(Plant::First)");
        assert_eq!(found(&[place("is(Plant::FirstAgain)")[0], elsewhere]), 1);
        let of_others = ("crates/other/src/a.rs", "is(Plant::First) || is(Plant::FirstAgain)");
        assert_eq!(found(&[place("")[0], of_others]), 2);
    }
}
