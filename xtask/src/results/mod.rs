//! Tables of benchmark results in documents, generated from `bench/results/*.jsonl`.
//!
//! A page marks a region by `<!-- results:NAME -->` and `<!-- end of results -->`. NAME is a group
//! of `bench/goals.toml` or one of its benchmarks; `goals` or `figures` before it takes the rows
//! with a goal or those without; `index` is the list of all benchmarks. `xtask results` fills the
//! regions, `xtask results --check` and `xtask tidy` fail where one is stale. Each row stands in
//! exactly one region, so that no figure is stated twice, and no table is ever made of a line that
//! is not of a clean commit.

mod goals;
mod lines;
mod select;
mod table;

use std::io::{self, Read};
use std::path::Path;

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};
use goals::{GOALS_PATH, Goals};
use lines::RESULTS_DIR;
use table::Region;

const BEGIN: &str = "<!-- results:";
const END: &str = "<!-- end of results -->";
const INDEX: &str = "index";
/// The list of all benchmarks that `./x bench` runs: the lines that begin so.
const RUNNER: (&str, &str) = ("x", "BENCHES=\"");

/// Fills every region and writes the pages that change; returns their paths.
///
/// # Errors
///
/// When the tree cannot be read or written, or the goals or a region are broken.
pub fn write(root: &Path) -> io::Result<Vec<String>> {
    let tree = Tree::read(root)?;
    let goals = read_goals(&tree).map_err(|finding| io::Error::other(finding.to_string()))?;
    let mut written = Vec::new();
    for page in tree.with_extension("md") {
        let filled = filled(&tree, &goals, page);
        let filled = filled.map_err(|finding| io::Error::other(finding.to_string()))?;
        if filled != page.text {
            std::fs::write(root.join(&page.path), filled)?;
            written.push(page.path.clone());
        }
    }
    Ok(written)
}

/// The findings of [`check`] on the project under `root`.
///
/// # Errors
///
/// When the tree cannot be read.
pub fn check_tree(root: &Path) -> io::Result<Vec<Finding>> {
    Ok(check(&Tree::read(root)?))
}

/// The `goals` of a benchmark's line, which is read from `input`, as a JSON array.
///
/// # Errors
///
/// When the benchmark is unknown, the line is not JSON, or a figure is not where it should be.
pub fn goals_of(root: &Path, name: &str, mut input: impl Read) -> Result<String, String> {
    let path = root.join(GOALS_PATH);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{GOALS_PATH}: {e}"))?;
    let goals = Goals::parse(&text).map_err(|error| format!("{GOALS_PATH}: {error}"))?;
    let benchmark = goals
        .benchmark(name)
        .ok_or_else(|| format!("{GOALS_PATH} has no benchmark `{name}`: add it"))?;
    let mut line = String::new();
    input.read_to_string(&mut line).map_err(|error| error.to_string())?;
    let line = serde_json::from_str(&line).map_err(|error| format!("{name}: not JSON: {error}"))?;
    let goals = benchmark.goals_of(&line).map_err(|errors| {
        format!("the line of {name} lacks figures of {GOALS_PATH}:\n  {}", errors.join("\n  "))
    })?;
    Ok(goals.to_string())
}

/// Stale or broken regions, benchmarks that stand in no region or in two, and benchmarks that
/// `./x bench` and the goals do not both know.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let goals = match read_goals(tree) {
        Ok(goals) => goals,
        Err(finding) => return vec![finding],
    };
    let mut findings = check_names(tree, &goals);
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for page in tree.with_extension("md") {
        match filled(tree, &goals, page) {
            Err(finding) => findings.push(finding),
            Ok(filled) if filled != page.text => findings.push(stale(page, &filled)),
            Ok(_) => {}
        }
        seen.extend(regions(&page.text).map(|(_, name)| (name, page.path.as_str())));
    }
    findings.extend(check_places(&goals, &seen));
    findings
}

