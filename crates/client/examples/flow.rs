//! Packs a file of order flow, or replays it against the tests' slow book and prints the report.
//!
//! `flow pack IN OUT.wflow` and `flow report FILE…`; files of any format that `flow::load` reads.

use std::path::Path;
use std::process::ExitCode;

use weir_client::flow::{encode, load, report};

#[path = "../tests/flow/slow_book.rs"]
mod slow_book;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["pack", from, to] => pack(Path::new(from), Path::new(to)),
        ["report", files @ ..] => files.iter().try_for_each(|file| print_report(Path::new(file))),
        _ => Err("usage: flow pack IN OUT.wflow | flow report FILE…".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn pack(from: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let flow = load(from)?;
    let bytes = encode(&flow.header, &flow.items)?;
    std::fs::write(to, &bytes)?;
    println!("{}: {} items in {} bytes", to.display(), flow.items.len(), bytes.len());
    Ok(())
}

fn print_report(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let flow = load(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (report, _) = report(&name, &flow.items, slow_book::SlowBook::default());
    println!("{report}");
    Ok(())
}
