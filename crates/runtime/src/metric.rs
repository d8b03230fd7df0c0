//! The form of a part's figures for the metrics page.

/// A metric: its name, its help text, its kind (`gauge` or `counter`) and its value.
pub type Metric = (&'static str, &'static str, &'static str, u64);
