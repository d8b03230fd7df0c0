//! The command line of the project's own checks: `cargo run -p xtask -- tidy`.
//!
//! This file only handles arguments; the checks are in `xtask::tidy`, which the test of the same
//! name runs too. Exits 0 when the tree is tidy, 1 with one line per finding when it is not.

use std::path::Path;
use std::process::ExitCode;

use xtask::tidy;

const USAGE: &str = "usage: cargo run -p xtask -- tidy [--tighten]

  tidy            check the tree; one line per finding, exit 1 when there are any
  tidy --tighten  also lower every entry of xtask/ratchet.txt to today's size; raises none";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let tighten = match args.as_slice() {
        ["tidy"] => false,
        ["tidy", "--tighten"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match tidy::run(&root, tighten) {
        Ok(report) => {
            println!("{report}");
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("tidy could not read the tree: {error}");
            ExitCode::from(2)
        }
    }
}
