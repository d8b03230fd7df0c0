//! `weir`: one program for the whole of it. Wiring only; the parts are in the library.

use std::process::ExitCode;

use clap::Parser;
use weir_cli::Cli;
use weir_cli::admin::NotKnownYet;

/// The error and its causes, each said once.
fn text_of(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        text += if text.is_empty() { "" } else { ": " };
        text += &cause;
    }
    text
}

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {}", text_of(&error));
            if error.is::<NotKnownYet>() {
                return ExitCode::from(NotKnownYet::EXIT_STATUS);
            }
            ExitCode::FAILURE
        }
    }
}
