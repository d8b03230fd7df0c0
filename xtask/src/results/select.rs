//! Paths into a benchmark's JSON line: `cells[durability=memory,load.rate=10000].ratio_p50`.
//!
//! A path is keys separated by points. A key of other characters than letters, digits, `_` and `-`
//! stands in quotes. Behind the key of an array stand brackets: `[2]` takes the element of that
//! index, `[*]` each element, `[a=1,b.c="x y"]` the one element whose members have these values;
//! `[a]` asks only that the member exists and is not null. Values compare as text or as numbers.
//! No match and two matches are errors, never a guess.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    steps: Vec<PathStep>,
}

/// A member's value, or its existence when `value` is missing.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    path: Path,
    value: Option<String>,
}

#[derive(Debug, Clone)]
struct PathStep {
    key: String,
    filter: Option<Filter>,
}

#[derive(Debug, Clone)]
enum Filter {
    Each,
    Index(usize),
    Where(Vec<Condition>),
}

impl Path {
    /// Parses a path.
    pub(crate) fn parse(text: &str) -> Result<Path, String> {
        let mut cursor = Cursor { text, rest: text };
        let path = cursor.path()?;
        if cursor.rest.is_empty() { Ok(path) } else { Err(cursor.unexpected()) }
    }

    /// The values at this path: one, or with `[*]` one for each element. A null on the way is a
    /// null at the end; a missing key, index or element is an error that names it.
    pub(crate) fn find<'a>(&self, line: &'a Value) -> Result<Vec<&'a Value>, String> {
        let mut found = vec![line];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                next.extend(step.apply(value)?);
            }
            found = next;
        }
        Ok(found)
    }

    /// True when some value at this path satisfies `holds`; filters may match any number here.
    fn any(&self, value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
        fn within(steps: &[PathStep], value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
            let Some((step, rest)) = steps.split_first() else { return holds(value) };
            let Some(member) = value.get(&step.key) else { return false };
            match &step.filter {
                None => within(rest, member, holds),
                Some(filter) => {
                    filter.elements(member).iter().any(|element| within(rest, element, holds))
                }
            }
        }
        within(&self.steps, value, holds)
    }
}

impl PathStep {
    fn apply<'a>(&self, value: &'a Value) -> Result<Vec<&'a Value>, String> {
        if value.is_null() {
            return Ok(vec![value]);
        }
        let member = value.get(&self.key).ok_or_else(|| format!("no member `{}`", self.key))?;
        let Some(filter) = &self.filter else { return Ok(vec![member]) };
        if member.is_null() {
            return Ok(vec![member]);
        }
        let found = filter.elements(member);
        match (filter, found.len()) {
            (_, 0) => Err(format!("no element of `{}` matches", self.key)),
            (Filter::Each, _) | (_, 1) => Ok(found),
            (_, count) => Err(format!("{count} elements of `{}` match", self.key)),
        }
    }
}

impl Filter {
    fn elements<'a>(&self, array: &'a Value) -> Vec<&'a Value> {
        let all = array.as_array().map_or(&[][..], Vec::as_slice);
        match self {
            Filter::Each => all.iter().collect(),
            Filter::Index(index) => all.get(*index).into_iter().collect(),
            Filter::Where(conditions) => all
                .iter()
                .filter(|element| conditions.iter().all(|condition| condition.holds(element)))
                .collect(),
        }
    }
}

impl Condition {
    /// Parses conditions separated by commas.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Condition>, String> {
        let mut cursor = Cursor { text, rest: text };
        let conditions = cursor.conditions()?;
        if cursor.rest.is_empty() { Ok(conditions) } else { Err(cursor.unexpected()) }
    }

    /// True for an object with that member.
    pub(crate) fn holds(&self, object: &Value) -> bool {
        self.path.any(object, &|value| match &self.value {
            None => !value.is_null(),
            Some(wanted) => equals(value, wanted),
        })
    }
}

fn equals(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.as_f64().is_some_and(|number| wanted.parse() == Ok(number)),
        Value::Bool(flag) => wanted == if *flag { "true" } else { "false" },
        _ => false,
    }
}

