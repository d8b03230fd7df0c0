//! The programs that benchmarks start as processes: the shipped `weir`, and this program itself for
//! the parts that only benchmarks need.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, ensure};

/// The shipped program: `WEIR_BIN`, or `weir` in the directory of this program, where
/// `cargo build --release -p weir` places it.
///
/// # Errors
/// The file does not exist.
pub fn weir() -> anyhow::Result<Command> {
    let path = match std::env::var_os("WEIR_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe().context("this program's own path")?.with_file_name("weir"),
    };
    let build =
        "build it in the same profile (cargo build --release -p weir) or name it by WEIR_BIN";
    ensure!(path.is_file(), "{} does not exist: {build}", path.display());
    Ok(Command::new(path))
}

/// This program.
///
/// # Errors
/// The system does not report its path.
pub fn this() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("this program's own path")?))
}

/// Reads a number of the command line, which may have underscores between its digits.
///
/// # Errors
/// The text is not a number.
pub fn number<N: FromStr>(text: &str) -> Result<N, N::Err> {
    text.replace('_', "").parse()
}
