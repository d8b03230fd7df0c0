//! `weir-campaign NAME [OPTIONS]`: checks that are too long for the tests, with the code of these
//! tests; `./x campaign NAME` runs them.
//!
//! Each prints one JSON object as its last line and fails on any violation. With the feature
//! `planted` each can plant bugs, to show that it finds them.

mod crash_points;
mod engine_oracle;
mod market_lines;
mod properties;

use std::process::ExitCode;

use clap::Parser;
use weir_campaign::soak;

/// Checks that are too long for the tests.
#[derive(Debug, Parser)]
#[command(name = "weir-campaign", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, clap::Subcommand)]
enum Campaign {
    /// The fast and the naive engine on random commands, up to the first difference.
    EngineOracle(engine_oracle::OracleArgs),
    /// The log through a loss of power at every write point of recorded workloads.
    CrashPoints(crash_points::CrashArgs),
    /// Messages over two lossy lines, each compared with a model.
    MarketLines(market_lines::LinesArgs),
    /// All property tests, each with many seeds.
    Properties(properties::PropertiesArgs),
    /// A whole node at work for hours: what clients are told, and that nothing grows.
    Soak(soak::SoakArgs),
}

fn main() -> ExitCode {
    match Args::parse().campaign {
        Campaign::EngineOracle(args) => engine_oracle::run(&args),
        Campaign::CrashPoints(args) => crash_points::run_campaign(&args),
        Campaign::MarketLines(args) => market_lines::run(&args),
        Campaign::Properties(args) => properties::run(&args),
        Campaign::Soak(args) => soak::run(&args),
    }
}
