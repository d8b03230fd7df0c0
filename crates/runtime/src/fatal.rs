//! Aborts the process when an invariant is broken or a sync has failed: continuing could
//! acknowledge a command that the log does not hold.

/// Writes a line to standard error and aborts the process. The line bypasses the queue of
/// diagnostics, whose contents are lost with the process.
pub fn abort(what: &str, error: &dyn std::fmt::Display) -> ! {
    eprintln!("weir: {what}, stopping at once: {error}");
    std::process::abort();
}