/// Each row stands in one region; `seen` are the names and pages of all regions.
fn check_places(goals: &Goals, seen: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for benchmark in &goals.benchmarks {
        for row in &benchmark.rows {
            let holding = seen.iter().filter(|(name, _)| Region::parse(name).holds(benchmark, row));
            let places: Vec<&str> = holding.map(|(_, path)| *path).collect();
            if places.len() != 1 {
                let message = format!(
                    "`{}` of `{}` stands in {places:?}: put it into one region",
                    row.what, benchmark.name
                );
                findings.push(Finding::new(GOALS_PATH, 0, message));
            }
        }
    }
    findings
}

fn read_goals(tree: &Tree) -> Result<Goals, Finding> {
    let text = tree.text(GOALS_PATH).ok_or_else(|| Finding::new(GOALS_PATH, 0, "is missing"))?;
    Goals::parse(text).map_err(|error| Finding::new(GOALS_PATH, 0, error))
}

/// Names in `x`, in the goals and of the files of results agree.
fn check_names(tree: &Tree, goals: &Goals) -> Vec<Finding> {
    let (path, mark) = RUNNER;
    let lists = tree.text(path).unwrap_or("").lines().filter_map(|line| line.strip_prefix(mark));
    let run: Vec<&str> = lists
        .flat_map(|list| list.trim_end_matches('"').split_whitespace())
        .filter(|word| !word.starts_with('$'))
        .collect();
    let mut findings = Vec::new();
    for name in run.iter().filter(|name| goals.benchmark(name).is_none()) {
        let message = format!("lacks the benchmark `{name}`, which ./x bench runs");
        findings.push(Finding::new(GOALS_PATH, 0, message));
    }
    for benchmark in goals.benchmarks.iter().filter(|b| !run.contains(&b.name.as_str())) {
        let message = format!("`{}` is none of the benchmarks of ./x bench", benchmark.name);
        findings.push(Finding::new(GOALS_PATH, 0, message));
    }
    for path in tree.files.iter().map(|file| file.path.as_str()) {
        let name = path.strip_prefix(RESULTS_DIR).and_then(|file| file.strip_suffix(".jsonl"));
        let Some(name) = name else { continue };
        if goals.benchmark(name).is_none() && !goals.retired.iter().any(|gone| gone == name) {
            findings.push(Finding::new(path, 0, format!("is of no benchmark of {GOALS_PATH}")));
        }
    }
    findings
}

/// The regions of a page: the line of their mark, from 1, and their name.
fn regions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let name = line.strip_prefix(BEGIN)?.strip_suffix("-->")?;
        Some((index + 1, name.trim()))
    })
}

/// The page with every region made anew.
fn filled(tree: &Tree, goals: &Goals, page: &TextFile) -> Result<String, Finding> {
    let broken = |line: usize, message: String| Finding::new(&page.path, line, message);
    let mut text = String::new();
    let mut rest = page.text.as_str();
    let mut done = 0;
    while let Some((line, name)) = regions(rest).next() {
        let head: String = rest.split_inclusive('\n').take(line).collect();
        let body = rest.strip_prefix(head.as_str()).unwrap_or("");
        let unclosed = || broken(done + line, format!("`{BEGIN}{name} -->` has no `{END}`"));
        let at = body.find(END).ok_or_else(unclosed)?;
        if regions(&body[..at]).next().is_some() {
            return Err(unclosed());
        }
        let table = match name {
            INDEX => table::index(goals),
            _ if Region::parse(name).is_empty(goals) => {
                return Err(broken(done + line, format!("{GOALS_PATH} has no rows of `{name}`")));
            }
            _ => table::results(tree, goals, Region::parse(name))
                .map_err(|error| broken(done + line, error))?,
        };
        text.push_str(&format!("{head}\n{table}\n"));
        done += line + body[..at].lines().count();
        rest = &body[at..];
    }
    text.push_str(rest);
    Ok(text)
}

