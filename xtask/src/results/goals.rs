//! `bench/goals.toml`: the benchmarks, the figures that their tables show, and the goals.
//!
//! A row names one figure of a benchmark's JSON line by its [`Path`] and may set a goal for it. The
//! same rows serve both ends: `record.py` asks for the goals of a fresh line, where a missing path
//! is an error, and the tables show them. A figure that has no number, or whose run says that it is
//! not valid, has no verdict.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toml::Table;

use super::select::{Condition, Path};

/// The file's path from the project's root.
pub(crate) const GOALS_PATH: &str = "bench/goals.toml";

/// All of `bench/goals.toml`.
#[derive(Debug)]
pub(crate) struct Goals {
    /// Benchmarks in the file's order.
    pub(crate) benchmarks: Vec<Benchmark>,
    /// Names of benchmarks that are gone; their lines stay in `bench/results/`.
    pub(crate) retired: Vec<String>,
}

/// One benchmark.
#[derive(Debug)]
pub(crate) struct Benchmark {
    pub(crate) name: String,
    /// The table that holds its rows.
    pub(crate) group: String,
    /// The measurement, as a phrase.
    pub(crate) shows: String,
    /// The peers of the comparison; empty for none.
    pub(crate) beside: String,
    /// Conditions on a line by the variant's name.
    variants: BTreeMap<String, Vec<Condition>>,
    pub(crate) rows: Vec<Row>,
}

/// One figure of a benchmark.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    path: Path,
    /// The figure is divided by this one.
    over: Option<Path>,
    scale: f64,
    pub(crate) unit: String,
    pub(crate) goal: Option<Goal>,
    /// True when the whole interval must keep the goal, not its median alone.
    by_interval: bool,
    /// A flag of the line; when it is false there is no verdict.
    valid: Option<Path>,
    pub(crate) variant: Option<String>,
}

/// A number to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure as a line has it, in its row's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl Goal {
    /// True when met, false when not, nothing when the interval holds the goal's number.
    fn judge(self, reading: Reading, by_interval: bool) -> Option<bool> {
        let (low, high) = match reading.interval {
            Some(interval) if by_interval => interval,
            _ => (reading.value, reading.value),
        };
        let (is_met, is_missed) = match self {
            Goal::AtLeast(number) => (low >= number, high < number),
            Goal::AtMost(number) => (high <= number, low > number),
        };
        if is_met || is_missed { Some(is_met) } else { None }
    }

    pub(crate) fn number(self) -> f64 {
        match self {
            Goal::AtLeast(number) | Goal::AtMost(number) => number,
        }
    }

    fn worst(self, readings: &[Reading]) -> Option<Reading> {
        let is_worse = |a: &Reading, b: &Reading| match self {
            Goal::AtLeast(_) => b.value.total_cmp(&a.value),
            Goal::AtMost(_) => a.value.total_cmp(&b.value),
        };
        readings.iter().copied().max_by(is_worse)
    }
}

impl Row {
    /// The figure of `line`: an error when the line's layout has no such path, nothing when the
    /// line gives no verdict on it. Of several elements the worst counts.
    pub(crate) fn read(&self, line: &Value) -> Result<Option<Reading>, String> {
        let named = |error: String| format!("`{}`: {error}", self.what);
        if let Some(valid) = &self.valid
            && valid.find(line).map_err(named)?.iter().any(|flag| **flag == Value::Bool(false))
        {
            return Ok(None);
        }
        let found = self.path.find(line).map_err(named)?;
        if found.iter().any(|value| value.is_null()) {
            return Ok(None);
        }
        let readings: Option<Vec<Reading>> = found.into_iter().map(reading).collect();
        let readings = readings.ok_or_else(|| named("is not a number".to_string()))?;
        let worst = match (self.goal, readings.as_slice()) {
            (_, [only]) => Some(*only),
            (goal, readings) => goal.and_then(|goal| goal.worst(readings)),
        };
        let worst = worst.ok_or_else(|| named("is several figures without a goal".to_string()))?;
        let Some(divisor) = self.divisor(line).map_err(named)? else { return Ok(None) };
        let scaled = |value: f64| value * self.scale / divisor.value;
        // The interval of a quotient of two spreads is unknown.
        let interval = worst.interval.filter(|_| divisor.interval.is_none());
        Ok(Some(Reading {
            value: scaled(worst.value),
            interval: interval.map(|(low, high)| (scaled(low), scaled(high))),
        }))
    }

