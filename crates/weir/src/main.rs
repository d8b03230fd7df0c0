//! `weir`: one program for the whole of it. Wiring only; the parts are in the library.

use std::process::ExitCode;

use clap::Parser;
use weir_cli::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error:#}");
            ExitCode::FAILURE
        }
    }
}