fn stale(page: &TextFile, filled: &str) -> Finding {
    let pairs = page.text.lines().zip(filled.lines());
    let line = pairs.take_while(|(is, should)| is == should).count() + 1;
    let message = "the generated tables are stale or edited: run `cargo run -p xtask -- results`";
    Finding::new(&page.path, line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOALS: &str = "[[benchmark]]\nname = \"log\"\ngroup = \"g\"\nshows = \"appends\"\n\
                         [[benchmark.row]]\nwhat = \"rate\"\npath = \"rate\"\nunit = \"/s\"\n";
    const LINE: &str = r#"{"rate":7,"run":{"commit":"abcdefgh","commit_is_clean":true,
        "time_utc":"2026-01-02T03","cpu":"AMD","cores":2}}"#;
    const X: &str = "BENCHES=\"log\"\n";

    fn tree(page: &str, goals: &str, x: &str) -> Tree {
        let line = LINE.replace('\n', "") + "\n";
        Tree::of(&[
            ("a.md", page),
            (GOALS_PATH, goals),
            ("x", x),
            ("bench/results/log.jsonl", &line),
        ])
    }

    fn findings(page: &str) -> Vec<String> {
        check(&tree(page, GOALS, X)).iter().map(ToString::to_string).collect()
    }

    fn page_of(text: &str) -> String {
        let tree = tree(text, GOALS, X);
        filled(&tree, &Goals::parse(GOALS).unwrap(), &tree.files[0]).unwrap()
    }

    const EMPTY: &str = "# A\n\n<!-- results:g -->\n<!-- end of results -->\n\nMore.\n";

    #[test]
    fn a_region_is_filled_once_and_filling_it_again_changes_nothing() {
        let page = page_of(EMPTY);
        assert!(page.contains("| `log` | rate |  | 7/s | no goal | AMD, 2 cores | abcdefg |"));
        assert!(page.starts_with("# A\n\n<!-- results:g -->\n\n| benchmark |"), "{page}");
        assert!(page.ends_with("|\n\n<!-- end of results -->\n\nMore.\n"), "{page}");
        assert_eq!(page_of(&page), page);
        assert_eq!(findings(&page), [""; 0]);
    }

    #[test]
    fn a_page_has_as_many_regions_as_it_likes() {
        let page = page_of(&format!("<!-- results:index -->\n{END}\n{EMPTY}"));
        assert!(page.contains("| `log` | appends |  |") && page.contains("| 7/s |"), "{page}");
        assert_eq!(findings(&page), [""; 0]);
    }

    #[test]
    fn a_stale_or_edited_table_is_found_at_its_line() {
        let stale = findings(EMPTY);
        assert!(stale[0].starts_with("a.md:4: the generated tables are stale"), "{stale:?}");
        let edited = findings(&page_of(EMPTY).replace("7/s", "8/s"));
        assert!(edited[0].starts_with("a.md:7: the generated tables are stale"), "{edited:?}");
    }

    #[test]
    fn a_broken_region_is_found() {
        let cases = [
            ("\n<!-- results:g -->\n", "a.md:2: `<!-- results:g -->` has no"),
            (
                "<!-- results:h -->\n<!-- end of results -->\n",
                "a.md:1: bench/goals.toml has no rows of `h`",
            ),
            ("Nothing.\n", "bench/goals.toml: `rate` of `log` stands in []"),
        ];
        for (page, wanted) in cases {
            let found = findings(page);
            assert!(found.iter().any(|f| f.starts_with(wanted)), "{page}: {found:?}");
        }
        let twice = page_of(&format!("{EMPTY}{EMPTY}"));
        let found = findings(&twice);
        assert!(found[0].contains("stands in [\"a.md\", \"a.md\"]"), "{found:?}");
    }

    #[test]
    fn names_that_only_one_side_knows_are_found() {
        let page = page_of(EMPTY);
        let found = |goals: &str, x: &str| {
            let findings = check(&tree(&page, goals, x));
            findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(found(GOALS, "BENCHES=\"log\"\nBENCHES=\"$BENCHES\"\n"), "");
        assert!(found(GOALS, "BENCHES=\"log wire\"\n").contains("lacks the benchmark `wire`"));
        assert!(found(GOALS, "").contains("`log` is none of the benchmarks"));
        let other = GOALS.replace("\"log\"", "\"wire\"");
        let orphan = found(&other, "BENCHES=\"wire\"\n");
        assert!(orphan.contains("bench/results/log.jsonl: is of no benchmark"), "{orphan}");
        let retired = found(&format!("retired = [\"log\"]\n{other}"), "BENCHES=\"wire\"\n");
        assert!(!retired.contains("is of no benchmark"), "{retired}");
        assert!(found("x", X).contains("bench/goals.toml: is not TOML"));
    }
}