    fn divisor(&self, line: &Value) -> Result<Option<Reading>, String> {
        let Some(over) = &self.over else {
            return Ok(Some(Reading { value: 1.0, interval: None }));
        };
        match over.find(line)?.as_slice() {
            [Value::Null] => Ok(None),
            [value] => match reading(value) {
                Some(divisor) if divisor.value != 0.0 => Ok(Some(divisor)),
                _ => Err("its divisor is not a number, or zero".to_string()),
            },
            _ => Err("its divisor is several figures".to_string()),
        }
    }

    /// The verdict of the whole interval, whatever the row judges by.
    pub(crate) fn judged_by_all(&self, reading: Reading) -> Option<bool> {
        self.goal.and_then(|goal| goal.judge(reading, true))
    }

    /// The verdict: met or not, nothing where it is not resolved.
    pub(crate) fn judge(&self, reading: Reading) -> Option<bool> {
        self.goal.and_then(|goal| goal.judge(reading, self.by_interval))
    }
}

/// A number, or an object with a `median` and perhaps its interval as `low` and `high`, `interval`
/// or `ci95`.
fn reading(value: &Value) -> Option<Reading> {
    if let Some(value) = value.as_f64() {
        return Some(Reading { value, interval: None });
    }
    let median = value.get("median")?.as_f64()?;
    let pair = match (value.get("low"), value.get("high")) {
        (Some(low), Some(high)) => low.as_f64().zip(high.as_f64()),
        _ => value.get("interval").or_else(|| value.get("ci95")).and_then(|pair| {
            pair.get(0).and_then(Value::as_f64).zip(pair.get(1).and_then(Value::as_f64))
        }),
    };
    Some(Reading { value: median, interval: pair })
}

impl Benchmark {
    /// True when `line` belongs to the row's variant; each line belongs to a row without one.
    pub(crate) fn applies(&self, row: &Row, line: &Value) -> bool {
        let conditions = row.variant.as_ref().and_then(|variant| self.variants.get(variant));
        conditions.is_none_or(|all| all.iter().all(|condition| condition.holds(line)))
    }

    /// The `goals` of a fresh line, or all that the line lacks. Rows without a goal are read too,
    /// so that a changed layout is noticed when it is recorded.
    pub(crate) fn goals_of(&self, line: &Value) -> Result<Value, Vec<String>> {
        let mut goals = Vec::new();
        let mut errors = Vec::new();
        for row in self.rows.iter().filter(|row| self.applies(row, line)) {
            match (row.read(line), row.goal) {
                (Err(error), _) => errors.push(error),
                (Ok(_), None) => {}
                (Ok(reading), Some(goal)) => goals.push(json!({
                    "what": row.what,
                    "goal": goal.number(),
                    "is": if matches!(goal, Goal::AtLeast(_)) { "at_least" } else { "at_most" },
                    "unit": row.unit,
                    "value": reading.map(|reading| reading.value),
                    "interval": reading.and_then(|r| r.interval).map(|(low, high)| [low, high]),
                    "met": reading.and_then(|reading| row.judge(reading)),
                })),
            }
        }
        if errors.is_empty() { Ok(Value::Array(goals)) } else { Err(errors) }
    }
}

impl Goals {
    /// Parses the file.
    pub(crate) fn parse(text: &str) -> Result<Goals, String> {
        let file: Table = text.parse().map_err(|error| format!("is not TOML: {error}"))?;
        known("the file", &file, &["retired", "benchmark"])?;
        let retired = match file.get("retired").and_then(toml::Value::as_array) {
            Some(names) => names.iter().filter_map(|n| n.as_str().map(str::to_string)).collect(),
            None => Vec::new(),
        };
        let mut benchmarks: Vec<Benchmark> = Vec::new();
        for table in tables(&file, "benchmark")? {
            let benchmark = benchmark(table)?;
            if benchmarks.iter().any(|known| known.name == benchmark.name) {
                return Err(format!("`{}` stands twice", benchmark.name));
            }
            benchmarks.push(benchmark);
        }
        Ok(Goals { benchmarks, retired })
    }

    pub(crate) fn benchmark(&self, name: &str) -> Option<&Benchmark> {
        self.benchmarks.iter().find(|benchmark| benchmark.name == name)
    }
}

