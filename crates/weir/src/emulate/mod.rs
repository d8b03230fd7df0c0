//! `weir emulate`: trading cores and clients of a venue that is not there, so that a delivery store
//! can be seen under its load.

pub mod clients;
pub mod core;
mod metrics;

use clap::Subcommand;
use weir_client::load::Quantiles;

use super::endpoint::span;

/// Options of `weir emulate`.
#[derive(Debug, clap::Args)]
pub struct EmulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Send orders to a node's ingest listener, as outside trading cores do.
    Core(core::CoreArgs),
    /// Follow order state with many clients and tell the delay from creation to client.
    Clients(clients::ClientsArgs),
}

/// Runs `weir emulate`.
///
/// # Errors
/// When the node cannot be reached or refuses the set-up.
pub fn run(args: EmulateArgs) -> anyhow::Result<()> {
    match args.what {
        What::Core(args) => core::run(&args),
        What::Clients(args) => clients::run(&args),
    }
}

/// The heading of a table of times.
fn times_heading() -> String {
    format!(
        "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "mean", "p50", "p90", "p99", "p99.9", "max"
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of spans")]
fn times(name: &str, of: &Quantiles) -> String {
    let tail = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), span);
    format!(
        "{name:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        span(of.mean as u64),
        span(of.p50),
        tail(of.p90),
        tail(of.p99),
        tail(of.p99_9),
        span(of.max)
    )
}

/// Quantiles of counts, for a line of text.
fn counts(of: &Quantiles) -> String {
    let tail = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    format!(
        "mean {:.1}   p50 {}   p90 {}   p99 {}   max {}",
        of.mean,
        of.p50,
        tail(of.p90),
        tail(of.p99),
        of.max
    )
}

fn is_time(time: std::time::Duration) -> bool {
    time.as_secs() <= 86_400
}
