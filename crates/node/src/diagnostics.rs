//! Diagnostics: lines of text or JSON on standard error, for operators.
//!
//! A line is queued and written by a separate thread, so that no agent waits for the reader of
//! standard error. If that reader is too slow, the newest lines are dropped and counted. Lines that
//! strangers can cause at will (refused logons, broken streams) pass through a
//! [`weir_runtime::LineLimit`].

use std::sync::OnceLock;

use serde::Deserialize;
use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};

/// The maximum number of lines that wait to be written.
const LINES_MAX: usize = 8 * 1024;

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineFormat {
    /// For people: time, level, message, `name=value`.
    #[default]
    Text,
    /// For machines: one object per line, with `timestamp`, `level`, `message` and the values.
    Json,
}

/// The minimum level of the lines written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineLevel {
    /// Needs action: the node stops, or does less than it should.
    Error,
    /// May need action.
    Warn,
    /// For later analysis by an operator: start, stop, logons, cuts, snapshots.
    #[default]
    Info,
    /// Every connection.
    Debug,
}

impl LineLevel {
    fn level(self) -> Level {
        match self {
            LineLevel::Error => Level::ERROR,
            LineLevel::Warn => Level::WARN,
            LineLevel::Info => Level::INFO,
            LineLevel::Debug => Level::DEBUG,
        }
    }
}

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Starts writing lines; queued lines are still written when the guard is dropped.
///
/// # Errors
/// When lines are already being written.
pub fn start(format: LineFormat, level: LineLevel) -> anyhow::Result<WorkerGuard> {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("diagnostics")
        .finish(std::io::stderr());
    // The first counter stays: a process starts its diagnostics once.
    let _ = DROPPED.set(writer.error_counter());
    let lines = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_max_level(level.level())
        .with_target(false)
        .with_ansi(false);
    let started = match format {
        LineFormat::Text => lines.try_init(),
        LineFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot write diagnostics: {error}"))?;
    Ok(guard)
}

/// Returns the number of lines dropped because standard error was read too slowly.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64)
}
