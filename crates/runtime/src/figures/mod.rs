//! Figures: a counter or gauge is declared once, with [`figures!`](crate::figures!), and is from
//! then on a field of `/status`, a metric of `/metrics` and a line of `docs/metrics.md`.
//!
//! The declaration makes a struct with a public field per figure, which serde writes into
//! `/status`. Its [`Report`] implementation lists the figures, from which [`MetricsPage`] renders
//! Prometheus's text. A figure that several threads read is declared with `in`, which makes a
//! second struct with an atomic per figure.
//!
//! Counting costs one change of the field: a plain `u64`, or a relaxed atomic. Everything else
//! happens when a report is read. Nothing here knows orders, sessions or the names of other crates.

mod page;
mod value;

pub use self::page::MetricsPage;
pub use self::value::{Shared, Value, total};

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only increases, and starts at zero with the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl Kind {
    /// Returns the kind's name on the metrics page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Passes each value of a figure to a function, with the value of its label; without a label that
/// is empty.
pub type Rows<R> = fn(&R, &mut dyn FnMut(&str, u64));

/// A figure's declaration, and the access to its value in a report `R`.
#[derive(Debug)]
pub struct Figure<R: 'static> {
    /// The field of the report.
    pub field: &'static str,
    /// The metric's name after the prefix, with its label if it has one; the whole name if it
    /// begins with `weir_`.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// The help text: the figure's doc comment and its unit.
    pub help: &'static str,
    /// Passes each value to a function.
    pub rows: Rows<R>,
    /// Sets the figure, as a program does that reads a metrics page back.
    pub set: fn(&mut R, u64),
}

/// A report that [`figures!`](crate::figures!) declared.
pub trait Report: Sized + 'static {
    /// The figures in the order of their declaration.
    const FIGURES: &'static [Figure<Self>];
}

