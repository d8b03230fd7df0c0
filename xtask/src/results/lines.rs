//! Recorded lines: `bench/results/NAME.jsonl`, one JSON object a run.
//!
//! Only lines of a clean commit are read: `record.py` notes whether files that git knows were
//! changed while the benchmark ran, and a line that does not say `true` is never quoted. Of several
//! the one with the latest time counts, wherever it stands in its file.

use serde_json::Value;

use crate::tree::Tree;

/// The folder of the recorded lines, from the project's root.
pub(crate) const RESULTS_DIR: &str = "bench/results/";

/// A line of a clean commit.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) figures: Value,
    /// The commit's first seven digits.
    pub(crate) commit: String,
    /// The day, as 2026-11-23.
    pub(crate) day: String,
    pub(crate) machine: String,
    time: String,
}

/// The lines of `name` that may be quoted, latest first; a line that is not JSON is an error.
pub(crate) fn clean_lines(tree: &Tree, name: &str) -> Result<Vec<Line>, String> {
    let path = format!("{RESULTS_DIR}{name}.jsonl");
    let text = match tree.text(&path) {
        None if tree.has(&path) => return Err(format!("{path}: is too large, or is no text")),
        text => text.unwrap_or(""),
    };
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let figures: Value = serde_json::from_str(text)
            .map_err(|error| format!("{path}:{}: is not JSON: {error}", index + 1))?;
        let run = &figures["run"];
        if run["commit_is_clean"] != Value::Bool(true) {
            continue;
        }
        let word = |key: &str| run[key].as_str().unwrap_or("").to_string();
        let time = word("time_utc");
        lines.push(Line {
            commit: word("commit").chars().take(7).collect(),
            day: time.chars().take(10).collect(),
            machine: machine(&word("cpu"), run["cores"].as_u64()),
            time,
            figures,
        });
    }
    lines.sort_by(|a, b| b.time.cmp(&a.time));
    Ok(lines)
}

/// The processor's name without marks and speeds, and the number of cores.
fn machine(cpu: &str, cores: Option<u64>) -> String {
    let cpu = cpu.split('@').next().unwrap_or("").replace("(R)", "").replace("(TM)", "");
    let words: Vec<&str> =
        cpu.split_whitespace().filter(|word| !["Processor", "CPU"].contains(word)).collect();
    match cores {
        Some(cores) => format!("{}, {cores} cores", words.join(" ")),
        None => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(commit: &str, clean: &str, time: &str) -> String {
        format!(
            r#"{{"run":{{"commit":"{commit}","commit_is_clean":{clean},"time_utc":"{time}"}}}}"#
        ) + "\n"
    }

    #[test]
    fn lines_that_are_not_known_to_be_clean_are_never_taken_and_the_latest_is_first() {
        let text = [
            line("aaaaaaaaa", "true", "2026-01-02T00:00:00+00:00"),
            line("bbbbbbbbb", "true", "2026-01-03T00:00:00+00:00"),
            line("ccccccccc", "true", "2026-01-01T00:00:00+00:00"),
            line("ddddddddd", "false", "2026-01-04T00:00:00+00:00"),
            line("eeeeeeeee", "null", "2026-01-04T00:00:00+00:00"),
            "{}\n".to_string(),
        ]
        .concat();
        let tree = Tree::of(&[("bench/results/a.jsonl", text.as_str())]);
        let lines = clean_lines(&tree, "a").unwrap();
        let seen: Vec<_> = lines.iter().map(|l| (l.commit.as_str(), l.day.as_str())).collect();
        let wanted =
            [("bbbbbbb", "2026-01-03"), ("aaaaaaa", "2026-01-02"), ("ccccccc", "2026-01-01")];
        assert_eq!(seen, wanted);
        assert!(clean_lines(&tree, "b").unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_not_json_is_an_error_with_its_place() {
        let tree = Tree::of(&[("bench/results/a.jsonl", "{}\nfast\n")]);
        let error = clean_lines(&tree, "a").unwrap_err();
        assert!(error.starts_with("bench/results/a.jsonl:2: is not JSON"), "{error}");
    }

    #[test]
    fn a_file_that_the_tree_has_not_read_is_an_error_and_not_an_absence() {
        let mut tree = Tree::of(&[]);
        tree.paths.push("bench/results/a.jsonl".to_string());
        assert!(clean_lines(&tree, "a").unwrap_err().contains("too large"));
        assert!(clean_lines(&tree, "b").unwrap().is_empty());
    }

    #[test]
    fn a_machine_is_told_in_a_few_words() {
        let cases = [
            ("Intel(R) Xeon(R) Processor", Some(2), "Intel Xeon, 2 cores"),
            ("AMD EPYC", Some(64), "AMD EPYC, 64 cores"),
            ("Intel(R) Core(TM) i7 CPU @ 3.40GHz", None, "Intel Core i7"),
        ];
        for (cpu, cores, wanted) in cases {
            assert_eq!(machine(cpu, cores), wanted);
        }
    }
}