fn benchmark(table: &Table) -> Result<Benchmark, String> {
    let name = text(table, "name", "a benchmark")?;
    known(&name, table, &["name", "group", "shows", "beside", "variants", "row"])?;
    let mut variants = BTreeMap::new();
    for (variant, conditions) in
        table.get("variants").and_then(|v| v.as_table()).into_iter().flatten()
    {
        let conditions = conditions.as_str().ok_or(format!("{name}: a variant is text"))?;
        let conditions = Condition::parse_all(conditions).map_err(|e| format!("{name}: {e}"))?;
        variants.insert(variant.clone(), conditions);
    }
    let mut rows: Vec<Row> = Vec::new();
    for table in tables(table, "row")? {
        let row = row(table, &name)?;
        if rows.iter().any(|known| known.what == row.what) {
            return Err(format!("{name}: `{}` stands twice", row.what));
        }
        if let Some(variant) = row.variant.as_ref().filter(|v| !variants.contains_key(*v)) {
            return Err(format!("{name}: `{variant}` is none of its variants"));
        }
        rows.push(row);
    }
    Ok(Benchmark {
        group: text(table, "group", &name)?,
        shows: text(table, "shows", &name)?,
        beside: optional_text(table, "beside"),
        name,
        variants,
        rows,
    })
}

fn row(table: &Table, name: &str) -> Result<Row, String> {
    let what = text(table, "what", name)?;
    let place = format!("{name}, `{what}`");
    let keys = ["what", "path", "over", "scale", "unit", "at_least", "at_most", "source"];
    known(&place, table, &[&keys[..], &["by_interval", "valid", "variant"]].concat())?;
    let path = |key: &str| match optional_text(table, key) {
        path if path.is_empty() => Ok(None),
        path => Path::parse(&path).map(Some).map_err(|error| format!("{place}: {error}")),
    };
    let number = |key: &str| {
        let value = table.get(key)?;
        value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
    };
    let goal = match (number("at_least"), number("at_most")) {
        (Some(_), Some(_)) => return Err(format!("{place}: at_least or at_most, not both")),
        (Some(number), None) => Some(Goal::AtLeast(number)),
        (None, Some(number)) => Some(Goal::AtMost(number)),
        (None, None) => None,
    };
    let source = optional_text(table, "source");
    if goal.is_some() != ["design", "benchmark"].contains(&source.as_str()) {
        return Err(format!("{place}: a goal has `source`: \"design\" or \"benchmark\""));
    }
    Ok(Row {
        path: path("path")?.ok_or_else(|| format!("{place}: no `path`"))?,
        over: path("over")?,
        valid: path("valid")?,
        scale: number("scale").unwrap_or(1.0),
        unit: optional_text(table, "unit"),
        by_interval: table.get("by_interval").and_then(toml::Value::as_bool).unwrap_or(false),
        variant: Some(optional_text(table, "variant")).filter(|variant| !variant.is_empty()),
        what,
        goal,
    })
}

fn known(place: &str, table: &Table, keys: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("{place}: unknown key `{key}`")),
        None => Ok(()),
    }
}

fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    let list = table.get(key).and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let tables: Option<Vec<&Table>> = list.iter().map(toml::Value::as_table).collect();
    tables.ok_or_else(|| format!("`{key}` is a list of tables"))
}

fn text(table: &Table, key: &str, place: &str) -> Result<String, String> {
    let text = optional_text(table, key);
    if text.is_empty() { Err(format!("{place}: no `{key}`")) } else { Ok(text) }
}

