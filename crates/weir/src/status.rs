//! `weir status`: a node's status page, as a table or as its JSON.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use weir_client::status::fetch_json;

use super::endpoint::Endpoint;
use super::units;

/// Options of `weir status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Wait until the node takes orders, this long at most; without it a node that is not there is
    /// an error at once.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    wait: Option<Duration>,
    /// The node's own JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `weir status`.
///
/// # Errors
/// When the status page cannot be read.
pub fn run(args: StatusArgs) -> anyhow::Result<()> {
    let http = args.endpoint.http();
    if let Some(limit) = args.wait {
        wait_until_ready(&http, limit)?;
    }
    let page = args.endpoint.status()?;
    if args.json {
        println!("{}", page.json);
    } else {
        print!("{}", table(&page.json));
    }
    Ok(())
}

/// Waits until the status page has figures: the node takes orders.
///
/// # Errors
/// When it has none within `limit`.
pub(super) fn wait_until_ready(http: &str, limit: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match fetch_json(http, "/status").map(|page| page.is_object()) {
            Ok(true) => return Ok(()),
            Ok(false) => anyhow::bail!("{http} serves no status page of a node"),
            Err(error) if begun.elapsed() >= limit => {
                return Err(error).with_context(|| format!("not ready within {limit:?}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Plain values first, one a line; then each list of objects as a table of its own, also one inside
/// an object. What a later version adds to the page shows without a change here.
fn table(page: &Value) -> String {
    let mut text = String::new();
    let Value::Object(fields) = page else { return format!("{page}\n") };
    for (name, value) in fields.iter().filter(|(_, value)| !is_nested(value)) {
        let _ = writeln!(text, "{name:<14} {}", plain(value));
    }
    for (name, value) in fields.iter().filter(|(_, value)| is_nested(value)) {
        let _ = writeln!(text, "\n{name}");
        match value {
            Value::Array(rows) => rows_of(rows, &mut text),
            Value::Object(fields) => fields_of(name, fields, &mut text),
            other => unreachable!("{other} is not nested"),
        }
    }
    for source in page["ingest"]["sources"].as_array().into_iter().flatten() {
        if source["is_quarantined"] == true {
            let why = plain(&source["failure"]);
            let _ = writeln!(text, "\nsource {} is quarantined: {why}", source["source"]);
        }
    }
    text
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// An object's values, one a line; its lists of objects as tables behind them, under the names of
/// both.
fn fields_of(object: &str, fields: &serde_json::Map<String, Value>, text: &mut String) {
    for (name, value) in fields.iter().filter(|(_, value)| rows_in(value).is_none()) {
        let _ = writeln!(text, "  {name:<24} {}", plain(value));
    }
    for (name, value) in fields {
        let Some(rows) = rows_in(value) else { continue };
        let _ = writeln!(text, "\n{object} {name}");
        rows_of(rows, text);
    }
}

/// Returns a list that has objects; none for any other value.
fn rows_in(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|rows| rows.iter().any(Value::is_object))
}

fn rows_of(rows: &[Value], text: &mut String) {
    let Some(Value::Object(first)) = rows.first() else {
        let rows: Vec<_> = rows.iter().map(plain).collect();
        let _ = writeln!(text, "  {}", rows.join(" "));
        return;
    };
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| names.iter().map(|name| row.get(name).map_or(String::new(), plain)).collect())
        .collect();
    let widths: Vec<usize> = (0..names.len())
        .map(|i| cells.iter().map(|row| row[i].len()).chain([names[i].len()]).max().unwrap_or(0))
        .collect();
    let header = names.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&header).chain(&cells) {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lists_and_objects_each_have_their_place() {
        let page = serde_json::json!({
            "version": "1", "uptime_s": 1.5,
            "partitions": [{"id": 0, "position": 12345}, {"id": 1, "position": 7}],
            "instruments": [{"id": 1, "last_price": null}],
            "gateway": {"sessions": 3},
            "delivery": {"sources": [{"source": 3}, {"source": 7}], "none": [], "pages": 9},
            "none": [],
        });
        let text = table(&page);
        for line in [
            "version        1",
            "uptime_s       1.500",
            "   0     12345",
            "   1         7",
            "   1           -",
            "  sessions                 3",
            "\ndelivery\n  none                     []\n  pages                    9\n",
            "\ndelivery sources\n  source\n       3\n       7\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_quarantined_source_is_named_with_its_failure() {
        let of = |id, is_quarantined, failure| {
            serde_json::json!({
                "source": id, "is_quarantined": is_quarantined, "failure": failure,
            })
        };
        let sources = [of(40, true, Some("no room")), of(41, false, None)];
        let text = table(&serde_json::json!({ "ingest": { "sources": sources } }));
        assert!(text.ends_with("\nsource 40 is quarantined: no room\n"), "{text}");
        assert!(!text.contains("source 41"), "{text}");
    }
}