/// Declares figures.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use weir_runtime::figures::MetricsPage;
///
/// weir_runtime::figures! {
///     /// The figures of a queue.
///     pub struct QueueReport in QueueFigures {
///         /// Messages in memory.
///         gauge held,
///         /// The memory of these messages.
///         gauge held_bytes in bytes,
///         /// Messages refused.
///         counter refused as "full_total",
///         /// True while the disk is full.
///         flag is_full as "full",
///     }
/// }
///
/// let figures = QueueFigures::default();
/// figures.held_bytes.store(640, Ordering::Relaxed);
/// let report = figures.report();
/// assert_eq!(report.plus(&report).held_bytes, 1_280);
/// assert_eq!(serde_json::to_value(&report).unwrap()["held_bytes"], 640);
///
/// let mut page = MetricsPage::default();
/// page.put("weir_queue", &report);
/// let page = page.into_text();
/// let help = "# HELP weir_queue_held_bytes The memory of these messages. In bytes.\n";
/// assert!(page.contains(help));
/// assert!(page.contains("\nweir_queue_held_bytes 640\n"));
/// ```
///
/// A figure is a kind, a field, and where it needs them a unit (`in bytes`, `milliseconds`,
/// `nanoseconds` or `seconds`; else the doc comment names the things counted) and a metric's name
/// (`as`; else the field, for a counter with `_total`). The doc comment is the help text.
///
/// | kind | field | metric |
/// | --- | --- | --- |
/// | `counter` | `u64` | counter |
/// | `gauge` | `u64` | gauge |
/// | `flag` | `bool` | gauge, 1 or 0 |
/// | `limit` | `Option<u64>` | gauge, 0 without a limit |
/// | `counts` | the type after a colon, a [`Value`] | counter with a label, `as "name{label}"` |
///
/// Counters that belong to one metric have names with a fixed label, one after the other:
/// `as "refused_total{for=\"key\"}"`.
///
/// A report has three forms. `struct R in F` also makes `F`, with an atomic per figure and
/// `F::report`. `struct R` alone is filled by the code that has the values, or counted in place by
/// the one thread that owns it. `struct R { … } and { … }` adds fields that are no figures, such as
/// a name or a nested report. The first two have `R::plus`, the sum of two reports. Reports are
/// `Clone`, `Debug`, `Default` and `Serialize`, and whatever else `derive` asks for.
///
/// A figure without a doc comment, or of another kind, does not compile:
///
/// ```compile_fail
/// weir_runtime::figures! {
///     /// A report.
///     pub struct Undocumented {
///         counter refused,
///     }
/// }
/// ```
///
/// ```compile_fail
/// weir_runtime::figures! {
///     /// A report.
///     pub struct Misspelt {
///         /// Messages refused.
///         conter refused,
///     }
/// }
/// ```
#[macro_export]
macro_rules! figures {
    // A report and the atomics behind it.
    (
        $(#[$attr:meta])* $vis:vis struct $report:ident in $atomics:ident { $($body:tt)* }
    ) => {
        $crate::figures! { $(#[$attr])* $vis struct $report { $($body)* } }
        $crate::figures! { @atomics $vis $report $atomics { $($body)* } }
    };
    // A report of figures alone.
    (
        $(#[$attr:meta])* $vis:vis struct $report:ident {
            $(
                $(#[doc = $help:literal])*
                $kind:ident $field:ident $(: $type:ident)? $(in $unit:ident)? $(as $name:literal)?
            ),* $(,)?
        }
    ) => {
        $crate::figures! {
            $(#[$attr])* $vis struct $report {
                $(
                    $(#[doc = $help])*
                    $kind $field $(: $type)? $(in $unit)? $(as $name)?,
                )*
            } and {}
        }
        impl $report {
            /// Returns the sum of this report and another, figure by figure.
            #[must_use]
            pub fn plus(&self, other: &$report) -> $report {
                $report {
                    $($field: $crate::figures::Value::plus(&self.$field, &other.$field),)*
                }
            }
        }
    };
    // A report with other fields.
    (
        $(#[$attr:meta])* $vis:vis struct $report:ident {
            $(
                $(#[doc = $help:literal])*
                $kind:ident $field:ident $(: $type:ident)? $(in $unit:ident)? $(as $name:literal)?
            ),* $(,)?
        } and { $($other:tt)* }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, Default, ::serde::Serialize)]
        $vis struct $report {
            $(
                $(#[doc = $help])*
                $(#[doc = concat!(" In ", stringify!($unit), ".")])?
                pub $field: $crate::figures!(@type $kind $($type)?),
            )*
            $($other)*
        }
        impl $crate::figures::Report for $report {
            const FIGURES: &'static [$crate::figures::Figure<$report>] = &[$(
                $crate::figures::Figure {
                    field: stringify!($field),
                    name: $crate::figures!(@name $kind $field $($name)?),
                    kind: $crate::figures!(@kind $kind),
                    help: $crate::figures::help(
                        concat!($($help),*),
                        concat!(
                            $($help,)*
                            $crate::figures!(@note $kind)
                            $(, " In ", $crate::figures!(@unit $unit), ".")?
                        ),
                    ),
                    rows: |report, row| $crate::figures::Value::rows(&report.$field, row),
                    set: |report, value| $crate::figures::Value::set(&mut report.$field, value),
                },
            )*];
        }
    };
    (
        @atomics $vis:vis $report:ident $atomics:ident {
            $(
                $(#[doc = $help:literal])*
                $kind:ident $field:ident $(: $type:ident)? $(in $unit:ident)? $(as $name:literal)?
            ),* $(,)?
        }
    ) => {
        #[doc = concat!("The figures of [`", stringify!($report), "`], for several threads.")]
        #[derive(Debug, Default)]
        $vis struct $atomics {
            $(
                $(#[doc = $help])*
                pub $field:
                    <$crate::figures!(@type $kind $($type)?) as $crate::figures::Shared>::Atomic,
            )*
        }
        impl $atomics {
            /// Returns the figures now. They are read one after the other.
            #[must_use]
            pub fn report(&self) -> $report {
                $report { $($field: $crate::figures::Shared::load(&self.$field),)* }
            }
        }
    };
    (@type counter) => { u64 };
    (@type gauge) => { u64 };
    (@type flag) => { bool };
    (@type limit) => { Option<u64> };
    (@type counts $type:ident) => { $type };
    (@type $kind:ident $($type:ident)?) => {
        compile_error!(concat!(
            "`", stringify!($kind $($type)?), "` is no kind of figure: write `counter`, `gauge`, ",
            "`flag`, `limit`, or `counts` with a type"
        ))
    };
    (@kind counter) => { $crate::figures::Kind::Counter };
    (@kind counts) => { $crate::figures::Kind::Counter };
    (@kind $kind:ident) => { $crate::figures::Kind::Gauge };
    (@note flag) => { " 1 if true, else 0." };
    (@note limit) => { " 0 without a limit." };
    (@note $kind:ident) => { "" };
    (@unit bytes) => { "bytes" };
    (@unit milliseconds) => { "milliseconds" };
    (@unit nanoseconds) => { "nanoseconds" };
    (@unit seconds) => { "seconds" };
    (@unit $unit:ident) => {
        compile_error!(concat!(
            "`", stringify!($unit), "` is no unit of a figure: write `bytes`, `milliseconds`, ",
            "`nanoseconds` or `seconds`, or let the doc comment name the things counted"
        ))
    };
    (@name $kind:ident $field:ident $name:literal) => { $name };
    (@name counter $field:ident) => { concat!(stringify!($field), "_total") };
    (@name counts $field:ident) => {
        compile_error!("counts need a metric's name with a label: `as \"refused_total{reason}\"`")
    };
    (@name $kind:ident $field:ident) => { stringify!($field) };
}

/// Returns the help text of a declaration.
///
/// # Panics
/// At compile time, when the figure has no doc comment.
#[doc(hidden)]
#[must_use]
pub const fn help(doc: &'static str, text: &'static str) -> &'static str {
    assert!(!doc.is_empty(), "a figure has a doc comment: it is the metric's help text");
    text.trim_ascii()
}

#[cfg(test)]
mod tests;
