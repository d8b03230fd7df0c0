//! The part of `weir feed inspect` about an audit: its files, its lines, and the ranges missing of
//! each. The content of its datagrams is the feed's part.

use serde_json::{Value, json};
use weir_marketgate::post::audit::AuditOverview;
use weir_runtime::civil;
use weir_types::Nanos;

/// Gaps that are shown as text; `--json` has more.
const SHOWN_MAX: usize = 100;

/// As one object.
pub(super) fn object(overview: &AuditOverview) -> Value {
    let files: Vec<Value> = overview
        .files
        .iter()
        .map(|file| {
            json!({
                "file": file.path.display().to_string(),
                "has_end": file.has_end,
                "error": file.error.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    let lines: Vec<Value> = overview
        .lines
        .iter()
        .map(|line| {
            json!({
                "line": line.name, "datagrams": line.datagrams, "missing": line.missing,
                "gaps": line.gaps, "first_ns": line.first.map(|first| first.0),
                "last_ns": line.first.map(|_| line.last.0),
            })
        })
        .collect();
    let gaps: Vec<Value> = overview
        .gaps
        .iter()
        .map(|gap| {
            json!({
                "line": overview.lines[gap.line].name, "datagrams": gap.datagrams,
                "from_ns": gap.from.0, "to_ns": gap.to.0,
                "file": overview.files[gap.file].path.display().to_string(),
            })
        })
        .collect();
    let (gap_count, missing) = overview.missing();
    json!({
        "files": files, "lines": lines, "gap_count": gap_count, "missing": missing, "gaps": gaps,
    })
}

/// As lines for people.
pub(super) fn text(overview: &AuditOverview) -> String {
    let mut text = format!("audit in {} files\n", overview.files.len());
    for file in overview.files.iter().filter(|file| !file.has_end) {
        text += &format!("  without an end (cut off, or still written): {}\n", file.path.display());
    }
    for (number, line) in overview.lines.iter().enumerate() {
        text += &format!(
            "  line {number} {}: {} datagrams, {} gaps of {} datagrams\n",
            line.name, line.datagrams, line.gaps, line.missing
        );
    }
    for gap in overview.gaps.iter().take(SHOWN_MAX) {
        text += &format!(
            "  missing from {} to {}: {} of {}\n",
            moment(gap.from),
            moment(gap.to),
            gap.datagrams,
            overview.lines[gap.line].name
        );
    }
    let (gaps, _) = overview.missing();
    if gaps > SHOWN_MAX as u64 {
        text += &format!("  and at {} more places (--json)\n", gaps - SHOWN_MAX as u64);
    }
    text
}

/// In UTC, to the nanosecond.
fn moment(at: Nanos) -> String {
    let second = civil::utc(at);
    format!("{}.{:09}Z", second.trim_end_matches('Z'), at.0 % 1_000_000_000)
}
