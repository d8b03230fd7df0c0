//! Datagrams written to a capture.

use std::io;
use std::time::{Duration, Instant};

use weir_marketgate::capture::CaptureWriter;
use weir_marketgate::{Datagrams, ReceiveCounts};

/// The longest time until written datagrams are in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The limits of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordPlan {
    /// After so long.
    pub at_most: Option<Duration>,
    /// After so many datagrams.
    pub packets_max: Option<u64>,
}

/// Writes down what a source gives until the plan, the source or `is_stopped` ends it. The file is
/// whole whenever it returns.
///
/// # Errors
/// The system's.
pub fn record(
    source: &mut dyn Datagrams,
    mut writer: CaptureWriter,
    plan: &RecordPlan,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<(ReceiveCounts, u64)> {
    let start = Instant::now();
    let mut flushed = start;
    loop {
        let mut problem = Ok(());
        source.receive(&mut |datagram| {
            let is_enough = plan.packets_max.is_some_and(|most| writer.counts().0 >= most);
            if problem.is_ok() && !is_enough {
                problem = writer.write(datagram);
            }
        })?;
        problem?;
        let now = Instant::now();
        if now - flushed >= FLUSH_EVERY {
            writer.flush()?;
            flushed = now;
        }
        let is_time = plan.at_most.is_some_and(|most| now - start >= most);
        let is_enough = plan.packets_max.is_some_and(|most| writer.counts().0 >= most);
        if is_time || is_enough || source.is_over() || is_stopped() {
            break;
        }
    }
    let (written, _) = writer.counts();
    writer.finish()?;
    Ok((source.counts(), written))
}