struct Cursor<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Cursor<'_> {
    fn unexpected(&self) -> String {
        format!("`{}` is no path: unexpected `{}`", self.text, self.rest)
    }

    fn take(&mut self, mark: char) -> bool {
        let taken = self.rest.strip_prefix(mark);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }

    /// A word in quotes, or of the characters that `plain` allows.
    fn word(&mut self, plain: fn(char) -> bool) -> Result<String, String> {
        if self.take('"') {
            let (word, behind) = self.rest.split_once('"').ok_or_else(|| self.unexpected())?;
            self.rest = behind;
            return Ok(word.to_string());
        }
        let end = self.rest.find(|c| !plain(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.unexpected());
        }
        let (word, behind) = self.rest.split_at(end);
        self.rest = behind;
        Ok(word.to_string())
    }

    fn path(&mut self) -> Result<Path, String> {
        let mut steps = Vec::new();
        loop {
            let key = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')?;
            let filter = if self.take('[') { Some(self.filter()?) } else { None };
            steps.push(PathStep { key, filter });
            if !self.take('.') {
                return Ok(Path { steps });
            }
        }
    }

    fn filter(&mut self) -> Result<Filter, String> {
        let filter = if self.take('*') {
            Filter::Each
        } else if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = self.word(|c| c.is_ascii_digit())?;
            Filter::Index(digits.parse().map_err(|_| self.unexpected())?)
        } else {
            Filter::Where(self.conditions()?)
        };
        if self.take(']') { Ok(filter) } else { Err(self.unexpected()) }
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, String> {
        let mut conditions = Vec::new();
        loop {
            let path = self.path()?;
            let value = if self.take('=') {
                Some(self.word(|c| ![',', ']', '"', '='].contains(&c))?)
            } else {
                None
            };
            conditions.push(Condition { path, value });
            if !self.take(',') {
                return Ok(conditions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{
        "a": {"b": 1, "0.5 %": 2, "none": null},
        "runs": [
            {"how": "One", "load": {"rate": 10}, "ns": 3},
            {"how": "Two, quick", "load": {"rate": 10}, "ns": 4},
            {"how": "One", "load": {"rate": 2.5}, "ns": 5, "ok": true}
        ]
    }"#;

    fn found(path: &str) -> String {
        let line: Value = serde_json::from_str(LINE).unwrap();
        let path = Path::parse(path).unwrap();
        match path.find(&line) {
            Ok(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error,
        }
    }

    #[test]
    fn a_path_finds_its_value_or_says_which_part_is_missing() {
        let cases = [
            ("a.b", "1"),
            (r#"a."0.5 %""#, "2"),
            ("a.none", "null"),
            ("a.none.deeper[x=1].still", "null"),
            ("a.c", "no member `c`"),
            ("runs[1].ns", "4"),
            ("runs[3].ns", "no element of `runs` matches"),
            ("runs[*].ns", "3 4 5"),
            (r#"runs[how="Two, quick"].ns"#, "4"),
            ("runs[how=One,load.rate=10].ns", "3"),
            ("runs[load.rate=2.50].ns", "5"),
            ("runs[ok].ns", "5"),
            ("runs[ok=true].ns", "5"),
            ("runs[how=One].ns", "2 elements of `runs` match"),
            ("runs[how=Three].ns", "no element of `runs` matches"),
        ];
        for (path, wanted) in cases {
            assert_eq!(found(path), wanted, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["", "a.", "a b", "a[", "a[b=", "a[b=1", "a[1x]", "\"a", "a]"] {
            let error = Path::parse(path).unwrap_err();
            assert!(error.contains("is no path"), "{path}: {error}");
        }
    }

    #[test]
    fn conditions_hold_by_value_and_by_existence() {
        let line: Value = serde_json::from_str(LINE).unwrap();
        let cases = [
            ("a.b=1", true),
            ("a.b=1,runs[how=One]", true),
            ("a.b=2", false),
            ("a.none", false),
            ("a.c", false),
            ("runs[how=Three]", false),
        ];
        for (text, wanted) in cases {
            let conditions = Condition::parse_all(text).unwrap();
            assert_eq!(conditions.iter().all(|c| c.holds(&line)), wanted, "{text}");
        }
    }
}
