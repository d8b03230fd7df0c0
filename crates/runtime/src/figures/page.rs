//! The metrics page in Prometheus's text format.

use std::fmt::Write;

use super::{Figure, Kind, Report};

/// A metrics page under construction.
#[derive(Debug, Default)]
pub struct MetricsPage {
    text: String,
}

impl MetricsPage {
    /// Returns the text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the finished text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Writes text that is in the format of the page already.
    pub fn append(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes a report's figures, under names that begin with `prefix`.
    pub fn put<R: Report>(&mut self, prefix: &str, report: &R) {
        self.put_rows(prefix, &[(String::new(), report)]);
    }

    /// Writes the figures of several reports of one form, each with its labels, such as
    /// `source="1"`. Without reports it writes nothing.
    pub fn put_rows<R: Report>(&mut self, prefix: &str, reports: &[(String, &R)]) {
        if reports.is_empty() {
            return;
        }
        for metric in R::FIGURES.chunk_by(|one, next| family(one.name) == family(next.name)) {
            let name = family(metric[0].name);
            let name = match name.starts_with("weir_") {
                true => name.to_owned(),
                false => format!("{prefix}_{name}"),
            };
            // A metric of several figures, told apart by a label, has the help texts of all.
            let help: Vec<_> = metric.iter().map(|figure| figure.help).collect();
            self.head(&name, metric[0].kind, &help.join(" "));
            for (labels, report) in reports {
                for figure in metric {
                    self.rows(&name, labels, figure, report);
                }
            }
        }
    }

    /// Writes a metric that follows from several figures, so that no report has it.
    pub fn put_derived(&mut self, name: &str, kind: Kind, help: &str, rows: &[(String, u64)]) {
        self.head(name, kind, help);
        rows.iter().for_each(|(labels, value)| self.row(name, labels, *value));
    }

    fn rows<R: Report>(&mut self, name: &str, labels: &str, figure: &Figure<R>, report: &R) {
        let own = label(figure.name);
        (figure.rows)(report, &mut |value, number| {
            // Counts have the label's name in the declaration and its value here.
            let own = match value {
                "" => own.to_owned(),
                value => format!("{own}=\"{}\"", escaped(value)),
            };
            let both = [labels, own.as_str()];
            let labels: Vec<_> = both.into_iter().filter(|labels| !labels.is_empty()).collect();
            self.row(name, &labels.join(","), number);
        });
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = kind.name();
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn row(&mut self, name: &str, labels: &str, value: u64) {
        match labels {
            "" => self.line(format_args!("{name} {value}")),
            labels => self.line(format_args!("{name}{{{labels}}} {value}")),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes all that is written to it");
    }
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns a figure's name without its label.
fn family(name: &str) -> &str {
    name.split_once('{').map_or(name, |(family, _)| family)
}

/// Returns the label in a figure's name; empty without one.
fn label(name: &str) -> &str {
    name.split_once('{').map_or("", |(_, label)| label.trim_end_matches('}'))
}