fn optional_text(table: &Table, key: &str) -> String {
    table.get(key).and_then(toml::Value::as_str).unwrap_or("").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[benchmark]]
        name = "log"
        group = "g"
        shows = "a thing"
        variants = { full = "runs[size=2]" }
        [[benchmark.row]]
        what = "rate"
        path = "rate"
        at_least = 10
        source = "design"
        [[benchmark.row]]
        what = "ratio"
        path = "ratio"
        at_most = 2.0
        source = "benchmark"
        by_interval = true
        [[benchmark.row]]
        what = "share"
        path = "part"
        over = "whole"
        scale = 100
        unit = "%"
        [[benchmark.row]]
        what = "worst"
        path = "runs[*].ns"
        at_most = 5
        source = "design"
        valid = "is_valid"
        [[benchmark.row]]
        what = "full"
        path = "runs[size=2].ns"
        variant = "full"
    "#;

    fn goals_of(line: Value) -> Result<Value, Vec<String>> {
        Goals::parse(FILE).unwrap().benchmark("log").unwrap().goals_of(&line)
    }

    fn line(ratio: Value) -> Value {
        json!({"rate": 11, "ratio": ratio, "part": 1, "whole": 4, "is_valid": true,
            "runs": [{"size": 1, "ns": 3}, {"size": 2, "ns": 6}]})
    }

    #[test]
    fn a_fresh_line_gets_its_goals_with_their_verdicts() {
        let goals = goals_of(line(json!({"median": 1.5, "low": 1.0, "high": 1.9}))).unwrap();
        let of = |what: &str| {
            let all = goals.as_array().unwrap();
            all.iter().find(|goal| goal["what"] == what).cloned().unwrap_or(Value::Null)
        };
        assert_eq!((&of("rate")["goal"], &of("rate")["value"]), (&json!(10.0), &json!(11.0)));
        assert_eq!(of("rate")["met"], json!(true));
        assert_eq!(of("rate")["is"], json!("at_least"));
        assert_eq!(of("ratio")["interval"], json!([1.0, 1.9]));
        assert_eq!((&of("worst")["value"], &of("worst")["met"]), (&json!(6.0), &json!(false)));
        assert_eq!(of("share"), Value::Null, "no goal, no entry");
    }

    #[test]
    fn an_interval_that_holds_the_goal_resolves_nothing() {
        let cases = [
            (json!({"median": 1.5, "low": 1.0, "high": 2.0}), json!(true)),
            (json!({"median": 1.5, "interval": [1.0, 2.1]}), json!(null)),
            (json!({"median": 2.5, "ci95": [2.1, 3.0]}), json!(false)),
            (json!(1.0), json!(true)),
            (json!(null), json!(null)),
        ];
        for (ratio, met) in cases {
            let goals = goals_of(line(ratio.clone())).unwrap();
            assert_eq!(goals[1]["met"], met, "{ratio}");
        }
    }

    #[test]
    fn a_path_that_the_line_lacks_is_an_error_also_without_a_goal() {
        let mut short = line(json!(1));
        short.as_object_mut().unwrap().remove("rate");
        short.as_object_mut().unwrap().remove("whole");
        let errors = goals_of(short).unwrap_err();
        assert_eq!(errors, ["`rate`: no member `rate`", "`share`: no member `whole`"]);
        assert_eq!(goals_of(line(json!("fast"))).unwrap_err(), ["`ratio`: is not a number"]);
    }

    #[test]
    fn a_run_that_is_not_valid_has_no_verdict() {
        let mut late = line(json!(1));
        late["is_valid"] = json!(false);
        let goals = goals_of(late).unwrap();
        assert_eq!((&goals[2]["value"], &goals[2]["met"]), (&json!(null), &json!(null)));
    }

    #[test]
    fn a_line_of_another_variant_needs_not_have_its_paths() {
        let mut one = line(json!(1));
        one["runs"] = json!([{"size": 1, "ns": 3}]);
        assert!(goals_of(one).is_ok());
    }

    #[test]
    fn a_quotient_has_no_interval_when_both_sides_have_one() {
        let goals = Goals::parse(FILE).unwrap();
        let share = &goals.benchmarks[0].rows[2];
        let both = json!({"part": {"median": 1, "low": 1, "high": 2}, "whole": {"median": 4,
            "low": 3, "high": 5}});
        assert_eq!(share.read(&both), Ok(Some(Reading { value: 25.0, interval: None })));
        let one = json!({"part": {"median": 1, "low": 1, "high": 2}, "whole": 4});
        let reading = Reading { value: 25.0, interval: Some((25.0, 50.0)) };
        assert_eq!(share.read(&one), Ok(Some(reading)));
    }

    #[test]
    fn a_broken_file_is_refused_with_its_place() {
        let row = "[[benchmark]]\nname = \"a\"\ngroup = \"g\"\nshows = \"s\"\n[[benchmark.row]]\n";
        let cases = [
            ("x = ", "is not TOML"),
            ("goal = 1", "unknown key `goal`"),
            ("[[benchmark]]\nname = \"a\"", "a: no `group`"),
            (&format!("{row}what = \"w\""), "no `path`"),
            (&format!("{row}what = \"w\"\npath = \"a[\""), "is no path"),
            (&format!("{row}what = \"w\"\npath = \"a\"\nat_most = 1"), "a goal has `source`"),
            (&format!("{row}what = \"w\"\npath = \"a\"\nvariant = \"v\""), "none of its variants"),
            (&format!("{row}what = \"w\"\npath = \"a\"\nwhen = 1"), "unknown key `when`"),
        ];
        for (file, wanted) in cases {
            let error = Goals::parse(file).unwrap_err();
            assert!(error.contains(wanted), "{file}: {error}");
        }
    }
}
