//! Planted bugs: the list of all crates' bugs, and the rules that each has a place, and that the
//! tests of them are found by their names.
//!
//! A crate declares its bugs in `src/plant.rs`. A bug that no code asks for proves nothing about
//! the campaigns that claim to find it. `./x campaign planted` runs the tests whose names have the
//! word.

use std::fmt;

use super::Finding;
use crate::tree::{TextFile, Tree};

/// The mark of code that only planted bugs need.
const MARK: &str = "#[cfg(feature = \"planted\")]";

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

/// Finds tests behind the feature without `planted` in their names: the campaign does not run them.
fn misnamed_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs").filter(|file| file.path.starts_with("crates/")) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for at in (0..lines.len()).filter(|at| lines[*at] == MARK) {
            let attributes = lines[at..].iter().take_while(|line| line.starts_with("#[")).count();
            let is_test = lines[at..at + attributes].contains(&"#[test]");
            let head = lines.get(at + attributes).copied().unwrap_or_default();
            if is_test && !head.contains("planted") {
                let message =
                    format!("a test of planted bugs without `planted` in its name: {head}");
                findings.push(Finding::new(&file.path, at + attributes + 1, message));
            }
        }
    }
    findings
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
