//! The report of a file: the stream replayed and the oracle's findings.

use std::fmt;

use weir_types::Nanos;

use super::model::FlowItem;
use super::oracle::{BookUnderTest, Oracle, OracleReport};

/// The result of replaying a stream to a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The name of the stream.
    pub name: String,
    /// Events of the stream.
    pub events: u64,
    /// The time from the first to the last item.
    pub span: Nanos,
    /// The oracle's findings.
    pub oracle: OracleReport,
}

/// Replays a stream to a book through the oracle; returns the book as well.
pub fn report<'a, B: BookUnderTest>(
    name: &str,
    items: impl IntoIterator<Item = &'a FlowItem>,
    book: B,
) -> (FlowReport, B) {
    let mut oracle = Oracle::new(book);
    let mut events = 0;
    let mut first = None;
    let mut last = Nanos(0);
    for item in items {
        events += u64::from(matches!(item, FlowItem::Event(_)));
        last = item.ts();
        first.get_or_insert(last);
        oracle.apply(item);
    }
    let (found, book) = oracle.finish();
    let span = last.since(first.unwrap_or(last));
    (FlowReport { name: name.to_owned(), events, span, oracle: found }, book)
}

impl fmt::Display for FlowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.span.0 / 60_000_000_000;
        writeln!(f, "{}: {} events in {} min", self.name, self.events, minutes)?;
        self.oracle.fmt(f)
    }
}
