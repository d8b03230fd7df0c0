//! What the node has to say to those who run it: lines of text or JSON on standard error.
//!
//! A line is put in a queue and written by a thread of its own: no agent waits for whoever reads
//! standard error. Where that reader is too slow the newest lines are dropped and counted. What
//! strangers can cause at will (refused logons, broken streams) goes through a [`LineLimit`].

use std::sync::OnceLock;

use serde::Deserialize;
use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use weir_types::Nanos;

/// Lines that may wait to be written.
const LINES_MAX: usize = 8 * 1024;
/// Lines of one kind a second.
const LINES_PER_SECOND: u32 = 20;
const SECOND: u64 = 1_000_000_000;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineFormat {
    /// For people: time, level, message, `name=value`.
    #[default]
    Text,
    /// For machines: an object a line, with `timestamp`, `level`, `message` and the values.
    Json,
}

/// The least important lines that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineLevel {
    /// What needs somebody: the node stops, or does less than it should.
    Error,
    /// What may need somebody.
    Warn,
    /// What an operator wants to find in hindsight: start, stop, logons, cuts, snapshots.
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

/// Begins to write lines; what waits when the guard is dropped is still written.
///
/// # Errors
/// When lines are written already.
pub fn start(format: LineFormat, level: LineLevel) -> anyhow::Result<WorkerGuard> {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("diagnostics")
        .finish(std::io::stderr());
    // The first counter stays: a process starts its lines once.
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

/// Lines dropped because standard error was read too slowly.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64)
}

/// Lets [`LINES_PER_SECOND`] lines of one kind through a second, and counts the others.
#[derive(Debug, Default)]
pub struct LineLimit {
    second: u64,
    count: u32,
    left_out: u64,
}

impl LineLimit {
    /// How many lines were left out since the last one, when this one may be written.
    pub fn permit(&mut self, now: Nanos) -> Option<u64> {
        let second = now.0 / SECOND;
        if second != self.second {
            self.second = second;
            self.count = 0;
        }
        if self.count == LINES_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_left_out_and_counted_in_the_next_one() {
        let mut limit = LineLimit::default();
        let now = Nanos(5 * SECOND);
        let written = (0..LINES_PER_SECOND + 7).filter_map(|_| limit.permit(now)).count();
        assert_eq!(written, LINES_PER_SECOND as usize);
        assert_eq!(limit.permit(Nanos(6 * SECOND)), Some(7));
        assert_eq!(limit.permit(Nanos(6 * SECOND)), Some(0));
    }
}
