//! Tables of results: one row a figure, with its goal and verdict, rendered as Markdown.
//!
//! A row's figure comes from the newest line of a clean commit, of the row's variant where it has
//! one. The verdict is the one that the line carries in its `goals`, as long as the goal is still
//! the same; older lines are judged here by the same rules. A line without the path says so.

use std::fmt::Write;

use serde_json::Value;

use super::goals::{Benchmark, Goal, Goals, Reading, Row};
use super::lines::{Line, clean_lines};
use crate::tree::Tree;

const HEAD: &str = "\
| benchmark | figure | goal | value | verdict | machine | commit | date |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The rows that a region holds: `NAME` is a group or a benchmark; `goals NAME` are those of its
/// rows that have a goal, `figures NAME` those that have none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region<'a> {
    with_goal: Option<bool>,
    name: &'a str,
}

impl<'a> Region<'a> {
    pub(crate) fn parse(text: &'a str) -> Region<'a> {
        match text.split_once(' ') {
            Some(("goals", name)) => Region { with_goal: Some(true), name },
            Some(("figures", name)) => Region { with_goal: Some(false), name },
            _ => Region { with_goal: None, name: text },
        }
    }

    pub(crate) fn holds(self, benchmark: &Benchmark, row: &Row) -> bool {
        let is_named = benchmark.group == self.name || benchmark.name == self.name;
        is_named && self.with_goal.is_none_or(|wanted| wanted == row.goal.is_some())
    }

    pub(crate) fn is_empty(self, goals: &Goals) -> bool {
        let mut rows = goals.benchmarks.iter().flat_map(|b| b.rows.iter().map(move |row| (b, row)));
        !rows.any(|(benchmark, row)| self.holds(benchmark, row))
    }
}

/// The table of a region.
pub(crate) fn results(tree: &Tree, goals: &Goals, region: Region<'_>) -> Result<String, String> {
    let mut text = HEAD.to_string();
    for benchmark in &goals.benchmarks {
        let lines = clean_lines(tree, &benchmark.name)?;
        let mut before: Option<(&str, Option<&str>)> = None;
        for row in benchmark.rows.iter().filter(|row| region.holds(benchmark, row)) {
            let line = lines.iter().find(|line| benchmark.applies(row, &line.figures));
            let place = (benchmark.name.as_str(), line.map(|line| line.commit.as_str()));
            let is_same = before == Some(place);
            // Figures without a goal that were never recorded are one row together.
            if is_same && line.is_none() && row.goal.is_none() {
                continue;
            }
            text.push_str(&cells(benchmark, row, line, is_same));
            before = Some(place);
        }
    }
    Ok(text)
}

/// The list of all benchmarks.
pub(crate) fn index(goals: &Goals) -> String {
    let mut text = "| benchmark | measures | beside |\n| --- | --- | --- |\n".to_string();
    for Benchmark { name, shows, beside, .. } in &goals.benchmarks {
        writeln!(text, "| `{name}` | {shows} | {beside} |").expect("a string takes any text");
    }
    text
}

/// One row. The benchmark's name and its line's origin stand in the first row of a line only.
fn cells(benchmark: &Benchmark, row: &Row, line: Option<&Line>, is_same: bool) -> String {
    let goal = row.goal.map_or(String::new(), |goal| told_goal(goal, &row.unit));
    let (value, verdict) = match line {
        None => ("no line of a clean commit".to_string(), "no verdict".to_string()),
        Some(line) => value_and_verdict(row, &line.figures),
    };
    let verdict = if row.goal.is_none() { "no goal" } else { &verdict };
    let (name, machine, commit, day) = match line {
        _ if is_same => ("", "", "", ""),
        None => (benchmark.name.as_str(), "", "", ""),
        Some(line) => {
            (benchmark.name.as_str(), &*line.machine, line.commit.as_str(), line.day.as_str())
        }
    };
    let name = if name.is_empty() { String::new() } else { format!("`{name}`") };
    let what = if line.is_none() && row.goal.is_none() { "all" } else { &row.what };
    format!("| {name} | {what} | {goal} | {value} | {verdict} | {machine} | {commit} | {day} |\n")
}

fn value_and_verdict(row: &Row, figures: &Value) -> (String, String) {
    let none = "no verdict".to_string();
    let (reading, met) = match recorded(row, figures) {
        Some(recorded) => recorded,
        None => match row.read(figures) {
            Err(_) => return ("not recorded in this line".to_string(), none),
            Ok(reading) => (reading, reading.and_then(|reading| row.judge(reading))),
        },
    };
    let Some(reading) = reading else { return ("no valid run".to_string(), none) };
    let verdict = match met {
        Some(true) => "met",
        Some(false) => "not met",
        None => "not resolved",
    };
    let is_split = met.is_some() && row.judged_by_all(reading).is_none();
    let verdict = format!("{verdict}{}", if is_split { " by the median" } else { "" });
    (told(reading, &row.unit), verdict)
}

/// The line's own entry for this goal, if it was recorded with the goal that holds today.
fn recorded(row: &Row, figures: &Value) -> Option<(Option<Reading>, Option<bool>)> {
    let goals = figures.get("goals")?.as_array()?;
    let entry = goals.iter().find(|goal| goal["what"] == row.what.as_str())?;
    let is = match row.goal? {
        Goal::AtLeast(_) => "at_least",
        Goal::AtMost(_) => "at_most",
    };
    let is_todays = entry["goal"].as_f64() == row.goal.map(Goal::number)
        && entry["is"] == is
        && entry["unit"] == row.unit.as_str();
    if !is_todays {
        return None;
    }
    let interval = &entry["interval"];
    let reading = entry["value"]
        .as_f64()
        .map(|value| Reading { value, interval: interval[0].as_f64().zip(interval[1].as_f64()) });
    Some((reading, entry["met"].as_bool()))
}

fn told_goal(goal: Goal, unit: &str) -> String {
    let sign = if matches!(goal, Goal::AtLeast(_)) { '≥' } else { '≤' };
    with_unit(&format!("{sign} {}", number(goal.number())), unit)
}

fn told(reading: Reading, unit: &str) -> String {
    let value = with_unit(&number(reading.value), unit);
    match reading.interval {
        Some((low, high)) if low != high => {
            format!("{value} [{}, {}]", number(low), number(high))
        }
        _ => value,
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    match unit {
        "" => number.to_string(),
        unit if unit.starts_with('/') => format!("{number}{unit}"),
        unit => format!("{number} {unit}"),
    }
}

/// Three significant digits, or a small whole number as it is: 1.72 million, 461,000, 12.8, 0.94.
fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 999_500.0 {
        return format!("{} million", number(value / 1e6));
    }
    if size < 1000.0 && value.fract() == 0.0 {
        return format!("{value}");
    }
    if size >= 999.5 {
        let scale = 10f64.powf(size.log10().floor() - 2.0);
        let rounded = format!("{:.0}", (value / scale).round() * scale);
        return thousands(&rounded);
    }
    let decimals = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let behind = digits.len() - index;
        if index > 0 && behind.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOALS: &str = r#"
        [[benchmark]]
        name = "log"
        group = "g"
        shows = "appends"
        beside = "a loop"
        variants = { large = "size=2" }
        [[benchmark.row]]
        what = "rate"
        path = "rate"
        unit = "/s"
        at_least = 10
        source = "design"
        [[benchmark.row]]
        what = "delay"
        path = "delay"
        unit = "ns"
        [[benchmark.row]]
        what = "large"
        path = "rate"
        at_most = 3
        source = "design"
        variant = "large"
    "#;

    fn rows(lines: &[&str]) -> Vec<String> {
        let goals = Goals::parse(GOALS).unwrap();
        let tree = Tree::of(&[("bench/results/log.jsonl", lines.join("\n").as_str())]);
        let table = results(&tree, &goals, Region::parse("g")).unwrap();
        table.strip_prefix(HEAD).unwrap().lines().map(str::to_string).collect()
    }

    fn line(figures: &str, clean: bool, day: u32) -> String {
        format!(
            r#"{{{figures},"run":{{"commit":"c{day}56789","commit_is_clean":{clean},
            "time_utc":"2026-01-{day:02}T","cpu":"AMD EPYC","cores":2}}}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn the_newest_clean_line_of_a_rows_variant_is_shown_once() {
        let lines = [
            line(r#""rate":1,"delay":5,"size":2"#, true, 11),
            line(r#""rate":12,"delay":{"median":6.25,"low":6,"high":7},"size":1"#, true, 12),
            line(r#""rate":99,"delay":1,"size":2"#, false, 13),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(
            rows(&lines),
            [
                "| `log` | rate | ≥ 10/s | 12/s | met | AMD EPYC, 2 cores | c125678 | 2026-01-12 |",
                "|  | delay |  | 6.25 ns [6, 7] | no goal |  |  |  |",
                "| `log` | large | ≤ 3 | 1 | met | AMD EPYC, 2 cores | c115678 | 2026-01-11 |",
            ]
        );
    }

    #[test]
    fn a_region_holds_a_groups_rows_a_benchmarks_or_a_kind_of_them() {
        let goals = Goals::parse(GOALS).unwrap();
        let benchmark = &goals.benchmarks[0];
        let cases = [
            ("g", "rate delay large"),
            ("log", "rate delay large"),
            ("goals g", "rate large"),
            ("figures log", "delay"),
            ("goals", ""),
            ("goals h", ""),
        ];
        for (text, wanted) in cases {
            let region = Region::parse(text);
            let rows = benchmark.rows.iter().filter(|row| region.holds(benchmark, row));
            let names: Vec<&str> = rows.map(|row| row.what.as_str()).collect();
            assert_eq!(names.join(" "), wanted, "{text}");
            assert_eq!(region.is_empty(&goals), wanted.is_empty(), "{text}");
        }
    }

    #[test]
    fn nothing_is_guessed_where_a_line_or_a_path_is_missing() {
        let none = rows(&[]);
        assert_eq!(none.len(), 2, "the figure without a goal is not a row of its own: {none:?}");
        assert_eq!(
            none[0],
            "| `log` | rate | ≥ 10/s | no line of a clean commit | no verdict |  |  |  |"
        );
        let short = line(r#""rate":null,"size":2"#, true, 11);
        let short = rows(&[&short]);
        assert!(short[0].contains("| no valid run | no verdict |"), "{short:?}");
        assert!(short[1].contains("| not recorded in this line | no goal |"), "{short:?}");
    }

    #[test]
    fn a_verdict_of_the_median_alone_says_so() {
        let of = |rate: &str| {
            let line = line(&format!(r#""rate":{{"median":12,{rate}}},"delay":1"#), true, 11);
            rows(&[&line])[0].clone()
        };
        assert!(of(r#""low":11,"high":13"#).contains("| 12/s [11, 13] | met |"));
        assert!(of(r#""low":9,"high":13"#).contains("| 12/s [9, 13] | met by the median |"));
    }

    #[test]
    fn a_lines_own_verdict_counts_while_the_goal_is_the_same() {
        let entry = |goal: u32| {
            let goals = format!(
                r#""goals":[{{"what":"rate","goal":{goal},"is":"at_least","unit":"/s",
                "value":7.5,"interval":null,"met":null}}]"#
            );
            rows(&[&line(&format!(r#""rate":4,"delay":1,{goals}"#), true, 11)])[0].clone()
        };
        assert!(entry(10).contains("| 7.50/s | not resolved |"), "{}", entry(10));
        assert!(entry(9).contains("| 4/s | not met |"), "{}", entry(9));
    }

    #[test]
    fn numbers_have_three_digits_and_no_more_than_they_need() {
        let cases = [
            (0.0, "0"),
            (34.0, "34"),
            (0.0123, "0.012"),
            (0.94321, "0.94"),
            (1.1, "1.10"),
            (12.817, "12.8"),
            (277.05, "277"),
            (999.7, "1,000"),
            (1893.0, "1,890"),
            (461_325.0, "461,000"),
            (999_700.0, "1.00 million"),
            (1_718_648.0, "1.72 million"),
            (3_000_000.0, "3 million"),
            (-0.5, "-0.50"),
        ];
        for (value, wanted) in cases {
            assert_eq!(number(value), wanted);
        }
    }

    #[test]
    fn the_index_names_each_benchmark() {
        let index = index(&Goals::parse(GOALS).unwrap());
        assert!(index.ends_with("| `log` | appends | a loop |\n"), "{index}");
    }
}
